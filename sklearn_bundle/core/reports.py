"""What paths and searches report on values and folds while they run, and what they have found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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

# Called for every fit of a fold: the place of its value in the grid, the results of its
# subproblems, and its seconds.
Report = Callable[[int, list[SolverResult], float], None]


class Grid:
    """What a search tries: values of a parameter, or all combinations of values of several.

    Parameters
    ----------
    values : dict of ndarray
        By name, each in order of preference for ties. Places count them with the last name fastest,
        as scikit-learn's ``ParameterGrid``, whose names ascend.
    """

    def __init__(self, values: dict[str, NDArray[np.float64]]):
        self.values = values
        self.shape = tuple(len(of_one) for of_one in values.values())

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def params(self, place: int) -> dict[str, float]:
        """The values at a place, by name."""
        places = np.unravel_index(place, self.shape)
        pairs = zip(self.values.items(), places, strict=True)
        return {name: float(of_one[k]) for (name, of_one), k in pairs}

    def text(self, place: int, sign: str = " ") -> str:
        """The values at a place, as in "C 0.1, gamma 2"."""
        return ", ".join(f"{name}{sign}{value:.4g}" for name, value in self.params(place).items())

    @property
    def names(self) -> str:
        return " and ".join(self.values)


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
    models: Iterable[tuple[Any, list[SolverResult]]], values: NDArray[np.float64], report: Report
) -> Iterator[Any]:
    """The models of a path as they come, each reported as the one of its value."""
    start = perf_counter()
    places = range(len(values))
    for place, (model, results) in zip(places, models, strict=False):  # a limit may end both
        report(place, results, perf_counter() - start)
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
    grid : Grid
        What is tried.
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
        grid: Grid,
        n_folds: int,
        n_fits: int,
        n_threads: int,
    ):
        self._tasks = Tasks(estimator, X, y, sample_weight=sample_weight)
        self._of_folds = Tasks(estimator._single())  # which is fitted to parts of the data
        bars, name = self._tasks.have_bars, type(estimator).__name__
        self._lines = Lines(name, estimator.verbose, listens=bars)
        self._grid = grid
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
        scores_of: Callable[..., Sequence[float | None]],
        limit: TimeLimit,
        k: int,
        train: NDArray,
        test: NDArray,
    ) -> tuple[list[float | None], list[float]]:
        """The scores of one fold, ``scores_of(train, test, report, limit)``, and seconds of fits.

        ``limit`` is that of all folds.
        """
        tasks, n_ended, n = self._of_folds, 0, len(self._grid)
        seconds = [0.0] * n
        limit = limit.part(-(-(self._n_folds - k) // self._n_threads), _RESERVE)
        with self._lock:
            fold = tasks.under(self._search, "fold", task_id=k, max_subtasks=self._n_fits)

        def report(place: int, results: list[SolverResult], spent: float) -> None:
            nonlocal n_ended
            n_ended += 1
            seconds[place] += spent
            gap = max(r.relative_gap for r in results)
            with self._lock:
                self._lines.print_if_due(
                    lambda: (
                        f"fold {k + 1}/{self._n_folds}: {self._grid.text(place)}, fit {n_ended} of "
                        f"{self._n_fits}, relative gap {gap:.2e}"
                    )
                )
                tasks.end(tasks.under(fold, "value"))

        scores = scores_of(train, test, report, limit)
        with self._lock:
            done = f"fold {k + 1}/{self._n_folds} done: "
            known = {place: score for place, score in enumerate(scores) if score is not None}
            if known:
                best = max(known, key=known.__getitem__)
                value = self._grid.text(best)
                self._lines.print(f"{done}best score {known[best]:.4g} with {value}")
            else:
                self._lines.print(f"{done}max_time left no time for a score")
            tasks.end(fold)
        return [*scores, *[None] * (n - len(scores))], seconds

    def chose(self, found: SearchResults) -> None:
        """All folds are done; the fit to all data begins."""
        grid, score, at_ends = found.grid, found.score(found.place), ""
        for name, end in found.ends.items():
            what = "it" if len(grid.values) == 1 else name
            at_ends += f"; {what} is the {end} of the {len(grid.values[name])} values tried"
        text = grid.text(found.place)
        self._lines.print(f"{text} has the best mean score, {score:.4g}{at_ends}")
        self._tasks.end(self._search)

    def close(self, fitted: dict[str, Any], results: list[SolverResult]) -> None:
        """The fit to all data has ended."""
        worst = max(results, key=lambda r: r.relative_gap)
        self._tasks.end(self._root, worst, lambda: fitted)


class SearchResults:
    """Scores and times of every fold and value, and the choice among the values.

    Parameters
    ----------
    grid : Grid
        The values, for a single parameter from the strongest regularization to the weakest.
    folds : list of (scores, seconds)
        Of each fold: two lists, in the order of the values. Where a time limit left no score it is
        None, or missing at the end, and NaN stands for it. The seconds are those of all its fits.
    """

    def __init__(self, grid: Grid, folds: Sequence[tuple[Sequence[float | None], Sequence[float]]]):
        self.grid, n = grid, len(grid)
        rows = [[*scores, *[None] * (n - len(scores))] for scores, _ in folds]
        self.scores = np.array([[np.nan if s is None else s for s in row] for row in rows])
        self.seconds = np.array([seconds for _, seconds in folds])
        #: How many folds have a score of each value.
        self.n_scored = np.sum([[s is not None for s in row] for row in rows], axis=0)

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
    def ends(self) -> dict[str, str]:
        """Where a better value may lie beyond, by parameter: "smallest" or "largest".

        That is where the chosen value is at this end, and its neighbor is worse.
        """
        found, chosen = {}, np.unravel_index(self.place, self.grid.shape)
        for axis, (name, values) in enumerate(self.grid.values.items()):
            k, last = int(chosen[axis]), len(values) - 1
            if last == 0 or k not in (0, last):
                continue
            if k == 0:
                neighbor = [*chosen[:axis], 1, *chosen[axis + 1 :]]
                other = int(np.ravel_multi_index(neighbor, self.grid.shape))
                if self._ties(np.array([self.score(self.place), self.score(other)]))[1]:
                    continue
            found[name] = "smallest" if values[k] == values.min() else "largest"
        return found

    def table(self) -> dict[str, Any]:
        """``cv_results_`` as scikit-learn has it."""
        means, n = self.means, len(self.grid)
        found = {"mean_fit_time": self.seconds.mean(axis=0), "std_fit_time": self.seconds.std(0)}
        params = [self.grid.params(place) for place in range(n)]
        for name in self.grid.values:
            values = np.array([of_one[name] for of_one in params])
            found[f"param_{name}"] = np.ma.MaskedArray(values, np.zeros(n, dtype=bool))
        found["params"] = params
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
