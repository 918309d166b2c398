"""The contract of losses for dual coordinate ascent: steps in alpha, their bounds and planes.

alpha_i is minus the derivative of the weighted loss of row i, in the direction y_i of that row:
``s_i l(f_i) = max over alpha_i of -y_i alpha_i f_i - s_i l*(-y_i alpha_i / s_i)``. Any feasible
alpha gives a cutting plane of the risk, with the derivatives ``-y alpha`` and an offset. The
compiled functions are declared, and their arguments explained, in
:mod:`~.coordinate`.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROWS = 1 << 16  # whose copies are small beside a vector


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
    def offset(self, alpha: Array, target: Array, weights: Array, center: float) -> float:
        """Offset of the plane that alpha gives, a sum over rows: the dual without its square.

        ``center`` is subtracted from real targets. If ``y'alpha = 0``, that changes only rounding:
        the mean target keeps the terms small.
        """

    @abstractmethod
    def slope(self, alpha: Array, target: Array) -> float:
        """Derivative in t of the offset for ``t alpha``, at t = 0+; called if `at_bounds`."""

    @abstractmethod
    def direction(self, target: Array) -> Array:
        """The y_i."""

    @abstractmethod
    def balance(self, alpha: Array, target: Array) -> None:
        """Change a feasible alpha a little, so that ``y'alpha = 0``."""


def scale_heavier_down(alpha: Array, positive: NDArray[np.bool_]) -> None:
    """Scale one of the two parts down, so that the sizes of their sums are equal."""
    sums = np.zeros(2)
    for start in range(0, len(alpha), _ROWS):
        part, above = alpha[start : start + _ROWS], positive[start : start + _ROWS]
        sums += part[above].sum(), part[~above].sum()
    up, down = np.abs(sums).tolist()
    if up != down:
        heavier = positive if up > down else ~positive
        np.multiply(alpha, min(up, down) / max(up, down), out=alpha, where=heavier)
