"""The zero of a nondecreasing piecewise-linear function, by selection in O(n) expected time.

Exact line searches and exact intercepts of piecewise losses have this form. Nothing is sorted.
"""

import numpy as np

from sklearn_bundle.jit import vector
from sklearn_bundle.jit.decorators import inner, jit


@inner
def _sampled_bracket(kinks, jumps, bends, size, p, q, slack):
    """Two kinks that probably enclose the zero, from a sorted sample (Floyd and Rivest, 1975)."""
    m = min(size, 64 if size < 8192 else 128)
    margin = 0 if size == m else (7 if m == 64 else 9)  # about twice the spread of a sampled rank
    stride = size // m
    order = np.empty(m, dtype=np.int64)
    for k in range(m):
        i = k * stride
        at = k
        while at > 0 and kinks[order[at - 1]] > kinks[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    scale = size / m
    crossing = m - 1
    for k in range(m):
        i = order[k]
        p += scale * jumps[i]
        q += scale * bends[i]
        if p + q * kinks[i] >= -slack:
            crossing = k
            break
    low = kinks[order[max(0, crossing - margin)]]
    high = kinks[order[min(m - 1, crossing + margin)]]
    return low, high


@inner
def _sum_up_to(kinks, heights, size, low, high):
    """Sums of heights over kinks <= low and over kinks <= high."""
    at_low = at_high = vector.splat(0.0)
    head = size - size % vector.WIDTH
    for i in range(0, head, vector.WIDTH):
        t, a = vector.load(kinks, i), vector.load(heights, i)
        at_low = vector.plus(at_low, vector.where_at_most(t, vector.splat(low), a))
        at_high = vector.plus(at_high, vector.where_at_most(t, vector.splat(high), a))
    to_low, to_high = vector.total(at_low), vector.total(at_high)
    for i in range(head, size):
        to_low += heights[i] * (kinks[i] <= low)
        to_high += heights[i] * (kinks[i] <= high)
    return to_low, to_high


@jit
def first_crossing(kinks, jumps, bends, size, p, q, slack):
    """Smallest t with ``F(t) >= -slack``, F right-continuous and nondecreasing,

    ``F(t) = p + q t + sum of (jumps[i] + bends[i] t) over kinks[i] <= t``.

    Kinks are finite; the three arrays are overwritten. Infinite if F stays negative, minus
    infinity if F has no slope at its left end and is not negative there.
    """
    lower = -np.inf
    upper = np.inf
    while size > 0:
        low, high = _sampled_bracket(kinks, jumps, bends, size, p, q, slack)
        p_low, p_high = _sum_up_to(kinks, jumps, size, low, high)
        q_low, q_high = _sum_up_to(kinks, bends, size, low, high)
        if p + p_low + (q + q_low) * low >= -slack:
            upper = low
        elif p + p_high + (q + q_high) * high >= -slack:
            lower, upper = low, high
            p += p_low
            q += q_low
        else:
            lower = high
            p += p_high
            q += q_high
        kept = 0
        for i in range(size):
            t = kinks[i]
            kinks[kept] = t
            jumps[kept] = jumps[i]
            bends[kept] = bends[i]
            kept += (lower < t) & (t < upper)
        size = kept
        p_left, q_left = p, q  # F just below ``upper``
        for i in range(size):
            p_left += jumps[i]
            q_left += bends[i]
        if upper < np.inf and p_left + q_left * upper < -slack:
            return upper
    if q > 0.0:
        return min(max((-slack - p) / q, lower), upper)
    return lower if p >= -slack else upper
