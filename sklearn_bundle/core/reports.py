"""Reports of paths and searches on their values and folds, for ``verbose`` and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.monitor import Lines, Monitor, Tasks, given, iterations
from sklearn_bundle.core.search_results import SearchResults
from sklearn_bundle.core.time_limit import TimeLimit
from sklearn_bundle.jit import announce

_RESERVE = 0.2  # of the time limit of a search: for the fit to all data

# Called for every fit of a fold: the value, the results of its subproblems, and its seconds.
Report = Callable[[float, list[SolverResult], float], None]


def told(
    caller: str, verbose: int, values: NDArray, models: Iterable[tuple[Any, list[SolverResult]]]
) -> Iterator[tuple[Any, list[SolverResult]]]:
    """The models of a path as they come, with a line for each and a last one for all."""
    lines, n_converged, largest = Lines(caller, verbose), 0, 0.0
    if verbose:
        announce.listen(lines, caller)
    for i, (model, results) in enumerate(models):
        yield model, results
        worst = max(results, key=lambda r: r.relative_gap)
        n_converged += all(r.status is Status.CONVERGED for r in results)
        largest = max(largest, worst.relative_gap)
        lines.print(
            f"reg_lambda {values[i]:.4g} ({i + 1}/{len(values)}): objective {worst.primal:.8g}, "
            f"relative gap {worst.relative_gap:.2e}, {worst.status} after {iterations(worst)}"
        )
    announce.leave(lines)
    lines.print(
        f"ended with {n_converged} of {len(values)} values converged, largest relative gap "
        f"{largest:.2e}"
    )


def reported(
    models: Iterable[tuple[Any, list[SolverResult]]], values: Iterable[float], report: Report
) -> Iterator[Any]:
    """The models of a path as they come, each reported as the one of its value."""
    start = perf_counter()
    for value, (model, results) in zip(values, models, strict=False):  # a time limit may end both
        report(value, results, perf_counter() - start)
        yield model
        start = perf_counter()


class SearchMonitor:
    """Watches a search: its folds, the fits of each, and the fit to all data.

    A copy in another process goes on with its folds.

    Parameters
    ----------
    estimator : estimator being fitted
    X, y, sample_weight
        The caller's data, handed to the callbacks as they came.
    chosen : str
        The parameter.
    values : ndarray
        Its values.
    n_folds, n_fits : int
        How many folds, and how many fits in each.
    n_threads : int
        How many folds are fitted at a time.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        chosen: str,
        values: NDArray,
        n_folds: int,
        n_fits: int,
        n_threads: int,
    ):
        self._tasks = Tasks(estimator, given(X, y, sample_weight=sample_weight))
        self._of_folds = Tasks(estimator._single(), {})  # which is fitted to parts of the data
        self._lines = Lines(type(estimator).__name__, estimator.verbose)
        self._chosen, self._values = chosen, values
        self._n_folds, self._n_fits, self._n_threads = n_folds, n_fits, n_threads
        self._lock = Lock()
        if estimator.verbose or self._tasks.have_bars:
            announce.listen(self._lines, self._lines.name)
        self._root = self._tasks.root(max_subtasks=2)
        kind = {"max_subtasks": n_folds, "sequential_subtasks": False}
        self._search = self._tasks.under(self._root, "search", **kind)
        further = {"within": self._root, "lines": self._lines}
        self.watch = partial(Monitor, estimator, X, y, sample_weight, **further)

    def __getstate__(self) -> dict[str, Any]:
        here = "_lock", "_tasks", "watch"  # with the data, and cv, which may be an iterator
        return {name: value for name, value in vars(self).items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def scores(
        self,
        scores_of: Callable[..., list[float]],
        limit: TimeLimit,
        k: int,
        train: NDArray,
        test: NDArray,
    ) -> tuple[list[float], list[float]]:
        """The scores of one fold, ``scores_of(train, test, report, limit)``, and seconds of fits.

        ``limit`` is that of all folds.
        """
        tasks, n_ended = self._of_folds, 0
        seconds = dict.fromkeys(self._values.tolist(), 0.0)
        limit = limit.part(-(-(self._n_folds - k) // self._n_threads), _RESERVE)
        with self._lock:
            fold = tasks.under(self._search, "fold", task_id=k, max_subtasks=self._n_fits)

        def report(value: float, results: list[SolverResult], spent: float) -> None:
            nonlocal n_ended
            n_ended += 1
            seconds[float(value)] += spent
            gap = max(r.relative_gap for r in results)
            with self._lock:
                self._lines.print_if_due(
                    lambda: (
                        f"fold {k + 1}/{self._n_folds}: {self._chosen} {value:.4g}, fit {n_ended} "
                        f"of {self._n_fits}, relative gap {gap:.2e}"
                    )
                )
                tasks.end(tasks.under(fold, "value"))

        scores = scores_of(train, test, report, limit)
        with self._lock:
            done = f"fold {k + 1}/{self._n_folds} done: "
            if scores:
                best = max(range(len(scores)), key=scores.__getitem__)
                value = f"{self._chosen} {self._values[best]:.4g}"
                self._lines.print(f"{done}best score {scores[best]:.4g} with {value}")
            else:
                self._lines.print(f"{done}max_time left no time for a score")
            tasks.end(fold)
        return scores, [seconds[value] for value in self._values.tolist()]

    def chose(self, found: SearchResults) -> None:
        """All folds are done; the fit to all data begins."""
        announce.leave(self._lines)
        score, end = found.score(found.place), found.end
        at_end = "" if end is None else f"; it is the {end} of the {len(self._values)} values tried"
        self._lines.print(
            f"{found.name} {found.best:.4g} has the best mean score, {score:.4g}{at_end}"
        )
        self._tasks.end(self._search)

    def close(self, fitted: dict[str, Any], results: list[SolverResult]) -> None:
        """The fit to all data has ended."""
        worst = max(results, key=lambda r: r.relative_gap)
        self._tasks.end(self._root, worst, lambda: fitted)
