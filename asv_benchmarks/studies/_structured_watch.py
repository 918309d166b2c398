"""A fit of StructuredSVM that is timed state by state, with passes of its oracle in between."""

from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from _measure import cpu_seconds
from _watch import Curve, Looking

from sklearn_bundle import StructuredSVM
from sklearn_bundle.structured.estimators._structured_solvers import bound_problem
from sklearn_bundle.structured.estimators.structured import _checked_data

# From one timed pass of the oracle to the next: the time of a pass depends on w and the machine.
_GROWTH = 1.3  # in CPU seconds of the solver so far
_MOST_BETWEEN = 3.0  # seconds


@dataclass
class SVMCurve(Curve):
    """The curve of a fit with its oracle calls over n, and passes of the oracle alone."""

    calls: list[float] = field(default_factory=list)
    pass_seconds: list[float] = field(default_factory=list)
    whole_seconds: float = 0.0  # of fit, less what looks took
    relative_gap: float = np.inf  # confirmed at exit
    status: str = ""

    @property
    def oracle_pass(self) -> float:
        """Median CPU seconds of a pass over all examples."""
        return median(self.pass_seconds)

    @property
    def oracle_seconds(self) -> float:
        """What all calls take, by the time of a pass."""
        return self.calls[-1] * self.oracle_pass

    def at(self, eps: float) -> int | None:
        """The first state with a relative gap of at most eps."""
        gaps = np.subtract(self.objective, self.lower_bound)
        return _first(gaps <= eps * np.abs(self.objective))

    def below(self, objective: float) -> int | None:
        """The first state with at most this objective."""
        return _first(np.array(self.objective) <= objective)

    def as_dict(self) -> dict[str, Any]:
        """At most some 200 states of it."""
        numbers = {"oracle_pass": self.oracle_pass, "whole_seconds": self.whole_seconds}
        numbers |= {"status": self.status, "relative_gap": self.relative_gap}
        return self.as_numbers("calls") | numbers


def _first(reached: np.ndarray) -> int | None:
    return int(reached.argmax()) if reached.any() else None


class _Passes(Looking):
    """Times passes of the oracle at the weights so far."""

    def __init__(self, curve: SVMCurve, problem: Any, max_seconds: float):
        super().__init__(curve, lambda curve: False, max_seconds, score=lambda model: 0.0)
        self._problem, self._next_pass, self.seconds = problem, 0.0, 0.0

    def look(self, model: Any, last: bool) -> None:
        curve, spent = self._curve, self._spent
        if spent >= self._next_pass:
            self._next_pass = spent + min((_GROWTH - 1.0) * spent, _MOST_BETWEEN)
            start = process_time()
            self._problem.find(model.w_)
            curve.pass_seconds.append(process_time() - start)


def watch(
    X: Any, y: Any, *, max_seconds: float = np.inf, **settings: Any
) -> tuple[StructuredSVM, SVMCurve]:
    """A fit in one thread, from a fixed seed, and how it went."""
    model = StructuredSVM(**{"n_jobs": 1, "random_state": 0, "max_iter": 10**7, **settings})
    curve, data = SVMCurve(), _checked_data(model, X, y, None)
    with bound_problem(model.loss, data, 1) as problem:
        model.set_callbacks(_Passes(curve, problem, max_seconds))
        curve.whole_seconds, _ = cpu_seconds(partial(model.fit, X, y))
    curve.whole_seconds -= sum(curve.pass_seconds)
    curve.calls = [float(calls) for calls in model.history_["passes"]]
    curve.relative_gap, curve.status = float(model.relative_gap_), str(model.status_)
    return model, curve
