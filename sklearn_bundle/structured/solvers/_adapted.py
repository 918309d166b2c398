"""Base class of structured solvers that delegate the work to a solver of another problem."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.structured.problems.structured import StructuredRisk


class AdaptedSolver(ABC):
    """The other solver's states, with the oracle calls of the problem in the history.

    A subclass sets ``_solver``, which works on what :meth:`_adapted` makes of the problem.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64),)
    _solver: Any

    def __init__(self, problem: StructuredRisk):
        self._problem = problem

    @property
    @abstractmethod
    def kept(self) -> Any:
        """Where a new solver may start."""

    @abstractmethod
    def _adapted(self, problem: StructuredRisk) -> Any:
        """The problem in the form that the other solver needs."""

    def attach(self, problem: StructuredRisk) -> None:
        """Continue with the same problem in another object."""
        self._problem = problem
        self._solver.attach(self._adapted(problem))

    def detach(self) -> None:
        """Release the problem."""
        self._problem = ABSENT
        self._solver.detach()

    def states(self) -> Iterator[State]:
        """The states of the other solver; they end when rounding leaves nothing to gain."""
        return map(self._counted, self._solver.states())

    def confirm(self, *, moving: bool = True) -> State:
        """The other solver's best point and bound, recomputed."""
        return self._counted(self._solver.confirm(moving=moving))

    def _counted(self, state: State) -> State:
        return self._problem.with_errors(replace(state, further=(self._problem.oracle_calls,)))
