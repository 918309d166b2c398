"""Base classes of losses of an order, and checks of their targets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.values import as_numbers, missing_entries, refuse_mixed, shown
from sklearn_bundle.linear.losses.base import Array, Prepared
from sklearn_bundle.linear.losses.measures import PiecewiseLinearLoss

Indices = NDArray[np.int64]


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
    missing = missing_entries(ids)
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
