"""A choice among values whose test scores are known to lie between bounds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from sklearn_bundle.core_next.contract import TimeLimit
from sklearn_bundle.core_next.parallel import blas_threads
from sklearn_bundle.core_next.search import Fold, Report, SearchResults

_TIE = 1e-12  # relative: rounding of means of equal scores
# Relative gaps of the rounds: Newton's method reaches the first in hardly more time than 1e-3, and
# rounding leaves about the last one.
_TOLS = 1e-6, 1e-9, 1e-12


class CertainFolds:
    """The folds of a search, whose fits go on until the choice is that of exact optima.

    Parameters
    ----------
    known_of : callable
        ``known_of(train, test, places, tol, ends, report, limit)``, scores of some values and
        bounds of those of their exact optima, from fits that go on from what earlier ones have left
        in the dict ``ends``. Later rounds have no ``report`` and need no scores.
    folds : list of (train, test)
    n_values : int
    tol : float
        Of the search: no gap is to be larger.

    Attributes
    ----------
    bounds : ndarray of shape (n_values, n_folds, 2)
        The least and the largest score; infinite where nothing is known.
    """

    def __init__(self, known_of: Callable[..., Any], folds: list[Fold], n_values: int, tol: float):
        self._known_of, self._folds = known_of, folds
        self._tols = [min(tol, one) for one in _TOLS]
        self._places = {id(test): k for k, (_, test) in enumerate(folds)}
        self._ends: list[dict] = [{} for _ in folds]
        self.bounds = np.tile([-np.inf, np.inf], (n_values, len(folds), 1))

    def begin(
        self, train: NDArray, test: NDArray, report: Report, limit: TimeLimit
    ) -> Sequence[float]:
        """The scores of the first round of a fold, whose bounds are kept."""
        places = np.arange(len(self.bounds))
        return self._narrow(self._places[id(test)], places, self._tols[0], report, limit)

    def decided(
        self, found: SearchResults, n_jobs: int | None, limit: TimeLimit
    ) -> tuple[SearchResults, dict[str, Any]]:
        """The results after further rounds, of values that may be the best, and what is certain.

        Scores are moved between their bounds.
        """
        for tol in self._tols[1:]:
            places = self._open()
            if len(places) == 1 or limit.left == 0.0:
                break
            with blas_threads(1):
                Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
                    delayed(self._go_on)(k, places, tol, limit) for k in range(len(self._folds))
                )
        low, high = np.moveaxis(self.bounds, 2, 0)
        scores = np.clip(found.scores, low.T, high.T)
        rows = [[None if np.isnan(score) else score for score in row] for row in scores.tolist()]
        pairs = list(zip(rows, found.seconds.tolist(), strict=True))
        certain = {"test_score_bounds_": self.bounds, "best_is_certain_": len(self._open()) == 1}
        return SearchResults(found.grid, pairs), certain

    def _open(self) -> NDArray[np.intp]:
        """The values that may have the largest mean score; of equal ones the first counts."""
        low, high = self.bounds.mean(axis=1).T
        slack = _TIE * np.where(np.isfinite(high), np.abs(high), 0.0)
        before = np.maximum.accumulate(np.concatenate([[-np.inf], low[:-1]]))
        after = np.maximum.accumulate(np.concatenate([low[1:], [-np.inf]])[::-1])[::-1]
        return np.flatnonzero((high > before + slack) & (high >= after - slack))

    def _go_on(self, k: int, places: NDArray[np.intp], tol: float, limit: TimeLimit) -> None:
        """Narrow what a fold does not know exactly yet of these values."""
        ends = self.bounds[places, k]
        places = places[ends[:, 0] < ends[:, 1]]
        if len(places):
            self._narrow(k, places, tol, None, limit)

    def _narrow(
        self, k: int, places: NDArray, tol: float, report: Report | None, limit: TimeLimit
    ) -> Sequence[float]:
        """Add what fits say; a time limit may have left out the last."""
        train, test = self._folds[k]
        scores, known = self._known_of(train, test, places, tol, self._ends[k], report, limit)
        for place, (low, high) in zip(places, known, strict=False):
            ends = self.bounds[place, k]
            ends[:] = max(ends[0], low), min(ends[1], high)
        return scores
