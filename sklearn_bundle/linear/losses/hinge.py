"""Hinge and squared hinge of a score and a label in {-1, +1}, with their compiled functions.

In formulas ``z = y f`` is the margin. ``Cut.offset`` is written in closed form, without the
cancellation in ``l - l' f``.
"""

import numpy as np

from sklearn_bundle.jit import vector
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear._compiled.selection import first_crossing
from sklearn_bundle.linear.losses._piecewise import MANY, zero_in_b
from sklearn_bundle.linear.losses._sums import LANES, WEIGHT_ROUNDING, balance
from sklearn_bundle.linear.losses.base import Array, Cut
from sklearn_bundle.linear.losses.samples import BinaryLoss

_SAMPLE = 128  # kinks to guess the intercept's neighborhood from: sorting more would take longer,
_SAMPLE_MARGIN = 16  # and ranks to each side of the guess: twice its standard deviation
_LIGHT = 1e-9  # of all weight: a class below this would be lost in the rounding of sums of all


# ---- intercepts if one class is light --------------------------------------------------------


def _is_light(y, weights):
    """Whether nearly all of the weight is of one class; the weights sum to one."""
    return 1.0 - abs(float(np.einsum("i,i->", weights, y))) < 2.0 * _LIGHT


def _light_quantile(scores, y, weights):
    """A best b of the hinge, by the weight of the lighter class.

    If the positives are lighter, it is the first kink ``t_i = y_i - f_i`` at which the weight up to
    it reaches theirs; otherwise the last one at which the weight from it on reaches that of the
    negatives.
    """
    kinks, positive = y - scores, y > 0.0
    above, below = float(weights[positive].sum()), float(weights[~positive].sum())
    order = np.argsort(kinks if above < below else -kinks, kind="stable")
    reached = np.cumsum(weights[order])
    wanted = min(above, below) * (1.0 - WEIGHT_ROUNDING)
    return float(kinks[order[np.searchsorted(reached, wanted)]])


def _light_zero(scores, y, weights):
    """The b at which the weighted slacks of both classes are equal, from sums without cancellation.

    At the sorted kinks t_k the slacks of the negatives below grow by weight times distance from
    left to right, those of the positives above from right to left.
    """
    kinks = y - scores
    order = np.argsort(kinks, kind="stable")
    kinks, signed = kinks[order], (weights * y)[order]
    gaps = np.diff(kinks)
    below = np.cumsum(np.maximum(-signed, 0.0))[:-1]
    above = np.cumsum(np.maximum(signed, 0.0)[::-1])[-2::-1]
    negative = np.append(0.0, np.cumsum(below * gaps))
    positive = np.append(np.cumsum((above * gaps)[::-1])[::-1], 0.0)
    k = int(np.argmax(negative >= positive))
    if k == 0:
        return float(kinks[0])
    k -= 1
    return float(kinks[k] + (positive[k] - negative[k]) / (below[k] + above[k]))


# ---- hinge ---------------------------------------------------------------------------------


@jit
def _hinge_cut(scores, y, weights, out):
    """Risk and offset at b = 0; u = 0 if the margin is exactly one."""
    n = scores.shape[0]
    head = n - n % LANES
    one = vector.splat(1.0)
    zero = risks = offsets = vector.splat(0.0)
    for i in range(0, head, vector.WIDTH):
        label = vector.load(y, i)
        slack = vector.minus(one, vector.times(label, vector.load(scores, i)))
        su = vector.where_below(zero, slack, vector.load(weights, i))
        vector.store(out, i, vector.minus(zero, vector.times(label, su)))
        risks = vector.fma(su, slack, risks)
        offsets = vector.plus(offsets, su)
    risk, offset = vector.total(risks), vector.total(offsets)
    for i in range(head, n):
        slack = 1.0 - y[i] * scores[i]
        su = weights[i] * (slack > 0.0)  # a product, since a branch would be mispredicted
        out[i] = 0.0 - y[i] * su
        risk += su * slack
        offset += su
    return risk, offset


@jit
def _hinge_balanced_cut(scores, y, weights, b, out):
    """Risk and offset at the best intercept b; samples at b share the rest so that out sums to 0.

    With r the share of the weight at b that is still missing below it, u = 1 - r for the
    positives there and u = r for the negatives. Both are quotients, since 1 - r would lose the
    weight of a class that is far lighter than the other. One pass over all rows, then passes from
    the first to the last tied row: mostly one block.
    """
    n = scores.shape[0]
    head = n - n % LANES
    zero = risks = offsets = excesses = vector.splat(0.0)
    first, last = n, 0
    for start in range(0, head, LANES):
        ties = vector.splat(0.0)
        for i in range(start, start + LANES, vector.WIDTH):
            label, weight = vector.load(y, i), vector.load(weights, i)
            distance = vector.minus(vector.minus(label, vector.load(scores, i)), vector.splat(b))
            slack = vector.times(label, distance)
            su = vector.where_below(zero, slack, weight)
            signed = vector.times(label, su)
            vector.store(out, i, vector.minus(zero, signed))
            risks = vector.fma(weight, vector.positive(slack), risks)
            offsets = vector.plus(offsets, su)
            excesses = vector.plus(excesses, signed)
            ties = vector.plus(ties, vector.where_at_most(vector.magnitude(distance), zero, weight))
        if vector.total(ties) > 0.0:
            first, last = min(first, start), start + LANES
    risk, offset, excess = vector.total(risks), vector.total(offsets), vector.total(excesses)
    for i in range(head, n):
        distance = (y[i] - scores[i]) - b
        slack = y[i] * distance
        su = weights[i] * (slack > 0.0)
        out[i] = 0.0 - y[i] * su
        risk += weights[i] * max(slack, 0.0)
        offset += su
        excess += y[i] * su
        if distance == 0.0:
            first, last = min(first, i), i + 1
    below = above = 0.0  # the weight at b of negatives and of positives
    for i in range(first, last):
        if (y[i] - scores[i]) - b == 0.0:
            below += weights[i] if y[i] < 0.0 else 0.0
            above += weights[i] if y[i] > 0.0 else 0.0
    at = below + above
    negative = min(max((above + excess) / at, 0.0), 1.0) if at > 0.0 else 0.0
    positive = min(max((below - excess) / at, 0.0), 1.0) if at > 0.0 else 0.0
    for i in range(first, last):
        if (y[i] - scores[i]) - b == 0.0:
            su = weights[i] * (positive if y[i] > 0.0 else negative)
            out[i] = -y[i] * su
            offset += su
    return risk, offset


@jit
def _hinge_risk(scores, y, weights, b):
    n = scores.shape[0]
    head = n - n % LANES  # the same order of sums as in the cuts
    risks = vector.splat(0.0)
    for i in range(0, head, vector.WIDTH):
        label = vector.load(y, i)
        distance = vector.minus(vector.minus(label, vector.load(scores, i)), vector.splat(b))
        slack = vector.positive(vector.times(label, distance))
        risks = vector.fma(vector.load(weights, i), slack, risks)
    risk = vector.total(risks)
    for i in range(head, n):
        risk += weights[i] * max(y[i] * ((y[i] - scores[i]) - b), 0.0)
    return risk


@jit
def _hinge_intercept_bracket(scores, y, weights):
    """Two values that probably enclose the best b, from a sorted sample of the kinks."""
    n = scores.shape[0]
    m = min(n, _SAMPLE)
    stride = n // m
    order = np.empty(m, dtype=np.int64)
    missing = 0.0
    for k in range(m):
        i = k * stride
        t = y[i] - scores[i]
        at = k
        while at > 0 and y[order[at - 1]] - scores[order[at - 1]] > t:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
        missing += weights[i] if y[i] > 0.0 else 0.0
    crossing = 0
    while crossing < m - 1 and missing > weights[order[crossing]]:
        missing -= weights[order[crossing]]
        crossing += 1
    low, high = crossing - _SAMPLE_MARGIN, crossing + _SAMPLE_MARGIN
    return (
        y[order[low]] - scores[order[low]] if low >= 0 else -np.inf,
        y[order[high]] - scores[order[high]] if high < m else np.inf,
    )


@jit
def _hinge_intercept_kinks(scores, y, weights, low, high, kinks, jumps, bends):
    """Kinks t_i = y_i - f_i in (low, high) of the risk as a function of b.

    Returns their number, the risk's slope at ``low`` and just below ``high``.
    """
    size = 0
    at_low = at_high = 0.0
    for i in range(scores.shape[0]):
        t = y[i] - scores[i]
        weight = weights[i]
        kinks[size] = t
        jumps[size] = weight
        size += (low < t) & (t < high)
        at_low += weight * (1.0 * (t <= low) - (y[i] > 0.0))
        at_high += weight * (1.0 * (t < high) - (y[i] > 0.0))
    bends[:size] = 0.0
    return size, at_low, at_high


def _hinge_line(scores, y, weights, low, high, space):
    """For :func:`zero_in_b`: the weights, which are the jumps, sum to one."""
    size, at_low, _ = _hinge_intercept_kinks(scores, y, weights, low, high, *space)
    return size, at_low, 0.0, 1.0


@jit
def _hinge_line_kinks(scores, direction, y, weights, kinks, jumps, bends):
    """Kinks of the risk along a line at t > 0; returns their number and the slope at 0+.

    All kinks of a block are computed as vectors; those to keep are then packed.
    """
    n = scores.shape[0]
    head = n - n % LANES
    one, far = vector.splat(1.0), vector.splat(np.inf)
    zero = slopes = vector.splat(0.0)
    t, jump = np.empty(LANES), np.empty(LANES)
    size = np.uint64(0)
    for start in range(0, head, LANES):
        for k in range(0, LANES, vector.WIDTH):
            i = start + k
            label, weight = vector.load(y, i), vector.load(weights, i)
            m = vector.minus(one, vector.times(label, vector.load(scores, i)))
            along = vector.times(label, vector.load(direction, i))
            rise = vector.times(weight, along)
            tied = vector.where_at_most(vector.magnitude(m), zero, rise)
            slopes = vector.plus(slopes, vector.where_below(zero, m, rise))
            slopes = vector.plus(slopes, vector.where_below(along, zero, tied))
            kink = vector.over(m, along)
            vector.store(t, k, vector.where_below(kink, far, kink))  # 0 (no kink) if infinite
            vector.store(jump, k, vector.magnitude(rise))
        for k in range(LANES):
            kinks[size] = t[k]
            jumps[size] = jump[k]
            size += np.uint64(t[k] > 0.0)
    slope = -vector.total(slopes)
    for i in range(head, n):
        m = 1.0 - y[i] * scores[i]
        along = y[i] * direction[i]
        active = (m > 0.0) | ((m == 0.0) & (along < 0.0))  # no short circuit, so no branch
        slope -= weights[i] * along * active
        kinks[size] = m / along
        jumps[size] = weights[i] * abs(along)
        size += np.uint64((kinks[size] > 0.0) & (kinks[size] < np.inf))
    bends[: np.intp(size)] = 0.0
    return np.intp(size), slope


class Hinge(BinaryLoss):
    """Hinge loss, ``l(y, f) = max(0, 1 - y f)``, of the support vector machine.

    See table 5 of [1]_. The best intercept is a weighted quantile, and the best step along a line
    is the zero of a step function; both are exact, in O(n), by selection.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Hinge
    >>> Hinge().value(np.array([2.0, 0.5, 0.5]), np.array([1.0, 1.0, -1.0]))
    array([0. , 0.5, 1.5])
    """

    def value(self, scores, y) -> Array:
        return np.maximum(0.0, 1.0 - y * scores)

    def gradient(self, scores, y) -> Array:
        return np.where(y * scores < 1.0, -y, 0.0)

    def risk(self, scores, y, weights, intercept) -> float:
        return _hinge_risk(scores, y, weights, intercept)

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        if not fit_intercept:
            return Cut(*_hinge_cut(scores, y, weights, out), 0.0)
        b = self.intercept(scores, y, weights, scratch)
        return Cut(*_hinge_balanced_cut(scores, y, weights, b, out), b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        size, risk_slope = _hinge_line_kinks(scores, direction, y, weights, *scratch[:3])
        return max(0.0, first_crossing(*scratch[:3], size, slope + risk_slope, curvature, 0.0))

    def intercept(self, scores, y, weights, scratch) -> float:
        """The smallest t_i at which the weight up to it reaches that of the positives."""
        if _is_light(y, weights):
            return _light_quantile(scores, y, weights)
        if len(scores) >= MANY:
            return zero_in_b(_hinge_line, scores, y, weights, scratch[:3], WEIGHT_ROUNDING)
        low, high = _hinge_intercept_bracket(scores, y, weights)
        kinks = scratch[:3]
        size, at_low, at_high = _hinge_intercept_kinks(scores, y, weights, low, high, *kinks)
        if at_low >= -WEIGHT_ROUNDING or at_high < -WEIGHT_ROUNDING:  # not bracketed: use all kinks
            size, at_low, _ = _hinge_intercept_kinks(scores, y, weights, -np.inf, np.inf, *kinks)
        return first_crossing(*kinks, size, at_low, 0.0, WEIGHT_ROUNDING)


# ---- squared hinge -------------------------------------------------------------------------


@jit
def squared_hinge_cut(scores, y, weights, b, out):
    """Risk, offset, and the offset's parts summed with the signs of y."""
    risk = offset = signed = 0.0
    for i in range(scores.shape[0]):
        m = max(y[i] * ((y[i] - scores[i]) - b), 0.0)
        out[i] = -weights[i] * y[i] * m
        risk += 0.5 * weights[i] * m * m
        part = weights[i] * (m - 0.5 * m * m)
        offset += part
        signed += y[i] * part
    return risk, offset, signed


@jit
def _squared_hinge_slope(scores, y, weights, b):
    """First and second derivative of the risk in b."""
    first = 0.0
    second = 0.0
    for i in range(scores.shape[0]):
        m = y[i] * ((y[i] - scores[i]) - b)
        first -= weights[i] * y[i] * max(m, 0.0)
        second += weights[i] * (m > 0.0)
    return first, second


@jit
def _squared_hinge_kinks(scores, direction, y, weights, kinks, jumps, bends):
    """Kinks at t > 0 of the risk's derivative along a line, and its line p + q t at 0+."""
    size = 0
    p = 0.0
    q = 0.0
    for i in range(scores.shape[0]):
        m = 1.0 - y[i] * scores[i]
        k = y[i] * direction[i]
        t = m / k
        leaves = k > 0.0
        active = (leaves & (t > 0.0)) | ((k < 0.0) & (t <= 0.0)) | ((k == 0.0) & (m > 0.0))
        p -= weights[i] * k * m * active
        q += weights[i] * k * k * active
        sign = 1.0 if leaves else -1.0
        kinks[size] = t
        jumps[size] = sign * weights[i] * k * m
        bends[size] = -sign * weights[i] * k * k
        size += (k != 0.0) & (t > 0.0)
    return size, p, q


@jit
def _squared_hinge_kinks_in_b(scores, y, weights, low, high, kinks, jumps, bends):
    """Kinks of the risk's derivative in b in (low, high), its line p + q b at low+, and the sum

    of the sizes of all jumps.
    """
    size = 0
    p = q = total = 0.0
    for i in range(scores.shape[0]):
        b = y[i] - scores[i]
        weight = weights[i]
        positive = y[i] > 0.0
        active = positive == (b > low)
        p -= weight * b * active
        q += weight * active
        total += weight * abs(b)
        sign = 1.0 if positive else -1.0
        kinks[size] = b
        jumps[size] = sign * weight * b
        bends[size] = -sign * weight
        size += (low < b) & (b < high)
    return size, p, q, total


class SquaredHinge(BinaryLoss):
    """Squared hinge loss, ``l(y, f) = max(0, 1 - y f)^2 / 2``.

    Table 5 of [1]_. With its factor 1/2, LIBLINEAR's C is ``1 / (2 n reg_lambda)``. The derivative
    along a line and in the intercept is piecewise linear; its zero is exact, in O(n), by selection.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([2.0, 0.5, 0.5]), np.array([1.0, 1.0, -1.0]))
    array([0.   , 0.125, 1.125])
    """

    def value(self, scores, y) -> Array:
        return 0.5 * np.maximum(0.0, 1.0 - y * scores) ** 2

    def gradient(self, scores, y) -> Array:
        return -y * np.maximum(0.0, 1.0 - y * scores)

    def curvature(self, scores, y) -> Array:
        return np.where(y * scores < 1.0, 1.0, 0.0)

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        b = self.intercept(scores, y, weights, scratch) if fit_intercept else 0.0
        risk, offset, signed = squared_hinge_cut(scores, y, weights, b, out)
        if fit_intercept:
            offset = balance(y, out, offset, signed)
        return Cut(risk, offset, b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        size, p, q = _squared_hinge_kinks(scores, direction, y, weights, *scratch[:3])
        return max(0.0, first_crossing(*scratch[:3], size, slope + p, curvature + q, 0.0))

    def intercept(self, scores, y, weights, scratch) -> float:
        """The smallest minimizer b; one Newton step removes the rounding of the long sums."""

        def write(scores, y, weights, low, high, space):
            return _squared_hinge_kinks_in_b(scores, y, weights, low, high, *space)

        if _is_light(y, weights):
            return _light_zero(scores, y, weights)
        # The derivative is flat at zero if the classes are separable.
        b = zero_in_b(write, scores, y, weights, scratch[:3], WEIGHT_ROUNDING)
        first, second = _squared_hinge_slope(scores, y, weights, b)
        return b - first / second if second > 0.0 else b
