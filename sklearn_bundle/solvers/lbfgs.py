"""scipy's L-BFGS, one iteration at a time, with a certificate from the gradient."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Thread
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sklearn_bundle.problems.chain import ChainProblem
from sklearn_bundle.solvers._run import State

_ENDLESS = 10**9


class _Stopped(Exception):
    """Nobody waits for the next iteration."""


class LBFGSSolver:
    """L-BFGS on ``P(w) = reg_lambda/2 ||w||^2 + smooth convex losses``.

    With the dual point that belongs to the losses' gradient at w, the gap is ``||grad
    P(w)||^2 / (2 reg_lambda)``: (8) of Le Priol et al. Losses are never negative, so 0 is a bound.
    Needs of the problem: ``evaluate`` and ``n_parameters``.

    Parameters
    ----------
    problem : ChainProblem
    start : ndarray or None
        Where to start; at zero if None.
    iterations : int
        How many make a state.
    known : State or None
        Point and bound that another solver has found.
    """

    name = "lbfgs"

    history_fields: ClassVar[tuple] = (("estimate", np.float64),)

    def __init__(
        self,
        problem: ChainProblem,
        start: NDArray[np.float64] | None = None,
        iterations: int = 1,
        known: State | None = None,
    ):
        self._problem = problem
        self._iterations = iterations
        start = np.zeros(problem.n_parameters) if start is None else start
        self._best = State(np.inf, 0.0, start, None, 0)
        self._passes = 0
        if known is not None:
            self._passes, self._best.lower_bound = known.passes, known.lower_bound
        self._take(start, *problem.evaluate(start))

    @property
    def kept(self) -> NDArray[np.float64]:
        """The best point so far."""
        return self._best.w

    def states(self) -> Iterator[State]:
        """A number of iterations each. scipy runs in a thread, and waits in its callback."""
        reports: SimpleQueue = SimpleQueue()
        permits: SimpleQueue = SimpleQueue()
        stop = Event()
        count = 0

        def look(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            values = self._problem.evaluate(w)
            if stop.is_set():  # nobody but confirm may touch the best point from here on
                raise _Stopped
            self._take(w, *values)
            return values[:2]

        def callback(_) -> None:
            nonlocal count
            count += 1
            if count % self._iterations == 0:
                reports.put(None)
                permits.get()
            if stop.is_set():
                raise _Stopped

        def work() -> None:
            try:
                self._minimize(look, callback)
            except _Stopped:
                return
            except BaseException as error:
                reports.put(error)
            else:
                reports.put(StopIteration())

        worker = Thread(target=work, daemon=True)
        try:
            worker.start()
            while (report := reports.get()) is None:
                yield self._state()
                permits.put(None)
            if count < self._iterations:  # it has ended before the first state
                yield self._state()
        finally:
            stop.set()
            permits.put(None)
            worker.join()
        if not isinstance(report, StopIteration):
            raise report

    def confirm(self, *, moving: bool = True) -> State:
        """P and its gradient at the best point once more."""
        w = self._best.w
        self._best.primal = np.inf
        self._take(w, *self._problem.evaluate(w))
        return self._state()

    def _minimize(self, look: Callable, callback: Callable) -> None:
        """Until rounding leaves nothing to gain, which a new start may overcome."""
        before = np.inf
        while self._best.primal < before:
            before = self._best.primal
            minimize(
                look,
                self._best.w.copy(),
                jac=True,
                method="L-BFGS-B",
                callback=callback,
                options={"ftol": 0.0, "gtol": 0.0, "maxiter": _ENDLESS, "maxfun": _ENDLESS},
            )

    def _take(self, w: NDArray[np.float64], primal: float, _, bound: float) -> None:
        self._passes += 1
        best = self._best
        best.lower_bound = max(best.lower_bound, bound)
        if primal < best.primal:
            best.primal, best.w = primal, w.copy()

    def _state(self) -> State:
        best = self._best
        bound = min(best.lower_bound, best.primal)
        gap = best.primal - bound
        return State(best.primal, bound, best.w, None, self._passes, None, (gap,))
