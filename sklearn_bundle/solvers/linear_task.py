"""A linear problem with all that a solver of it is told, and what such a solver says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from sklearn_bundle.losses.base import Loss
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.regularizers import Regularizer
from sklearn_bundle.solvers.asks import offers
from sklearn_bundle.solvers.contract import SolverResult, State
from sklearn_bundle.solvers.linear_start import LinearStart


@dataclass
class Task:
    """A linear problem with its regularization, and how it is to be solved.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda : float
    omega : Regularizer
    tol : float
        The relative gap that is asked for.
    theta : float
        As of :class:`~sklearn_bundle.solvers.bundle.BundleSolver`.
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
    """What is known of a path of values before any of them is solved by itself.

    Parameters
    ----------
    results : list
        For each value what solves it, or None.
    start : LinearStart
        What a value that is left may start from, beside the point of the one before.
    """

    results: list[SolverResult | None]
    start: LinearStart


class LinearSolver(ABC):
    """What a solver of linear problems says of itself, and how one is made.

    Beside these it is :class:`~sklearn_bundle.solvers.contract.Resumable`, has ``name`` (the public
    one, which goes into the history), ``plane`` and ``history_fields``, and
    ``kept(point) -> LinearStart``, what a next solver may start from.
    """

    #: Multiplications so far in what grows with the steps, beside the products with X and X'.
    multiplications: float = 0.0

    #: What a problem has to offer.
    needs: ClassVar[type]
    #: Whether the regularizer has to be ``||w||^2 / 2``.
    needs_euclidean: ClassVar[bool] = True

    @classmethod
    def takes(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether it solves problems of this loss and regularizer: known before the data."""
        return omega.is_euclidean or not cls.needs_euclidean

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the data and what the problem offers suit it too."""
        return offers(task.problem, cls.needs)

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Whether "auto" takes it for this task without trying others."""
        return False

    def gap_of(self, state: State) -> float:
        """The relative gap by which its rate is judged: that of the state, or a better guess."""
        return state.relative_gap

    def handed_on(self, start: LinearStart) -> LinearStart:
        """The start of a solver of another kind, with what this one has for it beside the point."""
        return start

    @classmethod
    def along(
        cls, task: Task, reg_lambdas: Sequence[float], max_iter: int, max_time: float | None
    ) -> Along | None:
        """Solutions of a task for many values of reg_lambda in descending order, or some of them.

        Limits are for each value. None where values are better solved one after the other.
        """
        return None

    @classmethod
    @abstractmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, which starts from what suits it of what the last one kept."""
