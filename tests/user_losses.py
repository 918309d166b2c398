"""Losses as a user would write them, in plain numpy."""

import numpy as np

from sklearn_bundle.losses import BinaryLoss


class AbsoluteMargin(BinaryLoss):
    """|1 - y f|: a user's loss with a kink, in plain numpy."""

    def value(self, scores, y):
        return np.abs(1.0 - y * scores)

    def gradient(self, scores, y):
        return -y * np.sign(1.0 - y * scores)


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


USERS = {"absolute_margin": AbsoluteMargin(), "smooth_hinge": SmoothHinge()}
