"""The squared epsilon-insensitive loss: zero within a tube, squares outside of it."""

import numpy as np

from sklearn_bundle.core.values import as_float, is_between
from sklearn_bundle.linear.losses._piecewise import (
    balance_slopes,
    intercept_zero,
    line_zero,
    plane_from_slopes,
    tube_risk,
    tube_slope,
    tube_slopes,
)
from sklearn_bundle.linear.losses.base import Array, Cut
from sklearn_bundle.linear.losses.regression import (
    POLISHES,
    ROUNDED,
    RegressionLoss,
    require,
    weighted_mean,
)


class SquaredEpsilonInsensitive(RegressionLoss):
    """Squared epsilon-insensitive loss, ``l(y, f) = max(0, |f - y| - epsilon)^2 / 2``.

    Equation (2) of [1]_, with a factor of 1/2: LIBLINEAR's C is ``1 / (2 n reg_lambda)``. With
    epsilon = 0 it is the squared error. The derivative in b and along a line is piecewise linear;
    its zero is exact, in O(n) by selection.

    Parameters
    ----------
    epsilon : float, default=0.1
        Error that costs nothing, in units of the target; not negative.

    Raises
    ------
    ValueError
        If `epsilon` is negative or not finite; raised by `fit`.

    References
    ----------
    .. [1] C.-H. Ho, C.-J. Lin: Large-scale linear support vector regression. Journal of Machine
       Learning Research 13 (2012), 3323-3348.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import SquaredEpsilonInsensitive
    >>> SquaredEpsilonInsensitive(1.0).value(np.array([1.5, 4.0]), np.array([2.0, 2.0]))
    array([0. , 0.5])
    """

    degree = 2.0

    def __init__(self, epsilon=0.1):
        self.epsilon = as_float(epsilon)

    def check(self, y) -> None:
        allowed = self.epsilon == 0.0 or is_between(self.epsilon, 0.0, np.inf)
        require(allowed, "epsilon", self.epsilon, "at least 0 and finite")

    def value(self, scores, y) -> Array:
        return 0.5 * np.maximum(0.0, np.abs(scores - y) - self.epsilon) ** 2

    def gradient(self, scores, y) -> Array:
        residual = scores - y
        return np.sign(residual) * np.maximum(0.0, np.abs(residual) - self.epsilon)

    def curvature(self, scores, y) -> Array:
        return (np.abs(scores - y) > self.epsilon).astype(np.float64)

    def risk(self, scores, y, weights, intercept) -> float:
        return tube_risk(scores, y, weights, intercept, self._half())

    def intercept(self, scores, y, weights, scratch) -> float:
        """A best b, by selection; Newton steps remove the rounding of the long sums."""
        half = self._half()

        def far_left(scores, y, weights):
            return float(np.sum(weights * ((scores - y) + half))), float(np.sum(weights))

        b = intercept_zero(scores, y, weights, far_left, self._kinks(), scratch, slack=0.0)
        for _ in range(POLISHES):
            first, second, size = tube_slope(scores, y, weights, b, self._half())
            resolved = abs(first) <= ROUNDED * size + second * np.spacing(abs(b))
            if resolved or second == 0.0:
                break
            b -= first / second
        return b if resolved else float(super().intercept(scores, y, weights, scratch))

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        half = self._half()
        b = fine = center = 0.0
        if fit_intercept:
            b, center = self.intercept(scores, y, weights, scratch), weighted_mean(y, weights)
            first, second, _ = tube_slope(scores, y, weights, b, half)
            fine = -first / second if second > 0.0 else 0.0
        tube_slopes(scores, y, b, fine, half, out)
        if fit_intercept:
            balance_slopes(weights, out)
        risk = tube_risk(scores, y, weights, b, half)
        return Cut(risk, plane_from_slopes(y, weights, center, half, 1.0, out), b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        args = scores, direction, y, weights, slope, curvature, scratch
        return max(0.0, self._line_zero(*args))

    def _half(self) -> float:
        return float(self.epsilon)

    def _kinks(self) -> list[tuple[float, float, float]]:
        half = self._half()
        return [(-half, 0.0, -1.0), (half, 0.0, 1.0)]

    def _line_zero(self, scores, direction, y, weights, slope, curvature, scratch):
        """Like :func:`line_zero`, for a loss whose slope on the far left is ``r + half``."""
        half, weighted = self._half(), weights * direction
        slope += float(np.sum(weighted * ((scores - y) + half)))
        curvature += float(np.sum(weighted * direction))
        args = scores, direction, y, weights, 0.0, self._kinks(), slope, curvature, scratch
        return line_zero(*args)
