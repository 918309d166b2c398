"""A linear problem with all arguments of its solver, and what such a solver declares."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, SolverResult, State
from sklearn_bundle.core.limits import LAST_PLACE
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.linear_rounding import Certified, rounding, size_of_terms
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, LinearStart, PointToStart
from sklearn_bundle.linear.solvers.protocols import CuttingPlanes, Points, offers

Array = NDArray[np.float64]


@dataclass
class Task:
    """A linear problem with its regularization, and how it is to be solved.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda : float
    omega : Regularizer
    tol : float
        The requested relative gap.
    theta : float
        See :class:`~.bundle.BundleSolver`.
    max_size : int, default=None
        The largest number of planes; None is no limit.
    """

    problem: LinearProblem
    reg_lambda: float
    omega: Regularizer
    tol: float
    theta: float
    max_size: int | None


@dataclass
class Along:
    """What is known about a path of values before any of them is solved separately.

    Parameters
    ----------
    results : list
        The result of each value, or None.
    start : LinearStart
        Where a remaining value may start, together with the point of the one before.
    """

    results: list[SolverResult | None]
    start: LinearStart


class LinearSolver(ABC):
    """What a solver of linear problems declares, how one is made, and its certificate.

    It is :class:`~.contract.Resumable`, and keeps the best point and the best bound.

    Parameters
    ----------
    problem : CuttingPlanes or Points
    reg_lambda : float
    omega : Regularizer
    dual_certificate : DualCertificate or None
        A dual certificate to start from, if its reg_lambda is the same.
    advice : str
        Why recomputed bounds may cross, and what a user can do.
    least : float
        A lower bound of every objective: 0 if the risk is nowhere negative.
    """

    #: The public name, which goes into the history.
    name: str
    #: Further columns of the history: the solver of an iteration, since others may continue.
    history_fields: ClassVar[tuple] = (("solver", "U16"),)

    #: Multiplications so far whose number per step grows, without the products with X and X'.
    multiplications: float = 0.0

    #: The Protocol that a problem has to offer, or its class,
    needs: ClassVar[type]
    #: and the attribute of it that has the loss in the solver's form.
    form: ClassVar[str | None] = None
    #: Whether the regularizer has to be ``||w||^2 / 2``.
    needs_euclidean: ClassVar[bool] = True

    _problem: Points

    def __init__(
        self,
        problem: CuttingPlanes | Points,
        reg_lambda: float,
        omega: Regularizer,
        dual_certificate: DualCertificate | None,
        *,
        advice: str,
        least: float = 0.0,
    ):
        self._lambda, self._omega = reg_lambda, omega
        self._best = Best(least=least, advice=advice)
        if least == 0.0:
            self._best.dual_certificate = DualCertificate(
                reg_lambda, (np.zeros(problem.dimension), 0.0)
            )
        if dual_certificate is not None and dual_certificate.reg_lambda == reg_lambda:
            self._best.raise_bound(dual_certificate.bound(omega), dual_certificate)
        self._idle = 0  # iterations since the gap last became smaller

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether it solves problems with this loss and regularizer, before data are known."""
        return omega.is_euclidean or not cls.needs_euclidean

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the data and what the problem offers also suit it."""
        return offers(task.problem, cls.needs, cls.form)

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Whether "auto" uses it for this task without trying others."""
        return False

    def gap_of(self, state: State) -> float:
        """The relative gap by which its rate is judged: that of the state, or a better guess."""
        return state.relative_gap

    def start_of_next(self, start: LinearStart) -> LinearStart:
        """The start of a solver of another kind, with what this one can add to the point."""
        return start

    @classmethod
    def along(
        cls, task: Task, reg_lambdas: Sequence[float], max_iter: int, max_time: float | None
    ) -> Along | None:
        """Solutions of a task for all or some of many values of reg_lambda in descending order.

        Limits are per value. None if values are better solved one after the other.
        """
        return None

    @classmethod
    @abstractmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from what it can use of what the last one kept."""

    @abstractmethod
    def states(self) -> Iterator[State]:
        """One state per iteration; ends by itself only when rounding leaves nothing to gain."""

    @abstractmethod
    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound, both recomputed from the data."""

    def attach(self, problem: Any) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem

    def detach(self) -> None:
        """Release the problem and its data."""
        self._problem = ABSENT

    @abstractmethod
    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: this point, and what else it can use."""

    @property
    def dual_certificate(self) -> DualCertificate | None:
        """The dual certificate of the best bound."""
        return self._best.dual_certificate

    @property
    def plane(self) -> tuple[Array, float]:
        """The plane of the dual certificate."""
        return self._best.dual_certificate.plane

    def size_of_terms(self) -> float:
        """Size of the terms whose differences objective and bound are."""
        return size_of_terms(self._problem, self._best.point, self.plane[1], self._lambda)

    def _objective(self, w: Array, risk: float) -> float:
        return self._lambda * self._omega.value(w) + risk

    def _renew(self, point: Point, objective: float) -> None:
        """Keep recomputed values, with the bound of the kept plane less its rounding."""
        best, omega = self._best, self._omega
        certified = Certified(point.w, point.intercept, objective, self.plane)
        bound, terms = best.dual_certificate.bound(omega), self.size_of_terms
        taken = rounding(self._problem, point, certified, omega, self._lambda)
        best.recompute(objective, point, bound, best.dual_certificate, terms=terms, rounding=taken)

    def _count_idle(self, gap_before: float, *, moved: bool = True) -> None:
        """Count iterations after which the gap is no smaller than before, up to rounding."""
        gained = gap_before - self._best.gap
        progress = moved and gained > LAST_PLACE * abs(self._best.primal)
        self._idle = 0 if progress else self._idle + 1

    def _state(self) -> State:
        point = self._best.point
        passes = self._problem.passes
        return self._best.state(point.w, point.intercept, passes, further=(self.name,))
