"""Kernel functions bound to data: their values by rows and blocks.

Values have a working dtype, float32 or float64. BLAS computes them for dense data; for CSR data,
the columns (CSC) in which a row has entries are added up. Objects do not change once they are
built, so threads may share them.
"""

import copy
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values._distances import LAST, Differences
from sklearn_bundle.kernel.values._points import (
    BLOCK_ENTRIES,
    SUMMED,
    TILE_ROWS,
    Dense,
    Features,
    Points,
    Precomputed,
    likely,
    points_of,
    slices,
)
from sklearn_bundle.kernel.values._tiles import Tiles
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

FAR = 1e30  # up to here, and down to its inverse, float32 (3e38) can hold products and sums
_MEANINGFUL = 1e5  # gamma |x|^2 up to which float32 rounds an exponent by 1e-2 or less
# Error of a float64 value above which distances are computed from differences. A smaller error is
# subtracted from the bound as a share of Q, which is 1e-4 or more for 10,000 points with C = 1.
_LARGEST_ROUNDING = 1e-11


def add_products(block: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
    """``out += block @ coef``: a few products added in the dtype of the block, then in float64."""
    coef = np.ascontiguousarray(coef, block.dtype)
    for c in range(0, len(coef), SUMMED):
        out += block[:, c : c + SUMMED] @ coef[c : c + SUMMED]


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

    Attributes
    ----------
    n : int
    diagonal : ndarray of shape (n,), float64; k(x, x)
    """

    def __init__(self, X: Matrix, kernel: Kernel, dtype: DTypeLike = np.float64):
        self.kernel = kernel
        self.dtype: np.dtype = np.dtype(dtype)
        self._points: Points = points_of(X, kernel, self.dtype)
        if kernel.name == "rbf" and self.dtype == np.float64 and self._cancels(self._points):
            self._points = Differences(X, kernel)
        self.n = X.shape[0]
        self.diagonal = self._points.diagonal()

    def take(self, indices: np.ndarray) -> "KernelRows":
        """Only the points ``indices``: this pays if their rows are needed again and again."""
        taken = copy.copy(self)
        for known in ("tiles", "largest"):
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
            largest += [self._points.matrix.max(), -self._points.matrix.min()]
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

    def _cancels(self, points: Points) -> bool:
        """Whether norms leave too few digits of the distances, or overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return not np.max(points.rounding(points, self._unit)) <= _LARGEST_ROUNDING

    @property
    def _unit(self) -> float:
        """The unit roundoff of the working dtype."""
        return 0.5 * float(np.finfo(self.dtype).eps)

    def rounding(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Bounds on the errors of ``k(x_r, x_c)`` over c in ``columns``, for r in ``rows``."""
        return self._points.rounding(self._points, self._unit, rows, columns)

    def sums_rounding(self, coef: np.ndarray, Z: Matrix | None = None) -> np.ndarray:
        """Bounds on the errors of ``scores(Z, coef)`` in float64, or of ``own_sums(coef)``."""
        points, unit = self._points, self._unit
        left = points if Z is None else points.like(Z)
        sizes, lengths = np.abs(coef), np.sqrt(np.abs(left.diagonal()))
        reach = unit * lengths * (sizes @ np.sqrt(np.abs(self.diagonal)))
        parts = len(coef) / points.smallest_part(len(coef))
        added = likely(min(len(coef), SUMMED)) + likely(parts) + LAST
        if self.kernel.name == "rbf":
            return left.rounding(points, unit) * sizes.sum() + added * reach
        return (points.roundings + added) * reach

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

    def gram(
        self,
        indices: np.ndarray | None = None,
        out: np.ndarray | None = None,
        first: int = 0,
        finish: Callable[[int, int, np.ndarray], None] | None = None,
    ) -> np.ndarray:
        """Symmetric matrix of the points ``indices``, each value computed once and mirrored.

        ``out`` may be larger. Its first ``first`` rows and columns are already filled.
        ``finish(start, stop, rows)`` may change the first ``stop`` values of rows start to stop
        before they are mirrored.
        """
        if indices is not None:
            return self.take(indices).gram(out=out, first=first, finish=finish)
        out = np.empty((self.n, self.n), self.dtype) if out is None else out
        for start in range(first, self.n, TILE_ROWS):
            stop = min(start + TILE_ROWS, self.n)
            rows = np.arange(start, stop)
            self._points.fill(rows, self._points, None, stop, out[start:stop])
            out[rows, rows] = self.diagonal[rows]
            if finish is not None:
                finish(start, stop, out[start:stop])
            passes.mirror(out, start, stop)
        return out

    def sums(
        self, coef: np.ndarray, columns: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """``sum_c coef[c] k(x_r, x_columns[c])`` for r in ``rows``, or for all points."""
        left = self._points if rows is None else self._points.take(rows)
        points, sums = self._points.take(columns), np.zeros(self.n if rows is None else len(rows))
        if isinstance(left, Dense):
            for part in left.row_parts(len(sums), len(columns)):  # long rows of few values each
                for piece, those in points.pieces(len(columns)):
                    block = np.empty((those.stop - those.start, part.stop - part.start), self.dtype)
                    piece.fill(None, left.view(part), None, block.shape[1], block)
                    add_products(block.T, coef[those], sums[part])
            return sums
        for part in points.row_parts(len(sums), len(columns)):
            self._add_sums(left, np.arange(part.start, part.stop), points, coef, sums[part])
        return sums

    def rounding_of_sums(
        self, coef: np.ndarray, sizes: np.ndarray, path_length: float, spread: float
    ) -> np.ndarray:
        """Bounds on the errors of sums from ``add_sums``; ``sizes`` are sums of absolute values.

        The coefficients ``coef`` result from changes whose sizes have the sum ``path_length`` and
        the root of the sum of squares ``spread``.
        """
        columns = np.flatnonzero(coef)
        if self.tiles is not None and self.kernel.name == "rbf":
            return self.tiles.rounding(coef[columns], columns, sizes, spread)
        of_values = self._points.rounding(self._points, self._unit, columns=columns)
        largest = np.abs(self.diagonal).max() + 1.0
        return path_length * (of_values + (likely(SUMMED) + LAST) * self._unit * largest)

    def add_sums(
        self, coef: np.ndarray, columns: np.ndarray, out: np.ndarray, n_threads: int = 1
    ) -> None:
        """``out += sum_c coef[c] k(x, x_columns[c])`` for all points x; values are not stored."""
        if self.kernel.name == "linear" and isinstance(self._points, Features):
            out += self._points.linear_sums(coef, columns)
        elif self.tiles is not None:
            self.tiles.add_sums(coef, columns, out, n_threads)
        else:
            out += self.sums(coef, columns)

    def square(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the values between some points to the first rows and columns of ``out``.

        ``out`` has a multiple of 64 rows and columns; the rest of it may be overwritten.
        """
        if self.tiles is not None:
            self.tiles.fill_square(indices, out)
        else:
            out[: len(indices), : len(indices)] = self.block(indices, indices)

    def scores(self, Z: Matrix, coef: np.ndarray) -> np.ndarray:
        """``sum_c coef[c] k(z, x_c)`` for the rows z of Z."""
        sums = np.zeros(Z.shape[0])
        for part in self._points.row_parts(Z.shape[0], self.n):
            left = self._points.like(Z[part])
            rows = np.arange(part.stop - part.start)
            self._add_sums(left, rows, self._points, coef, sums[part])
        return sums

    def own_sums(self, coef: np.ndarray) -> np.ndarray:
        """``sum_c coef[c] k(x_r, x_c)`` for all r and c, every kernel value computed once."""
        points, sums = self._points, np.zeros(self.n)
        for part in points.own_parts(self.n):
            rows = np.arange(part.start, part.stop)
            for piece, columns in points.pieces(part.stop):
                block = np.empty((len(rows), columns.stop - columns.start), self.dtype)
                points.fill(rows, piece, None, block.shape[1], block)
                own = np.arange(max(part.start, columns.start), min(part.stop, columns.stop))
                block[own - part.start, own - columns.start] = self.diagonal[own]
                add_products(block, coef[columns], sums[part])
                before = slice(columns.start, min(columns.stop, part.start))
                if before.stop > before.start:
                    left = block[:, : before.stop - before.start]
                    add_products(left.T, coef[part], sums[before])
        return sums

    def _add_sums(self, left, rows, points, coef, sums) -> None:
        for piece, columns in points.pieces(len(coef)):
            block = np.empty((len(rows), columns.stop - columns.start), self.dtype)
            left.fill(rows, piece, None, block.shape[1], block)
            add_products(block, coef[columns], sums)

    def blocks(self, Z: Matrix) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """``k(z, x)`` for successive blocks of rows z of Z, all in one buffer.

        Each block comes with about the standard deviation of the errors of each row's values.
        """
        buffer = np.empty((0, self.n), self.dtype)
        step = min(max(BLOCK_ENTRIES // max(self.n, 1), 64), 4096)  # their values stay in the cache
        for part in slices(Z.shape[0], step):
            left, n_rows = self._points.like(Z[part]), part.stop - part.start
            if len(buffer) < n_rows:
                buffer = np.empty((n_rows, self.n), self.dtype)
            left.fill(np.arange(n_rows), self._points, None, self.n, buffer[:n_rows])
            yield buffer[:n_rows], left.rounding_with(self._points, self._unit)
