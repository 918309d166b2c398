"""Logistic and exponential loss of a score and a label in {-1, +1}, with their compiled functions.

In formulas ``z = y f`` is the margin. ``Cut.offset`` is written in closed form, without the
cancellation in ``l - l' f``.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.jit.elementary import exp, log1p_unit
from sklearn_bundle.linear.losses._sums import LANES, balance
from sklearn_bundle.linear.losses.base import Array, Cut
from sklearn_bundle.linear.losses.samples import BinaryLoss

# ---- logistic and exponential loss ---------------------------------------------------------


@jit
def log_loss_cut(scores, y, weights, b, out):
    risk, offset, signed = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            z = y[i] * (scores[i] + b)
            e = exp(-abs(z))
            log = log1p_unit(e)
            q = e / (1.0 + e)
            out[i] = -weights[i] * y[i] * (q if z > 0.0 else 1.0 - q)
            risk[k] += weights[i] * (log + max(-z, 0.0))
            part = weights[i] * (log + abs(z) * q)
            offset[k] += part
            signed[k] += y[i] * part
    return risk.sum(), offset.sum(), signed.sum()


@jit
def log_loss_slope(scores, direction, y, weights, b, along_b, t):
    """First and second derivative in t of the risk at scores + b + t (direction + along_b)."""
    first = np.zeros(LANES)
    second = np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            move = direction[i] + along_b
            z = y[i] * (scores[i] + b + t * move)
            e = exp(-abs(z))
            q = e / (1.0 + e)
            step = y[i] * move
            first[k] -= weights[i] * step * (q if z > 0.0 else 1.0 - q)
            second[k] += weights[i] * step * step * q * (1.0 - q)
    return first.sum(), second.sum()


@jit
def exponential_cut(scores, y, weights, b, out):
    risk, offset, signed = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            z = y[i] * (scores[i] + b)
            v = weights[i] * exp(-z)
            out[i] = -y[i] * v
            risk[k] += v
            offset[k] += v * (1.0 + z)
            signed[k] += y[i] * v * (1.0 + z)
    return risk.sum(), offset.sum(), signed.sum()


@jit
def exponential_slope(scores, direction, y, weights, b, along_b, t):
    first = np.zeros(LANES)
    second = np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            move = direction[i] + along_b
            v = weights[i] * exp(-y[i] * (scores[i] + b + t * move))
            first[k] -= v * y[i] * move
            second[k] += v * move * move
    return first.sum(), second.sum()


def exponential_intercept(scores, y, weights):
    """The b at which both classes have the same weighted loss."""
    positive, negative = y > 0.0, y < 0.0
    return 0.5 * float(
        logsumexp(-scores[positive], b=weights[positive])
        - logsumexp(scores[negative], b=weights[negative])
    )


class _SmoothLoss(BinaryLoss):
    """Losses with a compiled cut and slope, minimized along lines by safeguarded Newton steps."""

    _cut_kernel: ClassVar[Callable[..., tuple[float, float, float]]]
    _slope_kernel: ClassVar[Callable[..., tuple[float, float]]]

    def risk(self, scores, y, weights, intercept) -> float:
        return self._cut_kernel(scores, y, weights, intercept, np.empty_like(scores))[0]

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        b = self.intercept(scores, y, weights, scratch) if fit_intercept else 0.0
        risk, offset, signed = self._cut_kernel(scores, y, weights, b, out)
        if fit_intercept:
            offset = balance(y, out, offset, signed)
        return Cut(risk, offset, b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        def derivative(t):
            first, second = self._slope_kernel(scores, direction, y, weights, 0.0, 0.0, t)
            return slope + curvature * t + first, curvature + second

        return search_zero(derivative)


class LogLoss(_SmoothLoss):
    """Logistic loss, ``l(y, f) = log(1 + exp(-y f))``, of logistic regression.

    Table 5 of [1]_. scikit-learn's C is ``1 / (n reg_lambda)``. The best intercept and the best
    step along a line are found by Newton's method.

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

    _cut_kernel = staticmethod(log_loss_cut)
    _slope_kernel = staticmethod(log_loss_slope)

    def value(self, scores, y) -> Array:
        return np.logaddexp(0.0, -y * scores)

    def gradient(self, scores, y) -> Array:
        return -y * self.probability(-y * scores)

    def curvature(self, scores, y) -> Array:
        p = self.probability(scores)
        return p * (1.0 - p)

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

    def intercept(self, scores, y, weights, scratch) -> float:
        """Newton's method in b from the mean score, in the descent direction."""
        start, still = -float(np.einsum("i,i->", weights, scores)), np.zeros(len(scores))
        rises = log_loss_slope(scores, still, y, weights, start, 1.0, 0.0)[0] > 0.0
        downhill = -1.0 if rises else 1.0

        def along(t):
            return log_loss_slope(scores, still, y, weights, start, downhill, t)

        return start + downhill * search_zero(along, precision=0.0)


class Exponential(_SmoothLoss):
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

    _cut_kernel = staticmethod(exponential_cut)
    _slope_kernel = staticmethod(exponential_slope)

    def value(self, scores, y) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(-y * scores)

    def gradient(self, scores, y) -> Array:
        return -y * self.value(scores, y)

    def curvature(self, scores, y) -> Array:
        return self.value(scores, y)

    def intercept(self, scores, y, weights, scratch) -> float:
        """The b at which both classes have the same weighted loss, in closed form."""
        return exponential_intercept(scores, y, weights)
