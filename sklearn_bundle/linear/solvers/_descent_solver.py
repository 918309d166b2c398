"""Descent on a smooth objective as a solver: the best point, and a bound from its derivatives."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.problems.linear_rounding import Certified, rounding
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, LinearStart, PointToStart
from sklearn_bundle.linear.solvers.linear_task import LinearSolver, Task
from sklearn_bundle.linear.solvers.protocols import Points, require

Array = NDArray[np.float64]

_ADVICE = "center and scale the features"
_USEFUL_GAP = 0.5  # of the gap: a plane that promises no less is not computed


class SmoothDescent(Protocol):
    """A point that moves down ``reg_lambda/2 ||w||^2 + R``.

    Attributes
    ----------
    n_steps : int
        Steps so far.
    """

    n_steps: int

    @property
    def w(self) -> Array:
        """Weights of the point, not written to again."""
        ...

    @property
    def intercept(self) -> float | Array:
        """Intercept of the point, not written to again."""
        ...

    @property
    def objective(self) -> float:
        """The objective at the point."""
        ...

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point, if its derivatives balance."""
        ...

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        ...

    def plane(self) -> tuple[Array, float]:
        """A plane ``R(v, b) >= <a, v> + c`` for all v and b, from the derivatives at the point."""
        ...

    def attach(self, problem: Any) -> None:
        """Continue with the same data in another object."""
        ...

    def detach(self) -> None:
        """Release the data."""
        ...


D = TypeVar("D", bound=SmoothDescent)


class DescentSolver(LinearSolver, Generic[D]):
    """Base class of descent methods: the point of a descent, and the bound from its derivatives.

    Derivatives of a smooth loss in its scores are a dual point; once balanced, they give a plane.
    It is computed only if it promises to halve the gap: by the gradient, its gap is
    ``||grad J||^2 / (2 reg_lambda)`` if balanced.

    Parameters
    ----------
    problem
        Must offer what the class ``needs``.
    reg_lambda : float
        The regularizer is ``||w||^2 / 2``.
    tol : float
        The requested relative gap.
    start : (ndarray, intercept)
        Point to start from; by default w = 0 with the intercept that fits the targets.
    dual_certificate : DualCertificate
        A dual certificate to start from, if its reg_lambda is the same.

    Attributes
    ----------
    plane : (ndarray, float)
        The plane (a, c) that proves the bound ``c - ||a||^2 / (2 reg_lambda)``.
    """

    def __init__(
        self,
        problem: Points,
        reg_lambda: float,
        *,
        tol: float,
        start: PointToStart | None = None,
        dual_certificate: DualCertificate | None = None,
    ):
        require(problem, self.needs, self.name, "line-search", self.form)
        super().__init__(problem, reg_lambda, L2(), dual_certificate, advice=_ADVICE)
        self._problem, self._tol, self._start = problem, tol, start
        self._descent: D | None = None
        self._spent = 0  # passes, as of the last problem that was released
        self._passes_before = problem.passes

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from the last point."""
        dual_certificate = kept.certificate_of(task.problem.dimension)
        return cls(
            task.problem,
            task.reg_lambda,
            tol=task.tol,
            start=kept.point,
            dual_certificate=dual_certificate,
        )

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start."""
        return LinearStart(point, self._best.dual_certificate)

    def attach(self, problem: Points) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        self._passes_before = problem.passes - self._spent
        if self._descent is not None:
            self._descent.attach(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        self._spent = self._problem.passes - self._passes_before
        super().detach()
        if self._descent is not None:
            self._descent.detach()

    def states(self) -> Iterator[State]:
        """One state per step; the first is the start. Ends when nothing is left to gain."""
        descent = self._descent
        if descent is None:
            descent = self._descent = self._begin(self._start)
            self._evaluate(descent)
            yield self._state()
        elif self._idle >= IDLE_LIMIT:  # the last run ended this way
            yield self._state()
            return
        while self._idle < IDLE_LIMIT:
            self._prepare_step(descent)
            moved = descent.step()
            gap = self._best.gap
            self._evaluate(descent)
            self._count_idle(gap, moved=moved)
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the kept plane.

        The descent then continues as if it had not been confirmed.
        """
        best, spent = self._best, self._problem.passes
        point = self._problem.point(best.point.w, best.point.intercept)
        objective = self._objective(point.w, self._problem.risk(point))
        certified = Certified(point.w, point.intercept, objective, self.plane)
        taken = rounding(self._problem, point, certified, self._omega, self._lambda)
        kept, bound = (
            Point(point.w, None, point.intercept),
            best.dual_certificate.bound(self._omega),
        )
        best.recompute(objective, kept, bound, best.dual_certificate, rounding=taken)
        self._passes_before += self._problem.passes - spent
        return self._state()

    def _evaluate(self, descent: D) -> None:
        """Offer the descent's point, and its plane if it promises enough."""
        best = self._best
        best.offer(descent.objective, Point(descent.w, None, descent.intercept))
        gap, predicted_gap = best.gap, descent.predicted_gap
        within = predicted_gap <= self._tol * best.primal
        if within or predicted_gap <= _USEFUL_GAP * gap or self._idle or descent.n_steps == 0:
            dual_certificate = DualCertificate(self._lambda, descent.plane())
            best.raise_bound(dual_certificate.bound(self._omega), dual_certificate)

    def _state(self) -> State:
        point = self._best.point
        passes = self._problem.passes - self._passes_before
        return self._best.state(point.w, point.intercept, passes, further=(self.name,))

    @abstractmethod
    def _begin(self, start: PointToStart | None) -> D:
        """Return the descent at its start."""

    def _prepare_step(self, descent: D) -> None:
        """Hook before each step; does nothing here."""
        return
