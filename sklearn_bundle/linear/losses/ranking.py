"""Losses of an order: their base class, that of pairs of rows, and checks of targets."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.values import as_numbers, refuse_mixed, shown
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear.losses.base import Array, Prepared
from sklearn_bundle.linear.losses.hinge import Hinge
from sklearn_bundle.linear.losses.measures import PiecewiseLinearLoss

Indices = NDArray[np.int64]


@jit
def _preference_plane(scores, better, worse, costs, weights, out):
    """Offset, subgradient and normalizer of the hinge loss of pairs."""
    out[:] = 0.0
    offset = 0.0
    total = 0.0
    for p in range(better.shape[0]):
        i, j = better[p], worse[p]
        pair = weights[i] * weights[j]
        total += pair
        active = pair * costs[p] * (scores[i] - scores[j] < 1.0)
        offset += active
        out[i] -= active
        out[j] += active
    return offset, total


class RankingLoss(PiecewiseLinearLoss):
    """A loss of differences of scores, on which a common intercept has no effect.

    The contract for your own loss: three methods are required, :meth:`prepare`, ``plane`` and
    :meth:`score`. The risk that the planes define must be convex in the scores and never negative.

    See Also
    --------
    Ordinal, Preference : Of grades and of pairs, with their sources.
    PositionMeasure : Of the positions in a list, to derive from.
    Loss : All methods that may be overridden.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Ordinal, RankingLoss
    >>> loss = Ordinal("constant")
    >>> isinstance(loss, RankingLoss)
    True
    >>> target = loss.prepare([1, 2, 3], None, 3)
    >>> scores, weights = np.array([0.0, 2.0, 1.0]), np.ones(3) / 3
    >>> round(loss.score(scores, target, weights), 3)  # two of three pairs are in order
    0.667
    """

    free_intercept: ClassVar[str | None] = None
    #: Whether the target holds pairs of rows of X; if not, it has one entry per row.
    takes_pairs: ClassVar[bool] = False
    #: Whether the target has grades, which thresholds on the scores separate.
    has_grades: ClassVar[bool] = False

    def prepare_target(self, target) -> Prepared:
        return Prepared(self, self.prepare(target.y, target.group, target.n_samples))

    @abstractmethod
    def prepare(self, y: ArrayLike, group: ArrayLike | None, n_samples: int) -> Any:
        """Immutable target, passed as ``y`` to the other methods. Required.

        Parameters
        ----------
        y : array-like
            The target of ``fit``.
        group : array-like of shape (n_samples,) or None
            A query id per sample, of any type, in any order.
        n_samples : int
            Number of rows of X.

        Returns
        -------
        target : object
            Whatever the other methods need.

        Raises
        ------
        ValueError
            For an invalid target or parameter.
        """

    @abstractmethod
    def score(self, scores: Array, y: Any, weights: Array) -> float:
        """The measure itself, between 0 and 1; larger is better. Required.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores f.
        y : object
            What :meth:`prepare` returned.
        weights : ndarray of shape (n,)
            Weights of the rows, positive.

        Returns
        -------
        score : float
            Between 0 and 1.
        """


@dataclass(frozen=True)
class Pairs:
    """Rows (better, worse) of X, with the cost of the wrong order."""

    better: Indices  # (m,)
    worse: Indices  # (m,)
    costs: Array  # (m,)


class Preference(RankingLoss):
    """Hinge loss of given pairs, one row of X better than another.

    ``R(f) = sum_p c_p s_i s_j max(0, 1 - (f_i - f_j)) / sum_p s_i s_j`` over the pairs p = (i, j),
    i the better one. Section A.3.3 and algorithm 9 of [1]_, which lacks the ``1/|P|``. The target
    of ``fit`` is an array of shape (m, 2), indices of rows of X (better, worse), or (m, 3) with the
    cost c_p >= 0 in a third column. Rows of X may be in no pair or in many. With a ``group`` both
    rows of a pair must belong to one query.

    Raises
    ------
    ValueError
        If y does not have one of these shapes, or has indices that are not rows of X, a row paired
        with itself, a pair from two queries, or negative or nonfinite costs; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import BMRMRanker
    >>> X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 0.0]])
    >>> pairs = [(1, 0), (2, 1)]  # row 1 is better than row 0, row 2 better than row 1
    >>> model = BMRMRanker("preference", reg_lambda=1e-2).fit(X, pairs)
    >>> model.predict(X).argsort()
    array([0, 1, 2])
    """

    takes_pairs = True

    def prepare(self, y, group, n_samples) -> Any:
        y = as_numbers("y", y)
        if y.ndim != 2 or y.shape[1] not in (2, 3) or len(y) == 0:
            raise ValueError(
                "y must be an array of pairs (better, worse) or (better, worse, cost), of shape "
                f"(m, 2) or (m, 3) with m >= 1, but has shape {y.shape}."
            )
        inside = (y[:, :2] >= 0.0) & (y[:, :2] < n_samples) & (y[:, :2] % 1.0 == 0.0)
        if not inside.all():
            p = np.flatnonzero(~inside.all(axis=1))[0]
            raise ValueError(
                f"y must hold indices of rows from 0 to {n_samples - 1}, but pair {p} is "
                f"{y[p, :2].tolist()}."
            )
        better, worse = y[:, 0].astype(np.int64), y[:, 1].astype(np.int64)
        queries = as_queries(group, n_samples)
        for wrong, text in (
            (better == worse, "has a row paired with itself"),
            (queries[better] != queries[worse], "has rows of two queries"),
        ):
            if wrong.any():
                p = np.flatnonzero(wrong)[0]
                raise ValueError(f"y {text}: pair {p} is [{better[p]}, {worse[p]}].")
        costs = y[:, 2].copy() if y.shape[1] == 3 else np.ones(len(y))
        wrong = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0.0)))
        if len(wrong):
            p = wrong[0]
            raise ValueError(
                f"The costs in y must be finite and not negative, but that of pair {p} is "
                f"{costs[p]:g}."
            )
        return Pairs(better, worse, costs)

    def plane(self, scores, y, weights, out) -> float:
        offset, total = _preference_plane(scores, y.better, y.worse, y.costs, weights, out)
        out /= total
        return offset / total

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        """Exact, in O(m): a hinge loss of the differences of scores."""
        pairs = weights[y.better] * weights[y.worse]
        apart, moves = (f[y.better] - f[y.worse] for f in (scores, direction))
        ones, scratch = np.ones_like(pairs), np.empty((4, len(pairs)))
        shares = pairs * y.costs / pairs.sum()
        return Hinge().line_search(apart, moves, ones, shares, slope, curvature, scratch)

    def score(self, scores, y, weights) -> float:
        """Weighted share of the pairs in the right order; ties count one half."""
        apart = scores[y.better] - scores[y.worse]
        pairs = weights[y.better] * weights[y.worse]
        return float(pairs @ (0.5 + 0.5 * np.sign(apart)) / pairs.sum())


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
    missing = ids != ids  # NaN and NaT
    if ids.dtype == object:
        missing = np.array([bool(known is None or known != known) for known in ids], dtype=bool)
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
