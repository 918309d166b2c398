"""Losses of the positions in which documents are listed, and their targets."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_bundle.core.values import plain, shown
from sklearn_bundle.linear.losses.base import Array, must_be
from sklearn_bundle.linear.losses.pairs import Indices, as_queries, as_target, starts_of
from sklearn_bundle.linear.losses.planes import RankingLoss


class Query(NamedTuple):
    """A query with its documents in order of decreasing gain.

    The first L positions have a cost or a weight; the order of later documents does not matter.
    """

    rows: Indices  # (m,)
    gains: Array  # (m,) in shares of the best sum of discounted gains
    discounts: Array  # (k,) of the measure
    costs: Array  # (L,) the discounts that replace them in the bound
    emphasis: Array  # (L,) the weights c_i of positions


class Queries(NamedTuple):
    """The queries in which documents differ."""

    queries: tuple[Query, ...]
    rows: Indices  # of all queries, one after the other
    starts: Indices  # (n_queries,) in ``rows``
    sizes: Indices  # (n_queries,)


class NDCG(RankingLoss):
    """Structured loss of the order of a query's documents; bounds 1 - NDCG@k.

    A list pi, with document pi(i) in position i = 0, 1, ..., has the measure ``sum_i a_i b_pi(i)``,
    as a share of the best possible one. Here a_i is the discount of the position, 0 from position k
    on, and b_j the gain of the document. With the documents in order of decreasing gain::

        R(f) = sum_q v_q max_pi sum_i [ a'_i (b_i - b_pi(i)) + c_i (f_pi(i) - f_i) ]

    Here c_i is ``(i + 1)^-0.25``, averaged over documents of the same gain (whose order is free).
    If ``k`` leaves positions out, a'_i has the discounts of all of them, and for those before k
    adds that of position k. As ``a' - a`` does not increase, the sum over a' is at least 1 minus
    the measure (rearrangement inequality). With a instead of a', all lists without a relevant
    document before k would cost the same, and on noisy data w = 0 would be the optimum.

    Queries whose gains are all equal do not constrain the order: they are left out, also from the
    score. v_q is the mean weight of the rows of the query, as a share of the sum of these.
    See section A.3.4 and algorithm 10 of [1]_, with the permutation inverted; the worst pi solves a
    linear assignment.

    Parameters
    ----------
    k : int, default=None
        Number of positions that count; None means all.
    gain : {"exp2", "linear"}, default="exp2"
        Of relevances r >= 0: 2^r - 1 for r of at most 1000, or r.

    Raises
    ------
    ValueError
        Raised by `fit`: if `k` is not None or an int of at least 1; for an unknown `gain`; if y has
        negative values, or values above 1000 with gain="exp2"; if no query has two different gains;
        without `group`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import ndcg_score
    >>> from sklearn_bundle.losses import NDCG
    >>> relevance, scores = np.array([0.0, 1.0, 2.0]), np.array([0.2, 0.9, 0.1])
    >>> loss = NDCG(k=2, gain="linear")
    >>> target = loss.prepare(relevance, np.zeros(3), 3)
    >>> round(float(loss.score(scores, target, np.ones(3))), 3)
    0.38
    >>> round(float(ndcg_score([relevance], [scores], k=2)), 3)
    0.38
    """

    def __init__(self, k: int | None = None, gain: str = "exp2"):
        self.k = plain(k)
        self.gain = gain

    def prepare(self, y, group, n_samples) -> Any:
        y = as_target(y, n_samples)
        if group is None:
            raise ValueError("NDCG needs group, a query id per sample; it is None.")
        number = as_queries(group, n_samples)
        if y.min() < 0.0:
            raise ValueError(f"y must hold relevances that are not negative, but has {y.min():g}.")
        if self.gain == "exp2" and y.max() > 1000.0:  # sums of 2^1000 are finite
            raise ValueError(
                f"y must hold relevances of at most 1000, since with gain='exp2' they "
                f"count as 2^r - 1, but y[{y.argmax()}] is {y.max():g}. Take grades such as 0 to 4 "
                f"or loss=NDCG(gain='linear'), which takes them as they are."
            )
        if self.k is not None and not (type(self.k) is int and self.k >= 1):
            raise ValueError(f"k must be None or an int of at least 1, but is {shown(self.k)}.")
        if self.gain not in ("exp2", "linear"):
            raise must_be("gain", "'exp2' or 'linear'", self.gain)
        gains = np.exp2(y) - 1.0 if self.gain == "exp2" else y
        discounts = 1.0 / np.log2(np.arange(2.0, n_samples + 2.0))
        # stable, and by rows: equal gains stay in the order of the rows
        order = np.lexsort((-gains, number))
        parts = np.split(order, starts_of(number)[1:-1])
        queries = [self._query(rows, gains[rows], discounts) for rows in parts if len(rows)]
        queries = tuple(query for query in queries if query is not None)
        if not queries:
            raise ValueError("y must hold two different gains in at least one query of group.")
        sizes = np.array([len(query.rows) for query in queries])
        rows = np.concatenate([query.rows for query in queries])
        return Queries(queries, rows, np.cumsum(sizes) - sizes, sizes)

    def plane(self, scores, y, weights, out) -> float:
        out[:] = 0.0
        offset = 0.0
        for query, share in zip(y.queries, query_weights(y, weights), strict=True):
            rows, gains, _, costs, emphasis = query
            value = emphasis[:, None] * scores[rows] - costs[:, None] * gains
            _, listed = linear_sum_assignment(value, maximize=True)
            offset += share * float(costs @ (gains[: len(costs)] - gains[listed]))
            out[rows[: len(emphasis)]] -= share * emphasis
            out[rows[listed]] += share * emphasis
        return offset

    def score(self, scores, y, weights) -> float:
        """Weighted mean of the measure, averaged over all orders of documents with equal scores."""
        total = 0.0
        for query, share in zip(y.queries, query_weights(y, weights), strict=True):
            f = -scores[query.rows]
            order = np.argsort(f, kind="stable")
            _, tied, counts = np.unique(f[order], return_inverse=True, return_counts=True)
            means = np.bincount(tied, query.gains[order]) / counts
            total += share * float(query.discounts @ means[tied[: len(query.discounts)]])
        return float(min(total, 1.0))

    def _query(self, rows, gains, discounts):
        m = len(rows)
        k = m if self.k is None else min(self.k, m)
        costs, discounts = discounts[:m].copy(), discounts[:k]
        if k < m:
            costs[:k] += costs[k]
        best = float(discounts @ gains[:k])
        if gains[0] == gains[-1] or best == 0.0:
            return None
        tied = np.cumsum(np.r_[0, np.diff(gains) != 0.0]).astype(np.int64)
        # weights of positions as in Le and Smola (2007)
        falling = (np.arange(m) + 1.0) ** -0.25
        emphasis = (np.bincount(tied, falling) / np.bincount(tied))[tied]
        # constants do not change differences between orders
        costs -= costs[-1]
        emphasis -= emphasis[-1]
        length = np.flatnonzero((costs > 0.0) | (emphasis > 0.0))[-1] + 1
        return Query(rows, gains / best, discounts, costs[:length], emphasis[:length])


def query_weights(y, weights):
    means = np.add.reduceat(weights[y.rows], y.starts) / y.sizes
    return means / means.sum()
