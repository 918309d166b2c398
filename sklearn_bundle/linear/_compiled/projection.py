"""Passes of the projection onto a box cut by a hyperplane; see solvers/multiplier.py.

The problem is ``min 1/2 sum d_i^2 (a_i - m_i)^2`` over ``l <= a <= u``, ``sum sigma_i a_i = z``.
With t the multiplier of the equation and ``r_i = sigma_i/d_i^2`` its solution is
``a_i(t) = clip(m_i + t r_i, l_i, u_i)``, and with ``w_i = sigma_i r_i``

    sigma_i a_i(t) = sigma_i m_i + w_i clip(t, k_i, K_i),

where k_i <= K_i are the kinks at which item i leaves one bound and meets the other. The sum over i
is a nondecreasing piecewise-linear function of t, which has to cross z (Saha, Zhang and
Vishwanathan, 2010, appendix B).
"""

from functools import partial

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, jit

_sums = partial(jit, **SUMS)


@_sums
def crossing(m, ratio, sigma, lower, upper, z):
    """A t with ``sum sigma_i a_i(t) = z`` up to rounding, and how many items all passes have read.

    Newton's method on the sum, which settles the items without a kink between the two sides: they
    are linear there. A kink of a random live item in every third step makes the work linear in the
    mean, however the weights are distributed.
    """
    n = m.shape[0]
    low, high, weight = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        first, second = (lower[i] - m[i]) / ratio[i], (upper[i] - m[i]) / ratio[i]
        low[i], high[i], weight[i] = min(first, second), max(first, second), sigma[i] * ratio[i]
        z -= sigma[i] * m[i]
    settled = slope = t = 0.0  # settled items add up to settled + slope t
    left, right = -np.inf, np.inf
    state, live, read, step = np.uint64(n), n, 0, 0
    while live > 0:
        total = bend = 0.0
        for i in range(live):
            total += weight[i] * min(max(t, low[i]), high[i])
            bend += weight[i] * ((low[i] < t) & (t < high[i]))
        read, step = read + live, step + 1
        error = z - (settled + slope * t + total)
        if error == 0.0:
            return t, read
        left, right = (t, right) if error > 0.0 else (left, t)
        following = t + error / (slope + bend) if slope + bend > 0.0 else np.nan
        count = 0
        for i in range(live):
            if high[i] <= left or low[i] >= right:
                settled += weight[i] * (high[i] if high[i] <= left else low[i])
            elif low[i] <= left and right <= high[i]:
                slope += weight[i]
            else:
                low[count], high[count], weight[count] = low[i], high[i], weight[i]
                count += 1
        live = count
        # after two of Newton's steps a random kink halves the live items
        if live > 0 and (step % 3 == 0 or not left < following < right):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            i = np.int64(state >> np.uint64(33)) % live
            following = low[i] if left < low[i] < right else high[i]
        t = following
    if slope > 0.0:
        return min(max((z - settled) / slope, left), right), read
    return (left if left > -np.inf else right), read  # the sum is the same between both


@_sums
def evaluate(m, ratio, sigma, lower, upper, t, correction, out):
    """``out = a(t + correction)``; returns sum sigma a, sum |sigma a| and the slope in t."""
    total = size = slope = 0.0
    for i in range(m.shape[0]):
        free = (m[i] + t * ratio[i]) + correction * ratio[i]
        a = min(max(free, lower[i]), upper[i])
        out[i] = a
        total += sigma[i] * a
        size += abs(sigma[i] * a)
        slope += ratio[i] * sigma[i] * ((lower[i] < a) & (a < upper[i]))
    return total, size, slope
