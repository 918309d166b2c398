"""Hinge and squared hinge of a score and a label in {-1, +1}.

In compiled functions ``-y r`` is the slack ``1 - y f``, and ``p = -y u`` the size of a slope u.
"""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.linear._compiled import dual
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.one_score import BinaryLoss


class HingeFormula(NamedTuple):
    """The type that stands for the hinge loss in compiled code."""


class SquaredHingeFormula(NamedTuple):
    """The type that stands for the squared hinge loss in compiled code."""


@registered(dual.direction, HingeFormula)
@registered(dual.direction, SquaredHingeFormula)
def _label(loss, y):
    return y


# ---- hinge: max(0, slack) ------------------------------------------------------------------------


@registered(loops.value, HingeFormula)
def _value(loss, f, r, y):
    return max(-y * r, 0.0)


@registered(loops.slope, HingeFormula)
def _slope(loss, f, r, y, steepness):
    slack = max(-y * r, 0.0)
    return -y * (min(slack * steepness, 1.0) if slack > 0.0 else 0.0)


@registered(loops.curvature, HingeFormula)
def _curvature(loss, f, r, y, steepness):
    p = -y * r * steepness
    return steepness if 0.0 < p < 1.0 else 0.0


@registered(loops.conjugate, HingeFormula)
def _conjugate(loss, u, y, center):
    return u * (y - center)


@registered(loops.sides, HingeFormula)
def _sides(loss, b, t, y):
    below, above = min(-y, 0.0), max(-y, 0.0)
    return below if b <= t else above, below if b < t else above


@registered(dual.step, HingeFormula)
def _step(loss, target, margin, alpha, weight, curvature, high, low):
    slack = 1.0 - margin
    gap = weight * max(slack, 0.0) - alpha * slack
    gradient, counts = dual.projected(-slack, -slack, alpha, 0.0, weight, curvature, high, low)
    new = dual.maximizer(slack + curvature * alpha, curvature, alpha, 0.0, weight)
    return (new if counts else alpha), gradient, gap, counts


# ---- squared hinge: max(0, slack)^2 / 2 ----------------------------------------------------------


@registered(loops.value, SquaredHingeFormula)
def _squared_value(loss, f, r, y):
    slack = max(-y * r, 0.0)
    return 0.5 * slack * slack


@registered(loops.slope, SquaredHingeFormula)
def _squared_slope(loss, f, r, y, steepness):
    return -y * max(-y * r, 0.0)


@registered(loops.curvature, SquaredHingeFormula)
def _squared_curvature(loss, f, r, y, steepness):
    return 1.0 if -y * r > 0.0 else 0.0


@registered(loops.conjugate, SquaredHingeFormula)
def _squared_conjugate(loss, u, y, center):
    return u * (y - center) + 0.5 * u * u


@registered(dual.step, SquaredHingeFormula)
def _squared_step(loss, target, margin, alpha, weight, curvature, high, low):
    slack, bend = 1.0 - margin, 1.0 / weight
    gap = 0.5 * weight * max(slack, 0.0) ** 2 - alpha * slack + 0.5 * bend * alpha * alpha
    minus = bend * alpha - slack
    gradient, counts = dual.projected(minus, minus, alpha, 0.0, np.inf, curvature, high, low)
    new = dual.maximizer(slack + curvature * alpha, curvature + bend, alpha, 0.0, np.inf)
    return (new if counts else alpha), gradient, gap, counts


class Hinge(BinaryLoss):
    """Hinge loss, ``l(y, f) = max(0, 1 - y f)``, of the support vector machine.

    See table 5 of [1]_.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Hinge
    >>> Hinge().value(np.array([2.0, 0.5, 0.5]), np.array([1.0, 1.0, -1.0]))
    array([0. , 0.5, 1.5])
    """

    dual_steps = True

    @property
    def formula(self):
        return HingeFormula()

    @property
    def kinks(self):
        return ((0.0, 1.0),)

    def value(self, scores, y) -> Array:
        return np.maximum(0.0, 1.0 - y * scores)

    def gradient(self, scores, y) -> Array:
        return np.where(y * scores < 1.0, -y, 0.0)


class SquaredHinge(BinaryLoss):
    """Squared hinge loss, ``l(y, f) = max(0, 1 - y f)^2 / 2``.

    Table 5 of [1]_. With its factor 1/2, LIBLINEAR's C is ``1 / (2 n reg_lambda)``.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([2.0, 0.5, 0.5]), np.array([1.0, 1.0, -1.0]))
    array([0.   , 0.125, 1.125])
    """

    smooth = True
    dual_steps = True

    @property
    def formula(self):
        return SquaredHingeFormula()

    def value(self, scores, y) -> Array:
        return 0.5 * np.maximum(0.0, 1.0 - y * scores) ** 2

    def gradient(self, scores, y) -> Array:
        return -y * np.maximum(0.0, 1.0 - y * scores)

    def curvature(self, scores, y) -> Array:
        return np.where(y * scores < 1.0, 1.0, 0.0)
