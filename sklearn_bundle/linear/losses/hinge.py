"""Hinge and squared hinge of a score and a label in {-1, +1}."""

import numpy as np

from sklearn_bundle.linear.losses.pieces import WEIGHT_ROUNDING, OneSided, PieceLoss
from sklearn_bundle.linear.losses.scores import LabelLoss

_LIGHT = 1e-9  # of all weight: a class below this would be lost in the rounding of sums of all


class Hinge(PieceLoss, LabelLoss):
    """Hinge loss, ``l(y, f) = max(0, 1 - y f)``, of the support vector machine.

    See table 5 of [1]_. The best intercept is a weighted quantile, and the best step along a line
    is the zero of a step function; both are exact, in O(n), by selection.

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

    def formula(self):
        return OneSided(1.0, 0.0)

    def intercept(self, scores, y, weights, scratch) -> float:
        """The smallest kink ``t_i = y_i - f_i`` up to which the weight is that of the positives."""
        if _is_light(y, weights):
            return _light_quantile(scores, y, weights)
        return super().intercept(scores, y, weights, scratch)


class SquaredHinge(PieceLoss, LabelLoss):
    """Squared hinge loss, ``l(y, f) = max(0, 1 - y f)^2 / 2``.

    Table 5 of [1]_. With its factor 1/2, LIBLINEAR's C is ``1 / (2 n reg_lambda)``. The derivative
    along a line and in the intercept is piecewise linear; its zero is exact, in O(n), by selection.

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

    least_at_ends = True
    most_curvature = 1.0
    smooth = True

    def formula(self):
        return OneSided(np.inf, 1.0)

    def intercept(self, scores, y, weights, scratch) -> float:
        """The smallest minimizer b."""
        if _is_light(y, weights):
            return _light_zero(scores, y, weights)
        return super().intercept(scores, y, weights, scratch)


# ---- intercepts if one class is light --------------------------------------------------------


def _is_light(y, weights):
    """Whether nearly all of the weight is of one class; the weights sum to one."""
    return 1.0 - abs(float(np.einsum("i,i->", weights, y))) < 2.0 * _LIGHT


def _light_quantile(scores, y, weights):
    """A best b of the hinge, by the weight of the lighter class.

    If the positives are lighter, it is the first kink ``t_i = y_i - f_i`` at which the weight up to
    it reaches theirs; otherwise the last one at which the weight from it on reaches that of the
    negatives.
    """
    kinks, positive = y - scores, y > 0.0
    above, below = float(weights[positive].sum()), float(weights[~positive].sum())
    order = np.argsort(kinks if above < below else -kinks, kind="stable")
    reached = np.cumsum(weights[order])
    wanted = min(above, below) * (1.0 - WEIGHT_ROUNDING)
    return float(kinks[order[np.searchsorted(reached, wanted)]])


def _light_zero(scores, y, weights):
    """The b at which the weighted slacks of both classes are equal, from sums without cancellation.

    At the sorted kinks t_k the slacks of the negatives below grow by weight times distance from
    left to right, those of the positives above from right to left.
    """
    kinks = y - scores
    order = np.argsort(kinks, kind="stable")
    kinks, signed = kinks[order], (weights * y)[order]
    gaps = np.diff(kinks)
    below = np.cumsum(np.maximum(-signed, 0.0))[:-1]
    above = np.cumsum(np.maximum(signed, 0.0)[::-1])[-2::-1]
    negative = np.append(0.0, np.cumsum(below * gaps))
    positive = np.append(np.cumsum((above * gaps)[::-1])[::-1], 0.0)
    k = int(np.argmax(negative >= positive))
    if k == 0:
        return float(kinks[0])
    k -= 1
    return float(kinks[k] + (positive[k] - negative[k]) / (below[k] + above[k]))
