"""A small problem of dense points and "rbf" at each value of C, certified: one call of Python's.

With many pairs of classes, what Python does for a fit of 200 points takes as long as its steps or
longer. A call ends early where steps in single precision miss the tolerance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, SIX_DIGITS
from sklearn_bundle.jit import exact_sums
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.kernel._compiled import decomposition, tiles, working_set

_LAST = 4.0  # further roundings of a score: the last sums, and the product with a sign


class Points(NamedTuple):
    """The points ``chosen`` of all, as given and in float32, with their classes -1.0 and 1.0.

    In place of what is in float32 there may be the kernel values of all points, ``given``, and
    these may be in place of X too. What is not there is empty.
    ``weights`` are what C is multiplied with. ``norms`` and ``diagonal`` are of all points too;
    ``of_value`` is the number of roundings of a kernel value in float64, and no value in single
    precision is off by more than ``rounding``. No value is above ``largest``.
    """

    X: NDArray
    function: tiles.Function
    gamma: float
    values: NDArray[np.float32]
    given: NDArray[np.float32]
    norms: NDArray[np.float32]
    diagonal: NDArray[np.float64]
    chosen: NDArray[np.intp]
    y: NDArray[np.float64]
    weights: NDArray[np.float64]
    of_value: float
    rounding: float
    largest: float


class Limits(NamedTuple):
    """Relative gaps to reach, certified and in the steps, and the rounding that ends steps."""

    tol: float
    tol_of_steps: float
    rounding: np.float32
    most_steps: int


@inner
def _tiled(points):
    n, d = points.chosen.shape[0], points.values.shape[1]
    count = -(-n // tiles.TILE)
    norms = np.zeros(count * tiles.TILE, np.float32)
    values = np.empty((count, tiles.TILE * d), np.float32)
    tiled = tiles.Tiled(values, norms, points.given, points.chosen)
    if points.given.shape[0] == 0:
        for k in range(n):
            norms[k] = points.norms[points.chosen[k]]
        tiles.copy_to_tiles(points.values, points.chosen, tiled.values)
    return tiled


@inner
def _order(coef, near, order):
    """Points with a coefficient, then others that are near; the numbers of both."""
    n_active = 0
    for k in range(coef.shape[0]):
        if coef[k] != 0.0:
            order[n_active] = k
            n_active += 1
    count = n_active
    for k in range(coef.shape[0]):
        if near[k] and coef[k] == 0.0:
            order[count] = k
            count += 1
    return n_active, count


@inner
def _exact_sums(points, order, coef, features, places, sums):
    """``sums[r] = sum_c coef[c] k(x_r, x_c)`` over points in this order, the x_c the first.

    In float64. Returns the number of roundings of a sum, relative to that of the sizes of ``coef``.
    ``features`` and ``places`` are memory.
    """
    n, n_active = order.shape[0], coef.shape[0]
    sums[:] = 0.0
    if points.X.shape[0] > 0:
        for r in range(n):
            row = points.X[points.chosen[order[r]]]
            for k in range(row.shape[0]):
                features[r, k] = row[k]
        n_tiles = -(-n // exact_sums.TILE)
        of_all = coef.reshape(1, n_active), 0, n_tiles, sums.reshape(1, n)
        exact_sums.added(features[:n], points.gamma, *of_all)
        return points.of_value + decomposition.of_sums(n, n_active)
    for r in range(n):
        places[r] = points.chosen[order[r]]
    for c in range(n_active):
        row, factor = points.given[places[c]], coef[c]
        for r in range(n):
            sums[r] += factor * row[places[r]]
    return (decomposition.likely(1.0 * n_active) + _LAST) * points.largest


@inner
def _reached(primal, excess, bound, tol):
    """Whether the gap is within ``tol`` with the rounding of the objective on its side."""
    if not excess <= SIX_DIGITS * primal or not bound >= excess:
        return False
    return primal - (bound - excess) <= tol * primal


@jit
def squared_hinge(points, scales, limits, rounding_of_product, space, alphas, found):
    """The L2-SVM at each C of ``scales``, which ascend, by steps of ``solve_whole``.

    ``space`` is for kernel rows. A row of ``alphas`` becomes the solution, one of ``found`` its
    objective, excess and bound as in ``Certified``, steps and rows computed. Returns how many are
    within the tolerance.
    """
    chosen, y = points.chosen, points.y
    n, d = chosen.shape[0], points.X.shape[1]
    tiled = _tiled(points)
    width = tiled.norms.shape[0]
    rows = decomposition.Rows(space, np.full(width, -1, np.int64))
    n_rows, error = np.int64(0), 0.0
    rounding = points.rounding + 4.0 * rounding_of_product
    alpha, margins = np.zeros(n), np.zeros(n)
    last, order = np.zeros(width, np.float32), np.empty(n, np.int64)
    near, features = np.empty(n, np.bool_), np.empty((n, d))
    places, sums = np.empty(n, np.int64), np.empty(n)
    for c in range(scales.shape[0]):
        ridge, costs, roots = np.empty(n), np.empty(n), np.empty(n)
        factors = np.zeros(width, np.float32)
        for k in range(n):
            ridge[k] = 1.0 / (scales[c] * points.weights[k])
            costs[k] = 1.0 / ridge[k]
            roots[k] = np.sqrt(points.diagonal[chosen[k]] + 1.0 + ridge[k])
            factors[k] = y[k] / roots[k]
        if c > 0:
            decomposition.rescale(rows, n_rows, last, factors)
            rounding += 3.0 * rounding_of_product
        last = factors
        source = decomposition.Source(points.function, tiled, factors, ridge, costs, roots)
        before = n_rows
        steps, n_rows, indefinite, _, _, of_steps = decomposition.solve_whole(
            source,
            alpha,
            margins,
            rows,
            n_rows,
            limits.tol_of_steps,
            limits.rounding,
            limits.most_steps,
        )
        error += of_steps
        reach = 1.0 + error + rounding * alpha.sum()
        for k in range(n):
            near[k] = margins[k] <= reach
        n_active, count = _order(alpha, near, order)
        part, of_part = order[:count], sums[:count]
        coef = alpha[order[:n_active]] * y[order[:n_active]]
        roundings = _exact_sums(points, part, coef, features, places, of_part)
        of_alpha = alpha[part], y[part], ridge[part]
        primal, excess, bound = decomposition.certified(of_part, *of_alpha, n_active, roundings)
        if indefinite or not _reached(primal, excess, bound, limits.tol):
            return c
        for k in range(n):
            alphas[c, k] = alpha[k]
        found[c, 0], found[c, 1], found[c, 2] = primal, excess, bound
        found[c, 3], found[c, 4] = steps, n_rows - before
    return scales.shape[0]


class _Dual(NamedTuple):
    """Variables, their bounds, and about their scores without the intercept."""

    beta: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    scores: NDArray[np.float64]


@inner
def _enlarge(dual, ratio):
    """A multiple of beta for bounds that are ``ratio`` times as far; see ``scaled`` of the solver.

    Returns that multiple, and the sum of the sizes of what had to be cut off.
    """
    beta, low, high, scores = dual
    n_bounded, n_active, linear, square = 0, 0, 0.0, 0.0
    for k in range(beta.shape[0]):
        if beta[k] != 0.0:
            n_active += 1
            n_bounded += beta[k] == low[k] or beta[k] == high[k]
        linear += abs(beta[k])  # a beta has the sign of its target, 1 or -1
        square += beta[k] * scores[k]
    factor, keeps = ratio, 2 * n_bounded >= n_active
    if not keeps and square > 0.0:
        factor = min(ratio, linear / square)
    cut = 0.0
    for k in range(beta.shape[0]):
        at_low, at_high = keeps and beta[k] == low[k], keeps and beta[k] == high[k]
        low[k], high[k] = ratio * low[k], ratio * high[k]
        value = factor * beta[k]
        beta[k] = low[k] if at_low else high[k] if at_high else min(max(value, low[k]), high[k])
        cut += abs(beta[k] - value)
        scores[k] *= factor
    return factor, cut


@inner
def _middle(dual, y):
    """The intercept in the middle of the slopes upward and downward."""
    least, most = np.inf, -np.inf
    for k in range(y.shape[0]):
        g = dual.scores[k] - y[k]
        if dual.beta[k] < dual.high[k]:
            least = min(least, g)
        if dual.beta[k] > dual.low[k]:
            most = max(most, g)
    if least == np.inf or most == -np.inf:  # all at a bound of the same side
        return -most if least == np.inf else -least
    return -0.5 * (least + most)


@inner
def _intercept(scores, y, low, high):
    """The intercept that is best for these scores: between kinks of both classes, so not infinite.

    In the middle if there are more than one.
    """
    n, needed = y.shape[0], 0.0
    for k in range(n):
        needed += high[k]
    rounding = 4.0 * DOUBLE * (n + 1.0) * needed
    kinks = y - scores
    passed, first, last = 0.0, np.inf, np.inf
    for k in np.argsort(kinks):
        passed += high[k] - low[k]
        if passed >= needed - rounding and first == np.inf:
            first = kinks[k]
        if passed > needed + rounding:
            last = kinks[k]
            break
    return 0.5 * (first + last)


@inner
def _certified(beta, scores, y, low, high, error, b, longest):
    """Objective, excess and bound of variables at scores that may be off by ``error``.

    ``longest`` is the largest k(x, x). Sums are in order: each has as many roundings as terms.
    """
    n = beta.shape[0]
    added = 2.0 * DOUBLE * (n + 8.0)
    square = size = sizes = losses = slopes = linear = total = 0.0
    for k in range(n):
        square += beta[k] * scores[k]
        sizes += abs(beta[k] * scores[k])
        size += abs(beta[k])
        linear += y[k] * beta[k]
        total += beta[k]
        cost, slack = high[k] - low[k], 1.0 - y[k] * (scores[k] + b)
        reach = error + 4.0 * DOUBLE * (1.0 + abs(scores[k]) + abs(b))
        losses += cost * max(0.0, slack)
        slopes += cost * (max(0.0, slack + reach) - max(0.0, slack))
    of_square = size * error + added * sizes
    primal = 0.5 * square + losses
    excess = 0.5 * of_square + (1.0 + added) * slopes + added * (losses + sizes)
    bound = linear - 0.5 * (square + of_square) - added * (size + sizes)
    # beta leaves the hyperplane by rounding: worth the intercept of the optimum, a kink.
    missing = abs(total) + added * size
    farthest = 1.0 + 2.0 * np.sqrt(max(2.0 * (primal + excess), square + of_square, 0.0) * longest)
    return primal, excess, bound - missing * farthest


@jit
def hinge(points, scales, limits, space, betas, scores_of, errors_of, found):
    """The SVM with the hinge loss at each C of ``scales``, by steps of ``working_set.solve``.

    As :func:`squared_hinge`, with ``scores_of`` and ``errors_of``, of the shape of ``betas``:
    scores without the intercept, and bounds of their errors. The last of ``found`` is that.
    """
    chosen, y = points.chosen, points.y
    n, d = chosen.shape[0], points.X.shape[1]
    tiled, longest = _tiled(points), 0.0
    width = tiled.norms.shape[0]
    rows = working_set.Rows(space, np.full(width, -1, np.int64))
    source = working_set.Source(points.function, tiled)
    diagonal, n_rows = np.ones(width, np.float32), np.int64(0)
    padded, of_padded, highs = np.zeros(width), np.zeros(width), np.zeros(width)
    dual = _Dual(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    beta, low, high, scores = dual
    for k in range(n):
        diagonal[k] = points.diagonal[chosen[k]]
        longest = max(longest, points.diagonal[chosen[k]] + points.rounding)
        cost = scales[0] * points.weights[k]
        low[k], high[k] = min(0.0, y[k] * cost), max(0.0, y[k] * cost)
    order, near = np.empty(n, np.int64), np.empty(n, np.bool_)
    features, exact, error = np.empty((n, d)), np.empty(n), 0.0
    places, sums = np.empty(n, np.int64), np.empty(n)
    path = n_sums = of_sums = 0.0
    for c in range(scales.shape[0]):
        if c > 0:
            factor, cut = _enlarge(dual, scales[c] / scales[c - 1])
            path, error = factor * path, factor * error + cut * longest
            n_sums += 1.0
        b = _middle(dual, y)
        g, largest = np.zeros(width, np.float32), np.float32(0.0)
        lows, targets = np.zeros(width), np.zeros(width)
        for k in range(n):
            g[k] = scores[k] + b - y[k]
            largest = max(largest, abs(g[k]))
            padded[k], lows[k], highs[k], targets[k] = beta[k], low[k], high[k], y[k]
        before = n_rows
        steps, n_rows, indefinite = working_set.solve(
            source,
            rows,
            n_rows,
            diagonal,
            g,
            (lows, highs, targets[:n], 0.0, 0.0, b),
            padded,
            limits.rounding * largest,
            limits.tol_of_steps,
            limits.most_steps,
        )
        count = 0
        for k in range(n):
            if padded[k] != beta[k]:
                order[count] = rows.slots[k]
                of_padded[count] = padded[k] - beta[k]
                path += abs(of_padded[count])
                count += 1
            beta[k] = padded[k]
        working_set.add_rows(rows.values, order[:count], of_padded[:count], scores)
        n_sums += 1.0
        roundings = decomposition.likely(n_sums) + decomposition.likely(1.0 * n) + _LAST
        reach = error + path * (points.rounding + DOUBLE * roundings * longest)
        size = 0.0
        for k in range(n):
            size += abs(beta[k])
        b = _middle(dual, y)
        near[:] = False
        known = -1
        while True:
            n_active, count = _order(beta, near, order)
            for k in range(n):
                near[k] = near[k] or 1.0 - y[k] * (scores[k] + b) + reach > 0.0
            n_active, count = _order(beta, near, order)
            if count == known:
                break
            known, part = count, order[:count]
            of_part = sums[:count]
            of_sums = _exact_sums(points, part, beta[part[:n_active]], features, places, of_part)
            for k in range(n):  # about right at points without a loss: they limit the intercept
                exact[k] = scores[k]
            for r in range(count):
                exact[part[r]] = of_part[r]
            b = _intercept(exact, y, low, high)
        part = order[:count]
        of_exact = DOUBLE * (of_sums + _LAST) * size
        primal, excess, bound = _certified(
            beta[part], exact[part], y[part], low[part], high[part], of_exact, b, longest
        )
        if indefinite or not _reached(primal, excess, bound, limits.tol):
            return c
        for k in range(n):
            betas[c, k], scores_of[c, k], errors_of[c, k] = beta[k], exact[k], reach
        for k in part:
            errors_of[c, k] = of_exact
        found[c, 0], found[c, 1], found[c, 2] = primal, excess, bound
        found[c, 3], found[c, 4], found[c, 5] = steps, n_rows - before, b
    return scales.shape[0]
