"""Loops over the rows of a loss of one score, compiled once for each type of formula.

A loss registers functions of one row for the type of its formula
(:func:`~.decorators.registered`); they replace those without a body here. ``f`` is the score with
its intercept, y the target and ``r = f - y`` the residual, computed from ``b - (y - f)``, which
keeps the digits that f and b share with a far target. Labels are -1 and 1, so that the slack
``1 - y f`` of a margin is ``-y r``.

A kinked loss is smoothed by a function whose slopes rise as ``steepness``, the reciprocal of a
width, times the distance to the kink. They are slopes of the loss itself, so they give a valid
cutting plane of it. Smooth losses ignore it.

Loops may reorder their sums, which lets them vectorize: bounds on rounding hold for any order.
The functions of a row may not; numba compiles each with flags of its own.
"""

from functools import partial
from typing import Any

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, inner, jit_by_kind

TINY = 2.2250738585072014e-308  # smallest normal number, replaces 0 in x log(x)
FAR = 1e50  # score at which a slope has its last value, and high powers are still finite
jit = partial(jit_by_kind, **SUMS)


# ---- what a formula registers --------------------------------------------------------------------
# Compiled code has the functions registered for the type of a formula; these bodies never run.


def value(loss, f, r, y) -> Any:
    """The loss l of a row."""
    raise NotImplementedError


def slope(loss, f, r, y, steepness) -> Any:
    """The derivative u in f; 0 at a kink if the steepness is infinite."""
    raise NotImplementedError


def curvature(loss, f, r, y, steepness) -> Any:
    """The second derivative in f."""
    raise NotImplementedError


def conjugate(loss, u, y, center) -> Any:
    """``l*(u) - center u`` with ``l*(u) = max_f u f - l(f)``.

    A plane whose derivatives sum to zero does not change with the center: the mean target keeps
    terms small.
    """
    raise NotImplementedError


def sides(loss, b, t, y) -> Any:
    """The derivatives to the left and to the right of b, for ``t = y - f`` without an intercept.

    Only of piecewise linear losses. Ties are decided by the floats in which kinks are written.
    """
    raise NotImplementedError


@inner
def residual(f, y, b, more):
    return (b - (y - f)) + more


# ---- sums ----------------------------------------------------------------------------------------


@jit
def cut(loss, scores, y, weights, steepness, b, center, out):
    """Write the derivatives to ``out``; returns the risk at b, and the offset of their plane."""
    total = offset = 0.0
    for i in range(len(scores)):
        f, r = scores[i] + b, residual(scores[i], y[i], b, 0.0)
        u = slope(loss, f, r, y[i], steepness)
        out[i] = weights[i] * u
        total += weights[i] * value(loss, f, r, y[i])
        offset -= weights[i] * conjugate(loss, u, y[i], center)
    return total, offset


@jit
def along(loss, scores, direction, y, weights, steepness, b, along_b, t):
    """First and second derivative in t of the risk at f + b + t (direction + along_b)."""
    first = second = 0.0
    for i in range(len(scores)):
        move = direction[i] + along_b
        f, r = scores[i] + b + t * move, residual(scores[i], y[i], b, t * move)
        first += weights[i] * move * slope(loss, f, r, y[i], steepness)
        second += weights[i] * move * move * curvature(loss, f, r, y[i], steepness)
    return first, second


@jit
def curved(loss, scores, y, weights, steepness, b, rows, coefs):
    """The rows with curvature, and their weighted second derivatives; returns their number.

    All are computed first, as vectors; those that are not zero are then packed.
    """
    for i in range(len(scores)):
        r = residual(scores[i], y[i], b, 0.0)
        coefs[i] = weights[i] * curvature(loss, scores[i] + b, r, y[i], steepness)
    size = np.uint64(0)
    for i in range(len(scores)):
        rows[size] = i
        coefs[size] = coefs[i]
        size += np.uint64(coefs[i] > 0.0)
    return np.intp(size)


@jit
def offset(loss, derivatives, y, weights, center):
    """The offset ``-sum_i s_i l*(g_i / s_i)`` of the plane with the derivatives g."""
    total = 0.0
    for i in range(len(derivatives)):
        total -= weights[i] * conjugate(loss, derivatives[i] / weights[i], y[i], center)
    return total


# ---- derivatives that sum to zero ----------------------------------------------------------------


@jit
def share_ties(loss, scores, y, weights, b, out):
    """Derivatives of a piecewise linear loss at the b that is best: rows at a kink share the rest.

    With p the share of what is missing that their lower slopes make up, each has the slope
    ``p below + (1 - p) above``. Both shares are quotients: 1 - p would lose the weight of a class
    that is far lighter than the other.
    """
    lowest = highest = rest = 0.0
    for i in range(len(scores)):
        below, above = sides(loss, b, y[i] - scores[i], y[i])
        tied = weights[i] * (above > below)
        lowest += tied * below
        highest += tied * above
        rest += (weights[i] - tied) * below
    width = highest - lowest
    down = min(max((rest + highest) / width, 0.0), 1.0) if width > 0.0 else 0.0
    up = min(max(-(rest + lowest) / width, 0.0), 1.0) if width > 0.0 else 0.0
    for i in range(len(scores)):
        below, above = sides(loss, b, y[i] - scores[i], y[i])
        out[i] = weights[i] * (down * below + up * above if above > below else below)
