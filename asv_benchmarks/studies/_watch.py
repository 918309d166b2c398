"""Fits that are looked at after their iterations, which counts nowhere: a callback of scikit-learn.

A task of name "iteration" begins when the solver has finished one, and ends when all callbacks have
seen it. So the time of the solver is what passes outside of these tasks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import clone

Array = np.ndarray


@dataclass
class Curve:
    """What is certified after each iteration; ``scores`` are those of the best point, if asked."""

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # CPU time of the solver alone
    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)  # positions in the lists above
    scores: list[float] = field(default_factory=list)
    ended: str = ""

    def add(self, seconds: float, objective: float, lower_bound: float) -> None:
        self.iteration.append(len(self.seconds) + 1)
        self.seconds.append(seconds)
        self.objective.append(objective)
        self.lower_bound.append(lower_bound)

    @property
    def gap(self) -> Array:
        """Absolute, as in the papers, and as small as it has been."""
        return np.array(self.objective) - np.maximum.accumulate(self.lower_bound)

    def first(self, reached: Array) -> int | None:
        """The first iteration at which ``reached`` holds, or None."""
        where = np.flatnonzero(reached)
        return self.iteration[where[0]] if len(where) else None

    def as_numbers(self, *further: str) -> dict[str, Any]:
        """At most some 200 iterations of it, with other lists of the curve."""
        last = len(self.iteration) - 1
        rows = np.unique(np.append(np.geomspace(1, last + 1, 200).astype(int) - 1, last))
        names = "iteration", "seconds", "objective", "lower_bound", *further
        numbers = {name: [getattr(self, name)[k] for k in rows] for name in names}
        looked = {"looks": [self.iteration[k] for k in self.looks], "scores": self.scores}
        return {**numbers, **looked, "ended": self.ended}


class Watch:
    """Writes the curve, and ends the fit where it is ``enough(curve)`` or a limit is reached."""

    def __init__(self, curve: Curve, enough: Callable[[Curve], bool], max_seconds: float = np.inf):
        self._curve, self._enough, self._max_seconds = curve, enough, max_seconds
        self._spent, self._since = 0.0, 0.0

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        if context.task_name != "iteration":
            self._since = process_time()
        else:  # without the garbage collection of cpu_seconds: it takes ms
            self._spent += process_time() - self._since

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        return self._ends(context)

    def _ends(self, context: Any, model: Any = None) -> bool:
        if context.task_name != "iteration":
            return False
        found = context.certificate
        self._curve.add(self._spent, float(found.primal), float(found.lower_bound))
        done = self._enough(self._curve)
        late = self._spent >= self._max_seconds
        self.look(model, done or late)
        if done or late:
            self._curve.ended = "enough" if done else "time"
        self._since = process_time()
        return done or late

    def look(self, model: Any, last: bool) -> None:
        """Use the model of the best point so far, which :class:`Looking` alone has."""


class Looking(Watch):
    """A :class:`Watch` with a model at every iteration.

    ``score(model)`` is kept at the first iterations, and then every ``stride - 1`` of those so far.
    """

    def __init__(
        self, *of_watch: Any, score: Callable[[Any], float], stride: float = 1.0, **further: Any
    ):
        super().__init__(*of_watch, **further)
        self._score, self._stride, self._next = score, stride, 1

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        return self._ends(context, fitted_estimator)

    def look(self, model: Any, last: bool) -> None:
        curve, n = self._curve, len(self._curve.seconds)
        if last or n >= self._next:
            self._next = max(n + 1, int(n * self._stride))
            curve.looks.append(n - 1)
            curve.scores.append(self._score(model))


def watch(
    estimator: Any,
    X: Any,
    y: Any,
    enough: Callable[[Curve], bool],
    *,
    score: Callable[[Any], float] | None = None,
    stride: float = 1.0,
    max_iter: int = 5000,
    max_seconds: float = np.inf,
) -> Curve:
    """Fit a clone until ``enough(curve)``, a limit, or rounding, and return its curve."""
    curve = Curve()
    seen: Watch = Watch(curve, enough, max_seconds)
    if score is not None:
        seen = Looking(curve, enough, max_seconds, score=score, stride=stride)
    model = clone(estimator).set_params(tol=1e-12, max_iter=max_iter).set_callbacks(seen)
    curve.ended = curve.ended or model.fit(X, y).status_
    return curve
