"""The risk of a linear model at points, along lines and as planes: three kinds of problem.

``R(w, b) = R(X w + b)`` of one score per row, of one score per class, or given by its planes. A
free intercept of a single score is always minimized out: ``R(w) = min_b R(w, b)``. The derivatives
g in the scores then sum to zero, so that ``R(v, c) >= <X'g, v> + offset`` for all v and all
intercepts c. Other intercepts are coordinates of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.losses import Loss, Softmax
from sklearn_bundle.linear.rows import Rows

Array = NDArray[np.float64]
Line = Callable[[float], tuple[float, float, float]]  # a step: risk, first and second derivative
_NEAR = 1e-3  # of the scores' size: where derivatives of a loss by planes or classes are also taken


@dataclass
class Point:
    """Weights with their scores, without the intercept, and what is known there.

    ``w`` has the outputs one after the other; ``g`` are derivatives of the risk in the scores,
    which make the plane ``<gradient, v> + balance . c + offset``.
    """

    w: Array
    scores: Array
    b: Any
    risk: float = np.nan
    g: Any = None
    offset: float = np.nan
    gradient: Any = None


class Plane(NamedTuple):
    """``R(v, c) >= <gradient, v> + <balance, c> + offset``, with the sizes of the derivatives g.

    ``norms`` are ``||g||`` of each output, ``total`` is ``sum |g|``, ``terms`` the size of what the
    offset is a sum of: rounding is proportional to these.
    """

    gradient: Array
    offset: float
    balance: Array
    norms: Array
    total: float
    terms: float

    def times(self, share: float) -> "Plane":
        """The multiple of the plane, of a risk that is nowhere negative."""
        parts: Any = (share * part for part in self)
        return Plane(*parts)


class Sizes(NamedTuple):
    """Sizes of derivatives near a point: ``||G||`` and ``sum G`` per output, other terms."""

    norms: Array
    totals: Array
    terms: float = 0.0

    @classmethod
    def of(cls, G: Array, terms: float = 0.0) -> "Sizes":
        G = np.atleast_2d(G)
        return cls(np.sqrt(np.einsum("ki,ki->k", G, G)), G.sum(axis=1), terms)


class Risk(ABC):
    """A convex risk R of scores that are linear in w."""

    loss: Any
    free: bool  # whether an intercept is minimized out
    n_free: int  # intercepts that are coordinates of their own

    def __init__(self, rows: Rows, y: Any, weights: Array, loss: Loss, fit_intercept: bool):
        self.rows, self.y, self.weights, self.loss = rows, y, weights, loss
        self.n_outputs: Any = loss.n_outputs(y)
        self.free = fit_intercept and loss.free_intercept == "minimized"
        own = fit_intercept and loss.free_intercept is not None and not self.free
        self.n_free = (self.n_outputs or 1) if own else 0

    @property
    def dimension(self) -> int:
        """Length of w."""
        return self.rows.shape[1] * (self.n_outputs or 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of w, with a row per output if there are several."""
        d = self.rows.shape[1]
        return (d,) if self.n_outputs is None else (self.n_outputs, d)

    def first_intercepts(self) -> Any:
        """A good b at w = 0, where it is a coordinate; None of others."""
        return None

    def limit(self, seconds: float | None) -> None:
        """Give rounds on workers so much time from now on; in memory solvers see to it."""
        return

    def scores(self, w: Array) -> Array:
        """``X w``: one product, none at w = 0."""
        if w.any():
            return self.rows.scores(w.reshape(self.shape))
        return np.zeros((*self.shape[:-1], self.rows.shape[0]))

    def at(self, w: Array, b: Any = None) -> Point:
        """The point w with its risk and derivatives, at the best intercept or at ``b``."""
        b = np.zeros(self.n_free) if b is None and self.n_free else b
        return self.arrive(w, self.scores(w), 0.0 if b is None else b)

    @abstractmethod
    def arrive(self, w: Array, scores: Array, b: Any) -> Point:
        """The same with known scores: no product."""

    @abstractmethod
    def value(self, scores: Array, b: Any) -> float:
        """The risk with this intercept."""

    @abstractmethod
    def line(self, start: Point, end: Point) -> Line:
        """The risk along the line from start through end, with its derivatives.

        The second derivative is NaN where the loss has none.
        """

    def gradient(self, point: Point) -> Array:
        """``X'g``: one product, once."""
        if point.gradient is None:
            point.gradient = self.rows.gradient(point.g).ravel()
        return point.gradient

    def plane(self, point: Point) -> Plane:
        """The plane of the point's derivatives."""
        g = np.atleast_2d(point.g)
        sizes = np.abs(g)
        balance = g.sum(axis=1) if self.n_free else np.zeros(0)
        total, terms = float(sizes.sum()), abs(point.offset) + self.size_of_targets(sizes)
        norms = np.sqrt(np.einsum("ki,ki->k", g, g))
        return Plane(self.gradient(point), point.offset, balance, norms, total, terms)

    def reached(
        self, w: Array, b: Any, moving: bool, scores: Array | None = None
    ) -> tuple[float, Any, Sizes]:
        """The risk from the data, an intercept that is better if it may move, and sizes there."""
        scores = self.scores(w) if scores is None else scores
        return self.value(scores, b), b, self.sizes(w, scores, b)

    def proved(self, proof: Any) -> Plane:
        """The plane of a proof, from the data."""
        if proof.plane is not None:
            return proof.plane
        g = proof.derivatives
        return self.plane(Point(np.zeros(0), g, 0.0, np.nan, g, self.offset(g), proof.gradient))

    def offset(self, g: Array) -> float:
        """``-sum_i s_i l*(g_i / s_i)``: of a plane, where no intercept changes it."""
        raise NotImplementedError(f"{type(self.loss).__name__} has no conjugate")

    def sizes(self, w: Array, scores: Array, b: Any) -> Sizes:
        """The largest derivatives at the scores and near them: kinks may be on either side."""
        G = np.zeros_like(scores)
        near = _NEAR * float(np.sqrt(np.mean(np.square(scores))))
        for moved in (scores, (1.0 - _NEAR) * scores, scores - near, scores + near):
            g = self.arrive(np.zeros(0), moved, b).g
            np.maximum(G, np.abs(g), out=G, where=np.isfinite(g))
        return Sizes.of(G)

    def size_of_targets(self, sizes: Array) -> float:
        """``sum |g_i y_i|``, for a loss whose offset has such terms."""
        return 0.0

    def _moved(self, scores: Array, b: Any) -> Array:
        """Scores with intercepts, one or one per output."""
        if not np.any(b):
            return scores
        return scores + (np.ravel(b)[0] if scores.ndim == 1 else np.reshape(b, (-1, 1)))


class ClassRisk(Risk):
    """``sum_i s_i l(y_i, W x_i + b)`` with a score per class or target: scores of shape (K, n)."""

    def arrive(self, w: Array, scores: Array, b: Any) -> Point:
        g = np.empty_like(scores)
        if self.free:
            b = self.loss.closed_intercept(scores, self.y, self.weights)
        risk, offset = self.loss.cut(self._moved(scores, b), self.y, self.weights, g)
        if self.free:  # finer than the spacing of floats at b, which counts times the targets
            g -= np.outer(g.sum(axis=1), self.weights)
            offset = self.offset(g)
        return Point(w, scores, b, risk, g, offset)

    def value(self, scores: Array, b: Any) -> float:
        F = self._moved(scores, b)
        return self.loss.along(F, F, self.y, self.weights, 0.0)[0]

    def line(self, start: Point, end: Point) -> Line:
        F = self._moved(start.scores, start.b)
        direction = self._moved(end.scores, end.b) - F
        return lambda t: self.loss.along(F, direction, self.y, self.weights, t)

    def offset(self, G: Array) -> float:
        return self.loss.offset(G, self.y, self.weights)

    @cached_property
    def shares(self) -> Array:
        """The weights of the classes."""
        return np.bincount(self.y, self.weights, self.n_outputs).astype(float, copy=False)

    def first_intercepts(self) -> Array:
        if not (self.n_free and isinstance(self.loss, Softmax)):
            return np.zeros(self.n_outputs)
        return np.log(self.shares) - np.log(self.shares).mean()

    def balance(self, point: Point) -> Array:
        """The derivatives in the intercepts."""
        return point.g.sum(axis=1)

    def covariance(self, point: Point) -> Array:
        """The second derivatives in the intercepts."""
        return self.loss.covariance(point.g, self.y, self.weights)

    def balanced(self, g: Array, surplus: Array, shares: Array) -> Array:
        """Derivatives that sum to zero for each output, given their sums over all rows."""
        if isinstance(self.loss, Softmax):
            return self.loss.balanced(g, self.y, self.weights, surplus, shares)
        return g - np.outer(surplus, self.weights)

    def balanced_plane(self, point: Point) -> Plane:
        """A plane near that of the point, which no intercept changes."""
        return self.plane(self.balanced_point(point))

    def balanced_point(self, point: Point) -> Point:
        """One that has the derivatives of this plane."""
        g = self.balanced(point.g, self.balance(point), self.shares)
        return Point(point.w, g, 0.0, g=g, offset=self.offset(g))

    def feature_moments(self, whole: bool, exact: bool) -> tuple[Array, Array]:
        """The covariance of the features and their means, or without ``whole`` mean squares."""
        rows, centered, (n, d) = self.rows, self.free or self.n_free > 0, self.rows.shape
        if not whole:
            means = rows.gradient(self.weights) if centered else np.zeros(d)
            return rows.squares(self.weights), means
        # 4 rows a feature, or as many as take no longer than 8 passes, are close enough to all
        enough = max(4 * d, rows.rows_in(8.0))
        drawn = np.arange(0, n, 1 if exact else max(1, n // enough))
        return rows.hessian(drawn, self.weights[drawn] / self.weights[drawn].sum(), centered)


class PlaneRisk(Risk):
    """A risk that is a maximum of planes, which the loss gives: measures, rankings."""

    def arrive(self, w: Array, scores: Array, b: Any) -> Point:
        g = np.empty_like(scores)
        risk, offset = self.loss.cut(self._moved(scores, b), self.y, self.weights, g)
        return Point(w, scores, b, risk, g, offset)

    def value(self, scores: Array, b: Any) -> float:
        return self.loss.risk(self._moved(scores, b), self.y, self.weights)

    def line(self, start: Point, end: Point) -> Line:
        f = self._moved(start.scores, start.b)
        direction, g = self._moved(end.scores, end.b) - f, np.empty_like(f)

        def risk(t: float) -> tuple[float, float, float]:
            value, _ = self.loss.cut(f + t * direction, self.y, self.weights, g)
            return value, float(g @ direction), np.nan

        return risk
