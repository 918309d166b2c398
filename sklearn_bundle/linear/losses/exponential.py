"""Exponential loss of a score and a label in {-1, +1}."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.jit.elementary import exp, log
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.one_score import BinaryLoss


class ExponentialFormula(NamedTuple):
    """The type that stands for the exponential loss in compiled code."""


@registered(loops.value, ExponentialFormula)
def _exponential_value(loss, f, r, y):
    return exp(-y * f)


@registered(loops.slope, ExponentialFormula)
def _exponential_slope(loss, f, r, y, steepness):
    return -y * exp(-y * f)


@registered(loops.curvature, ExponentialFormula)
def _exponential_curvature(loss, f, r, y, steepness):
    return exp(-y * f)


@registered(loops.conjugate, ExponentialFormula)
def _exponential_conjugate(loss, u, y, center):
    v = max(-y * u, 0.0)
    return v * log(max(v, loops.TINY)) - v


class Exponential(BinaryLoss):
    """Exponential loss, ``l(y, f) = exp(-y f)``, of boosting. Infinite if -y f exceeds 709.

    Table 5 of [1]_. The best intercept is a closed form: it gives both classes the same weighted
    loss.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Exponential
    >>> Exponential().value(np.array([0.0, 2.0]), np.array([1.0, -1.0])).round(3)
    array([1.   , 7.389])
    """

    smooth = True
    formula = ExponentialFormula()

    def value(self, scores, y) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(-y * scores)

    def gradient(self, scores, y) -> Array:
        return -y * self.value(scores, y)

    def curvature(self, scores, y) -> Array:
        return self.value(scores, y)

    def closed_intercept(self, scores, y, weights) -> float:
        """The b at which both classes have the same weighted loss, in closed form."""
        positive, negative = y > 0.0, y < 0.0
        return 0.5 * float(
            logsumexp(-scores[positive], b=weights[positive])
            - logsumexp(scores[negative], b=weights[negative])
        )
