"""Frank-Wolfe steps on the unit simplex: maximize ``g(a) = -a'Ka``, K positive definite.

K is a matrix given by rows, plus a diagonal ``ridge``. ``q = K a`` and ``Q = a'q = -g`` are kept up
to date; the gradient of g is -2 q. Vertex i, the ascent vertex, is the one with the smallest q;
vertex j, a descent vertex, is in the support. Numbers of equations and algorithms are those of
Allende, Frandi, Nanculef and Sartori (2013).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import LAST_PLACE
from sklearn_bundle.jit.decorators import inner, jit

FW, SWAP_ADD, SWAP_DROP, AWAY, AWAY_DROP = 0, 1, 2, 3, 4  # kinds of steps
DONE, INDEFINITE = -1, -2  # in place of a missing row
USE_FW, USE_CVM, USE_MFW, USE_SWAP, USE_SWAP_2O = 1, 2, 3, 4, 5  # Algorithms 1 to 5
# CVM corrects its support until the spread of q there is below this share of the gap. The paper
# solves the problem on the support; half is a choice.
_CORRECTION = 0.5
_SMALL_SUPPORT = 0.15  # share of the vertices; a smaller support is faster to read index by index
CHECKED = 32  # steps between two checks of the certificate, each a pass over all vertices
LANES = 64  # parallel minima, eight vectors of doubles: one running minimum does not vectorize
# Of the sizes of the terms of a square or a determinant: below minus this it is far beyond rounding
# in float32.
INDEFINITE_SINGLE = 1e-4
_OF_RIDGE = 1e-12  # of the ridge, which is float64: far beyond the rounding of its subtraction


class Rule(NamedTuple):
    """How vertices and steps are chosen, and the relative duality gap at which steps end.

    ``algorithm`` is one of the constants ``USE_``. The ascent vertex is the best of
    ``n_candidates`` vertices, drawn at random from ``seed`` and the step's number, or of all if
    that is 0.
    """

    algorithm: int
    tol: float
    n_candidates: int
    seed: int


class Matrix(NamedTuple):
    """``K = M + diag(ridge)``, with the rows of M that are known.

    Row i of M is ``rows[slots[i]]``, which may be longer than needed; it is missing if ``slots[i]``
    is -1. Slot s holds the row of vertex ``owners[s]``. ``used[i]`` is the last step that needed
    row i. ``diagonal`` is that of K; ``single`` is the same in single precision.

    ``rows`` comes last: for a long named tuple, numba 0.59 chooses among compiled versions by the
    types of its last fields only.
    """

    slots: NDArray[np.int64]
    owners: NDArray[np.int64]
    used: NDArray[np.int64]
    ridge: NDArray[np.float64]
    diagonal: NDArray[np.float64]
    single: NDArray[np.float32]
    rows: NDArray[np.float32] | NDArray[np.float64]


class Point(NamedTuple):
    """A point a of the simplex, ``q = K a``, and the support of a.

    The first entries of ``support``, in any order, are the support; ``where[i]`` is the position of
    vertex i among them, or -1.
    """

    a: NDArray[np.float64]
    q: NDArray[np.float64]
    support: NDArray[np.int64]
    where: NDArray[np.int64]


@inner
def _first_of(lanes, at):
    """Position of the smallest number of all lanes."""
    lane = 0
    for k in range(1, LANES):
        if lanes[k] < lanes[lane]:
            lane = k
    return at[lane] + lane


@inner
def lowest(q, lanes, at):
    """The ascent vertex; lane k runs over q[k], q[k + 64], ..."""
    n = q.shape[0]
    lanes[:] = np.inf
    at[:] = 0
    for start in range(0, n - n % LANES, LANES):
        part = q[start : start + LANES]
        for k in range(LANES):
            better = part[k] < lanes[k]
            lanes[k] = part[k] if better else lanes[k]
            at[k] = start if better else at[k]
    start = n - n % LANES
    for k in range(n % LANES):
        if q[start + k] < lanes[k]:
            lanes[k] = q[start + k]
            at[k] = start
    return _first_of(lanes, at)


@inner
def highest(q, support, size):
    """The first-order descent vertex: position in the support of its largest q."""
    best = 0
    for p in range(1, size):
        if q[support[p]] > q[support[best]]:
            best = p
    return best


@inner
def best_partner(q, i, row_i, diagonal, a, support, size):
    """The second-order descent vertex (19): position in the support of the largest SWAP gain.

    (19) is the gain of a step without a limit. Here it is the gain of the step that can be taken,
    which is then compared with that of the Frank-Wolfe step. With (19) in only one of the two
    places, a vertex with hardly any weight is chosen again and again, and the Frank-Wolfe steps
    that follow gain nothing.
    """
    best, best_gain = -1, 0.0
    for p in range(size):
        j = support[p]
        slope = q[j] - q[i]
        if slope > 0.0:
            curvature = diagonal[i] - 2.0 * row_i[j] + diagonal[j]
            step = min(slope / curvature, a[j])
            gain = step * (2.0 * slope - step * curvature)
            if gain > best_gain:
                best, best_gain = p, gain
    return best


@inner
def best_of_all(q, q_i, d_i, scale, row_i, diagonal, a, lanes, at):
    """The second-order descent vertex, or -1, by one pass over all vertices.

    Gains are in single precision, which is enough for a choice, and relative to ``1/scale^2``, so
    that they do not underflow. Where a is 0, so is the gain.
    """
    n = q.shape[0]
    least, two = np.float32(1e-7) * d_i, np.float32(2.0)
    lanes[:] = np.float32(0.0)
    at[:] = 0
    for start in range(0, n - n % LANES, LANES):
        of_q, of_row = q[start : start + LANES], row_i[start : start + LANES]
        of_d, of_a = diagonal[start : start + LANES], a[start : start + LANES]
        for k in range(LANES):
            slope = np.float32(scale * max(of_q[k] - q_i, 0.0))
            curvature = max((d_i + of_d[k]) - two * np.float32(of_row[k]), least)
            step = min(slope / curvature, np.float32(scale * of_a[k]))
            gain = step * (two * slope - step * curvature)
            better = gain > lanes[k]
            lanes[k] = gain if better else lanes[k]
            at[k] = start if better else at[k]
    best, best_gain = -1, np.float32(0.0)
    for k in range(LANES):
        if lanes[k] > best_gain:
            best, best_gain = at[k] + k, lanes[k]
    for k in range(n - n % LANES, n):
        slope = np.float32(scale * max(q[k] - q_i, 0.0))
        curvature = max((d_i + diagonal[k]) - two * np.float32(row_i[k]), least)
        step = min(slope / curvature, np.float32(scale * a[k]))
        gain = step * (two * slope - step * curvature)
        if gain > best_gain:
            best, best_gain = k, gain
    return best


@inner
def lowest_of(q, indices, count):
    """The vertex of smallest q among the first ``count`` indices."""
    best = indices[0]
    for p in range(1, count):
        if q[indices[p]] < q[best]:
            best = indices[p]
    return best


@inner
def move(q, keep, by_i, row_i, by_j, row_j):
    """``q = keep q + by_i K_i + by_j K_j``, without the ridge."""
    for k in range(q.shape[0]):
        q[k] = keep * q[k] + by_i * row_i[k] + by_j * row_j[k]


@inner
def swap_step(q, i, j, k_ij, diagonal, a_j):
    """Step length (26), at most a_j, and its gain (28), clipped."""
    slope = q[j] - q[i]
    curvature = diagonal[i] - 2.0 * k_ij + diagonal[j]
    step = slope / curvature
    if step < a_j:
        return step, slope * step
    return a_j, a_j * (2.0 * slope - a_j * curvature)


@inner
def forward_step(q, i, value, diagonal):
    """Frank-Wolfe step length (25), at most 1, and its gain (27), clipped."""
    slope = value - q[i]
    curvature = diagonal[i] - 2.0 * q[i] + value
    step = slope / curvature
    if step < 1.0:
        return step, slope * step
    return 1.0, 2.0 * slope - curvature


@inner
def away_step(q, j, value, diagonal, a_j):
    """Step length away from j, at most a_j / (1 - a_j)."""
    step = (q[j] - value) / (diagonal[j] - 2.0 * q[j] + value)
    return min(step, a_j / (1.0 - a_j)) if a_j < 1.0 else 0.0


@inner
def plan(algorithm, matrix, point, value, size, i, row_i, lanes, at):
    """The next step: kind, length, and the position of j in the support."""
    a, q, support = point.a, point.q, point.support
    diagonal = matrix.diagonal
    forward, forward_gain = forward_step(q, i, value, diagonal)
    if algorithm == USE_FW:
        return FW, forward, 0
    if algorithm not in (USE_SWAP_2O, USE_CVM):
        p = highest(q, support, size)
    elif size < _SMALL_SUPPORT * q.shape[0]:
        p = best_partner(q, i, row_i, diagonal, a, support, size)
    else:
        d_i, scale = np.float32(diagonal[i]), 1.0 / (value - q[i])
        j = best_of_all(q, q[i], d_i, scale, row_i, matrix.single, a, lanes, at)
        p = point.where[j] if j >= 0 else -1
    if p < 0:
        return FW, forward, 0
    j = support[p]
    if algorithm == USE_MFW:
        if value - q[i] >= q[j] - value:
            return FW, forward, 0
        step = away_step(q, j, value, diagonal, a[j])
        return (AWAY_DROP if step == a[j] / (1.0 - a[j]) else AWAY), step, p
    if q[j] <= q[i]:
        return FW, forward, 0
    step, gain = swap_step(q, i, j, row_i[j], diagonal, a[j])
    if algorithm == USE_SWAP:  # compares the gains of steps without a limit, as in Algorithm 4
        gain = (q[j] - q[i]) ** 2 / (diagonal[i] - 2.0 * row_i[j] + diagonal[j])
        forward_gain = (value - q[i]) ** 2 / (diagonal[i] - 2.0 * q[i] + value)
    if gain < forward_gain:
        return FW, forward, 0
    return (SWAP_DROP if step == a[j] else SWAP_ADD), step, p


@inner
def _scale(factor, a, support, size):
    if size < _SMALL_SUPPORT * a.shape[0]:
        for s in range(size):
            a[support[s]] *= factor
    else:
        for k in range(a.shape[0]):
            a[k] *= factor


@inner
def _add(i, point, size):
    if point.where[i] < 0:
        point.support[size] = i
        point.where[i] = size
        size += 1
    return size


@inner
def _drop(p, point, size):
    j, last = point.support[p], point.support[size - 1]
    point.a[j] = 0.0
    point.support[p] = last
    point.where[last] = p
    point.where[j] = -1
    return size - 1


@inner
def take(kind, step, i, p, row_i, row_j, matrix, point, value, size):
    """Take the planned step; returns the new Q and the new size of the support.

    Every kind is ``a = keep a + by_i e_i - by_j e_j``; one loop for all keeps the code small.
    """
    a, q, ridge, diagonal = point.a, point.q, matrix.ridge, matrix.diagonal
    j = point.support[p]
    if kind == FW:
        keep, by_i, by_j = 1.0 - step, step, 0.0
        new_value = keep**2 * value + step * (2.0 * keep * q[i] + step * diagonal[i])
    elif kind in (SWAP_ADD, SWAP_DROP):
        keep, by_i, by_j = 1.0, step, step
        curvature = diagonal[i] - 2.0 * row_i[j] + diagonal[j]
        new_value = value - step * (2.0 * (q[j] - q[i]) - step * curvature)
    else:
        keep, by_i, by_j = 1.0 + step, 0.0, step
        new_value = keep**2 * value - step * (2.0 * keep * q[j] - step * diagonal[j])
    if keep != 1.0:
        _scale(keep, a, point.support, size)
    move(q, keep, by_i, row_i, -by_j, row_j)
    if by_i > 0.0:
        size = _add(i, point, size)
        a[i] += by_i
        q[i] += by_i * ridge[i]
    if by_j > 0.0:
        a[j] -= by_j
        q[j] -= by_j * ridge[j]
        if kind in (SWAP_DROP, AWAY_DROP):
            size = _drop(p, point, size)
    return new_value, size


@inner
def _ascent_vertex(algorithm, q, value, delta, support, size, candidates, lanes, at):
    """i, or -1 if the gap is within ``delta``: searches all vertices unless a candidate will do."""
    if candidates.shape[0] > 0:
        i = lowest_of(q, candidates, candidates.shape[0])
        if value - q[i] > delta * value:
            return i
    i = lowest(q, lanes, at)
    if value - q[i] <= delta * value:
        return -1
    if algorithm == USE_CVM:  # corrects its support before the next vertex
        inner = lowest_of(q, support, size)
        spread = q[support[highest(q, support, size)]] - q[inner]
        if spread > _CORRECTION * (value - q[i]):
            return inner
    return i


@inner
def _draw(n, number, seed, candidates):
    """Random indices that belong to step ``number``."""
    state = (np.uint64(seed) + np.uint64(number)) * np.uint64(0x9E3779B97F4A7C15)
    for c in range(candidates.shape[0]):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        candidates[c] = np.int64(state >> np.uint64(33)) % n


@jit
def sign(row, y, sign_i):
    """``row = y_i y (row + 1)``, in place."""
    for k in range(row.shape[0]):
        row[k] = sign_i * y[k] * row[k] + sign_i * y[k]


@jit
def primal_value(a, q, ridge, value):
    """Objective of the L2-SVM at the primal point that corresponds to a."""
    diagonal = losses = 0.0
    for k in range(a.shape[0]):
        diagonal += a[k] * a[k] * ridge[k]
        slack = max(0.0, 1.0 - (q[k] - a[k] * ridge[k]) / value)
        losses += slack * slack / ridge[k]
    return 0.5 * (value - diagonal) / (value * value) + 0.5 * losses


@inner
def convex(i, j, row_i, ridge, diagonal):
    """Whether the squared distance of i and j is nonnegative up to rounding."""
    k_ii, k_jj = diagonal[i] - ridge[i], diagonal[j] - ridge[j]
    rounding = INDEFINITE_SINGLE * (abs(k_ii) + abs(k_jj)) + _OF_RIDGE * (ridge[i] + ridge[j])
    return i == j or k_ii - 2.0 * row_i[j] + k_jj >= -rounding


@jit
def run(rule, matrix, point, value, size, kinds, first, done):
    """Take steps until ``len(kinds)`` are done, of which ``done`` are done already.

    ``value`` is Q, ``size`` that of the support; ``first`` steps were taken before these. The kind
    of each step is written to ``kinds``. Stops if the relative duality gap of the L2-SVM, checked
    every 32 steps, is within ``rule.tol``, if no step is left, or if a row is missing. Returns Q,
    the size of the support, the number of steps done, and the missing row, or DONE, or INDEFINITE
    if ``k_ii - 2 k_ij + k_jj`` is negative.
    """
    rows, slots, used = matrix.rows, matrix.slots, matrix.used
    a, q, support = point.a, point.q, point.support
    lanes, gains = np.empty(LANES), np.empty(LANES, dtype=np.float32)
    at = np.empty(LANES, dtype=np.int32)
    candidates = np.empty(rule.n_candidates, dtype=np.int64)
    begin = done
    while done < kinds.shape[0]:
        if done > begin and (first + done) % CHECKED == 0:
            primal = primal_value(a, q, matrix.ridge, value)
            if primal - 0.5 / value <= rule.tol * primal:
                break
        _draw(q.shape[0], first + done, rule.seed, candidates)
        i = _ascent_vertex(
            rule.algorithm, q, value, LAST_PLACE, support, size, candidates, lanes, at
        )
        if i < 0:
            break
        used[i] = first + done + 1  # more than any row that this step can do without
        if slots[i] < 0:
            return value, size, done, i
        row_i = rows[slots[i], : q.shape[0]]
        kind, step, p = plan(rule.algorithm, matrix, point, value, size, i, row_i, gains, at)
        if not step > 0.0:
            break
        row_j = row_i
        if kind != FW:
            j = support[p]
            used[j] = first + done + 1
            if slots[j] < 0:
                return value, size, done, j
            row_j = rows[slots[j], : q.shape[0]]
        if not (value > 0.0 and convex(i, support[p], row_i, matrix.ridge, matrix.diagonal)):
            return value, size, done, INDEFINITE
        value, size = take(kind, step, i, p, row_i, row_j, matrix, point, value, size)
        kinds[done] = kind
        done += 1
    return value, size, done, DONE
