"""A choice among values whose test scores are known to lie between bounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.reports import SearchResults

Array = NDArray[np.float64]
# Relative gaps that rounds ask for. Newton's method reaches the first of smooth losses in the time
# of 1e-3, and what is left open there by one more step.
_OF_KINKED, _OF_SMOOTH = (1e-6, 1e-9), (1e-9, 1e-12)
_TIE = 1e-12  # relative: rounding of means of equal scores


class CertainChoice:
    """Bounds of the test scores of exact optima, value by value and fold by fold.

    Attributes
    ----------
    bounds : ndarray of shape (n_values, n_folds, 2)
        The least and the largest score; infinite where nothing is known.
    """

    def __init__(self, n_values: int, n_folds: int):
        self.bounds = np.empty((n_values, n_folds, 2))
        self.bounds[:] = -np.inf, np.inf

    def narrow(self, fold: int, places: NDArray[np.intp], known: Sequence[Any]) -> None:
        """Add what more exact fits of some values say; a time limit may have left out the last."""
        for place, (low, high) in zip(places, known, strict=False):
            ends = self.bounds[place, fold]
            ends[:] = max(ends[0], low), min(ends[1], high)

    def open_places(self) -> NDArray[np.intp]:
        """The values that may have the largest mean score; of equal ones the first counts."""
        low, high = self.bounds.mean(axis=1).T
        slack = _TIE * np.where(np.isfinite(high), np.abs(high), 0.0)
        before = np.maximum.accumulate(np.concatenate([[-np.inf], low[:-1]]))
        after = np.maximum.accumulate(np.concatenate([low[1:], [-np.inf]])[::-1])[::-1]
        return np.flatnonzero((high > before + slack) & (high >= after - slack))

    @property
    def is_certain(self) -> bool:
        """Whether only one value is left."""
        return len(self.open_places()) == 1

    def chosen(self, found: SearchResults) -> SearchResults:
        """The results with scores of the fits moved between their bounds."""
        low, high = np.moveaxis(self.bounds, 2, 0)
        scores = np.clip(found.scores, low.T, high.T)
        rows = [row[~np.isnan(row)].tolist() for row in scores]
        seconds = found.seconds.tolist()
        return SearchResults(found.grid, list(zip(rows, seconds, strict=True)))

    def attributes(self) -> dict[str, Any]:
        """What a search keeps."""
        return {"test_score_bounds_": self.bounds, "best_is_certain_": self.is_certain}


def gaps_of_rounds(tol: float, smooth: bool) -> list[float]:
    """The relative gaps that a search asks for: all values the first, those left open the others.

    ``smooth`` says whether the loss has a derivative everywhere.
    """
    further = _OF_SMOOTH if smooth else (tol, *_OF_KINKED)
    return sorted({min(tol, gap) for gap in further}, reverse=True)
