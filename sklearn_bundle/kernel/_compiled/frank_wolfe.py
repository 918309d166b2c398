"""Frank-Wolfe steps for ``max -a'Ka`` on the simplex (Allende et al., 2013, Algorithms 1 to 5).

K is positive definite. ``q = K a`` and ``Q = a'q`` are kept up to date; the gradient is -2 q.
Vertex i, the ascent vertex, is the one with the smallest q; vertex j, a descent vertex, is in the
support.
"""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.core.limits import LAST_PLACE
from sklearn_bundle.jit.decorators import inner, jit

USE_FW, USE_CVM, USE_MFW, USE_SWAP, USE_SWAP_2O = 0, 1, 2, 3, 4  # Algorithms 1 to 5
FW, SWAP_ADD, SWAP_DROP, AWAY, AWAY_DROP = 0, 1, 2, 3, 4  # kinds of steps
DONE = -1  # in place of a missing row
_CHECKED = 32  # steps between two looks at the gap, each a pass over all vertices
# CVM corrects its support until the spread of q there is below this share of the gap. The paper
# solves the problem on the support; half is a choice.
_CORRECTION = 0.5


class Matrix(NamedTuple):
    """``K_ij = y_i y_j (k_ij + 1)`` plus a ridge on its diagonal; row i of k is rows[slots[i]]."""

    rows: np.ndarray
    slots: np.ndarray
    y: np.ndarray
    ridge: np.ndarray
    diagonal: np.ndarray


@inner
def _lowest(q):
    best = 0
    for k in range(1, q.shape[0]):
        if q[k] < q[best]:
            best = k
    return best


@inner
def _ascent(algorithm, a, q, value):
    """The ascent vertex, or -1 where only rounding is left."""
    i = _lowest(q)
    if value - q[i] <= LAST_PLACE * value:
        return -1
    if algorithm == USE_CVM:  # corrects its support before the next vertex
        low = high = -1
        for k in range(a.shape[0]):
            if a[k] > 0.0:
                low = k if low < 0 or q[k] < q[low] else low
                high = k if high < 0 or q[k] > q[high] else high
        if q[high] - q[low] > _CORRECTION * (value - q[i]):
            return low
    return i


@inner
def _entry(matrix, row, i, j):
    """K_ij off the diagonal, from row i of k."""
    return matrix.y[i] * matrix.y[j] * (row[j] + 1.0)


@inner
def _gain(slope, curvature, most):
    """Length of the best step of no more than ``most``, and twice what it gains."""
    step = min(slope / curvature, most)
    return step, step * (2.0 * slope - step * curvature)


@inner
def _descent(second_order, matrix, a, q, i, row):
    """The vertex of the support of largest q above q_i or, second order, of the largest gain (19).

    (19) is the gain of a step without a limit. Here it is that of the step that can be taken, which
    is then compared with the Frank-Wolfe step. With (19) in only one of the two places, a vertex
    with hardly any weight is chosen again and again, and the steps that follow gain nothing.
    """
    best, most = -1, 0.0
    for j in range(a.shape[0]):
        if a[j] > 0.0 and q[j] > q[i]:
            gain = q[j] - q[i]
            if second_order:
                between = matrix.diagonal[i] - 2.0 * _entry(matrix, row, i, j) + matrix.diagonal[j]
                gain = _gain(gain, between, a[j])[1]
            if gain > most:
                best, most = j, gain
    return best


@inner
def _plan(algorithm, matrix, a, q, value, i, row):
    """The next step: its kind, its length, and the descent vertex or -1."""
    diagonal, slope = matrix.diagonal, value - q[i]
    curvature = diagonal[i] - 2.0 * q[i] + value
    forward, gain = _gain(slope, curvature, 1.0)  # (25), (27)
    if algorithm == USE_FW:
        return FW, forward, -1
    clipped = algorithm in (USE_CVM, USE_SWAP_2O)
    j = _descent(clipped, matrix, a, q, i, row)
    if j < 0:
        return FW, forward, -1
    if algorithm == USE_MFW:
        if slope >= q[j] - value:
            return FW, forward, -1
        most = a[j] / (1.0 - a[j]) if a[j] < 1.0 else 0.0
        step = min((q[j] - value) / (diagonal[j] - 2.0 * q[j] + value), most)
        return (AWAY_DROP if step == most else AWAY), step, j
    between = diagonal[i] - 2.0 * _entry(matrix, row, i, j) + diagonal[j]
    step, swapped = _gain(q[j] - q[i], between, a[j])  # (26), (28)
    if not clipped:  # Algorithm 4 compares the gains of steps without a limit
        swapped, gain = (q[j] - q[i]) ** 2 / between, slope**2 / curvature
    if swapped < gain:
        return FW, forward, -1
    return (SWAP_DROP if step == a[j] else SWAP_ADD), step, j


@inner
def _move(matrix, q, keep, i, by, row):
    """``q = keep q + by K_i``."""
    y, by_i = matrix.y, by * matrix.y[i]
    for k in range(q.shape[0]):
        q[k] = keep * q[k] + by_i * y[k] * (row[k] + 1.0)
    q[i] += by * matrix.ridge[i]


@jit
def objective(a, q, ridge):
    """That of the L2-SVM at alpha = a / a'q, and a'q."""
    value = diagonal = losses = 0.0
    for k in range(a.shape[0]):
        value += a[k] * q[k]
        diagonal += a[k] * a[k] * ridge[k]
    for k in range(a.shape[0]):
        slack = max(0.0, 1.0 - (q[k] - a[k] * ridge[k]) / value)
        losses += slack * slack / ridge[k]
    return 0.5 * (value - diagonal) / (value * value) + 0.5 * losses, value


@jit
def run(algorithm, matrix, a, q, kinds, done, tol):
    """Take steps until ``len(kinds)`` are done, or the gap is within ``tol``.

    ``done`` of them are done already. Returns the number of steps, and the missing row or DONE.
    """
    rows, slots = matrix.rows, matrix.slots
    while done < kinds.shape[0]:
        value = q @ a
        if done % _CHECKED == 0:
            primal = objective(a, q, matrix.ridge)[0]
            if primal - 0.5 / value <= tol * primal:
                break
        i = _ascent(algorithm, a, q, value)
        if i < 0:
            break
        if slots[i] < 0:
            return done, i
        row = rows[slots[i]]
        kind, step, j = _plan(algorithm, matrix, a, q, value, i, row)
        if kind != FW and slots[j] < 0:
            return done, j
        if not step > 0.0:
            break
        if kind in (FW, AWAY, AWAY_DROP):
            sign = 1.0 if kind == FW else -1.0
            moved = i if kind == FW else j
            for k in range(a.shape[0]):
                a[k] *= 1.0 - sign * step
            a[moved] += sign * step
            _move(matrix, q, 1.0 - sign * step, moved, sign * step, rows[slots[moved]])
        else:
            a[i] += step
            a[j] -= step
            _move(matrix, q, 1.0, i, step, row)
            _move(matrix, q, 1.0, j, -step, rows[slots[j]])
        if kind in (AWAY_DROP, SWAP_DROP):
            a[j] = 0.0
        kinds[done] = kind
        done += 1
    return done, DONE
