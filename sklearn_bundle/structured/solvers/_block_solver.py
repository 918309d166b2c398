"""Base class of the solvers by blocks: the dual point, checks of it, and what is kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.dual_methods import Idling
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers.inner.blocks import BlockDual, Check
from sklearn_bundle.structured.solvers.inner.outputs import OutputCache

_IDLE = 40  # checks in a row that change nothing: then only rounding is left
_SETTLED = 3  # checks in a row after which a solver cannot close the rest of the gap


class BlockSolver(ABC):
    """A method that moves a :class:`BlockDual`, and now and then checks it on all examples.

    With an inexact oracle it ends when the gap is within ``tol``, judged by the scores of the
    outputs found. The rest of the gap lies between these scores and their bounds, and further
    outputs do not close it.

    Parameters
    ----------
    problem : StructuredProblem
    tol : float
    n_cached_outputs : int or None
        Outputs kept per example in addition to the true one, at least 2. None is 48, or more if
        these all have weight, as long as they take up less than 1 GB.
    kept : OutputCache
        From a solver of the same problem; reg_lambda may differ.
    patience : int
        Visits without weight after which an output is dropped.
    """

    history_fields: ClassVar[tuple] = (("oracle_calls", np.int64), ("estimate", np.float64))

    def __init__(
        self,
        problem: StructuredProblem,
        tol: float,
        n_cached_outputs: int | None,
        kept: OutputCache | None,
        patience: int,
    ):
        if kept is None:
            kept = OutputCache(problem.n_examples, n_cached_outputs, problem.squared)
        self._tol = tol
        self._dual = BlockDual(problem, kept, patience)
        self._best = Best(least=0.0)
        self._idling = Idling(_IDLE)
        self._settled = 0  # checks in a row at the optimum over what an inexact oracle finds
        self._moved = True  # whether there were steps since the last check

    @property
    def problem(self) -> StructuredProblem:
        """The problem being solved."""
        return self._dual.problem

    @property
    def kept(self) -> OutputCache:
        """Where a new solver may start."""
        return self._dual.cache

    def attach(self, problem: StructuredProblem) -> None:
        """Continue with the same problem in another object."""
        self._dual.problem = problem

    def detach(self) -> None:
        """Release the problem."""
        self._dual.problem = ABSENT

    def states(self) -> Iterator[State]:
        """One state per iteration, or one without an iteration if the start is within ``tol``."""
        if self._best.point is None:
            self._check()
            if self._state().relative_gap <= self._tol:
                yield self._state()
        while not self._idling.enough and self._settled < _SETTLED:
            self._moved = True
            self._iterate()
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Best point and bound, both from a check of the current point, if the solver moved."""
        if self._moved:
            if moving:
                self._check()
            else:
                self._best.raise_bound(self._dual.refresh())
        return self._state()

    @abstractmethod
    def _iterate(self) -> None:
        """Take steps, and check if the method calls for it."""

    def _check(self) -> Check:
        """Check objective, bound and gaps at the current point; outputs for all examples (9)."""
        check = self._dual.check()
        if self._best.offer(check.primal, check.w):
            self._best.point = check.w.copy()
        self._best.raise_bound(check.lower_bound)
        self._idling.note(self._best, check.gained)
        inexact = not self.problem.examples.exact
        closed = inexact and self._estimate() <= self._tol * abs(check.primal)
        self._settled = self._settled + 1 if closed else 0
        self._moved = False
        return check

    def _estimate(self) -> float:
        """The duality gap, estimated from the gaps of the blocks as last seen."""
        return self._dual.estimate + self._dual.distance()

    def _state(self) -> State:
        problem = self.problem
        further = problem.oracle_calls, self._estimate()
        state = self._best.state(self._best.point, None, problem.passes, None, further)
        return problem.with_errors(state)
