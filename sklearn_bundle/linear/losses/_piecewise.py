"""Compiled functions that piecewise-linear and piecewise-quadratic losses of a residual share.

A loss is l(r) with r = f - y, its derivative a constant ``low`` on the far left plus a jump and a
bend at each kink. Its planes are written from slopes: any u with a finite conjugate l*(u) gives
``l(f - y) >= u f - u y - l*(u)``, so an inexact slope still gives a plane below the risk, and no
offset is a difference of large numbers.
"""

import numpy as np

from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear._compiled.selection import first_crossing
from sklearn_bundle.linear.losses._sums import LANES, WEIGHT_ROUNDING

MANY = 1 << 16  # samples, of which kinks far from the best intercept are not stored
_SOME = 1024  # samples that say where that is,
_MARGIN = 2.0  # to this many roots of the number of their kinks: four standard deviations of a rank

# ---- where the derivative along a line is zero ---------------------------------------------


@jit
def _append_kinks(scores, direction, y, weights, kink, jump, bend, left, size, kinks, jumps, bends):
    """Append the samples' crossings of r = ``kink`` at t > ``left``, where l' gains jump + bend r.

    Returns the number of crossings in the arrays and the line p + q t that is active at left+.
    """
    p = q = 0.0
    for i in range(scores.shape[0]):
        d = direction[i]
        distance = kink - (scores[i] - y[i])
        t = distance / d
        rises = d > 0.0
        active = (rises & (t <= left)) | ((d < 0.0) & (t > left))
        constant = weights[i] * d * (jump - bend * distance)
        slope = weights[i] * d * d * bend
        p += constant * active
        q += slope * active
        sign = 1.0 if rises else -1.0
        kinks[size] = t
        jumps[size] = sign * constant
        bends[size] = sign * slope
        size += (t > left) & (t < np.inf)
    return size, p, q


def line_zero(
    scores, direction, y, weights, low, kinks, slope, curvature, scratch, left=0.0, slack=0.0
):
    """Smallest t > ``left`` at which the derivative of ``slope t + curvature t^2/2 + R(f + t h)``

    is at least minus ``slack`` times the sum of its jumps. ``kinks`` are triples (r, jump, bend).
    """
    n = len(scores)
    space = scratch[:3] if len(kinks) == 1 else np.empty((3, len(kinks) * n))
    total = float(np.sum(np.multiply(weights, direction, out=space[0, :n])))
    size, p, q = 0, slope + low * total, curvature
    for kink in kinks:
        size, kink_p, kink_q = _append_kinks(
            scores, direction, y, weights, *kink, left, size, *space
        )
        p += kink_p
        q += kink_q
    if slack > 0.0:
        slack *= float(np.sum(np.abs(space[1, :size])))
    return first_crossing(*space, size, p, q, slack)


# ---- where the derivative in the intercept is zero -------------------------------------------


@jit
def _append_kinks_in_b(scores, y, weights, kink, jump, bend, low, high, size, kinks, jumps, bends):
    """Append the samples' crossings of r = ``kink`` at b between ``low`` and ``high``.

    The line is that at low+. Also returns the sum of the sizes of all jumps.
    """
    p = q = total = 0.0
    for i in range(scores.shape[0]):
        b = kink - (scores[i] - y[i])
        constant = weights[i] * (jump - bend * b)
        slope = weights[i] * bend
        passed = b <= low
        p += constant * passed
        q += slope * passed
        total += abs(constant)
        kinks[size] = b
        jumps[size] = constant
        bends[size] = slope
        size += (low < b) & (b < high)
    return size, p, q, total


def intercept_zero(scores, y, weights, far_left, kinks, scratch, slack=WEIGHT_ROUNDING):
    """The smallest b at which the derivative of ``R(f + b)`` in b is zero: see :func:`zero_in_b`.

    ``far_left(scores, y, weights)`` returns its line p + q b on the far left; ``kinks`` are those
    of :func:`line_zero`.
    """

    def write(scores, y, weights, low, high, space):
        size, total = 0, 0.0
        p, q = far_left(scores, y, weights)
        for kink in kinks:
            size, kink_p, kink_q, kink_total = _append_kinks_in_b(
                scores, y, weights, *kink, low, high, size, *space
            )
            p, q, total = p + kink_p, q + kink_q, total + kink_total
        return size, p, q, total

    space = scratch[:3] if len(kinks) == 1 else np.empty((3, len(kinks) * len(scores)))
    b = zero_in_b(write, scores, y, weights, space, slack)
    if np.isinf(b):  # the slope on one side is only rounding
        b = float((y - scores).max() if b > 0.0 else (y - scores).min())
    return b


def constant_far_left(slope):
    """For losses whose derivative on the far left is this number."""
    return lambda scores, y, weights: (slope * float(np.sum(weights)), 0.0)


def zero_in_b(write, scores, y, weights, space, slack):
    """The smallest b at which a derivative in b is at least minus ``slack`` times its jumps' sum.

    ``write(scores, y, weights, low, high, space)`` writes the kinks between low and high, and
    returns their number, the line p + q b at low+, and the sum of the sizes of all jumps. Of many
    samples only kinks near the zero of a few samples are written: the memory of the others is
    reserved, but never touched.
    """
    low, high = -np.inf, np.inf
    if len(scores) >= MANY:
        low, high = _bracket(write, scores, y, weights)
    size, p, q, total = write(scores, y, weights, low, high, space)
    limit = slack * total
    if low == -np.inf or p + q * low < -limit:
        b = first_crossing(*space, size, p, q, limit)
        if b < high or high == np.inf:
            return b
    for tied in (low, high):  # where many kinks are equal, the sample may end at the zero itself
        before = np.nextafter(tied, -np.inf)
        _, p, q, _ = write(scores, y, weights, before, tied, space)
        _, p_at, q_at, _ = write(scores, y, weights, tied, tied, space)
        if p + q * tied < -limit <= p_at + q_at * tied:
            return tied
    size, p, q, _ = write(scores, y, weights, -np.inf, np.inf, space)
    return first_crossing(*space, size, p, q, limit)


def _bracket(write, scores, y, weights):
    """Two values that probably enclose the zero, from the kinks of a few samples."""
    stride = len(scores) // _SOME
    some = [np.ascontiguousarray(values[::stride]) for values in (scores, y, weights)]
    space = np.empty((3, 2 * len(some[0]) + 1))
    size, p, q, _ = write(*some, -np.inf, np.inf, space)
    order = np.argsort(space[0, :size])
    kinks, jumps, bends = space[:, order]
    rising = p + np.cumsum(jumps) + (q + np.cumsum(bends)) * kinks >= 0.0
    crossing = int(np.argmax(rising)) if rising.any() else size
    margin = int(_MARGIN * np.sqrt(size))
    low, high = crossing - margin, crossing + margin
    return kinks[low] if low >= 0 else -np.inf, kinks[high] if high < size else np.inf


# ---- slopes of piecewise-linear losses -----------------------------------------------------
# l(r) = high max(0, r - half) - low max(0, -half - r), low <= 0 <= high; l*(u) = half |u|


@jit
def step_risk(scores, y, weights, b, low, high, half):
    risk = 0.0
    for i in range(scores.shape[0]):
        residual = scores[i] - y[i]
        above = max(b - (half - residual), 0.0)
        below = max((-half - residual) - b, 0.0)
        risk += weights[i] * (high * above - low * below)
    return risk


@jit
def step_share(scores, y, weights, b, low, high, half):
    """Share of the jump that samples at a kink must take so that the slopes sum to zero."""
    least = width = 0.0
    for i in range(scores.shape[0]):
        residual = scores[i] - y[i]
        left, right = -half - residual, half - residual
        below = low * (b <= left) + high * (b > right)
        above = low * (b < left) + high * (b >= right)
        least += weights[i] * below
        width += weights[i] * (above - below)
    return min(max(-least / width, 0.0), 1.0) if width > 0.0 else 0.0


@jit
def step_slopes(scores, y, b, low, high, half, shared, share, out):
    """Slopes u; at a kink the one given by ``share`` if it is ``shared``, otherwise zero."""
    for i in range(scores.shape[0]):
        residual = scores[i] - y[i]
        left, right = -half - residual, half - residual
        below = low * (b <= left) + high * (b > right)
        above = low * (b < left) + high * (b >= right)
        between = below + share * (above - below)
        out[i] = between if shared else min(max(below, 0.0), above)


# ---- slopes of the squared error and of Huber's loss -----------------------------------------
# l(r) = u r - u^2/2 with u = r clipped to [-delta, delta]; l*(u) = u^2/2


@jit
def clipped_risk(scores, y, weights, b, delta):
    risk = 0.0
    for i in range(scores.shape[0]):
        r = b - (y[i] - scores[i])
        u = min(max(r, -delta), delta)
        risk += weights[i] * u * (r - 0.5 * u)
    return risk


@jit
def clipped_slope(scores, y, weights, b, delta):
    """First and second derivative of the risk in b."""
    first = second = 0.0
    for i in range(scores.shape[0]):
        r = b - (y[i] - scores[i])
        u = min(max(r, -delta), delta)
        first += weights[i] * u
        second += weights[i] * (u == r)
    return first, second


@jit
def clipped_slopes(scores, y, b, fine, delta, out):
    """Slopes u at the intercept b + fine, a sum that may be finer than the floats near b."""
    for i in range(scores.shape[0]):
        r = (b - (y[i] - scores[i])) + fine
        out[i] = min(max(r, -delta), delta)


# ---- the squared error alone -------------------------------------------------------------------


@jit
def mean_residual(scores, y, weights):
    """Mean of y - f in two parts: the second is the rounding error of the first."""
    n = scores.shape[0]
    first, second = np.zeros(LANES), np.zeros(LANES)
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            first[k] += weights[start + k] * (y[start + k] - scores[start + k])
    mean = first.sum()
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            second[k] += weights[start + k] * ((y[start + k] - scores[start + k]) - mean)
    return mean, second.sum()


@jit
def squared_cut(scores, y, weights, free, out):
    """Risk, offset and intercept; ``out`` becomes derivatives that sum to zero if b is ``free``.

    The residuals are those of an intercept in two parts, finer than the floats near it.
    """
    n = scores.shape[0]
    b = rest = center = 0.0
    if free:
        b, rest = mean_residual(scores, y, weights)
    means = np.zeros((2, LANES))
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            out[i] = (b - (y[i] - scores[i])) + rest
            means[0, k] += weights[i] * out[i]
            means[1, k] += weights[i] * y[i]
    fine = 0.0
    if free:
        fine, center = means[0].sum(), means[1].sum()
    sums = np.zeros((3, LANES))
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            r = out[i] - fine
            part = weights[i] * r
            sums[0, k] += part * out[i]
            sums[1, k] -= part * ((y[i] - center) + 0.5 * r)
            sums[2, k] += part
            out[i] = part
    if free:
        left = sums[2].sum()
        for i in range(n):
            out[i] -= weights[i] * left
    return 0.5 * sums[0].sum(), sums[1].sum(), b + rest


# ---- slopes of the squared epsilon-insensitive loss --------------------------------------------
# l(r) = u^2/2 with u = r minus its clip to [-half, half]; l*(u) = half |u| + u^2/2


@jit
def tube_risk(scores, y, weights, b, half):
    risk = 0.0
    for i in range(scores.shape[0]):
        r = b - (y[i] - scores[i])
        u = max(r - half, 0.0) + min(r + half, 0.0)
        risk += 0.5 * weights[i] * u * u
    return risk


@jit
def tube_slope(scores, y, weights, b, half):
    """First and second derivative of the risk in b, and the mean size of a slope."""
    first = second = size = 0.0
    for i in range(scores.shape[0]):
        r = b - (y[i] - scores[i])
        u = max(r - half, 0.0) + min(r + half, 0.0)
        first += weights[i] * u
        second += weights[i] * (u != 0.0)
        size += weights[i] * abs(u)
    return first, second, size


@jit
def tube_slopes(scores, y, b, fine, half, out):
    """Slopes u at the intercept b + fine."""
    for i in range(scores.shape[0]):
        r = (b - (y[i] - scores[i])) + fine
        out[i] = max(r - half, 0.0) + min(r + half, 0.0)


# ---- from slopes to planes -----------------------------------------------------------------


@jit
def balance_slopes(weights, slopes):
    """Scale the positive or the negative slopes down, so that ``sum_i s_i u_i = 0``.

    Zero is a slope of every loss >= 0 with minimum 0, so the scaled slopes are slopes too.
    """
    sums, lost = np.zeros((2, LANES)), np.zeros((2, LANES))  # Kahan summation: many terms are equal
    n = slopes.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            part = weights[start + k] * slopes[start + k]
            more = max(part, 0.0) - lost[0, k]
            total = sums[0, k] + more
            lost[0, k] = (total - sums[0, k]) - more
            sums[0, k] = total
            more = max(-part, 0.0) - lost[1, k]
            total = sums[1, k] + more
            lost[1, k] = (total - sums[1, k]) - more
            sums[1, k] = total
    above, below = sums[0].sum(), sums[1].sum()
    if above == below:
        return
    up = below / above if above > below else 1.0
    down = above / below if below > above else 1.0
    for i in range(n):
        slopes[i] *= up if slopes[i] > 0.0 else down


@jit
def plane_from_slopes(y, weights, center, half, square, out):
    """Offset ``-sum_i s_i (u_i (y_i - center) + l*(u_i))``, l*(u) = half |u| + square u^2/2.

    ``out`` holds the slopes u and becomes the derivatives s u. If the slopes sum to zero, any
    ``center`` is valid: the mean of y keeps the terms smallest.
    """
    offset = np.zeros(LANES)
    n = out.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            u = out[i]
            conjugate = half * abs(u) + 0.5 * square * u * u
            offset[k] -= weights[i] * (u * (y[i] - center) + conjugate)
            out[i] = weights[i] * u
    return offset.sum()
