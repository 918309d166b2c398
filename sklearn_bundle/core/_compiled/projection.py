"""Passes of the projection onto a box cut by a hyperplane; its search is in projection.py.

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
