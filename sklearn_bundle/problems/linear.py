"""Empirical risk of a linear model with a free intercept, and its cutting planes."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle._compiled import design
from sklearn_bundle._jit import frozen
from sklearn_bundle._parallel import BlockRunner, row_blocks
from sklearn_bundle.losses.base import BinaryLoss

Array = NDArray[np.float64]

LARGEST_RISK = 1e100  # squares of what is larger overflow
# Leaving out rows breaks the stream that the processor prefetches: with rows of several cache lines
# it is faster to read all of them, unless few have a weight (MNIST: up to twice as fast).
_LONG_ROW = 64
_SKIPPING_PAYS = 0.15
_LARGEST_DRIFT = 1e3  # times the rounding of a product: an error of about 1e-13


@dataclass
class Point:
    """A weight vector with its scores X w (without b) and the intercept that goes with it.

    ``drift`` bounds the rounding in the scores, in units of that of a fresh product.
    """

    w: Array
    scores: Array | None
    intercept: float | None
    drift: float = 1.0


@dataclass
class Plane:
    """``R(v) >= <gradient, v> + offset`` for all v, with the risk R(w) where it was cut."""

    gradient: Array
    offset: float
    risk: float


class Design:
    """The data matrix as an operator: X w and X'g over row blocks, counting passes."""

    def __init__(self, X: np.ndarray | sp.spmatrix | sp.sparray, runner: BlockRunner):
        self.shape = X.shape
        self.passes = 0
        self._runner = runner
        n, d = X.shape
        if sp.issparse(X):
            unsigned = np.uint32 if X.indices.dtype == np.int32 else np.uint64
            indices = np.asarray(X.indices).view(unsigned)
            self._arrays = frozen(X.data), frozen(indices), X.indptr.astype(np.uint64)
            self._scores, self._gradient = design.csr_scores, design.csr_gradient
        else:
            self._arrays = (frozen(X),)
            self._scores, self._gradient = design.dense_scores, design.dense_gradient
        n_entries = len(self._arrays[1]) if sp.issparse(X) else X.size
        self._long_rows = n_entries > _LONG_ROW * n
        self._bounds = row_blocks(n_entries, n, d)
        self._partial = np.empty((len(self._bounds) - 1, d))

    def scores(self, w: Array) -> Array:
        """X w."""
        out = np.empty(self.shape[0])
        bounds = self._bounds
        self._runner.run(
            lambda k: self._scores(*self._arrays, w, bounds[k], bounds[k + 1], out),
            len(bounds) - 1,
        )
        self.passes += 1
        return out

    def gradient(self, g: Array) -> Array:
        """X'g, the blocks' parts summed in order."""
        bounds, partial = self._bounds, self._partial
        skip = not self._long_rows or np.count_nonzero(g) < _SKIPPING_PAYS * len(g)
        self._runner.run(
            lambda k: self._gradient(*self._arrays, g, skip, bounds[k], bounds[k + 1], partial[k]),
            len(bounds) - 1,
        )
        self.passes += 1
        return partial.sum(axis=0)


class LinearProblem:
    """``R(w) = min_b sum_i s_i l(y_i, <w, x_i> + b)``, or with b = 0.

    Offers :meth:`evaluate`, the cutting-plane protocol, and what an exact line search needs:
    points with their scores, which are linear, so that a step costs no product with X.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d), float32 or float64
    y : ndarray of shape (n,), -1.0 or +1.0
    weights : ndarray of shape (n,), positive, summing to one
    loss : BinaryLoss
    fit_intercept : bool
    n_threads : int
        Threads over row blocks.
    """

    def __init__(self, X, y, weights, loss: BinaryLoss, fit_intercept: bool, n_threads: int = 1):
        self._runner = BlockRunner(n_threads)
        self._design = Design(X, self._runner)
        self._y = y
        self._weights = weights
        self._loss = loss
        self.fit_intercept = fit_intercept
        self._derivatives = np.empty(len(y))
        self._scratch = np.empty((4, len(y)))

    @property
    def n_features(self) -> int:
        return self._design.shape[1]

    @property
    def passes(self) -> int:
        """Products with X or X' so far."""
        return self._design.passes

    def __enter__(self) -> "LinearProblem":
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w) and a subgradient; infinity, and zeros, where numbers overflow."""
        plane = self.cut(self.point(w))
        return (np.inf, np.zeros_like(w)) if plane is None else (plane.risk, plane.gradient)

    def point(self, w: Array) -> Point:
        """The point w with its scores: one product with X, none at w = 0."""
        scores = self._design.scores(w) if w.any() else np.zeros(len(self._y))
        return Point(w, scores, 0.0)

    def cut(self, point: Point, risk_limit: float = LARGEST_RISK) -> Plane | None:
        """Cutting plane at ``point``, whose intercept becomes the best one: one product with X'.

        None, and no product, where the risk is above ``risk_limit`` or not a number.
        """
        cut = self._loss.cut(
            point.scores,
            self._y,
            self._weights,
            self.fit_intercept,
            self._derivatives,
            self._scratch,
        )
        point.intercept = cut.intercept
        if not cut.risk <= risk_limit:
            return None
        return Plane(self._design.gradient(self._derivatives), cut.offset, cut.risk)

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
            start.scores + start.intercept,
            (end.scores - start.scores) + (end.intercept - start.intercept),
            self._y,
            self._weights,
            slope,
            curvature,
            self._scratch,
        )

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
        design.blend(step, start.scores, end.scores, scores)
        return Point(w, scores, intercept, drift)
