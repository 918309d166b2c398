"""Two-variable steps for a box and one hyperplane, on the matrix of a working set.

Minimize ``1/2 d'Kd + g'd + width (|beta + d| - |beta|)`` over d with sum 0 and ``low <= beta + d <=
high``. Each step moves one variable up and another down by as much. The first is the one with the
smallest slope upward; the second gains most with it (Fan, Chen and Lin, 2005, Working set selection
using second order information, section 3). Where ``width`` is positive, 0 is a kink: a step ends
there, as at a bound.
"""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.lanes import (
    entry,
    first_largest,
    load,
    splat,
    store,
    where_above,
    width_of,
)
from sklearn_bundle.jit.vector import fma, larger, minus, over, plus, times
from sklearn_bundle.kernel._compiled import tiles
from sklearn_bundle.kernel._compiled.swap import CHECKED, INDEFINITE_SINGLE

MOST = 1024  # points of a set: their matrix, 4 MB in float32, is about what a core's cache holds
LANES = 64  # sets are padded to a multiple, as tiles are
_LEAST = 1e-6  # of the largest diagonal: a smaller curvature is rounding in float32
_COLUMNS = 2048  # scores that are updated at a time: 16 KB of sums stay in the first cache


@inner
def _slopes(value, low, high, width):
    """What slopes upward and downward have beside g: infinite at a bound."""
    up = np.inf if value >= high else (width if value >= 0.0 else -width)
    down = -np.inf if value <= low else (width if value > 0.0 else -width)
    return up, down


@inner
def _move(g, up, down, row_i, row_j, d, numbers):
    """``g += d (K_i - K_j)``; the variable of least slope upward, it, and the largest downward."""
    zero, by = splat(numbers[0]), splat(d)
    least = most = splat(-numbers[3])
    places = zero
    for s in range(0, g.shape[0], width_of(g)):
        slope = fma(by, minus(load(row_i, s), load(row_j, s)), load(g, s))
        store(g, s, slope)
        upward = minus(zero, plus(slope, load(up, s)))
        places = where_above(upward, least, splat(g.dtype.type(s)), places)
        least = where_above(upward, least, upward, least)
        most = larger(plus(slope, load(down, s)), most)
    lane = first_largest(least)
    i = np.int64(entry(places, lane)) + lane
    return i, -entry(least, lane), entry(most, first_largest(most))


@inner
def _partner(g, down, diagonal, row, of_i, slope, numbers):
    """The variable that gains most by moving down while i moves up, and its gain."""
    zero, two, smallest = splat(numbers[0]), splat(numbers[1]), splat(numbers[2])
    of_slope, length, best, places = splat(slope), splat(of_i), zero, zero
    for s in range(0, g.shape[0], width_of(g)):
        violation = minus(plus(load(g, s), load(down, s)), of_slope)
        violation = where_above(violation, zero, violation, zero)
        curvature = minus(plus(load(diagonal, s), length), times(two, load(row, s)))
        gain = over(times(violation, violation), larger(curvature, smallest))
        places = where_above(gain, best, splat(g.dtype.type(s)), places)
        best = where_above(gain, best, gain, best)
    lane = first_largest(best)
    return np.int64(entry(places, lane)) + lane, entry(best, lane)


class Source(NamedTuple):
    """What kernel rows are computed from, in float32."""

    function: tiles.Function
    tiled: tiles.Tiled


class Rows(NamedTuple):
    """Rows of K in ``values``, that of the variable i in ``values[slots[i]]``; -1: not there."""

    values: np.ndarray
    slots: np.ndarray


@inner
def _load(source, rows, n_rows, i, g, beside, sign, few, chosen):
    """Compute row i and up to three of those that violate most and have none: maybe needed soon."""
    free = min(tiles.GROUP, rows.values.shape[0] - n_rows)
    count = 0
    while i >= 0 and count < free:
        chosen[count], rows.slots[i] = i, n_rows + count
        count += 1
        worst, i = -np.inf, -1
        for k in range(g.shape[0]):
            if rows.slots[k] < 0 and sign * (g[k] + beside[k]) > worst:
                worst, i = sign * (g[k] + beside[k]), k
    out = rows.values[n_rows : n_rows + count]
    tiles.fill_some(source.function, source.tiled, chosen[:count], few, out)
    return n_rows + count


@inner
def _values(g, beta, low, high, target, width, total, b, shift):
    """Objective at the intercept ``b + shift`` and dual objective; g has the intercept b."""
    square = linear = losses = 0.0
    for k in range(target.shape[0]):
        value, left = beta[k], -(np.float64(g[k]) + shift)
        square += value * (np.float64(g[k]) + target[k] - b)
        linear += target[k] * value - width * abs(value)
        losses += high[k] * max(left - width, 0.0) - low[k] * max(-left - width, 0.0)
    return 0.5 * square + losses + total * (b + shift), linear - 0.5 * square


@jit
def solve(source, rows, n_rows, diagonal, g, problem, beta, enough, tol, most_steps):
    """Steps until no two slopes differ by more than ``enough``, or ``most_steps`` of them.

    K, its diagonal and g are in the working precision, of a multiple of 64 columns; variables of
    the padding are 0 and stay there. beta is changed in place, and is exact at its bounds and at 0.
    ``problem`` is ``low, high, target, width, total, b``, b the intercept that g has. With a source
    rows are computed on demand as long as there is space, and steps end at the relative gap
    ``tol``, which is looked at every 32 of them.
    Returns the number of steps, that of rows, and whether K is not positive semidefinite.
    """
    low, high, target, width, total, b = problem
    up, down = np.empty(g.shape[0], g.dtype), np.empty(g.shape[0], g.dtype)
    for k in range(g.shape[0]):
        up[k], down[k] = _slopes(beta[k], low[k], high[k], width)
    numbers = np.empty(5, g.dtype)
    largest = diagonal[0]
    for k in range(1, diagonal.shape[0]):
        largest = max(largest, diagonal[k])
    numbers[0], numbers[1], numbers[2] = 0.0, 2.0, _LEAST * largest
    numbers[3], numbers[4] = np.inf, 0.0
    chosen = np.empty(tiles.GROUP, np.int64)
    few = tiles.Few(np.empty((1, 1), np.float32), np.empty(tiles.GROUP, np.float32))
    if source is not None:
        d = source.tiled.values.shape[1] // tiles.TILE
        few = tiles.Few(np.empty((1, tiles.GROUP * d), np.float32), few.norms)
    row_i = row_j = rows.values[0] if n_rows > 0 else g  # with a step of 0 they do not count
    steps = 0
    while True:
        i, slope, highest = _move(g, up, down, row_i, row_j, numbers[4], numbers)
        if not highest - slope > enough or steps >= most_steps:
            return steps, n_rows, False
        if source is not None:
            if steps % CHECKED == 0:
                shift = -0.5 * (np.float64(slope) + highest)
                primal, dual = _values(g, beta, low, high, target, width, total, b, shift)
                if primal - dual <= tol * abs(primal):
                    return steps, n_rows, False
            if rows.slots[i] < 0:
                if n_rows == rows.values.shape[0]:
                    return steps, n_rows, False
                n_rows = _load(source, rows, n_rows, i, g, up, -1, few, chosen)
        row_i = rows.values[rows.slots[i]]
        j, gain = _partner(g, down, diagonal, row_i, diagonal[i], slope, numbers)
        if not gain > 0.0:  # it underflows
            return steps, n_rows, False
        if source is not None and rows.slots[j] < 0:
            if n_rows == rows.values.shape[0]:
                return steps, n_rows, False
            n_rows = _load(source, rows, n_rows, j, g, down, 1, few, chosen)
        row_j = rows.values[rows.slots[j]]
        curvature = diagonal[i] + diagonal[j] - numbers[1] * row_i[j]
        if curvature < -INDEFINITE_SINGLE * largest:
            return steps, n_rows, True
        step = np.float64((g[j] + down[j] - slope) / max(curvature, numbers[2]))
        top = 0.0 if width > 0.0 and beta[i] < 0.0 else high[i]
        bottom = 0.0 if width > 0.0 and beta[j] > 0.0 else low[j]
        step = min(step, top - beta[i], beta[j] - bottom)
        beta[i] = top if step == top - beta[i] else beta[i] + step
        beta[j] = bottom if step == beta[j] - bottom else beta[j] - step
        up[i], down[i] = _slopes(beta[i], low[i], high[i], width)
        up[j], down[j] = _slopes(beta[j], low[j], high[j], width)
        numbers[4] = step
        steps += 1


@jit
def slopes(g, beta, low, high, width, up, down):
    """Slopes of all variables upward and downward, infinite at a bound."""
    for i in range(g.shape[0]):
        above, below = _slopes(beta[i], low[i], high[i], width)
        up[i], down[i] = g[i] + above, g[i] + below


@jit
def add_rows(rows, slots, change, scores):
    """``scores += sum_c change_c rows[slots_c]``, added in float64."""
    sums = np.empty(_COLUMNS)
    for start in range(0, scores.shape[0], _COLUMNS):
        of_scores = scores[start : start + _COLUMNS]
        sums[:] = 0.0
        for c in range(slots.shape[0]):
            row, factor = rows[slots[c], start : start + _COLUMNS], change[c]
            for k in range(of_scores.shape[0]):
                sums[k] += factor * row[k]
        for k in range(of_scores.shape[0]):
            of_scores[k] += sums[k]


@jit
def gather(rows, slots, chosen, out):
    """``out[a, c] = rows[slots_a, chosen_c]``, zero in what ``out`` has more."""
    n = chosen.shape[0]
    for a in range(n):
        row, of_out = rows[slots[a]], out[a]
        for c in range(n):
            of_out[c] = row[chosen[c]]
        of_out[n:] = 0.0
    out[n:] = 0.0
