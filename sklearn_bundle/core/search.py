"""Cross-validation over the values of one parameter, for any estimator."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context, get_config
from sklearn.metrics import brier_score_loss, get_scorer_names
from sklearn.utils import check_consistent_length
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sklearn_bundle.core.base import with_callbacks
from sklearn_bundle.core.certain_choice import CertainFolds
from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.fit import CertifiedEstimator, Outcome, fit_certified
from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.reports import Grid, Report, SearchMonitor, SearchResults
from sklearn_bundle.core.sklearn_internals import Interval, num_samples, safe_indexing
from sklearn_bundle.core.validation import checked_score, splits
from sklearn_bundle.core.values import as_numbers, plain, shown

MOST_VALUES = 100_000  # of a parameter: more are probably a mistake
# Scorers whose metric takes ``labels``, and fails without them where a test part lacks a class.
_LABELED = ["neg_log_loss", "d2_log_loss_score", "d2_brier_score", "top_k_accuracy"]
if "labels" in signature(brier_score_loss).parameters:  # since scikit-learn 1.7
    _LABELED.append("neg_brier_score")
# What a classifier says of a class that it has not seen, as in cross_val_predict.
_LEAST = float(np.finfo(float).min)
_UNSEEN = {"predict_proba": 0.0, "predict_log_proba": _LEAST, "decision_function": _LEAST}

Fold = tuple[np.ndarray, np.ndarray]  # training rows, test rows
# Scores of the values on a fold, in their order, from its rows, the object to report fits to, and
# its time limit: None, or missing at the end, where the limit left no time.
ScoresOf = Callable[[np.ndarray, np.ndarray, Report, TimeLimit], Sequence[float | None]]


def search_constraints(kind: type, values: str, not_shared: tuple[str, ...]) -> dict:
    """Constraints on the parameters that a search shares with its estimator, and on its own."""
    shared = {k: v for k, v in kind._parameter_constraints.items() if k not in not_shared}
    return shared | {
        values: [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [Names(get_scorer_names()), callable, None],
        "certain": ["boolean"],
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


def folds_among(
    cv: Any, X: Any, y: Any, kept: np.ndarray, classifier: bool, metadata: dict[str, Any]
) -> list[Fold]:
    """Training and test part of every fold, as numbers of kept rows.

    None and an integer split only the kept rows. The caller's own splitters get all rows, and the
    metadata.
    """
    n = num_samples(X)
    if cv is None or isinstance(cv, Integral):
        if len(kept) < n:
            X, y = (safe_indexing(array, kept) for array in (X, y))
        return splits(cv, X, y, classifier)
    place = np.full(n, -1)
    place[kept] = np.arange(len(kept))
    folds = splits(cv, X, y, classifier, **metadata)
    places = [[place[np.arange(n)[part]] for part in fold] for fold in folds]
    return [(train[train >= 0], test[test >= 0]) for train, test in places]


class _OfAllClasses:
    """A fitted classifier with columns also for the classes that its training part lacks."""

    def __init__(self, model: Any, classes: NDArray[Any]) -> None:
        self._model, self.classes_ = model, classes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._model, name)
        if name not in _UNSEEN:
            return method
        return wraps(method)(lambda X: self._columns(method(X), _UNSEEN[name]))

    def _columns(self, known: NDArray, unseen: float) -> NDArray[np.float64]:
        columns = np.full((len(known), len(self.classes_)), unseen)
        two = np.column_stack([-known, known]) if known.ndim == 1 else known
        columns[:, np.searchsorted(self.classes_, self._model.classes_)] = two
        return columns


class Search(CertifiedEstimator):
    """Chooses a parameter of an estimator by cross-validation, then fits to all data.

    A subclass also derives from that estimator, which checks data and predicts. The fitted
    estimators are of this kind, with the parameters of the search.

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

    [certain]
    certain : bool, default=False
        Whether to go on until the choice is that of exact optima: with a `tol` of at most 1e-6 in
        all fits, and down to 1e-12 for values that may still be the best.

    [certainty]
    test_score_bounds_ : ndarray of shape ({}, n_folds, 2)
        With ``certain=True``: the least and the largest test score that the exact optimum of each
        value and fold may have.
    best_is_certain_ : bool
        With ``certain=True``: whether exact optima would lead to the same choice.

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
    certain: bool

    scores_: NDArray[np.float64]
    mean_test_scores_: NDArray[np.float64]
    cv_results_: dict[str, Any]
    test_score_bounds_: NDArray[np.float64]  # with best_is_certain_, if certain is true
    best_is_certain_: bool

    _choice: CertainFolds  # on the copy that is fitted, if certain is true
    _kind: ClassVar[type[CertifiedEstimator]]  # class of the fitted estimators
    _chosen: ClassVar[str]  # its parameter; the search has the values under this name plus "s"
    _not_shared: ClassVar[tuple[str, ...]]  # its parameters that the search lacks
    _require: str | None = "sharedmem"  # for joblib: None if folds may run in processes
    _advice_on_choice: str | None = None  # on the copy that has been fitted

    @abstractmethod
    def _values(self, data: Any) -> NDArray[np.float64]:
        """The values of the parameter, in order of preference for ties."""

    @abstractmethod
    def _folds(
        self,
        data: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        values: NDArray[np.float64],
        metadata: dict[str, Any],
    ) -> tuple[list[Fold], ScoresOf]:
        """The folds, and a function that returns the scores of the values on one of them.

        The metadata are for ``split``.
        """

    def _fits_per_value(self, data: Any) -> int:
        """The number of fits that a fold reports per value."""
        return 1

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X and y as they are used from then on: what can be read only once is read here."""
        return X, y

    def _refitted(self) -> CertifiedEstimator:
        """The estimator of the chosen value."""
        chosen = {name: getattr(self, f"{name}_") for name in self._names_of_grid()}
        return self._single(**chosen).set_params(warm_start=True)

    def _names_of_grid(self) -> list[str]:
        """The parameters that are chosen."""
        return [self._chosen]

    def _single(self, **parameters: Any) -> CertifiedEstimator:
        """An estimator to fit; parameters that the search lacks have their defaults."""
        names = [name for name in self._kind._get_param_names() if name not in self._not_shared]
        return self._kind(**{name: getattr(self, name) for name in names} | parameters)

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Choose the value by cross-validation, then fit the model to all data.

        Parameters
        ----------
        X : array-like, sparse matrix or list
            Training data, as for the estimator without a search.
        y : array-like or list
            Labels or targets, as for that estimator.
        sample_weight : array-like, default=None
            Weights >= 0 as for that estimator, in every fit. A weight of 2 counts as a repeated
            sample, a weight of 0 as a missing one.
        **params : dict
            `groups`, array-like with an entry for each sample, for a splitter as `cv` that needs
            it, such as :class:`~sklearn.model_selection.GroupKFold`. With scikit-learn's metadata
            routing, whatever this splitter requests.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        TypeError
            For another parameter.
        """
        metadata = self._metadata(X, sample_weight, params)
        X, y = self._read(X, y)
        return fit_certified(self, X, y, sample_weight, metadata=metadata)

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

    def _metadata(self, X: Any, sample_weight: Any, params: dict[str, Any]) -> dict[str, Any]:
        """What is passed to ``split``."""
        given = {name: value for name, value in params.items() if value is not None}
        if given and is_collection(X):
            raise ValueError(
                f"{', '.join(given)} cannot be used if rows lie in blocks: folds are of whole "
                "blocks."
            )
        if get_config()["enable_metadata_routing"]:
            routed = given if sample_weight is None else given | {"sample_weight": sample_weight}
            given = dict(process_routing(self, "fit", **routed)["splitter"]["split"])
        else:
            for name in params.keys() - {"groups"}:
                raise TypeError(
                    f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}. It "
                    "takes X, y, sample_weight and groups, and with "
                    "set_config(enable_metadata_routing=True) what the splitter requests."
                )
        if given.get("groups") is not None:
            check_consistent_length(X, given["groups"])
        return given

    @with_callbacks
    def _fit(
        self, X: Any, y: Any, sample_weight: Any, warm: None, *, metadata: dict[str, Any]
    ) -> Outcome:
        limit = TimeLimit(self.max_time)
        data = self._check(X, y, sample_weight)  # errors come before any work starts
        why = self._why_uncertain(X, data) if self.certain else None
        if why is not None:
            raise ValueError(f"certain=True needs bounds of scores, which do not exist: {why}.")
        values = self._values(data)
        folds, scores_of = self._folds(data, X, y, sample_weight, values, metadata)
        grid = self._grid(values)
        n_fits = len(grid) * self._fits_per_value(data)
        sizes = len(folds), n_fits, min(effective_n_jobs(self.n_jobs), len(folds))
        monitor = SearchMonitor(self, X, y, sample_weight, grid, *sizes)
        with blas_threads(1):
            of_folds = Parallel(n_jobs=self.n_jobs, prefer="threads", require=self._require)(
                delayed(monitor.scores)(scores_of, limit, k, *fold) for k, fold in enumerate(folds)
            )
        del scores_of  # with what only the folds need
        found = SearchResults(self._named(grid), of_folds)
        found, further = self._resolved(found, limit)
        monitor.chose(found)
        best = grid.params(found.place)
        single = self._single(**best, max_time=limit.left)
        single._limit(data)
        outcome = single._solve(self._data_at(data, best), None, monitor.watch)
        fitted, results = outcome.fitted, outcome.results
        for name, of_one in grid.values.items():
            fitted |= {f"{name}_": best[name], f"{name}s_": of_one}
        shape = grid.shape
        fitted |= {"scores_": found.scores.reshape(-1, *shape)}
        fitted |= {"mean_test_scores_": found.means.reshape(shape)}
        fitted |= {"cv_results_": found.table()} | further
        self._advice_on_choice = self._advice_on(found, fitted)
        monitor.close(fitted, results)
        return outcome._replace(fitted=fitted, remarks={})  # the choice is remarked on instead

    def _score_of(
        self,
        scorer: Callable[..., Any],
        classes: NDArray[Any] | None,
        model: Any,
        X: Any,
        y: Any,
        weights: NDArray | None,
    ) -> float:
        """The score of a model on a test part, of all classes even where a part lacks some."""
        given = {} if weights is None or callable(self.scoring) else {"sample_weight": weights}
        if classes is not None and len(model.classes_) < len(classes):
            model = _OfAllClasses(model, classes)
        if self.scoring not in _LABELED:
            return checked_score(scorer(model, X, y, **given))
        with config_context(enable_metadata_routing=True):  # a scorer takes ``labels`` only then
            return checked_score(scorer(model, X, y, labels=classes, **given))

    def _why_uncertain(self, X: Any, data: Any) -> str | None:
        """Why gaps do not bound the default score of a search in these data, if they do not."""
        if self.scoring is not None:
            return f"scoring={shown(self.scoring)}: only the default score is bounded"
        return None

    def _resolved(
        self, found: SearchResults, limit: TimeLimit
    ) -> tuple[SearchResults, dict[str, Any]]:
        """The results, and fitted attributes that tell how certain they are.

        With ``certain``, the values that may be the best are fitted more exactly, until one is
        left.
        """
        if not self.certain:
            return found, {}
        choice = self._choice.decided(self.n_jobs, limit)
        return choice.chosen(found), choice.attributes(found.grid.shape)

    def _grid(self, values: NDArray[np.float64]) -> Grid:
        """All that is tried."""
        return Grid({self._chosen: values})

    def _named(self, grid: Grid) -> Grid:
        """The grid as the caller has given it."""
        return grid

    def _data_at(self, data: Any, best: dict[str, float]) -> Any:
        """The data for the final fit, with the chosen values."""
        return data

    def _caveat(self, outcome: Outcome) -> str | None:
        parts = super()._caveat(outcome), self._advice_on_choice
        return " ".join(part for part in parts if part is not None) or None

    def _advice_on(self, found: SearchResults, fitted: dict[str, Any]) -> str | None:
        """What the caller should know about the choice."""
        grid, n_folds = found.grid, len(found.scores)
        if found.n_scored.min() < n_folds:
            n_whole = np.count_nonzero(found.n_scored == n_folds)
            why = "the best that is known" if found.n_scored.any() else "the first value"
            return (
                f"max_time={self.max_time:g} ended the search of {type(self).__name__}: "
                f"{n_whole} of {len(grid)} values of {grid.names} have a score on every fold. The "
                f"choice is {grid.text(found.place, '=')}, {why}; scores that are missing are NaN "
                "in cv_results_. Increase max_time, or take fewer values or folds."
            )
        coef, advice = fitted.get("coef_"), []
        if found.place == 0 and coef is not None and not np.any(coef):
            return None  # where all weights are 0, more regularization changes nothing
        for name, end in found.ends.items():
            way, other = ("smaller", "below") if end == "smallest" else ("larger", "above")
            best, n = grid.params(found.place)[name], len(grid.values[name])
            advice.append(
                f"{type(self).__name__} chose {name}={best:.4g}, the {end} of the {n} values "
                f"tried: a {way} one may be better. Give {name}s that go on {other} it."
            )
        return " ".join(advice) or None
