"""Cross-validation of kernel machines over C, or over C and gamma."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.contract import SolverResult, TimeLimit
from sklearn_bundle.core.estimator import Fit, certificate, points_of, with_callbacks
from sklearn_bundle.core.misread import gathered
from sklearn_bundle.core.parameters import checked
from sklearn_bundle.core.search import (
    Grid,
    Report,
    Search,
    checked_scorer,
    folds_among,
    metadata_of_folds,
    positive_values,
    score_of,
    search,
    search_constraints,
    single_of,
    values_of_C,
)
from sklearn_bundle.core.validation import TrainingData
from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators._kernel import SINGLE_TOL, MachineTraining, hints
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.search_values import SearchValues

_WITH_GAMMA = "rbf", "poly"  # kernels


def kernel_search_constraints(kind: type, not_shared: tuple[str, ...]) -> dict[str, Any]:
    """Constraints on the parameters of a search over C and gamma."""
    return search_constraints(kind, "Cs", not_shared) | {"gammas": ["array-like", None]}


class KernelSearch(Search):
    """Cross-validation over C, in each fold from the smallest value to the largest, and gamma.

    The estimator that it fits has ``_checked`` data, ``_targets`` of subproblems, solutions of each
    ``_along`` the values of C, ``_attributes`` of their points, and ``_solved`` for all data.

    Entries that docstrings share:

    [gammas]
    gammas : array-like of shape (n_gammas,), default=None
        Positive values of gamma for "rbf" and "poly": every C is tried with each of them. None
        means the one `gamma`; setting both is an error.

    [search_cache_size]
    cache_size : float, default=1000
        Memory for kernel values in MB. A matrix that folds share takes ``4 n^2`` bytes and must fit
        into half of it; otherwise every fit computes its own values.

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

    @abstractmethod
    def _shares(self, data: Any) -> bool:
        """Whether folds should take their values from one matrix."""

    @abstractmethod
    def _part(self, samples: Any, train: NDArray[np.intp]) -> TrainingData:
        """The samples of a training part; X is set later."""

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
        own, limit = run.params, TimeLimit(run.params.max_time)
        gammas = _gammas(own)
        # The values of the largest gamma are hardest to compute.
        data = own._checked(X, y, sample_weight, gammas[-1] if len(gammas) else None)
        Cs = values_of_C(own.Cs)
        grid = Grid({"C": Cs} | ({"gamma": gammas} if len(gammas) else {}))
        single = single_of(own, self._kind)
        is_labeled, samples = is_classifier(self), data.samples
        rows = np.zeros(data.shape[0]), np.asarray(y), samples.rows
        folds = folds_among(own.cv, *rows, is_labeled, metadata)
        memory = own.cache_size * 2**20, min(effective_n_jobs(own.n_jobs), len(folds))
        kernels = SearchValues(data.values, gammas, own._shares(data), *memory, folds)
        scorer, classes = checked_scorer(single, own.scoring), None
        if is_labeled:
            classes, weights = samples.classes, samples.sample_weight
            truth = classes[samples.labels]
        else:
            truth, weights = samples.y, samples.weights
        scores = _Folds(own, data, kernels, Cs, gammas, scorer, classes, truth, weights).scores
        fits = len(own._targets(data))
        found = search(run, single, grid, folds, scores, limit, fits_per_value=fits)
        best = grid.params(found.place)
        final = checked(single_of(own, self._kind, **best))
        final.max_time = limit.left  # which may be 0
        if "gamma" in best:
            kernel = replace(data.values.kernel, gamma=best["gamma"])
            chosen = KernelData(data.values.X, kernel, data.values.dtype, samples.rows)
            chosen.choose_dtype()
            data = replace(data, values=chosen)
        fitted, results = final._solved(run, data)
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
class _Folds:
    """Fits of a search to training parts, and their scores on test parts."""

    search: KernelSearch  # a checked copy
    data: MachineTraining
    kernels: SearchValues
    Cs: NDArray[np.float64]
    gammas: NDArray[np.float64]
    scorer: Any
    classes: NDArray[Any] | None
    truth: NDArray[Any]
    weights: NDArray[np.float64]

    def scores(
        self, train: NDArray[np.intp], test: NDArray[np.intp], report: Report, limit: TimeLimit
    ) -> list[float | None]:
        """The scores of the whole grid on the test part of a fold; each fit is reported.

        There is none where the limit ends a fit, nor for larger C with the same gamma.
        """
        own, n_gammas = self.search, max(1, len(self.gammas))
        scores: list[float | None] = [None] * (len(self.Cs) * n_gammas)
        train = self.kernels.arranged(train)
        part, y = own._part(self.data.samples, train), self.truth[test]
        weights = self.weights[test] if np.ptp(self.weights) > 0.0 else None  # equal ones: none
        for g, (values, Z) in enumerate(self.kernels.of_fold(train, test)):
            if own.tol < SINGLE_TOL:
                values.dtype = np.dtype(np.float64)
            fold = replace(self.data, samples=replace(part, X=values.X), values=values)
            fold.cache_bytes, fold.shared = int(self.kernels.bytes_of_thread), True
            model = checked(single_of(own, own._kind, kernel=values.kernel.name, n_jobs=1))
            if Z.ndim > 1:
                model.n_features_in_ = Z.shape[1]
            of_gamma, by_target, targets = limit.part(n_gammas - g), [], model._targets(fold)
            for k, target in enumerate(targets):
                along = model._along(fold, target, self.Cs, of_gamma.part(len(targets) - k))
                by_target.append(list(_reported(along, report, g, n_gammas)))
            # The limit may have ended some earlier.
            for i, results in enumerate(zip(*by_target, strict=False)):
                model.C, found = float(self.Cs[i]), list(results)
                vars(model).update(certificate(found), **model._attributes(fold, points_of(found)))
                given = self.scorer, own.scoring, self.classes, model, Z, y, weights
                scores[i * n_gammas + g] = score_of(*given)
        return scores


def _reported(
    along: Iterator[list[SolverResult]], report: Report, g: int, n_gammas: int
) -> Iterator[SolverResult]:
    """The solutions at all C with gamma number g, each reported as one of the grid."""
    start, i = perf_counter(), 0
    for results in along:
        spent = (perf_counter() - start) / len(results)
        for result in results:
            report(i * n_gammas + g, [result], spent)
            yield result
            i += 1
        start = perf_counter()
