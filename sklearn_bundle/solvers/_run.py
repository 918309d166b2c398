"""The loop around every solver: when to stop, history, interruption, confirmation at exit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

HISTORY_DTYPE = np.dtype(
    [
        ("iteration", np.int64),
        ("seconds", np.float64),
        ("objective", np.float64),
        ("lower_bound", np.float64),
        ("passes", np.int64),
    ]
)


class Status(StrEnum):
    """Why a solver ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"


MISSES = frozenset({Status.MAX_ITER, Status.MAX_TIME, Status.STALLED})  # nobody asked for these


@dataclass
class Certificate:
    """An objective that was reached, and a lower bound of all."""

    primal: float
    lower_bound: float

    @property
    def gap(self) -> float:
        return self.primal - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """``gap / |primal|``, what ``tol`` is compared with; 0 for an exact zero."""
        if self.primal == 0.0:
            return 0.0 if self.gap <= 0.0 else np.inf
        return self.gap / abs(self.primal)


def uncrossed(bound: float, primal: float) -> float:
    """A bound, or if it is above the objective one that is as far below.

    What lies above is false, by rounding, and by at least the difference: no less is taken off.
    """
    return min(bound, 2.0 * primal - bound)


@dataclass
class State(Certificate):
    """Where a solver stands after an iteration: the best point so far and the best bound so far.

    A solver whose states are many steps apart gives their number as ``n_steps``; ``further`` are
    the values of the solver's ``history_fields``.
    """

    w: NDArray[np.float64]
    intercept: float | None
    passes: int
    n_steps: int | None = None
    further: tuple = ()


class Solver(Protocol):
    """What :func:`run` asks of a solver; ``history_fields`` may name further numbers to keep."""

    def states(self) -> Iterator[State]:
        """One state an iteration; ends by itself only when rounding leaves nothing to gain."""

    def confirm(self) -> State:
        """The best point and bound, both computed afresh from the data and the kept dual point.

        The solver goes on from the fresh values. Raises if there is no point yet.
        """


@dataclass
class SolverResult(Certificate):
    """Point and certificate, recomputed at exit, and how it went."""

    w: NDArray[np.float64]
    intercept: float
    status: Status
    n_iter: int
    history: np.ndarray


def run(
    solver: Solver,
    *,
    tol: float,
    max_iter: int,
    max_time: float | None = None,
    observe: Callable[[int, State], Status | None] | None = None,
) -> SolverResult:
    """Iterate until the gap is within ``tol``, a limit is reached, or ``observe`` says stop.

    ``observe(iteration, state)`` may return the status to stop with. Ctrl-C ends the loop with
    status "interrupted", if there is a point to return.
    """
    start = perf_counter()
    rows: list[tuple] = []
    status = Status.STALLED
    final = None
    try:
        for n_iter, state in enumerate(solver.states(), start=1):
            rows.append(_row(n_iter, start, state))
            if state.relative_gap <= tol:
                state = solver.confirm()
                rows[-1] = _row(n_iter, start, state)
                final = state if state.relative_gap <= tol else None
            stop = observe(n_iter, state) if observe is not None else None
            if final is not None:
                status = Status.CONVERGED
            elif stop is not None:
                status = stop
            elif max_time is not None and perf_counter() - start >= max_time:
                status = Status.MAX_TIME
            elif rows[-1][0] >= max_iter:
                status = Status.MAX_ITER
            else:
                continue
            break
    except KeyboardInterrupt:
        if not rows:
            raise
        status = Status.INTERRUPTED
    if final is None:
        final = solver.confirm()
        if status in MISSES and final.relative_gap <= tol:
            status = Status.CONVERGED
        rows[-1:] = [_row(len(rows), start, final)]  # a solver may have ended at once
    history = np.array(rows, dtype=_history_dtype(getattr(solver, "history_fields", ())))
    # What was better than the confirmed values was so by rounding: nothing in it is untrue then.
    history["objective"] = np.maximum(history["objective"], final.primal)
    history["lower_bound"] = np.minimum(history["lower_bound"], final.lower_bound)
    return SolverResult(
        primal=final.primal,
        lower_bound=final.lower_bound,
        w=final.w,
        intercept=final.intercept,
        status=status,
        n_iter=rows[-1][0],
        history=history,
    )


@cache
def _history_dtype(further: tuple) -> np.dtype:
    return np.dtype(HISTORY_DTYPE.descr + list(further))


def _row(n_iter: int, start: float, state: State) -> tuple:
    steps = n_iter if state.n_steps is None else state.n_steps
    seconds = perf_counter() - start
    return steps, seconds, state.primal, state.lower_bound, state.passes, *state.further
