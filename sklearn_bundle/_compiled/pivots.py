"""Two pivots from a random sample, for a sum of clipped lines that is to cross a value."""

import numpy as np

from sklearn_bundle._jit import jit

_LEAST_SAMPLE = 24


@jit
def _sample_size(n):
    """As in Floyd and Rivest, n^(2/3) up to a constant: sorting it costs less than a pass."""
    return min(n, max(_LEAST_SAMPLE, int(n ** (2.0 / 3.0) / 3.0)))


@jit
def draw(n, seed):
    """Indices of a sample: one from each stride."""
    indices = np.empty(_sample_size(n), dtype=np.int64)
    stride = n // indices.shape[0]
    state = np.uint64(n + seed)
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
def _first_kink_at(kinks, sample, share, anchor, value, slope, target):
    """Index of the first kink at which the estimated sum reaches the target."""
    first, last = 0, kinks.shape[0]
    while first < last:
        middle = (first + last) // 2
        t = kinks[middle]
        estimate = _sample_moments(sample, share, anchor, t)[0]
        if value + slope * (t - anchor) + estimate >= target:
            last = middle
        else:
            first = middle + 1
    return first


@jit
def pivots(sample, share, mass, anchor, value, slope, left, right, z, margin):
    """Two kinks in [left, right] that probably enclose the crossing, by the sample's own sum.

    Each item of the sample stands for ``share`` items; these have together the weight ``mass``. The
    settled ones add up to ``value + slope (t - anchor)``. A pivot is ``left`` or ``right`` itself
    where the sample has no kink to offer. ``margin`` is in standard errors of the sample's sum.
    """
    kinks = _sorted_kinks(sample, left, right)
    count = kinks.shape[0]
    if count == 0:
        return left, right
    value += mass * anchor
    crossing = _first_kink_at(kinks, sample, share, anchor, value, slope, z)
    at = min(crossing, count - 1)
    error = margin * _sample_moments(sample, share, anchor, kinks[at])[1]
    low = _first_kink_at(kinks, sample, share, anchor, value, slope, z - error) - 1
    high = _first_kink_at(kinks, sample, share, anchor, value, slope, z + error)
    if low < 0 and high == count:  # one of them must make progress
        return (left, kinks[at]) if 2 * at < count else (kinks[at], right)
    return kinks[low] if low >= 0 else left, kinks[high] if high < count else right
