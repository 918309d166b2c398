"""What cross-validation over the values of one parameter is, whatever is fitted."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.metrics import get_scorer_names
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples

from sklearn_bundle._parallel import blas_threads
from sklearn_bundle.estimators._base import with_callbacks
from sklearn_bundle.estimators._fit import CertifiedEstimator, Outcome
from sklearn_bundle.estimators._reports import Report, SearchMonitor
from sklearn_bundle.estimators._validation import first_best, splits

MOST_VALUES = 100_000  # of a parameter: more of them are a slip

Fold = tuple[np.ndarray, np.ndarray]  # rows to fit to, rows to score


def search_constraints(kind: type, values: str, not_shared: tuple[str, ...]) -> dict:
    """Constraints on what a search shares with its estimator, and on what it adds."""
    shared = {k: v for k, v in kind._parameter_constraints.items() if k not in not_shared}
    return shared | {
        values: [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
    }


def path_constraints(kind: type, not_shared: tuple[str, ...]) -> dict:
    """The same for a search over reg_lambda, whose values may be spaced by ``eps``."""
    shared = search_constraints(kind, "reg_lambdas", not_shared)
    eps = Interval(Real, 0, 1, closed="neither")
    return shared | {"reg_lambdas": [*shared["reg_lambdas"], None], "eps": [eps, None]}


def folds_among(cv: Any, X: Any, y: Any, kept: np.ndarray, classifier: bool) -> list[Fold]:
    """Training and test part of every fold, among the rows that are kept.

    None and a number split these alone. Others are the caller's, and so are the rows that they
    split: they get all.
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
    """Chooses a parameter of an estimator by cross-validation, then fits to all data with it.

    A subclass derives from that estimator as well, which checks data and predicts. What is fitted
    are estimators of this kind, with the parameters of the search.
    """

    cv: Any
    scoring: Any

    scores_: NDArray[np.float64]
    mean_test_scores_: NDArray[np.float64]

    _kind: ClassVar[type[CertifiedEstimator]]  # what is fitted
    _chosen: ClassVar[str]  # its parameter; the search has the values under this name and an s
    _not_shared: ClassVar[tuple[str, ...]]  # its parameters that the search does not have
    _require: ClassVar[str | None] = "sharedmem"  # of joblib: None where folds may be processes

    @abstractmethod
    def _values(self, data: Any) -> NDArray[np.float64]:
        """The values of the parameter, of two that are as good the better one first."""

    @abstractmethod
    def _folds(
        self, data: Any, X: Any, y: Any, sample_weight: Any, values: NDArray[np.float64]
    ) -> tuple[list[Fold], Callable[[np.ndarray, np.ndarray, Report], list[float]]]:
        """The folds, and what returns the score of every value on one of them, reporting its fits.

        It is called with the rows to fit to, those to score, and what to report to.
        """

    def _fits_per_value(self, data: Any) -> int:
        """How many of them a fold reports."""
        return 1

    def _single(self, **parameters: Any) -> CertifiedEstimator:
        """An estimator of the kind that is fitted; what the search does not have is at default."""
        names = [name for name in self._kind._get_param_names() if name not in self._not_shared]
        return self._kind(**{name: getattr(self, name) for name in names} | parameters)

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any, warm: None) -> Outcome:
        data = self._check(X, y, sample_weight)  # what is wrong is told before any work starts
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
