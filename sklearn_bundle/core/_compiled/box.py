"""Checks a box and a hyperplane as the caller gives them, and prepares them for the projection.

As in ``projection.py``, an array has one entry per item, or CHUNK equal ones for all items.
"""

import numpy as np

from sklearn_bundle.core._compiled.projection import CHUNK, blocked_sum, part
from sklearn_bundle.jit.decorators import inner, jit


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
