"""What the parts of the study ``measures`` share: data, folds, rows, and timing in turns."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _measure import MissingError, Table, cpu_seconds, write_json
from benchmarks.common import Array, dataset

TOL = 1e-3  # relative: our certified gap, and the suboptimality at which peers are timed
SLOW = 5.0  # seconds; a fit that takes longer runs once


@dataclass
class Study:
    """What the command line asks for, and the rows so far."""

    tasks: ModuleType | None  # None for data that ships with scikit-learn or is made
    folds: int
    repeat: int
    path: Path | None
    results: list[dict[str, Any]] = field(default_factory=list)

    def record(self, part: str, task: str, **figures: Any) -> None:
        """A row of the raw numbers, written at once."""
        self.results.append({"part": part, "task": task, **figures})
        write_json(self.path, self.results)

    def classes(self, name: str) -> tuple[Any, Array]:
        """X and labels -1 and +1."""
        if self.tasks is None:
            return dataset(name)
        return self._had(lambda: self.tasks.linear(name))

    def load(self, name: str, **options: Any) -> tuple:
        """A set of the data folder as it is stored."""
        return self._had(lambda: self.tasks.load(name, **options))

    def extras(self, name: str) -> dict[str, Array]:
        """Further arrays of the set, by name."""
        return self._had(lambda: sys.modules[self.tasks.load.__module__].extras(name))

    def _had(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (ValueError, OSError, KeyError) as error:
            raise MissingError(str(error)) from error


# ---- cross-validated measures --------------------------------------------------------------


@dataclass
class Side:
    """Measures of one contestant: for each of them folds x values of reg_lambda."""

    name: str
    test: dict[str, list[list[float]]] = field(default_factory=dict)
    train: dict[str, list[list[float]]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)  # of all values, a fold each

    def best(self, measure: str, sign: float) -> int:
        """The value with the best mean over the folds."""
        return int(np.argmax(sign * np.mean(self.test[measure], axis=0)))

    def figures(self, measure: str, sign: float) -> tuple[Array, Array, int]:
        """At the best value: test and training measures of the folds, and which it is."""
        at = self.best(measure, sign)
        return np.array(self.test[measure])[:, at], np.array(self.train[measure])[:, at], at


@dataclass(frozen=True)
class Measure:
    """A measure of predictions; ``sign`` is +1 where larger is better, -1 where smaller is."""

    name: str
    sign: float


class MeasureTable(Table):
    """A row for each contestant: every measure at the value that is best for it."""

    _FURTHER = (("sd", 7), ("train", 8), ("at", 7))

    def __init__(self, task: str, measures: Sequence[Measure], values: Sequence[float]):
        self._measures, self._values = measures, values
        columns = [(task, 27)]
        for measure in measures:
            columns += [(f"{measure.name} test", len(measure.name) + 7), *self._FURTHER]
        super().__init__([*columns, ("s", 8)])

    def add(self, side: Side) -> None:
        cells = []
        for measure in self._measures:
            test, train, at = side.figures(measure.name, measure.sign)
            cells += [f"{test.mean():.4f}", f"{test.std():.4f}", f"{train.mean():.4f}"]
            cells.append(f"{self._values[at]:.0e}")
        self.row(side.name, *cells, f"{median(side.seconds):.2f}")

    def verdict(self, measure: Measure, ours: Side, peers: Sequence[Side]) -> None:
        """The difference to the best peer: its mean over the folds, and the standard error.

        "even" is a difference of at most one standard error.
        """
        name, sign = measure.name, measure.sign
        best = max(peers, key=lambda peer: sign * peer.figures(name, sign)[0].mean())
        difference = ours.figures(name, sign)[0] - best.figures(name, sign)[0]
        error = difference.std(ddof=1) / sqrt(len(difference)) if len(difference) > 1 else 0.0
        gain = sign * difference.mean()
        outcome = "even" if abs(gain) <= error else "better" if gain > 0.0 else "worse"
        print(
            f"  {name}: {ours.name} - {best.name} = {difference.mean():+.4f} +- {error:.4f}, "
            f"{outcome}",
            flush=True,
        )


# ---- timing --------------------------------------------------------------------------------


class Timed(NamedTuple):
    """Median CPU seconds of a fit, and the model of its first run."""

    seconds: float
    model: Any


def race(fits: dict[str, Callable[[], Any]], repeat: int) -> dict[str, Timed]:
    """Fits that take turns. The first runs are not counted, unless they are slow."""
    first = {name: cpu_seconds(fit) for name, fit in fits.items()}
    taken = {name: [seconds] if seconds > SLOW else [] for name, (seconds, _) in first.items()}
    for _ in range(repeat):
        for name, fit in fits.items():
            if first[name][0] <= SLOW:
                taken[name].append(cpu_seconds(fit)[0])
    return {name: Timed(median(taken[name]), first[name][1]) for name in fits}
