"""A linear problem with all arguments of its solver, and what such a solver declares."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from sklearn_bundle.core.contract import SolverResult, State
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.linear_start import LinearStart
from sklearn_bundle.linear.solvers.protocols import offers


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
    """What a solver of linear problems declares, and how one is made.

    It is also :class:`~.contract.Resumable`, and has ``name`` (the public
    name, which goes into the history), ``plane``, ``history_fields``, and
    ``kept(point) -> LinearStart``, where the next solver may start.
    """

    #: Multiplications so far whose number per step grows, without the products with X and X'.
    multiplications: float = 0.0

    #: The Protocol that a problem has to offer.
    needs: ClassVar[type]
    #: Whether the regularizer has to be ``||w||^2 / 2``.
    needs_euclidean: ClassVar[bool] = True

    @classmethod
    def takes(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether it solves problems with this loss and regularizer, before data are known."""
        return omega.is_euclidean or not cls.needs_euclidean

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the data and what the problem offers also suit it."""
        return offers(task.problem, cls.needs)

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Whether "auto" uses it for this task without trying others."""
        return False

    def gap_of(self, state: State) -> float:
        """The relative gap by which its rate is judged: that of the state, or a better guess."""
        return state.relative_gap

    def handed_on(self, start: LinearStart) -> LinearStart:
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
