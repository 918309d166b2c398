"""The contract of losses for dual coordinate ascent: steps in alpha, their bounds and planes.

alpha_i is minus the derivative of the weighted loss of row i, in the direction y_i of that row:
``s_i l(f_i) = max over alpha_i of -y_i alpha_i f_i - s_i l*(-y_i alpha_i / s_i)``. Any feasible
alpha gives a cutting plane of the risk, with the derivatives ``-y alpha`` and an offset. The
compiled functions are declared, and their arguments explained, in
:mod:`sklearn_bundle._compiled.coordinate`.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class DualLoss(ABC):
    """The contract."""

    #: Instance of the type for which the loss registers its compiled functions.
    steps: tuple
    #: Whether the best alpha_i may lie at a bound or a kink; epochs can skip such rows.
    at_bounds: ClassVar[bool] = True
    #: Whether epochs begin at the best intercept of w = 0: targets may lie far from 0.
    far_targets: ClassVar[bool] = False
    #: Cost of a step in multiplications, without its products with the row; 0 if only a few.
    multiplications: ClassVar[float] = 0.0

    @abstractmethod
    def bounds(self, weights: Array) -> tuple[Array | float, Array | float]:
        """The smallest and the largest alpha."""

    @abstractmethod
    def offset(self, alpha: Array, target: Array, weights: Array, free: bool) -> float:
        """Offset of the plane that alpha gives: the dual without its quadratic term.

        With ``free`` alpha is balanced: ``y'alpha = 0`` up to rounding.
        """

    @abstractmethod
    def slope(self, alpha: Array, target: Array) -> float:
        """Derivative in t of the offset for ``t alpha``, at t = 0+; called if `at_bounds`."""

    @abstractmethod
    def direction(self, target: Array) -> Array:
        """The y_i."""

    @abstractmethod
    def balanced(self, alpha: Array, target: Array) -> Array:
        """A feasible alpha with ``y'alpha = 0`` near this one."""
