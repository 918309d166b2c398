"""Kernel values from squared differences, where the points lie too far from the origin.

``|x|^2 + |z|^2 - 2 <x, z>`` loses the digits by which the norms exceed the distance: with one
column of 1e8, all of them. Differences lose none, but cost about five times as much.
"""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import likely
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values._points import ALL, TILE_ENTRIES, Index, Points, picked, unsigned
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix, canonical, densified

Array = NDArray[np.float64]

_DECAY = 0.37  # the largest t exp(-t), 1/e: the effect of a relative error of the exponent t
_OF_EXP = 5.0  # roundings in exp and its argument


class Differences(Points):
    """Rows of X as given, dense or CSR; values in float64."""

    def __init__(self, X: Matrix, kernel: Kernel):
        self.X, self.kernel = (canonical(X) if sp.issparse(X) else np.asarray(X)), kernel

    def like(self, Z: Any) -> Self:
        return type(self)(sp.csr_matrix(Z) if sp.issparse(self.X) else densified(Z), self.kernel)

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.X[indices], self.kernel)

    def diagonal(self) -> Array:
        return np.ones(self.X.shape[0])

    def rounding(self, points: Self, unit: float, rows: Index = ALL, columns: Index = ALL):
        """A difference is rounded once, its square once, and then d of them are added."""
        error = unit * (_DECAY * (likely(self.X.shape[1]) + 3.0) + _OF_EXP)
        return np.full(self.X.shape[0], error)[rows]

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        """``out[a, c] = k(self[rows[a]], points[columns[c]])`` for c < width, by tiles."""
        left = self.X if rows is None else self.X[rows]
        step = max(1, TILE_ENTRIES // max(len(out), 1))
        for start in range(0, width, step):
            stop = min(start + step, width)
            tile = np.empty((len(out), stop - start))
            _squared_distances(left, points.X[picked(columns, start, stop)], tile)
            zeros = np.zeros(max(tile.shape))
            passes.rbf_double(tile, 0, stop - start, zeros, zeros, -self.kernel.gamma)
            out[:, start:stop] = tile


def _squared_distances(left: Matrix, right: Matrix, out: Array) -> None:
    if sp.issparse(left):
        passes.sparse_squared_distances(*unsigned(left), *unsigned(right), out)
        return
    columns = np.ascontiguousarray(right.T, dtype=np.float64)
    rows = np.ascontiguousarray(left, dtype=np.float64)
    passes.squared_distances(frozen(rows), frozen(columns), out)
