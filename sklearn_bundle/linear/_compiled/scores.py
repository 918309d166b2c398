"""Loops over the rows of a loss of one score, compiled once for each type of loss.

A loss says what it is by four functions of one row, which it registers for a type of named tuple
(:func:`~.decorators.registered`); they replace those without a body here. All else that solvers
need follows from them. ``f`` is the score with its intercept and ``y`` the target. ``r = f - y`` is
computed from ``b - (y - f)``, which keeps the digits that f and b share with a far target; labels
are -1 and 1, so that the slack ``1 - y f`` of a margin is ``-y r``.

A kinked loss is smoothed by a function whose slopes rise as ``steepness``, the reciprocal of a
width, times the distance to the kink. They are slopes of the loss itself, so they give a valid
cutting plane of it. Smooth losses ignore it.
"""

from typing import Any

import numpy as np

from sklearn_bundle.jit.decorators import fallback, inner, jit

# Parallel partial sums: a single running sum would prevent vectorization. Loops over a block of so
# many rows take slices of the arrays: with an index from their beginning, which might be negative
# for all that the compiler knows, a hinge took six times as long.
LANES = 64
FAR = 1e50  # score at which a slope has its last value, and high powers are still finite


def value(loss, f, r, y) -> Any:
    """l."""
    raise NotImplementedError  # a name for compiled code: what a loss registers stands here


def slope(loss, f, r, y, steepness) -> Any:
    """The derivative u in f; 0 at a kink if the steepness is infinite."""
    raise NotImplementedError  # a name for compiled code: what a loss registers stands here


def curvature(loss, f, r, y, steepness) -> Any:
    """The second derivative in f."""
    raise NotImplementedError  # a name for compiled code: what a loss registers stands here


def conjugate(loss, u, y, center) -> Any:
    """``l*(u) - center u`` with ``l*(u) = max_f u f - l(f)``.

    A plane whose derivatives sum to zero does not change with the center: the mean target keeps
    terms small.
    """
    raise NotImplementedError  # a name for compiled code: what a loss registers stands here


@fallback
def height(loss, f, r, y, u, center) -> Any:
    """Minus the conjugate of the slope u at f; a loss may register what is cheaper from both."""
    return -conjugate(loss, u, y, center)


def sides(loss, b, t, y) -> Any:
    """The derivatives to the left and to the right of b, for ``t = y - f`` without an intercept.

    Only of piecewise linear losses. Ties are decided by the floats in which kinks are written.
    """
    raise NotImplementedError  # a name for compiled code: what a loss registers stands here


@inner
def in_order(lanes):
    """Their sum; numba's own takes three times as long to compile."""
    total = 0.0
    for k in range(LANES):
        total += lanes[k]
    return total


@jit
def values(loss, scores, y, out):
    for i in range(scores.shape[0]):
        out[i] = value(loss, scores[i], scores[i] - y[i], y[i])


@jit
def curvatures(loss, scores, y, steepness, out):
    for i in range(scores.shape[0]):
        out[i] = curvature(loss, scores[i], scores[i] - y[i], y[i], steepness)


@jit
def risk(loss, scores, y, weights, b):
    total = np.zeros(LANES)
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, z, s = scores[rows], y[rows], weights[rows]
        for k in range(len(f)):
            total[k] += s[k] * value(loss, f[k] + b, b - (z[k] - f[k]), z[k])
    return in_order(total)


@jit
def cut(loss, scores, y, weights, steepness, b, fine, center, out):
    """The risk at ``b + fine``, and the offset of the plane with the derivatives in ``out``.

    The sum may be finer than the floats near b.
    """
    total, offset = np.zeros(LANES), np.zeros(LANES)
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, z, s, g = scores[rows], y[rows], weights[rows], out[rows]
        for k in range(len(f)):
            score, r = f[k] + b, (b - (z[k] - f[k])) + fine
            u = slope(loss, score, r, z[k], steepness)
            g[k] = s[k] * u
            total[k] += s[k] * value(loss, score, r, z[k])
            offset[k] += s[k] * height(loss, score, r, z[k], u, center)
    return in_order(total), in_order(offset)


@jit
def modeled(loss, scores, direction, y, weights, steepness, b, along_b, center, out):
    """The offset of the plane with the derivatives that a quadratic model has after a step.

    These, in ``out``, are those at f + b and as much as the curvature there changes them, but not
    beyond what the loss has anywhere; those at f + b alone if that is not a number.
    """
    offset = np.zeros(LANES)
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, d, z, s, g = scores[rows], direction[rows], y[rows], weights[rows], out[rows]
        for k in range(len(f)):
            score, r = f[k] + b, b - (z[k] - f[k])
            here = slope(loss, score, r, z[k], steepness)
            u = here + curvature(loss, score, r, z[k], steepness) * (d[k] + along_b)
            lowest = slope(loss, -FAR, -FAR, z[k], steepness)
            highest = slope(loss, FAR, FAR, z[k], steepness)
            u = min(max(u, lowest), highest)
            u = u if lowest <= u <= highest else here
            g[k] = s[k] * u
            offset[k] -= s[k] * conjugate(loss, u, z[k], center)
    return in_order(offset)


@jit
def along(loss, scores, direction, y, weights, steepness, b, along_b, t):
    """First and second derivative in t of the risk at f + b + t (direction + along_b)."""
    first, second = np.zeros(LANES), np.zeros(LANES)
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, d, z, s = scores[rows], direction[rows], y[rows], weights[rows]
        for k in range(len(f)):
            move = d[k] + along_b
            score = f[k] + b + t * move
            r = (b - (z[k] - f[k])) + t * move
            first[k] += s[k] * move * slope(loss, score, r, z[k], steepness)
            second[k] += s[k] * move * move * curvature(loss, score, r, z[k], steepness)
    return in_order(first), in_order(second)


@jit
def curved(loss, scores, y, weights, steepness, b, rows, coefs):
    """The rows with curvature, and their weighted second derivatives; returns their number.

    Those of a block are computed as vectors; those that are not zero are then packed.
    """
    size = np.uint64(0)
    bends = np.empty(LANES)
    for start in range(0, scores.shape[0], LANES):
        block = slice(start, start + LANES)
        f, z, s = scores[block], y[block], weights[block]
        for k in range(len(f)):
            bends[k] = s[k] * curvature(loss, f[k] + b, b - (z[k] - f[k]), z[k], steepness)
        for k in range(len(f)):
            rows[size] = start + k
            coefs[size] = bends[k]
            size += np.uint64(bends[k] > 0.0)
    return np.intp(size)


@jit
def sizes(loss, scores, y, weights, near, share):
    """Sums of G^2, G and G |f|, where G is the largest absolute derivative at scores nearby.

    These are ``f - near``, ``f + near`` and ``(1 - share) f``. Slopes rise with the score, so that
    the outer two suffice; those that overflow are left out. The last sum is that of derivatives at
    the scores themselves.
    """
    squares, totals, moved = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    signed = np.zeros(LANES)
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, z, s = scores[rows], y[rows], weights[rows]
        for k in range(len(f)):
            largest = 0.0
            low = min(f[k] - near, (1.0 - share) * f[k])
            high = max(f[k] + near, (1.0 - share) * f[k])
            for end in (low, high):
                size = s[k] * abs(slope(loss, end, end - z[k], z[k], np.inf))
                largest = size if largest < size < np.inf else largest
            squares[k] += largest * largest
            totals[k] += largest
            moved[k] += largest * abs(f[k])
            signed[k] += s[k] * slope(loss, f[k], f[k] - z[k], z[k], np.inf)
    return in_order(squares), in_order(totals), in_order(moved), in_order(signed)


@jit
def offset(loss, derivatives, y, weights, center):
    """The offset ``-sum_i s_i l*(g_i / s_i)`` of the plane with the derivatives g."""
    total = np.zeros(LANES)
    for start in range(0, derivatives.shape[0], LANES):
        rows = slice(start, start + LANES)
        g, z, s = derivatives[rows], y[rows], weights[rows]
        for k in range(len(g)):
            total[k] -= s[k] * conjugate(loss, g[k] / s[k], z[k], center)
    return in_order(total)


@jit
def share_ties(loss, scores, y, weights, b, out):
    """Derivatives of a piecewise linear loss at the b that is best: rows at a kink share the rest.

    With p the share of what is missing that their lower slopes make up, each has the slope
    ``p below + (1 - p) above``. Both shares are quotients: 1 - p would lose the weight of a class
    that is far lighter than the other.
    """
    lowest, highest, rest = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, z, s = scores[rows], y[rows], weights[rows]
        for k in range(len(f)):
            below, above = sides(loss, b, z[k] - f[k], z[k])
            tied = s[k] * (above > below)
            lowest[k] += tied * below
            highest[k] += tied * above
            rest[k] += (s[k] - tied) * below
    down_by, up_by = in_order(rest) + in_order(highest), in_order(rest) + in_order(lowest)
    width = in_order(highest) - in_order(lowest)
    down = min(max(down_by / width, 0.0), 1.0) if width > 0.0 else 0.0
    up = min(max(-up_by / width, 0.0), 1.0) if width > 0.0 else 0.0
    for start in range(0, scores.shape[0], LANES):
        rows = slice(start, start + LANES)
        f, z, s, g = scores[rows], y[rows], weights[rows], out[rows]
        for k in range(len(f)):
            below, above = sides(loss, b, z[k] - f[k], z[k])
            g[k] = s[k] * (down * below + up * above if above > below else below)


@inner
def _exact_sum(terms):
    """Kahan's sum in lanes: many terms are equal, and their rounding would add up."""
    sums, lost = np.zeros(LANES), np.zeros(LANES)
    for start in range(0, terms.shape[0], LANES):
        part = terms[start : start + LANES]
        for k in range(len(part)):
            more = part[k] - lost[k]
            total = sums[k] + more
            lost[k] = (total - sums[k]) - more
            sums[k] = total
    return in_order(sums)


@jit
def balance(loss, derivatives, y, weights, center):
    """Make derivatives sum to zero by shrinking those of a few rows; returns the offset's change.

    A slope times a number in [0, 1] is a slope of a loss that is never negative.
    """
    change = 0.0
    for _ in range(2):
        excess = _exact_sum(derivatives)
        for i in range(derivatives.shape[0]):
            if excess == 0.0:
                break
            g = derivatives[i]
            if excess * g > 0.0:
                less = g if abs(g) < abs(excess) else excess
                derivatives[i] = g - less
                excess -= less
                before = conjugate(loss, g / weights[i], y[i], center)
                after = conjugate(loss, derivatives[i] / weights[i], y[i], center)
                change += weights[i] * (before - after)
    return change
