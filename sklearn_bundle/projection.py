"""Euclidean projection onto a box cut by a hyperplane."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core._compiled import projection
from sklearn_bundle.core.multiplier import FEASIBILITY, constant, multiplier, ratios, solution
from sklearn_bundle.core.values import as_float, as_numbers, is_between, shown
from sklearn_bundle.jit.decorators import frozen

__all__ = ["project"]

Array = NDArray[np.float64]


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

        minimize    1/2 sum_i d_i^2 (a_i - m_i)^2
        subject to  lower_i <= a_i <= upper_i,   sum_i sigma_i a_i = z

    The defaults give the unit simplex. With ``z=None`` there is no hyperplane, and the projection
    is ``clip(m, lower, upper)`` for any ``d``.

    Parameters
    ----------
    m : array-like of shape (n,)
        Point to project, finite.
    d : float or array-like of shape (n,), default=1.0
        Scales of the metric, finite and not zero; their signs do not matter.
    sigma : float or array-like of shape (n,), default=1.0
        Normal vector of the hyperplane, finite, without zeros: an item with a zero is not part of
        the equation; clip it separately.
    lower : float or array-like of shape (n,), default=0.0
        Lower bounds of the box; ``-inf`` means no bound.
    upper : float or array-like of shape (n,), default=inf
        Upper bounds of the box, at least `lower`; ``inf`` means no bound.
    z : float, default=1.0
        Right-hand side of the hyperplane, or None.

    Returns
    -------
    a : ndarray of shape (n,), float64
        The projection. It is exactly within the bounds, ``sum sigma a`` equals ``z`` up to the
        rounding of this sum, and it is stationary up to the rounding of ``m``.

    Raises
    ------
    ValueError
        For shapes that do not match, a value that is not finite, a zero in `d` or `sigma`, crossed
        bounds, a `z` that no point of the box attains (relative tolerance 1e-12), or numbers that
        differ too much in size to satisfy the equation to this tolerance.

    Notes
    -----
    The solution is ``a_i(t) = clip(m_i + t sigma_i/d_i^2, lower_i, upper_i)`` with a t at which the
    piecewise linear, nondecreasing ``sum sigma_i a_i(t)`` meets z: appendix B of [1]_. Instead of
    the median of the 2n kinks, two kinks of a random sample bracket t [2]_; usually one pass
    settles all items except a few. Nothing is sorted: O(n) expected. Finally, t is corrected by
    Newton steps on the sum itself. The seed of the sample is fixed, so equal input gives equal
    bits.

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
    fault = projection.first_fault(m, d, sigma, lower, upper)
    if fault >= 0:
        raise ValueError(_describe(fault, m, d=d, sigma=sigma, lower=lower, upper=upper))
    z = as_float(z)
    if z is None:
        return np.clip(m, *(b if len(b) == n else b[0] for b in (lower, upper)))
    _check_attainable(z, sigma, lower, upper, n)
    fault, ratio, inverse, weight = ratios(d, sigma, n)
    if fault >= 0:  # squares that over- or underflow, perhaps only for their unit
        sigma, factor = _tamed(sigma)
        z *= factor
        fault, ratio, inverse, weight = ratios(_tamed(d)[0], sigma, n)
    hint = f": see item {fault}" if fault >= 0 else ""
    if fault < 0:
        t = multiplier(m, inverse, weight, lower, upper, z)
        a, left_over = solution(m, ratio, sigma, lower, upper, z, t)
        if left_over <= FEASIBILITY:
            return a
    raise ValueError(
        "The numbers in d, sigma, m and the bounds span too many orders of magnitude for double "
        f"precision{hint}."
    )


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
    """Values times a power of two, and that factor, to avoid over- and underflow of squares."""
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
    least, largest, least_size, largest_size = projection.attainable(sigma, lower, upper, n)
    slack = FEASIBILITY * abs(z)
    below = z < least - slack - FEASIBILITY * least_size
    if below or z > largest + slack + FEASIBILITY * largest_size:
        raise ValueError(
            f"No point of the box has sum sigma a = z: z is {z!r}, but must be between {least!r} "
            f"and {largest!r}."
        )
