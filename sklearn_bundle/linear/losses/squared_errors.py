"""Squared error of several outputs."""

import numpy as np

from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.one_score import RegressionLoss


class SquaredErrors(RegressionLoss):
    """Squared error of k outputs, ``l(y, f) = ||f - y||^2 / 2``, for targets of shape (n, k)."""

    multi_output = True
    smooth = True
    quadratic = True
    degree = 2.0

    def value(self, scores, y) -> Array:
        return 0.5 * np.sum((scores - y) ** 2, axis=1)

    def gradient(self, scores, y) -> Array:
        return scores - y

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        residual = scores - y.T
        np.multiply(weights, residual, out=out)
        double_risk = float(np.sum(out * residual))
        return 0.5 * double_risk, -0.5 * double_risk - float(np.sum(out * y.T))

    def along(self, scores, direction, y, weights, t) -> tuple[float, float, float]:
        residual, image = scores - y.T + t * direction, direction * weights
        risk = 0.5 * float(np.sum(weights * residual**2))
        return risk, float(np.sum(image * residual)), float(np.sum(image * direction))

    def offset(self, derivatives, y, weights) -> float:
        """``-sum_i <g_i, y_i> + ||g_i||^2 / (2 s_i)``."""
        return -float(np.sum(derivatives * (y.T + 0.5 * derivatives / weights)))

    def covariance(self, derivatives, y, weights) -> Array:
        """The identity, as the weights have the sum one."""
        return np.eye(len(derivatives))

    def closed_intercept(self, scores, y, weights) -> Array:
        """The mean residual of each output, and the mean of what rounding left of them."""
        residual = y.T - scores
        b = residual @ weights
        return b + (residual - b[:, None]) @ weights
