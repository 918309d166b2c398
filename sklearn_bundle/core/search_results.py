"""What a search over the values of one parameter has found: the choice, and ``cv_results_``."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

_TIE = 1e-12  # relative: rounding of weighted means of equal scores, summed in another order


class SearchResults:
    """Scores and times of every fold and value, and the choice among the values.

    Parameters
    ----------
    name : str
        The parameter.
    values : ndarray of shape (n_values,)
        In order of preference for ties, from the strongest regularization to the weakest.
    folds : list of (scores, seconds)
        Of each fold: two lists, in the order of the values. A fold that a time limit ended has
        fewer scores, and NaN stands for the others. The seconds are those of all its fits.
    """

    def __init__(
        self, name: str, values: NDArray[np.float64], folds: list[tuple[list[float], list[float]]]
    ):
        self.name, self.values = name, values
        n = len(values)
        self.scores, self.seconds = (
            np.array([part + [np.nan] * (n - len(part)) for part in parts])
            for parts in zip(*folds, strict=True)
        )
        #: How many folds have a score of each value.
        self.n_scored = np.sum([np.arange(n) < len(scores) for scores, _ in folds], axis=0)

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean scores over the folds; NaN for a value that some fold has not scored."""
        return self.scores.mean(axis=0)

    @cached_property
    def place(self) -> int:
        """The place of the chosen value.

        That is the first with the largest mean. If there is no value that all folds have scored,
        the mean is over the folds that have, and the values are those with the most of these.
        """
        return self._best(np.flatnonzero(self.n_scored == self.n_scored.max()))

    @property
    def best(self) -> float:
        """The chosen value."""
        return float(self.values[self.place])

    def score(self, place: int) -> float:
        """The mean score of this value over the folds that have scored it."""
        n = self.n_scored[place]
        scores = self.scores[:, place]
        return float(scores.mean() if n in (0, len(scores)) else np.nansum(scores) / n)

    def _best(self, places: NDArray[np.intp]) -> int:
        """The first of the largest scores; scores that differ by rounding are equal."""
        means = np.array([self.score(place) for place in places])
        return int(places[np.argmax(self._ties(means))])

    @staticmethod
    def _ties(means: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which means are the largest, up to rounding; none if all are NaN."""
        top = np.max(means[~np.isnan(means)], initial=-np.inf)
        slack = _TIE * abs(top) if np.isfinite(top) else 0.0
        return means >= top - slack

    @property
    def end(self) -> str | None:
        """Whether a better value may lie beyond: "smallest" or "largest", otherwise None.

        That is where the chosen value is at this end, and its neighbor is worse.
        """
        last = len(self.values) - 1
        if last == 0 or self.place not in (0, last):
            return None
        if self.place == 0 and self._ties(np.array([self.score(0), self.score(1)]))[1]:
            return None
        return "smallest" if self.values[self.place] == self.values.min() else "largest"

    def table(self) -> dict[str, Any]:
        """``cv_results_`` as scikit-learn has it."""
        means, n = self.means, len(self.values)
        found = {"mean_fit_time": self.seconds.mean(axis=0), "std_fit_time": self.seconds.std(0)}
        found[f"param_{self.name}"] = np.ma.MaskedArray(self.values, np.zeros(n, dtype=bool))
        found["params"] = [{self.name: float(value)} for value in self.values]
        found |= {f"split{k}_test_score": scores for k, scores in enumerate(self.scores)}
        found |= {"mean_test_score": means, "std_test_score": self.scores.std(axis=0)}
        return found | {"rank_test_score": self._ranks(means)}

    def _ranks(self, means: NDArray[np.float64]) -> NDArray[np.int32]:
        """1 is the best; equal scores share a rank, and NaN is last."""
        known = ~np.isnan(means)
        ranks = np.full(len(means), np.count_nonzero(known) + 1, dtype=np.int32)
        top = np.max(means[known], initial=-np.inf)
        level = np.where(self._ties(means), top, means)
        ranks[known] = rankdata(-level[known], method="min")
        return ranks
