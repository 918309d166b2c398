"""Steps in two variables of the dual of any kernel machine, and the certificate of a point.

Minimize ``1/2 b'(K + diag(ridge)) b - target'b + width'|b|`` with ``low <= b <= high`` and a given
sum of b. A step moves one variable up and another down by as much: the one of least slope upward,
and the one that gains most with it (Fan, Chen and Lin, 2005, section 3). Where ``width`` is
positive, 0 is a kink: a step ends there, as at a bound.

An intercept that is penalized, or absent, is one more variable, ``extra``: its row of K is 0, its
ridge 1 or 0, and it takes up what the sum of the others changes.
"""

import numpy as np

from sklearn_bundle.core.limits import SIX_DIGITS
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.vector import entry, first_largest, larger, load, splat, store, where_above
from sklearn_bundle.kernel._compiled.pair_rows import LANES, fill

CHECKED, _AT_FIRST = 32, 8  # steps between two looks at the gap, later and up to the first 32
# Of the sum of two diagonal entries, in float32: a curvature below the first is rounding, and one
# below minus the second is not.
ROUGH, _INDEFINITE = 1e-6, 1e-4
FEW = 8.0  # roundings of a term of a sum, beside those of adding it
FINE = 1e-14  # the same as the first in float64
_COLUMNS = 2048  # scores that are updated at a time: 16 KB of sums stay in the first cache
_BISECTIONS = 12  # of the interval of intercepts that the slopes leave
CLOSE = 1e-14  # of the distance from an intercept: how wide the ends of the best ones are
_HALVINGS = 300  # of an interval of intercepts, and steps to find it: usually 15


# What a dual says of its variables: the rows of an array, which costs less than a tuple of arrays,
# whose references numba counts.
TARGET, LOW, HIGH, WIDTH, RIDGE = 0, 1, 2, 3, 4


@inner
def _slopes(of, k, value):
    """What slopes upward and downward have beside g: infinite at a bound."""
    width = of[WIDTH, k]
    up = np.inf if value >= of[HIGH, k] else (width if value >= 0.0 else -width)
    down = -np.inf if value <= of[LOW, k] else (width if value > 0.0 else -width)
    return up, down


@inner
def _move(g, up, down, K, row_i, row_j, d, numbers):
    """``g += d (K_i - K_j)``; the variable of least slope upward, it, and the largest downward."""
    zero, least = numbers[0], splat(-numbers[3])
    places, most = splat(zero), least
    for s in range(0, g.shape[0], 4 * LANES // g.itemsize):
        slope = d * (load(K, row_i + s) - load(K, row_j + s)) + load(g, s)
        store(g, s, slope)
        upward = zero - (slope + load(up, s))
        places = where_above(upward, least, g.dtype.type(s), places)
        least = larger(upward, least)
        most = larger(slope + load(down, s), most)
    lane = first_largest(least)
    i = np.int64(entry(places, lane)) + lane
    return i, -entry(least, lane), entry(most, first_largest(most))


@inner
def _partner(g, down, diagonal, K, row, of_i, slope, numbers):
    """The variable that gains most by moving down while i moves up, and its gain."""
    zero, two, rough = numbers[0], numbers[1], numbers[2]
    best = places = splat(zero)
    for s in range(0, g.shape[0], 4 * LANES // g.itemsize):
        violation = load(g, s) + load(down, s) - slope
        violation = larger(violation, zero)
        both = load(diagonal, s) + of_i
        curvature = larger(both - two * load(K, row + s), rough * both)
        gain = violation * violation / curvature
        places = where_above(gain, best, g.dtype.type(s), places)
        best = larger(gain, best)
    lane = first_largest(best)
    return np.int64(entry(places, lane)) + lane, entry(best, lane)


@inner
def _loss(of, k, left):
    """The loss of a residual: ``max over b in the box of b left - width |b| - ridge/2 b^2``."""
    low, high, width, ridge = of[LOW, k], of[HIGH, k], of[WIDTH, k], of[RIDGE, k]
    above = max(left - width, 0.0) if high > 0.0 else 0.0
    below = max(-left - width, 0.0) if low < 0.0 else 0.0
    if ridge > 0.0:
        return 0.5 * (above * above + below * below) / ridge
    return (high * above if above > 0.0 else 0.0) - (low * below if below > 0.0 else 0.0)


@inner
def values_at(g, beta, of, n, b, shift, of_sum, scales):
    """Objective at the intercept ``b + shift`` and bound, at the best scale if ``scales``.

    g has the intercept b; ``of_sum`` is what the objective has of the intercept alone, and what the
    dual has of the sum of the first n variables, which are those of the points.
    """
    square, curved, linear, losses = 0.0, of_sum, 0.0, 0.0
    for k in range(n):
        value = beta[k]
        score = np.float64(g[k]) + of[TARGET, k] - b - of[RIDGE, k] * value
        square += value * score
        curved += value * (score + of[RIDGE, k] * value)
        linear += of[TARGET, k] * value - of[WIDTH, k] * abs(value)
    t = linear / curved if scales and min(linear, curved) > 0.0 else 1.0
    for k in range(n):
        score = np.float64(g[k]) + of[TARGET, k] - b - of[RIDGE, k] * beta[k]
        left = of[TARGET, k] - t * (score + b + shift)
        losses += _loss(of, k, left)
    primal = 0.5 * t * t * (square + of_sum) + losses
    return primal, t * (linear - 0.5 * t * curved), t


@inner
def _step_to(i, value, of, beta, up, down):
    """Set variable i, and what its slopes have beside g."""
    beta[i] = value
    up[i], down[i] = _slopes(of, i, value)


@jit
def solve(
    values, pair, diagonal, g, of, beta, extra, b, scales, total, enough, tol, most, rough, space
):
    """Steps until no two slopes differ by more than ``enough``, or ``most`` of them.

    ``values[i]`` is row i of K, and 0 for ``extra`` and the last; with a ``pair`` it is filled
    when it is needed, and the last row but one is space. g, the diagonal with the ridge, K and the
    three rows of ``space``, whose entries don't matter, are in the working precision, of a multiple
    of 16 columns. beta is changed in place, and is exact at its bounds and at 0. g has the
    intercept b. Steps end at the relative gap ``tol`` if that is positive. A curvature below
    ``rough`` times its terms is rounding.
    Returns the number of steps, and whether K is not positive semidefinite.
    """
    n = g.shape[0]
    up, down, numbers = space[0], space[1], space[2]
    for k in range(n):
        up[k], down[k] = _slopes(of, k, beta[k])
    # Of the type of g.
    numbers[0], numbers[1], numbers[2], numbers[3] = 0.0, 2.0, rough, np.inf
    K, row_i, row_j, last = values.reshape(n * n), (n - 1) * n, (n - 1) * n, numbers[0]
    n_points = n if extra < 0 else extra
    steps = np.int64(0)
    while True:
        i, slope, highest = _move(g, up, down, K, row_i, row_j, last, numbers)
        if not highest - slope > enough or steps >= most:
            return steps, False
        if tol > 0.0 and steps % (CHECKED if steps > CHECKED else _AT_FIRST) == 0:
            shift, of_sum = -0.5 * (np.float64(slope) + highest), 0.0
            if extra >= 0:
                shift = -b - of[RIDGE, extra] * beta[extra]
                of_sum = of[RIDGE, extra] * beta[extra] ** 2
            primal, bound, _ = values_at(g, beta, of, n_points, b, shift, of_sum, scales)
            primal += total * (b + shift)
            if primal - bound <= tol * abs(primal):
                return steps, False
        level = 0.5 * (slope + highest)
        if pair is not None and not pair.known[i]:
            fill(pair, pair.points, values, g, i, level)
        row_i = i * n
        j, gain = _partner(g, down, diagonal, K, row_i, diagonal[i], slope, numbers)
        if not gain > 0.0:  # it underflows
            return steps, False
        if pair is not None and not pair.known[j]:
            fill(pair, pair.points, values, g, j, level)
        row_j = j * n
        both = diagonal[i] + diagonal[j]
        curvature = both - numbers[1] * K[row_i + j]
        if curvature < -_INDEFINITE * both:
            return steps, True
        step = np.float64((g[j] + down[j] - slope) / max(curvature, numbers[2] * both))
        top = 0.0 if of[WIDTH, i] > 0.0 and beta[i] < 0.0 else of[HIGH, i]
        bottom = 0.0 if of[WIDTH, j] > 0.0 and beta[j] > 0.0 else of[LOW, j]
        step = min(step, top - beta[i], beta[j] - bottom)
        _step_to(i, top if step == top - beta[i] else beta[i] + step, of, beta, up, down)
        _step_to(j, bottom if step == beta[j] - bottom else beta[j] - step, of, beta, up, down)
        g[i] += step * of[RIDGE, i]
        g[j] -= step * of[RIDGE, j]
        last = g.dtype.type(step)
        steps += 1


# ---- objective and bound -------------------------------------------------------------------------


@inner
def _slope_in_b(b, of, total, scores, reach, sign, unit):
    """The derivative in b of the losses and ``total b``, at scores that are off by ``sign reach``.

    Also what its rounding may be: ``unit`` times the sizes of its terms.
    """
    slope, size = total, abs(total)
    for k in range(scores.shape[0]):
        left = of[TARGET, k] - (scores[k] + sign * reach[k]) - b
        width, ridge, above, below = of[WIDTH, k], of[RIDGE, k], of[HIGH, k], of[LOW, k]
        is_above, is_below = (left > width) & (above > 0.0), (left < -width) & (below < 0.0)
        if ridge > 0.0:
            above, below = (left - width) / ridge, (left + width) / ridge
        term = above if is_above else (below if is_below else 0.0)  # no jumps, which none foresees
        slope -= term
        size += abs(term)
    return slope, unit * size


@inner
def _better_b(low, high, of, total, scores):
    """An intercept between these where the slope changes its sign, if it does."""
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        slope, _ = _slope_in_b(middle, of, total, scores, scores, 0.0, 0.0)
        if slope < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@jit
def evaluate(beta, scores, of, s, total, up, down):
    """The best scale of beta, by which beta and its scores are multiplied, and what follows.

    ``s`` is the prior variance of the intercept, infinite for one that is free. Slopes up and down
    are written. Returns the scale, objective and bound, the intercept, and the largest difference
    of slopes.
    """
    n = beta.shape[0]
    square = curved = linear = size = losses = 0.0
    for k in range(n):
        square += beta[k] * scores[k]
        curved += beta[k] * (scores[k] + of[RIDGE, k] * beta[k])
        linear += of[TARGET, k] * beta[k] - of[WIDTH, k] * abs(beta[k])
        size += beta[k]
    if s < np.inf:
        curved += s * size * size
    is_squared = of[RIDGE, 0] > 0.0 and total == 0.0
    t = linear / curved if is_squared and min(linear, curved) > 0.0 else 1.0  # else it is rounding
    least, most = np.inf, -np.inf
    for k in range(n):
        beta[k] *= t
        scores[k] *= t
        g = scores[k] + of[RIDGE, k] * beta[k] - of[TARGET, k]
        above, below = _slopes(of, k, beta[k])
        up[k], down[k] = g + above, g + below
        least, most = min(least, up[k]), max(most, down[k])
    if s < np.inf:
        b = t * s * size
        least, most = min(least, -b), max(most, -b)
    elif least == np.inf or most == -np.inf:
        b = -most if least == np.inf else -least
    elif most <= least:  # no slope is left: all between are best
        b = -0.5 * (least + most)
    else:
        b = _better_b(-most, -least, of, total, scores)
    for k in range(n):
        losses += _loss(of, k, of[TARGET, k] - scores[k] - b)
    of_b = total * b if s == np.inf else (0.5 * b * b / s if s > 0.0 else 0.0)
    primal = 0.5 * t * t * square + losses + of_b
    return t, primal, t * (linear - 0.5 * t * curved), b, most - least


# ---- certificates --------------------------------------------------------------------------------


@inner
def _end_of_b(of, total, scores, reach, unit, b, step, close, upper):
    """No more than the least b that is best or, ``upper``, no less than the largest.

    Scores may be higher, or ``upper`` lower, by ``reach``. Infinite if there is none. It is sought
    from ``b`` on, at first so far, to a share ``close`` of its distance. Where rounding may hide
    the sign of the slope it moves outward.
    """
    low, high, bracketed, away, sign = b, b, 0, 0.0, -1.0 if upper else 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high) if bracketed == 3 else b + away
        slope, off = _slope_in_b(middle, of, total, scores, reach, sign, unit)
        if slope <= off if upper else slope < -off:
            low, bracketed = middle, bracketed | 1
        else:
            high, bracketed = middle, bracketed | 2
        if bracketed == 3 and high - low <= close * max(abs(low - b), abs(high - b)):
            break
        if bracketed != 3:
            away = step if bracketed == 1 else -step
            step *= 4.0
    if bracketed != 3:
        return np.inf if upper else -np.inf
    return high if upper else low


@jit
def certify(of, s, total, least, b, beta, scores, errors, lengths, unit, close, reach):
    """Objective and bound of beta with an intercept b, and how far the optimum's may be from it.

    An intercept that is not free is the one of beta.
    Scores ``K beta`` are off by no more than ``errors``, and sums by ``unit`` times the sizes of
    their terms; ``lengths`` are at least sqrt(k(x, x)), and no objective is below ``least``. What
    rounding may have done is taken off the bound as far as there is one, and added to the
    objective. A model off the hyperplane by rounding costs what the optimum's intercept may be.
    ``reach`` is overwritten.

    Returns objective, bound, intercept, the radius in which w of the optimum lies, and by how much
    its intercept may be lower and higher.
    """
    n = beta.shape[0]
    square = error = size = sizes = losses = most = linear = terms = curved = longest = 0.0
    for k in range(n):
        size += beta[k]
        sizes += abs(beta[k])
        longest = max(longest, lengths[k])
    step = unit * (1.0 + abs(b))
    b = b if s == np.inf else s * size
    inside = True
    for k in range(n):
        value, score, a = beta[k], scores[k], abs(beta[k])
        square += value * score
        error += a * (errors[k] + unit * abs(score))
        linear += of[TARGET, k] * value - of[WIDTH, k] * a
        terms += (abs(of[TARGET, k]) + of[WIDTH, k]) * a
        curved += of[RIDGE, k] * value * value
        inside = inside and of[LOW, k] <= value <= of[HIGH, k]
        left = of[TARGET, k] - score - b
        off = errors[k] + unit * (abs(of[TARGET, k]) + abs(score) + abs(b))
        losses += _loss(of, k, left)
        above = _loss(of, k, left + off)
        below = _loss(of, k, left - off)
        most += max(above, below)
    of_b = total * b if s == np.inf else (0.5 * b * b / s if s > 0.0 else 0.0)
    primal = 0.5 * square + losses + of_b
    excess = 0.5 * error + (most - losses) + unit * (most + abs(of_b))
    linear -= unit * terms
    curved = (1.0 + unit) * curved + square + error
    bound = linear - 0.5 * curved
    if s < np.inf:
        size = abs(size) + unit * sizes  # it may cancel
        curved += (1.0 + unit) * s * size * size
        bound = (0.5 - unit) * linear * linear / curved if linear > 0.0 and curved > 0.0 else 0.0
    else:
        missing = abs(total - size)
        length = np.sqrt(max(2.0 * (primal + excess - least), curved, 0.0))
        farthest = 0.0
        for k in range(n):
            farthest = max(farthest, abs(of[TARGET, k]) + of[WIDTH, k])
        bound -= missing * (farthest + 2.0 * length * longest)
    if square < -error:  # no matrix of a kernel
        return primal, -np.inf, b, np.inf, np.inf, np.inf
    bound = max(bound, least) if inside else least
    if least == 0.0 and excess > SIX_DIGITS * abs(primal):
        primal += excess
    else:
        primal, bound = primal + max(excess - (bound - least), 0.0), max(bound - excess, least)
    bound = min(bound, primal)
    radius = np.sqrt(2.0 * (primal - bound)) * (1.0 + unit)
    if s < np.inf:
        return primal, bound, b, radius, 0.0, 0.0
    for k in range(n):
        off = errors[k] + unit * (abs(of[TARGET, k]) + abs(scores[k]) + abs(b))
        reach[k] = radius * lengths[k] + off
        step = max(step, reach[k])
    low = high = b
    for upper in (False, True):  # a loop is compiled once
        low, high = high, _end_of_b(of, total, scores, reach, unit, b, step, close, upper)
    return primal, bound, b, radius, b - low, high - b


# ---- sums of rows --------------------------------------------------------------------------------


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
