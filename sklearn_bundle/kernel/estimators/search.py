"""Cross-validation of kernel machines over C, or over C and gamma."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.estimator import Fit, with_callbacks
from sklearn_bundle.core.folds import checked_scorer, folds_among, score_of
from sklearn_bundle.core.parameters import checked
from sklearn_bundle.core.search import (
    Grid,
    Report,
    Search,
    metadata_of_folds,
    positive_values,
    search,
    search_constraints,
    single_of,
    values_of_C,
)
from sklearn_bundle.core.values import gathered, shown
from sklearn_bundle.kernel.estimators.machine import Training, hints
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel

_WITH_GAMMA = "rbf", "poly"  # kernels


def kernel_search_constraints(kind: type) -> dict[str, Any]:
    """Constraints on the parameters of a search over C and gamma."""
    shared = search_constraints(kind, "Cs", ("C", "solver", "warm_start"))
    return shared | {"gammas": ["array-like", None]}


class KernelSearch(Search):
    """Cross-validation over C, in each fold from the smallest value to the largest, and gamma.

    Entries that docstrings share:

    [gammas]
    gammas : array-like of shape (n_gammas,), default=None
        Positive values of gamma for "rbf" and "poly": every C is tried with each of them. None
        means the one `gamma`; setting both is an error.

    [search_cache_size]
    cache_size : float, default=1000
        Memory for kernel values in MB; others are computed again when needed.

    [best_C_and_gamma]
    C_ : float
        The C with the largest mean score; of equal scores, the smallest C.
    Cs_ : ndarray of shape (n_Cs,)
        All values, ascending.
    gamma_ : float
        The gamma used; of equal scores with the same C, the smallest.
    gammas_ : ndarray of shape (n_gammas,)
        All values, ascending; only if `gammas` is set.
    scores_ : ndarray of shape (n_folds, n_Cs) or (n_folds, n_Cs, n_gammas)
        Score of every fold and value; the last axis is there if `gammas` is set.
    mean_test_scores_ : ndarray of shape (n_Cs,) or (n_Cs, n_gammas)
        Mean scores over the folds.
    cv_results_ : dict
        The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, an entry per C
        and gamma in the order of ``scores_``. Times are in seconds.
    """

    Cs: Any
    gammas: Any
    gamma: str | float
    kernel: Any
    cache_size: float
    C_: float
    Cs_: NDArray[np.float64]
    gammas_: NDArray[np.float64]

    _kind: ClassVar[type]  # of the fitted estimators
    _steps: ClassVar[Steps]  # of their fits

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Choose the value by cross-validation, then fit the model to all data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data, as for the estimator without a search.
        y : array-like of shape (n_samples,)
            Labels or targets, as for that estimator.
        sample_weight : array-like of shape (n_samples,), default=None
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
        metadata = metadata_of_folds(self, X, sample_weight, params)
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)
        run = Fit(self, X, y, hints=hints, sample_weight=sample_weight)
        own, limit, steps = run.params, TimeLimit(run.params.max_time), self._steps
        gammas, single = _gammas(own), single_of(own, self._kind)
        # The values of the largest gamma are hardest to compute.
        data = steps.checked(own, X, y, sample_weight, gammas[-1] if len(gammas) else None)
        Cs, samples = values_of_C(own.Cs), data.samples
        grid = Grid({"C": Cs} | ({"gamma": gammas} if len(gammas) else {}))
        rows = np.zeros(data.shape[0]), np.asarray(y), samples.rows
        folds = folds_among(own.cv, *rows, is_classifier(self), metadata)
        scorer = checked_scorer(single, own.scoring)
        kernel = data.values.kernel
        kernels = [replace(kernel, gamma=float(gamma)) for gamma in gammas] or [kernel]
        fits = _Folds(own, data, kernels, Cs, steps, scorer)
        found = search(run, single, grid, folds, fits.scores, limit)
        best = grid.params(found.place)
        final = checked(single_of(own, self._kind, **best))
        final.max_time = limit.left  # which may be 0
        if "gamma" in best:
            kernel = replace(kernel, gamma=best["gamma"])
            chosen = KernelData(data.values.X, kernel, data.values.dtype, samples.rows)
            chosen.choose_dtype()
            data = replace(data, values=chosen)
        fitted, results = steps.fit(run, final, data)
        fitted |= grid.chosen(found.place) | found.attributes()
        caveat = found.advice(run.name, own.max_time, fitted.get("coef_"))
        return run.finish(fitted, results, caveat=caveat)


def _gammas(params: KernelSearch) -> NDArray[np.float64]:
    """Values of gamma, ascending; none if there is only the kernel's."""
    if params.gammas is None:
        return np.empty(0)
    if not (isinstance(params.kernel, str) and params.kernel in _WITH_GAMMA):
        raise ValueError(
            f"gammas={shown(params.gammas)} is for kernel='rbf' or 'poly', which have a gamma; "
            f"got kernel={shown(params.kernel)}."
        )
    if params.gamma != "scale":
        raise ValueError(
            f"gamma={shown(params.gamma)} and gammas={shown(params.gammas)} are both set, but each "
            "gives the values to try: set one of them."
        )
    return np.unique(positive_values("gammas", params.gammas))


@dataclass
class Steps:
    """The parts of an estimator's fit that a search uses.

    ``part(samples, train)`` are those of a training part, whose X is set later; ``along(params,
    data, Cs, limit)`` yields attributes and results at ascending C.
    """

    checked: Callable[..., Training]
    part: Callable[[Any, NDArray[np.intp]], Any]
    along: Callable[..., Iterator[tuple[dict[str, Any], list[Any]]]]
    fit: Callable[..., tuple[dict[str, Any], list[Any]]]


@dataclass
class _Folds:
    """Fits of a search to training parts, and their scores on test parts."""

    search: KernelSearch  # a checked copy
    data: Training
    kernels: list[Kernel]  # with each gamma
    Cs: NDArray[np.float64]
    steps: Steps
    scorer: Any

    def scores(
        self, train: NDArray[np.intp], test: NDArray[np.intp], report: Report, limit: TimeLimit
    ) -> list[float | None]:
        """The scores of the whole grid on the test part of a fold; each fit is reported.

        There is none where the limit ends a fit, nor for larger C with the same gamma.
        """
        own, n_gammas, X = self.search, len(self.kernels), self.data.values.X
        scores: list[float | None] = [None] * (len(self.Cs) * n_gammas)
        part = self.steps.part(self.data.samples, train)
        X, Z = X[train], X[test]
        if self.data.values.precomputed:
            X, Z = X[:, train], Z[:, train]
        for g, kernel in enumerate(self.kernels):
            values = KernelData(X, kernel, self.data.values.dtype)
            values.definite = True  # the values of all data are checked
            values.choose_dtype()
            fold = replace(self.data, samples=replace(part, X=values.X), values=values)
            model = checked(single_of(own, own._kind, n_jobs=1))
            model.n_features_in_ = Z.shape[1]
            start = perf_counter()
            along = self.steps.along(model, fold, self.Cs, limit.part(n_gammas - g))
            for i, (fitted, results) in enumerate(along):
                report(i * n_gammas + g, results, perf_counter() - start)
                model.C = float(self.Cs[i])
                vars(model).update(fitted)
                scores[i * n_gammas + g] = self._score(model, Z, test)
                start = perf_counter()
        return scores

    def _score(self, model: Any, Z: Any, test: NDArray[np.intp]) -> float:
        """The score on a test part; equal weights are none."""
        samples, own = self.data.samples, self.search
        classes = getattr(samples, "classes", None)
        if classes is None:
            y, weights = samples.y[test], samples.weights
        else:
            y, weights = classes[samples.labels[test]], samples.sample_weight
        weights = weights[test] if np.ptp(weights) > 0.0 else None
        return score_of(self.scorer, own.scoring, classes, model, Z, y, weights)
