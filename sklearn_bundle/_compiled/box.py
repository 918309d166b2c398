"""A box and a hyperplane as the caller gives them: checks, and what the projection needs of them.

As in ``projection.py``, an array has an entry an item or CHUNK equal ones.
"""

import numpy as np

from sklearn_bundle._compiled.projection import CHUNK, blocked_sum, part
from sklearn_bundle._jit import jit


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
        points, least, largest = m[start:stop], part(lower, start, stop), part(upper, start, stop)
        scales, normals = part(d, start, stop), part(sigma, start, stop)
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
