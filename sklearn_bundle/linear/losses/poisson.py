"""Poisson regression: half the deviance, of scores that are logarithms of means.

In compiled functions ``m = exp(f)`` is the mean that the score f predicts.
"""

import math
from typing import NamedTuple

import numpy as np

from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.jit.elementary import exp, log
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.one_score import RegressionLoss, Start

_OF_EXP = tuple(1.0 / math.factorial(k) for k in range(15, 1, -1))  # the highest power first
_OF_ATANH = tuple(1.0 / k for k in range(15, 2, -2))


class PoissonFormula(NamedTuple):
    """The type that stands for the Poisson loss in compiled code."""


@inner
def _exp_remainder(x, e):
    """exp(x) - 1 - x given e = exp(x) - 1, by the series if x is small."""
    p = 0.0
    for coefficient in _OF_EXP:
        p = p * x + coefficient
    # the series avoids cancellation
    return p * x * x if abs(x) < 0.5 else e - x


@inner
def _is_apart(x, log_y):
    """Whether ``x = f - log(y)`` is more than rounding; otherwise the loss, about 1e-30, is 0."""
    # possible rounding from the logarithm of the target
    return abs(x) > 1e-15 * (1.0 + abs(log_y))


@inner
def _log_remainder(r):
    """(1 + r) log(1 + r) - r for |r| < _NEAR, from the series of atanh(s), s = r / (2 + r)."""
    s = r / (2.0 + r)
    z = s * s
    p = 0.0
    for coefficient in _OF_ATANH:
        p = p * z + coefficient
    return 2.0 * z * (1.0 + s * p * (1.0 + s)) / (1.0 - s)


@registered(loops.value, PoissonFormula)
def _value(loss, f, r, y):
    """``y (exp(x) - 1 - x)`` with x = f - log(y), and m for y = 0."""
    m, positive = exp(f), max(y, loops.TINY)
    log_y = log(positive)
    x = f - log_y
    deviance = positive * _exp_remainder(x, (m - y) / positive)
    deviance = deviance if _is_apart(x, log_y) else 0.0
    return deviance if y > 0.0 else m


@registered(loops.slope, PoissonFormula)
def _slope(loss, f, r, y, steepness):
    return exp(f) - y


@registered(loops.curvature, PoissonFormula)
def _curvature(loss, f, r, y, steepness):
    return exp(f)


@registered(loops.conjugate, PoissonFormula)
def _conjugate(loss, u, y, center):
    """``m log(m) - m - y log(y) + y`` with m = y + u; if y > 0, ``u log(y) + m log(m/y) - u``.

    Near the targets u is small, and so are all terms of the second form.
    """
    m, positive = max(y + u, 0.0), max(y, loops.TINY)
    log_m, log_y = log(max(m, loops.TINY)), log(positive)
    r = u / positive
    near, far = positive * _log_remainder(r), m * (log_m - log_y) - u
    # the series avoids cancellation
    near = u * (log_y - center) + (near if abs(r) < 0.125 else far)
    empty = m * (log_m - center) - u
    return near if y > 0.0 else empty


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

    smooth = True
    positive_only = True
    formula = PoissonFormula()

    def value(self, scores, y) -> Array:
        log_y = np.log(np.where(y > 0.0, y, 1.0))
        with np.errstate(over="ignore"):
            deviance = y * (np.expm1(scores - log_y) - (scores - log_y))
            return np.where(y > 0.0, np.maximum(deviance, 0.0), np.exp(scores))

    def gradient(self, scores, y) -> Array:
        return self.mean(scores) - y

    def curvature(self, scores, y) -> Array:
        return self.mean(scores) + np.zeros_like(y)

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

    def closed_intercept(self, scores, y, weights) -> float:
        """The b at which the predictions have the mean of the targets, in closed form."""
        largest = float(scores.max())
        means = np.exp(scores - largest)
        return float(np.log((weights @ y) / (weights @ means))) - largest

    def start(self, y, weights, free) -> Start:
        mean = float(weights @ y)
        return Start(float(np.log(mean)) if free else 0.0, 1.0, mean)

    def center(self, y, weights) -> float:
        return float(np.log(weights @ y))
