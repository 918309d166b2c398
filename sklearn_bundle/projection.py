"""Euclidean projection onto a box cut by a hyperplane."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.values import as_float, as_numbers, is_between, shown
from sklearn_bundle.linear.solvers.multiplier import FEASIBILITY, projected

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
    piecewise linear, nondecreasing ``sum sigma_i a_i(t)`` meets z: appendix B of [1]_. Newton's
    method finds it, and in every third step, in place of the median of the 2n kinks, that of a
    random item, so that the work is O(n) expected. Finally, t is corrected by Newton steps on the
    sum itself. The seed is fixed, so equal input gives equal bits.

    References
    ----------
    .. [1] A. Saha, X. Zhang, S. V. N. Vishwanathan: Lower bounds for BMRM and faster rates for
       training SVMs, 2010.

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
    given = ("d", d), ("sigma", sigma), ("lower", lower), ("upper", upper)
    d, sigma, lower, upper = items = [_items(name, values, len(m)) for name, values in given]
    sound = np.isfinite(m) & np.isfinite(d) & np.isfinite(sigma) & (d != 0.0) & (sigma != 0.0)
    sound &= (lower <= upper) & (lower < np.inf) & (upper > -np.inf)
    if not sound.all():
        raise ValueError(_describe(int(np.argmin(sound)), m, *_filled(items, m)))
    if (z := as_float(z)) is None:
        return np.clip(m, lower, upper)
    _check_attainable(z, sigma, lower, upper, len(m))
    with np.errstate(all="ignore"):
        fault, ratio = _ratios(d, sigma)
        if fault >= 0:  # squares that over- or underflow, perhaps only for their unit
            sigma, factor = _tamed(sigma)
            z *= factor
            fault, ratio = _ratios(_tamed(d)[0], sigma)
    if fault < 0:
        a, left_over = projected(m, *_filled((ratio, sigma, lower, upper), m), z)
        if left_over <= FEASIBILITY:
            return a
    where = f": see item {fault}" if fault >= 0 else ""
    many = "The numbers in d, sigma, m and the bounds span too many orders of magnitude for"
    raise ValueError(f"{many} double precision{where}.")


def _checked_array(name: str, values: ArrayLike) -> Array:
    if values is None:
        raise ValueError(f"{name} must be an array of shape (n,), got None.")
    array = as_numbers(name, values)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be an array of shape (n,), got shape {array.shape}: {shown(values)}."
        )
    return np.ascontiguousarray(array)


def _items(name: str, values: ArrayLike | float, n: int) -> Array:
    number = as_float(values)
    if isinstance(number, float):
        return np.array(number)  # stands for all items
    array = _checked_array(name, values)
    if len(array) != n:
        raise ValueError(
            f"{name} must be a number or an array of the shape of m, {(n,)}; got {array.shape}."
        )
    return array


def _ratios(d: Array, sigma: Array) -> tuple[int, Array]:
    """The first item where ``r = sigma/d^2``, 1/r or ``sigma r`` cannot be used, or -1; then r."""
    scaled = sigma / d
    ratio, weight = scaled / d, scaled * scaled
    usable = np.isfinite(ratio) & np.isfinite(1.0 / ratio) & np.isfinite(weight) & (weight > 0.0)
    return (-1 if usable.all() else int(np.argmin(usable))), ratio


def _tamed(values: Array) -> tuple[Array, float]:
    """Values times a power of two, and that factor, to avoid over- and underflow of squares."""
    _, exponent = np.frexp(np.abs(values).max(initial=0.0))
    exponent = max(int(exponent), -1000)
    return np.ldexp(values, -exponent), float(np.ldexp(1.0, -exponent))


def _describe(i: int, m: Array, *items: Array) -> str:
    """What is wrong with item i."""
    if not np.isfinite(m[i]):
        return f"m must be finite, but m[{i}] is {m[i]}."
    d, sigma, lower, upper = (array[i] for array in items)
    for name, value in (("d", d), ("sigma", sigma)):
        if not np.isfinite(value) or value == 0.0:
            return f"{name} must be finite and not zero, but is {value} for item {i}."
    if np.isnan(lower) or np.isnan(upper):
        name = "lower" if np.isnan(lower) else "upper"
        return f"{name} must be a number, but is nan for item {i}."
    if lower > upper:
        return f"lower must not be above upper, but for item {i} they are {lower} and {upper}."
    return f"The bounds of item {i}, lower={lower} and upper={upper}, leave no finite number."


def _filled(items: Sequence[Array], m: Array) -> list[Array]:
    """An entry per item of each."""
    return [np.ascontiguousarray(np.broadcast_to(values, m.shape)) for values in items]


def _check_attainable(z: float, sigma: Array, lower: Array, upper: Array, n: int) -> None:
    if not is_between(z, -np.inf, np.inf):
        raise ValueError(f"z must be a finite number, or None for no hyperplane; got {shown(z)}.")
    ends = sigma * lower, sigma * upper
    low, high = np.minimum(*ends), np.maximum(*ends)
    each = n if low.ndim == 0 else 1
    least, largest = each * float(low.sum()), each * float(high.sum())
    below, above = (FEASIBILITY * (abs(z) + each * float(np.abs(x).sum())) for x in (low, high))
    if z < least - below or z > largest + above:
        raise ValueError(
            f"No point of the box has sum sigma a = z: z is {z!r}, but must be between {least!r} "
            f"and {largest!r}."
        )
