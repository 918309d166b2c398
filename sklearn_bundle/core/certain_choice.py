"""A choice among values whose test scores are known to lie between bounds."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.core.reports import SearchResults

Array = NDArray[np.float64]
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


class Round(NamedTuple):
    """The relative gap to reach, and whether the loss itself narrows bounds."""

    tol: float
    curved: bool


# Newton's method reaches the first gap in hardly more time than 1e-3, and what the loss says then
# tells as much as a gap that is smaller by a factor of 1e4. Rounding leaves about the last one.
_ROUNDS = Round(1e-6, False), Round(1e-6, True), Round(1e-9, True), Round(1e-12, True)


def rounds_of(tol: float) -> list[Round]:
    """What a search asks for: of all values the first, of those left open the others."""
    return [at._replace(tol=min(tol, at.tol)) for at in _ROUNDS]


class CertainFolds:
    """The folds of a search, whose fits go on until the choice is that of exact optima.

    Parameters
    ----------
    models_of : callable
        ``models_of(train, places, report, limit, ends=ends, at=round)``, models of some values that
        know the regions of their optima, and that go on from their :data:`~.path.Ends`.
    bounds : callable
        ``bounds(models, test)``, of their scores.
    folds : list of (train, test)
    n_values : int
    rounds : list of Round
    """

    def __init__(
        self,
        models_of: Callable[..., Iterable[Any]],
        bounds: Callable[[list[Any], NDArray], list[tuple[float, float]]],
        folds: list[tuple[NDArray, NDArray]],
        n_values: int,
        rounds: Sequence[Round],
    ):
        self._models_of, self._bounds = models_of, bounds
        self._folds, self._rounds = folds, rounds
        self._places = {id(test): k for k, (_, test) in enumerate(folds)}
        self._ends: list[dict] = [{} for _ in folds]
        self._choice = CertainChoice(n_values, len(folds))

    def begin(self, train: NDArray, test: NDArray, report: Any, limit: TimeLimit) -> list[Any]:
        """The models of the first round of a fold, whose bounds are kept."""
        k, places = self._places[id(test)], np.arange(len(self._choice.bounds))
        how = {"ends": self._ends[k], "at": self._rounds[0]}
        models = list(self._models_of(train, places, report, limit, **how))
        self._choice.narrow(k, places, self._bounds(models, test))
        return models

    def decided(self, n_jobs: int | None, limit: TimeLimit) -> CertainChoice:
        """The choice after the further rounds, of values that may be the best."""
        for at in self._rounds[1:]:
            if self._choice.is_certain or limit.left == 0.0:
                break
            places = self._choice.open_places()
            with blas_threads(1):
                Parallel(n_jobs=n_jobs, prefer="threads", require="sharedmem")(
                    delayed(self._go_on)(k, places, at, limit) for k in range(len(self._folds))
                )
        return self._choice

    def _go_on(self, k: int, places: NDArray[np.intp], at: Round, limit: TimeLimit) -> None:
        """Narrow what a fold does not know exactly yet of these values."""
        (train, test), ends = self._folds[k], self._choice.bounds[places, k]
        places = places[ends[:, 0] < ends[:, 1]]
        if not len(places):
            return
        models = list(self._models_of(train, places, None, limit, ends=self._ends[k], at=at))
        self._choice.narrow(k, places, self._bounds(models, test))
