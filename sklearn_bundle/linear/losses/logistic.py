"""Logistic loss of a score and a label in {-1, +1}.

In compiled functions ``z = y f`` is the margin.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.jit.elementary import exp, log, log1p_unit
from sklearn_bundle.linear._compiled import dual
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.one_score import BinaryLoss


class LogFormula(NamedTuple):
    """The type that stands for the logistic loss in compiled code."""


@registered(loops.value, LogFormula)
def _log_value(loss, f, r, y):
    z = y * f
    return log1p_unit(exp(-abs(z))) + max(-z, 0.0)


@registered(loops.slope, LogFormula)
def _log_slope(loss, f, r, y, steepness):
    z = y * f
    e = exp(-abs(z))
    q = e / (1.0 + e)
    return -y * (q if z > 0.0 else 1.0 - q)


@registered(loops.curvature, LogFormula)
def _log_curvature(loss, f, r, y, steepness):
    e = exp(-abs(f))
    q = e / (1.0 + e)
    return q * (1.0 - q)


@registered(loops.conjugate, LogFormula)
def _log_conjugate(loss, u, y, center):
    p = min(max(-y * u, 0.0), 1.0)
    small = min(p, 1.0 - p)
    large = 1.0 - small  # log(large) would lose the small part: a risk of 1e-15 consists of it
    return small * log(max(small, loops.TINY)) - large * log1p_unit(small / large)


@registered(dual.direction, LogFormula)
def _label(loss, y):
    return y


@registered(dual.step, LogFormula)
def _log_loss_step(loss, target, margin, alpha, weight, curvature, high, low):
    """Zero of ``margin + weight curvature (p - p_0) + t``, ``p = 1/(1 + exp(-t))``.

    The function rises in t with a slope of at least 1, so Newton steps between two bounds converge.
    """
    old = alpha / weight
    bend = weight * curvature
    low, high = -margin - bend * (1.0 - old), -margin + bend * old
    t = min(max(-margin, low), high)
    if 0.0 < old < 1.0:
        t = min(max(math.log(old) - math.log1p(-old), low), high)
    p = old
    # usually four or five steps; the interval is halved if they fail
    for _ in range(50):
        e = math.exp(-abs(t))
        p = 1.0 / (1.0 + e) if t > 0.0 else e / (1.0 + e)
        value = margin + bend * (p - old) + t
        if value > 0.0:
            high = t
        else:
            low = t
        step = value / (1.0 + bend * e / ((1.0 + e) * (1.0 + e)))
        # a Newton step this short leaves an error of its square
        if abs(step) <= 1e-12 * (1.0 + abs(t)):
            break
        t -= step
        if not low < t < high:
            t = 0.5 * (low + high)
    gap = loops.value(loss, target * margin, 0.0, target)
    gap += loops.conjugate(loss, -target * old, target, 0.0) + old * margin
    return weight * p, 0.0, weight * gap, True


class LogLoss(BinaryLoss):
    """Logistic loss, ``l(y, f) = log(1 + exp(-y f))``, of logistic regression.

    Table 5 of [1]_. scikit-learn's C is ``1 / (n reg_lambda)``.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import LogLoss
    >>> LogLoss().value(np.array([0.0, 2.0]), np.array([1.0, -1.0])).round(3)
    array([0.693, 2.127])
    >>> LogLoss().probability(np.array([0.0, 2.0])).round(3)
    array([0.5  , 0.881])
    """

    smooth = True
    dual_steps = True
    formula = LogFormula()

    def value(self, scores, y) -> Array:
        return np.logaddexp(0.0, -y * scores)

    def gradient(self, scores, y) -> Array:
        return -y * expit(-y * scores)

    def curvature(self, scores, y) -> Array:
        return expit(y * scores) * expit(-y * scores)

    def probability(self, scores: Array) -> Array:
        """P(y = +1 | f) = 1 / (1 + exp(-f)).

        Parameters
        ----------
        scores : ndarray of any shape
            Scores f.

        Returns
        -------
        probabilities : ndarray of the shape of scores
            Between 0 and 1.
        """
        return expit(scores)

    def log_probability(self, scores: Array) -> Array:
        """Logarithm of :meth:`probability`, finite even if that is 0.

        Parameters
        ----------
        scores : ndarray of any shape
            Scores f; for the other class -f.

        Returns
        -------
        log_probabilities : ndarray of the shape of scores
            At most 0.
        """
        return log_expit(scores)
