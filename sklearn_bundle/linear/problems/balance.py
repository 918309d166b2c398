"""Planes of a joint loss that are balanced: their coefficients of all intercepts are zero.

There are two ways to balance a plane ``sum_i s_i (<g_i, f_i> + c_i)`` of ``sum_i s_i l(f_i, y_i)``.

*Mixing* is for softmax, whose g_i are probabilities P_i minus indicators Y_i. Classes with too much
give part of each of their probabilities to the others: ``P' = P M`` has rows on the simplex and
balanced columns, and ``X'SP' = X'SP M`` costs no product.

*Shares* are for any loss: since l >= 0, each row of a plane may be multiplied by a number from 0 to
1. The rows of class c get the share t_c, so that the intercepts have the coefficients
``sum_c t_c e_c`` with ``e_c = sum_(y_i = c) s_i g_i``. If the loss depends on differences of scores
alone and a higher score of the label never raises it, ``e_c`` has the sum 0 and one negative entry,
that of c. Then the t are the stationary distribution of a Markov chain with the rates ``e_ck``.
This bound is lower than that of mixing if the shares have to differ much.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

FARTHEST = 2.0  # times the size of the model's intercepts: how far the optimum's may be
# Growth and number of the moves of b that search for a plane on the other side of the best b.
WIDER, MOST_MOVES = 4.0, 12
_ROUNDED = 1e-12  # of a typical slope: a derivative in b that is rounding
_UNBALANCED = 1e-12  # of the sizes of the terms: a larger sum is no rounding


def shares_of_classes(y: NDArray[np.int64], weights: Array, n_classes: int) -> Array:
    """Weight of each class, shape (K,)."""
    return np.bincount(y, weights, n_classes).astype(np.float64, copy=False)


def sums_of_classes(
    rows: RowOperator, y: NDArray[np.int64], weights: Array, n_classes: int
) -> Array:
    """``Y'SX``, shape (K, d): one product with X'."""
    indicators = np.zeros((n_classes, len(y)))
    indicators[y, np.arange(len(y))] = weights
    return rows.class_gradient(indicators)


def mixing(surplus: Array, class_shares: Array) -> tuple[Array, Array]:
    """What M does: the share that each class gives away, and to which classes.

    ``M = diag(1 - moved) + moved given'``.

    Parameters
    ----------
    surplus : ndarray of shape (K,)
        ``sum_i s_i (P_i - Y_i)``.
    class_shares : ndarray of shape (K,)
        ``sum_i s_i Y_i``.
    """
    moved, given = np.zeros((2, len(surplus)))
    deficit = np.maximum(-surplus, 0.0)
    total = deficit.sum()
    if total > 0.0:
        # The part that moves, not the part that stays: next to 1 it would lose digits.
        excess = np.maximum(surplus, 0.0)
        moved = np.minimum(excess / np.maximum(excess + class_shares, TINY), 1.0)
        given = deficit / total
    return moved, given


def mixed(gradient: Array, class_sums: Array, moved: Array, given: Array) -> Array:
    """The gradient of the mixed plane, from ``(P - Y)'SX`` and ``Y'SX``, all of shape (K, d)."""
    lost = moved[:, None] * (gradient + class_sums)
    return gradient - lost + given[:, None] * lost.sum(axis=0)


def cut_by_class(
    loss: Loss, scores: Array, y: NDArray[np.int64], weights: Array, out: Array
) -> Array:
    """Fill ``out`` with the derivatives of a plane; returns the parts of the classes in it.

    Row c has the offset and then the coefficients of the intercepts from the rows of class c.
    """
    n_outputs = scores.shape[1]
    table = np.zeros((n_outputs, 1 + n_outputs))
    for c in np.unique(y):
        rows = np.flatnonzero(y == c)
        part, scratch = np.empty((len(rows), n_outputs)), np.empty((4, len(rows)))
        cut = loss.cut(scores[rows], y[rows], weights[rows], False, part, scratch)
        out[rows] = part
        table[c] = cut.offset, *part.sum(axis=0)
    return table


def balancing_shares(table: Array) -> Array | None:
    """The t_c, from 0 to 1; None if there are none but 0.

    Parameters
    ----------
    table : ndarray of shape (n_outputs, 1 + n_outputs)
        The sum of what :func:`cut_by_class` returned for all rows.
    """
    flows = table[:, 1:]
    used = np.flatnonzero(flows.any(axis=1))
    shares = np.zeros(len(flows))
    shares[used] = _stationary(flows[np.ix_(used, used)])
    terms = shares[:, None] * flows
    left, sizes = np.abs(terms.sum(axis=0)), np.abs(terms).sum(axis=0)
    return shares if shares.any() and np.all(left <= _UNBALANCED * sizes) else None


def _stationary(rates: Array) -> Array:
    """Stationary distributions of a chain, one for each set of states that it cannot leave.

    The largest number of each is 1. A state that is left for good has 0.
    """
    Q, found = np.maximum(rates, 0.0), np.zeros(len(rates))
    np.fill_diagonal(Q, 0.0)
    n_sets, numbers = connected_components(Q > 0.0, connection="strong")
    for k in range(n_sets):
        states = np.flatnonzero(numbers == k)
        if len(states) > 1 and not Q[states][:, numbers != k].any():
            found[states] = _of_one_set(Q[np.ix_(states, states)])
    return found


def _of_one_set(Q: Array) -> Array:
    """The elimination of Grassmann, Taksar and Heyman (Operations Research 33, 1985).

    It subtracts nothing, so that each entry has a small relative error.
    """
    for m in range(len(Q) - 1, 0, -1):
        Q[:m, m] /= Q[m, :m].sum()
        Q[:m, :m] += np.outer(Q[:m, m], Q[m, :m])
    found = np.ones(len(Q))
    for m in range(1, len(Q)):
        found[m] = found[:m] @ Q[:m, m]
    return found / found.max()


def without_rounding(
    offset: float, balance: float, typical: float, b: float
) -> tuple[float, float]:
    """A coefficient of b that is rounding goes off the offset, for any b that is not far."""
    if abs(balance) > _ROUNDED * typical:
        return offset, balance
    return offset - FARTHEST * abs(balance) * (1.0 + b), 0.0
