"""The zero of a nondecreasing function of one number."""

from collections.abc import Callable

import numpy as np

_GROWTH = 10.0  # limit of a step over the last one, until one is too long: see search_zero
_SETTLED = 1e-15  # a Newton step below this no longer moves scores of size one
# Rounds of several points: so many points shrink a bracket by their number plus one, in so many
# rounds at most, until it is as narrow as this share of its end.
_INSIDE, _ROUNDS, _NARROW = 14, 3, 1e-4


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
        if not left < t < right or t > 1e100:
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
