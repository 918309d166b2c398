"""Matchings as a structured model: each point of one set with a point of another."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.core.values import shown
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.examples import (
    Array,
    Examples,
    Found,
    ends_of,
    finite_array,
    whole_numbers,
)

# Cost of a call of the oracle, without reading the features, in entries read in the same time: 50
# microseconds, for the assignment of 30 points and numpy's calls.
_CALL = 2.5e4
_MOST = 1 << 31  # points of the second set, where their number is not known


class Matching(StructuredModel):
    """Assignments of the points of one set to distinct points of another.

    x has shape (n, m, d), with n at most m: d features of each pair of a point of the first set and
    a point of the second. y has shape (n,): the distinct numbers, from 0 to m - 1, of the matches
    of the points of the first set; for n = m it is a permutation. n and m may differ between
    examples. ::

        phi(x, y) = sum_i x[i, y[i]]
        l(y, y') = share of the i with y[i] != y'[i]

    so w has length d. Features may have any sign: weights of similarities will be positive, those
    of differences negative. Equation (19) of [1]_ is ``x[i, j] = -(p_i - q_j)^2``, feature by
    feature, for points p_i and q_j; without the minus, w is the negative of theirs. The loss is
    (20) there, the Hamming loss divided by n.

    Raises
    ------
    ValueError
        With the example's number, by :meth:`n_parameters` and :meth:`examples`, and thus by `fit`,
        if an x is not of shape (n, m, d) with 1 <= n <= m and d >= 1, differs from the first in d
        or has a nonfinite entry, or a y is not as described above. The inferences raise the same
        without the number. For ``scaling="slack"``, which has no known inference.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="matching"`` is this model.

    Notes
    -----
    Inference is a linear assignment problem, and so is loss-augmented inference (18) of [1]_, where
    each pair that is not in y gets 1/n more. Both are solved by
    :func:`scipy.optimize.linear_sum_assignment` in at most n^2 m steps. In `fit` scores are
    rounded to multiples of a power of two for which float64 represents all sums exactly: the
    matching found is the exact optimum for these scores, and the rounding is added to `objective_`.
    Features of pairs of pairs, which would make it a quadratic assignment problem, are not
    supported.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365; section 5.3.2.
    .. [2] T. S. Caetano, J. J. McAuley, L. Cheng, Q. V. Le, A. J. Smola: Learning graph matching.
       IEEE Transactions on Pattern Analysis and Machine Intelligence 31 (2009), 1048-1058.

    Examples
    --------
    Three points on a line, moved slightly. The first feature is their squared distance; the second
    is useless.

    >>> import numpy as np
    >>> from sklearn_bundle import StructuredSVM
    >>> from sklearn_bundle.models import Matching
    >>> def pairs(p, q):
    ...     return np.stack([np.subtract.outer(p, q) ** 2, np.multiply.outer(p, q)], axis=2)
    >>> X = [pairs([0.0, 1.0, 2.0], [2.1, 0.2, 1.1]), pairs([3.0, 1.0, 0.0], [0.1, 2.7, 1.3])]
    >>> y = [[1, 2, 0], [1, 2, 0]]
    >>> svm = StructuredSVM("matching", reg_lambda=0.01, random_state=0).fit(X, y)
    >>> bool(svm.w_[0] < 0.0), svm.score(X, y)
    (True, 1.0)
    >>> Matching().inference(X[0], np.array([-1.0, 0.0]))
    array([1, 2, 0])
    """

    def n_parameters(self, X: Sequence, y: Sequence) -> int:
        return _checked(X, y)[0][0].shape[2]

    def joint_feature(self, x: ArrayLike, y: ArrayLike) -> Array:
        x = np.asarray(x, np.float64)
        return x[np.arange(len(x)), np.asarray(y)].sum(axis=0)

    def loss(self, y: ArrayLike, y_hat: ArrayLike) -> float:
        y_hat = np.asarray(y_hat)
        return np.count_nonzero(_matches("y", y, len(y_hat), _MOST) != y_hat) / len(y_hat)

    def inference(self, x: ArrayLike, w: Array) -> NDArray[np.int64]:
        return linear_sum_assignment(_pairs("x", x, len(w)) @ w, maximize=True)[1]

    def loss_augmented_inference(self, x: ArrayLike, y: ArrayLike, w: Array) -> NDArray[np.int64]:
        x = _pairs("x", x, len(w))
        wrong = np.arange(x.shape[1]) != _matches("y", y, *x.shape[:2])[:, None]
        return linear_sum_assignment(x @ w + wrong / len(x), maximize=True)[1]

    def examples(self, X: Sequence, y: Sequence, scaling: str) -> Examples:
        """All examples bound to the model, for solvers; see :class:`StructuredModel`."""
        if scaling == "slack":
            return super().examples(X, y, scaling)  # refuses it, unless a subclass has an inference
        return MatchingExamples(*_checked(X, y))


class MatchingExamples(Examples):
    """Checked features of pairs, with the true matchings; solves an assignment per call.

    Parameters
    ----------
    X : list of ndarray of shape (n, m, d)
    y : list of ndarray of shape (n,)
    """

    def __init__(self, X: list[Array], y: list[NDArray[np.int64]]):
        self._X, self._y = X, y
        self.n_examples, self.n_parameters = len(X), X[0].shape[2]
        self.n_entries = sum(x.size for x in X)
        self.oracle_cost = _CALL + self.n_entries / self.n_examples
        rows = np.concatenate([np.abs(x).max(axis=1) for x in X])  # no pair of a point has more
        self.roundings = (ScoreRounding(rows, ends_of([*map(len, X)]), _column),)

    def find(self, w: Array, first: int, last: int) -> Found:
        """The worst matchings, one example after the other."""
        n = last - first
        psi, (losses, scores, bounds) = np.zeros((n, self.n_parameters)), np.zeros((3, n))
        for k, (x, y) in enumerate(zip(self._X[first:last], self._y[first:last], strict=True)):
            output, rounding = _worst(x @ w, y)
            wrong = np.flatnonzero(output != y)
            entries = (x[wrong, y[wrong]] - x[wrong, output[wrong]]).sum(axis=0)
            loss = len(wrong) / len(y)
            score = loss - float(w @ entries)
            if score > 0.0:
                psi[k], losses[k], scores[k] = entries, loss, score
            elif np.isnan(rounding):
                scores[k] = np.nan
            bounds[k] = scores[k] + rounding
        rows, columns = np.nonzero(psi)
        starts = np.searchsorted(rows, np.arange(n + 1))
        return Found(starts, columns.astype(np.uint32), psi[rows, columns], losses, scores, bounds)


def _worst(scores: Array, y: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """A matching of the highest loss-augmented score, and how much higher another may score.

    If y is the best, it may be one that is no better than y. Margins are scores minus those of y,
    row by row. ``most`` is an upper bound for all matchings, so a matching with a pair below
    ``-most`` is no better than y, and such margins need not be distinguished. The assignment adds
    and subtracts margins: a path has at most n of them minus n others, each within ``-most`` and
    ``most``, and a comparison needs three such sums and a margin. If all are multiples of ``unit``,
    and ``8 n most`` is below 2^53 units, nothing is rounded. Rounding them to multiples moves the
    sum of n of them by at most ``n unit / 2``.
    """
    n, rows = len(y), np.arange(len(y))
    margins = scores - scores[rows, y][:, None]
    margins += 1.0 / n
    margins[rows, y] = 0.0
    most = float(margins.max(axis=1).sum())
    if most == 0.0:
        return y, 0.0
    if not 8 * n * most < np.inf:  # for a w that is far too large
        return y, np.nan
    unit = ldexp(1.0, frexp(8 * n * most)[1] - 53)
    rounded = np.rint(np.maximum(margins, -most) / unit)
    return linear_sum_assignment(rounded, maximize=True)[1], n * unit


def _column(w: Array) -> tuple[Array, Array]:
    return w[:, None], w[:0]


def _checked(X: Sequence, y: Sequence) -> tuple[list[Array], list[NDArray[np.int64]]]:
    """All inputs as arrays of float64 and outputs as arrays of int64."""
    d = _pairs("X[0]", X[0], "d").shape[2]
    pairs = [_pairs(f"X[{i}]", x, d) for i, x in enumerate(X)]
    return pairs, [_matches(f"y[{i}]", y[i], *x.shape[:2]) for i, x in enumerate(pairs)]


def _pairs(name: str, x: Any, d: int | str) -> Array:
    x = finite_array(name, x, "n", "m", d)
    if not 1 <= x.shape[0] <= x.shape[1] or not x.shape[2]:
        raise ValueError(
            f"{name} must have a shape (n, m, d) with 1 <= n <= m and d >= 1: features of each "
            f"pair of one of n points and one of m; but has {x.shape}."
        )
    return x


def _matches(name: str, y: Any, n: int, m: int) -> NDArray[np.int64]:
    numbers = whole_numbers(name, y, m, n)
    if len(np.unique(numbers)) < n:
        raise ValueError(f"{name} must hold {n} different numbers, got {shown(numbers)}.")
    return numbers
