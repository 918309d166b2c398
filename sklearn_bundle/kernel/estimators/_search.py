"""Cross-validation of kernel machines over C, or over C and gamma."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.certain_choice import CertainFolds, Known, Round, rounds_of
from sklearn_bundle.core_next.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.fit import regions_of
from sklearn_bundle.core.path import PathEnd
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
from sklearn_bundle.core_next.validation import TrainingData, checked_scorer
from sklearn_bundle.core_next.values import shown
from sklearn_bundle.kernel.estimators._kernel import SINGLE_TOL, MachineTraining
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from sklearn_bundle.kernel.values.search_values import SearchValues

# By place in the grid and subproblem, and the precision in which that fit began.
_Ends = dict[tuple[int, int], tuple[PathEnd, np.dtype]]


class _Fits(NamedTuple):
    """Which places of the grid to fit, and how; those with ``ends`` know where their optima lie."""

    places: NDArray[np.intp]
    tol: float
    report: Report | None
    limit: TimeLimit
    ends: _Ends | None = None


def kernel_search_constraints(kind: type, not_shared: tuple[str, ...]) -> dict[str, Any]:
    """Constraints on the parameters of a search over C and gamma."""
    return search_constraints(kind, "Cs", not_shared) | {"gammas": ["array-like", None]}


class KernelSearch(Search):
    """Cross-validation over C, in each fold from the smallest value to the largest, and gamma.

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
        # Shared values are rounded to single precision: their optima are not those of X.
        shares = not self.certain and self._shares(data)
        classes = data.samples.classes if is_classifier(self) else None
        scorer = partial(self._score_of, checked_scorer(self._single(), self.scoring), classes)
        kernels = SearchValues(data.values, self._gammas(), shares, *memory, folds)
        if self.certain:
            known_of = partial(self._known_of_fold, data, kernels, values, scorer)
            n_values = len(self._grid(values))
            rounds = rounds_of(self.tol, curved=False)
            self._choice = CertainFolds(known_of, folds, n_values, rounds)
            return folds, self._choice.begin
        return folds, partial(self._scores_of_fold, data, kernels, values, scorer)

    def _why_uncertain(self, X: Any, data: MachineTraining) -> str | None:
        if data.values.precomputed:
            return "kernel='precomputed' has no k(x, x) of the rows of a test part"
        return super()._why_uncertain(X, data)

    def _scores_of_fold(
        self,
        data: MachineTraining,
        kernels: SearchValues,
        Cs: NDArray[np.float64],
        scorer: Any,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        report: Report,
        limit: TimeLimit,
    ) -> list[float | None]:
        """The scores of the whole grid on the test part of a fold; each fit is reported.

        There is none where the limit ends a fit, nor for larger C with the same gamma.
        """
        everything = np.arange(len(self._grid(Cs)))
        scores: list[float | None] = [None] * len(everything)
        fits = _Fits(everything, self.tol, report, limit)
        for place, model, held_out in self._models_of_fold(data, kernels, Cs, train, test, fits):
            scores[place] = scorer(model, *held_out)
        return scores

    def _known_of_fold(
        self,
        data: MachineTraining,
        kernels: SearchValues,
        Cs: NDArray[np.float64],
        scorer: Any,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        places: NDArray[np.intp],
        report: Report | None,
        limit: TimeLimit,
        *,
        ends: _Ends,
        at: Round,
    ) -> list[Known]:
        """What fits to these places of the grid say of the scores of their optima."""
        found = dict.fromkeys(places.tolist(), Known())
        fits = _Fits(places, at.tol, report, limit, ends)
        for place, model, held_out in self._models_of_fold(data, kernels, Cs, train, test, fits):
            score = None if report is None else scorer(model, *held_out)
            found[place] = Known(score, model.score_bounds(*held_out))
        return list(found.values())

    def _models_of_fold(
        self,
        data: MachineTraining,
        kernels: SearchValues,
        Cs: NDArray[np.float64],
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        fits: _Fits,
    ) -> Iterator[tuple[int, Any, tuple[Any, NDArray, NDArray | None]]]:
        """Places, fitted models, and rows, truth and weights of the test part.

        A model and its rows last until the next one.
        """
        train = kernels.arranged(train)
        part, y = self._part(data.samples, train), self._truth(data.samples)[test]
        weights = self._weights_of_scores(data.samples)
        counted = weights[test] if np.ptp(weights) > 0.0 else None  # if all are equal none counts
        n_gammas = max(1, len(self._gammas()))
        for g, (values, Z) in enumerate(kernels.of_fold(train, test)):
            own = fits.places[fits.places % n_gammas == g]
            if not len(own):
                continue
            if fits.tol < SINGLE_TOL:
                values.dtype = np.dtype(np.float64)
            fold = replace(data, samples=replace(part, X=values.X), values=values)
            fold.cache_bytes, fold.shared = int(kernels.bytes_of_thread), True
            model = self._single(kernel=values.kernel.name, n_jobs=1, tol=fits.tol)
            if Z.ndim > 1:
                model._set_fitted({"n_features_in_": Z.shape[1]})
            limit, by_target, targets = fits.limit.part(n_gammas - g), [], model._targets(fold)
            for k, target in enumerate(targets):
                at_most = fits._replace(places=own, limit=limit.part(len(targets) - k))
                found = self._solutions(model, fold, (k, target), Cs[own // n_gammas], at_most)
                by_target.append(list(found))
            # The limit may have ended some earlier.
            for place, *results in zip(own.tolist(), *by_target, strict=False):
                model.C = float(Cs[place // n_gammas])
                fitted = model._model(fold, [(r.point, r.intercept) for r in results])
                model._set_fitted(fitted | {"_regions": regions_of(results)})
                yield place, model, (Z, y, counted)

    def _solutions(
        self,
        single: Any,
        data: Any,
        numbered: tuple[int, Any],
        Cs: NDArray[np.float64],
        fits: _Fits,
    ) -> Iterator[SolverResult]:
        """The solution of subproblem k at each C, which starts from the last; all are reported.

        The last is that before the fit that the limit ends. With ``fits.ends``, a fit goes on from
        where an earlier one of the same C has ended.
        """
        (k, target), kept, dtype = numbered, None, data.values.dtype
        places, first, start = fits.places.tolist(), [], perf_counter()
        if fits.ends is None and fits.limit.left is None:
            first = single._first_solutions(data, target, Cs)
        for place, result in zip(places, first, strict=False):
            if fits.report is not None:
                fits.report(place, [result], (perf_counter() - start) / len(first))
                start = perf_counter()
            yield result
        for C, place in zip(Cs[len(first) :], places[len(first) :], strict=True):
            start = perf_counter()
            single.C, single.max_time = float(C), fits.limit.left
            last, was = (fits.ends or {}).get((place, k), (None, dtype))
            with single._problem(data, target, 1) as problem:
                if last is not None and was == dtype and last.is_final(single.tol):
                    yield last.result
                    continue
                begin = kept if last is None else last.start
                solver, result = single._run_next_value(problem, begin, 0)
                if result.status is Status.MAX_TIME:
                    return
                if fits.ends is not None:
                    result = replace(result, region=single._region(problem, result))
            if fits.ends is not None:
                fits.ends[place, k] = PathEnd(solver.kept, result), dtype
            kept = single._next_start(solver, result, kept)
            if fits.report is not None:
                fits.report(place, [result], perf_counter() - start)
            yield result

    def _weights_of_scores(self, samples: Any) -> NDArray[np.float64]:
        return samples.weights
