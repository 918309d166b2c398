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
    """The type that stands for both losses in compiled code: the square has 1.0, the hinge 0.0."""

    square: float


@registered(dual.direction, HingeFormula)
def _label(loss, y):
    return y


@registered(loops.value, HingeFormula)
def _value(loss, f, r, y):
    slack = max(-y * r, 0.0)
    return slack * (0.5 * slack if loss.square > 0.0 else 1.0)


@registered(loops.slope, HingeFormula)
def _slope(loss, f, r, y, steepness):
    slack = max(-y * r, 0.0)
    bent = min(slack * steepness, 1.0) if slack > 0.0 else 0.0
    return -y * (slack if loss.square > 0.0 else bent)


@registered(loops.curvature, HingeFormula)
def _curvature(loss, f, r, y, steepness):
    factor = 1.0 if loss.square > 0.0 else steepness
    p = -y * r * factor
    return factor if (p > 0.0) & ((p < 1.0) | (loss.square > 0.0)) else 0.0


@registered(loops.conjugate, HingeFormula)
def _conjugate(loss, u, y, center):
    return u * (y - center) + 0.5 * loss.square * u * u


@registered(loops.sides, HingeFormula)
def _sides(loss, b, t, y):
    below, above = min(-y, 0.0), max(-y, 0.0)
    return below if b <= t else above, below if b < t else above


@registered(dual.step, HingeFormula)
def _step(loss, target, margin, alpha, weight, curvature, high, low):
    slack, bend = 1.0 - margin, loss.square / weight
    most = np.inf if loss.square > 0.0 else weight
    positive = max(slack, 0.0)
    gap = weight * positive * (0.5 * positive if loss.square > 0.0 else 1.0)
    gap += alpha * (0.5 * bend * alpha - slack)
    minus = bend * alpha - slack
    gradient, counts = dual.projected(minus, minus, alpha, 0.0, most, curvature, high, low)
    new = dual.maximizer(slack + curvature * alpha, curvature + bend, alpha, 0.0, most)
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
    formula = HingeFormula(0.0)
    kinks = ((0.0, 1.0),)

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
    formula = HingeFormula(1.0)

    def value(self, scores, y) -> Array:
        return 0.5 * np.maximum(0.0, 1.0 - y * scores) ** 2

    def gradient(self, scores, y) -> Array:
        return -y * np.maximum(0.0, 1.0 - y * scores)

    def curvature(self, scores, y) -> Array:
        return np.where(y * scores < 1.0, 1.0, 0.0)
