"""A point amid rows, and how far each row is from it: what bounds of scores need of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.roundoff import DOUBLE, likely

Array = NDArray[np.float64]

_FEW = 4.0  # roundings of a score beside those of its products
_SOME_ROWS = 256  # whose mean is the center


class AmidRows:
    """What bounds need of rows whatever w is: a center, which may be any point, best amid them.

    Parameters
    ----------
    rows : RowOperator

    Attributes
    ----------
    some : RowOperator
        A few rows.
    center : ndarray of shape (d,)
        c, their mean.
    distance : float
        ``||c||``.
    """

    def __init__(self, rows: Any):
        n = rows.shape[0]
        self.some = rows.sample(np.linspace(0, n - 1, min(n, _SOME_ROWS)).astype(np.intp))
        few = self.some.shape[0]
        self.center: Array = self.some.gradient(np.full(few, 1.0 / few))
        self.distance = float(np.linalg.norm(self.center))
        self._lengths: Array | None = None

    def lengths(self, rows: Any) -> Array:
        """``||x_i - c||`` of these same rows, rounded up."""
        values = self._lengths
        if values is None:
            values = found = np.asarray(rows.distances(self.center), dtype=np.float64)

            def part(some: slice) -> tuple[float, ...]:
                squares = found[some]
                sizes = np.sqrt(np.maximum(squares, 0.0)) + 2.0 * self.distance
                squares[:] = lengths_of(squares, sizes, rows.shape[1])
                return ()

            rows.sums(part)
            self._lengths = values
        return values

    def sizes(self, lengths: Array) -> Array:
        """No less than ``||x_i|| + ||c||``."""
        return lengths + 2.0 * self.distance


def lengths_of(squares: Array, sizes: Any, d: int) -> Array:
    """``||x - c||`` from its square, rounded up; ``sizes`` are ``||x|| + ||c||``."""
    rounded = (likely(d) + _FEW) * 2.0 * DOUBLE * sizes**2
    return np.sqrt(np.maximum(squares, 0.0) + rounded)


def score_rounding(weights: Array, sizes: Any, d: int) -> Array:
    """What rounding may add to ``<w_k, x - c>``, of shape (n, k); ``sizes`` as above."""
    return (likely(d) + _FEW) * DOUBLE * np.outer(sizes, np.linalg.norm(weights, axis=1))
