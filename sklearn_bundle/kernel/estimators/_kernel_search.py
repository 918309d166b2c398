"""What cross-validation over C is for kernel machines: SwapSVCCV and SwapSVRCV."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import is_classifier

from sklearn_bundle.core.contract import Status, TimeLimit
from sklearn_bundle.core.reports import Report
from sklearn_bundle.core.search import Fold, ScoresOf, Search, folds_among, values_of_C
from sklearn_bundle.core.validation import checked_score, checked_scorer
from sklearn_bundle.kernel.estimators._kernel import MachineTraining
from sklearn_bundle.kernel.values.kernel_data import OF_CACHE, KernelData


class KernelSearch(Search):
    """Cross-validation over C, in each fold from the smallest value to the largest."""

    Cs: Any
    cache_size: float
    C_: float
    Cs_: NDArray[np.float64]

    _chosen = "C"

    @abstractmethod
    def _shares(self, data: Any) -> bool:
        """Whether to compute one matrix of kernel values for all folds."""

    @abstractmethod
    def _scores_of_fold(
        self,
        data: Any,
        Cs: NDArray[np.float64],
        train: np.ndarray,
        test: np.ndarray,
        report: Report,
        limit: TimeLimit,
    ) -> list[float]:
        """The scores of every C on the test part of a fold; each fit is reported.

        There are fewer if the limit ends a fit.
        """

    def _values(self, data: Any) -> NDArray[np.float64]:
        """Values of C, ascending."""
        return values_of_C(self.Cs)

    def _folds_by(
        self, data: MachineTraining, y: Any, values: NDArray[np.float64], metadata: dict[str, Any]
    ) -> tuple[list[Fold], ScoresOf]:
        """What ``_folds`` returns, where ``y`` has an entry for each row of the caller's X."""
        X, rows = np.zeros(data.shape[0]), data.samples.rows
        folds = folds_among(self.cv, X, y, rows, is_classifier(self), metadata)
        shared = replace(data, values=self._shared_values(data))
        shared.divide_cache(self.cache_size, min(effective_n_jobs(self.n_jobs), len(folds)))
        return folds, partial(self._scores_of_fold, shared, values)

    def _shared_values(self, data: MachineTraining) -> KernelData:
        """One matrix of kernel values if there is space for it, which the final fit has too."""
        values, n_bytes = data.values, 4 * data.samples.n_samples**2
        if not self._shares(data) or n_bytes > OF_CACHE * self.cache_size * 2**20:
            return values
        return values.all_values() or values

    def _solutions(
        self,
        single: Any,
        data: Any,
        target: Any,
        Cs: NDArray[np.float64],
        report: Report,
        limit: TimeLimit,
    ) -> Iterator[Any]:
        """The solution of a subproblem for each C, which starts from the last; all are reported.

        The last is that before the fit that the limit ends.
        """
        kept = None
        for C in Cs:
            start = perf_counter()
            single.C, single.max_time = float(C), limit.left
            with single._problem(data, target, 1) as problem:
                solver, result = single._run_next_value(problem, kept, 0)
            if result.status is Status.MAX_TIME:
                return
            kept = single._next_start(solver, result, kept)
            report(C, [result], perf_counter() - start)
            yield result.point

    def _score_of(
        self,
        model: Any,
        Z: Any,
        y: NDArray,
        weights: NDArray[np.float64],
        test: np.ndarray,
    ) -> Callable[[], float]:
        """What scores the model, as it is then, on the test part of a fold.

        The weights are those of all samples: if they are equal, they do not count.
        """
        scorer, counted = checked_scorer(model, self.scoring), {}
        if not callable(self.scoring) and np.ptp(weights) > 0.0:
            counted = {"sample_weight": weights[test]}
        return lambda: checked_score(scorer(model, Z, y, **counted))
