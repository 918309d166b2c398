"""Two-variable steps on a block of the dual of the L2-SVM: bounds, but no equality.

Maximize ``g'd - d'Hd/2`` over ``d >= -u``, where H has a diagonal of ones: the variables are those
of the dual times the square roots of its diagonal. Its dtype is the working precision.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled import tiles
from sklearn_bundle._jit import inner, jit

LANES = 32  # maxima side by side; blocks are padded to a multiple
_LOOK = 32  # steps between two looks at the certificate, which is a pass over all variables
_NEGATIVE = 1e-4  # a determinant below minus this is far beyond rounding in float32
_LEAST = 1e-6  # determinants are taken to be this at least, which is rounding in float32


@inner
def _lane(gains):
    lane = 0
    for k in range(1, LANES):
        if gains[k] > gains[lane]:
            lane = k
    return lane


@inner
def _move(half, g, u, row_i, row_j, d_i, d_j, gains, at):
    """``g -= d_i H_i + d_j H_j``; then the variable that gains most alone, and its gain."""
    gains[:] = 0.0
    at[:] = 0
    for s in range(0, g.shape[0], LANES):
        of_g, of_u = g[s : s + LANES], u[s : s + LANES]
        of_i, of_j = row_i[s : s + LANES], row_j[s : s + LANES]
        for k in range(LANES):
            slope = of_g[k] - (of_i[k] * d_i + of_j[k] * d_j)
            of_g[k] = slope
            d = max(slope, -of_u[k])
            gain = d * (slope - half * d)
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = s if better else at[k]
    lane = _lane(gains)
    return at[lane] + lane, gains[lane]


@inner
def _steps_of(one, least, g_i, u_i, g_j, u_j, h):
    """The best steps of two variables with the entry h between them.

    j moves as is best with i free; where i then breaks its bound, it is at it, and j follows.
    """
    d_j = max((g_j - h * g_i) / max(one - h * h, least), -u_j)
    d_i = g_i - h * d_j
    low = d_i < -u_i
    d_i = -u_i if low else d_i
    d_j = max(g_j - h * d_i, -u_j) if low else d_j
    return d_i, d_j


@inner
def _partner(half, one, least, g, u, i, row, gains, at):
    """The variable with which i gains most."""
    g_i, u_i = g[i], u[i]
    gains[:] = 0.0
    at[:] = 0
    for s in range(0, g.shape[0], LANES):
        of_g, of_u, of_row = g[s : s + LANES], u[s : s + LANES], row[s : s + LANES]
        for k in range(LANES):
            g_j, h = of_g[k], of_row[k]
            d_i, d_j = _steps_of(one, least, g_i, u_i, g_j, of_u[k], h)
            gain = d_i * (g_i - half * d_i) + d_j * (g_j - half * d_j - h * d_i)
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = s if better else at[k]
    lane = _lane(gains)
    return at[lane] + lane


@jit
def solve(H, g, u, share, most):
    """Steps until none gains more than ``share`` of the first one, or ``most`` of them.

    g and u are changed in place. H is C-ordered, of a multiple of 32 rows, those of no variable
    with zeros beside the diagonal, in g and in u. Returns the number of steps, and whether H was
    found not to be positive semidefinite, which ends the steps.
    """
    constants, gains = np.empty(3, H.dtype), np.empty(LANES, H.dtype)
    constants[0], constants[1], constants[2] = 0.5, 1.0, _LEAST
    half, one, least = constants[0], constants[1], constants[2]
    at = np.empty(LANES, np.int32)
    d_i = d_j = one - one
    i, gain = _move(half, g, u, H[0], H[0], d_i, d_j, gains, at)
    steps = 0
    enough = share * gain
    while gain > enough and steps < most:
        row = H[i]
        j = _partner(half, one, least, g, u, i, row, gains, at)
        if j == i:
            d_i, d_j = max(g[i], -u[i]), one - one
        else:
            if one - row[j] * row[j] < -_NEGATIVE:
                return steps, True
            d_i, d_j = _steps_of(one, least, g[i], u[i], g[j], u[j], row[j])
            u[j] = u[j] + d_j if d_j > -u[j] else one - one
        u[i] = u[i] + d_i if d_i > -u[i] else one - one
        steps += 1
        i, gain = _move(half, g, u, row, H[j], d_i, d_j, gains, at)
    return steps, False


class Source(NamedTuple):
    """What rows of H are computed from, in float32: points, and ``factors`` to both sides.

    ``ridge`` is what the diagonal of K has more than the kernel's and 1, ``costs`` are one over it,
    and ``roots`` those of the diagonal of K.
    """

    function: tiles.Function
    tiled: tiles.Tiled
    rows: NDArray[np.float32]
    factors: NDArray[np.float32]
    ridge: NDArray[np.float64]
    costs: NDArray[np.float64]
    roots: NDArray[np.float64]


@inner
def _relative_gap(source, unit, g, u, alpha, margins):
    """Of the L2-SVM at the best scale of alpha; the last two are space."""
    ridge, costs, roots = source.ridge, source.costs, source.roots
    for i in range(ridge.shape[0]):
        alpha[i] = unit * u[i] / roots[i]
        margins[i] = 1.0 - unit * g[i] * roots[i] - ridge[i] * alpha[i]
    total = square = diagonal = losses = 0.0
    for i in range(ridge.shape[0]):
        total += alpha[i]
        square += alpha[i] * margins[i]
        diagonal += alpha[i] * alpha[i] * ridge[i]
    value = square + diagonal
    scale = total / value
    for i in range(ridge.shape[0]):
        slack = max(0.0, 1.0 - scale * margins[i])
        losses += slack * slack * costs[i]
    primal = 0.5 * (scale * scale * square + losses)
    return (primal - 0.5 * scale * total) / primal if value > 0.0 else np.inf


@inner
def _wanted(gains, at, slots, i, chosen):
    """i, and the best variables of other lanes that have no row; returns how many."""
    chosen[0] = i
    count = 1
    while count < chosen.shape[0]:
        best, lane = gains[0] - gains[0], -1
        for k in range(LANES):
            if gains[k] > best and slots[at[k] + k] < 0 and at[k] + k != i:
                best, lane = gains[k], k
        if lane < 0:
            break
        chosen[count] = at[lane] + lane
        gains[lane] = 0.0
        count += 1
    return count


@inner
def _load(source, gains, at, i, chosen, few, slots, rows, n_kept):
    """Row i, and others that may be needed soon; returns how many rows there are now."""
    free = min(tiles.GROUP, rows.shape[0] - n_kept)
    count = _wanted(gains, at, slots, i, chosen[:free])
    out, factors = rows[n_kept : n_kept + count], source.factors
    tiles.fill_some(source.function, source.tiled, source.rows, chosen[:count], few, out)
    for c in range(count):
        row, factor = out[c], factors[chosen[c]]
        for k in range(row.shape[0]):
            row[k] = row[k] * (factor * factors[k]) + factor * factors[k]
        row[chosen[c]] = 1.0
        slots[chosen[c]] = n_kept + c
    return n_kept + count


@jit
def solve_by_rows(source, unit, g, u, rows, tol, share, most):
    """As ``solve`` for all points, with those rows of H that are needed, in ``rows``.

    Also ends where the relative gap of the L2-SVM is within ``tol``, which is looked at every 32
    steps, and where ``rows`` is full. g and u are in units of ``unit``. Returns the number of
    steps, whether H was found not to be positive semidefinite, and the number of rows.
    """
    constants, gains = np.empty(3, g.dtype), np.empty(LANES, g.dtype)
    constants[0], constants[1], constants[2] = 0.5, 1.0, _LEAST
    half, one, least = constants[0], constants[1], constants[2]
    at, slots = np.empty(LANES, np.int32), np.full(g.shape[0], -1, np.int64)
    chosen, n = np.empty(tiles.GROUP, np.int64), source.ridge.shape[0]
    alpha, margins = np.empty(n), np.empty(n)
    few = tiles.Few(
        np.empty((1, tiles.GROUP * source.rows.shape[1]), np.float32),
        np.empty(tiles.GROUP, np.float32),
    )
    d_i = d_j = one - one
    i, gain = _move(half, g, u, source.factors, source.factors, d_i, d_j, gains, at)
    steps, n_kept, enough = 0, 0, share * gain
    while gain > enough and steps < most:
        if steps % _LOOK == 0 and _relative_gap(source, unit, g, u, alpha, margins) <= tol:
            break
        if slots[i] < 0:
            if n_kept == rows.shape[0]:
                break
            n_kept = _load(source, gains, at, i, chosen, few, slots, rows, n_kept)
        row = rows[slots[i]]
        j = _partner(half, one, least, g, u, i, row, gains, at)
        if slots[j] < 0:
            if n_kept == rows.shape[0]:
                break
            n_kept = _load(source, gains, at, j, chosen, few, slots, rows, n_kept)
        if j == i:
            d_i, d_j = max(g[i], -u[i]), one - one
        else:
            if one - row[j] * row[j] < -_NEGATIVE:
                return steps, True, n_kept
            d_i, d_j = _steps_of(one, least, g[i], u[i], g[j], u[j], row[j])
            u[j] = u[j] + d_j if d_j > -u[j] else one - one
        u[i] = u[i] + d_i if d_i > -u[i] else one - one
        steps += 1
        i, gain = _move(half, g, u, row, rows[slots[j]], d_i, d_j, gains, at)
    return steps, False, n_kept
