"""Piecewise linear losses of real targets: absolute, quantile and epsilon-insensitive."""

from abc import abstractmethod

import numpy as np

from sklearn_bundle.core.values import as_float, is_between
from sklearn_bundle.linear.losses._piecewise import (
    balance_slopes,
    constant_far_left,
    intercept_zero,
    line_zero,
    plane_from_slopes,
    step_risk,
    step_share,
    step_slopes,
)
from sklearn_bundle.linear.losses.base import Array, Cut
from sklearn_bundle.linear.losses.regression import RegressionLoss, require, weighted_mean


class _PiecewiseLinear(RegressionLoss):
    """``l(r) = high max(0, r - half) - low max(0, -half - r)``, low <= 0 <= high.

    The derivative in b and along a line is a step function; its zero is exact, in O(n) by
    selection. At the best b the samples at a kink share the rest, so that the plane's entries sum
    to zero.
    """

    degree = 1.0

    @abstractmethod
    def _shape(self) -> tuple[float, float, float]:
        """low, high and half."""

    def _kinks(self) -> list[tuple[float, float, float]]:
        low, high, half = self._shape()
        return [(-half, -low, 0.0), (half, high, 0.0)] if half > 0.0 else [(0.0, high - low, 0.0)]

    def risk(self, scores, y, weights, intercept) -> float:
        return step_risk(scores, y, weights, intercept, *self._shape())

    def intercept(self, scores, y, weights, scratch) -> float:
        """The smallest minimizer b, a weighted quantile of the kinks."""
        return intercept_zero(
            scores, y, weights, constant_far_left(self._shape()[0]), self._kinks(), scratch
        )

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        shape = self._shape()
        b = share = center = 0.0
        if fit_intercept:
            b, center = self.intercept(scores, y, weights, scratch), weighted_mean(y, weights)
            share = step_share(scores, y, weights, b, *shape)
        step_slopes(scores, y, b, *shape, fit_intercept, share, out)
        if fit_intercept:
            balance_slopes(weights, out)
        risk = step_risk(scores, y, weights, b, *shape)
        return Cut(risk, plane_from_slopes(y, weights, center, shape[2], 0.0, out), b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        low, kinks = self._shape()[0], self._kinks()
        args = scores, direction, y, weights, low, kinks, slope, curvature, scratch
        return max(0.0, line_zero(*args))


class AbsoluteError(_PiecewiseLinear):
    """Absolute error, ``l(y, f) = |f - y|``, of least absolute deviations: fits the median.

    Table 5 of [1]_. The best intercept and the best step along a line are exact, in O(n).

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import AbsoluteError
    >>> AbsoluteError().value(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    array([1., 2.])
    """

    def value(self, scores, y) -> Array:
        return np.abs(scores - y)

    def gradient(self, scores, y) -> Array:
        return np.sign(scores - y)

    def _shape(self):
        return -1.0, 1.0, 0.0


class Quantile(_PiecewiseLinear):
    """Pinball loss, ``l(y, f) = max(tau (y - f), (1 - tau) (f - y))``, of quantile regression.

    Table 5 of [1]_, where tau and 1 - tau are swapped. At 0.5 it is half the absolute error. The
    best intercept and the best step along a line are exact, in O(n).

    Parameters
    ----------
    quantile : float, default=0.5
        The level tau, in (0, 1): the share of the targets that should lie below the prediction.

    Raises
    ------
    ValueError
        If `quantile` is not in (0, 1); raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Quantile
    >>> Quantile(0.9).value(np.array([1.0, 4.0]), np.array([2.0, 2.0])).round(6)
    array([0.9, 0.2])
    """

    def __init__(self, quantile=0.5):
        self.quantile = as_float(quantile)

    def check(self, y) -> None:
        allowed = is_between(self.quantile, 0.0, 1.0)
        require(allowed, "quantile", self.quantile, "above 0 and below 1")

    def value(self, scores, y) -> Array:
        return np.maximum(self.quantile * (y - scores), (1.0 - self.quantile) * (scores - y))

    def gradient(self, scores, y) -> Array:
        low, high, _ = self._shape()
        return low * (scores < y) + high * (scores > y)

    def _shape(self):
        return -float(self.quantile), 1.0 - float(self.quantile), 0.0


class EpsilonInsensitive(_PiecewiseLinear):
    """Epsilon-insensitive loss, ``l(y, f) = max(0, |f - y| - epsilon)``, of support vectors.

    Table 5 of [1]_. With this risk, SVR's and LIBLINEAR's C is ``1 / (n reg_lambda)``. The best
    intercept and the best step along a line are exact, in O(n).

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
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(1.5).value(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    array([0. , 0.5])
    """

    def __init__(self, epsilon=0.1):
        self.epsilon = as_float(epsilon)

    def check(self, y) -> None:
        allowed = self.epsilon == 0.0 or is_between(self.epsilon, 0.0, np.inf)
        require(allowed, "epsilon", self.epsilon, "at least 0 and finite")

    def value(self, scores, y) -> Array:
        return np.maximum(0.0, np.abs(scores - y) - self.epsilon)

    def gradient(self, scores, y) -> Array:
        residual = scores - y
        return np.sign(residual) * (np.abs(residual) > self.epsilon)

    def _shape(self):
        return -1.0, 1.0, float(self.epsilon)
