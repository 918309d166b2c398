"""Two-variable steps for a box and one hyperplane, on the matrix of a working set.

Minimize ``1/2 d'Kd + g'd + width (|beta + d| - |beta|)`` over d with sum 0 and ``low <= beta + d <=
high``. Each step moves one variable up and another down by as much. The first is the one with the
smallest slope upward; the second gains most with it (Fan, Chen and Lin, 2005, Working set selection
using second order information, section 3). Where ``width`` is positive, 0 is a kink: a step ends
there, as at a bound.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.kernel._compiled.swap import INDEFINITE_SINGLE

MOST = 1024  # points of a set: their matrix, 4 MB in float32, is about what a core's cache holds
LANES = 32  # minima side by side; sets are padded to a multiple
_LEAST = 1e-6  # of the largest diagonal: a smaller curvature is rounding in float32
_COLUMNS = 2048  # scores that are updated at a time: 16 KB of sums stay in the first cache


@inner
def _slopes(value, low, high, width):
    """What slopes upward and downward have beside g: infinite at a bound."""
    up = np.inf if value >= high else (width if value >= 0.0 else -width)
    down = -np.inf if value <= low else (width if value > 0.0 else -width)
    return up, down


@inner
def _lane(values, sign):
    """The lane of the smallest value, or of the largest if ``sign`` is -1."""
    lane = 0
    for k in range(1, LANES):
        if sign * values[k] < sign * values[lane]:
            lane = k
    return lane


@inner
def _move(g, up, down, row_i, row_j, d, numbers, least, most, at):
    """``g += d (K_i - K_j)``; the variable of least slope upward, that slope, the largest downward.

    Places are kept in the dtype of g, as wide as what they are compared with.
    """
    zero, infinite, lanes = numbers[0], numbers[3], numbers[4]
    least[:], most[:], at[:] = infinite, -infinite, zero
    start = zero
    for s in range(0, g.shape[0], LANES):
        of_g, of_up, of_down = g[s : s + LANES], up[s : s + LANES], down[s : s + LANES]
        of_i, of_j = row_i[s : s + LANES], row_j[s : s + LANES]
        for k in range(LANES):
            slope = of_g[k] + d * (of_i[k] - of_j[k])
            of_g[k] = slope
            upward, downward = slope + of_up[k], slope + of_down[k]
            better = upward < least[k]
            least[k] = upward if better else least[k]
            at[k] = start if better else at[k]
            most[k] = max(most[k], downward)
        start += lanes
    lane = _lane(least, 1)
    return int(at[lane]) + lane, least[lane], most[_lane(most, -1)]


@inner
def _partner(g, down, diagonal, row, of_i, slope, numbers, gains, at):
    """The variable that gains most by moving down while i moves up."""
    zero, two, smallest, lanes = numbers[0], numbers[1], numbers[2], numbers[4]
    gains[:], at[:] = zero, zero
    start = zero
    for s in range(0, g.shape[0], LANES):
        of_g, of_down = g[s : s + LANES], down[s : s + LANES]
        of_row, of_diagonal = row[s : s + LANES], diagonal[s : s + LANES]
        for k in range(LANES):
            violation = max(of_g[k] + of_down[k] - slope, zero)
            curvature = max(of_diagonal[k] + of_i - two * of_row[k], smallest)
            gain = violation * violation / curvature
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = start if better else at[k]
        start += lanes
    lane = _lane(gains, -1)
    return int(at[lane]) + lane


@jit
def solve(K, diagonal, g, beta, low, high, width, enough, most_steps):
    """Steps until no two slopes differ by more than ``enough``, or ``most_steps`` of them.

    K, its diagonal and g are in the working precision, of a multiple of 32 rows; variables of the
    padding are 0 and stay there. beta is changed in place, and is exact at its bounds and at 0.
    Returns the number of steps, and whether K was found not to be positive semidefinite.
    """
    up, down = np.empty(g.shape[0], g.dtype), np.empty(g.shape[0], g.dtype)
    for k in range(g.shape[0]):
        up[k], down[k] = _slopes(beta[k], low[k], high[k], width)
    numbers = np.empty(6, g.dtype)
    largest = diagonal.max()
    numbers[0], numbers[1], numbers[2] = 0.0, 2.0, _LEAST * largest
    numbers[3], numbers[4], numbers[5] = np.inf, LANES, 0.0
    least, most, at = np.empty(LANES, g.dtype), np.empty(LANES, g.dtype), np.empty(LANES, g.dtype)
    i = j = steps = 0
    while True:
        i, slope, highest = _move(g, up, down, K[i], K[j], numbers[5], numbers, least, most, at)
        if not highest - slope > enough or steps >= most_steps:
            return steps, False
        j = _partner(g, down, diagonal, K[i], diagonal[i], slope, numbers, least, at)
        curvature = diagonal[i] + diagonal[j] - numbers[1] * K[i, j]
        if curvature < -INDEFINITE_SINGLE * largest:
            return steps, True
        step = np.float64((g[j] + down[j] - slope) / max(curvature, numbers[2]))
        top = 0.0 if width > 0.0 and beta[i] < 0.0 else high[i]
        bottom = 0.0 if width > 0.0 and beta[j] > 0.0 else low[j]
        step = min(step, top - beta[i], beta[j] - bottom)
        beta[i] = top if step == top - beta[i] else beta[i] + step
        beta[j] = bottom if step == beta[j] - bottom else beta[j] - step
        up[i], down[i] = _slopes(beta[i], low[i], high[i], width)
        up[j], down[j] = _slopes(beta[j], low[j], high[j], width)
        numbers[5] = step
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
