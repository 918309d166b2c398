"""Fits of linear models that are looked at after their iterations, which counts nowhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import clone

Array = np.ndarray


@dataclass
class Curve:
    """What is true after each iteration; ``scores`` are those of the best point, where asked."""

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # CPU time of the solver alone
    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)  # positions in the lists above
    scores: list[float] = field(default_factory=list)
    ended: str = ""

    @property
    def gap(self) -> Array:
        """Absolute, as in the papers, and as small as it has been."""
        return np.array(self.objective) - np.maximum.accumulate(self.lower_bound)

    def first(self, reached: Array) -> int | None:
        """The first iteration at which ``reached`` holds, or None."""
        where = np.flatnonzero(reached)
        return self.iteration[where[0]] if len(where) else None

    def as_numbers(self) -> dict[str, Any]:
        """At most some 200 iterations of it."""
        last = len(self.iteration) - 1
        rows = np.unique(np.append(np.geomspace(1, last + 1, 200).astype(int) - 1, last))
        names = "iteration", "seconds", "objective", "lower_bound"
        numbers = {name: [getattr(self, name)[k] for k in rows] for name in names}
        looked = {"looks": [self.iteration[k] for k in self.looks], "scores": self.scores}
        return {**numbers, **looked, "ended": self.ended}


def watch(
    estimator: Any,
    X: Any,
    y: Any,
    enough: Callable[[Curve], bool],
    *,
    score: Callable[[Array, float], float] | None = None,
    stride: float = 1.0,
    max_iter: int = 5000,
    max_seconds: float = np.inf,
) -> Curve:
    """Fit a clone until ``enough(curve)``, a limit, or rounding, and return its curve.

    ``score(w, intercept)`` of the best point so far is kept at every iteration up to the tenth, and
    then every ``stride - 1`` of the iterations so far. Only the time between iterations counts.
    """
    curve = Curve()

    class Watched(type(estimator)):
        def _solver(self, *arguments: Any) -> _WatchedSolver:
            solver = super()._solver(*arguments)
            return _WatchedSolver(solver, curve, enough, score, stride, max_seconds)

    parameters = clone(estimator).get_params(deep=False)
    model = Watched(**{**parameters, "tol": 1e-12, "max_iter": max_iter}).fit(X, y)
    curve.ended = curve.ended or model.status_
    return curve


class _WatchedSolver:
    """A solver that writes the curve, and ends where it is enough."""

    def __init__(
        self,
        solver: Any,
        curve: Curve,
        enough: Callable[[Curve], bool],
        score: Callable[[Array, float], float] | None,
        stride: float,
        max_seconds: float,
    ):
        self._solver, self._curve, self._enough = solver, curve, enough
        self._score, self._stride, self._max_seconds = score, stride, max_seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[Any]:
        states, curve, total, next_look = self._solver.states(), self._curve, 0.0, 1
        while True:
            start = process_time()  # without the garbage collection of cpu_seconds: it takes ms
            state = next(states, None)
            if state is None:
                return
            total += process_time() - start
            curve.seconds.append(total)
            curve.iteration.append(len(curve.seconds))
            curve.objective.append(float(state.primal))
            curve.lower_bound.append(float(state.lower_bound))
            done = self._enough(curve)
            if self._score is not None and (done or len(curve.seconds) >= next_look):
                next_look = max(len(curve.seconds) + 1, int(len(curve.seconds) * self._stride))
                curve.looks.append(len(curve.seconds) - 1)
                curve.scores.append(self._score(state.point, state.intercept or 0.0))
            yield state
            if done:
                curve.ended = "enough"
                return
            if total >= self._max_seconds:
                curve.ended = "time"
                return
