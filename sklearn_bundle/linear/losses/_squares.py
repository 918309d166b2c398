"""Losses that are squared errors, whose second derivatives are constant."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.regression import MultivariateSquaredError, SquaredError

Array = NDArray[np.float64]


class SquaredErrors(NamedTuple):
    """The loss is ``r' M r / 2`` with the residual r; M is None for the identity."""

    metric: Array | None


def squared_errors(loss: Loss) -> SquaredErrors | None:
    """The loss as a squared error; None if it is not one.

    Exact class only: a subclass may be another loss.
    """
    if type(loss) is SquaredError:
        return SquaredErrors(None)
    if type(loss) is MultivariateSquaredError:
        return SquaredErrors(loss.metric())
    return None
