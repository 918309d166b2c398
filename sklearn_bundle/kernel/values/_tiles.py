"""Sums of kernel values of dense float32 points, without storing the values."""

from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.core.roundoff import SINGLE
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import tiles
from sklearn_bundle.kernel.values._points import Dense, Sparse
from sklearn_bundle.kernel.values.kernel_function import Kernel, KernelName

_KINDS: dict[KernelName, int] = {"rbf": tiles.RBF, "linear": tiles.LINEAR, "poly": tiles.POLY}
_SURE = 8.0  # standard deviations, as in ``likely``
_TASK = 64  # tiles that a thread takes at a time: 4,096 points


def function_of(kernel: Kernel) -> tiles.Function:
    scale = 2.0 * kernel.gamma if kernel.name == "rbf" else kernel.gamma
    kind = _KINDS[kernel.name]
    return tiles.Function(kind, np.float32(scale), np.float32(kernel.coef0), int(kernel.degree))


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    padded = np.zeros(size, np.float32)
    padded[: len(values)] = values
    return padded


def tiled(rows: np.ndarray, norms: np.ndarray, indices: np.ndarray) -> tiles.Tiled:
    """Some of the points, in tiles."""
    count = -(-len(indices) // tiles.TILE)
    values = np.empty((count, tiles.TILE * rows.shape[1]), np.float32)
    tiles.copy_to_tiles(rows, indices, values)
    return tiles.Tiled(values, _padded(norms[indices], count * tiles.TILE))


def suits_tiles(points: object) -> TypeGuard[Dense]:
    """Whether points are dense ones in float32, of a kernel that compiled code knows."""
    return (
        isinstance(points, Dense)
        and points.values.dtype == np.float32
        and points.kernel.name in _KINDS
    )


class Tiles:
    """The points, copied feature by feature: one more copy of X in float32."""

    def __init__(self, points: Dense):
        self._rows, self._norms, self.n = frozen(points.values), points.norms, len(points.norms)
        self._function, self._squares = function_of(points.kernel), points.squares
        self._lengths = np.sqrt(self._squares)
        self._tiled = self._of(np.arange(self.n))

    @classmethod
    def of(cls, points: object) -> "Tiles | None":
        """Tiles of dense float32 points, or of sparse ones if dense is faster; else None."""
        if isinstance(points, Sparse) and points.dtype == np.float32 and points.nearly_dense:
            points = Dense(points.matrix.toarray(), points.kernel, np.float32)
        return cls(points) if suits_tiles(points) else None

    def _of(self, indices: np.ndarray) -> tiles.Tiled:
        return tiled(self._rows, self._norms, indices)

    def _few(self, indices: np.ndarray, size: int) -> tiles.Few:
        values = np.zeros((size, self._rows.shape[1]), np.float32)
        np.take(self._rows, indices, axis=0, out=values[: len(indices)])
        norms = _padded(self._norms[indices], size)
        return tiles.Few(values.reshape(size // tiles.GROUP, -1), norms)

    def add_sums(
        self, coef: np.ndarray, columns: np.ndarray, out: NDArray[np.float64], n_threads: int = 1
    ) -> None:
        """``out += sum_c coef[c] k(x, x_columns[c])`` for all points x."""
        sums, n_tiles = np.zeros(len(self._tiled.norms)), len(self._tiled.values)
        source = self._function, self._tiled, self._rows, columns, coef

        def work(k: int) -> None:
            tiles.add_sums(*source, k * _TASK, min((k + 1) * _TASK, n_tiles), sums)

        with BlockRunner(n_threads) as runner:
            runner.run(work, -(-n_tiles // _TASK))
        out += sums[: self.n]

    def rounding(
        self, coef: np.ndarray, columns: np.ndarray, sizes: np.ndarray, spread: float
    ) -> NDArray[np.float64]:
        """Bounds on the errors of sums of "rbf" values, as in ``KernelRows.rounding_of_sums``.

        A value is the same whenever it is computed. Roundings shared by all values of a point are
        added up: those of its coordinates and its norm, and of gamma and exp. The others have
        random signs, so their sum is at most 8 times the root of the sum of their squares (Higham
        and Mary, as in ``likely``): d + 10 of products, 9 of exponents, and those of other points.
        """
        gamma, lengths, weights = self._function.scale / 2.0, self._lengths, np.abs(coef)
        of_all, of_others, squared_weights = self._squares, self._squares[columns], weights**2
        shared = (4.0 * gamma * of_all + 6.0) * sizes + weights.sum()
        shared += 2.0 * gamma * lengths * (weights @ lengths[columns])
        fourth = of_all**2 * squared_weights.sum() + squared_weights @ of_others**2
        squares = (self._rows.shape[1] + 10.0) * 4.0 * of_all * (squared_weights @ of_others)
        squares = gamma**2 * (squares + 9.0 * 8.0 * fourth)
        of_sums = tiles.SUMMED * spread
        return SINGLE * (shared + _SURE * (np.sqrt(squares) + of_sums))

    def fill_square(self, indices: np.ndarray, out: NDArray[np.float32]) -> None:
        """Values between some points; ``out`` has a multiple of 64 rows and columns."""
        tiles.fill(self._function, self._of(indices), self._few(indices, len(out)), out)
