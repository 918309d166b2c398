"""What paths and searches tell of their values and folds, to ``verbose`` and to callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Any

from numpy.typing import NDArray

from sklearn_bundle import _announce
from sklearn_bundle.estimators._monitor import Lines, Monitor, Tasks, given, iterations
from sklearn_bundle.solvers.contract import SolverResult, Status

# Told of every fit of a fold: the value, and the results of its subproblems.
Report = Callable[[float, list[SolverResult]], None]


def told(
    caller: str,
    verbose: int,
    values: NDArray,
    models: Iterable[tuple[Any, list[SolverResult]]],
) -> Iterator[tuple[Any, list[SolverResult]]]:
    """The models of a path as they come, with a line for each and a last one for all."""
    lines, n_converged, largest = Lines(caller, verbose), 0, 0.0
    if verbose:
        _announce.listen(lines, caller)
    for i, (model, results) in enumerate(models):
        yield model, results
        worst = max(results, key=lambda r: r.relative_gap)
        n_converged += all(r.status is Status.CONVERGED for r in results)
        largest = max(largest, worst.relative_gap)
        lines.must(
            f"reg_lambda {values[i]:.4g} ({i + 1}/{len(values)}): objective {worst.primal:.8g}, "
            f"relative gap {worst.relative_gap:.2e}, {worst.status} after {iterations(worst)}"
        )
    _announce.leave(lines)
    lines.must(
        f"ended with {n_converged} of {len(values)} values converged, largest relative gap "
        f"{largest:.2e}"
    )


def reported(models: Iterable[tuple[Any, list[SolverResult]]], report: Report) -> Iterator[Any]:
    """The models of a path as they come, each reported."""
    for model, results in models:
        report(model.reg_lambda, results)
        yield model


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
    ):
        self._tasks = Tasks(estimator, given(X, y, sample_weight=sample_weight))
        self._of_folds = Tasks(estimator._single(), {})  # which is fitted to parts of the data
        self._lines = Lines(type(estimator).__name__, estimator.verbose)
        self._chosen, self._values = chosen, values
        self._n_folds, self._n_fits = n_folds, n_fits
        self._lock = Lock()
        if estimator.verbose or self._tasks.have_bars:
            _announce.listen(self._lines, self._lines.name)
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
        self, scores_of: Callable[..., list[float]], k: int, train: NDArray, test: NDArray
    ) -> list[float]:
        """The scores of one fold, ``scores_of(train, test, report)``."""
        tasks, n_ended = self._of_folds, 0
        with self._lock:
            fold = tasks.under(self._search, "fold", task_id=k, max_subtasks=self._n_fits)

        def report(value: float, results: list[SolverResult]) -> None:
            nonlocal n_ended
            n_ended += 1
            gap = max(r.relative_gap for r in results)
            with self._lock:
                self._lines.may(
                    lambda: (
                        f"fold {k + 1}/{self._n_folds}: {self._chosen} {value:.4g}, fit {n_ended} "
                        f"of {self._n_fits}, relative gap {gap:.2e}"
                    )
                )
                tasks.end(tasks.under(fold, "value"))

        scores = scores_of(train, test, report)
        best = max(range(len(scores)), key=scores.__getitem__)
        with self._lock:
            self._lines.must(
                f"fold {k + 1}/{self._n_folds} done: best score {scores[best]:.4g} with "
                f"{self._chosen} {self._values[best]:.4g}"
            )
            tasks.end(fold)
        return scores

    def chose(self, value: float, score: float) -> None:
        """All folds are done; the fit to all data begins."""
        _announce.leave(self._lines)
        lowest, highest = self._values.min(), self._values.max()
        at_end = ""
        if lowest < highest and value in (lowest, highest):
            end = "smallest" if value == lowest else "largest"
            at_end = f"; it is the {end} of the {len(self._values)} values tried"
        self._lines.must(f"{self._chosen} {value:.4g} has the best mean score, {score:.4g}{at_end}")
        self._tasks.end(self._search)

    def close(self, fitted: dict[str, Any], results: list[SolverResult]) -> None:
        """The fit to all data has ended."""
        worst = max(results, key=lambda r: r.relative_gap)
        self._tasks.end(self._root, worst, lambda: fitted)
