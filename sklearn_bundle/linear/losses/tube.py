"""Compiled functions of piecewise linear and quadratic losses of the residual ``r = f - y``:

    l(r) = max over low <= u <= high of u r - half |u| - square u^2 / 2.

Inside of a tube of half width ``half`` it is zero. Beyond, its slope u jumps to ``low`` or ``high``
(``square`` = 0), or grows by one per unit up to there (``square`` = 1). Kinked losses are smoothed
with ``width u^2 / 2`` in place of the square. Dual steps: Ho and Lin (JMLR 13, 2012, 3323-3348),
who call alpha beta.
"""

from typing import NamedTuple

from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.linear._compiled import dual
from sklearn_bundle.linear._compiled import scores as loops


class Tube(NamedTuple):
    """The slopes at both ends, the half width of the tube, and 1 if there are squares, or 0."""

    low: float
    high: float
    half: float
    square: float


@inner
def _shrunk(x, half):
    """x moved towards 0 by ``half``."""
    return max(x - half, 0.0) + min(x + half, 0.0)


@registered(loops.value, Tube)
def _value(loss, f, r, y):
    beyond = _shrunk(r, loss.half)
    steepest = loss.high if beyond > 0.0 else loss.low
    u = min(max(beyond, loss.low), loss.high) if loss.square > 0.0 else steepest
    return u * (beyond - 0.5 * loss.square * u)


@registered(loops.slope, Tube)
def _slope(loss, f, r, y, steepness):
    beyond = _shrunk(r, loss.half)
    u = beyond if loss.square > 0.0 or beyond == 0.0 else beyond * steepness
    return min(max(u, loss.low), loss.high)


@registered(loops.curvature, Tube)
def _curvature(loss, f, r, y, steepness):
    factor = 1.0 if loss.square > 0.0 else steepness
    u = _shrunk(r, loss.half) * factor
    return factor if (u > loss.low) & (u < loss.high) & (abs(r) >= loss.half) else 0.0


@registered(loops.conjugate, Tube)
def _conjugate(loss, u, y, center):
    return u * (y - center) + loss.half * abs(u) + 0.5 * loss.square * u * u


@registered(loops.sides, Tube)
def _sides(loss, b, t, y):
    left, right = t - loss.half, t + loss.half
    below = loss.low * (b <= left) + loss.high * (b > right)
    return below, loss.low * (b < left) + loss.high * (b >= right)


@registered(dual.step, Tube)
def _step(loss, target, margin, alpha, weight, curvature, high, low):
    """Maximum of ``ascent a - half |a| - bend a^2/2`` between the bounds."""
    residual, bend = target - margin, loss.square / weight
    least, most = -weight * loss.high, -weight * loss.low
    gap = weight * loops.value(loss, margin, -residual, target) - alpha * residual
    gap += abs(alpha) * loss.half + 0.5 * bend * alpha * alpha
    minus = bend * alpha - residual
    right = minus + (loss.half if alpha >= 0.0 else -loss.half)
    left = minus + (loss.half if alpha > 0.0 else -loss.half)
    gradient, counts = dual.projected(left, right, alpha, least, most, curvature, high, low)
    ascent = _shrunk(residual + curvature * alpha, loss.half)
    new = dual.maximizer(ascent, bend + curvature, 0.0, least, most)
    return (new if counts else alpha), gradient, gap, counts
