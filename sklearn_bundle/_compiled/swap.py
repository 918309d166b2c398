"""Frank-Wolfe steps on the unit simplex: maximise ``g(a) = -a'Ka``, K positive definite.

K is a matrix that is given by rows, plus a diagonal ``ridge``. Kept up to date are ``q = K a`` and
``Q = a'q = -g``; the gradient of g is -2 q. Vertex i is the one with the smallest q, the ascent
vertex; vertex j is one of the support, a descent vertex. Numbers of equations and algorithms are
those of Allende, Frandi, Nanculef and Sartori (2013).
"""

import numpy as np

from sklearn_bundle._compiled import vertices
from sklearn_bundle._jit import jit

NONE, FW, SWAP_ADD, SWAP_DROP, AWAY, AWAY_DROP = 0, 1, 2, 3, 4, 5  # kinds of steps
DONE, INDEFINITE = -1, -2  # in place of a missing row
USE_FW, USE_CVM, USE_MFW, USE_SWAP, USE_SWAP_2O = 1, 2, 3, 4, 5  # Algorithms 1 to 5
_CORRECTION = 0.5  # CVM corrects its support until its spread is below this share of the gap
_FEW = 0.15  # share of a support up to which reading it point by point is the faster way
_LOOK = 32  # steps between two looks at the certificate
_ROUNDING = 1e-15
_NEGATIVE = 1e-4  # relative; far above rounding in float32


@jit
def move(q, keep, by_i, row_i, by_j, row_j):
    """``q = keep q + by_i K_i + by_j K_j``, the ridge left out."""
    for k in range(q.shape[0]):
        q[k] = keep * q[k] + by_i * row_i[k] + by_j * row_j[k]


@jit
def swap_step(q, i, j, k_ij, diagonal, a_j):
    """Step length (26), at most a_j, and its gain (28), clipped."""
    slope = q[j] - q[i]
    bend = diagonal[i] - 2.0 * k_ij + diagonal[j]
    step = slope / bend
    if step < a_j:
        return step, slope * step
    return a_j, a_j * (2.0 * slope - a_j * bend)


@jit
def forward_step(q, i, value, diagonal):
    """Frank-Wolfe step length (25), at most 1, and its gain (27), clipped."""
    slope = value - q[i]
    bend = diagonal[i] - 2.0 * q[i] + value
    step = slope / bend
    if step < 1.0:
        return step, slope * step
    return 1.0, 2.0 * slope - bend


@jit
def away_step(q, j, value, diagonal, a_j):
    """Step length away from j, at most a_j / (1 - a_j)."""
    step = (q[j] - value) / (diagonal[j] - 2.0 * q[j] + value)
    return min(step, a_j / (1.0 - a_j)) if a_j < 1.0 else 0.0


@jit
def plan(algorithm, q, value, a, i, row_i, diagonal, single, support, where, size, lanes, at):
    """What to do next: kind, step length, and the position of j in the support."""
    forward, forward_gain = forward_step(q, i, value, diagonal)
    if algorithm == USE_FW:
        return FW, forward, 0
    if algorithm not in (USE_SWAP_2O, USE_CVM):
        p = vertices.highest(q, support, size)
    elif size < _FEW * q.shape[0]:
        p = vertices.best_partner(q, i, row_i, diagonal, a, support, size)
    else:
        d_i, scale = np.float32(diagonal[i]), 1.0 / (value - q[i])
        j = vertices.best_of_all(q, q[i], d_i, scale, row_i, single, a, lanes, at)
        p = where[j] if j >= 0 else -1
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
    if algorithm == USE_SWAP:  # compares what steps without a limit would gain, as in Algorithm 4
        gain = (q[j] - q[i]) ** 2 / (diagonal[i] - 2.0 * row_i[j] + diagonal[j])
        forward_gain = (value - q[i]) ** 2 / (diagonal[i] - 2.0 * q[i] + value)
    if gain < forward_gain:
        return FW, forward, 0
    return (SWAP_DROP if step == a[j] else SWAP_ADD), step, p


@jit
def _scale(factor, a, support, size):
    if size < _FEW * a.shape[0]:
        for s in range(size):
            a[support[s]] *= factor
    else:
        for k in range(a.shape[0]):
            a[k] *= factor


@jit
def _add(i, support, where, size):
    if where[i] < 0:
        support[size] = i
        where[i] = size
        size += 1
    return size


@jit
def _drop(p, a, support, where, size):
    j, last = support[p], support[size - 1]
    a[j] = 0.0
    support[p] = last
    where[last] = p
    where[j] = -1
    return size - 1


@jit
def take(kind, step, i, p, row_i, row_j, ridge, diagonal, q, value, a, support, where, size):
    """Take the planned step; returns the new Q and the new size of the support.

    Every kind is ``a = keep a + by_i e_i - by_j e_j``; one loop for all keeps the code small.
    """
    j = support[p]
    if kind == FW:
        keep, by_i, by_j = 1.0 - step, step, 0.0
        new_value = keep**2 * value + step * (2.0 * keep * q[i] + step * diagonal[i])
    elif kind in (SWAP_ADD, SWAP_DROP):
        keep, by_i, by_j = 1.0, step, step
        bend = diagonal[i] - 2.0 * row_i[j] + diagonal[j]
        new_value = value - step * (2.0 * (q[j] - q[i]) - step * bend)
    else:
        keep, by_i, by_j = 1.0 + step, 0.0, step
        new_value = keep**2 * value - step * (2.0 * keep * q[j] - step * diagonal[j])
    if keep != 1.0:
        _scale(keep, a, support, size)
    move(q, keep, by_i, row_i, -by_j, row_j)
    if by_i > 0.0:
        size = _add(i, support, where, size)
        a[i] += by_i
        q[i] += by_i * ridge[i]
    if by_j > 0.0:
        a[j] -= by_j
        q[j] -= by_j * ridge[j]
        if kind in (SWAP_DROP, AWAY_DROP):
            size = _drop(p, a, support, where, size)
    return new_value, size


@jit
def _ascent_vertex(algorithm, q, value, delta, support, size, candidates, lanes, at):
    """i, or -1 if the gap is within ``delta``: by a full search, unless a candidate will do."""
    if candidates.shape[0] > 0:
        i = vertices.lowest_of(q, candidates, candidates.shape[0])
        if value - q[i] > delta * value:
            return i
    i = vertices.lowest(q, lanes, at)
    if value - q[i] <= delta * value:
        return -1
    if algorithm == USE_CVM:  # corrects its support before it looks further
        inner = vertices.lowest_of(q, support, size)
        spread = q[support[vertices.highest(q, support, size)]] - q[inner]
        if spread > _CORRECTION * (value - q[i]):
            return inner
    return i


@jit
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
    """Objective of the L2-SVM at the point of the primal that belongs to a."""
    diagonal = losses = 0.0
    for k in range(a.shape[0]):
        diagonal += a[k] * a[k] * ridge[k]
        slack = max(0.0, 1.0 - (q[k] - a[k] * ridge[k]) / value)
        losses += slack * slack / ridge[k]
    return 0.5 * (value - diagonal) / (value * value) + 0.5 * losses


@jit
def convex(i, j, row_i, ridge, diagonal):
    """Whether the squared distance of i and j is not negative, but for rounding."""
    k_ii, k_jj = diagonal[i] - ridge[i], diagonal[j] - ridge[j]
    rounding = _NEGATIVE * (abs(k_ii) + abs(k_jj)) + 1e-12 * (ridge[i] + ridge[j])
    return i == j or k_ii - 2.0 * row_i[j] + k_jj >= -rounding


@jit
def run(
    algorithm,
    rows,
    slots,
    used,
    ridge,
    diagonal,
    q,
    value,
    a,
    single,
    support,
    where,
    size,
    tol,
    kinds,
    first,
    done,
    n_candidates,
    seed,
):
    """Steps until there are ``len(kinds)`` of them, of which ``done`` are there already.

    ``first`` steps were taken before these.
    Row i of the matrix is ``rows[slots[i]]``, and may be longer than needed; ``used[i]`` is the
    last step that needed it. Stops where the relative duality gap of the L2-SVM is within ``tol``,
    which is looked at every 32 steps, where no step is left, and where a row is missing, its slot
    -1. Returns Q, the size of the support, the number of steps done, and the missing row, or DONE,
    or INDEFINITE where ``k_ii - 2 k_ij + k_jj`` is negative.
    """
    lanes, gains = np.empty(vertices.LANES), np.empty(vertices.LANES, dtype=np.float32)
    at = np.empty(vertices.LANES, dtype=np.int32)
    candidates = np.empty(n_candidates, dtype=np.int64)
    begin = done
    while done < kinds.shape[0]:
        if done > begin and (first + done) % _LOOK == 0:
            primal = primal_value(a, q, ridge, value)
            if primal - 0.5 / value <= tol * primal:
                break
        _draw(q.shape[0], first + done, seed, candidates)
        i = _ascent_vertex(algorithm, q, value, _ROUNDING, support, size, candidates, lanes, at)
        if i < 0:
            break
        used[i] = first + done + 1  # more than any row that this step can do without
        if slots[i] < 0:
            return value, size, done, i
        row_i = rows[slots[i], : q.shape[0]]
        kind, step, p = plan(
            *(algorithm, q, value, a, i, row_i, diagonal, single, support, where, size, gains, at)
        )
        if not step > 0.0:
            break
        row_j = row_i
        if kind != FW:
            j = support[p]
            used[j] = first + done + 1
            if slots[j] < 0:
                return value, size, done, j
            row_j = rows[slots[j], : q.shape[0]]
        if not (value > 0.0 and convex(i, support[p], row_i, ridge, diagonal)):
            return value, size, done, INDEFINITE
        value, size = take(
            *(kind, step, i, p, row_i, row_j, ridge, diagonal),
            *(q, value, a, support, where, size),
        )
        kinds[done] = kind
        done += 1
    return value, size, done, DONE
