"""Points in their memory layouts, with the products and values that make up a kernel."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values.kernel_function import Kernel, canonical, chunks, densified

# Sizes of what is computed at a time. They are estimates; 256 rows come from a trial with Gram
# matrices.
TILE_ROWS = 256  # enough for BLAS to be fast
TILE_ENTRIES = 1 << 16  # a tile stays in the second-level cache between its product and its exp
# Products added in the working dtype, whose sums are added in float64: in float32 the error of
# these sums is at most 3e-5 of the sizes of their terms. A block that is summed has a side of so
# many: 1 MB in float32.
SUMMED = 512
BLOCK_ENTRIES = 1 << 20  # values of a block that need not stay in a cache: 4 MB in float32
_DIAGONAL_ROWS = 32  # points in a call for k(x, x): a callable computes all pairs, 32 times as many
_LARGEST_OFFSET = 10.0  # |mean|^2 gamma: rounds the exponent by 1e-6 in float32
_MOST_COLUMNS = 512  # a dense copy has at most 2 kB per row
# Error of a float64 value above which distances are computed from differences. A smaller error is
# subtracted from the bound as a share of Q, which is 1e-4 or more for 10,000 points with C = 1.
_LARGEST_ROUNDING = 1e-11
_DECAY = 0.37  # the largest t exp(-t), 1/e: the effect of a relative error of the exponent t
_OF_EXP = 5.0  # roundings in exp and its argument
# Additions of a dense product in the time of one addition of a sparse product, and the cost of the
# further passes over sparse products in additions: measured on a9a (123 columns, 6.2 in common) and
# w8a (300, 1.3).
_DENSE_ADDITIONS, _SPARSE_PASSES = 45.0, 1.0

Index = slice | np.ndarray  # of rows or columns
ALL = slice(None)


def unsigned(X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, indices and indptr of CSR or CSC.

    Indices of 64 bits become 32 where the shape allows it: each kind is compiled on its own. The
    data, and indices that have 32, are not copied.
    """
    kind = np.dtype(np.uint32 if max(X.shape) <= 1 << 32 else np.uint64)
    indices = X.indices
    indices = indices.view(kind) if indices.itemsize == kind.itemsize else indices.astype(kind)
    return frozen(X.data), frozen(indices), frozen(X.indptr.astype(np.uint64))


def picked(indices, start: int, stop: int):
    """Part of an index array, or of all points: a slice, without a copy."""
    return slice(start, stop) if indices is None else indices[start:stop]


def slices(n: int, step: int) -> Iterator[slice]:
    """Slices of n rows, ``step`` at a time."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def pays_dense(X) -> bool:
    """Whether products of the rows of this CSR matrix cost less with dense rows.

    A sparse product of a row with all rows has one addition per entry of the columns in which the
    row has one: a pair of rows has as many as it has entries in common.
    """
    n, d = X.shape
    if d > _MOST_COLUMNS:
        return False
    shares = np.bincount(X.indices, minlength=d) / n
    return bool(d < _DENSE_ADDITIONS * (shares @ shares + _SPARSE_PASSES))


class Points(ABC):
    """Points and their kernel values; unless a layout says otherwise, they are read all at once."""

    @property
    def terms(self) -> int:
        """Number of products in a value; 0 if the caller gives the values."""
        return 0

    @property
    def largest_square(self) -> float:
        """The largest ``|x|^2``; 0 if squares play no part in the values."""
        return 0.0

    @property
    def roundings(self) -> float:
        """Error bound of k(x, z) in roundings of ``sqrt(k(x, x) k(z, z))``; "rbf" has its own.

        No value is larger, or K is not positive semidefinite.
        """
        return likely(self.terms) + 4.0

    @abstractmethod
    def like(self, Z: Any) -> Self:
        """Other points in the same layout."""

    @abstractmethod
    def take(self, indices: np.ndarray) -> Self:
        """Some of the points."""

    @abstractmethod
    def diagonal(self) -> NDArray[np.float64]:
        """k(x, x) of all points."""

    @abstractmethod
    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        """``out[a, c] = k(self[rows[a]], points[columns[c]])`` for c < width.

        None as ``rows`` or ``columns`` stands for all points in their order.
        """

    def rounding(self, points: Self, unit: float, rows: Index = ALL, columns: Index = ALL):
        """Bounds on the errors of the values of these rows with any of those columns."""
        lengths = np.sqrt(np.abs(self.diagonal()[rows]))
        longest = np.sqrt(np.abs(points.diagonal()[columns]).max())
        return unit * self.roundings * lengths * longest

    def row_parts(self, n: int, width: int) -> Iterator[slice]:
        """Slices of n rows to be computed together, against ``width`` of these points."""
        return slices(n, max(1, BLOCK_ENTRIES // max(width, 1)))

    def pieces(self, stop: int) -> Iterator[tuple[Self, slice]]:
        """The first ``stop`` points in pieces for such rows, with the indices of each piece."""
        yield self, slice(0, stop)


class Features(Points):
    """Points given by their features, whose inner products make up the values.

    X has them as rows, dense or CSR, in the working dtype; ``squares`` are ``|x|^2`` and ``norms``
    are ``gamma |x|^2``.
    """

    X: Any
    kernel: Kernel
    squares: NDArray[np.float64]
    norms: np.ndarray

    @property
    def largest_square(self) -> float:
        return self.squares.max()

    @property
    def roundings(self) -> float:
        return self.kernel.roundings(likely(self.terms))

    def diagonal(self) -> NDArray[np.float64]:
        return self.kernel.of_squares(self.squares)

    def rounding(self, points: Self, unit: float, rows: Index = ALL, columns: Index = ALL):
        """Bounds on the errors of the values of these rows with any of those columns."""
        lengths, longest = np.sqrt(self.squares[rows]), np.sqrt(points.squares[columns].max())
        return self.kernel.rounding(unit, lengths, longest, likely(self.terms))

    def linear_sums(self, coef: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """``<x, sum_c coef[c] x_columns[c]>`` for all points x."""
        w = self.X[columns].T @ coef
        return self.X @ w.astype(self.norms.dtype)


class Dense(Features):
    """Points in C-ordered dense rows, shifted so that norms do not dwarf the distances.

    ``|x|^2 + |z|^2 - 2 <x, z>`` loses the digits by which the norms exceed the distances.
    """

    def __init__(self, X, kernel: Kernel, dtype, center=None):
        self.center = center
        if center is None:
            values = np.ascontiguousarray(X, dtype)
        else:
            values = np.empty(X.shape, dtype)
            for part in chunks(X):
                values[part] = X[part] - center  # subtracted in float64, then rounded
        self._set(kernel, values, np.einsum("ij,ij->i", values, values, dtype=np.float64))

    def _set(self, kernel, values, squares):
        self.kernel, self.X, self.squares = kernel, values, squares
        self.norms = (kernel.gamma * squares).astype(values.dtype)

    @classmethod
    def of(cls, X, kernel: Kernel, dtype) -> "Dense":
        X = np.asarray(X)
        if kernel.name != "rbf":
            return cls(X, kernel, dtype)
        mean = X.mean(axis=0, dtype=np.float64)
        copied = X.dtype != dtype or not X.flags.c_contiguous
        needed = copied or kernel.gamma * (mean @ mean) > _LARGEST_OFFSET
        return cls(X, kernel, dtype, mean if needed else None)

    @property
    def terms(self) -> int:
        return self.X.shape[1]

    def like(self, Z: Any) -> Self:
        return type(self)(densified(Z), self.kernel, self.X.dtype, self.center)

    def take(self, indices: np.ndarray) -> Self:
        taken = copy.copy(self)
        taken.X = np.take(self.X, indices, axis=0)  # several times as fast as [indices]
        taken.squares, taken.norms = self.squares[indices], self.norms[indices]
        return taken

    def row_parts(self, n: int, width: int) -> Iterator[slice]:
        """Rows and pieces of columns for which BLAS is fast."""
        return slices(n, max(SUMMED, BLOCK_ENTRIES // 4 // max(width, 1)))

    def pieces(self, stop: int) -> Iterator[tuple[Self, slice]]:
        return ((self.take(np.arange(c.start, c.stop)), c) for c in slices(stop, SUMMED))

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        """``out[a, c] = k(self[rows[a]], points[columns[c]])`` for c < width, by tiles."""
        for top in range(0, out.shape[0], TILE_ROWS):
            tile = out[top : top + TILE_ROWS]
            chosen = picked(rows, top, top + len(tile))
            left, left_norms = self.X[chosen], self.norms[chosen]
            step = TILE_ENTRIES // len(tile)
            if columns is not None:  # the gathered points should stay in the cache as well
                step = min(step, max(TILE_ROWS, TILE_ENTRIES // points.X.shape[1]))
            for start in range(0, width, step):
                stop = min(start + step, width)
                chosen = picked(columns, start, stop)
                np.matmul(left, points.X[chosen].T, out=tile[:, start:stop])
                self.kernel.of_products(tile, start, stop, left_norms, points.norms[chosen])


class Distant(Dense):
    """Dense points so far apart that norms would leave no digits of some distances."""

    def rounding(self, points: Self, unit: float, rows: Index = ALL, columns: Index = ALL):
        """A difference is rounded once, its square once, and then d of them are added."""
        error = unit * (_DECAY * (likely(self.terms) + 3.0) + _OF_EXP)
        return np.full(len(self.X), error)[rows]

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        """The same from squared differences, which takes about five times as long."""
        left, right = self.X[picked(rows, 0, len(out))], points.X[picked(columns, 0, width)]
        out[:, :width] = np.exp(-self.kernel.gamma * cdist(left, right, "sqeuclidean"))


class Sparse(Features):
    """Points in CSR rows; the copy by columns is made when they are first used as such."""

    def __init__(self, X, kernel: Kernel, dtype):
        self.kernel, self.dtype = kernel, dtype
        self.X = canonical(X).astype(dtype, copy=False)
        self.csr = unsigned(self.X)
        squares = self.X.astype(np.float64)
        squares.data **= 2
        self.squares = np.asarray(squares.sum(axis=1)).ravel()
        self.norms = (kernel.gamma * self.squares).astype(dtype)

    @cached_property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The points in CSC."""
        return unsigned(self.X.tocsc())

    @cached_property
    def terms(self) -> int:
        return int(np.diff(self.X.indptr).max())

    def like(self, Z: Any) -> Self:
        return type(self)(sp.csr_matrix(Z), self.kernel, self.dtype)

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.X[indices], self.kernel, self.dtype)

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        """``out[a, c] = k(self[rows[a]], points[columns[c]])`` for c < width, by whole rows."""
        points = points if columns is None else points.take(columns)
        rows = frozen(np.arange(len(out)) if rows is None else rows)
        step = max(1, TILE_ENTRIES // max(width, 1))
        for top in range(0, len(rows), step):
            part, tile = rows[top : top + step], out[top : top + step]
            passes.scatter(*self.csr, part, *points.columns, len(points.squares), width, tile)
            self.kernel.of_products(tile, 0, width, self.norms[part], points.norms)


class ByCallable(Points):
    """Points whose kernel values a callable computes."""

    def __init__(self, X, kernel: Kernel, dtype=None):
        """In float64 the callable gets float64 data."""
        self.X = X.astype(np.float64, copy=False) if dtype == np.float64 else X
        self.kernel = kernel

    @property
    def terms(self) -> int:
        """Most callables add up products of features."""
        return self.X.shape[1]

    def like(self, Z: Any) -> Self:
        return type(self)(Z, self.kernel, self.X.dtype)

    def diagonal(self) -> NDArray[np.float64]:
        return self._diagonal

    @cached_property
    def _diagonal(self) -> NDArray[np.float64]:
        diagonal = np.empty(self.X.shape[0])
        for start in range(0, len(diagonal), _DIAGONAL_ROWS):
            part = np.arange(start, min(start + _DIAGONAL_ROWS, len(diagonal)))
            square = np.empty((len(part), len(part)))
            self.fill(part, self, part, len(part), square)
            diagonal[part] = np.diagonal(square)
        return diagonal

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.X[indices], self.kernel)

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        left = self.X if rows is None else self.X[rows]
        out[:, :width] = self.values(left, points.X[picked(columns, 0, width)])

    def values(self, left, right) -> np.ndarray:
        """What the callable returns for these points, in its own type, once it is checked."""
        expected = left.shape[0], right.shape[0]
        values = densified(self.kernel.name(left, right))
        real = values.dtype.kind in "fiub" and values.shape == expected
        if not (real and np.isfinite(values).all()):
            got = "NaN or infinity" if real else f"type {values.dtype} and shape {values.shape}"
            raise ValueError(
                "The kernel callable must return an array of finite real numbers of shape "
                f"{expected} for X of shape {left.shape} and Y of shape {right.shape}; got {got}."
            )
        return values


class Precomputed(Points):
    """Rows, or columns, of a matrix of kernel values."""

    def __init__(self, matrix, indices=None):
        self.X = matrix
        self.indices = np.arange(len(matrix)) if indices is None else indices

    def like(self, Z: Any) -> Self:
        return type(self)(np.ascontiguousarray(Z))

    def diagonal(self) -> NDArray[np.float64]:
        return np.diagonal(self.X)[self.indices].astype(np.float64)

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.X, self.indices[indices])

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        left = self.indices if rows is None else self.indices[rows]
        right = points.indices[picked(columns, 0, width)]
        passes.pick(frozen(self.X), frozen(left), frozen(right), out)


def points_of(X: Any, kernel: Kernel, dtype: np.dtype) -> Points:
    """Points in the layout that suits X and the kernel."""
    if callable(kernel.name):
        return ByCallable(X, kernel, dtype)
    if kernel.name == "precomputed":
        return Precomputed(np.ascontiguousarray(X))
    if sp.issparse(X) and pays_dense(X):
        X = X.toarray()
    points: Any = Sparse(X, kernel, dtype) if sp.issparse(X) else Dense.of(X, kernel, dtype)
    if kernel.name == "rbf" and dtype == np.float64 and X.shape[1] <= _MOST_COLUMNS:
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.max(points.rounding(points, DOUBLE))
        if not error <= _LARGEST_ROUNDING:  # or norms overflow
            return Distant(densified(X), kernel, dtype)
    return points
