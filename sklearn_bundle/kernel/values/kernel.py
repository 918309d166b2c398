"""Kernel functions bound to data: their values by rows and blocks.

Values have a working dtype, float32 or float64. BLAS computes them for dense data; for CSR data,
the columns (CSC) in which a row has entries are added up. Objects do not change once they are
built, so threads may share them.
"""

import copy
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel._compiled import tiles
from sklearn_bundle.kernel._compiled.steps import FEW
from sklearn_bundle.kernel.values._points import (
    BLOCK_ENTRIES,
    SUMMED,
    TILE_ROWS,
    Dense,
    Features,
    Points,
    Precomputed,
    Sparse,
    likely,
    points_of,
    slices,
)
from sklearn_bundle.kernel.values.differences import Differences
from sklearn_bundle.kernel.values.kernel_function import Kernel, KernelName, Matrix

FAR = 1e30  # up to here, and down to its inverse, float32 (3e38) can hold products and sums
_MEANINGFUL = 1e5  # gamma |x|^2 up to which float32 rounds an exponent by 1e-2 or less
# Error of a float64 value above which distances are computed from differences. A smaller error is
# subtracted from the bound as a share of Q, which is 1e-4 or more for 10,000 points with C = 1.
_LARGEST_ROUNDING = 1e-11
_KINDS: dict[KernelName, int] = {"rbf": tiles.RBF, "linear": tiles.LINEAR, "poly": tiles.POLY}
_TASK = 64  # tiles that a thread takes at a time: 4,096 points


def add_products(block: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
    """``out += block @ coef``: a few products added in the dtype of the block, then in float64."""
    coef = np.ascontiguousarray(coef, block.dtype)
    for c in range(0, len(coef), SUMMED):
        out += block[:, c : c + SUMMED] @ coef[c : c + SUMMED]


def function_of(kernel: Kernel) -> tiles.Function:
    scale = 2.0 * kernel.gamma if kernel.name == "rbf" else kernel.gamma
    kind = _KINDS[kernel.name]
    return tiles.Function(kind, np.float32(scale), np.float32(kernel.coef0), int(kernel.degree))


class Tiles:
    """Dense float32 points, copied feature by feature: one more copy of X."""

    def __init__(self, points: Dense):
        self._rows, self._function = frozen(points.X), function_of(points.kernel)
        self.n, d = points.X.shape
        count = -(-self.n // tiles.TILE)
        values, norms = np.empty((count, tiles.TILE * d), np.float32), np.zeros(count * tiles.TILE)
        tiles.copy_to_tiles(self._rows, values)
        norms[: self.n] = points.norms
        self._tiled = tiles.Tiled(values, norms.astype(np.float32))

    @classmethod
    def of(cls, points: object) -> "Tiles | None":
        """Tiles of dense float32 points, or of sparse ones if dense is faster; else None."""
        if isinstance(points, Sparse) and points.dtype == np.float32 and points.nearly_dense:
            points = Dense(points.X.toarray(), points.kernel, np.float32)
        if not (isinstance(points, Dense) and points.kernel.name in _KINDS):
            return None
        return cls(points) if points.X.dtype == np.float32 else None

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


class KernelRows:
    """Kernel values between the points of X, in a working dtype.

    X is not written to and not densified. It is copied if it has another dtype, and for "rbf" if
    its mean is so far from 0 that distances would lose digits (dense only). If norms still cancel
    in float64, distances are computed from differences. CSR data get a CSC copy, in which columns
    with entries in more than a third of the rows also have a dense copy.

    Index arrays hold no negative numbers; ``out`` is C-ordered in the working dtype.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d), float32 or float64; (n, n) for "precomputed"
    kernel : Kernel
    dtype : float32 or float64
    fine : bool, default=False
        Whether distances are computed from differences in any case.

    Attributes
    ----------
    n : int
    diagonal : ndarray of shape (n,), float64; k(x, x)
    """

    def __init__(
        self, X: Matrix, kernel: Kernel, dtype: DTypeLike = np.float64, *, fine: bool = False
    ):
        self.kernel = kernel
        self.dtype: np.dtype = np.dtype(dtype)
        self._points: Points = points_of(X, kernel, self.dtype)
        if kernel.name == "rbf" and self.dtype == np.float64:
            with np.errstate(over="ignore", invalid="ignore"):
                cancels = not self.relative_error <= _LARGEST_ROUNDING  # or norms overflow
            if fine or cancels:
                self._points = Differences(X, kernel)
                del self.relative_error
        self.n = X.shape[0]
        self.diagonal = self._points.diagonal()

    def take(self, indices: np.ndarray) -> "KernelRows":
        """Only the points ``indices``: this pays if their rows are needed again and again."""
        taken = copy.copy(self)
        for known in ("tiles", "largest", "relative_error"):
            taken.__dict__.pop(known, None)
        taken._points = self._points.take(indices)
        taken.n, taken.diagonal = len(indices), self.diagonal[indices]
        return taken

    @property
    def dense(self) -> Dense | None:
        """The points, if they are dense rows of features."""
        return self._points if isinstance(self._points, Dense) else None

    @cached_property
    def tiles(self) -> Tiles | None:
        """The points as tiles, for sums of values that are not stored, if they allow that."""
        return Tiles.of(self._points)

    @cached_property
    def largest(self) -> float:
        """Largest magnitude of k(x, x) and of the parts of the exponent."""
        largest = [self.diagonal.max(), self.kernel.gamma * self._points.largest_square]
        if isinstance(self._points, Precomputed):
            largest += [self._points.X.max(), -self._points.X.min()]
        return float(np.max(largest))

    @property
    def in_range(self) -> bool:
        """Whether float32 can hold gamma and squared lengths, with meaningful exponents.

        For "rbf" they are differences of ``gamma |x|^2``.
        """
        largest = self._points.largest_square
        ends = 1.0 / FAR <= self.kernel.gamma <= FAR and largest <= FAR
        exponents = self.kernel.gamma * largest if self.kernel.name == "rbf" else 0.0
        return bool(ends and exponents <= _MEANINGFUL)

    @property
    def _unit(self) -> float:
        """The unit roundoff of the working dtype."""
        return 0.5 * float(np.finfo(self.dtype).eps)

    def rounding(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Bounds on the errors of ``k(x_r, x_c)`` over c in ``columns``, for r in ``rows``."""
        return self._points.rounding(self._points, self._unit, rows, columns)

    def sums_rounding(self, coef: np.ndarray, Z: Matrix) -> np.ndarray:
        """Bounds on the errors of ``scores(Z, coef)`` in float64."""
        left, sizes = self._points.like(Z), np.abs(coef)
        lengths = np.sqrt(np.abs(left.diagonal()))
        reach = lengths * float(sizes @ np.sqrt(np.abs(self.diagonal)))
        if self.kernel.name == "rbf":
            errors = left.rounding(self._points, self._unit) * float(sizes.sum())
        else:  # each value's by its own point, not by the longest
            errors = self.relative_error * reach
        return errors + self._unit * (likely(len(coef)) + FEW) * reach

    @cached_property
    def relative_error(self) -> float:
        """Bound on the error of ``k(x, z)``, over ``sqrt(k(x, x) k(z, z))``."""
        if self.kernel.name == "rbf":
            return float(np.max(self._points.rounding(self._points, self._unit)))
        return self._unit * float(self._points.roundings)

    def errors_with(self, Z: Matrix) -> np.ndarray:
        """Bounds on the errors of the values of each row of Z with any of the points."""
        return self._points.like(Z).rounding(self._points, self._unit)

    def block(
        self, rows: np.ndarray, columns: np.ndarray | None = None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """``out[a, c] = k(x_rows[a], x_columns[c])``."""
        width = self.n if columns is None else len(columns)
        out = np.empty((len(rows), width), self.dtype) if out is None else out
        self._points.fill(rows, self._points, columns, width, out)
        self._put_diagonal(rows, columns, out)
        return out

    def _put_diagonal(self, rows, columns, out) -> None:
        """Take each point's value with itself from the diagonal: the same number everywhere."""
        if columns is None:
            out[np.arange(len(rows)), rows] = self.diagonal[rows]
            return
        is_row = np.zeros(self.n, dtype=bool)
        is_row[rows] = True
        shared = np.flatnonzero(is_row[columns])
        a, c = np.nonzero(rows[:, np.newaxis] == columns[shared])
        out[a, shared[c]] = self.diagonal[rows[a]]

    def gram(self, out: np.ndarray | None = None) -> np.ndarray:
        """Symmetric matrix of all points, each value computed once; ``out`` may be larger."""
        out = np.empty((self.n, self.n), self.dtype) if out is None else out
        for start in range(0, self.n, TILE_ROWS):
            stop = min(start + TILE_ROWS, self.n)
            rows = np.arange(start, stop)
            self._points.fill(rows, self._points, None, stop, out[start:stop])
            out[rows, rows] = self.diagonal[rows]
            passes.mirror(out, start, stop)
        return out

    def add_sums(
        self, coef: np.ndarray, columns: np.ndarray, out: np.ndarray, n_threads: int = 1
    ) -> None:
        """``out += sum_c coef[c] k(x, x_columns[c])`` for all points x; values are not stored."""
        if self.kernel.name == "linear" and isinstance(self._points, Features):
            out += self._points.linear_sums(coef, columns)
        elif self.tiles is not None:
            self.tiles.add_sums(coef, columns, out, n_threads)
        else:
            points = self._points.take(columns)
            for part in points.row_parts(self.n, len(columns)):
                rows = np.arange(part.start, part.stop)
                self._add_sums(self._points, rows, points, coef, out[part])

    def scores(self, Z: Matrix, coef: np.ndarray) -> np.ndarray:
        """``sum_c coef[c] k(z, x_c)`` for the rows z of Z."""
        sums = np.zeros(Z.shape[0])
        for part in self._points.row_parts(Z.shape[0], self.n):
            left = self._points.like(Z[part])
            rows = np.arange(part.stop - part.start)
            self._add_sums(left, rows, self._points, coef, sums[part])
        return sums

    def _add_sums(self, left, rows, points, coef, sums) -> None:
        for piece, columns in points.pieces(len(coef)):
            block = np.empty((len(rows), columns.stop - columns.start), self.dtype)
            left.fill(rows, piece, None, block.shape[1], block)
            add_products(block, coef[columns], sums)

    def with_few(self, Z: Matrix) -> np.ndarray:
        """``k(z, x)`` for a few rows z of Z."""
        block = np.empty((Z.shape[0], self.n), self.dtype)
        self._points.like(Z).fill(None, self._points, None, self.n, block)
        return block

    def blocks(self, Z: Matrix) -> Iterator[np.ndarray]:
        """``k(z, x)`` for successive blocks of rows z of Z, all in one buffer."""
        buffer = np.empty((0, self.n), self.dtype)
        step = min(max(BLOCK_ENTRIES // max(self.n, 1), 64), 4096)  # their values stay in the cache
        for part in slices(Z.shape[0], step):
            left, n_rows = self._points.like(Z[part]), part.stop - part.start
            if len(buffer) < n_rows:
                buffer = np.empty((n_rows, self.n), self.dtype)
            left.fill(np.arange(n_rows), self._points, None, self.n, buffer[:n_rows])
            yield buffer[:n_rows]
