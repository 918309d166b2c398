"""Projection onto a box cut by a hyperplane, by selection in O(n) expected time; no sort.

The problem is ``min 1/2 sum d_i^2 (a_i - m_i)^2`` over ``l <= a <= u``, ``sum sigma_i a_i = z``.
With t the multiplier of the equation and ``r_i = sigma_i/d_i^2`` its solution is
``a_i(t) = clip(m_i + t r_i, l_i, u_i)``, and with ``w_i = sigma_i r_i``

    sigma_i a_i(t) = w_i (clip(t, k_i, K_i) + m_i/r_i),

where k_i <= K_i are the kinks at which item i leaves one bound and meets the other. The sum over i
is a nondecreasing piecewise-linear function of t that is to cross z (Saha, Zhang and Vishwanathan,
2010, appendix B). Two kinks of a random sample probably enclose the crossing; after a pass over the
items only those with a kink in between are kept, the others have settled to a line. The paper takes
one pivot, the median; two from a sample (Floyd and Rivest, 1975) need little more than one pass.

m has n entries; r, 1/r, w, l and u have n or, if they are the same for all items, CHUNK: work goes
by chunks of as many items, and every loop over a chunk is one over contiguous memory.
"""

import numpy as np

from sklearn_bundle._jit import jit

CHUNK = 1024  # three arrays of this size fit into the first-level cache
_LEAST_SAMPLE = 24
_MARGIN = 2.0  # standard errors of the sample's sum between a pivot and the crossing
_POLISHES = 10
_ROUNDING = 4e-16


@jit
def _part(x, start, stop):
    """Items from start to stop; no more than CHUNK."""
    return x[start:stop] if x.shape[0] > CHUNK else x[: stop - start]


@jit
def _sum(x):
    """Sum of eight partial sums side by side: vector code, in a fixed order."""
    h = x.shape[0] // 8
    a, b, c, d = x[:h], x[h : 2 * h], x[2 * h : 3 * h], x[3 * h : 4 * h]
    e, f, g, k = x[4 * h : 5 * h], x[5 * h : 6 * h], x[6 * h : 7 * h], x[7 * h : 8 * h]
    total = 0.0
    for j in range(h):
        total += ((a[j] + b[j]) + (c[j] + d[j])) + ((e[j] + f[j]) + (g[j] + k[j]))
    for j in range(8 * h, x.shape[0]):
        total += x[j]
    return total


@jit
def _write_kinks(m, inverse, weight, lower, upper, items, products):
    """Kinks and weights of a chunk; returns the sum of their w m/r.

    A loop writes to one array: LLVM gives up on one that would need many tests for overlap.
    """
    n = m.shape[0]
    low, high, weights = items
    for j in range(n):
        low[j] = (lower[j] - m[j]) * inverse[j]
    for j in range(n):
        high[j] = (upper[j] - m[j]) * inverse[j]
    for j in range(n):
        least = min(low[j], high[j])
        high[j] = max(low[j], high[j])
        low[j] = least
    for j in range(n):
        weights[j] = weight[j]
    for j in range(n):
        products[j] = weight[j] * (m[j] * inverse[j])
    return _sum(products)


@jit
def _fold(items, left, right, anchor, kept_items, kept, products, inside):
    """Append those of a chunk with a kink in (left, right) to the kept ones, settle the others.

    Returns the new number of kept items and the sums of ``w clip(t, low, high)`` over all at anchor,
    over those kept now at anchor and at right, and of their w; then the slope in the bracket of the
    settled ones. One short loop a task: they vectorise, a single one with a branch does not.
    """
    low, high, weights = items
    kept_low, kept_high, kept_weights = kept_items
    n = low.shape[0]
    for j in range(n):
        products[j] = weights[j] * ((low[j] <= left) & (right <= high[j]))
    slope = _sum(products)
    for j in range(n):
        products[j] = weights[j] * min(max(anchor, low[j]), high[j])
    total = _sum(products)
    for j in range(n):
        inside[j] = ((left < low[j]) & (low[j] < right)) | ((left < high[j]) & (high[j] < right))
    at_anchor = at_right = mass = 0.0
    for j in range(n):
        if inside[j]:
            kept_low[kept] = low[j]
            kept_high[kept] = high[j]
            kept_weights[kept] = weights[j]
            at_anchor += products[j]
            at_right += weights[j] * min(max(right, low[j]), high[j])
            mass += weights[j]
            kept += 1
    return kept, (total, at_anchor, at_right, mass, slope)


@jit
def _anchor(left, right):
    """A finite point of the bracket."""
    return left if left > -np.inf else (right if right < np.inf else 0.0)


@jit
def _sample_size(n):
    """As in Floyd and Rivest, n^(2/3) up to a constant: sorting it costs less than a pass."""
    return min(n, max(_LEAST_SAMPLE, int(n ** (2.0 / 3.0) / 3.0)))


@jit
def _draw(j, n, state):
    """The generator's next state, and the j-th index of a sample with an item from each stride."""
    stride = n // _sample_size(n)
    state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return state, j * stride + np.int64(state >> np.uint64(33)) % stride


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
def _pivots(sample, share, mass, anchor, value, slope, left, right, z):
    """Two kinks in [left, right] that probably enclose the crossing, by the sample's own sum.

    Each item of the sample stands for ``share`` items; these have together the weight ``mass``. The
    settled ones add up to ``value + slope (t - anchor)``. A pivot is ``left`` or ``right`` itself
    where the sample has no kink to offer.
    """
    kinks = _sorted_kinks(sample, left, right)
    count = kinks.shape[0]
    if count == 0:
        return left, right
    value += mass * anchor
    crossing = _first_kink_at(kinks, sample, share, anchor, value, slope, z)
    at = min(crossing, count - 1)
    margin = _MARGIN * _sample_moments(sample, share, anchor, kinks[at])[1]
    low = _first_kink_at(kinks, sample, share, anchor, value, slope, z - margin) - 1
    high = _first_kink_at(kinks, sample, share, anchor, value, slope, z + margin)
    if low < 0 and high == count:  # one of them must make progress
        return (left, kinks[at]) if 2 * at < count else (kinks[at], right)
    return kinks[low] if low >= 0 else left, kinks[high] if high < count else right


@jit
def _empty_items(n):
    """Low kinks, high kinks, weights: three arrays, since slices of one would not be contiguous."""
    return np.empty(n), np.empty(n), np.empty(n)


@jit
def _range(items, start, stop):
    return items[0][start:stop], items[1][start:stop], items[2][start:stop]


@jit
def _entry(x, i):
    return x[i] if x.shape[0] > CHUNK else x[i % CHUNK]


@jit
def _draw_items(m, inverse, weight, lower, upper, sample):
    """First sample: rows of kinks, weights and w m/r."""
    state = np.uint64(m.shape[0])
    for j in range(sample.shape[1]):
        state, i = _draw(j, m.shape[0], state)
        r, w = _entry(inverse, i), _entry(weight, i)
        at_lower, at_upper = (_entry(lower, i) - m[i]) * r, (_entry(upper, i) - m[i]) * r
        sample[0, j] = min(at_lower, at_upper)
        sample[1, j] = max(at_lower, at_upper)
        sample[2, j] = w
        sample[3, j] = w * (m[i] * r)


@jit
def _draw_again(items, sample):
    size = items[0].shape[0]
    state = np.uint64(size)
    for j in range(sample.shape[1]):
        state, i = _draw(j, size, state)
        for row in range(3):
            sample[row, j] = items[row][i]
        sample[3, j] = 0.0


@jit
def multiplier(m, inverse, weight, lower, upper, z):
    """A t with ``sum sigma_i a_i(t) = z``, up to the rounding of long sums.

    The equation must have a solution. Each pass over the live items (at first, all) tightens the
    bracket [left, right]; ``value + slope (t - anchor)`` is the sum of those that have settled.
    """
    size = m.shape[0]
    first = True
    left, right = -np.inf, np.inf
    anchor = value = slope = mass = 0.0
    items = kept_items = _empty_items(size)  # pages that are not touched cost nothing
    chunk, products = _empty_items(min(size, CHUNK)), np.empty(min(size, CHUNK))
    inside = np.empty(min(size, CHUNK), dtype=np.bool_)
    while size > 0:
        sample = np.empty((4, _sample_size(size)))
        share = size / sample.shape[1]
        if first:
            _draw_items(m, inverse, weight, lower, upper, sample)
            mass = share * _sum(sample[2])
        else:
            _draw_again(items, sample)
        low, high = _pivots(sample, share, mass, anchor, value, slope, left, right, z)
        here = _anchor(low, high)
        kept = 0
        offset = total = at_here = at_high = new_mass = new_slope = 0.0
        for start in range(0, size, CHUNK):
            stop = min(size, start + CHUNK)
            live, terms = _range(chunk, 0, stop - start), products[: stop - start]
            if first:
                offset += _write_kinks(
                    m[start:stop],
                    _part(inverse, start, stop),
                    _part(weight, start, stop),
                    _part(lower, start, stop),
                    _part(upper, start, stop),
                    live,
                    terms,
                )
            else:
                live = _range(items, start, stop)
            kept, sums = _fold(live, low, high, here, kept_items, kept, terms, inside)
            total += sums[0]
            at_here += sums[1]
            at_high += sums[2]
            new_mass += sums[3]
            new_slope += sums[4]
        before = value + offset + slope * (here - anchor)
        new_slope += slope
        settled = before + (total - at_here)
        if low > left and before + total > z:  # low is here
            right = low
        elif high < right and settled + new_slope * (high - here) + at_high < z:
            left = high
        else:
            left, right, size, mass = low, high, kept, new_mass
            anchor, value, slope = here, settled, new_slope
            items, kept_items = _range(kept_items, 0, kept), _empty_items(kept)
            first = False
    if slope > 0.0:
        return min(max(anchor + (z - value) / slope, left), right)
    return anchor


@jit
def _evaluate(m, ratio, sigma, lower, upper, t, correction, out):
    """``out = a(t + correction)``; returns sum sigma a and sum |sigma a|."""
    total = size = 0.0
    products = np.empty(min(m.shape[0], CHUNK))
    for start in range(0, m.shape[0], CHUNK):
        stop = min(m.shape[0], start + CHUNK)
        points, r = m[start:stop], _part(ratio, start, stop)
        least, largest = _part(lower, start, stop), _part(upper, start, stop)
        a, s = out[start:stop], _part(sigma, start, stop)
        terms = products[: stop - start]
        for j in range(stop - start):
            free = (points[j] + t * r[j]) + correction * r[j]
            a[j] = min(max(free, least[j]), largest[j])
        for j in range(stop - start):
            terms[j] = s[j] * a[j]
        total += _sum(terms)
        for j in range(stop - start):
            terms[j] = abs(terms[j])
        size += _sum(terms)
    return total, size


@jit
def _slope(ratio, sigma, lower, upper, a):
    """Derivative of ``sum sigma a(t)`` in t: the sum of sigma r over what is inside the box."""
    slope = 0.0
    products = np.empty(min(a.shape[0], CHUNK))
    for start in range(0, a.shape[0], CHUNK):
        stop = min(a.shape[0], start + CHUNK)
        least, largest, b = _part(lower, start, stop), _part(upper, start, stop), a[start:stop]
        r, s, terms = _part(ratio, start, stop), _part(sigma, start, stop), products[: stop - start]
        for j in range(stop - start):
            terms[j] = (least[j] < b[j]) & (b[j] < largest[j])
        for j in range(stop - start):
            terms[j] *= r[j] * s[j]
        slope += _sum(terms)
    return slope


@jit
def write_solution(m, ratio, sigma, lower, upper, z, t, out):
    """``out = a(t)``, with t corrected until ``sum sigma_i a_i = z`` to rounding.

    The correction is kept apart from t, whose last digits may be worth more than a.
    """
    correction = 0.0
    for _ in range(_POLISHES):
        total, size = _evaluate(m, ratio, sigma, lower, upper, t, correction, out)
        residual = z - total
        if abs(residual) <= _ROUNDING * (size + abs(z)):
            break
        slope = _slope(ratio, sigma, lower, upper, out)
        if slope == 0.0:
            break
        correction += residual / slope


@jit
def prepare(d, sigma, ratio, inverse, weight):
    """``r = sigma/d^2``, 1/r and ``w = sigma r`` for a chunk of items or for all."""
    step_d = 1 if d.shape[0] == ratio.shape[0] else 0
    step_s = 1 if sigma.shape[0] == ratio.shape[0] else 0
    for i in range(ratio.shape[0]):
        scaled = sigma[i * step_s] / d[i * step_d]
        ratio[i] = scaled / d[i * step_d]
        inverse[i] = 1.0 / ratio[i]
        weight[i] = scaled * scaled


@jit
def first_fault(m, d, sigma, lower, upper):
    """Index of the first item that breaks a rule, or -1: see sklearn_bundle.projection.project."""
    for start in range(0, m.shape[0], CHUNK):
        stop = min(m.shape[0], start + CHUNK)
        points, least, largest = m[start:stop], _part(lower, start, stop), _part(upper, start, stop)
        scales, normals = _part(d, start, stop), _part(sigma, start, stop)
        good = 0
        for j in range(stop - start):
            good += (abs(points[j]) < np.inf) & (least[j] <= largest[j])
        for j in range(stop - start):
            good += (least[j] < np.inf) & (largest[j] > -np.inf)
        for j in range(stop - start):
            good += (abs(scales[j]) < np.inf) & (scales[j] != 0.0)
        for j in range(stop - start):
            good += (abs(normals[j]) < np.inf) & (normals[j] != 0.0)
        if good == 4 * (stop - start):
            continue
        for j in range(stop - start):
            sound = (abs(points[j]) < np.inf) & (least[j] <= largest[j])
            sound &= (least[j] < np.inf) & (largest[j] > -np.inf)
            sound &= (abs(scales[j]) < np.inf) & (scales[j] != 0.0)
            sound &= (abs(normals[j]) < np.inf) & (normals[j] != 0.0)
            if not sound:
                return start + j
    return -1


@jit
def attainable(sigma, lower, upper, n):
    """Least and largest ``sum sigma a`` of n items in the box, and the same of absolute values."""
    least = largest = least_size = largest_size = 0.0
    lows, highs = np.empty(min(n, CHUNK)), np.empty(min(n, CHUNK))
    for start in range(0, n, CHUNK):
        stop = min(n, start + CHUNK)
        low, high, s = lows[: stop - start], highs[: stop - start], _part(sigma, start, stop)
        at_lower, at_upper = _part(lower, start, stop), _part(upper, start, stop)
        for j in range(stop - start):
            low[j] = min(s[j] * at_lower[j], s[j] * at_upper[j])
        for j in range(stop - start):
            high[j] = max(s[j] * at_lower[j], s[j] * at_upper[j])
        least += _sum(low)
        largest += _sum(high)
        for j in range(stop - start):
            low[j], high[j] = abs(low[j]), abs(high[j])
        least_size += _sum(low)
        largest_size += _sum(high)
    return least, largest, least_size, largest_size
