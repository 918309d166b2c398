"""What the solvers by blocks share: where they stand, looks at it, and what they hand over."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from sklearn_bundle.problems.structured import StructuredProblem
from sklearn_bundle.solvers._certificate import Best
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.inner.blocks import BlockDual
from sklearn_bundle.solvers.inner.idling import Idling
from sklearn_bundle.solvers.inner.outputs import OutputCache

_IDLE = 40  # looks in a row that change nothing: then only rounding is left
_SETTLED = 3  # looks in a row after which what is left of the gap is not what a solver can close


class BlockSolver(ABC):
    """A method that moves a :class:`BlockDual`, and looks at all examples now and then.

    With an oracle that is not exact it ends where the gap is within ``tol`` by the scores of what
    was found: the rest is between these and their bounds, and further outputs do not close it.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float
    cache_size : int or None
        Outputs kept per example beside the true one, at least 2. None is 48, and more where these
        all have weight, while they take up less than 1 GB.
    kept : OutputCache
        Of a solver of the same problem; reg_lambda may differ.
    patience : int
        Visits without weight, after which an output is dropped.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64), ("estimate", np.float64))

    def __init__(
        self,
        problem: StructuredProblem,
        tol: float,
        cache_size: int | None,
        kept: OutputCache | None,
        patience: int,
    ):
        if kept is None:
            kept = OutputCache(problem.n_examples, cache_size, problem.squared)
        self._tol = tol
        self._dual = BlockDual(problem, kept, patience)
        self._best = Best(least=0.0)
        self._idling = Idling(_IDLE)
        self._settled = 0  # looks in a row at the optimum over what an inexact oracle finds
        self._moved = True  # whether there were steps since the last look

    @property
    def problem(self) -> StructuredProblem:
        """What is solved."""
        return self._dual.problem

    @property
    def kept(self) -> OutputCache:
        """What a new solver may start from."""
        return self._dual.cache

    def attach(self, problem: StructuredProblem) -> None:
        """Continue with the same problem in another object."""
        self._dual.problem = problem

    def detach(self) -> None:
        """Release the problem."""
        self._dual.problem = None

    def states(self) -> Iterator[State]:
        """One state per iteration, or one without where the solver starts within ``tol``."""
        if self._best.point is None:
            self._look()
            if self._state().relative_gap <= self._tol:
                yield self._state()
        while not self._idling.enough and self._settled < _SETTLED:
            self._moved = True
            self._iterate()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, both from a look at where the solver stands, if it has moved."""
        if self._moved:
            if moving:
                self._look()
            else:
                self._best.prove(self._dual.refresh())
        return self._state()

    @abstractmethod
    def _iterate(self) -> None:
        """Steps, and a look where the method wants one."""

    def _look(self) -> None:
        """Objective, bound and gaps at where the solver stands; outputs for all examples, (9)."""
        look = self._dual.look()
        if self._best.offer(look.primal, look.w):
            self._best.point = look.w.copy()
        self._best.prove(look.lower_bound)
        self._idling.note(self._best, look.gained)
        inexact = not self.problem.examples.exact
        closed = inexact and self._estimate() <= self._tol * abs(look.primal)
        self._settled = self._settled + 1 if closed else 0
        self._moved = False

    def _estimate(self) -> float:
        """The duality gap, by the gaps of the blocks as last seen."""
        return self._dual.estimate + self._dual.distance()

    def _state(self) -> State:
        problem = self.problem
        further = problem.oracle_calls, self._estimate()
        return self._best.state(self._best.point, None, problem.passes, None, further)
