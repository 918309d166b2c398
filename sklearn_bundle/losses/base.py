"""What a loss is: the methods that a solver asks for, and their generic fallbacks."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_BISECTIONS = 200  # from a bracket of any size down to two neighbouring floats
_GROWTH = 10.0  # of a step that is not enclosed yet
_NEGATIVE = 1e-9  # what rounding may leave of a loss of zero
_SETTLED = 1e-15  # a Newton step below this no longer moves scores of size one


class Cut(NamedTuple):
    """A cutting plane of the empirical risk, in the scores.

    With the derivatives g that :meth:`BinaryLoss.cut` writes,
    ``min_b sum_i s_i l(y_i, h_i + b) >= <g, h> + offset`` for all scores h, with equality where
    the plane was cut. With an intercept the entries of g sum to zero.
    """

    risk: float
    offset: float
    intercept: float


class BinaryLoss(ABC):
    """Base class of losses for two classes, and the contract of a loss of one's own.

    A loss l(y, f) is convex in the score f, has the label y in {-1, +1}, and is never negative.
    Two methods are required, :meth:`value` and :meth:`gradient`; both are plain numpy functions
    of arrays that they must not write to. Everything else has a fallback that uses these two alone,
    and may be overridden where a closed form or a compiled function is faster. A loss that also has
    a method ``probability(scores)``, P(y = +1 | f), gives the classifier ``predict_proba``.

    Instances hold parameters only, in attributes of the same names, so that they can be cloned and
    pickled. In the methods below ``weights`` are the s_i, positive and of sum one; ``out`` of shape
    (n,) is filled, and ``scratch`` of shape (4, n) is space that a method may write to.
    """

    @abstractmethod
    def value(self, scores: Array, y: Array) -> Array:
        """Losses l(y_i, f_i), shape (n,). Required."""

    @abstractmethod
    def gradient(self, scores: Array, y: Array) -> Array:
        """Derivatives of l in f, or subgradients where there is a kink, shape (n,). Required."""

    def curvature(self, scores: Array, y: Array) -> Array | None:
        """Second derivatives, shape (n,), or None. Optional: makes line searches use Newton."""
        return None

    def risk(self, scores: Array, y: Array, weights: Array, intercept: float) -> float:
        """``sum_i s_i l(y_i, f_i + b)``."""
        return float(np.sum(weights * self.value(scores + intercept, y)))

    def intercept(self, scores: Array, y: Array, weights: Array, scratch: Array) -> float:
        """A b that minimises ``sum_i s_i l(y_i, f_i + b)``."""
        bracket = self._bracket_intercept(scores, y, weights, scratch)
        return min(bracket, key=lambda b: self.risk(scores, y, weights, b))

    def cut(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        fit_intercept: bool,
        out: Array,
        scratch: Array,
    ) -> Cut:
        """Cutting plane at ``min_b sum_i s_i l(y_i, f_i + b)``; writes g = s u into ``out``.

        The fallback brackets the best b between two neighbouring floats. The derivative in b is
        at most 0 at the left one and at least 0 at the right one, and the convex combination of
        the two planes in which it vanishes is a plane again, kinks or not.
        """
        if not fit_intercept:
            return self._cut_at(scores, y, weights, 0.0, out)
        left, right = self._bracket_intercept(scores, y, weights, scratch)
        gradient_left = np.empty_like(out)
        cut_left = self._cut_at(scores, y, weights, left, gradient_left)
        cut_right = self._cut_at(scores, y, weights, right, out)
        slope_left, slope_right = gradient_left.sum(), out.sum()
        share = slope_right / (slope_right - slope_left) if slope_right > slope_left else 0.0
        out += share * (gradient_left - out)
        best = min(cut_left, cut_right)
        offset = (1.0 - share) * cut_right.offset + share * cut_left.offset
        return Cut(best.risk, offset, best.intercept)

    def line_search(
        self,
        scores: Array,
        direction: Array,
        y: Array,
        weights: Array,
        slope: float,
        curvature: float,
        scratch: Array,
    ) -> float:
        """Step t >= 0 that minimises ``slope t + curvature t^2/2 + sum_i s_i l(y_i, f_i + t h_i)``.

        The fallback brackets the zero of the derivative, then takes Newton steps where
        :meth:`curvature` is there and they stay inside the bracket, and halves it otherwise.
        """
        return search_zero(
            lambda t: self._slope_at(scores, direction, y, weights, slope, curvature, t)
        )

    def _cut_at(self, scores: Array, y: Array, weights: Array, b: float, out: Array) -> Cut:
        shifted = scores + b
        values = self._checked(self.value(shifted, y), "value", len(y))
        if values.min() < -_NEGATIVE:
            raise ValueError(
                f"{type(self).__name__}.value must never be negative, but returned {values.min()}; "
                "add a constant, so that the least loss is 0."
            )
        np.multiply(weights, self._checked(self.gradient(shifted, y), "gradient", len(y)), out=out)
        risk = float(np.sum(weights * values))
        return Cut(risk, risk - float(np.sum(out * shifted)), b)

    def _slope_at(self, scores, direction, y, weights, slope, curvature, t):
        moved = scores + t * direction
        first = slope + curvature * t + np.sum(weights * direction * self.gradient(moved, y))
        bend = self.curvature(moved, y)
        if bend is None:
            return float(first), np.nan
        return float(first), float(curvature + np.sum(weights * direction**2 * bend))

    def _bracket_intercept(self, scores, y, weights, scratch):
        shifted = scratch[0]

        def slope(b):
            np.add(scores, b, out=shifted)
            return float(np.sum(weights * self.gradient(shifted, y)))

        left, right = -1.0, 1.0
        while slope(left) > 0.0 and left > -1e300:
            left, right = 4.0 * left, left
        while slope(right) < 0.0 and right < 1e300:
            left, right = right, 4.0 * right
        for _ in range(_BISECTIONS):
            middle = 0.5 * (left + right)
            if not left < middle < right:
                break
            at_middle = slope(middle)
            if at_middle == 0.0:
                return middle, middle
            if at_middle < 0.0:
                left = middle
            else:
                right = middle
        return left, right

    def _checked(self, array, method: str, n: int) -> Array:
        array = np.asarray(array, dtype=np.float64)
        if array.shape != (n,):
            raise ValueError(
                f"{type(self).__name__}.{method} must return an array of shape ({n},), one entry "
                f"a sample, but returned shape {array.shape}."
            )
        return array


def search_zero(
    derivative: Callable[[float], tuple[float, float]],
    *,
    precision: float = 1e-8,
    max_evaluations: int = 200,
) -> float:
    """Zero t >= 0 of a nondecreasing function, by safeguarded Newton steps.

    ``derivative(t)`` returns the value and its slope (NaN if unknown). Stops when the value has
    fallen to ``precision`` times its size at 0, or t is settled to rounding. Returns 0 if the
    value at 0 is not negative.

    Until the zero is enclosed, t grows by a bounded factor: on a plateau the slope underflows and
    Newton's step is astronomic.
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
