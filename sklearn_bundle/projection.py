"""Euclidean projection onto a box cut by a hyperplane."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle._compiled import box, pivots, projection
from sklearn_bundle._jit import frozen
from sklearn_bundle._values import as_float, as_numbers, is_between, shown

__all__ = ["project"]

Array = NDArray[np.float64]

_FEASIBILITY = 1e-12  # relative
_NEWTON_STEPS = 10  # one or two as a rule
_ROUNDING = 4e-16  # of a sum, relative to that of the absolute values: two units in the last place
_HALVINGS = 300
_LARGEST = 1e300
_TINY = 1e-300


def project(
    m: ArrayLike,
    *,
    d: ArrayLike | float = 1.0,
    sigma: ArrayLike | float = 1.0,
    lower: ArrayLike | float = 0.0,
    upper: ArrayLike | float = np.inf,
    z: float | None = 1.0,
) -> Array:
    """Project ``m`` onto a box cut by a hyperplane, in a diagonal metric and in O(n).

    Returns the only solution of::

        minimise    1/2 sum_i d_i^2 (a_i - m_i)^2
        subject to  lower_i <= a_i <= upper_i,   sum_i sigma_i a_i = z

    The defaults are the unit simplex. With ``z=None`` there is no hyperplane, and the projection is
    ``clip(m, lower, upper)`` whatever ``d`` is.

    Parameters
    ----------
    m : array-like of shape (n,)
        Point to project, finite.
    d : float or array-like of shape (n,), default=1.0
        Scales of the metric, finite and not zero; their signs do not matter.
    sigma : float or array-like of shape (n,), default=1.0
        Normal vector of the hyperplane, finite, no entry zero: an item with a zero there is not
        part of the equation, clip it on its own.
    lower : float or array-like of shape (n,), default=0.0
        Lower bounds of the box; ``-inf`` is no bound.
    upper : float or array-like of shape (n,), default=inf
        Upper bounds of the box, at least `lower`; ``inf`` is no bound.
    z : float, default=1.0
        Right-hand side of the hyperplane, or None.

    Returns
    -------
    a : ndarray of shape (n,), float64
        The projection. Within the bounds exactly, ``sum sigma a`` equal to ``z`` up to the rounding
        of this sum, and stationary up to the rounding of ``m``.

    Raises
    ------
    ValueError
        For shapes that do not fit, a value that is not finite, a zero in `d` or `sigma`, crossed
        bounds, a `z` that no point of the box attains (relative tolerance 1e-12), or numbers of so
        different sizes that the equation cannot be met to this tolerance.

    Notes
    -----
    The solution is ``a_i(t) = clip(m_i + t sigma_i/d_i^2, lower_i, upper_i)`` with a t at which the
    piecewise linear, nondecreasing ``sum sigma_i a_i(t)`` meets z: appendix B of [1]_. Instead of
    the median of the 2n kinks, two kinks of a random sample enclose t [2]_; as a rule, one
    pass settles all but a few items. Nothing is sorted: O(n) expected. Last, t is corrected by
    Newton steps on the sum itself. The sample's seed is fixed: equal input, equal bits.

    References
    ----------
    .. [1] A. Saha, X. Zhang, S. V. N. Vishwanathan: Lower bounds for BMRM and faster rates for
       training SVMs, 2010.
    .. [2] R. W. Floyd, R. L. Rivest: Expected time bounds for selection. Communications of the
       ACM 18 (1975), 165-172.

    Examples
    --------
    >>> from sklearn_bundle.projection import project
    >>> project([0.5, 1.0, -2.0])  # the unit simplex
    array([0.25, 0.75, 0.  ])
    >>> project([3.0, -1.0, 0.5], lower=0.0, upper=1.0, z=None)  # a box
    array([1. , 0. , 0.5])
    >>> project([0.9, 0.8, 0.1], sigma=[1.0, -1.0, -1.0], upper=1.0, z=0.0)
    array([0.9, 0.8, 0.1])
    """
    m = _checked_array("m", m)
    n = len(m)
    d, sigma = _items("d", d, n), _items("sigma", sigma, n)
    lower, upper = _items("lower", lower, n), _items("upper", upper, n)
    fault = box.first_fault(m, d, sigma, lower, upper)
    if fault >= 0:
        raise ValueError(_describe(fault, m, d=d, sigma=sigma, lower=lower, upper=upper))
    z = as_float(z)
    if z is None:
        return np.clip(m, *(b if len(b) == n else b[0] for b in (lower, upper)))
    _check_attainable(z, sigma, lower, upper, n)
    fault, ratio, inverse, weight = _ratios(d, sigma, n)
    if fault >= 0:  # squares that over- or underflow, perhaps only for their unit
        sigma, factor = _tamed(sigma)
        z *= factor
        fault, ratio, inverse, weight = _ratios(_tamed(d)[0], sigma, n)
    hint = f": see item {fault}" if fault >= 0 else ""
    if fault < 0:
        t = multiplier(m, inverse, weight, lower, upper, z)
        a, left_over = solution(m, ratio, sigma, lower, upper, z, t)
        if left_over <= _FEASIBILITY:
            return a
    raise ValueError(
        "The numbers in d, sigma, m and the bounds span too many orders of magnitude for double "
        f"precision{hint}."
    )


def _ratios(d: Array, sigma: Array, n: int) -> tuple[int, Array, Array, Array]:
    """``r = sigma/d^2``, 1/r and w, and an item of which one is no number to work with, or -1."""
    size = n if n in (len(d), len(sigma)) else projection.CHUNK
    ratio, inverse, weight = np.empty(size), np.empty(size), np.empty(size)
    fault = box.prepare(d, sigma, ratio, inverse, weight)
    return fault, frozen(ratio), frozen(inverse), frozen(weight)


def multiplier(
    m: Array, inverse: Array, weight: Array, lower: Array, upper: Array, z: float
) -> float:
    """A t with ``sum sigma_i a_i(t) = z``, up to the rounding of long sums.

    Arrays as in ``_compiled/projection.py``, read-only; the equation must have a solution. Each
    round tries a narrow bracket with a pass over the live items (at first, all). Where the crossing
    is not inside, a second pass settles the side that it is not on, and in the next round the pivot
    is the median: however the weights are distributed, two rounds halve the live kinks.
    """
    items = m, inverse, weight, lower, upper
    per_item = [len(x) == len(m) for x in items]  # others hold the same for all
    left, right = -np.inf, np.inf
    anchor = value = slope = 0.0  # what has settled adds up to value + slope (t - anchor)
    kept_here = np.nan
    narrow = True
    while len(items[0]) > projection.CHUNK:
        low, high = pivots.pivots(*items, kept_here, anchor, value, slope, left, right, z, narrow)
        missed = False
        for _ in range(2):
            here = low if low > -np.inf else (high if high < np.inf else 0.0)
            kept = np.empty(len(items[0]), dtype=np.int64)
            count, total, kept_here, kept_high, bend = projection.fold(
                *items, low, high, here, kept
            )
            settled = value + slope * (here - anchor)
            settled, total = settled + (total - kept_here), settled + total
            if low > left and total > z:  # low is here
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

    The correction is kept apart from t, whose last digits may be worth more than a. Second comes
    what is left of the equation, relative to the ``|sigma_i a_i|``.
    """
    items = m, ratio, sigma, lower, upper
    a = np.empty(len(m))
    correction = 0.0
    for _ in range(_NEWTON_STEPS):
        total, size, slope = projection.evaluate(*items, t, correction, a)
        residual = abs(z - total)
        if residual <= _ROUNDING * (size + abs(z)):
            return a, residual / max(size + abs(z), _TINY)
        if slope == 0.0:
            break
        correction += (z - total) / slope
    return _solution_between(items, z, t, a)


def _solution_between(items: tuple, z: float, t: float, a: Array) -> tuple[Array, float]:
    """Where Newton's steps fail: enclose the crossing and end between its two sides.

    Near a crossing that floating-point numbers t cannot tell apart, a convex combination of the
    points on both sides is in the box and on the hyperplane, whatever the digits of t are worth.
    """

    def total(t: float) -> float:
        return projection.evaluate(*items, t, 0.0, a)[0]

    low = high = t
    below = above = total(t)
    step = max(abs(t), _TINY) * _ROUNDING
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
    return between, abs(z - below - share * (above - below)) / max(size, _TINY)


@lru_cache(maxsize=64)
def constant(value: float) -> Array:
    """The same value for all items, as the compiled functions take it."""
    return frozen(np.full(projection.CHUNK, value))


def _checked_array(name: str, values: ArrayLike) -> Array:
    if values is None:
        raise ValueError(f"{name} must be an array of shape (n,), got None.")
    array = as_numbers(name, values)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be an array of shape (n,), got shape {array.shape}: {shown(values)}."
        )
    return frozen(np.ascontiguousarray(array))


def _items(name: str, values: ArrayLike | float, n: int) -> Array:
    number = as_float(values)
    if isinstance(number, float):
        return constant(number)
    array = _checked_array(name, values)
    if len(array) != n:
        raise ValueError(
            f"{name} must be a number or an array of the shape of m, {(n,)}; got {array.shape}."
        )
    return array


def _tamed(values: Array) -> tuple[Array, float]:
    """Values times a power of two, and that factor, so that squares neither over- nor underflow."""
    _, exponent = np.frexp(np.abs(values).max(initial=0.0))
    exponent = max(int(exponent), -1000)
    return frozen(np.ldexp(values, -exponent)), float(np.ldexp(1.0, -exponent))


def _describe(i: int, m: Array, **items: Array) -> str:
    """What is wrong with item i."""
    if not np.isfinite(m[i]):
        return f"m must be finite, but m[{i}] is {m[i]}."
    d, sigma, lower, upper = (x[i] if len(x) == len(m) else x[0] for x in items.values())
    for name, value in (("d", d), ("sigma", sigma)):
        if not np.isfinite(value) or value == 0.0:
            return f"{name} must be finite and not zero, but is {value} for item {i}."
    for name, value in (("lower", lower), ("upper", upper)):
        if np.isnan(value):
            return f"{name} must be a number, but is {value} for item {i}."
    if lower > upper:
        return f"lower must not be above upper, but for item {i} they are {lower} and {upper}."
    return f"The bounds of item {i}, lower={lower} and upper={upper}, leave no finite number."


def _check_attainable(z: float, sigma: Array, lower: Array, upper: Array, n: int) -> None:
    if not is_between(z, -np.inf, np.inf):
        raise ValueError(f"z must be a finite number, or None for no hyperplane; got {shown(z)}.")
    least, largest, least_size, largest_size = box.attainable(sigma, lower, upper, n)
    slack = _FEASIBILITY * abs(z)
    below = z < least - slack - _FEASIBILITY * least_size
    if below or z > largest + slack + _FEASIBILITY * largest_size:
        raise ValueError(
            f"No point of the box has sum sigma a = z: z is {z!r}, but must be between {least!r} "
            f"and {largest!r}."
        )
