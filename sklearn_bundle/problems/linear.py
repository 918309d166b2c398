"""Empirical risk of a linear model with a free intercept, and its cutting planes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from sklearn_bundle._compiled import design
from sklearn_bundle._jit import frozen
from sklearn_bundle._parallel import BlockRunner, column_ranges, row_blocks
from sklearn_bundle.losses.base import Loss

Array = NDArray[np.float64]

LARGEST_RISK = 1e100  # squares of what is larger overflow
# Leaving out rows breaks the stream that the processor prefetches: with rows of several cache lines
# it is faster to read all of them, unless few have a weight (MNIST: up to twice as fast).
_LONG_ROW = 64
_MANY_COLUMNS = 1 << 18  # 2 MB of sums: more of them, one a block of rows, cost much to add up
_TINY = 1e-300
_LARGEST_DRIFT = 1e3  # times the rounding of a product: an error of about 1e-13


@dataclass
class Point:
    """Weights w with their scores (without b) and the intercept that goes with them.

    ``drift`` bounds the rounding in the scores, in units of that of a fresh product.
    """

    w: Array
    scores: Array | None
    intercept: float | Array | None
    drift: float = 1.0


@dataclass
class Plane:
    """``R(v) >= <gradient, v> + offset`` for all v, with the risk R(w) where it was cut.

    Where the intercept is a coordinate, ``R(v, b) >= <gradient, v> + <balance, b> + offset``.
    """

    gradient: Array
    offset: float
    risk: float
    balance: Array | None = None


class Design:
    """The data matrix as an operator: X W' and G'X over row blocks, counting passes.

    With k outputs w has shape (k d,), an output after the other, and scores (n, k).
    """

    def __init__(
        self,
        X: np.ndarray | sp.spmatrix | sp.sparray,
        runner: BlockRunner,
        n_outputs: int | None = None,
    ):
        n, d = self.shape = X.shape
        self.passes = 0
        self.n_outputs = n_outputs
        self._runner = runner
        many = "" if n_outputs is None else "_many"
        kind = "csr" if sp.issparse(X) else "dense"
        if sp.issparse(X):
            unsigned = np.uint32 if X.indices.dtype == np.int32 else np.uint64
            indices = np.asarray(X.indices).view(unsigned)
            self._arrays = frozen(X.data), frozen(indices), X.indptr.astype(np.uint64)
        else:
            self._arrays = (frozen(X),)
        self._scores = getattr(design, f"{kind}_scores{many}")
        self._gradient = getattr(design, f"{kind}_gradient{many}")
        n_entries = len(self._arrays[1]) if sp.issparse(X) else X.size
        self._skip = n_outputs is not None or n_entries <= _LONG_ROW * n
        of_outputs = () if n_outputs is None else (n_outputs,)
        self.scores_shape = (n, *of_outputs)
        self._bounds = row_blocks(n_entries, n, 1)
        self._gradient_bounds = row_blocks(n_entries, n, d * (n_outputs or 1))
        self._columns = None
        if sp.issparse(X) and n_outputs is None and d > _MANY_COLUMNS:
            self._columns = column_ranges(self._arrays[1], d, runner.n_threads)
        else:
            self._partial = np.empty((len(self._gradient_bounds) - 1, d, *of_outputs))

    @property
    def nbytes(self) -> int:
        """Bytes of X that a pass over all rows reads."""
        return sum(array.nbytes for array in self._arrays)

    def scores(self, w: Array) -> Array:
        """X w."""
        out = np.empty(self.scores_shape)
        w = np.ascontiguousarray(w if self.n_outputs is None else w.reshape(self.n_outputs, -1).T)
        bounds = self._bounds
        self._runner.run(
            lambda k: self._scores(*self._arrays, w, bounds[k], bounds[k + 1], out),
            len(bounds) - 1,
        )
        self.passes += 1
        return out

    def gradient(self, g: Array) -> Array:
        """X'g: parts of blocks of rows summed in order, or each column's sum by itself."""
        self.passes += 1
        g = np.ascontiguousarray(g)
        if self._columns is not None:
            return self._gradient_by_columns(g)
        bounds, partial, skip = self._gradient_bounds, self._partial, self._skip
        self._runner.run(
            lambda k: self._gradient(*self._arrays, g, skip, bounds[k], bounds[k + 1], partial[k]),
            len(bounds) - 1,
        )
        total = partial.sum(axis=0)
        return total if self.n_outputs is None else total.T.ravel()

    def _gradient_by_columns(self, g: Array) -> Array:
        """A thread a range of columns, each of them reading all rows: no sums of parts."""
        out, ranges, args = np.empty(self.shape[1]), self._columns, (*self._arrays, g, self._skip)
        if len(ranges) == 2:
            self._gradient(*args, 0, len(g), out)
        else:
            self._runner.run(
                lambda k: design.csr_gradient_columns(*args, ranges[k], ranges[k + 1], out),
                len(ranges) - 1,
            )
        return out


def mean_square(X: np.ndarray | sp.spmatrix | sp.sparray, weights: Array) -> float:
    """Weighted mean of the rows' squared lengths."""
    norms = row_norms(X, squared=True)
    return float(weights @ norms)


class LinearProblem:
    """``R(w) = min_b R(X w + b)``, with b = 0, or ``R(w, b)`` with b a coordinate of its own.

    Which of these is up to ``fit_intercept`` and to what the loss does with an intercept. Offers
    :meth:`evaluate`, the cutting-plane protocol, and what an exact line search needs: points with
    their scores, which are linear, so that a step costs no product with X.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d), float32 or float64
    y : what the loss takes for a target
    weights : ndarray of shape (n,), positive, summing to one
    loss : Loss
    fit_intercept : bool
    n_threads : int
        Threads over row blocks.
    """

    def __init__(self, X, y, weights, loss: Loss, fit_intercept: bool, n_threads: int = 1):
        self._runner = BlockRunner(n_threads)
        self._design = Design(X, self._runner, loss.n_outputs(y))
        self._y = y
        self._weights = weights
        self._X, self._loss = X, loss
        self.fit_intercept = fit_intercept and loss.free_intercept == "minimised"
        joint = fit_intercept and loss.free_intercept == "joint"
        self.n_free = self.n_outputs if joint else 0
        #: Square of the w that changes scores as much as an intercept of 1, about.
        self.intercept_scale = 1.0 / max(mean_square(X, weights), _TINY) if joint else 1.0

    @cached_property
    def _derivatives(self) -> Array:
        return np.empty(self._design.scores_shape)

    @cached_property
    def _scratch(self) -> Array:
        return np.empty((4, len(self._weights)))

    @cached_property
    def _along(self) -> Array:
        return np.empty((2, int(np.prod(self._design.scores_shape))))

    @property
    def n_features(self) -> int:
        return self._design.shape[1]

    @property
    def n_entries(self) -> int:
        """Stored entries of X."""
        return self._X.nnz if sp.issparse(self._X) else self._X.size

    @property
    def n_outputs(self) -> int:
        """Scores a sample."""
        return self._design.n_outputs or 1

    @property
    def dimension(self) -> int:
        """Length of w."""
        return self.n_features * self.n_outputs

    @property
    def passes(self) -> int:
        """Products with X or X' so far."""
        return self._design.passes

    @property
    def loss(self) -> Loss:
        return self._loss

    @property
    def parts(self) -> tuple:
        """X, y and weights, whether there is a free intercept, and what runs products with X."""
        return self._X, self._y, self._weights, self.fit_intercept, self._runner, self._design

    def __enter__(self) -> "LinearProblem":
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w) and a subgradient; infinity, and zeros, where numbers overflow."""
        plane = self.cut(self.point(w))
        return (np.inf, np.zeros_like(w)) if plane is None else (plane.risk, plane.gradient)

    def point(self, w: Array, intercept: Array | None = None) -> Point:
        """The point w with its scores: one product with X, none at w = 0."""
        scores = self._design.scores(w) if w.any() else np.zeros(self._design.scores_shape)
        if intercept is None:
            intercept = np.zeros(self.n_free) if self.n_free else 0.0
        return Point(w, scores, intercept)

    def cut(self, point: Point, risk_limit: float = LARGEST_RISK) -> Plane | None:
        """Cutting plane at ``point``, whose intercept becomes the best one: one product with X'.

        None, and no product, where the risk is above ``risk_limit`` or not a number.
        """
        scores = point.scores + point.intercept if self.n_free else point.scores
        free = self.fit_intercept
        args = self._y, self._weights, free, self._derivatives, self._scratch
        cut = self._loss.cut(scores, *args)
        if free:
            point.intercept = cut.intercept
        if not cut.risk <= risk_limit:
            return None
        balance = np.atleast_1d(self._derivatives.sum(axis=0)) if self.n_free else None
        return Plane(self._design.gradient(self._derivatives), cut.offset, cut.risk, balance)

    def set_intercept(self, point: Point) -> None:
        """Make the point's intercept the best one."""
        if self.fit_intercept:
            point.intercept = self._loss.intercept(
                point.scores, self._y, self._weights, self._scratch
            )

    def minimise_intercept(self, point: Point) -> float:
        """R(w); the point's intercept becomes the best one."""
        self.set_intercept(point)
        return self.risk(point)

    def risk(self, point: Point) -> float:
        """Risk at the point with its own intercept."""
        return self._loss.risk(point.scores, self._y, self._weights, point.intercept)

    def line_search(self, start: Point, end: Point, slope: float, curvature: float) -> float:
        """Step t >= 0 along (w, b) from start towards end and beyond that minimises

        ``slope t + curvature t^2/2 + risk``.
        """
        return self._loss.line_search(
            *self._line(start, end), self._y, self._weights, slope, curvature, self._scratch
        )

    def risk_along(self, start: Point, end: Point) -> Callable[[float], tuple[float, float]]:
        """The risk and its derivative at a step from start towards end."""
        scores, direction = self._line(start, end)

        def risk(step: float) -> tuple[float, float]:
            moved, gradient = scores + step * direction, np.empty_like(scores)
            value = self._loss.evaluate(moved, self._y, self._weights, gradient)
            if not np.isfinite(value):
                return np.inf, np.inf  # too far
            return value, float(np.sum(gradient * direction))

        return risk

    def _line(self, start: Point, end: Point) -> tuple[Array, Array]:
        """Scores at the start and their change; valid until the next call."""
        if np.ndim(start.intercept) or np.ndim(end.intercept):
            direction = (end.scores - start.scores) + (end.intercept - start.intercept)
            return start.scores + start.intercept, direction
        scores, direction = self._along
        shifts = float(start.intercept), float(end.intercept)
        design.line(start.scores.ravel(), end.scores.ravel(), *shifts, scores, direction)
        shape = self._design.scores_shape
        return scores.reshape(shape), direction.reshape(shape)

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point start + step (end - start), scores by linearity.

        A step outside of [0, 1] magnifies the rounding in both (near the optimum the direction is
        all rounding and the step 1e14): beyond a limit the scores are computed afresh.
        """
        w = np.empty_like(start.w)
        design.blend(step, start.w, end.w, w)
        intercept = (1.0 - step) * start.intercept + step * end.intercept
        drift = abs(1.0 - step) * start.drift + abs(step) * end.drift
        if drift > _LARGEST_DRIFT:
            return Point(w, self._design.scores(w), intercept)
        scores = np.empty_like(start.scores)
        design.blend(step, start.scores.ravel(), end.scores.ravel(), scores.ravel())
        return Point(w, scores, intercept, drift)
