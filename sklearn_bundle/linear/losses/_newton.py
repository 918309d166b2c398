"""Losses that Newton's method supports, and their form for it."""

from collections.abc import Callable

import numpy as np

from sklearn_bundle.linear.losses._newton_binary import (
    NewtonExponential,
    NewtonHinge,
    NewtonLogLoss,
    NewtonSquaredHinge,
)
from sklearn_bundle.linear.losses._newton_loss import NewtonLoss
from sklearn_bundle.linear.losses._newton_regression import NewtonPoisson, NewtonResidual
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.hinge import Hinge, SquaredHinge
from sklearn_bundle.linear.losses.logistic import Exponential, LogLoss
from sklearn_bundle.linear.losses.poisson import Poisson
from sklearn_bundle.linear.losses.quantile import AbsoluteError, EpsilonInsensitive, Quantile
from sklearn_bundle.linear.losses.regression import Huber, SquaredError
from sklearn_bundle.linear.losses.tube import SquaredEpsilonInsensitive

# Exact class only: a subclass may have another curvature.
_KINDS: dict[type[Loss], Callable[..., NewtonLoss]] = {
    Hinge: lambda loss: NewtonHinge(),
    SquaredHinge: lambda loss: NewtonSquaredHinge(),
    LogLoss: lambda loss: NewtonLogLoss(),
    Exponential: lambda loss: NewtonExponential(),
    AbsoluteError: lambda loss: NewtonResidual(-1.0, 1.0, smooth=False),
    Quantile: lambda loss: NewtonResidual(-loss.quantile, 1.0 - loss.quantile, smooth=False),
    EpsilonInsensitive: lambda loss: NewtonResidual(-1.0, 1.0, loss.epsilon, smooth=False),
    SquaredEpsilonInsensitive: lambda loss: NewtonResidual(
        -np.inf, np.inf, loss.epsilon, smooth=True
    ),
    Huber: lambda loss: NewtonResidual(-loss.delta, loss.delta, smooth=True),
    Poisson: lambda loss: NewtonPoisson(),
}


def newton_loss(loss: Loss) -> NewtonLoss | None:
    """The form of the loss for Newton's method; None if it is not supported."""
    kind = _KINDS.get(type(loss))
    return None if kind is None else kind(loss)


def curved_loss(loss: Loss) -> NewtonLoss | None:
    """Like :func:`newton_loss`, with squared errors, which have their own solvers in memory."""
    if type(loss) is SquaredError:
        return NewtonResidual(-np.inf, np.inf, smooth=True)
    return newton_loss(loss)
