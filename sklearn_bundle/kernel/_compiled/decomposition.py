"""Two-variable steps in the dual of the L2-SVM, with bounds but no equality.

Maximize ``g'd - d'Hd/2`` over ``d >= -u``, where H has a diagonal of ones: the variables are those
of the dual times the square roots of its diagonal. A block of points has its matrix in the working
precision. A small problem is one block, in float32: its rows are computed on demand and kept
between calls, since the same points with other costs start with them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, SINGLE
from sklearn_bundle.jit import exact_sums
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.lanes import (
    WIDTH,
    first_largest,
    load,
    splat,
    store,
    where_above,
    width_of,
)
from sklearn_bundle.jit.vector import fma, larger, minus, over, times
from sklearn_bundle.kernel._compiled import tiles
from sklearn_bundle.kernel._compiled.swap import CHECKED, INDEFINITE_SINGLE

LANES = WIDTH  # maxima side by side at most; blocks are padded to a multiple
LEAST = 1e-6  # determinants are taken to be this at least, which is rounding in float32


@inner
def _chosen(best, places, gains, at):
    """The variable that gains most, from the best of each lane; these are kept in arrays.

    Places are numbers of the working precision: float32 holds those up to 2^24.
    """
    store(gains, 0, best)
    store(at, 0, places)
    lane = first_largest(best)
    return np.int64(at[lane]) + lane, gains[lane]


@inner
def move(half, g, u, row_i, row_j, d_i, d_j, gains, at):
    """``g -= d_i H_i + d_j H_j``; then the variable that gains most alone, and its gain."""
    zero, of_half = splat(half - half), splat(half)
    by_i, by_j, best, places = splat(d_i), splat(d_j), zero, zero
    for s in range(0, g.shape[0], width_of(g)):
        moved = fma(load(row_i, s), by_i, times(load(row_j, s), by_j))
        slope = minus(load(g, s), moved)
        store(g, s, slope)
        d = larger(slope, minus(zero, load(u, s)))
        gain = times(d, minus(slope, times(of_half, d)))
        places = where_above(gain, best, splat(g.dtype.type(s)), places)
        best = where_above(gain, best, gain, best)
    return _chosen(best, places, gains, at)


@inner
def steps_of(one, least, g_i, u_i, g_j, u_j, h):
    """The best steps of two variables with the entry h between them: numbers, or vectors of them.

    j moves as is best with i free; where i then breaks its bound, it is at it, and j follows.
    """
    zero = minus(one, one)
    low_i, low_j = minus(zero, u_i), minus(zero, u_j)
    curvature = larger(minus(one, times(h, h)), least)
    d_j = larger(over(minus(g_j, times(h, g_i)), curvature), low_j)
    d_i = minus(g_i, times(h, d_j))
    at_bound = larger(minus(g_j, times(h, low_i)), low_j)
    return where_above(low_i, d_i, low_i, d_i), where_above(low_i, d_i, at_bound, d_j)


@inner
def partner(half, one, least, g, u, i, row, gains, at):
    """The variable with which i gains most."""
    g_i, u_i, of_half = splat(g[i]), splat(u[i]), splat(half)
    of_one, of_least, zero = splat(one), splat(least), splat(half - half)
    best, places = zero, zero
    for s in range(0, g.shape[0], width_of(g)):
        g_j, h = load(g, s), load(row, s)
        d_i, d_j = steps_of(of_one, of_least, g_i, u_i, g_j, load(u, s), h)
        alone = times(d_i, minus(g_i, times(of_half, d_i)))
        gain = fma(d_j, minus(minus(g_j, times(of_half, d_j)), times(h, d_i)), alone)
        places = where_above(gain, best, splat(g.dtype.type(s)), places)
        best = where_above(gain, best, gain, best)
    return _chosen(best, places, gains, at)[0]


@inner
def exchange(one, least, g, u, i, j, h):
    """Move i and j, or i alone if j is i, as is best; h is the entry between them.

    Returns the steps, which g does not know yet, and whether H is not positive semidefinite, which
    leaves everything as it is.
    """
    d_i, d_j = max(g[i], -u[i]), one - one
    if j != i:
        if one - h * h < -INDEFINITE_SINGLE:
            return d_i, d_j, True
        d_i, d_j = steps_of(one, least, g[i], u[i], g[j], u[j], h)
        u[j] = u[j] + d_j if d_j > -u[j] else one - one
    u[i] = u[i] + d_i if d_i > -u[i] else one - one
    return d_i, d_j, False


@jit
def solve(H, g, u, share, most):
    """Steps until none gains more than ``share`` of the first one, or ``most`` of them.

    g and u are changed in place. H is C-ordered, of a multiple of LANES rows, those of no variable
    with zeros beside the diagonal, in g and in u. Returns the number of steps, and whether H was
    found not to be positive semidefinite, which ends the steps.
    """
    constants, gains = np.empty(3, H.dtype), np.empty(LANES, H.dtype)
    constants[0], constants[1], constants[2] = 0.5, 1.0, LEAST
    half, one, least = constants[0], constants[1], constants[2]
    at = np.empty(LANES, H.dtype)
    d_i = d_j = one - one
    i, gain = move(half, g, u, H[0], H[0], d_i, d_j, gains, at)
    steps = 0
    enough = share * gain
    while gain > enough and steps < most:
        row = H[i]
        j = partner(half, one, least, g, u, i, row, gains, at)
        d_i, d_j, indefinite = exchange(one, least, g, u, i, j, row[j])
        if indefinite:
            return steps, True
        steps += 1
        i, gain = move(half, g, u, row, H[j], d_i, d_j, gains, at)
    return steps, False


class Source(NamedTuple):
    """What rows of H are computed from, in float32: points, and ``factors`` to both sides.

    ``ridge`` is what the diagonal of K has more than the kernel's and 1, ``costs`` are one over it,
    and ``roots`` those of the diagonal of K.
    """

    function: tiles.Function
    tiled: tiles.Tiled
    factors: NDArray[np.float32]
    ridge: NDArray[np.float64]
    costs: NDArray[np.float64]
    roots: NDArray[np.float64]


class Rows(NamedTuple):
    """Rows of H in ``values``, that of the point i in ``values[slots[i]]``, -1 where it is not."""

    values: NDArray[np.float32]
    slots: NDArray[np.int64]


class Outcome(NamedTuple):
    """What ``solve_whole`` returns: steps, number of rows, and whether H is not semidefinite.

    Objective and bound are those of alpha, which is at its best scale; ``error`` bounds the effect
    of the steps' rounding on a margin.
    """

    steps: int
    n_rows: int
    indefinite: bool
    primal: float
    bound: float
    error: float


class _Start(NamedTuple):
    """The start of the steps: alpha and slopes in float64, and the same as g and u in float32."""

    alpha: NDArray[np.float64]
    slopes: NDArray[np.float64]
    g: NDArray[np.float32]
    u: NDArray[np.float32]


@inner
def _restore(source, start, unit, g, u, alpha, margins):
    """alpha and its margins ``y_i f(x_i)`` from the changes of g and u."""
    ridge, roots = source.ridge, source.roots
    for i in range(ridge.shape[0]):
        change = unit * (np.float64(u[i]) - start.u[i]) / roots[i]
        alpha[i] = max(start.alpha[i] + change, 0.0) if u[i] > 0.0 else 0.0
        slope = start.slopes[i] + unit * (np.float64(g[i]) - start.g[i])
        margins[i] = 1.0 - slope * roots[i] - ridge[i] * alpha[i]


@inner
def _values(source, alpha, margins):
    """Objective and bound at the best scale of alpha, and that scale."""
    ridge, costs = source.ridge, source.costs
    total = square = diagonal = losses = 0.0
    for i in range(ridge.shape[0]):
        total += alpha[i]
        square += alpha[i] * margins[i]
        diagonal += alpha[i] * alpha[i] * ridge[i]
    value = square + diagonal
    if not value > 0.0:
        return np.inf, -np.inf, 1.0
    scale = total / value
    for i in range(ridge.shape[0]):
        slack = max(0.0, 1.0 - scale * margins[i])
        losses += slack * slack * costs[i]
    return 0.5 * (scale * scale * square + losses), 0.5 * scale * total, scale


@inner
def _rows_to_load(gains, at, slots, i, chosen):
    """i, and the best variables of other lanes that have no row; returns how many."""
    chosen[0] = i
    count = 1
    while count < chosen.shape[0]:
        best, lane = gains[0] - gains[0], -1
        for k in range(LANES):
            j = np.int64(at[k]) + k
            if gains[k] > best and slots[j] < 0 and j != i:
                best, lane = gains[k], k
        if lane < 0:
            break
        chosen[count] = np.int64(at[lane]) + lane
        gains[lane] = 0.0
        count += 1
    return count


@inner
def _load(source, gains, at, i, chosen, few, rows, n_rows):
    """Compute row i and others that may be needed soon; returns the new number of rows."""
    free = min(tiles.GROUP, rows.values.shape[0] - n_rows)
    count = _rows_to_load(gains, at, rows.slots, i, chosen[:free])
    out, factors = rows.values[n_rows : n_rows + count], source.factors
    tiles.fill_some(source.function, source.tiled, chosen[:count], few, out)
    for c in range(count):
        row, factor = out[c], factors[chosen[c]]
        for k in range(row.shape[0]):
            row[k] = row[k] * (factor * factors[k]) + factor * factors[k]
        row[chosen[c]] = 1.0
        rows.slots[chosen[c]] = n_rows + c
    return n_rows + count


@jit
def solve_whole(source, alpha, margins, rows, n_rows, tol, share, most):
    """Steps from alpha until the relative gap of the L2-SVM is within ``tol``.

    The gap is checked every 32 steps. Steps also end where none gains more than ``share`` of the
    first one, after ``most`` of them, and where ``rows`` is full. alpha and its margins are changed
    in place, and are at the best scale in the end. Returns the values of an :class:`Outcome`.
    """
    constants, gains = np.empty(3, np.float32), np.empty(LANES, np.float32)
    constants[0], constants[1], constants[2] = 0.5, 1.0, LEAST
    half, one, least = constants[0], constants[1], constants[2]
    factors, ridge, roots = source.factors, source.ridge, source.roots
    n, n_padded = ridge.shape[0], factors.shape[0]
    at, slots, values = np.empty(LANES, np.float32), rows.slots, rows.values
    chosen = np.empty(tiles.GROUP, np.int64)
    d = source.tiled.values.shape[1] // tiles.TILE
    few = tiles.Few(np.empty((1, tiles.GROUP * d), np.float32), np.empty(tiles.GROUP, np.float32))
    slopes, unit = np.empty(n), 0.0
    for k in range(n):
        slopes[k] = (1.0 - margins[k] - ridge[k] * alpha[k]) / roots[k]
        unit = max(unit, abs(slopes[k]))
    g, u = np.zeros(n_padded, np.float32), np.zeros(n_padded, np.float32)
    if unit > 0.0:
        for k in range(n):
            g[k], u[k] = slopes[k] / unit, alpha[k] * roots[k] / unit
    start = _Start(alpha.copy(), slopes, g.copy(), u.copy())
    d_i = d_j = one - one
    i, gain = move(half, g, u, factors, factors, d_i, d_j, gains, at)
    steps, path, indefinite, enough = 0, 0.0, False, share * gain
    while gain > enough and steps < most:
        if steps % CHECKED == 0:
            _restore(source, start, unit, g, u, alpha, margins)
            primal, bound, _ = _values(source, alpha, margins)
            if bound >= (1.0 - tol) * primal:
                break
        if slots[i] < 0:
            if n_rows == values.shape[0]:
                break
            n_rows = _load(source, gains, at, i, chosen, few, rows, n_rows)
        row = values[slots[i]]
        j = partner(half, one, least, g, u, i, row, gains, at)
        if slots[j] < 0:
            if n_rows == values.shape[0]:
                break
            n_rows = _load(source, gains, at, j, chosen, few, rows, n_rows)
        d_i, d_j, indefinite = exchange(one, least, g, u, i, j, row[j])
        if indefinite:
            break
        steps += 1
        path += abs(d_i) + abs(d_j)
        i, gain = move(half, g, u, row, values[slots[j]], d_i, d_j, gains, at)
    _restore(source, start, unit, g, u, alpha, margins)
    primal, bound, scale = _values(source, alpha, margins)
    largest = largest_u = 0.0
    for k in range(n):
        alpha[k] *= scale
        margins[k] *= scale
        largest, largest_u = max(largest, roots[k]), max(largest_u, np.float64(u[k]))
    # A step rounds g, which is at most 1 + path, two products with it, and u.
    error = SINGLE * (steps * (1.0 + path + 2.0 * (largest_u + path)) + 3.0 * path)
    return steps, n_rows, indefinite, primal, bound, scale * unit * largest * error


@jit
def rescale(rows, n_rows, factors, further):
    """Rows with ``factors`` become those with ``further``."""
    slots, values = rows.slots, rows.values
    ratios = np.ones(factors.shape[0], np.float32)
    for k in range(factors.shape[0]):
        if factors[k] != 0.0:
            ratios[k] = further[k] / factors[k]
    for i in range(slots.shape[0]):
        if 0 <= slots[i] < n_rows:
            row, ratio = values[slots[i]], ratios[i]
            for k in range(row.shape[0]):
                row[k] = row[k] * (ratio * ratios[k])
            row[i] = 1.0


@inner
def likely(d):
    """As ``roundoff.likely``."""
    return min(d, 8.0 * np.sqrt(d))


@jit
def certify(points, gamma, alpha, y, ridge, n_active, of_value):
    """Objective of alpha, its excess and the bound for "rbf", in float64 by differences.

    ``points`` are those that may have a loss or a weight, the first ``n_active`` of them the ones
    with a weight; alpha, y and ridge belong to them. ``of_value`` is the number of roundings of a
    kernel value. Excess and bound are as in :class:`~.l2svm.Certified`.
    """
    n = points.shape[0]
    sums = np.zeros((1, n))
    n_tiles = -(-n // exact_sums.TILE)
    coef = alpha[:n_active] * y[:n_active]
    exact_sums.added(points, gamma, coef.reshape(1, n_active), 0, n_tiles, sums)
    return certified(sums[0], alpha, y, ridge, n_active, of_value + of_sums(n, n_active))


@inner
def of_sums(n, n_active):
    """Roundings in the sums of ``n_active`` terms for n points, within tiles and over them."""
    n_tiles = -(-n // exact_sums.TILE)
    return likely(min(1.0 * n_active, 1.0 * exact_sums.SUMMED)) + likely(n_tiles + 1.0)


@inner
def certified(sums, alpha, y, ridge, n_active, roundings):
    """The certificate from ``sums``, scores without the constant, each with so many roundings.

    These are relative to the sum of alpha.
    """
    n = sums.shape[0]
    constant = size = 0.0
    for i in range(n_active):
        constant += alpha[i] * y[i]
        size += alpha[i]
    # Of the sums, of the constant, and of adding it.
    error = DOUBLE * (roundings + n_active + 4.0) * size
    square = diagonal = total = losses = highest = sizes = 0.0
    for i in range(n):
        margin = y[i] * (sums[i] + constant)
        slack = 1.0 - margin
        longest = slack + error + 4.0 * DOUBLE * (1.0 + abs(margin))
        losses += 0.5 * max(0.0, slack) ** 2 / ridge[i]
        highest += 0.5 * max(0.0, longest) ** 2 / ridge[i]
        square += alpha[i] * margin
        sizes += alpha[i] * abs(margin)
        diagonal += alpha[i] * alpha[i] * ridge[i]
        total += alpha[i]
    added = 2.0 * DOUBLE * (n + 8.0)  # relative error of these sums of terms of one sign
    rounding = size * error + added * (sizes + diagonal)
    primal = 0.5 * square + losses
    excess = 0.5 * rounding + (highest - losses) + added * (0.5 * sizes + highest)
    value = square + diagonal + rounding
    bound = (0.5 - added) * total * total / value if value > 0.0 else -np.inf
    return primal, excess, bound
