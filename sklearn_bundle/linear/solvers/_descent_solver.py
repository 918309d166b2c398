"""Descent on a smooth objective as a solver: the best point, and a bound from its derivatives."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.linear_rounding import Certified, rounding
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.linear_start import LinearStart, Proof
from sklearn_bundle.linear.solvers.linear_task import LinearSolver, Task
from sklearn_bundle.linear.solvers.protocols import require

Array = NDArray[np.float64]

_ADVICE = "center and scale the features"
_WORTH = 0.5  # of the gap: a plane that promises no less is not computed
_ROUNDING = 1e-15  # of the objective: a gap that falls by less has not fallen
_IDLE_LIMIT = 8  # steps without progress, after which only rounding is left


class SmoothDescent(Protocol):
    """A point that moves down ``reg_lambda/2 ||w||^2 + R``.

    Attributes
    ----------
    w, intercept : the point; arrays are not written to again
    objective : at the point
    promised : the gap to the plane at the point, if its derivatives balance
    n_steps : so far
    """

    w: Array
    intercept: float | Array
    objective: float
    promised: float
    n_steps: int

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        ...

    def plane(self) -> tuple[Array, float]:
        """A plane ``R(v, b) >= <a, v> + c`` for all v and b, from the derivatives at the point."""
        ...

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same data in another object."""
        ...

    def detach(self) -> None:
        """Release the data."""
        ...


class DescentSolver(LinearSolver):
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
    proof : Proof
        Proof of a bound to start from, if its reg_lambda is the same.

    Attributes
    ----------
    plane : (ndarray, float)
        The plane (a, c) that proves the bound ``c - ||a||^2 / (2 reg_lambda)``.
    """

    history_fields: ClassVar[tuple] = (("solver", "U16"),)
    name: ClassVar[str]

    def __init__(
        self,
        problem: LinearProblem,
        reg_lambda: float,
        *,
        tol: float,
        start: tuple[Array, float | Array | None] | None = None,
        proof: Proof | None = None,
    ):
        require(problem, self.needs, self.name, "line-search")
        self._problem, self._lambda, self._tol = problem, reg_lambda, tol
        self._omega = L2()
        self._start = start
        self._best = Best(least=0.0, advice=_ADVICE)
        self._best.proof = Proof(reg_lambda, (np.zeros(problem.dimension), 0.0))
        if proof is not None and proof.reg_lambda == reg_lambda:
            self._best.prove(proof.bound(self._omega), proof)
        self._descent: SmoothDescent | None = None
        self._idle = 0  # steps since the gap last became smaller
        self._spent = 0  # passes, as of the last problem that was released
        self._passes_before = problem.passes

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """See :class:`LinearSolver`: from the last point."""
        proof = kept.proof_of(task.problem.dimension)
        return cls(task.problem, task.reg_lambda, tol=task.tol, start=kept.point, proof=proof)

    @property
    def plane(self) -> tuple[Array, float]:
        """The plane of the proof."""
        return self._best.proof.plane

    def kept(self, point: tuple[Array, float | Array | None]) -> LinearStart:
        """Where a new solver may start."""
        return LinearStart(point, self._best.proof)

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._passes_before = problem.passes - self._spent
        if self._descent is not None:
            self._descent.attach(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        self._spent = self._problem.passes - self._passes_before
        self._problem = ABSENT
        if self._descent is not None:
            self._descent.detach()

    def states(self) -> Iterator[State]:
        """One state per step; the first is the start. Ends when nothing is left to gain."""
        if self._descent is None:
            self._descent = self._begin(self._problem, self._start)
            self._look()
            yield self._state()
        elif self._idle >= _IDLE_LIMIT:  # the last run ended this way
            yield self._state()
            return
        while self._idle < _IDLE_LIMIT:
            self._prepare_step()
            moved = self._descent.step()
            gap = self._best.gap
            self._look()
            gained = gap - self._best.gap
            progress = moved and gained > _ROUNDING * abs(self._best.primal)
            self._idle = 0 if progress else self._idle + 1
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the kept plane.

        The descent then continues as if it had not been confirmed.
        """
        best, spent = self._best, self._problem.passes
        point = self._problem.point(best.point.w, best.point.intercept)
        objective = self._lambda * self._omega.value(point.w) + self._problem.risk(point)
        certified = Certified(point.w, point.intercept, objective, self.plane)
        taken = rounding(self._problem, point, certified, self._omega, self._lambda)
        kept, bound = Point(point.w, None, point.intercept), best.proof.bound(self._omega)
        best.renew(objective, kept, bound, best.proof, rounding=taken)
        self._passes_before += self._problem.passes - spent
        return self._state()

    def _look(self) -> None:
        """Offer the descent's point, and its plane if it promises enough."""
        descent, best = self._descent, self._best
        best.offer(descent.objective, Point(descent.w, None, descent.intercept))
        gap, promised = best.gap, descent.promised
        within = promised <= self._tol * best.primal
        if within or promised <= _WORTH * gap or self._idle or descent.n_steps == 0:
            proof = Proof(self._lambda, descent.plane())
            best.prove(proof.bound(self._omega), proof)

    def _state(self) -> State:
        point = self._best.point
        passes = self._problem.passes - self._passes_before
        return self._best.state(point.w, point.intercept, passes, further=(self.name,))

    @abstractmethod
    def _begin(
        self, problem: LinearProblem, start: tuple[Array, float | Array | None] | None
    ) -> SmoothDescent:
        """Return the descent at its start."""

    def _prepare_step(self) -> None:
        """Hook before each step; does nothing here."""
        return
