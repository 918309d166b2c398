"""Additions to solvers for rows on workers: counted rounds, and an end if the cluster is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT, OutOfTime, State
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.rows._dask_waiting import ClusterLost, ClusterTimeout
from sklearn_bundle.linear.solvers.solver import LinearSolver, LinearStart

Array = NDArray[np.float64]


class CountedRounds:
    """Wraps a solver and adds the number of rounds so far to each row of its history.

    If the cluster is lost or too slow, the solver ends with its last state, which was computed from
    the data. It was not confirmed, so its bound is the last one that was not above the objective.

    Parameters
    ----------
    solver : LinearSolver
    problem : RowBlocks

    Attributes
    ----------
    lost : ClusterLost or None
        The error that ended it.
    late : ClusterTimeout or None
        What it waited for when the time limit passed.
    """

    def __init__(self, solver: LinearSolver, problem: RowBlocks):
        self._solver, self._problem = solver, problem
        self._last: State | None = None
        self.lost: ClusterLost | None = None
        self.late: ClusterTimeout | None = None
        self.history_fields = (*solver.history_fields, ("rounds", np.int64))

    def states(self) -> Iterator[State]:
        """The solver's states; a cluster that is lost or late ends it, once there is a point."""
        with self._ending():
            for state in self._solver.states():
                self._last = self._counted(state)
                yield self._last

    def confirm(self, *, moving: bool = True) -> State:
        """The solver's confirmation, or its last state if the cluster is lost."""
        if self.lost is not None:
            return self._unconfirmed()
        workers = self._problem.workers
        self._problem.workers = workers.confirming()
        try:
            with self._ending():
                return self._counted(self._solver.confirm(moving=moving))
        finally:
            self._problem.workers = workers

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Turn errors of the cluster into what :func:`~.contract.run` expects."""
        try:
            yield
        except ClusterLost as error:
            if self._last is None:
                raise
            self.lost = error
            raise KeyboardInterrupt from error
        except ClusterTimeout as error:
            if self._last is None:
                raise
            self.late = error
            raise OutOfTime(self._unconfirmed()) from error

    def _unconfirmed(self) -> State:
        """The last state, without its bound: what rounding has added to it is not known.

        That takes a round, which the cluster no longer answers. A risk that is nonnegative has the
        bound 0.
        """
        assert self._last is not None
        return replace(self._last, lower_bound=0.0 if self._problem.nonnegative else -np.inf)

    def attach(self, problem: RowBlocks) -> None:
        """Attach the solver."""
        self._problem = problem
        self.lost = self.late = None
        self._solver.attach(problem)

    def detach(self) -> None:
        """Detach the solver."""
        self._solver.detach()
        self._problem = ABSENT

    def kept(self, point: tuple[Array, float | Array | None]) -> LinearStart:
        """What the solver keeps."""
        return self._solver.kept(point)

    def _counted(self, state: State) -> State:
        """The state with rounds; an intercept of one coordinate becomes a number.

        It is changed and not copied, because its point may be one that is computed when it is read.
        """
        intercept: Any = state.intercept
        if np.shape(intercept) == (1,):
            state.intercept = float(intercept[0])
        state.further = (*state.further, self._problem.rounds)
        return state
