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
from sklearn_bundle.kernel._compiled.steps import FEW
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
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

FAR = 1e30  # up to here, and down to its inverse, float32 (3e38) can hold products and sums
_SQUARE = 64  # columns that are copied to rows at a time: they stay in the first cache
_ABOVE = np.triu(np.ones((_SQUARE, _SQUARE), bool), 1)  # which entries lie above the diagonal
_MEANINGFUL = 1e5  # gamma |x|^2 up to which float32 rounds an exponent by 1e-2 or less


def add_products(block: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
    """``out += block @ coef``: a few products added in the dtype of the block, then in float64."""
    coef = np.ascontiguousarray(coef, block.dtype)
    for c in range(0, len(coef), SUMMED):
        out += block[:, c : c + SUMMED] @ coef[c : c + SUMMED]


class KernelRows:
    """Kernel values between the points of X, in a working dtype.

    X is not written to and not densified. It is copied if it has another dtype, and for "rbf" if
    its mean is so far from 0 that distances would lose digits (dense only). CSR data get a CSC
    copy, in which columns with entries in more than a third of the rows also have a dense copy.

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
        self.n = X.shape[0]
        self.diagonal = self._points.diagonal()

    def take(self, indices: np.ndarray) -> "KernelRows":
        """Only the points ``indices``: this pays if their rows are needed again and again."""
        taken = copy.copy(self)
        for known in ("largest", "relative_error"):
            taken.__dict__.pop(known, None)
        taken._points = self._points.take(indices)
        taken.n, taken.diagonal = len(indices), self.diagonal[indices]
        return taken

    @property
    def dense(self) -> Dense | None:
        """The points, if they are dense rows whose products make up the values."""
        return self._points if type(self._points) is Dense else None

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
        places = np.full(self.n, -1)
        places[rows] = np.arange(len(rows))
        at = places[columns]
        shared = np.flatnonzero(at >= 0)
        out[at[shared], shared] = self.diagonal[columns[shared]]

    def gram(self, out: np.ndarray | None = None) -> np.ndarray:
        """Symmetric matrix of all points, each value computed once; ``out`` may be larger."""
        out = np.empty((self.n, self.n), self.dtype) if out is None else out
        for start in range(0, self.n, TILE_ROWS):
            stop = min(start + TILE_ROWS, self.n)
            rows = np.arange(start, stop)
            self._points.fill(rows, self._points, None, stop, out[start:stop])
            out[rows, rows] = self.diagonal[rows]
            for top in range(start, stop, _SQUARE):
                side = slice(top, min(top + _SQUARE, stop))
                out[:top, side] = out[side, :top].T
                square = out[side, side]
                np.copyto(square, square.T.copy(), where=_ABOVE[: len(square), : len(square)])
        return out

    def add_sums(
        self, coef: np.ndarray, columns: np.ndarray, out: np.ndarray, n_threads: int = 1
    ) -> None:
        """``out += sum_c coef[c] k(x, x_columns[c])`` for all points x; values are not stored."""
        if self.kernel.name == "linear" and isinstance(self._points, Features):
            out += self._points.linear_sums(coef, columns)
            return
        points = self._points.take(columns)
        parts = list(points.row_parts(self.n, len(columns)))

        def work(k: int) -> None:
            rows = np.arange(parts[k].start, parts[k].stop)
            self._add_sums(self._points, rows, points, coef, out[parts[k]])

        with BlockRunner(n_threads) as runner:
            runner.run(work, len(parts))

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

    def blocks(self, Z: Matrix) -> Iterator[np.ndarray]:
        """``k(z, x)`` for successive blocks of rows z of Z, all in one buffer."""
        buffer = np.empty((0, self.n), self.dtype)
        step = min(max(BLOCK_ENTRIES // max(self.n, 1), 64), 4096)  # their values stay in the cache
        for part in slices(Z.shape[0], step):
            left = self._points.like(Z if Z.shape[0] <= step else Z[part])  # slices of CSR are slow
            n_rows = part.stop - part.start
            if len(buffer) < n_rows:
                buffer = np.empty((n_rows, self.n), self.dtype)
            left.fill(None, self._points, None, self.n, buffer[:n_rows])
            yield buffer[:n_rows]


class RowCache:
    """Rows of values with all points; those not used for longest give way to new ones.

    Parameters
    ----------
    source : KernelRows
    n_bytes : float
        Memory for the rows, of which there are at least ``least``.
    least : int
        Rows that are used together at most.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n)
        Memory is taken as it is filled.
    places : ndarray of shape (n,)
        Which row of ``values`` is that of a point, -1 if none is.
    n_computed : int
        Rows computed so far.
    """

    def __init__(self, source: KernelRows, n_bytes: float, least: int):
        self._source = source
        most = n_bytes // (source.n * source.dtype.itemsize)
        self.n_rows = int(min(source.n, max(least, most)))
        self.values = np.empty((self.n_rows, source.n), source.dtype)
        self.places, self._owners = np.full(source.n, -1), np.full(self.n_rows, -1)
        self._used, self._time = np.zeros(self.n_rows, np.int64), 0
        self.n_computed = 0

    def slots(self, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where in ``values`` the rows of these points are; those that are not there come there."""
        self._time += 1
        known = self.places[indices]
        self._used[known[known >= 0]] = self._time
        missing = indices[known < 0]
        if len(missing):
            places = self._free(len(missing))
            if places[-1] - places[0] == len(places) - 1:
                self._source.block(missing, None, self.values[places[0] : places[-1] + 1])
            else:
                self.values[places] = self._source.block(missing)
            self.places[missing], self._owners[places] = places, missing
            self._used[places] = self._time
            self.n_computed += len(missing)
        return self.places[indices]

    def _free(self, count: int) -> NDArray[np.intp]:
        """Ascending places for new rows: unused ones, then those not used for longest."""
        first = min(self.n_computed, self.n_rows)
        if first + count <= self.n_rows:
            return np.arange(first, first + count)
        places = np.sort(np.argpartition(self._used, count - 1)[:count])
        owners = self._owners[places]
        self.places[owners[owners >= 0]] = -1
        return places
