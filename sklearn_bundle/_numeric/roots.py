"""The zero of a nondecreasing function of one number."""

from collections.abc import Callable

import numpy as np

_GROWTH = 10.0  # limit of a step over the last one, until one is too long: see search_zero
_SETTLED = 1e-15  # a Newton step below this no longer moves scores of size one


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
