"""Poisson regression: half the deviance, of scores that are logarithms of means."""

import numpy as np
from scipy.special import xlogy

from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.linear.losses import _poisson
from sklearn_bundle.linear.losses._piecewise import balance_slopes
from sklearn_bundle.linear.losses.base import Array, Cut
from sklearn_bundle.linear.losses.regression import RegressionLoss, weighted_mean


class Poisson(RegressionLoss):
    """Half the Poisson deviance with log link, ``l(y, f) = exp(f) - y f + y log(y) - y``.

    0 log 0 = 0; targets are counts or rates, y >= 0, and predictions exp(f). See table 5 of [1]_,
    which lacks the terms in y that make the least loss 0. With this risk, PoissonRegressor's alpha
    is reg_lambda. Infinite if f exceeds 709. The best intercept is a closed form.

    Raises
    ------
    ValueError
        If y has a negative value, or is 0 everywhere; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Poisson
    >>> Poisson().value(np.array([0.0, np.log(3.0)]), np.array([0.0, 3.0])).round(6)
    array([1., 0.])
    """

    positive_only = True

    def check(self, y) -> None:
        if np.min(y) < 0.0:
            raise ValueError(
                f"y must not be negative with the Poisson loss, but has a value {np.min(y)}."
            )
        if not np.max(y) > 0.0:
            raise ValueError("y must have a value above 0 with the Poisson loss, but is all 0.")

    def mean(self, scores) -> Array:
        """The exponential of the scores; infinite if it overflows."""
        with np.errstate(over="ignore"):
            return np.exp(scores)

    def value(self, scores, y) -> Array:
        return np.maximum(0.0, self.mean(scores) - y * scores + xlogy(y, y) - y)

    def gradient(self, scores, y) -> Array:
        return self.mean(scores) - y

    def curvature(self, scores, y) -> Array:
        return self.mean(scores)

    def risk(self, scores, y, weights, intercept) -> float:
        return _poisson.risk(scores, y, weights, intercept)

    def intercept(self, scores, y, weights, scratch) -> float:
        """The b at which the predictions have the mean of the targets, in closed form."""
        largest = float(scores.max())
        means = np.exp(np.subtract(scores, largest, out=scratch[0]), out=scratch[0])
        return float(np.log(weighted_mean(y, weights) / weighted_mean(means, weights))) - largest

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        b = center = 0.0
        if fit_intercept:
            b = self.intercept(scores, y, weights, scratch)
            center = float(np.log(weighted_mean(y, weights)))
        _poisson.slopes(scores, y, b, out)
        if fit_intercept:
            balance_slopes(weights, out)
        risk = _poisson.risk(scores, y, weights, b)
        return Cut(risk, _poisson.plane_from_slopes(y, weights, center, out), b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        def derivative(t):
            first, second = _poisson.slope(scores, direction, y, weights, 0.0, 0.0, t)
            return slope + curvature * t + first, curvature + second

        return search_zero(derivative)
