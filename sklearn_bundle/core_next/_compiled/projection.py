"""Passes of the projection onto a box cut by a hyperplane; see core/numeric/multiplier.py.

The problem is ``min 1/2 sum d_i^2 (a_i - m_i)^2`` over ``l <= a <= u``, ``sum sigma_i a_i = z``.
With t the multiplier of the equation and ``r_i = sigma_i/d_i^2`` its solution is
``a_i(t) = clip(m_i + t r_i, l_i, u_i)``, and with ``w_i = sigma_i r_i``

    sigma_i a_i(t) = w_i (clip(t, k_i, K_i) + m_i/r_i),

where k_i <= K_i are the kinks at which item i leaves one bound and meets the other. The sum over i
is a nondecreasing piecewise-linear function of t, which has to cross z (Saha, Zhang and
Vishwanathan, 2010, appendix B).

m has n entries; r, 1/r, w, l and u have n or, if they are the same for all items, CHUNK, the number
of items in a chunk of work. Each task is one short loop over contiguous memory with one output:
such loops become vector code. The decisions and the outer loops are Python, since inlining all in
one large function takes LLVM many seconds.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit

CHUNK = 1024  # a few arrays of this size fit into the first-level cache
_STEPS = 300  # of Newton's method; far more than any case has needed
_MARGIN = 2.0  # standard errors between a pivot and the crossing: one pivot in twenty misses


@inner
def part(x, start, stop):
    """Items from start to stop, at most CHUNK."""
    return x[start:stop] if x.shape[0] > CHUNK else x[: stop - start]


@inner
def blocked_sum(x):
    """Sum of four partial sums side by side: vector code, in a fixed order."""
    h = x.shape[0] // 4
    a, b, c, d = x[:h], x[h : 2 * h], x[2 * h : 3 * h], x[3 * h : 4 * h]
    total = 0.0
    for j in range(h):
        total += (a[j] + b[j]) + (c[j] + d[j])
    for j in range(4 * h, x.shape[0]):
        total += x[j]
    return total


@jit
def fold(m, inverse, weight, lower, upper, left, right, anchor, kept):
    """Settle all items without a kink in (left, right); write the indices of the others.

    Returns their number, the sum of sigma a(t) over all items at anchor, over the kept ones at
    anchor and at right, and the slope of the settled ones, which are linear in between.
    """
    n = m.shape[0]
    size = min(n, CHUNK)
    lows, highs, terms = np.empty(size), np.empty(size), np.empty(size)
    inside = np.empty(size, dtype=np.bool_)
    count = 0
    total = kept_anchor = kept_right = slope = 0.0
    for start in range(0, n, CHUNK):
        stop = min(n, start + CHUNK)
        size = stop - start
        points, r, w = m[start:stop], part(inverse, start, stop), part(weight, start, stop)
        least, largest = part(lower, start, stop), part(upper, start, stop)
        low, high, term = lows[:size], highs[:size], terms[:size]
        for j in range(size):
            low[j] = (least[j] - points[j]) * r[j]
        for j in range(size):
            high[j] = (largest[j] - points[j]) * r[j]
        for j in range(size):
            smaller = min(low[j], high[j])
            high[j] = max(low[j], high[j])
            low[j] = smaller
        for j in range(size):
            term[j] = w[j] * ((low[j] <= left) & (right <= high[j]))
        slope += blocked_sum(term)
        for j in range(size):
            term[j] = w[j] * (min(max(anchor, low[j]), high[j]) + points[j] * r[j])
        total += blocked_sum(term)
        for j in range(size):
            inside[j] = ((left < low[j]) & (low[j] < right)) | (
                (left < high[j]) & (high[j] < right)
            )
        for j in range(size):
            if inside[j]:
                kept[count] = start + j
                kept_anchor += term[j]
                kept_right += w[j] * (min(max(right, low[j]), high[j]) + points[j] * r[j])
                count += 1
    return count, total, kept_anchor, kept_right, slope


@jit
def evaluate(m, ratio, sigma, lower, upper, t, correction, out):
    """``out = a(t + correction)``; returns sum sigma a, sum |sigma a| and the slope in t."""
    total = size = slope = 0.0
    terms = np.empty(min(m.shape[0], CHUNK))
    for start in range(0, m.shape[0], CHUNK):
        stop = min(m.shape[0], start + CHUNK)
        points, r, s = m[start:stop], part(ratio, start, stop), part(sigma, start, stop)
        least, largest = part(lower, start, stop), part(upper, start, stop)
        a, term = out[start:stop], terms[: stop - start]
        for j in range(stop - start):
            free = (points[j] + t * r[j]) + correction * r[j]
            a[j] = min(max(free, least[j]), largest[j])
        for j in range(stop - start):
            term[j] = s[j] * a[j]
        total += blocked_sum(term)
        for j in range(stop - start):
            term[j] = abs(term[j])
        size += blocked_sum(term)
        for j in range(stop - start):
            term[j] = (r[j] * s[j]) * ((least[j] < a[j]) & (a[j] < largest[j]))
        slope += blocked_sum(term)
    return total, size, slope


@jit
def crossing(m, inverse, weight, lower, upper, anchor, value, slope, left, right, z):
    """The t in [left, right] where at most CHUNK items and the settled ones add up to z.

    Newton's method on the piecewise-linear sum, with a bisection in every fourth step, needs only a
    few passes.
    """
    n = m.shape[0]
    low, high, terms = np.empty(n), np.empty(n), np.empty(n)
    first, last = np.inf, -np.inf  # kinks
    for j in range(n):
        at_lower, at_upper = (lower[j] - m[j]) * inverse[j], (upper[j] - m[j]) * inverse[j]
        low[j] = min(at_lower, at_upper)
        high[j] = max(at_lower, at_upper)
        first = min(first, low[j] if low[j] > -np.inf else high[j])
        last = max(last, high[j] if high[j] < np.inf else low[j])
    t = min(max(0.0, left), right)
    if first <= last:
        t = min(max(0.5 * first + 0.5 * last, left), right)
    for step in range(_STEPS):
        for j in range(n):
            terms[j] = weight[j] * (min(max(t, low[j]), high[j]) + m[j] * inverse[j])
        error = z - (value + slope * (t - anchor) + blocked_sum(terms))
        for j in range(n):
            terms[j] = weight[j] * ((low[j] < t) & (t < high[j]))
        bend = slope + blocked_sum(terms)
        if error == 0.0:
            return t
        left, right = (t, right) if error > 0.0 else (left, t)
        following = t + error / bend if bend > 0.0 else np.nan
        if step % 4 == 3 or not left < following < right:
            start, end = max(left, min(first, right)), min(right, max(last, left))
            middle = 0.5 * start + 0.5 * end
            if left < middle < right:
                following = middle
        if not left < following < right:
            break
        if following == t:
            break
        t = following
    return t


@jit
def prepare(d, sigma, ratio, inverse, weight):
    """``r = sigma/d^2``, 1/r and ``w = sigma r``.

    Returns the first item for which one of these is not a usable number, or -1.
    """
    step_d = 1 if d.shape[0] == ratio.shape[0] else 0
    step_s = 1 if sigma.shape[0] == ratio.shape[0] else 0
    good = 0
    for i in range(ratio.shape[0]):
        scaled = sigma[i * step_s] / d[i * step_d]
        ratio[i] = scaled / d[i * step_d]
        inverse[i] = 1.0 / ratio[i]
        weight[i] = scaled * scaled
    for i in range(ratio.shape[0]):
        good += (abs(ratio[i]) < np.inf) & (abs(inverse[i]) < np.inf)
    for i in range(ratio.shape[0]):
        good += (weight[i] < np.inf) & (weight[i] > 0.0)
    if good == 2 * ratio.shape[0]:
        return -1
    for i in range(ratio.shape[0]):
        finite = (abs(ratio[i]) < np.inf) & (abs(inverse[i]) < np.inf)
        if not (finite & (weight[i] < np.inf) & (weight[i] > 0.0)):
            return i
    return -1


@inner
def _is_sound(m, d, sigma, lower, upper):
    finite = (abs(m) < np.inf) & (abs(d) < np.inf) & (abs(sigma) < np.inf)
    box = (lower <= upper) & (lower < np.inf) & (upper > -np.inf)
    return finite & box & (d != 0.0) & (sigma != 0.0)


@jit
def first_fault(m, d, sigma, lower, upper):
    """Index of the first item that breaks a rule of sklearn_bundle.projection.project, or -1."""
    for start in range(0, m.shape[0], CHUNK):
        stop = min(m.shape[0], start + CHUNK)
        points, scales, normals = m[start:stop], part(d, start, stop), part(sigma, start, stop)
        least, largest = part(lower, start, stop), part(upper, start, stop)
        good = 0
        for j in range(stop - start):
            good += _is_sound(points[j], scales[j], normals[j], least[j], largest[j])
        if good == stop - start:
            continue
        for j in range(stop - start):
            if not _is_sound(points[j], scales[j], normals[j], least[j], largest[j]):
                return start + j
    return -1


@jit
def attainable(sigma, lower, upper, n):
    """Smallest and largest ``sum sigma a`` of n items in the box, and of absolute values."""
    least = largest = least_size = largest_size = 0.0
    lows, highs = np.empty(min(n, CHUNK)), np.empty(min(n, CHUNK))
    for start in range(0, n, CHUNK):
        stop = min(n, start + CHUNK)
        low, high, s = lows[: stop - start], highs[: stop - start], part(sigma, start, stop)
        at_lower, at_upper = part(lower, start, stop), part(upper, start, stop)
        for j in range(stop - start):
            low[j] = min(s[j] * at_lower[j], s[j] * at_upper[j])
        for j in range(stop - start):
            high[j] = max(s[j] * at_lower[j], s[j] * at_upper[j])
        least += blocked_sum(low)
        largest += blocked_sum(high)
        for j in range(stop - start):
            low[j], high[j] = abs(low[j]), abs(high[j])
        least_size += blocked_sum(low)
        largest_size += blocked_sum(high)
    return least, largest, least_size, largest_size


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
