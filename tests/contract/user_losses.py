"""Losses and a regularizer as a user would write them, in plain numpy."""

import numpy as np

from sklearn_bundle.losses import BinaryLoss, MulticlassLoss, RegressionLoss
from sklearn_bundle.regularizers import Regularizer


class AbsoluteMargin(BinaryLoss):
    """|1 - y f|: a user's loss with a kink, in plain numpy."""

    def value(self, scores, y):
        return np.abs(1.0 - y * scores)

    def gradient(self, scores, y):
        return -y * np.sign(1.0 - y * scores)


class LogCosh(RegressionLoss):
    """The logarithm of the hyperbolic cosine of the residual, as in ``doc/add_a_loss.rst``."""

    def value(self, scores, y):
        size = np.abs(scores - y)
        return size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)

    def gradient(self, scores, y):
        return np.tanh(scores - y)


class Expectile(RegressionLoss):
    """``|a - 1[f > y]| (f - y)^2``."""

    def __init__(self, a=0.8):
        self.a = a

    def value(self, scores, y):
        return np.where(scores > y, 1.0 - self.a, self.a) * (scores - y) ** 2

    def gradient(self, scores, y):
        return 2.0 * np.where(scores > y, 1.0 - self.a, self.a) * (scores - y)


class SmoothHinge(BinaryLoss):
    """Quadratic between margins 0 and 1, linear below: a user's loss with a curvature."""

    def value(self, scores, y):
        m = 1.0 - y * scores
        return np.where(m <= 0.0, 0.0, np.where(m < 1.0, 0.5 * m**2, m - 0.5))

    def gradient(self, scores, y):
        return -y * np.clip(1.0 - y * scores, 0.0, 1.0)

    def curvature(self, scores, y):
        m = 1.0 - y * scores
        return ((m > 0.0) & (m < 1.0)).astype(float)


class SquaredMargins(MulticlassLoss):
    """Sum of squared hinges of f_k - f_y: a user's loss, in plain numpy."""

    def _slacks(self, scores, y):
        slacks = np.maximum(0.0, 1.0 + scores - np.take_along_axis(scores, y[:, None], 1))
        slacks[np.arange(len(y)), y] = 0.0
        return slacks

    def value(self, scores, y):
        return np.sum(self._slacks(scores, y) ** 2, axis=1)

    def gradient(self, scores, y):
        gradient = 2.0 * self._slacks(scores, y)
        gradient[np.arange(len(y)), y] = -gradient.sum(axis=1)
        return gradient


class ElasticNetPenalty(Regularizer):
    """``||w||^2 / 2 + l1 ||w||_1``, a regularizer of a user's own with the required methods."""

    def __init__(self, l1=1.0):
        self.l1 = l1

    def value(self, w):
        return float(np.sum(0.5 * w**2 + self.l1 * np.abs(w)))

    def slope(self, w, direction):
        kinked = np.where(w == 0.0, np.abs(direction), np.sign(w) * direction)
        return float(w @ direction + self.l1 * kinked.sum()), float(direction @ direction)

    def conjugate(self, m):
        return float(0.5 * np.sum(self.conjugate_gradient(m) ** 2))

    def conjugate_gradient(self, m):
        return np.sign(m) * np.maximum(0.0, np.abs(m) - self.l1)

    def conjugate_curvature(self, m, planes):
        active = planes[:, np.abs(m) > self.l1]
        return active @ active.T
