"""Cross-validation of kernel machines over C, or over C and gamma."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.contract import Status, TimeLimit
from sklearn_bundle.core.reports import Grid, Report
from sklearn_bundle.core.search import (
    Fold,
    ScoresOf,
    Search,
    folds_among,
    positive_values,
    search_constraints,
    values_of_C,
)
from sklearn_bundle.core.validation import TrainingData, checked_score, checked_scorer
from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators._kernel import MachineTraining
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from sklearn_bundle.kernel.values.search_values import SearchValues


def kernel_search_constraints(kind: type, not_shared: tuple[str, ...]) -> dict[str, Any]:
    """Constraints on the parameters of a search over C and gamma."""
    return search_constraints(kind, "Cs", not_shared) | {"gammas": ["array-like", None]}


class KernelSearch(Search):
    """Cross-validation over C, in each fold from the smallest value to the largest, and gamma.

    Entries that docstrings share:

    [gammas]
    gammas : array-like of shape (n_gammas,), default=None
        Positive values of gamma for "rbf" and "poly": every C is tried with each of them. None
        means the one `gamma`; setting both is an error. Squared distances, or inner products for
        "poly", are computed once for all values and folds, if there is space for a matrix of them.

    [search_cache_size]
    cache_size : float, default=1000
        Memory for kernel values in MB, for all folds that are fitted at a time. A shared matrix, in
        single precision, must fit into half of it (``4 n^2`` bytes), and with it the parts that
        these folds copy; otherwise every fit computes its own values.

    [best_C_and_gamma]
    C_ : float
        The C with the largest mean score; of equal scores, the smallest C. If it is the smallest or
        the largest of `Cs_`, a warning says so.
    Cs_ : ndarray of shape (n_Cs,)
        All values, ascending.
    gamma_ : float
        The gamma used; of equal scores with the same C, the smallest. A warning says if it is the
        smallest or the largest of `gammas_`.
    gammas_ : ndarray of shape (n_gammas,)
        All values, ascending; only if `gammas` is set.
    scores_ : ndarray of shape (n_folds, n_Cs) or (n_folds, n_Cs, n_gammas)
        Score of every fold and value; the last axis is there if `gammas` is set.
    mean_test_scores_ : ndarray of shape (n_Cs,) or (n_Cs, n_gammas)
        Mean scores over the folds.
    cv_results_ : dict
        The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, with an entry
        for each value, or for each C and gamma in the order of ``scores_``: "mean_fit_time",
        "std_fit_time", "param_C", "param_gamma", "params", "split0_test_score" and so on,
        "mean_test_score", "std_test_score", "rank_test_score". Times are seconds; a fit that starts
        from the one before takes less than a separate fit.
    """

    Cs: Any
    gammas: Any
    gamma: str | float
    kernel: Any
    cache_size: float
    C_: float
    Cs_: NDArray[np.float64]
    gammas_: NDArray[np.float64]

    _chosen = "C"
    _with_gamma: ClassVar[tuple[str, ...]] = ("rbf", "poly")

    @abstractmethod
    def _shares(self, data: Any) -> bool:
        """Whether folds should take their values from one matrix."""

    @abstractmethod
    def _part(self, samples: Any, train: NDArray[np.intp]) -> TrainingData:
        """The samples of a training part; X is set later."""

    @abstractmethod
    def _truth(self, samples: Any) -> NDArray[Any]:
        """What the scores compare predictions with, for all samples."""

    def _gammas(self) -> NDArray[np.float64]:
        """Values of gamma, ascending; none if there is only the kernel's."""
        if self.gammas is None:
            return np.empty(0)
        if not (isinstance(self.kernel, str) and self.kernel in self._with_gamma):
            raise ValueError(
                f"gammas={shown(self.gammas)} is for kernel='rbf' or 'poly', which have a gamma; "
                f"got kernel={shown(self.kernel)}."
            )
        if self.gamma != "scale":
            raise ValueError(
                f"gamma={shown(self.gamma)} and gammas={shown(self.gammas)} are both set, but each "
                "gives the values to try: set one of them."
            )
        return np.unique(positive_values("gammas", self.gammas))

    def _validate_params(self) -> None:
        super()._validate_params()
        self._gammas()

    def _kernel_of(self, data: TrainingData) -> Kernel:
        """With several gammas that of the largest, whose values are hardest to compute."""
        gammas = self._gammas()
        if not len(gammas):
            return super()._kernel_of(data)
        return Kernel(self.kernel, float(gammas[-1]), int(self.degree), float(self.coef0))

    def _values(self, data: Any) -> NDArray[np.float64]:
        """Values of C, ascending."""
        return values_of_C(self.Cs)

    def _grid(self, values: NDArray[np.float64]) -> Grid:
        gammas = self._gammas()
        return Grid({"C": values} | ({"gamma": gammas} if len(gammas) else {}))

    def _names_of_grid(self) -> list[str]:
        return ["C"] if self.gammas is None else ["C", "gamma"]

    def _data_at(self, data: MachineTraining, best: dict[str, float]) -> MachineTraining:
        if "gamma" not in best:
            return data
        values = data.values
        kernel = replace(values.kernel, gamma=best["gamma"])
        chosen = KernelData(values.X, kernel, values.dtype, data.samples.rows)
        chosen.choose_dtype()
        return replace(data, values=chosen)

    def _folds(
        self,
        data: MachineTraining,
        X: Any,
        y: Any,
        sample_weight: Any,
        values: NDArray[np.float64],
        metadata: dict[str, Any],
    ) -> tuple[list[Fold], ScoresOf]:
        X, rows = np.zeros(data.shape[0]), data.samples.rows
        folds = folds_among(self.cv, X, np.asarray(y), rows, is_classifier(self), metadata)
        n_threads = min(effective_n_jobs(self.n_jobs), len(folds))
        memory = self.cache_size * 2**20, n_threads
        kernels = SearchValues(data.values, self._gammas(), self._shares(data), *memory, folds)
        return folds, partial(self._scores_of_fold, data, kernels, values)

    def _scores_of_fold(
        self,
        data: MachineTraining,
        kernels: SearchValues,
        Cs: NDArray[np.float64],
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        report: Report,
        limit: TimeLimit,
    ) -> list[float | None]:
        """The scores of the whole grid on the test part of a fold; each fit is reported.

        There is none where the limit ends a fit, nor for larger C with the same gamma.
        """
        train = kernels.arranged(train)
        part, y = self._part(data.samples, train), self._truth(data.samples)[test]
        n_gammas = max(1, len(self._gammas()))
        scores: list[float | None] = [None] * (len(Cs) * n_gammas)
        for g, (values, Z) in enumerate(kernels.of_fold(train, test)):
            fold = replace(data, samples=replace(part, X=values.X), values=values)
            fold.cache_bytes, fold.shared = int(kernels.bytes_of_thread), True
            model = self._single(kernel=values.kernel.name, n_jobs=1)
            if Z.ndim > 1:
                model._set_fitted({"n_features_in_": Z.shape[1]})
            score, targets = self._score_of(model, Z, y, data.samples, test), model._targets(fold)
            limit_here, by_target = limit.part(n_gammas - g), []
            for k, target in enumerate(targets):
                part_of_limit = limit_here.part(len(targets) - k)
                found = self._solutions(model, fold, target, Cs, report, part_of_limit, n_gammas, g)
                by_target.append(list(found))
            # The limit may have ended some earlier.
            for c, (C, *points) in enumerate(zip(Cs, *by_target, strict=False)):
                model.C = float(C)
                model._set_fitted(model._model(fold, points))
                scores[c * n_gammas + g] = score()
        return scores

    def _solutions(
        self,
        single: Any,
        data: Any,
        target: Any,
        Cs: NDArray[np.float64],
        report: Report,
        limit: TimeLimit,
        stride: int,
        first: int,
    ) -> Iterator[tuple[Any, Any]]:
        """The solution of a subproblem for each C, which starts from the last; all are reported.

        The last is that before the fit that the limit ends. Places of the grid are ``first``, and
        every ``stride`` from there.
        """
        kept = None
        for c, C in enumerate(Cs):
            start = perf_counter()
            single.C, single.max_time = float(C), limit.left
            with single._problem(data, target, 1) as problem:
                solver, result = single._run_next_value(problem, kept, 0)
            if result.status is Status.MAX_TIME:
                return
            kept = single._next_start(solver, result, kept)
            report(c * stride + first, [result], perf_counter() - start)
            yield result.point, result.intercept

    def _score_of(
        self, model: Any, Z: Any, y: NDArray, samples: Any, test: np.ndarray
    ) -> Callable[[], float]:
        """What scores the model, as it is then, on the test part of a fold.

        If the weights of all samples are equal, they do not count.
        """
        scorer, counted = checked_scorer(model, self.scoring), {}
        weights = self._weights_of_scores(samples)
        if not callable(self.scoring) and np.ptp(weights) > 0.0:
            counted = {"sample_weight": weights[test]}
        return lambda: checked_score(scorer(model, Z, y, **counted))

    def _weights_of_scores(self, samples: Any) -> NDArray[np.float64]:
        return samples.weights
