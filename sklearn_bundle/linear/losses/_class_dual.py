"""Losses of classes with dual steps: maxima over the classes of ``f_k - f_y + Delta(y, k)``.

Their dual point alpha has a distribution over the classes in each row. It gives the cutting plane
with the derivatives ``s_i (alpha_ik - [k = y_i])`` and the offset
``sum_i s_i sum_k alpha_ik Delta(y_i, k)``.
"""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.multiclass import MulticlassHinge

Array = NDArray[np.float64]


class ClassDual:
    """A loss of this kind.

    Parameters
    ----------
    cost : array-like of shape (K, K), default=None
        Delta; None means 1 for every confusion.
    """

    def __init__(self, cost=None):
        self._cost = cost

    def costs(self, n_classes: int) -> Array:
        """Delta, shape (K, K)."""
        if self._cost is None:
            return 1.0 - np.eye(n_classes)
        return np.array(self._cost, dtype=np.float64)


def class_dual(loss: Loss) -> ClassDual | None:
    """The form of the loss for dual steps; None if it has none.

    Slack scaling weighs the differences of scores: the best alpha of a row is then not a projection
    onto the simplex. Without costs both scalings are the same.
    """
    if type(loss) is MulticlassHinge and (loss.scaling == "margin" or loss.cost is None):
        return ClassDual(loss.cost)
    return None
