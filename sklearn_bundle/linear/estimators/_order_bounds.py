"""Bounds of measures of an order, from what is known of the order at the exact optimum."""

from abc import abstractmethod
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.certainty import BoundedDecisions
from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.core.validation import check_prediction_data
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.losses import Ordinal, PositionMeasure, Preference
from sklearn_bundle.linear.losses.pairs import pair_weight
from sklearn_bundle.linear.losses.positions import query_weights
from sklearn_bundle.linear.problems.order_region import OrderRegion

Array = NDArray[np.float64]

_FEW = 16.0  # roundings of a measure beside those of its sums: counted generously, it is 1e-15


class KnownOrder(BoundedDecisions):
    """A ranker with bounds of the score of the exact optimum."""

    @abstractmethod
    def _order(self, X: Any, y: Any, sample_weight: Any, group: Any) -> Any:
        """Checked y, weights and queries, without rows of weight zero."""

    def score_bounds(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> tuple[float, float]:
        """Bounds of the score of the exact optimum.

        Two rows are surely in order if their scores are farther apart than the gap and rounding may
        move them. Other pairs count against the optimum in the lower bound, and for it in the
        upper one. With "ndcg" a document is in no earlier position than there are documents surely
        above it, and in no later one than those surely below it leave; the bounds are the best and
        the worst list of this kind. Equal rows have no sure order, since rounding decides it in
        :meth:`score`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test data.
        y : array-like
            As in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        group : array-like of shape (n_samples,), default=None
            Queries, as in `fit`.

        Returns
        -------
        low, high : float
            ``score`` of the exact optimum is between them.

        Raises
        ------
        ValueError
            As :meth:`score` and :meth:`decision_bounds`, and for a loss with a measure of its own.
        """
        (region,) = self._known_regions()
        X = check_prediction_data(self, X)
        data = self._order(np.zeros((X.shape[0], 1)), y, sample_weight, group)
        loss, target = data.prepared[0]
        bounds = _BOUNDS.get(type(loss).score)
        if bounds is None:
            raise ValueError(
                f"Nothing is known of the range of the measure of loss={shown(loss)}, which has "
                "a score of its own. decision_bounds(X) has the bounds of its scores."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            region = OrderRegion(X if data.left is None else X[data.left], region)
            low, high = bounds(loss, region, target, data.weights)
        low, high = (float(min(max(end, 0.0), 1.0)) for end in (low, high))
        return (low, high) if low <= high else (0.0, 1.0)  # NaN of overflow says nothing


def _of_pairs(loss: Preference, region: OrderRegion, y: Any, weights: Array) -> tuple[float, float]:
    """Of given pairs: each is right, wrong or unknown."""
    signs, pairs = region.is_above(y.better, y.worse), weights[y.better] * weights[y.worse]
    total = pairs.sum()
    low, high = (float(pairs @ right / total) for right in (1.0 * (signs > 0), 1.0 * (signs >= 0)))
    return _widened(low, high, len(pairs))


def _of_grades(loss: Ordinal, region: OrderRegion, y: Any, weights: Array) -> tuple[float, float]:
    """Of all pairs of different grades: the measure of middle scores, less what is unsure in it.

    Where pairs are too many to look at, the widest interval of a row stands for those of all.
    """
    n, total = len(weights), pair_weight(y, weights)
    low, high, parts = np.empty(n), np.empty(n), []
    by_query = np.argsort(y.queries, kind="stable")
    for rows in np.split(by_query, y.starts[1:-1]):
        low[rows], high[rows] = ends = region.ends(rows)
        parts.append((rows, *ends))
    if not np.isfinite(low + high).all():
        return 0.0, 1.0
    middle = 0.5 * low + 0.5 * high
    lost = gained = 0.0
    for rows, *ends in parts:
        unsure = region.unsure(rows, *ends)
        if unsure is None:
            return _of_far_grades(loss, middle, float((high - low).max()), y, weights)
        for lower, upper in unsure:
            i, j = rows[lower], rows[upper]
            differ = y.cells[i] != y.cells[j]
            i, j = i[differ], j[differ]
            better = np.sign(y.cells[j] - y.cells[i])  # -1 if the row of the higher score is worse
            right = better * np.sign(middle[j] - middle[i])
            signs, pairs = better * region.is_above(j, i), weights[i] * weights[j]
            lost += float(pairs @ (right - np.where(signs == 0, -1, signs)))
            gained += float(pairs @ (np.where(signs == 0, 1, signs) - right))
    value = loss.score(middle, y, weights)
    return _widened(value - 0.5 * lost / total, value + 0.5 * gained / total, n)


def _of_far_grades(
    loss: Ordinal, middle: Array, apart: float, y: Any, weights: Array
) -> tuple[float, float]:
    """Pairs are sure if their middle scores are farther apart than any two intervals reach."""
    margin = apart * (1.0 + _FEW * DOUBLE) + _FEW * DOUBLE * float(np.abs(middle).max())
    total = pair_weight(y, weights)
    of_pairs = y, weights, "constant", margin
    (_, not_right), (_, not_wrong) = (loss._pair_sums(f, *of_pairs) for f in (middle, -middle))
    return _widened(1.0 - not_right / total, not_wrong / total, len(weights))


def _of_positions(
    loss: PositionMeasure, region: OrderRegion, y: Any, weights: Array
) -> tuple[float, float]:
    """Of lists: the best and the worst in which no document is where it cannot be.

    The measure of tied documents is the mean over their orders, so it lies between these too.
    """
    least = most = 0.0
    for query, share in zip(y.queries, query_weights(y, weights), strict=True):
        rows, gains, discounts = query.rows, query.gains, query.discounts
        low, high = region.ends(rows)
        if not np.isfinite(low + high).all():
            return 0.0, 1.0
        m = len(rows)
        above = m - np.searchsorted(np.sort(low), high, side="right")
        below = np.searchsorted(np.sort(high), low, side="left")
        for lower, upper in region.unsure(rows, low, high) or ():
            signs = region.is_above(rows[upper], rows[lower])
            for high_one, low_one, found in ((upper, lower, 1), (lower, upper, -1)):
                above += np.bincount(low_one[signs == found], minlength=m)
                below += np.bincount(high_one[signs == found], minlength=m)
        k = len(discounts)
        last_first = _listed(gains, below, m)[::-1]
        best, worst = _listed(gains, above, k), np.ascontiguousarray(last_first[:k])
        worst, best = _widened(float(discounts @ worst), float(discounts @ best), m)
        least += share * worst
        most += share * best
    low, high = min(least, 1.0), min(most, 1.0)
    return _widened(low, high, len(y.queries))


def _listed(gains: Array, earliest: NDArray[np.intp], count: int) -> Array:
    """Gains of the first places, if each takes the largest that may be there.

    With discounts that do not increase no other list has a larger sum: exchange, in the first place
    where it differs, its document with the larger gain that may be there; that one then comes
    earlier, and the other one later. The same from the last place on gives the least sum.
    """
    order, free, at = np.argsort(earliest, kind="stable"), [], 0
    values, starts = gains[order].tolist(), earliest[order].tolist()
    found = np.empty(count)
    for place in range(count):
        while at < len(values) and (starts[at] <= place or not free):
            heappush(free, -values[at])
            at += 1
        found[place] = -heappop(free)
    return found


def _widened(low: float, high: float, terms: int) -> tuple[float, float]:
    """With what rounding adds; a measure that is known has the rounding of ``score`` itself."""
    if low == high:
        return low, high
    error = (likely(terms) + _FEW) * DOUBLE
    return low - error, high + error


#: By the measure of the loss, so that one of its own is not taken for it.
_BOUNDS: dict[Callable[..., float], Callable[..., tuple[float, float]]] = {
    Ordinal.score: _of_grades,
    Preference.score: _of_pairs,
    PositionMeasure.score: _of_positions,
}
