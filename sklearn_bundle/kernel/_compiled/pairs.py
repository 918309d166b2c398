"""The machines of some classes against each that follows, at all costs, in one call."""

import numpy as np

from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.jit.decorators import SUMS, inner, jit
from sklearn_bundle.kernel._compiled.pair_rows import LANES, Pair, copy_rows
from sklearn_bundle.kernel._compiled.steps import (
    FEW,
    FINE,
    HIGH,
    LOW,
    RIDGE,
    TARGET,
    WIDTH,
    certify,
    evaluate,
    solve,
)

FIELDS = 7  # of a pair at one cost: primal, bound, b, radius, below, above, steps
_SLACK = 0.95  # of tol: what steps see of the gap is rounded otherwise than its certificate
_CLOSE = 1e-1  # of the distance from an intercept: how wide the ends of the optimum's are
_ROWS = 13  # of numbers of a pair
_FEW_POINTS = 50  # up to which all values are copied at once: steps need nearly all rows
_STEPS = 1000  # for each point: a pair that needs more is solved alone


@inner
def _sums(values, beta, n, out):
    """``out = K beta`` of n points."""
    for k in range(n):
        out[k] = 0.0
    for j in range(n):
        factor = beta[j]
        if factor != 0.0:
            for k in range(n):
                out[k] += factor * values[j, k]


@inner
def _start(values, of, beta, size, g):
    """The gradient at beta into g; returns the sum of beta."""
    _sums(values, beta, size, g)
    total = 0.0
    for k in range(size):
        g[k] += of[RIDGE, k] * beta[k] - of[TARGET, k]
        total += beta[k]
    return total


@inner
def _set_dual(of, diagonal, lengths, given, pair, ratio, squared):
    """The dual of a pair at so many times the costs; beyond its points there is nothing to move."""
    for k in range(of.shape[1]):
        of[TARGET, k] = of[LOW, k] = of[HIGH, k] = of[WIDTH, k] = of[RIDGE, k] = 0.0
        diagonal[k] = 1.0
    for k in range(pair.size):
        i = pair.first + k if k < pair.m else pair.start + k - pair.m
        cost = ratio * given[0][i]
        bound = np.inf if squared else cost
        of[TARGET, k] = 1.0 if k < pair.m else -1.0
        of[LOW, k], of[HIGH, k] = (0.0, bound) if k < pair.m else (-bound, 0.0)
        of[RIDGE, k] = 1.0 / cost if squared else 0.0
        lengths[k], diagonal[k] = given[1][i], given[2][i] + of[RIDGE, k]


@inner
def _rescale(beta, of, n, factor):
    """Start from the point of other costs, whose bounds were lower by a factor."""
    at_bound = inside = 0
    for k in range(n):
        last = max(of[HIGH, k], -of[LOW, k]) / factor
        at_bound += abs(beta[k]) >= last
        inside += 0.0 < abs(beta[k]) < last
    for k in range(n if at_bound > inside else 0):
        bound = max(of[HIGH, k], -of[LOW, k])
        is_at = abs(beta[k]) >= bound / factor
        beta[k] = np.copysign(bound, beta[k]) if is_at else factor * beta[k]


@inner
def _certify(values, of, s, beta, lengths, error, tol, taken, space, out):
    """The certificate of a pair, after so many steps with values that may be indefinite."""
    size, (steps, indefinite) = lengths.shape[0], taken
    scores, errors, up, down = space[0, :size], space[1, :size], space[2, :size], space[3, :size]
    beta, reach = beta[:size], 0.0
    _sums(values, beta, size, scores)
    b = evaluate(beta, scores, of, s, 0.0, up, down)[3]
    for k in range(size):
        reach += abs(beta[k]) * lengths[k]
    unit = DOUBLE * (min(np.float64(size), 8.0 * np.sqrt(size)) + FEW)
    for k in range(size):
        errors[k] = (error + unit) * reach * lengths[k]
    found = certify(of, s, 0.0, 0.0, b, beta, scores, errors, lengths, unit, _CLOSE, up)
    out[0], out[1], out[2], out[3], out[4], out[5] = found
    is_within = found[0] - found[1] <= tol * found[0] and not indefinite
    out[6] = steps if is_within else -1.0 - steps


@jit
def solve_pairs(
    classes, points, squares, strip, own, starts, costs, lengths, ratios, squared, tol, error, out
):
    """The machines of classes a, as +1, and every class b > a, as -1, at ascending costs.

    These a are from the first of ``classes`` up to, without it, the second.
    Points are sorted by class; class c has those from ``starts[c]`` on; ``squares`` are k(x, x).
    ``points`` has them, or is None; then ``strip`` has the values of the points of classes a with
    these and all later points. ``own`` has those of each point with its class, or nothing where
    they are computed, or the strip has them. All are off by the relative ``error``, or less.

    Costs are ``ratios[r] * costs``; ``squared`` says which hinge: the squared one penalizes its
    intercept. ``out`` are two arrays: ``coef[r]`` gets the coefficients as in SVC, that of a point
    of class i against class j in row j, or j - 1 if j > i; ``found[r, p]`` gets what ``FIELDS``
    names. A pair that is not within ``tol`` has a negative number of steps.
    """
    (coef, found), s = out, 1.0 if squared else np.inf
    K, begin, longest = starts.shape[0] - 1, starts[classes[0]], np.int64(0)
    for c in range(classes[0], K):
        longest = max(longest, starts[c + 1] - starts[c])
    most = (2 * longest + 1 + 2 * LANES) // LANES * LANES
    space, numbers = np.empty(most * most), np.empty(_ROWS * most)
    known, four = np.empty(most, np.bool_), np.empty((2, 4), np.int64)
    features = np.empty(4 * (0 if points is None else points.terms))
    given, p = (costs, lengths, squares), 0
    for a in range(classes[0], classes[1]):
        for b in range(a + 1, K):
            first, start, m = starts[a], starts[b], starts[a + 1] - starts[a]
            size = m + starts[b + 1] - start
            copied = points is None and size <= _FEW_POINTS
            spare = 0 if copied else LANES + 1  # a tile's rest, and a row that nobody reads
            side = (size + spare + LANES) // LANES * LANES
            values = space[: side * side].reshape(side, side)
            rows = numbers[: _ROWS * side].reshape(_ROWS, side)
            of, beta, g, diagonal, work = rows[:5], rows[5], rows[6], rows[7], rows[8:12]
            own_lengths = rows[12, :size]
            for k in range(side):
                beta[k], known[k], values[size, k], values[side - 1, k] = 0.0, copied, 0.0, 0.0
            known[size] = True
            pair = Pair(strip, begin, own, known, four, features, m, first, start, size, points)
            if copied:
                copy_rows(pair, 0, size, values)
            extra = size if s < np.inf else -1
            limits = 0.0, squared, 0.0, 0.0, _SLACK * tol, _STEPS * size, FINE
            for r in range(ratios.shape[0]):
                _set_dual(of, diagonal, own_lengths, given, pair, ratios[r], squared)
                if r > 0 and not squared:
                    _rescale(beta, of, size, ratios[r] / ratios[r - 1])
                g[size:] = 0.0
                total = _start(values, of, beta, size, g)
                if extra >= 0:
                    of[LOW, size], of[HIGH, size] = -np.inf, np.inf
                    of[RIDGE, size] = diagonal[size] = s
                    beta[size], g[size] = -total, -s * total
                taken = solve(values, pair, diagonal, g, of, beta, extra, *limits, work)
                _certify(values, of, s, beta, own_lengths, error, tol, taken, work, found[r, p])
                for k in range(size):
                    coef[r, b - 1 if k < m else a, first + k if k < m else start + k - m] = beta[k]
            p += 1


def _pair_scores(block, coef, ends, intercept, out):
    """``out[a, p]``, the score of row a by the pair p of classes i < j.

    ``block[a, c]`` is the kernel value with support vector c. Class i has those from ``ends[i]`` to
    ``ends[i + 1]``, and ``coef[c]`` has the coefficients against class j in place j, or j - 1 if
    j > i.
    """
    n_classes = ends.shape[0] - 1
    sums = np.empty((n_classes, n_classes - 1))
    for a in range(block.shape[0]):
        row, of_row = block[a], out[a]
        for i in range(n_classes):
            of_class = sums[i]
            for r in range(n_classes - 1):
                of_class[r] = 0.0
            for c in range(ends[i], ends[i + 1]):
                value, of_c = np.float64(row[c]), coef[c]
                for r in range(n_classes - 1):
                    of_class[r] += value * of_c[r]
        p = 0
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                of_row[p] = sums[i, j - 1] + sums[j, i] + intercept[p]
                p += 1


def _pair_score(block, coef, intercept, out):
    """The same of two classes, or of a machine without classes."""
    for a in range(block.shape[0]):
        row, total = block[a], 0.0
        for c in range(coef.shape[0]):
            total += np.float64(row[c]) * coef[c]
        out[a] = total + intercept


pair_scores, pair_score = jit(_pair_scores), jit(_pair_score, **SUMS)


@jit
def count_votes(scores, ties, votes, sums):
    """Votes of the pairs for each class, and the sums of their scores.

    Of a pair the first class gains what the second one loses. A score of 0 is a vote for the first
    class with ``ties``, otherwise for the second.
    """
    n_classes = votes.shape[1]
    for a in range(scores.shape[0]):
        of_row, row, total = scores[a], votes[a], sums[a]
        for i in range(n_classes):
            row[i], total[i] = 0, 0.0
        p = 0
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                score = of_row[p]
                won = score > 0.0 or (ties and score == 0.0)
                row[i] += won
                row[j] += not won
                total[i] += score
                total[j] -= score
                p += 1
