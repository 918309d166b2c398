"""The loop around every solver: when to stop, history, interruption, confirmation at exit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from time import perf_counter
from typing import Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import seconds_compiled

HISTORY_DTYPE = np.dtype(
    [
        ("iteration", np.int64),
        ("seconds", np.float64),
        ("objective", np.float64),
        ("lower_bound", np.float64),
        ("passes", np.int64),
    ]
)

# In place of what an object has only at times, such as the problem of a solver between two fits.
# Its type is Any, so that a type checker takes the object to have it.
ABSENT: Any = None


class Status(StrEnum):
    """Why a solver ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"


#: The values of :class:`Status` for type checkers: what ``status_`` may be.
StatusName = Literal["converged", "max_iter", "max_time", "callback", "interrupted", "stalled"]
MISSES = frozenset({Status.MAX_ITER, Status.MAX_TIME, Status.STALLED})  # unwanted ends


@dataclass
class Certificate:
    """An objective that was reached, and a lower bound of all objectives."""

    primal: float
    lower_bound: float

    @property
    def gap(self) -> float:
        return self.primal - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """``gap / |primal|``, which is compared with ``tol``; 0 for a gap of exactly zero."""
        if self.primal == 0.0:
            return 0.0 if self.gap <= 0.0 else np.inf
        return self.gap / abs(self.primal)


@dataclass
class State(Certificate):
    """The state of a solver after an iteration: the best point and the best bound so far.

    The intercept is a number, a vector or None, depending on the problem. A solver whose states are
    many steps apart gives their number as ``n_steps``; ``further`` has the values of the solver's
    ``history_fields``; ``excess`` is what the objective was raised by, since rounding may hide as
    much. A confirmed state may have the ``ball`` that holds the optimum.
    """

    point: NDArray[np.float64]
    intercept: Any
    passes: int
    n_steps: int | None = None
    further: tuple = ()
    excess: float = 0.0
    ball: Any = None  # a certificate.Ball


class Solver(Protocol):
    """What :func:`run` needs of a solver; ``history_fields`` may name further numbers to keep."""

    def states(self) -> Iterator[State]:
        """One state per iteration; ends by itself only when rounding leaves nothing to gain.

        It may raise :class:`OutOfTime` after the first state, and so may :meth:`confirm`.
        """
        ...

    def confirm(self, *, moving: bool = True) -> State:
        """The best point and bound, both recomputed from the data and the kept dual point.

        The point may become a better one, unless ``moving`` is false: then it is that of the last
        state. The solver continues from the new values. Raises if there is no point yet.
        """
        ...


class OutOfTime(Exception):
    """The time limit passed within a step; ``state`` is the last one, whose certificate is true."""

    def __init__(self, state: State):
        super().__init__("The time limit passed.")
        self.state = state


@runtime_checkable
class Resumable(Protocol):
    """A solver that the next fit on the same data can resume.

    Its ``states`` may be called again and then continue: many runs of one iteration each take the
    steps of one long run. Best point and best bound are kept, and are recomputed at every exit.
    """

    def attach(self, problem: Any) -> None:
        """Continue with ``problem``, which has the same data, loss and intercept as the last."""
        ...

    def detach(self) -> None:
        """Release the problem and its data."""
        ...


@dataclass
class SolverResult(Certificate):
    """Point and certificate, recomputed at exit, with status and history.

    ``region`` is what the estimator makes of the ``ball``: where the scores of the optimum lie;
    ``solver`` is the name of the one that ended the fit.
    """

    point: NDArray[np.float64]
    intercept: Any
    status: Status
    n_iter: int
    history: np.ndarray
    excess: float = 0.0  # as of the last state
    ball: Any = None
    region: Any = None
    solver: str = ""

    @classmethod
    def of(cls, state: State, status: Status, history: np.ndarray, solver: str = "") -> Self:
        """The result that ended with this state."""
        values = state.primal, state.lower_bound, state.point, state.intercept
        end = int(history["iteration"][-1]), history, state.excess, state.ball
        return cls(*values, status, *end, solver=solver)


class TimeLimit:
    """Seconds from now on, without those of compilation; a copy in another process goes on.

    Parameters
    ----------
    seconds : float
        None is no limit.
    """

    def __init__(self, seconds: float | None):
        self._seconds = seconds
        self._start, self._compiled = perf_counter(), seconds_compiled()

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        if self._seconds is None:
            return None
        spent = perf_counter() - self._start - (seconds_compiled() - self._compiled)
        return max(self._seconds - spent, 0.0)

    def part(self, n: int, reserve: float = 0.0) -> Self:
        """An nth of what is left, without this share of all seconds."""
        left = self.left
        if self._seconds is None or left is None:
            return type(self)(None)
        return type(self)(max(left - reserve * self._seconds, 0.0) / n)

    def __getstate__(self) -> dict[str, Any]:
        return {"seconds": self.left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TimeLimit.__init__(self, state["seconds"])


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
    status "interrupted", if there is a point to return. The last observed state has the returned
    point, whether ``observe``, a limit or ``tol`` ended the loop.

    Raises
    ------
    ValueError
        If a recomputed bound is above the objective by more than rounding explains.
    """
    log, time = _Log(solver), TimeLimit(max_time)
    try:
        status, final = _steps(solver, log, time, tol, max_iter, observe)
    except KeyboardInterrupt:
        if not log.rows:
            raise
        status, final = Status.INTERRUPTED, None
    except OutOfTime as late:
        status, final = Status.MAX_TIME, late.state
        log.correct(final)
    if final is None:
        status, final = _confirmed(solver, status, tol)
        log.correct(final)
    return SolverResult.of(final, status, log.history(), getattr(solver, "name", ""))


def _steps(
    solver: Solver,
    log: _Log,
    time: TimeLimit,
    tol: float,
    max_iter: int,
    observe: Callable[[int, State], Status | None] | None,
) -> tuple[Status, State | None]:
    """Iterate until the end: the status, and the state there if it is confirmed."""
    for state in _quietly(solver.states()):
        log.add(state)
        limit = Status.MAX_ITER if log.rows[-1][0] >= max_iter else None
        limit = Status.MAX_TIME if time.left == 0.0 else limit
        final = None
        if limit is not None or state.relative_gap <= tol:
            with _quiet():
                state = solver.confirm()
            log.correct(state)
            if limit is not None or state.relative_gap <= tol:
                final = state
        stop = observe(len(log.rows), state) if observe is not None else None
        if final is not None and final.relative_gap <= tol:
            return Status.CONVERGED, final
        end = stop or limit
        if end is not None:
            return end, final
    return Status.STALLED, None


def _confirmed(solver: Solver, status: Status, tol: float) -> tuple[Status, State]:
    """The confirmed last state, which may show that nothing was missed."""
    try:
        with _quiet():
            final = solver.confirm(moving=status is not Status.CALLBACK)
    except OutOfTime as late:
        return Status.MAX_TIME if status in MISSES else status, late.state
    reached = status in MISSES and final.relative_gap <= tol
    return Status.CONVERGED if reached else status, final


class _Log:
    """The history of a fit: a row for each state, with the seconds since the start."""

    def __init__(self, solver: Any):
        self.rows: list[tuple] = []
        self._start, self._fields = perf_counter(), getattr(solver, "history_fields", ())

    def add(self, state: State) -> None:
        self.rows.append(self._row(len(self.rows) + 1, state))

    def correct(self, state: State) -> None:
        """Put a recomputed state in place of the last one; a solver may have ended without any."""
        self.rows[-1:] = [self._row(len(self.rows), state)]

    def _row(self, n_iter: int, state: State) -> tuple:
        steps = n_iter if state.n_steps is None else state.n_steps
        return _row(steps, perf_counter() - self._start, state)

    def history(self) -> np.ndarray:
        """Without values better than a later one, which were so by rounding."""
        history = np.array(self.rows, dtype=_history_dtype(self._fields))
        history["objective"] = np.maximum.accumulate(history["objective"][::-1])[::-1]
        history["lower_bound"] = np.minimum.accumulate(history["lower_bound"][::-1])[::-1]
        return history


def at_once(state: State, n_iter: int, seconds: float, further: tuple = ()) -> SolverResult:
    """The result of a problem that was solved without :func:`run`, with a history of one row.

    ``further`` has the values of the solver's ``history_fields``.
    """
    history = np.array([_row(n_iter, seconds, state)], dtype=_history_dtype(further))
    return SolverResult.of(state, Status.CONVERGED, history)


def _quiet() -> np.errstate:
    """Silence warnings of overflows: steps check their results, so warnings would add nothing."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _quietly(states: Iterator[State]) -> Iterator[State]:
    """The same states, silenced only while they are computed, not in the observer."""
    while True:
        with _quiet():
            state = next(states, None)
        if state is None:
            return
        yield state


@cache
def _history_dtype(further: tuple) -> np.dtype:
    return np.dtype(HISTORY_DTYPE.descr + list(further))


def _row(n_iter: int, seconds: float, state: State) -> tuple:
    return n_iter, seconds, state.primal, state.lower_bound, state.passes, *state.further
