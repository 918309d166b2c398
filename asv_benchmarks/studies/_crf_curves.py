"""What CRFsuite needs and reaches, measured once and kept in a file.

Its runs take minutes, and do not depend on us: ``--curves FILE`` keeps them between the runs of the
study. A table says when its figures were measured.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from _chains import ChainTask
from _crfsuite import PEERS, CRFsuite
from _measure import versions

# Iterations of the long run of a peer, None for its own test of convergence.
ITERATIONS = {"lbfgs-all": 1000, "l2sgd-all": 200, "lbfgs": None, "l2sgd": 200, "ap": 100}
LONGEST = 60.0  # seconds of a run that would only show a point of a curve


def ladder(most: int) -> Iterator[int]:
    """1, 2, 3 and so on, each about a quarter more than the last, up to ``most``."""
    k = 1
    while k < most:
        yield k
        k = max(k + 1, round(1.25 * k))
    yield most


def first_reached(steps: Iterable[int], reached: Callable[[int], bool]) -> int | None:
    """The first step that is reached, or one a twenty-fifth later at most; None if none is."""
    before = 0
    for step in steps:
        if reached(step):
            break
        before = step
    else:
        return None
    while step - before > max(1, step // 25):
        middle = (before + step) // 2
        if reached(middle):
            step = middle
        else:
            before = middle
    return step


class Curves:
    """The runs of the peers on one task."""

    def __init__(self, task: ChainTask, path: Path | None):
        self.task, self._path = task, path
        known = json.loads(path.read_text()) if path is not None and path.is_file() else {}
        self._known: dict[str, Any] = known.get(task.name, {})
        self._measured: set[str] = set()

    @cached_property
    def _crfsuite(self) -> CRFsuite:
        return CRFsuite(self.task)

    def run(self, name: str) -> dict[str, Any]:
        """The long run of a peer, its curve, and by "models" the models that are known."""
        if name not in self._known:
            self._measured.add(name)
            run, model = self._crfsuite.model(PEERS[name], ITERATIONS[name])
            self._known[name] = {
                **run.as_dict(),
                "append_seconds": self._crfsuite.append_seconds,
                "version": metadata.version("python-crfsuite"),
                "machine": versions()["machine"],
                "date": datetime.now().astimezone().isoformat(timespec="minutes"),
                "final": model,
                "models": {},
            }
            self._write()
        return self._known[name]

    def was_measured(self, name: str) -> bool:
        """Whether the long run is of this process, and not read from the file."""
        return name in self._measured

    def model(self, name: str, iterations: int) -> dict[str, Any] | None:
        """What the peer has learned after some iterations; None if that would take too long."""
        run = self.run(name)
        if iterations == len(run["seconds"]):
            return run["final"]
        models, key = run["models"], str(iterations)
        if key not in models:
            if run["seconds"][iterations - 1] > LONGEST:
                return None
            models[key] = self._crfsuite.model(PEERS[name], iterations)[1]
            self._write()
        return models[key]

    def until(self, name: str, target: float) -> tuple[int, float] | None:
        """Iterations and seconds to an objective, or None if the long run does not get there.

        L-BFGS logs the objective; l2sgd logs a mean over an epoch, and is judged by its models, the
        last one first.
        """
        run = self.run(name)
        if PEERS[name].algorithm == "lbfgs":
            reached = (k for k, loss in enumerate(run["losses"], 1) if loss <= target)
            k = next(reached, None)
            return None if k is None else (k, run["seconds"][k - 1])
        if run["final"]["objective"] > target:
            return None
        return self._first(name, lambda model: model["objective"] <= target)

    def until_score(self, name: str, test: str, points: float) -> tuple[int, float, float]:
        """Iterations, seconds and score when it is first within some points of its final one."""
        run = self.run(name)
        least = run["final"]["scores"][test] - points
        k, seconds = self._first(name, lambda model: model["scores"][test] >= least)
        return k, seconds, self.model(name, k)["scores"][test]

    def _first(
        self, name: str, enough: Callable[[dict[str, Any]], bool]
    ) -> tuple[int, float] | None:
        """Iterations and seconds of the first model that is good enough."""

        def reached(k: int) -> bool:
            model = self.model(name, k)
            return model is not None and enough(model)

        k = first_reached(ladder(len(self.run(name)["seconds"])), reached)
        return None if k is None else (k, self.model(name, k)["seconds"])

    def _write(self) -> None:
        if self._path is None:
            return
        known = json.loads(self._path.read_text()) if self._path.is_file() else {}
        known[self.task.name] = {**known.get(self.task.name, {}), **self._known}
        self._path.write_text(json.dumps(known, indent=1))
