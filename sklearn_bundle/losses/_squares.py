"""Which losses are squared errors: their second derivatives are the same everywhere."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.losses.base import Loss
from sklearn_bundle.losses.regression import MultivariateSquaredError, SquaredError

Array = NDArray[np.float64]


class SquaredErrors(NamedTuple):
    """The loss is ``r' M r / 2`` with the residual r; M is None where it is the identity."""

    metric: Array | None


def squared_errors(loss: Loss) -> SquaredErrors | None:
    """The loss as a squared error, None for another one.

    By the class itself: one that is derived from it may be another loss.
    """
    if type(loss) is SquaredError:
        return SquaredErrors(None)
    if type(loss) is MultivariateSquaredError:
        return SquaredErrors(loss.metric())
    return None
