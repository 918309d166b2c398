"""What paths and searches report on values and folds while they run, and what they have found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.monitor import Lines, Monitor, Tasks, iterations
from sklearn_bundle.jit import announce

_RESERVE = 0.2  # of the time limit of a search: for the fit to all data
_TIE = 1e-12  # relative: rounding of weighted means of equal scores, summed in another order

# Called for every fit of a fold: the value, the results of its subproblems, and its seconds.
Report = Callable[[float, list[SolverResult], float], None]


def told(
    caller: str, verbose: int, values: NDArray, models: Iterable[tuple[Any, list[SolverResult]]]
) -> Iterator[tuple[Any, list[SolverResult]]]:
    """The models of a path as they come, with a line for each and a last one for all."""
    lines, n_converged, largest = Lines(caller, verbose), 0, 0.0
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
        self._tasks = Tasks(estimator, X, y, sample_weight=sample_weight)
        self._of_folds = Tasks(estimator._single())  # which is fitted to parts of the data
        bars, name = self._tasks.have_bars, type(estimator).__name__
        self._lines = Lines(name, estimator.verbose, listens=bars)
        self._chosen, self._values = chosen, values
        self._n_folds, self._n_fits, self._n_threads = n_folds, n_fits, n_threads
        self._lock = Lock()
        self._root = self._tasks.root(max_subtasks=2)
        kind = {"max_subtasks": n_folds, "sequential_subtasks": False}
        self._search = self._tasks.under(self._root, "search", **kind)
        self.watch = partial(Monitor, self._tasks, self._lines, within=self._root)

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


class SearchResults:
    """Scores and times of every fold and value, and the choice among the values.

    Parameters
    ----------
    name : str
        The parameter.
    values : ndarray of shape (n_values,)
        In order of preference for ties, from the strongest regularization to the weakest.
    folds : list of (scores, seconds)
        Of each fold: two lists, in the order of the values. A fold that a time limit ended has
        fewer scores, and NaN stands for the others. The seconds are those of all its fits.
    """

    def __init__(
        self, name: str, values: NDArray[np.float64], folds: list[tuple[list[float], list[float]]]
    ):
        self.name, self.values = name, values
        n = len(values)
        self.scores, self.seconds = (
            np.array([part + [np.nan] * (n - len(part)) for part in parts])
            for parts in zip(*folds, strict=True)
        )
        #: How many folds have a score of each value.
        self.n_scored = np.sum([np.arange(n) < len(scores) for scores, _ in folds], axis=0)

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean scores over the folds; NaN for a value that some fold has not scored."""
        return self.scores.mean(axis=0)

    @cached_property
    def place(self) -> int:
        """The place of the chosen value.

        That is the first with the largest mean; means that differ by rounding are equal. If there
        is no value that all folds have scored, the mean is over the folds that have, and the values
        are those with the most of these.
        """
        places = np.flatnonzero(self.n_scored == self.n_scored.max())
        means = np.array([self.score(int(place)) for place in places])
        return int(places[np.argmax(self._ties(means))])

    @property
    def best(self) -> float:
        """The chosen value."""
        return float(self.values[self.place])

    def score(self, place: int) -> float:
        """The mean score of this value over the folds that have scored it."""
        n = self.n_scored[place]
        scores = self.scores[:, place]
        return float(scores.mean() if n in (0, len(scores)) else np.nansum(scores) / n)

    @staticmethod
    def _ties(means: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which means are the largest, up to rounding; none if all are NaN."""
        top = np.max(means[~np.isnan(means)], initial=-np.inf)
        slack = _TIE * abs(top) if np.isfinite(top) else 0.0
        return means >= top - slack

    @property
    def end(self) -> str | None:
        """Whether a better value may lie beyond: "smallest" or "largest", otherwise None.

        That is where the chosen value is at this end, and its neighbor is worse.
        """
        last = len(self.values) - 1
        if last == 0 or self.place not in (0, last):
            return None
        if self.place == 0 and self._ties(np.array([self.score(0), self.score(1)]))[1]:
            return None
        return "smallest" if self.values[self.place] == self.values.min() else "largest"

    def table(self) -> dict[str, Any]:
        """``cv_results_`` as scikit-learn has it."""
        means, n = self.means, len(self.values)
        found = {"mean_fit_time": self.seconds.mean(axis=0), "std_fit_time": self.seconds.std(0)}
        found[f"param_{self.name}"] = np.ma.MaskedArray(self.values, np.zeros(n, dtype=bool))
        found["params"] = [{self.name: float(value)} for value in self.values]
        found |= {f"split{k}_test_score": scores for k, scores in enumerate(self.scores)}
        found |= {"mean_test_score": means, "std_test_score": self.scores.std(axis=0)}
        return found | {"rank_test_score": self._ranks(means)}

    def _ranks(self, means: NDArray[np.float64]) -> NDArray[np.int32]:
        """1 is the best; equal scores share a rank, and NaN is last."""
        known = ~np.isnan(means)
        ranks = np.full(len(means), np.count_nonzero(known) + 1, dtype=np.int32)
        top = np.max(means[known], initial=-np.inf)
        level = np.where(self._ties(means), top, means)
        ranks[known] = rankdata(-level[known], method="min")
        return ranks
