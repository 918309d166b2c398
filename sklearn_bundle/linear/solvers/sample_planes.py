"""The line search of BMRM with planes that have one entry per sample, for X with many columns."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import LinearProblem, LinearRisk, Point
from sklearn_bundle.linear.problems.sample_space import SampleNorm, SampleSpace
from sklearn_bundle.linear.regularizers import L2, Regularizer
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import SampleBundle
from sklearn_bundle.linear.solvers.protocols import offers
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    DualCertificate,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]


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
        bundle, start = kept.sample_bundle, kept.point
        if bundle is None:
            bundle = SampleBundle(space.n_samples)
        bundle.resize(task.max_size)
        w, intercept = (None, None) if start is None else start
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
        return LinearStart(point, self.dual_certificate, sample_bundle=self.bundle)

    def _state(self) -> LazyState:
        make_w = partial(self._space.weights, self.best.point.w, self._omega)
        return LazyState(super()._state(), make_w)
