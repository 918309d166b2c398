"""A linear problem in sample space: ``w = X'v + share start``, for X with many columns.

With the L2 norm and one score per sample, all that a line search needs has one entry per sample. A
point is the array ``(v, f, share)`` of length 2 n + 1 with the scores ``f = X w``; a cutting plane
``a = X'g`` is the array ``(g, X a, 0)``. Both are linear: a sum of such arrays is a point, or a
plane, and inner products need nothing of length d::

    <a, w> = <g, f>,    ||w||^2 = <v, f> + share <v, X start> + share^2 ||start||^2
"""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.problems.linear import (
    LARGEST_DRIFT,
    LARGEST_RISK,
    LinearProblem,
    Plane,
    Point,
)
from sklearn_bundle.linear.problems.linear_rounding import Sizes
from sklearn_bundle.linear.regularizers import Regularizer

Array = NDArray[np.float64]


class SampleNorm(Regularizer):
    """``Omega(w) = ||w||^2 / 2`` of points ``(v, f, share)``.

    Parameters
    ----------
    n_samples : int
    start : ndarray of shape (d,), default=None
        The w that ``share`` multiplies; None is w = 0.
    scores : ndarray of shape (n,), default=None
        X start.
    """

    is_quadratic = True

    def __init__(self, n_samples: int, start: Array | None = None, scores: Array | None = None):
        self.n_samples = n_samples
        self.start = start
        self.scores = scores
        self._square = 0.0 if start is None else float(np.sum(start * start))

    def value(self, w) -> float:
        return 0.5 * self._product(w, w)

    def conjugate(self, m) -> float:
        return self.value(m)

    def conjugate_gradient(self, m) -> Array:
        return m

    def slope(self, w, direction) -> tuple[float, float]:
        return self._product(w, direction), max(self._product(direction, direction), 0.0)

    def _product(self, left: Array, right: Array) -> float:
        n = self.n_samples
        product = np.sum(left[:n] * right[n:-1])
        if self.start is not None and left[-1] != 0.0:
            of_start = np.sum(right[:n] * self.scores) + right[-1] * self._square
            product += left[-1] * of_start
        return float(product)


class SampleSpace:
    """The risk of a :class:`LinearProblem`, at points and with planes as above.

    Attributes
    ----------
    norm : SampleNorm
        The regularizer, which holds the start to which the shares of all points refer.
    nonnegative : bool
        Whether the risk is known to be nonnegative.
    """

    n_free = 0
    intercept_scale = 1.0

    class_loss = None  # there are planes for one score per row only

    def __init__(self, problem: LinearProblem):
        self.attach(problem)
        if problem.n_free or len(problem.scores_shape) > 1:
            raise ValueError(
                "Planes in sample space need a loss with one score per sample whose intercept, if "
                "it has one, is minimized out; use 'line-search'."
            )
        self.n_samples = self._rows.shape[0]
        self.dimension = 2 * self.n_samples + 1
        self.norm = SampleNorm(self.n_samples)
        self._scratch = np.empty((4, self.n_samples))

    def attach(self, problem: LinearProblem) -> None:
        """Represent this problem; points stay valid for another object with the same data."""
        self._linear = problem
        self._rows = problem.rows
        self.nonnegative = problem.nonnegative
        # These need only the scores and the intercept of a point.
        self.set_intercept = problem.set_intercept
        self.risk = problem.risk
        self.line_search = problem.line_search
        self.risk_along = problem.risk_along

    def detach(self) -> None:
        """Release the problem."""
        self._linear = self._rows = ABSENT
        self.set_intercept = self.risk = self.line_search = self.risk_along = ABSENT

    @property
    def passes(self) -> int:
        """Products with X or X' so far."""
        return self._linear.passes

    def start_at(self, w: Array) -> Array:
        """Make w the start of all later points; returns it as a point: one product with X."""
        scores = self._linear.point(w).scores
        self.norm = SampleNorm(self.n_samples, w, scores)
        return np.concatenate([np.zeros(self.n_samples), scores, [1.0]])

    def gradient(self, plane: Array) -> Array:
        """``X'g``, of length d: a product with X'."""
        return self._rows.gradient(plane[: self.n_samples])

    def sizes(self, point: Point) -> Sizes:
        """See :meth:`LinearProblem.sizes`."""
        return self._linear.sizes(point)

    def weights(self, x: Array, norm: SampleNorm) -> Array:
        """w, of length d, of a point that belongs to ``norm``: one product with X'."""
        v, share = x[: self.n_samples], x[-1]
        if share == 1.0 and not v.any():
            return norm.start
        w = self._rows.gradient(v)
        return w if share == 0.0 else w + share * norm.start

    def point(self, x: Array, intercept: float | Array | None, drift: float = 1.0) -> Point:
        """The point x; its scores are recomputed if they carry too much rounding."""
        n = self.n_samples
        if drift > LARGEST_DRIFT:
            x = x.copy()
            x[n:-1] = self._rows.scores(self.weights(x, self.norm))
            drift = 1.0
        return Point(x, x[n:-1], 0.0 if intercept is None else intercept, drift)

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point start + step (end - start); drift as in :meth:`LinearProblem.blend`."""
        x = np.empty(self.dimension)
        design.blend(step, start.w, end.w, x)
        intercept = (1.0 - step) * start.intercept + step * end.intercept
        return self.point(x, intercept, abs(1.0 - step) * start.drift + abs(step) * end.drift)

    def cut_balanced(self, point: Point) -> None:
        """None: there is no intercept that is a coordinate."""

    def cut(self, point: Point, risk_limit: float = LARGEST_RISK) -> Plane | None:
        """Cutting plane at ``point``, as in :meth:`LinearProblem.cut`: products with X' and X.

        (g, offset) is a plane of the risk whatever the rounding in the point's scores.
        """
        problem, n, plane = self._linear, self.n_samples, np.zeros(self.dimension)
        args = problem.target, problem.weights, problem.fit_intercept, plane[:n], self._scratch
        cut = problem.loss.cut(point.scores, *args)
        if problem.fit_intercept:
            point.intercept = cut.intercept
        if not cut.risk <= risk_limit:
            return None
        plane[n:-1] = self._rows.scores(self.gradient(plane))
        return Plane(plane, cut.offset, cut.risk)
