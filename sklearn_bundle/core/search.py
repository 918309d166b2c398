"""Cross-validation over the values of one parameter or two, for any estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Integral, Real
from threading import Lock
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.metrics import get_scorer_names
from sklearn.utils import check_consistent_length
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sklearn_bundle.core.contract import SolverResult, TimeLimit
from sklearn_bundle.core.estimator import CertifiedEstimator, Fit
from sklearn_bundle.core.folds import Fold
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.core.parameters import Interval, Names, parameters_of
from sklearn_bundle.core.values import as_numbers, is_collection, plain, shown

MOST_VALUES = 100_000  # of a parameter: more are probably a mistake
# Called for every fit of a fold: the place of its value in the grid, the results of its
# subproblems, and its seconds.
Report = Callable[[int, list[SolverResult], float], None]
# Scores of the values on a fold, in their order, from its rows, the object to report fits to, and
# its time limit: None, or missing at the end, where the limit left no time.
ScoresOf = Callable[[np.ndarray, np.ndarray, Report, TimeLimit], Sequence[float | None]]


class Search(CertifiedEstimator):
    """Chooses a parameter of an estimator by cross-validation, then fits to all data.

    A subclass also derives from that estimator, which predicts.

    Entries that docstrings share:

    [search_tol]
    tol : float, default={}
        Largest relative duality gap of every fit, in (0, 1]. 1e-3 proves that the objective is
        within 0.1 % of its minimum.

    [search_max_iter]
    max_iter : int, default={}
        Maximum number of iterations of every fit.

    [search_max_time]
    max_time : float, default=None
        Time limit in seconds for the whole search, without compilation. At least a fifth is for the
        final fit. A fit that the limit ends has no score; the choice is among the values with
        scores on the most folds, and a warning says so.

    [search_verbose]
    verbose : int, default=0
        1 prints one line per fold, and the progress of long fits.

    [reg_lambdas]
    reg_lambdas : int or array-like of shape (n_lambdas,), default=None
        Positive values, or their number: they are then equally spaced on a logarithmic scale.

    [eps_and_Cs]
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3 with L1 and the elastic net, otherwise 1e-6.
    Cs : int or array-like of shape (n_Cs,), default=None
        In place of `reg_lambdas`: values of the C of :class:`{}`, or their number, then
        equally spaced on a logarithmic scale from 1e-3 to 1e3.

    [Cs]
    Cs : int or array-like of shape (n_Cs,), default=7
        Positive values of C, or their number: they are then equally spaced on a logarithmic scale
        from 1e-3 to 1e3.

    [cv]
    cv : int, cross-validation generator, iterable or None, default=None
        Folds. None and an integer mean {} folds, 5 by default.

    [scoring]
    scoring : str, callable or None, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`. Sample weights count unless it is a
        callable. None means

    [best_reg_lambda]
    reg_lambda_ : float
        The value with the largest mean score; of equal scores, the largest value.
    reg_lambdas_ : ndarray of shape (n_lambdas,)
        All values, descending.

    [scores]
    scores_ : ndarray of shape (n_folds, {})
        Score of every fold and value.
    mean_test_scores_ : ndarray of shape ({},)
        Mean scores over the folds.
    cv_results_ : dict
        The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, an entry per
        value. Times are in seconds.

    [search_warnings]
    ConvergenceWarning
        If the final fit ended above `tol`.
    UserWarning
        If the choice is at an end of the values and better than its neighbor, or if
        `max_time` ended the search.
    """

    cv: Any
    scoring: Any

    scores_: NDArray[np.float64]
    mean_test_scores_: NDArray[np.float64]
    cv_results_: dict[str, Any]

    def get_metadata_routing(self) -> MetadataRouter:
        """Routing of metadata, for scikit-learn: its own, and what the splitter in `cv` requests.

        Returns
        -------
        routing : MetadataRouter
            The routing.
        """
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        mapping = MethodMapping().add(caller="fit", callee="split")
        return router.add(splitter=self.cv, method_mapping=mapping)


def search(
    run: Fit,
    single: CertifiedEstimator,
    grid: Grid,
    folds: list[Fold],
    scores_of: ScoresOf,
    limit: TimeLimit,
    *,
    fits_per_value: int = 1,
    processes: bool = False,
) -> SearchResults:
    """The scores of what is in the grid on all folds; ``run`` may then fit to all data.

    Parameters
    ----------
    run : Fit
        Of the search.
    single : CertifiedEstimator
        What is fitted to parts of the data, for callbacks.
    grid : Grid
        In the names and values of messages.
    folds, scores_of
        See above.
    limit : TimeLimit
        For all folds and the fit to all data, which has a fifth of it.
    fits_per_value : int
        Fits that a fold reports for each value.
    processes : bool
        Whether folds may run in processes.
    """
    run.root = run.begin(max_subtasks=2)
    watch = _Watch(run, single, grid, len(folds), fits_per_value)
    with blas_threads(1):
        of_folds = Parallel(
            n_jobs=run.params.n_jobs, prefer="threads", require=None if processes else "sharedmem"
        )(delayed(watch.fold)(scores_of, limit, k, *fold) for k, fold in enumerate(folds))
    found = SearchResults(grid, of_folds)
    watch.close(found)
    return found


class _Watch:
    """Watches the folds of a search and the fits of each; a copy in another process goes on."""

    def __init__(
        self, run: Fit, single: CertifiedEstimator, grid: Grid, n_folds: int, fits_per_value: int
    ):
        self._lines, self._grid, self._lock = run.lines, grid, Lock()
        self._n_folds, self._n_fits = n_folds, len(grid) * fits_per_value
        self._n_threads = min(effective_n_jobs(run.params.n_jobs), n_folds)
        kind = {"max_subtasks": n_folds, "sequential_subtasks": False}
        self._task = run.root.begin("search", **kind)
        self._of_folds = self._task.of(single)

    def __getstate__(self) -> dict[str, Any]:
        here = "_lock", "_task"  # with the data, and cv, which may be an iterator
        return {name: value for name, value in vars(self).items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def fold(
        self, scores_of: ScoresOf, limit: TimeLimit, k: int, train: NDArray, test: NDArray
    ) -> tuple[list[float | None], list[float]]:
        """The scores of one fold, and seconds of fits; ``limit`` is that of the search."""
        n_ended, n = 0, len(self._grid)
        seconds = [0.0] * n
        # a fifth of the time limit is for the fit to all data
        limit = limit.part(-(-(self._n_folds - k) // self._n_threads), 0.2)
        name = f"fold {k + 1}/{self._n_folds}"
        with self._lock:
            task = self._of_folds.begin("fold", task_id=k, max_subtasks=self._n_fits)

        def report(place: int, results: list[SolverResult], spent: float) -> None:
            nonlocal n_ended
            n_ended += 1
            seconds[place] += spent
            gap = max(r.relative_gap for r in results)
            with self._lock:
                self._lines.print_if_due(
                    lambda: (
                        f"{name}: {self._grid.text(place)}, fit {n_ended} of {self._n_fits}, "
                        f"relative gap {gap:.2e}"
                    )
                )
                task.begin("value").end()

        scores = scores_of(train, test, report, limit)
        known = {place: score for place, score in enumerate(scores) if score is not None}
        with self._lock:
            if known:
                best = max(known, key=known.__getitem__)
                text = f"best score {known[best]:.4g} with {self._grid.text(best)}"
            else:
                text = "max_time left no time for a score"
            self._lines.print(f"{name} done: {text}")
            task.end()
        return [*scores, *[None] * (n - len(scores))], seconds

    def close(self, found: SearchResults) -> None:
        """All folds are done; the fit to all data begins."""
        grid, score, at_ends = found.grid, found.score(found.place), ""
        for name, end in found.ends.items():
            what = "it" if len(grid.values) == 1 else name
            at_ends += f"; {what} is the {end} of the {len(grid.values[name])} values tried"
        text = grid.text(found.place)
        self._lines.print(f"{text} has the best mean score, {score:.4g}{at_ends}")
        self._task.end()


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

    def chosen(self, place: int) -> dict[str, Any]:
        """Fitted attributes: what is chosen, and all values, by name."""
        best = self.params(place)
        fitted = {f"{name}_": value for name, value in best.items()}
        return fitted | {f"{name}s_": values for name, values in self.values.items()}


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
        # rounding of weighted means of equal scores, summed in another order
        slack = 1e-12 * abs(top) if np.isfinite(top) else 0.0
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

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes: scores of folds, their means, and both as scikit-learn has them."""
        scores, means = (
            array.reshape(*array.shape[:-1], *self.grid.shape)
            for array in (self.scores, self.means)
        )
        return {"scores_": scores, "mean_test_scores_": means, "cv_results_": self.table()}

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

    def advice(self, caller: str, max_time: float | None, coef: Any = None) -> str | None:
        """What the caller should know about the choice; ``coef`` are the weights of the model."""
        grid, n_folds = self.grid, len(self.scores)
        if self.n_scored.min() < n_folds:
            n_whole = np.count_nonzero(self.n_scored == n_folds)
            why = "the best that is known" if self.n_scored.any() else "the first value"
            return (
                f"max_time={max_time:g} ended the search of {caller}: "
                f"{n_whole} of {len(grid)} values of {grid.names} have a score on every fold. The "
                f"choice is {grid.text(self.place, '=')}, {why}; scores that are missing are NaN "
                "in cv_results_. Increase max_time, or take fewer values or folds."
            )
        advice = []
        if self.place == 0 and coef is not None and not np.any(coef):
            return None  # where all weights are 0, more regularization changes nothing
        for name, end in self.ends.items():
            way, other = ("smaller", "below") if end == "smallest" else ("larger", "above")
            best, n = grid.params(self.place)[name], len(grid.values[name])
            advice.append(
                f"{caller} chose {name}={best:.4g}, the {end} of the {n} values "
                f"tried: a {way} one may be better. Give {name}s that go on {other} it."
            )
        return " ".join(advice) or None


# ---- parameters of searches ---------------------------------------------------------------------


def search_constraints(kind: type, values: str, not_shared: tuple[str, ...]) -> dict:
    """Constraints on the parameters that a search shares with its estimator, and on its own."""
    shared = {k: v for k, v in kind._allowed.items() if k not in not_shared}
    return shared | {
        values: [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [Names(get_scorer_names()), callable, None],
    }


def path_constraints(kind: type, not_shared: tuple[str, ...]) -> dict:
    """The same for a search over reg_lambda, whose values may be spaced by ``eps``."""
    shared = search_constraints(kind, "reg_lambdas", not_shared)
    eps = Interval(Real, 0, 1, closed="neither")
    values = [*shared["reg_lambdas"], None]
    return shared | {"reg_lambdas": values, "Cs": values, "eps": [eps, None]}


def number_or_values(name: str, given: Any) -> int | NDArray[np.float64]:
    """The number of values to try, or these values, which have to be positive."""
    number = plain(given)
    if type(number) is int and 1 <= number <= MOST_VALUES:
        return number
    return positive_values(name, given, f"be a number of values, from 1 to {MOST_VALUES}, or must ")


def positive_values(name: str, given: Any, otherwise: str = "") -> NDArray[np.float64]:
    """These values, one or more, which have to be positive."""
    values = as_numbers(name, given)
    if not (values.ndim == 1 and len(values) and ((values > 0.0) & np.isfinite(values)).all()):
        raise ValueError(f"{name} must {otherwise}hold positive numbers, got {shown(given)}.")
    return values


def values_of_C(Cs: Any) -> NDArray[np.float64]:
    """Values of C, ascending: as given, or their number, from 1e-3 to 1e3."""
    found = number_or_values("Cs", Cs)
    return np.logspace(-3, 3, found) if isinstance(found, int) else np.unique(found)


def single_of(search: CertifiedEstimator, kind: type, **parameters: Any) -> Any:
    """An estimator to fit; parameters that the search lacks have their defaults."""
    own = vars(search)
    return kind(**{name: own[name] for name in parameters_of(kind) if name in own} | parameters)


def metadata_of_folds(
    search: Search, X: Any, sample_weight: Any, params: dict[str, Any]
) -> dict[str, Any]:
    """What is passed to ``split``: groups, or what the splitter requests."""
    given = {name: value for name, value in params.items() if value is not None}
    if given and is_collection(X):
        raise ValueError(
            f"{', '.join(given)} cannot be used if rows lie in blocks: folds are of whole blocks."
        )
    if get_config()["enable_metadata_routing"]:
        routed = given if sample_weight is None else given | {"sample_weight": sample_weight}
        given = dict(process_routing(search, "fit", **routed)["splitter"]["split"])
    else:
        for name in params.keys() - {"groups"}:
            raise TypeError(
                f"{type(search).__name__}.fit() got an unexpected keyword argument {name!r}. It "
                "takes X, y, sample_weight and groups, and with "
                "set_config(enable_metadata_routing=True) what the splitter requests."
            )
    if given.get("groups") is not None:
        check_consistent_length(X, given["groups"])
    return given
