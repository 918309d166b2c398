"""Two pivots from a random sample, for a sum of clipped lines that is to cross a value."""

import numpy as np

from sklearn_bundle._jit import jit

_LEAST_SAMPLE = 24
_MARGIN = 2.0  # standard errors between a pivot and the crossing: one in twenty misses


@jit
def _sample_size(n):
    """As in Floyd and Rivest, n^(2/3) up to a constant: sorting it costs less than a pass."""
    return min(n, max(_LEAST_SAMPLE, int(n ** (2.0 / 3.0) / 3.0)))


@jit
def draw(n):
    """Indices of a random sample of n items: one from each stride. The same ones for the same n."""
    indices = np.empty(_sample_size(n), dtype=np.int64)
    stride = n // indices.shape[0]
    state = np.uint64(n)
    for j in range(indices.shape[0]):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        indices[j] = j * stride + np.int64(state >> np.uint64(33)) % stride
    return indices


@jit
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


@jit
def _sample_moments(sample, share, anchor, t):
    """The sample's estimate of ``sum w (clip(t, low, high) - anchor) + offset``, and its error."""
    k = sample.shape[1]
    total = squares = 0.0
    for j in range(k):
        term = sample[2, j] * (min(max(t, sample[0, j]), sample[1, j]) - anchor) + sample[3, j]
        total += term
        squares += term * term
    spread = max(0.0, squares - total * total / k)
    return share * total, (share - 1.0) * np.sqrt(spread)


@jit
def _first_kink_at(kinks, sample, share, mass, line, target):
    """Index of the first kink at which the estimated sum reaches the target."""
    anchor, value, slope = line
    first, last = 0, kinks.shape[0]
    while first < last:
        middle = (first + last) // 2
        t = kinks[middle]
        estimate = mass * anchor + _sample_moments(sample, share, anchor, t)[0]
        if value + slope * (t - anchor) + estimate >= target:
            last = middle
        else:
            first = middle + 1
    return first


@jit
def pivots(sample, size, mass, line, bracket, z, narrow):
    """Two kinks in the bracket that probably enclose the crossing, by the sample's own sum.

    ``size`` items have together the weight ``mass``; what has settled is the ``line``. A pivot is
    an end of the bracket where the sample has no kink to offer. Both are the median of the sample's
    kinks if its sum is not to be relied on (``narrow`` is false) or tells nothing.
    """
    left, right = bracket
    kinks = _sorted_kinks(sample, left, right)
    count = kinks.shape[0]
    if count == 0:
        return left, right
    share = size / sample.shape[1]
    complete = sample.shape[1] == size
    if narrow or complete:
        crossing = min(_first_kink_at(kinks, sample, share, mass, line, z), count - 1)
        error = _MARGIN * _sample_moments(sample, share, line[0], kinks[crossing])[1]
        low = _first_kink_at(kinks, sample, share, mass, line, z - error) - 1
        high = _first_kink_at(kinks, sample, share, mass, line, z + error)
        if complete or low >= 0 or high < count:
            return kinks[low] if low >= 0 else left, kinks[high] if high < count else right
    return kinks[count // 2], kinks[count // 2]
