"""The projection onto a box cut by a hyperplane, on checked arrays; see _compiled/projection.py."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear._compiled import projection

Array = NDArray[np.float64]

FEASIBILITY = 1e-12  # error of the equation over the sum of its terms' sizes, as project() promises
_ROUNDING = 4e-16  # of a sum, relative to that of the absolute values: two units in the last place


def projected(
    m: Array, ratio: Array, sigma: Array, lower: Array, upper: Array, z: float
) -> tuple[Array, float]:
    """The projection, and the residual of its equation relative to ``sum |sigma_i a_i|``.

    ``ratio`` is sigma_i/d_i^2. All arrays have one entry per item, and the equation a solution. The
    multiplier t is corrected by Newton's steps on the sum of the a_i themselves. The correction is
    kept apart from t, whose last digits may change a by more than a itself.
    """
    if max(float(np.abs(m).max(initial=0.0)), abs(z)) > 1e300:  # their sums may overflow
        down = 2.0**-64
        a, left = projected(down * m, ratio, sigma, down * lower, down * upper, down * z)
        return a / down, left
    items = m, ratio, sigma, lower, upper
    t, _ = projection.crossing(*items, z)
    a, correction, before = np.empty(len(m)), 0.0, np.inf
    # one or two are usually enough
    for _ in range(10):
        total, size, slope = projection.evaluate(*items, t, correction, a)
        left = abs(z - total)
        # Where no step gains, what is left is rounding of long sums, which are in any order.
        # so few items have no more rounding than that
        exact = _ROUNDING * (1.0 if left < before else max(1.0, len(m) / 4096))
        if left <= exact * (size + abs(z)) < np.inf:
            return a, left / max(size + abs(z), TINY)
        before = left
        if slope == 0.0:
            break
        correction += (z - total) / slope
    return _between(items, z, t, a)


def _between(items: tuple, z: float, t: float, a: Array) -> tuple[Array, float]:
    """If Newton's steps fail: enclose the crossing and end between its two sides.

    Floating-point numbers t may be too coarse to resolve the crossing. A convex combination of the
    points on both sides is nevertheless in the box and on the hyperplane.
    """

    def total(t: float) -> float:
        return projection.evaluate(*items, t, 0.0, a)[0]

    ends = [t, t]
    for k, sign in enumerate((-1.0, 1.0)):
        step = max(abs(t), TINY) * _ROUNDING
        # beyond it, no longer step is tried
        while sign * (total(ends[k]) - z) < 0.0 and abs(ends[k]) < 1e300:
            ends[k], step = ends[k] + sign * step, 4.0 * step
    low, high = ends
    while low < (middle := 0.5 * low + 0.5 * high) < high:  # until no number is between them
        low, high = (middle, high) if total(middle) <= z else (low, middle)
    below, size, _ = projection.evaluate(*items, low, 0.0, a)
    first = a.copy()
    above = total(high)
    share = min(max((z - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    between = np.clip((1.0 - share) * first + share * a, np.minimum(first, a), np.maximum(first, a))
    residual = abs(z - below - share * (above - below))
    return between, residual / max(size + abs(z), TINY)
