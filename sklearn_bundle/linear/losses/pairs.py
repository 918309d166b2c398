"""The loss of an order by pairs: hinge losses of samples of different grades, in O(n log n)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.values import as_numbers, is_missing, refuse_misread, refuse_mixed, shown
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear.losses.base import Array, must_be
from sklearn_bundle.linear.losses.planes import RankingLoss

Indices = NDArray[np.int64]


def as_target(y: ArrayLike, n_samples: int) -> Array:
    """Finite numbers, one per sample."""
    y = as_numbers("y", y)
    if y.shape != (n_samples,):
        raise ValueError(f"y must have shape ({n_samples},), one number per sample, not {y.shape}.")
    wrong = np.flatnonzero(~np.isfinite(y))
    if len(wrong):
        raise ValueError(f"y must be finite, but y[{wrong[0]}] is {y[wrong[0]]:g}.")
    return y


def as_queries(group: ArrayLike | None, n_samples: int) -> Indices:
    """Number of each sample's query, 0, 1, ..."""
    if group is None:
        return np.zeros(n_samples, dtype=np.int64)
    return np.unique(as_group(group, n_samples), return_inverse=True)[1].astype(np.int64)


def as_group(group: ArrayLike, n_samples: int) -> np.ndarray:
    """Sortable query ids of one type, one per sample."""
    refuse_misread("group", group, dates=True)
    refuse_mixed("group", group)
    try:
        ids = np.asarray(group)
    except ValueError:  # ragged
        ids = np.empty(0)
    if ids.shape == (n_samples, 1):
        ids = ids[:, 0]
    if ids.shape != (n_samples,):
        raise ValueError(
            f"group must have shape ({n_samples},), one query id per sample, not {ids.shape}; got "
            f"{shown(group)}."
        )
    missing = ids != ids if ids.dtype != object else np.array([is_missing(one) for one in ids])
    if missing.any():
        i = int(np.argmax(missing))
        raise ValueError(f"group must have a query id for each sample, but has {ids[i]} for {i}.")
    try:
        np.sort(ids)
    except TypeError as error:
        raise ValueError(f"group must hold query ids that can be sorted: {error}.") from None
    return ids


def starts_of(sorted_or_not: Indices) -> Indices:
    """First place of each number 0, 1, ... in sorted order, and the end."""
    return np.r_[0, np.cumsum(np.bincount(sorted_or_not))].astype(np.int64)


_POWERS = {"constant": 0, "absolute": 1, "squared": 2}  # of the difference of two grades


@jit
def _total_pair_weight(cell_weights, cell_starts):
    """Sum of s_i s_j over the pairs of different grades in a query."""
    total = 0.0
    for q in range(cell_starts.shape[0] - 1):
        below = 0.0
        for cell in range(cell_starts[q], cell_starts[q + 1]):
            total += below * cell_weights[cell]
            below += cell_weights[cell]
    return total


@jit
def _power_sums(scores, ranks, values, weights, starts, sizes, power, margin, out):
    """For each i, s_i times the sum of ``s_j (v_j - v_i)^power`` over the j of its query

    with rank_j > rank_i and ``f_j - f_i < margin``. Scores ascend within a query, so the set of j's
    only grows; a Fenwick tree over the ranks of the query, with the moments of v, holds the sums.
    """
    most = 0
    for size in sizes:
        most = max(most, size)
    tree = np.empty((most + 1, 3))
    for q in range(sizes.shape[0]):
        size = sizes[q]
        tree[: size + 1] = 0.0
        reached = starts[q]
        for i in range(starts[q], starts[q + 1]):
            while reached < starts[q + 1] and scores[reached] - scores[i] < margin:
                s, v = weights[reached], values[reached]
                at = size - ranks[reached]
                while at <= size:
                    tree[at, 0] += s
                    tree[at, 1] += s * v
                    tree[at, 2] += s * v * v
                    at += at & -at
                reached += 1
            zeroth = first = second = 0.0
            at = size - ranks[i] - 1
            while at > 0:
                zeroth += tree[at, 0]
                first += tree[at, 1]
                second += tree[at, 2]
                at -= at & -at
            v = values[i]
            if power == 0:
                total = zeroth
            elif power == 1:
                total = first - v * zeroth
            else:
                total = second - v * (2.0 * first - v * zeroth)
            out[i] = weights[i] * max(total, 0.0)


class Side(NamedTuple):
    """The samples as those of the lower grade of a pair, or in reversed order as the higher one."""

    values: Array  # (n,) grades, centered
    ranks: Indices  # (n,) of the grades of a query, from 0
    starts: Indices  # (n_queries + 1,) of the samples sorted by query
    sizes: Indices  # (n_queries,) numbers of grades


class Grades(NamedTuple):
    """Grades by query. A cell is one grade of one query; cells are numbered query by query."""

    lower: Side
    upper: Side
    queries: NDArray[np.unsignedinteger]  # (n,)
    cells: Indices  # (n,)
    cell_starts: Indices  # (n_queries + 1,)


class Ordinal(RankingLoss):
    """Pairwise hinge loss of samples of different grades, of ordinal regression.

    ``R(f) = sum over y_i < y_j of C(y_i, y_j) s_i s_j max(0, 1 + f_i - f_j) / M`` with ``M`` the
    sum of s_i s_j over the same pairs, ``((sum s)^2 - sum_k S_k^2) / 2`` for class weights S_k.
    With a ``group`` both sums are over pairs within a query. Section A.3.2 and algorithm 8 of [1]_.
    It takes O(n log n) for any number of grades.

    Parameters
    ----------
    cost : {"constant", "absolute", "squared"}, default="absolute"
        C: 1, y_j - y_i or its square.

    Raises
    ------
    ValueError
        If `cost` is an unknown name, or no two samples (of a query) differ in y; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Ordinal
    >>> loss = Ordinal("absolute")
    >>> target = loss.prepare([1, 2, 3], None, 3)
    >>> scores, weights = np.array([0.0, 2.0, 1.0]), np.ones(3) / 3
    >>> round(loss.risk(scores, target, weights), 6)  # the last two: 1 (1 + 2 - 1), of 3 pairs
    0.666667
    """

    has_grades = True

    def __init__(self, cost: str = "absolute"):
        self.cost = cost

    def prepare(self, y, group, n_samples) -> Any:
        y = as_target(y, n_samples)
        queries = as_queries(group, n_samples)
        if not (isinstance(self.cost, str) and self.cost in _POWERS):
            raise must_be("cost", f"one of {list(_POWERS)}", self.cost)
        unique, ranks = np.unique(y, return_inverse=True)
        cell_ids, cells = np.unique(queries * len(unique) + ranks, return_inverse=True)
        if len(cell_ids) == queries.max() + 1:
            where = "" if group is None else " in at least one query"
            raise ValueError(f"y must hold two or more grades{where}, but there is no pair.")
        values = y - 0.5 * (unique[0] + unique[-1])
        starts, cell_starts = starts_of(queries), starts_of(cell_ids // len(unique))
        sizes, ranks = np.diff(cell_starts), cells - cell_starts[queries]
        lower = Side(values, ranks, starts, sizes)
        # The loss of a higher grade is that of a lower one in the reversed order.
        ranks, starts = sizes[queries] - 1 - ranks, n_samples - starts[::-1]
        upper = Side(-values, ranks, starts, sizes[::-1].copy())
        small = queries.astype(np.min_scalar_type(queries.max()))  # numpy sorts it by counting
        return Grades(lower, upper, small, cells, cell_starts)

    def plane(self, scores, y, weights, out) -> float:
        gradient, offset = _pair_sums(scores, y, weights, _POWERS[self.cost], 1.0)
        total = pair_weight(y, weights)
        np.divide(gradient, total, out=out)
        return offset / total

    def score(self, scores, y, weights) -> float:
        """Concordance: weighted share of the pairs in the right order; ties count one half."""
        _, wrong = _pair_sums(scores, y, weights, 0, 0.0)
        _, right = _pair_sums(-scores, y, weights, 0, 0.0)
        value = 0.5 + 0.5 * (right - wrong) / pair_weight(y, weights)
        return float(min(max(value, 0.0), 1.0))


def pair_weight(y: Grades, weights: Array) -> float:
    """The sum of s_i s_j over the pairs."""
    return _total_pair_weight(np.bincount(y.cells, weights), y.cell_starts)


def _pair_sums(scores, y: Grades, weights, power, margin) -> tuple[Array, float]:
    """Derivatives, and the sum of the weights and costs of pairs with f_j - f_i < margin."""
    order = np.argsort(scores)
    if len(y.lower.sizes) > 1:
        order = order[np.argsort(y.queries[order], kind="stable")]
    lower = _side_sums(y.lower, order, scores[order], weights, power, margin)
    back = order[::-1]
    upper = _side_sums(y.upper, back, -scores[back], weights, power, margin)
    gradient = np.empty_like(lower)
    gradient[order] = lower - upper[::-1]
    return gradient, float(lower.sum())


def _side_sums(side: Side, order, scores, weights, power, margin) -> Array:
    """For each sample in this order, the weights and costs of its pairs with later ones."""
    places, out = (side.ranks[order], side.values[order], weights[order]), np.empty(len(order))
    _power_sums(scores, *places, side.starts, side.sizes, power, margin, out)
    return out
