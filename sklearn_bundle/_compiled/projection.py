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

from sklearn_bundle._compiled.pivots import draw, pivots
from sklearn_bundle._jit import jit

CHUNK = 1024  # three arrays of this size fit into the first-level cache
_NEWTON_STEPS = 10  # one or two as a rule
_ROUNDING = 4e-16  # of a sum, relative to that of the absolute values: two units in the last place
_HALVINGS = 300
_LARGEST = 1e300
_TINY = 1e-300


@jit
def part(x, start, stop):
    """Items from start to stop; no more than CHUNK."""
    return x[start:stop] if x.shape[0] > CHUNK else x[: stop - start]


@jit
def blocked_sum(x):
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
    return blocked_sum(products)


@jit
def _fold(items, left, right, anchor, kept_items, kept, products, inside):
    """Append those of a chunk with a kink in (left, right) to the kept ones, settle the others.

    Returns the new number of kept items and sums of ``w clip(t, low, high)``: over all at anchor,
    over those kept now at anchor and at right, and of their w; then the slope in the bracket of the
    settled ones. One short loop a task: they vectorise, a single one with a branch does not.
    """
    low, high, weights = items
    kept_low, kept_high, kept_weights = kept_items
    n = low.shape[0]
    for j in range(n):
        products[j] = weights[j] * ((low[j] <= left) & (right <= high[j]))
    slope = blocked_sum(products)
    for j in range(n):
        products[j] = weights[j] * min(max(anchor, low[j]), high[j])
    total = blocked_sum(products)
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
def _sample_of_all(m, inverse, weight, lower, upper, indices):
    """Rows of kinks, weights and w m/r."""
    sample = np.empty((4, indices.shape[0]))
    for j in range(indices.shape[0]):
        i = indices[j]
        r, w = _entry(inverse, i), _entry(weight, i)
        at_lower, at_upper = (_entry(lower, i) - m[i]) * r, (_entry(upper, i) - m[i]) * r
        sample[0, j] = min(at_lower, at_upper)
        sample[1, j] = max(at_lower, at_upper)
        sample[2, j] = w
        sample[3, j] = w * (m[i] * r)
    return sample


@jit
def _sample_of_kept(items, indices):
    sample = np.zeros((4, indices.shape[0]))
    for row in range(3):
        for j in range(indices.shape[0]):
            sample[row, j] = items[row][indices[j]]
    return sample


@jit
def _fold_first(m, inverse, weight, lower, upper, bracket, kept_items):
    """First pass, over all items; returns what ``_fold`` does, with the sum of w m/r added."""
    n = m.shape[0]
    left, right = bracket
    chunk, products = _empty_items(min(n, CHUNK)), np.empty(min(n, CHUNK))
    inside = np.empty(min(n, CHUNK), dtype=np.bool_)
    kept = 0
    total = offset = at_anchor = at_right = mass = slope = 0.0
    for start in range(0, n, CHUNK):
        stop = min(n, start + CHUNK)
        items, terms = _range(chunk, 0, stop - start), products[: stop - start]
        offset += _write_kinks(
            m[start:stop],
            part(inverse, start, stop),
            part(weight, start, stop),
            part(lower, start, stop),
            part(upper, start, stop),
            items,
            terms,
        )
        anchor = _anchor(left, right)
        kept, sums = _fold(items, left, right, anchor, kept_items, kept, terms, inside)
        total += sums[0]
        at_anchor += sums[1]
        at_right += sums[2]
        mass += sums[3]
        slope += sums[4]
    return kept, (total + offset, at_anchor, at_right, mass, slope)


@jit
def _fold_kept(items, bracket, kept_items):
    """A later pass, over the kept items."""
    size = items[0].shape[0]
    left, right = bracket
    spare, inside = np.empty(size), np.empty(size, dtype=np.bool_)
    anchor = _anchor(left, right)
    return _fold(items, left, right, anchor, kept_items, 0, spare, inside)


@jit
def _side(tried, bracket, line, sums, z):
    """Whether the crossing lies below (-1), in (0) or above (1) the bracket that was tried."""
    low, high = tried
    anchor, value, slope = line
    total, at_here, at_high, _, new_slope = sums
    here = _anchor(low, high)
    value += (
        slope * (here - anchor) + total
    )  # the whole sum at here, which is low if that is finite
    if low > bracket[0] and value > z:
        return -1
    at_end = value - at_here + (slope + new_slope) * (high - here) + at_high
    if high < bracket[1] and at_end < z:
        return 1
    return 0


@jit
def multiplier(m, inverse, weight, lower, upper, z):
    """A t with ``sum sigma_i a_i(t) = z``, up to the rounding of long sums.

    The equation must have a solution. Each round tries a narrow bracket with a pass over the live
    items (at first, all). Where the crossing is not inside, a second pass settles the side that it
    is not on, and from then on the pivot is the median: however the weights are distributed,
    the live kinks halve with every round.

    A line is (anchor, value, slope): what has settled adds up to ``value + slope (t - anchor)``.
    """
    bracket = -np.inf, np.inf
    line = 0.0, 0.0, 0.0
    size, mass = m.shape[0], 0.0
    first, narrow = True, True
    items = _empty_items(0)
    kept_items = _empty_items(size)  # pages that are not touched cost nothing
    while size > 0:
        indices = draw(size)
        if first:
            sample = _sample_of_all(m, inverse, weight, lower, upper, indices)
            mass = size / indices.shape[0] * blocked_sum(sample[2])
        else:
            sample = _sample_of_kept(items, indices)
        tried = pivots(sample, size, mass, line, bracket, z, narrow)
        for _ in range(2):
            if first:
                kept, sums = _fold_first(m, inverse, weight, lower, upper, tried, kept_items)
            else:
                kept, sums = _fold_kept(items, tried, kept_items)
            side = _side(tried, bracket, line, sums, z)
            if side == 0:
                break
            narrow = False
            bracket = (bracket[0], tried[0]) if side < 0 else (tried[1], bracket[1])
            tried = bracket
        bracket = tried
        here = _anchor(bracket[0], bracket[1])
        total, at_here, _, mass, slope = sums
        line = here, line[1] + line[2] * (here - line[0]) + (total - at_here), line[2] + slope
        items, kept_items = _range(kept_items, 0, kept), _empty_items(kept)
        size, first = kept, False
    anchor, value, slope = line
    if slope > 0.0:
        return min(max(anchor + (z - value) / slope, bracket[0]), bracket[1])
    return anchor


@jit
def _evaluate(m, ratio, sigma, lower, upper, t, correction, out):
    """``out = a(t + correction)``; returns sum sigma a and sum |sigma a|."""
    total = size = 0.0
    products = np.empty(min(m.shape[0], CHUNK))
    for start in range(0, m.shape[0], CHUNK):
        stop = min(m.shape[0], start + CHUNK)
        points, r = m[start:stop], part(ratio, start, stop)
        least, largest = part(lower, start, stop), part(upper, start, stop)
        a, s = out[start:stop], part(sigma, start, stop)
        terms = products[: stop - start]
        for j in range(stop - start):
            free = (points[j] + t * r[j]) + correction * r[j]
            a[j] = min(max(free, least[j]), largest[j])
        for j in range(stop - start):
            terms[j] = s[j] * a[j]
        total += blocked_sum(terms)
        for j in range(stop - start):
            terms[j] = abs(terms[j])
        size += blocked_sum(terms)
    return total, size


@jit
def _slope(ratio, sigma, lower, upper, a):
    """Derivative of ``sum sigma a(t)`` in t: the sum of sigma r over what is inside the box."""
    slope = 0.0
    products = np.empty(min(a.shape[0], CHUNK))
    for start in range(0, a.shape[0], CHUNK):
        stop = min(a.shape[0], start + CHUNK)
        least, largest, b = part(lower, start, stop), part(upper, start, stop), a[start:stop]
        r, s, terms = part(ratio, start, stop), part(sigma, start, stop), products[: stop - start]
        for j in range(stop - start):
            terms[j] = (least[j] < b[j]) & (b[j] < largest[j])
        for j in range(stop - start):
            terms[j] *= r[j] * s[j]
        slope += blocked_sum(terms)
    return slope


@jit
def write_solution(m, ratio, sigma, lower, upper, z, t, out):
    """``out = a(t)`` with t corrected until ``sum sigma_i a_i = z`` to rounding.

    The correction is kept apart from t, whose last digits may be worth more than a. Returns what is
    left of the equation, by the sum of the ``|sigma_i a_i|``.
    """
    correction = 0.0
    for _ in range(_NEWTON_STEPS):
        total, size = _evaluate(m, ratio, sigma, lower, upper, t, correction, out)
        residual = z - total
        if abs(residual) <= _ROUNDING * (size + abs(z)):
            return abs(residual) / max(size + abs(z), _TINY)
        slope = _slope(ratio, sigma, lower, upper, out)
        if slope == 0.0:
            break
        correction += residual / slope
    return _write_between(m, ratio, sigma, lower, upper, z, t, out)


@jit
def _write_between(m, ratio, sigma, lower, upper, z, t, out):
    """Where Newton's steps fail: encloses the crossing and ends between its two sides.

    Near a crossing that floating-point numbers t cannot tell apart, a convex combination of the
    points on both sides is in the box and on the hyperplane, whatever the digits of t are worth.
    """
    other = np.empty_like(out)
    low = high = t
    below = above = _evaluate(m, ratio, sigma, lower, upper, t, 0.0, out)[0]
    step = max(abs(t), _TINY) * _ROUNDING
    while below > z and low > -_LARGEST:
        low, step = low - step, 4.0 * step
        below = _evaluate(m, ratio, sigma, lower, upper, low, 0.0, out)[0]
    while above < z and high < _LARGEST:
        high, step = high + step, 4.0 * step
        above = _evaluate(m, ratio, sigma, lower, upper, high, 0.0, out)[0]
    for k in range(_HALVINGS):
        if not below < z < above:
            break
        middle = 0.5 * low + 0.5 * high
        if k % 2 == 0:
            middle = low + (high - low) * ((z - below) / (above - below))
        if not low < middle < high:
            middle = 0.5 * low + 0.5 * high
            if not low < middle < high:
                break
        total = _evaluate(m, ratio, sigma, lower, upper, middle, 0.0, out)[0]
        if total <= z:
            low, below = middle, total
        else:
            high, above = middle, total
    below, size = _evaluate(m, ratio, sigma, lower, upper, low, 0.0, out)
    above = _evaluate(m, ratio, sigma, lower, upper, high, 0.0, other)[0]
    share = min(max((z - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    for i in range(out.shape[0]):
        out[i] = min(
            max((1.0 - share) * out[i] + share * other[i], min(out[i], other[i])),
            max(out[i], other[i]),
        )
    size += abs(z)
    return abs(z - below - share * (above - below)) / max(size, _TINY)
