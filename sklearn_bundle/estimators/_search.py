"""Cross-validation over the values of one parameter, for any estimator."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.metrics import get_scorer_names
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples

from sklearn_bundle._blas import blas_threads
from sklearn_bundle._parameters import Names
from sklearn_bundle.estimators._base import with_callbacks
from sklearn_bundle.estimators._fit import CertifiedEstimator, Outcome
from sklearn_bundle.estimators._reports import Report, SearchMonitor
from sklearn_bundle.estimators._validation import first_best, splits

MOST_VALUES = 100_000  # of a parameter: more are probably a mistake

Fold = tuple[np.ndarray, np.ndarray]  # training rows, test rows


def search_constraints(kind: type, values: str, not_shared: tuple[str, ...]) -> dict:
    """Constraints on the parameters that a search shares with its estimator, and on its own."""
    shared = {k: v for k, v in kind._parameter_constraints.items() if k not in not_shared}
    return shared | {
        values: [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [Names(get_scorer_names()), callable, None],
    }


def path_constraints(kind: type, not_shared: tuple[str, ...]) -> dict:
    """The same for a search over reg_lambda, whose values may be spaced by ``eps``."""
    shared = search_constraints(kind, "reg_lambdas", not_shared)
    eps = Interval(Real, 0, 1, closed="neither")
    return shared | {"reg_lambdas": [*shared["reg_lambdas"], None], "eps": [eps, None]}


def folds_among(cv: Any, X: Any, y: Any, kept: np.ndarray, classifier: bool) -> list[Fold]:
    """Training and test part of every fold, as numbers of kept rows.

    None and an integer split only the kept rows. The caller's own splitters get all rows.
    """
    if cv is None or isinstance(cv, Integral):
        X, y = (_safe_indexing(array, kept) for array in (X, y))
        return splits(cv, X, y, classifier)
    n = _num_samples(X)
    place = np.full(n, -1)
    place[kept] = np.arange(len(kept))
    places = [[place[np.arange(n)[part]] for part in fold] for fold in splits(cv, X, y, classifier)]
    return [tuple(part[part >= 0] for part in fold) for fold in places]


class Search(CertifiedEstimator):
    """Chooses a parameter of an estimator by cross-validation, then fits to all data.

    A subclass also derives from that estimator, which checks data and predicts. The fitted
    estimators are of this kind, with the parameters of the search.
    """

    cv: Any
    scoring: Any

    scores_: NDArray[np.float64]
    mean_test_scores_: NDArray[np.float64]

    _kind: ClassVar[type[CertifiedEstimator]]  # class of the fitted estimators
    _chosen: ClassVar[str]  # its parameter; the search has the values under this name plus "s"
    _not_shared: ClassVar[tuple[str, ...]]  # its parameters that the search lacks
    _require: ClassVar[str | None] = "sharedmem"  # for joblib: None if folds may run in processes

    @abstractmethod
    def _values(self, data: Any) -> NDArray[np.float64]:
        """The values of the parameter, in order of preference for ties."""

    @abstractmethod
    def _folds(
        self, data: Any, X: Any, y: Any, sample_weight: Any, values: NDArray[np.float64]
    ) -> tuple[list[Fold], Callable[[np.ndarray, np.ndarray, Report], list[float]]]:
        """The folds, and a function that returns the scores of all values on one of them.

        It is called with the rows to fit to, those to score, and the object to report fits to.
        """

    def _fits_per_value(self, data: Any) -> int:
        """The number of fits that a fold reports per value."""
        return 1

    def _single(self, **parameters: Any) -> CertifiedEstimator:
        """An estimator to fit; parameters that the search lacks have their defaults."""
        names = [name for name in self._kind._get_param_names() if name not in self._not_shared]
        return self._kind(**{name: getattr(self, name) for name in names} | parameters)

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any, warm: None) -> Outcome:
        data = self._check(X, y, sample_weight)  # errors come before any work starts
        values = self._values(data)
        folds, scores_of = self._folds(data, X, y, sample_weight, values)
        name, n_fits = self._chosen, len(values) * self._fits_per_value(data)
        monitor = SearchMonitor(self, X, y, sample_weight, name, values, len(folds), n_fits)
        with blas_threads(1):
            scores = Parallel(n_jobs=self.n_jobs, prefer="threads", require=self._require)(
                delayed(monitor.scores)(scores_of, k, *fold) for k, fold in enumerate(folds)
            )
        scores = np.array(scores)
        means = scores.mean(axis=0)
        place = first_best(means)
        best = float(values[place])
        monitor.chose(best, float(means[place]))
        single = self._single(**{name: best})
        fitted, results, interrupted = single._solve(data, None, monitor.watch)
        fitted |= {f"{name}_": best, f"{name}s_": values}
        fitted |= {"scores_": scores, "mean_test_scores_": means}
        monitor.close(fitted, results)
        return Outcome(fitted, results, interrupted)
