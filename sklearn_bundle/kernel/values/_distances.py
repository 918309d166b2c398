"""Points for the kernel "rbf" whose squared distances are sums of squared differences.

``|x|^2 + |z|^2 - 2 <x, z>`` loses the digits by which the norms exceed the distance: with one
column of 1e8, all of them. Differences lose none but cost about five times as much, so they are
used only if large norms would spoil the values.
"""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.core.roundoff import DOUBLE
from sklearn_bundle.jit import exact_sums
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values._points import (
    ALL,
    TILE_ENTRIES,
    Index,
    Points,
    likely,
    picked,
    unsigned,
)
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix, canonical, densified

_DECAY = 0.37  # the largest t exp(-t), 1/e: the effect of a relative error of the exponent t
_MOST_PARTS, _LEAST_TILES = 8, 16  # most threads for sums over tiles, fewest tiles per thread
_OF_EXP = 5.0  # roundings in exp and its argument
LAST = 4.0  # further roundings: the last sums, and the product with a sign


def roundings_of_rbf(d: int) -> float:
    """Of a value from sums of d squared differences."""
    return _DECAY * (likely(d) + 3.0) + _OF_EXP


def dense_rows(X: Matrix, indices: np.ndarray) -> NDArray[np.float64]:
    """Some rows of X, dense in float64."""
    rows = densified(X[indices]) if sp.issparse(X) else np.take(X, indices, axis=0)
    return rows.astype(np.float64, copy=False)


class Differences(Points):
    """Rows of X as given, dense or CSR; values in float64."""

    def __init__(self, X: Matrix, kernel: Kernel):
        self.X, self.kernel = (canonical(X) if sp.issparse(X) else np.asarray(X)), kernel

    def like(self, Z: Any) -> Self:
        return type(self)(sp.csr_matrix(Z) if sp.issparse(self.X) else densified(Z), self.kernel)

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.X[indices], self.kernel)

    def diagonal(self) -> NDArray[np.float64]:
        return np.ones(self.X.shape[0])

    def rounding(self, points: Self, unit: float, rows: Index = ALL, columns: Index = ALL):
        """A difference is rounded once, its square once, and then d of them are added."""
        error = unit * roundings_of_rbf(self.X.shape[1])
        return np.full(self.X.shape[0], error)[rows]

    def rounding_with(self, points: Self, unit: float) -> NDArray[np.float64]:
        return self.rounding(points, unit)

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


def rbf_sums(
    X: Matrix,
    gamma: float,
    coef: NDArray[np.float64],
    chosen: np.ndarray,
    rows: np.ndarray,
    n_threads: int = 1,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``sum_c coef[v, c] exp(-gamma |x_r - x_c|^2)`` per v and r, and error bounds per v.

    c runs over ``rows[chosen]``; the rows needed of a sparse X are made dense.
    """
    others = np.ones(len(rows), dtype=bool)
    others[chosen] = False
    order = np.concatenate([chosen, np.flatnonzero(others)])
    n_tiles = -(-len(rows) // exact_sums.TILE)
    points = dense_rows(X, rows[order])
    bounds = _parts(n_tiles, len(chosen))
    parts = np.zeros((len(bounds) - 1, len(coef), len(rows)))

    def work(k: int) -> None:
        exact_sums.add_sums(points, gamma, coef, bounds[k], bounds[k + 1], parts[k])

    with BlockRunner(n_threads) as runner:
        runner.run(work, len(parts))
    sums = np.empty((len(coef), len(rows)))
    sums[:, order] = parts.sum(axis=0)
    of_value = roundings_of_rbf(X.shape[1])
    of_sums = likely(min(len(chosen), exact_sums.SUMMED)) + likely(n_tiles + len(parts)) + LAST
    return sums, DOUBLE * (of_value + of_sums) * np.abs(coef).sum(axis=1)


def rbf_scores(
    X: np.ndarray, Z: np.ndarray, gamma: float, coef: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``sum_c coef[c] exp(-gamma |z - x_c|^2)`` for the rows z of Z."""
    points = np.concatenate([X, Z], dtype=np.float64)
    sums, first = np.zeros((1, len(points))), len(X) // exact_sums.TILE
    n_tiles = -(-len(points) // exact_sums.TILE)
    exact_sums.add_sums(points, gamma, np.array([coef]), first, n_tiles, sums)
    return sums[0, len(X) :]


def _parts(n_tiles: int, n_columns: int) -> NDArray[np.int64]:
    """Boundaries of parts of the tiles with about equal work; they depend only on the sizes."""
    count = min(_MOST_PARTS, n_tiles // _LEAST_TILES)
    if count <= 1:
        return np.array([0, n_tiles])
    work = np.cumsum(np.minimum(exact_sums.TILE * np.arange(1, n_tiles + 1), n_columns))
    inner = np.searchsorted(work, work[-1] * np.arange(1, count) / count)
    return np.array([0, *inner, n_tiles])


def _squared_distances(left: Matrix, right: Matrix, out: NDArray[np.float64]) -> None:
    if sp.issparse(left):
        passes.sparse_squared_distances(*unsigned(left), *unsigned(right), out)
        return
    columns = np.ascontiguousarray(right.T, dtype=np.float64)
    rows = np.ascontiguousarray(left, dtype=np.float64)
    passes.squared_distances(frozen(rows), frozen(columns), out)
