"""The machines of one class against each that follows, at all costs, in one call."""

import numpy as np

from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.kernel._compiled.steps import (
    FINE,
    LANES,
    Pair,
    Variables,
    certificate,
    evaluate_point,
    solve,
    start_of_set,
)

FIELDS = 7  # of a pair at one cost: primal, bound, b, radius, below, above, steps
_SLACK = 0.95  # of tol: what steps see of the gap is rounded otherwise than its certificate
_CLOSE = 1e-2  # of the distance from an intercept: how wide the ends of the optimum's are
_STEPS = 1000  # for each point: a pair that needs more is solved alone
_FEW = 4.0  # roundings of a term of a sum, beside those of adding it


@inner
def _sums(values, beta, n, out):
    """``out = K beta`` of n points."""
    for k in range(n):
        out[k] = 0.0
    for j in range(n):
        factor = beta[j]
        if factor != 0.0:
            row = values[j]
            for k in range(n):
                out[k] += factor * row[k]


@inner
def _set_costs(of, diagonal, squares, costs, ratio, squared, n):
    """The dual of labels in ``of.target`` at these costs."""
    for k in range(n):
        cost, y = ratio * costs[k], of.target[k]
        bound = np.inf if squared else cost
        of.low[k], of.high[k] = (0.0, bound) if y > 0.0 else (-bound, 0.0)
        of.ridge[k] = 1.0 / cost if squared else 0.0
        diagonal[k] = squares[k] + of.ridge[k]


@inner
def _rescale(beta, of, n, factor):
    """Start from the point of other costs, whose bounds were lower by a factor."""
    at_bound = inside = 0
    for k in range(n):
        last = max(of.high[k], -of.low[k]) / factor
        at_bound += abs(beta[k]) >= last
        inside += 0.0 < abs(beta[k]) < last
    for k in range(n):
        bound = max(of.high[k], -of.low[k])
        if abs(beta[k]) >= bound / factor and at_bound > inside:
            beta[k] = np.copysign(bound, beta[k])
        elif at_bound > inside:
            beta[k] = factor * beta[k]


@inner
def _certify(values, of, s, beta, lengths, size, error, tol, steps, out):
    """The certificate of a pair."""
    space = np.empty((4, size))
    scores, errors, up, down = space[0], space[1], space[2], space[3]
    beta, reach = beta[:size], 0.0
    own = Variables(
        of.target[:size], of.low[:size], of.high[:size], of.width[:size], of.ridge[:size]
    )
    _sums(values, beta, size, scores)
    b = evaluate_point(beta, scores, own, s, 0.0, up, down)[3]
    for k in range(size):
        reach += abs(beta[k]) * lengths[k]
    unit = DOUBLE * (min(np.float64(size), 8.0 * np.sqrt(size)) + _FEW)
    for k in range(size):
        errors[k] = (error + unit) * reach * lengths[k]
    found = certificate(own, s, 0.0, 0.0, b, beta, scores, errors, lengths, unit, _CLOSE)
    out[0], out[1], out[2], out[3], out[4], out[5] = found
    out[6] = steps if found[0] - found[1] <= tol * found[0] or steps < 0 else -1.0 - steps


@jit
def solve_pairs(
    a, points, strip, own, starts, costs, lengths, ratios, squared, s, tol, error, coef, found
):
    """The machines of class a, as +1, and every class b > a, as -1, at ascending costs.

    Points are sorted by class; class c has those from ``starts[c]`` on. ``points`` has them, or
    only their k(x, x); then ``strip`` has the values of the points of later classes with those of
    class a, ``own`` those of each point with its class. All are off by the relative ``error``, or
    less. Costs are ``ratios[r] * costs``; ``squared`` says which hinge, and s is the prior variance
    of the intercept. ``coef[r]`` gets the coefficients as in SVC: that of a point of class i
    against class j in row j, or j - 1 if j > i; ``found[r, p]`` gets what ``FIELDS`` names. A pair
    that is not within ``tol`` has a negative number of steps.
    """
    first, m = starts[a], starts[a + 1] - starts[a]
    longest = np.int64(0)
    for b in range(a + 1, starts.shape[0] - 1):
        longest = max(longest, starts[b + 1] - starts[b])
    side = (m + longest + LANES) // LANES * LANES
    space, known = np.empty(side * side), np.empty(side, np.bool_)
    for b in range(a + 1, starts.shape[0] - 1):
        n = starts[b + 1] - starts[b]
        size = m + n
        side = (size + LANES) // LANES * LANES
        values = space[: side * side].reshape(side, side)
        pair = Pair(points, strip, own, known[:size], m, first, starts[b], size)
        for k in range(size):
            known[k] = False
        of, beta, g, diagonal = start_of_set(side)
        of_pair = np.empty((3, size))
        for k in range(size):
            i = first + k if k < m else starts[b] + k - m
            of.target[k] = 1.0 if k < m else -1.0
            of_pair[0, k], of_pair[1, k] = costs[i], lengths[i]
            of_pair[2, k] = points.squares[i]
        extra = size if s < np.inf else -1
        if extra >= 0:
            of.low[size], of.high[size], of.ridge[size], diagonal[size] = -np.inf, np.inf, s, s
        for r in range(ratios.shape[0]):
            _set_costs(of, diagonal, of_pair[2], of_pair[0], ratios[r], squared, size)
            if r > 0 and not squared:
                _rescale(beta, of, size, ratios[r] / ratios[r - 1])
            _sums(values, beta, size, g)
            total = 0.0
            for k in range(size):
                g[k] += of.ridge[k] * beta[k] - of.target[k]
                total += beta[k]
            if extra >= 0:
                beta[size] = -total
                g[size] = -s * total
            given = diagonal, g, of, beta, extra
            steps, indefinite = solve(
                values, pair, *given, 0.0, squared, 0.0, 0.0, _SLACK * tol, _STEPS * size, FINE
            )
            steps = -1 - steps if indefinite else steps
            solved = values, of, s, beta, of_pair[1], size, error, tol, steps
            _certify(*solved, found[r, b - a - 1])
            for k in range(m):
                coef[r, b - 1, first + k] = beta[k]
            for k in range(n):
                coef[r, a, starts[b] + k] = beta[m + k]
