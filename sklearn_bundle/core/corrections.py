"""The memory of L-BFGS: steps and changes of the gradient, which correct a direction."""

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

Array = NDArray[np.float64]

_TINY = 1e-300  # products of a step and a change of the gradient up to this count as 0


class Corrections:
    """The last pairs of a step and the change of the gradient along it.

    Parameters
    ----------
    memory : int
        Number of pairs that are kept.
    """

    def __init__(self, memory: int):
        self._pairs: deque[tuple[Array, Array, float]] = deque(maxlen=memory)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def scale(self) -> float:
        """``s'y / y'y`` of the newest pair: the inverse of a curvature."""
        _, change, product = self._pairs[-1]
        return product / blas.ddot(change, change)

    def clear(self) -> None:
        """Forget all pairs."""
        self._pairs.clear()

    def remember(self, step: Array, change: Array) -> None:
        """Keep the pair if it shows curvature."""
        product = blas.ddot(step, change)
        if product > _TINY and np.isfinite(product):
            self._pairs.append((step, change, product))

    def correct(self, x: Array, solve: Callable[[Array], Array]) -> Array:
        """The corrected inverse times x, starting from ``solve``: the two loops over the pairs.

        x is overwritten.
        """
        shares = []
        for step, change, product in reversed(self._pairs):
            shares.append(blas.ddot(step, x) / product)
            blas.daxpy(change, x, a=-shares[-1])
        x = solve(x)
        for (step, change, product), share in zip(self._pairs, reversed(shares), strict=True):
            blas.daxpy(step, x, a=share - blas.ddot(change, x) / product)
        return x
