"""The minimizer of a convex function of one variable that may have kinks."""

from collections.abc import Callable
from math import inf, isfinite, isnan, sqrt
from typing import NamedTuple

_GROWTH = 10.0  # limit of a step over the last one, until one is too long
_FARTHEST = 1e100  # steps: far beyond any zero of finite data, and its square is finite
_ROUNDING = 1e-15  # relative to a value r(t): a few units in the last place
_NEGLIGIBLE = 1e-12  # of the gain so far: a smaller decrease does not pay for another evaluation


class _Tangent(NamedTuple):
    """``r(s) >= value + slope (s - t)``; ``rise`` is the derivative of the whole phi at t."""

    t: float
    value: float
    slope: float
    rise: float


def search_kink(
    derivative: Callable[[float], tuple[float, float]],
    slope: float = 0.0,
    curvature: float = 0.0,
    *,
    precision: float = 1e-10,
    worth: float = _NEGLIGIBLE,
    max_evaluations: int = 200,
) -> float:
    """Minimizer t >= 0 of ``phi(t) = slope t + curvature t^2/2 + r(t)``, r convex.

    ``derivative(t)`` returns r(t) and a subgradient of r there; a t where they are not finite is
    too far. The method is Kelley's in one dimension: between a point where phi falls and one where
    it rises, r is above its two tangents, so that their maximum plus the quadratic is a lower bound
    of phi. The next point is the bound's minimizer: once the two pieces at a kink are known, it is
    found exactly. If r has so many small kinks that it looks smooth, the minimizer of the cubic
    through both points is better. The two alternate, and the interval is halved if both shorten
    it only a little.

    Stops when, by the bound, the remaining gain is below rounding or below ``worth`` times the gain
    so far, or the interval has the relative width ``precision``. Returns 0 if phi does not fall at
    0, and a t of about 1e100 if it never rises.
    """

    def touch(t):
        value, bend = derivative(t)
        return _Tangent(t, value, bend, slope + curvature * t + bend)

    start = touch(0.0)
    if not start.rise < 0.0:
        return 0.0
    left, right = _enclose(touch, start, curvature, max_evaluations)
    if right is None:
        return left.t
    widths = [inf] * 2
    for step in range(max_evaluations):
        width = right.t - left.t
        t, possible = _lowest_of_bound(left, right, slope, curvature)
        lower = max(0.0, _drop(left, right, slope, curvature))  # the better end, below left
        possible -= lower
        gained = _drop(start, left, slope, curvature) + lower
        rounding = _ROUNDING * (abs(left.value) + abs(right.value))
        if width <= precision * right.t or possible <= max(rounding, worth * gained):
            break
        if width > 0.5 * widths[-2]:
            t = 0.5 * (left.t + right.t)
        elif step % 2:
            t = _lowest_of_cubic(left, right, slope, curvature)
        if not left.t < t < right.t:
            t = 0.5 * (left.t + right.t)
        widths = [widths[-1], width]
        tangent = touch(t)
        left, right = (tangent, right) if tangent.rise < 0.0 else (left, tangent)
    return right.t if _drop(left, right, slope, curvature) > 0.0 else left.t


def _enclose(touch, start, curvature, max_evaluations):
    """Tangents where phi falls and where it rises, the latter None if there is none."""
    left, wall = start, inf
    for _ in range(max_evaluations):
        t = max(1.0, _GROWTH * left.t)
        if curvature > 0.0:  # r' does not decrease: here phi' is certainly not negative
            t = min(t, left.t - left.rise / curvature)
        if t >= wall:
            t = 0.5 * (left.t + wall)
        if not left.t < t < wall or left.t >= _FARTHEST:
            break
        tangent = touch(t)
        if not isfinite(tangent.value) or isnan(tangent.rise):
            wall = t
        elif tangent.rise < 0.0:
            left = tangent
        else:
            return left, tangent
    return left, None


def _drop(a, b, slope, curvature):
    """phi(a) - phi(b)."""
    return (a.value - b.value) - (b.t - a.t) * (slope + 0.5 * curvature * (a.t + b.t))


def _lowest_of_bound(left, right, slope, curvature):
    """Minimizer of the quadratic plus the larger tangent, and its depth below phi(left)."""
    crossing = width = right.t - left.t
    turn = right.slope - left.slope
    if turn > 0.0:
        crossing = ((left.value - right.value) + right.slope * width) / turn
        crossing = min(max(crossing, 0.0), width)
    if left.rise + curvature * crossing >= 0.0 and curvature > 0.0:
        crossing = -left.rise / curvature
    back = width - crossing
    if right.rise - curvature * back < 0.0:
        back = right.rise / curvature
        drop = _drop(left, right, slope, curvature) + back * (right.rise - 0.5 * curvature * back)
        return right.t - back, drop
    return left.t + crossing, -crossing * (left.rise + 0.5 * curvature * crossing)


def _lowest_of_cubic(left, right, slope, curvature):
    """Minimizer of the cubic with phi's values and derivatives at both points."""
    width = right.t - left.t
    bend = left.rise + right.rise + 3.0 * _drop(left, right, slope, curvature) / width
    root = sqrt(max(bend * bend - left.rise * right.rise, 0.0))
    return right.t - width * (right.rise + root - bend) / (right.rise - left.rise + 2.0 * root)
