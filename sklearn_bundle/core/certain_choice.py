"""A choice among values whose test scores are known to lie between bounds."""

from collections.abc import Callable, Sequence
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

    def narrow(
        self, fold: int, places: NDArray[np.intp], known: Sequence[tuple[float, float]]
    ) -> None:
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
        rows = [[None if np.isnan(score) else score for score in row] for row in scores.tolist()]
        seconds = found.seconds.tolist()
        return SearchResults(found.grid, list(zip(rows, seconds, strict=True)))

    def attributes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """What a search over a grid of this shape keeps."""
        bounds = self.bounds.reshape(*shape, *self.bounds.shape[1:])
        return {"test_score_bounds_": bounds, "best_is_certain_": self.is_certain}


class Known(NamedTuple):
    """The score of a fit, None if nobody asked or time is over, and bounds of the optimum's."""

    score: float | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)


class Round(NamedTuple):
    """The relative gap to reach, and whether the loss itself narrows bounds."""

    tol: float
    curved: bool


# Newton's method reaches the first gap in hardly more time than 1e-3, and what the loss says then
# tells as much as a gap that is smaller by a factor of 1e4. Rounding leaves about the last one.
_ROUNDS = Round(1e-6, False), Round(1e-6, True), Round(1e-9, True), Round(1e-12, True)


def rounds_of(tol: float, *, curved: bool = True) -> list[Round]:
    """What a search asks for: of all values the first, of those left open the others.

    Without ``curved``, losses narrow no bounds, and only the gaps differ.
    """
    rounds = [at._replace(tol=min(tol, at.tol)) for at in _ROUNDS]
    return rounds if curved else list({at.tol: at for at in rounds}.values())


class CertainFolds:
    """The folds of a search, whose fits go on until the choice is that of exact optima.

    Parameters
    ----------
    known_of : callable
        ``known_of(train, test, places, report, limit, ends=ends, at=round)``, a list of
        :class:`Known` of some values, from fits that go on from what earlier ones have left in the
        dict ``ends``. Later rounds have no ``report`` and need no scores.
    folds : list of (train, test)
    n_values : int
    rounds : list of Round
    """

    def __init__(
        self,
        known_of: Callable[..., list[Known]],
        folds: list[tuple[NDArray, NDArray]],
        n_values: int,
        rounds: Sequence[Round],
    ):
        self._known_of, self._folds, self._rounds = known_of, folds, rounds
        self._places = {id(test): k for k, (_, test) in enumerate(folds)}
        self._ends: list[dict] = [{} for _ in folds]
        self._choice = CertainChoice(n_values, len(folds))

    def begin(
        self, train: NDArray, test: NDArray, report: Any, limit: TimeLimit
    ) -> list[float | None]:
        """The scores of the first round of a fold, whose bounds are kept."""
        places = np.arange(len(self._choice.bounds))
        return self._fitted(self._places[id(test)], places, report, limit, self._rounds[0])

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
        ends = self._choice.bounds[places, k]
        places = places[ends[:, 0] < ends[:, 1]]
        if len(places):
            self._fitted(k, places, None, limit, at)

    def _fitted(
        self, k: int, places: NDArray[np.intp], report: Any, limit: TimeLimit, at: Round
    ) -> list[float | None]:
        how = {"ends": self._ends[k], "at": at}
        found = self._known_of(*self._folds[k], places, report, limit, **how)
        self._choice.narrow(k, places, [known.bounds for known in found])
        return [known.score for known in found]
