"""The multiplier of a projection onto a box cut by a hyperplane, on checked arrays."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core_next._compiled import projection
from sklearn_bundle.core_next.limits import TINY
from sklearn_bundle.jit.decorators import frozen

Array = NDArray[np.float64]

_LARGEST = 1e300  # a multiplier: beyond it, no longer step is tried
FEASIBILITY = 1e-12  # error of the equation over the sum of its terms' sizes, as project() promises
_NEWTON_STEPS = 10  # one or two are usually enough
_ROUNDING = 4e-16  # of a sum, relative to that of the absolute values: two units in the last place
_HALVINGS = 300  # steps between the two sides, alternating secants and halvings: a safety limit


def ratios(d: Array, sigma: Array, n: int) -> tuple[int, Array, Array, Array]:
    """The first item where ``r = sigma/d^2``, 1/r or w cannot be used, or -1; then r, 1/r, w."""
    size = n if n in (len(d), len(sigma)) else projection.CHUNK
    ratio, inverse, weight = np.empty(size), np.empty(size), np.empty(size)
    fault = projection.prepare(d, sigma, ratio, inverse, weight)
    return fault, frozen(ratio), frozen(inverse), frozen(weight)


def multiplier(
    m: Array, inverse: Array, weight: Array, lower: Array, upper: Array, z: float
) -> float:
    """A t with ``sum sigma_i a_i(t) = z``, up to the rounding of long sums.

    Arrays are as in ``core/_compiled/projection.py``, read-only; the equation must have a solution.
    Each round tries a narrow bracket with a pass over the live items (at first, all). If the
    crossing is not inside, a second pass settles the side that it is not on, and in the next round
    the pivot is the median: however the weights are distributed, two rounds halve the live kinks.
    """
    items = m, inverse, weight, lower, upper
    per_item = [len(x) == len(m) for x in items]  # others hold the same value for all
    left, right = -np.inf, np.inf
    anchor = value = slope = 0.0  # settled items add up to value + slope (t - anchor)
    kept_here = np.nan
    narrow = True
    while len(items[0]) > projection.CHUNK:
        low, high = projection.pivots(
            *items, kept_here, anchor, value, slope, left, right, z, narrow
        )
        missed = False
        for _ in range(2):
            here = low if low > -np.inf else (high if high < np.inf else 0.0)
            kept = np.empty(len(items[0]), dtype=np.int64)
            count, total, kept_here, kept_high, bend = projection.fold(
                *items, low, high, here, kept
            )
            settled = value + slope * (here - anchor)
            settled, total = settled + (total - kept_here), settled + total
            if low > left and total > z:  # here == low, which is finite
                left, right = left, low
            elif high < right and settled + (slope + bend) * (high - here) + kept_high < z:
                left, right = high, right
            else:
                break
            low, high, missed = left, right, True
        left, right, anchor, value, slope = low, high, here, settled, slope + bend
        narrow = not (narrow and missed)
        kept = kept[:count]
        items = tuple(frozen(x[kept]) if own else x for x, own in zip(items, per_item, strict=True))
    return projection.crossing(*items, anchor, value, slope, left, right, z)


def solution(
    m: Array, ratio: Array, sigma: Array, lower: Array, upper: Array, z: float, t: float
) -> tuple[Array, float]:
    """``a(t)`` with t corrected by Newton's steps until ``sum sigma_i a_i = z`` to rounding.

    The correction is kept apart from t, whose last digits may change a by more than a itself. Also
    returns the residual of the equation, relative to the ``|sigma_i a_i|``.
    """
    items = m, ratio, sigma, lower, upper
    a = np.empty(len(m))
    correction = 0.0
    for _ in range(_NEWTON_STEPS):
        total, size, slope = projection.evaluate(*items, t, correction, a)
        residual = abs(z - total)
        if residual <= _ROUNDING * (size + abs(z)):
            return a, residual / max(size + abs(z), TINY)
        if slope == 0.0:
            break
        correction += (z - total) / slope
    return _solution_between(items, z, t, a)


def _solution_between(items: tuple, z: float, t: float, a: Array) -> tuple[Array, float]:
    """If Newton's steps fail: enclose the crossing and end between its two sides.

    Floating-point numbers t may be too coarse to resolve the crossing. A convex combination of the
    points on both sides is nevertheless in the box and on the hyperplane.
    """

    def total(t: float) -> float:
        return projection.evaluate(*items, t, 0.0, a)[0]

    low = high = t
    below = above = total(t)
    step = max(abs(t), TINY) * _ROUNDING
    while below > z and low > -_LARGEST:
        low, step = low - step, 4.0 * step
        below = total(low)
    while above < z and high < _LARGEST:
        high, step = high + step, 4.0 * step
        above = total(high)
    for k in range(_HALVINGS):
        if not below < z < above:
            break
        middle = 0.5 * low + 0.5 * high
        secant = low + (high - low) * ((z - below) / (above - below))
        if k % 2 == 0 and low < secant < high:
            middle = secant
        if not low < middle < high:
            break
        value = total(middle)
        if value <= z:
            low, below = middle, value
        else:
            high, above = middle, value
    below, size, _ = projection.evaluate(*items, low, 0.0, a)
    first = a.copy()
    above = total(high)
    share = min(max((z - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    between = np.clip((1.0 - share) * first + share * a, np.minimum(first, a), np.maximum(first, a))
    size += abs(z)
    return between, abs(z - below - share * (above - below)) / max(size, TINY)


@lru_cache(maxsize=64)
def constant(value: float) -> Array:
    """The same value for all items, as the compiled functions take it."""
    return frozen(np.full(projection.CHUNK, value))
