"""Functions of one variable: the zero of a nondecreasing one, the minimizer of a convex one."""

from collections.abc import Callable
from math import isfinite, isnan, sqrt
from typing import NamedTuple

import numpy as np

_GROWTH = 10.0  # limit of a step over the last one, until one is too long
_FARTHEST = 1e100  # steps: far beyond any zero of finite data, and its square is finite
_SETTLED = 1e-15  # a Newton step below this no longer moves scores of size one
# Rounds of several points: so many points shrink a bracket by their number plus one, in so many
# rounds at most, until it is as narrow as this share of its end.
_INSIDE, _ROUNDS, _NARROW = 14, 3, 1e-4
_ROUNDING = 1e-15  # relative to a value r(t): a few units in the last place
_NEGLIGIBLE = 1e-12  # of the gain so far: a smaller decrease does not pay for another evaluation


def search_zero(
    derivative: Callable[[float], tuple[float, float]],
    *,
    precision: float = 1e-8,
    max_evaluations: int = 200,
) -> float:
    """Zero t >= 0 of a nondecreasing function, by safeguarded Newton steps.

    ``derivative(t)`` returns the value and its slope (NaN if unknown). Stops when the value has
    fallen to ``precision`` times its size at 0, or t has settled to rounding. Returns 0 if the
    value at 0 is not negative.

    Until the zero is enclosed, t grows by a bounded factor: on a plateau the slope underflows and
    Newton's step is astronomical.
    """
    value, bend = derivative(0.0)
    if not value < 0.0:
        return 0.0
    target = precision * -value
    left, right, t = 0.0, np.inf, 0.0
    for _ in range(max_evaluations):
        newton = t - value / bend if bend > 0.0 else np.nan
        if abs(newton - t) <= _SETTLED * (1.0 + abs(t)):
            break
        farthest = min(right, max(1.0, _GROWTH * left))
        if left < newton < farthest:
            t = newton
        elif np.isinf(right):
            t = farthest
        else:
            t = 0.5 * (left + right)
        if not left < t < right or t > _FARTHEST:
            return left
        value, bend = derivative(t)
        if abs(value) <= target:
            break
        if value < 0.0:
            left = t
        else:  # NaN, from an overflow, counts as too far
            right = t
    return t


class Bracket:
    """Two points around the zero of a nondecreasing function, each with its value there."""

    def __init__(self, low: tuple[float, float], high: tuple[float, float] = (np.inf, np.nan)):
        self.low, self.high = low, high

    @property
    def closed(self) -> bool:
        """Whether there is a point on the other side of the zero."""
        return bool(np.isfinite(self.high[0]))

    def narrow(self, points: np.ndarray, values: np.ndarray) -> None:
        """Take the nearest points on each side, of those that ascend within the bracket.

        NaN, from an overflow, counts as too far.
        """
        beyond = ~(values < 0.0)
        first = int(np.argmax(beyond)) if beyond.any() else len(points)
        if first > 0:
            self.low = float(points[first - 1]), float(values[first - 1])
        if first < len(points):
            self.high = float(points[first]), float(values[first])

    def zero(self) -> float:
        """Of the line through both; the lower point if there is no other with a finite value."""
        if not self.closed:
            return self.low[0]
        rise = self.high[1] - self.low[1]
        share = -self.low[1] / rise if np.isfinite(rise) and rise > 0.0 else 0.0
        return self.low[0] + share * (self.high[0] - self.low[0])


def search_in_rounds(
    values: Callable[[np.ndarray], np.ndarray], bracket: Bracket, *, precision: float = 0.0
) -> float:
    """Zero of a nondecreasing function whose values at many points cost as much as at one.

    ``values(points)`` is for ascending points. Stops when the value at an end of the bracket is at
    most ``precision``, or when the bracket is narrow. Its lower end is above 0 or it is closed.
    """
    inside = np.arange(1, _INSIDE + 1) / (_INSIDE + 1)
    for _ in range(_ROUNDS):
        low, high = bracket.low, bracket.high
        if not bracket.closed:
            points = low[0] * np.geomspace(2.0, 100.0, _INSIDE)
        elif min(-low[1], high[1]) <= precision or high[0] - low[0] <= _NARROW * high[0]:
            break
        else:
            points = low[0] + (high[0] - low[0]) * inside
        if low[0] == 0.0:  # short ones as well, where the first point is far off
            points = np.sort(np.append(points, high[0] * inside**4))
        bracket.narrow(points, values(points))
    return bracket.zero()


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
    left, right, evaluations = _enclose(touch, start, curvature, max_evaluations)
    widths = [float("inf")] * 2
    while right is not None and evaluations < max_evaluations:
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
        elif evaluations % 2:
            t = _lowest_of_cubic(left, right, slope, curvature)
        if not left.t < t < right.t:
            t = 0.5 * (left.t + right.t)
        widths = [widths[-1], width]
        tangent = touch(t)
        evaluations += 1
        if tangent.rise < 0.0:
            left = tangent
        else:
            right = tangent
    if right is None or not _drop(left, right, slope, curvature) > 0.0:
        return left.t
    return right.t


def _enclose(touch, start, curvature, max_evaluations):
    """Tangents where phi falls and where it rises, the latter None if there is none."""
    left, wall, evaluations = start, float("inf"), 1
    while evaluations < max_evaluations and left.t < _FARTHEST:
        t = max(1.0, _GROWTH * left.t)
        if curvature > 0.0:  # r' does not decrease: here phi' is certainly not negative
            t = min(t, left.t - left.rise / curvature)
        if t >= wall:
            t = 0.5 * (left.t + wall)
        if not left.t < t < wall:
            break
        tangent = touch(t)
        evaluations += 1
        if not isfinite(tangent.value) or isnan(tangent.rise):
            wall = t
        elif tangent.rise < 0.0:
            left = tangent
        else:
            return left, tangent, evaluations
    return left, None, evaluations


def _drop(a, b, slope, curvature):
    """phi(a) - phi(b)."""
    return (a.value - b.value) - (b.t - a.t) * (slope + 0.5 * curvature * (a.t + b.t))


def _lowest_of_bound(left, right, slope, curvature):
    """Minimizer of the quadratic plus the larger tangent, and its depth below phi(left)."""
    width = right.t - left.t
    turn = right.slope - left.slope
    crossing = width
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
