"""Convex conjugates ``l*(u) = max_f u f - l(f)`` of losses with curvature."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.hinge import SquaredHinge
from sklearn_bundle.linear.losses.logistic import Exponential, LogLoss
from sklearn_bundle.linear.losses.poisson import Poisson
from sklearn_bundle.linear.losses.regression import Huber, SquaredError
from sklearn_bundle.linear.losses.tube import SquaredEpsilonInsensitive

Array = NDArray[np.float64]
#: l* of each sample's derivative u with its target y. If derivatives sum to zero, a constant times
#: u has no effect: functions of the residual then center the targets, for precision.
Conjugate = Callable[[Array, Array, float], Array]


def _residual(half: float) -> Conjugate:
    """For functions of the residual whose derivative grows by one beyond ``half``."""
    return lambda u, y, center: u * (y - center) + half * np.abs(u) + 0.5 * u * u


def _squared_hinge(u: Array, y: Array, center: float) -> Array:
    return 0.5 * u * u + y * u


def _log_loss(u: Array, y: Array, center: float) -> Array:
    share = np.clip(-y * u, 0.0, 1.0)
    return xlogy(share, share) + xlogy(1.0 - share, 1.0 - share)


def _exponential(u: Array, y: Array, center: float) -> Array:
    share = np.maximum(-y * u, 0.0)
    return xlogy(share, share) - share


def _poisson(u: Array, y: Array, center: float) -> Array:
    mean = np.maximum(u + y, 0.0)
    return xlogy(mean, mean) - xlogy(y, y) - u


# Exact class only: a subclass may be another loss. These are finite at derivatives of the loss, and
# at multiples of them by a number in [0, 1].
_KINDS: dict[type[Loss], Callable[[Any], Conjugate]] = {
    SquaredError: lambda loss: _residual(0.0),
    Huber: lambda loss: _residual(0.0),
    SquaredEpsilonInsensitive: lambda loss: _residual(loss.epsilon),
    SquaredHinge: lambda loss: _squared_hinge,
    LogLoss: lambda loss: _log_loss,
    Exponential: lambda loss: _exponential,
    Poisson: lambda loss: _poisson,
}


def conjugate(loss: Loss) -> Conjugate | None:
    """l* of the loss; None if its conjugate is not known here."""
    kind = _KINDS.get(type(loss))
    return None if kind is None else kind(loss)
