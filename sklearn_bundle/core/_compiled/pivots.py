"""Two pivots from a random sample, for the sum of clipped lines of projection.py."""

import numpy as np

from sklearn_bundle.core._compiled.projection import CHUNK
from sklearn_bundle.jit.decorators import inner, jit

_MARGIN = 2.0  # standard errors between a pivot and the crossing: one pivot in twenty misses


@inner
def _entry(x, i):
    return x[i] if x.shape[0] > CHUNK else x[i % CHUNK]


@inner
def _draw(m, inverse, weight, lower, upper, anchor, first):
    """Draw a random sample, one item per stride: rows of low kinks, high kinks and weights.

    The last row is what each ``w clip(t, low, high)`` is compared with: its value at anchor if the
    sum over all items is known there, or -w m/r in the first round.
    As in Floyd and Rivest (1975) its size is n^(2/3) up to a constant: sorting it costs less than a
    pass over all items. Equal arguments give equal samples.
    """
    n = m.shape[0]
    size = int(n ** (2.0 / 3.0) / 3.0)
    stride = n // size
    sample = np.empty((4, size))
    state = np.uint64(n)
    for j in range(size):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        i = j * stride + np.int64(state >> np.uint64(33)) % stride
        r, w = _entry(inverse, i), _entry(weight, i)
        at_lower, at_upper = (_entry(lower, i) - m[i]) * r, (_entry(upper, i) - m[i]) * r
        sample[0, j] = min(at_lower, at_upper)
        sample[1, j] = max(at_lower, at_upper)
        sample[2, j] = w
        at_anchor = min(max(anchor, sample[0, j]), sample[1, j])
        sample[3, j] = w * (-m[i] * r if first else at_anchor)
    return sample


@inner
def _sorted_kinks(sample, left, right):
    """The sample's kinks strictly inside (left, right) in order, by Shell's sort."""
    k = sample.shape[1]
    kinks = np.empty(2 * k)
    count = 0
    for row in range(2):
        for j in range(k):
            kinks[count] = sample[row, j]
            count += (left < sample[row, j]) & (sample[row, j] < right)
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for j in range(gap, count):
            kink = kinks[j]
            at = j
            while at >= gap and kinks[at - gap] > kink:
                kinks[at] = kinks[at - gap]
                at -= gap
            kinks[at] = kink
        gap //= 3
    return kinks[:count]


@inner
def _sample_moments(sample, share, t):
    """The sample's estimate of the sum over all live items at t, and its standard error."""
    k = sample.shape[1]
    total = squares = 0.0
    for j in range(k):
        term = sample[2, j] * min(max(t, sample[0, j]), sample[1, j]) - sample[3, j]
        total += term
        squares += term * term
    spread = max(0.0, squares - total * total / k)
    return share * total, (share - 1.0) * np.sqrt(spread)


@inner
def _first_kink_at(kinks, sample, share, anchor, value, slope, target):
    """Index of the first kink at which the estimated sum reaches the target."""
    first, last = 0, kinks.shape[0]
    while first < last:
        middle = (first + last) // 2
        t = kinks[middle]
        estimate = _sample_moments(sample, share, t)[0]
        if value + slope * (t - anchor) + estimate >= target:
            last = middle
        else:
            first = middle + 1
    return first


@jit
def pivots(
    m, inverse, weight, lower, upper, at_anchor, anchor, value, slope, left, right, z, narrow
):
    """Two kinks in [left, right] that probably enclose the crossing, by a sample's own sum.

    There are more than CHUNK live items. They add up to ``at_anchor`` at anchor, which is NaN if
    unknown; settled items add up to ``value + slope (t - anchor)``. If the sample has no suitable
    kink, a pivot is ``left`` or ``right``. Both are the median of the sample's kinks if its sum is
    not reliable (``narrow`` is false) or says nothing.
    """
    first = np.isnan(at_anchor)
    sample = _draw(m, inverse, weight, lower, upper, anchor, first)
    kinks = _sorted_kinks(sample, left, right)
    count = kinks.shape[0]
    if count == 0:
        return left, right
    share = m.shape[0] / sample.shape[1]
    if narrow:
        line = (kinks, sample, share, anchor, value if first else value + at_anchor, slope)
        crossing = min(_first_kink_at(*line, z), count - 1)
        error = _MARGIN * _sample_moments(sample, share, kinks[crossing])[1]
        low = _first_kink_at(*line, z - error) - 1
        high = _first_kink_at(*line, z + error)
        if low >= 0 or high < count:
            return kinks[low] if low >= 0 else left, kinks[high] if high < count else right
    return kinks[count // 2], kinks[count // 2]
