"""Which of two rows has the higher score at the exact optimum, from a ball around its weights."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.core.sparse import squared_lengths
from sklearn_bundle.linear.problems.score_region import MeasuredRows, ScoreRegion
from sklearn_bundle.linear.rows.amid_rows import score_rounding

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_FEW = 8.0  # roundings of a difference, its length and their sum
_ENTRIES = 1 << 20  # of differences of rows at a time: 8 MB, and a few copies
_MOST_PAIRS = 1 << 26  # that are looked at: a few seconds
_MOST_ENTRIES = 1 << 28  # of their differences, in all: about three seconds

Pairs = tuple[Indices, Indices]


class OrderRegion:
    """``<w*, x_i - x_j>`` is in ``<w_m, x_i - x_j> +- r ||x_i - x_j||``.

    What rounding may add to the scores of both rows counts too, so that the order is also that of
    scores which are computed from w*. Equal rows have no sure order then.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    region : ScoreRegion
        Of one output, without an intercept.
    """

    def __init__(self, X: Any, region: ScoreRegion):
        self._X, self._region = (sp.csr_array(X) if sp.issparse(X) else X), region
        n, d = self._X.shape
        longest = float(np.linalg.norm(region.weights)) + region.radius
        sizes = np.sqrt(squared_lengths(self._X))
        # Twice: <w_m, x_i - x_j> has no more than the scores of w* have.
        self._rounding = 2.0 * score_rounding(np.array([[longest]]), sizes, d)[:, 0]
        self._entries = max(int(self._X.nnz / max(n, 1)) if sp.issparse(self._X) else d, 1)
        self._left = _MOST_ENTRIES // self._entries

    def is_above(self, first: Indices, second: Indices) -> NDArray[np.int8]:
        """1 where the first row of a pair is surely above the second, -1 below, 0 if unknown."""
        signs = np.zeros(len(first), dtype=np.int8)
        w, d = self._region.weights[0], len(self._region.weights[0])
        step = max(_ENTRIES // self._entries, 1)
        for start in range(0, len(first), step):
            part = slice(start, start + step)
            i, j = first[part], second[part]
            apart = self._X[i].astype(np.float64) - self._X[j].astype(np.float64)
            apart = sp.csr_array(apart) if sp.issparse(apart) else apart
            middle = safe_sparse_dot(apart, w, dense_output=True)
            squares = squared_lengths(apart) + d * np.finfo(float).tiny  # squares may underflow
            reach = np.sqrt(squares) * (1.0 + (likely(d) + _FEW) * DOUBLE) * self._region.radius
            reach += self._rounding[i] + self._rounding[j] + d * np.finfo(float).tiny
            reach *= 1.0 + _FEW * DOUBLE
            signs[part] = np.where(middle > reach, 1, np.where(-middle > reach, -1, 0))
        return signs

    def ends(self, rows: Indices) -> tuple[Array, Array]:
        """Bounds of the scores of some rows, less that of the mean of these rows.

        Entries of other rows, or NaN where numbers overflow, say nothing.
        """
        X = self._X[rows]
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        region = self._region._replace(center=mean, low=np.zeros(1), high=np.zeros(1))
        low, high = (end[:, 0] for end in region.intervals(MeasuredRows(X)))
        more = self._rounding[rows]
        return low - more, high + more

    def unsure(self, rows: Indices, low: Array, high: Array) -> Iterator[Pairs] | None:
        """Pairs (i, j) of places in ``rows`` for which ``low[j] <= high[i]``, j sorted after i.

        The others are surely in order: the ends alone say so. None if they are too many to look at.
        """
        middle = 0.5 * low + 0.5 * high
        order = np.argsort(middle, kind="stable")
        low, high, n = low[order], high[order], len(rows)
        # The lowest low end of this and all later rows: it rises, so that a search finds the last.
        lowest = np.minimum.accumulate(low[::-1])[::-1]
        counts = np.maximum(np.searchsorted(lowest, high, side="right") - np.arange(1, n + 1), 0)
        total = int(counts.sum())
        if total > min(_MOST_PAIRS, self._left):
            return None
        self._left -= total
        return _listed(order, low, high, counts)


def _listed(order: Indices, low: Array, high: Array, counts: Indices) -> Iterator[Pairs]:
    n, start, until = len(order), 0, np.cumsum(counts)
    while start < n:
        reached = until[start - 1] if start else 0
        stop = max(int(np.searchsorted(until, reached + _ENTRIES, side="right")), start + 1)
        own = counts[start:stop]
        first = np.repeat(np.arange(start, stop), own)
        second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(own) - own, own)
        unsure = low[second] <= high[first]
        yield order[first[unsure]], order[second[unsure]]
        start = stop
