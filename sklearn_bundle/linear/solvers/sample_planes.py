"""The line search of BMRM with planes that have one entry per sample, for X with many columns.

With the L2 norm and one score per sample, all that a line search needs has one entry per sample:
``w = X'v + share start``. A point is the array ``(v, f, share)`` of length 2 n + 1 with the scores
``f = X w``; a cutting plane ``a = X'g`` is the array ``(g, X a, 0)``. Both are linear: a sum of
such arrays is a point, or a plane, and inner products need nothing of length d::

    <a, w> = <g, f>,    ||w||^2 = <v, f> + share <v, X start> + share^2 ||start||^2
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import (
    LARGEST_DRIFT,
    LARGEST_RISK,
    LinearProblem,
    LinearRisk,
    Plane,
    Point,
)
from sklearn_bundle.linear.problems.linear_rounding import Sizes
from sklearn_bundle.linear.regularizers import L2, Regularizer
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.protocols import offers
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    DualCertificate,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]


class SampleNorm(Regularizer):
    """``Omega(w) = ||w||^2 / 2`` of points ``(v, f, share)``.

    Parameters
    ----------
    n_samples : int
    origin : ndarray of shape (d,), default=None
        The w that ``share`` multiplies; None is w = 0.
    scores : ndarray of shape (n,), default=None
        X times it.
    """

    is_quadratic = True

    def __init__(self, n_samples: int, origin: Array = ABSENT, scores: Array = ABSENT):
        self.n_samples = n_samples
        self.origin = origin
        self.scores = scores
        self._square = 0.0 if origin is None else float(np.sum(origin * origin))

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
        if self.origin is not None and left[-1] != 0.0:
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
        self.nonnegative, self.loss = problem.nonnegative, problem.loss
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
        """Sizes of the terms of sums at the point, which bound their rounding."""
        return self._linear.sizes(point)

    def weights(self, x: Array, norm: SampleNorm) -> Array:
        """w, of length d, of a point that belongs to ``norm``: one product with X'."""
        v, share = x[: self.n_samples], x[-1]
        if share == 1.0 and not v.any():
            return norm.origin
        w = self._rows.gradient(v)
        return w if share == 0.0 else w + share * norm.origin

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


class SampleBundle(Bundle):
    """Planes ``(g, X X'g, 0)`` of length 2 n + 1.

    They depend on the data and the loss, but not on reg_lambda or on a point.
    """

    def __init__(self, n_samples: int, max_size: int | None = None):
        self._n_samples = n_samples
        super().__init__(2 * n_samples + 1, max_size, SampleNorm(n_samples))

    def cancellation(self) -> float:
        """How much larger the planes are than their alpha-weighted mean: at least 1."""
        alpha, gram = self.alpha, self._gram[: self.size, : self.size]
        together = np.sqrt(max(float(alpha @ gram @ alpha), 0.0))
        apart = float(alpha @ np.sqrt(np.diagonal(gram)))
        return apart / together if together > 0.0 else np.inf

    def _image(self, plane: Array) -> Array:
        image = np.zeros_like(plane)
        n = self._n_samples
        image[:n] = plane[n:-1]
        return image


class LazyState(State):
    """A state whose point is computed on first use."""

    def __init__(self, state: State, make_w: Callable[[], Array]):
        vars(self).update(vars(state))
        del self.point
        self._make_w = make_w

    @cached_property
    def point(self) -> Array:
        return self._make_w()


class SamplePlanesSolver(BundleSolver):
    """Algorithm 3 of the paper as in :class:`BundleSolver`, with 2 n numbers per plane, not d.

    The iterates are the same up to rounding, for the same products: one with X and one with X' per
    iteration. A w of length d is made at the end, and if a callback needs it. The certificate is
    that of w and of a plane ``(X'g, c)``, both recomputed.

    The loss must have one score per sample, and the regularizer is ``||w||^2 / 2``.

    Attributes
    ----------
    plane : (ndarray of shape (2 n + 1,), float)
        The aggregate plane (a, c) that proves the bound; its first n numbers are g, ``a = X'g``.
    """

    bundle: SampleBundle
    _omega: SampleNorm

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        space = SampleSpace(task.problem)
        bundle = kept.of(SampleBundle) or SampleBundle(space.n_samples)
        bundle.resize(task.max_size)
        w, intercept = (None, None) if kept.point is None else kept.point
        x = np.zeros(space.dimension) if w is None or not w.any() else space.start_at(w)
        super().__init__(
            space,
            task.reg_lambda,
            theta=task.theta,
            bundle=bundle,
            start=(x, intercept),
            dual_certificate=kept.dual_certificate,
        )
        self.name = "sample-planes"
        self._space = space
        self._omega = space.norm
        self._drift = 1.0  # of the scores of w_t

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from planes in sample space if there are any."""
        return cls(task, kept)

    @classmethod
    def supports(cls, name: str, loss: Loss, omega: Regularizer) -> bool:
        """Whether the regularizer is ``||w||^2 / 2``."""
        return omega.is_euclidean

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether planes with one entry per sample are possible and shorter."""
        if not offers(task.problem, LinearRisk):
            return False
        problem = task.problem
        with_one_score = not problem.n_free and len(problem.scores_shape) == 1
        return with_one_score and problem.n_features > 2 * problem.n_samples

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        self._space.attach(problem)

    def detach(self) -> None:
        """Release the problem."""
        self._space.detach()

    def solve_inner(self) -> tuple[Array, Array | None]:
        inner = super().solve_inner()
        self._drift = self.bundle.cancellation()
        return inner

    def _point(self, x: Array, intercept: float | Array | None) -> Point:
        return self._space.point(x, intercept, self._drift)

    def _fresh_point(self, point: Point) -> Point:
        """The point whose start is its w, of length d, so that scores and norm are those of w."""
        w = self._space.weights(point.w, self._omega)
        x = self._space.start_at(w)
        self._omega = self._space.norm
        return self._space.point(x, point.intercept)

    def _in_features(
        self, w: Array, dual_certificate: DualCertificate
    ) -> tuple[L2, Array, DualCertificate]:
        g, offset = dual_certificate.plane
        plane = self._space.gradient(g), offset
        return L2(), self._space.weights(w, self._omega), dual_certificate._replace(plane=plane)

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: point, planes in sample space, dual certificate."""
        return LinearStart(point, self.dual_certificate, state=self.bundle)

    def _state(self) -> LazyState:
        make_w = partial(self._space.weights, self.best.point.w, self._omega)
        return LazyState(super()._state(), make_w)
