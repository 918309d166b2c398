"""A fit of StructuredSVM that is timed state by state, with passes of its oracle in between."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from _measure import cpu_seconds

from sklearn_bundle import StructuredSVM

# From one timed pass of the oracle to the next: the time of a pass depends on w and the machine.
_GROWTH = 1.3  # in CPU seconds of the solver so far
_MOST_BETWEEN = 3.0  # seconds


@dataclass
class Curve:
    """What is certified after each state of a solver.

    ``seconds`` are CPU time of the solver alone, without checks, packing and confirmation at exit;
    ``calls`` are oracle calls over n; ``estimates`` of the gap, where the solver has them.
    """

    seconds: list[float] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    pass_seconds: list[float] = field(default_factory=list)  # of a pass of the oracle alone
    oracle_seconds: float = 0.0  # what all calls take, by the pass that was timed last
    whole_seconds: float = 0.0  # of fit, less the timed passes
    confirm_seconds: float = 0.0
    relative_gap: float = np.inf  # confirmed at exit
    status: str = ""
    solver: Any = None

    @property
    def oracle_pass(self) -> float:
        """Median CPU seconds of a pass over all examples."""
        return median(self.pass_seconds)

    def first(self, eps: float) -> int | None:
        """The first state with a relative gap of at most eps."""
        gaps = np.subtract(self.objective, self.lower_bound)
        return _first(gaps <= eps * np.abs(self.objective))

    def first_below(self, objective: float) -> int | None:
        """The first state with at most this objective."""
        return _first(np.array(self.objective) <= objective)

    def as_dict(self) -> dict[str, Any]:
        """At most some 200 states of it."""
        last = len(self.seconds) - 1
        rows = np.unique(np.append(np.geomspace(1, last + 1, 200).astype(int) - 1, last))
        names = "seconds", "objective", "lower_bound", "calls"
        numbers = {name: [float(getattr(self, name)[k]) for k in rows] for name in names}
        numbers |= {"oracle_pass": self.oracle_pass, "whole_seconds": self.whole_seconds}
        numbers |= {"oracle_seconds": self.oracle_seconds}
        numbers |= {"confirm_seconds": self.confirm_seconds, "status": self.status}
        return numbers | {"relative_gap": self.relative_gap}


def _first(reached: np.ndarray) -> int | None:
    return int(reached.argmax()) if reached.any() else None


class WatchedSVM(StructuredSVM):
    """StructuredSVM whose solver writes a curve, and ends after some CPU seconds.

    A fit is that of a copy, which shares the curve.
    """

    curve: Curve
    max_seconds: float = np.inf

    def _solver(self, problem: Any, *arguments: Any) -> "_Watched":
        solver = super()._solver(problem, *arguments)
        self.curve.solver = solver
        return _Watched(solver, problem, self)


class _Watched:
    """A solver whose states go through the hands of an estimator."""

    def __init__(self, solver: Any, problem: Any, model: WatchedSVM):
        self._solver, self._problem, self._model = solver, problem, model
        self._curve = model.curve

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[Any]:
        states, curve, next_pass = self._solver.states(), self._curve, 0.0
        while True:
            start = process_time()  # without the garbage collection of cpu_seconds: it takes long
            state = next(states, None)
            if state is None:
                return
            curve.seconds.append(process_time() - start + sum(curve.seconds[-1:]))
            curve.objective.append(float(state.primal))
            curve.lower_bound.append(float(state.lower_bound))
            calls = self._problem.oracle_calls / self._problem.n_examples
            if curve.seconds[-1] >= next_pass:
                next_pass = curve.seconds[-1] + min(
                    (_GROWTH - 1.0) * curve.seconds[-1], _MOST_BETWEEN
                )
                self._time_pass(state.point)
            curve.oracle_seconds += (calls - sum(curve.calls[-1:])) * curve.pass_seconds[-1]
            curve.calls.append(calls)
            yield state
            if curve.seconds[-1] >= self._model.max_seconds:
                return

    def confirm(self, **settings: Any) -> Any:
        seconds, state = cpu_seconds(partial(self._solver.confirm, **settings))
        self._curve.confirm_seconds += seconds
        return state

    def _time_pass(self, w: np.ndarray) -> None:
        """Of the oracle over all examples; it counts nowhere."""
        calls, start = self._problem.oracle_calls, process_time()
        self._problem.find(w)
        self._curve.pass_seconds.append(process_time() - start)
        self._problem.oracle_calls = calls


def watch(X: Any, y: Any, *, max_seconds: float = np.inf, **settings: Any) -> WatchedSVM:
    """A fit in one thread, from a fixed seed; its ``curve`` tells how it went."""
    model = WatchedSVM(**{"n_jobs": 1, "random_state": 0, "max_iter": 10**7, **settings})
    model.curve, model.max_seconds = Curve(), max_seconds
    seconds, _ = cpu_seconds(partial(model.fit, X, y))
    curve = model.curve
    curve.whole_seconds = seconds - sum(curve.pass_seconds)
    curve.relative_gap = float(model.dual_gap_ / model.objective_)
    curve.status = str(model.status_)
    return model
