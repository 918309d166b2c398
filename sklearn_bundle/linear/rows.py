"""The rows of X: products with them and with parts of them, block by block, in threads.

Blocks depend on the data alone and are summed in order, so that the number of threads changes no
bit. A pass is one product with X or with X'.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from sklearn_bundle.core.parallel import BlockRunner, row_blocks, vector_blocks
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import rows as passes

Array = NDArray[np.float64]
Places = NDArray[np.intp]
LEAST_ENTRIES = 1 << 17  # passes over fewer entries take as long, since calls take time too
_BLOCK = 1 << 15  # entries to compute with at a time: 256 KB
_DENSE_ROWS = 2048  # multiplied at a time: 8 MB at 500 columns


class Stored(NamedTuple):
    """Rows one after the other, for compiled steps that visit them in any order.

    Dense rows have a width and no indices; of CSR the width is 0.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    width: int


class Rows(ABC):
    """A matrix of shape (n, d) in memory, or mapped into it."""

    def __init__(self, X: Any, arrays: tuple[np.ndarray, ...], n_entries: int, runner: BlockRunner):
        self.X, self.shape, self.n_entries = X, X.shape, n_entries
        self._arrays, self._runner, self.passes = arrays, runner, 0
        self._bounds = row_blocks(n_entries, X.shape[0], X.shape[1])

    def scores(self, w: Array) -> Array:
        """``X w``, or ``W X'`` of shape (K, n) for W of shape (K, d)."""
        self.passes += 1
        if w.ndim == 1 or len(w) == 1:  # of one class as fast as without
            return self._scores(w.ravel()).reshape(*w.shape[:-1], -1)
        return self._class_scores(w)

    def gradient(self, g: Array) -> Array:
        """``X'g``, or ``G X`` of shape (K, d) for G of shape (K, n)."""
        self.passes += 1
        if g.ndim == 1 or len(g) == 1:
            return self._gradient(g.ravel()).reshape(*g.shape[:-1], -1)
        return self._class_gradient(g)

    @abstractmethod
    def _scores(self, w: Array) -> Array: ...

    @abstractmethod
    def _class_scores(self, W: Array) -> Array: ...

    @abstractmethod
    def _gradient(self, g: Array) -> Array: ...

    @abstractmethod
    def _class_gradient(self, G: Array) -> Array: ...

    @abstractmethod
    def hessian(self, rows: Places, coefs: Array, centered: bool) -> tuple[Array, Array]:
        """``sum_r c_r (x_r - m)(x_r - m)'`` and m, the mean of rows with weights c, or 0.

        Of the matrix only the lower triangle counts. The mean is what a free intercept takes out.
        """

    @abstractmethod
    def squares(self, weights: Array) -> Array:
        """``sum_i s_i x_ij^2`` of every column."""

    @abstractmethod
    def distances(self, center: Array) -> Array:
        """``||x_i - center||^2`` of every row, up to rounding."""

    @abstractmethod
    def dense(self, rows: Places) -> Array:
        """These rows as a dense array of float64."""

    @abstractmethod
    def columns(self, which: Places) -> "Rows":
        """A copy of some columns."""

    @abstractmethod
    def stored(self) -> Stored:
        """The rows themselves."""

    @property
    @abstractmethod
    def hessian_passes(self) -> float:
        """Passes over the data in the time of a Hessian from all rows."""

    @cached_property
    def column_norms(self) -> Array:
        """``||x_j||`` of every column."""
        return np.sqrt(self.squares(np.ones(self.shape[0])))

    def row_squares(self) -> Array:
        """``||x_i||^2`` of every row."""
        return row_norms(self.X, squared=True).astype(np.float64, copy=False)

    def take(self, rows: Places) -> "Rows":
        """A copy of these rows, which counts its own passes."""
        return type(self)(self.X[rows], self._runner)  # type: ignore[call-arg,arg-type]

    def sums(self, part: Callable[[slice], tuple[float, ...]]) -> tuple[float, ...]:
        """Sums over all rows of what ``part`` sums up of blocks of them, in threads."""
        bounds = vector_blocks(self.shape[0])
        if len(bounds) == 2:
            return part(slice(None))
        parts: list[tuple[float, ...]] = [()] * (len(bounds) - 1)

        def work(k: int) -> None:
            parts[k] = part(slice(bounds[k], bounds[k + 1]))

        self._runner.run(work, len(parts))
        return tuple(map(float, np.sum(parts, axis=0)))

    def rows_in(self, n_passes: float) -> int:
        """The number of rows whose Hessian takes as long as so many passes."""
        return int(n_passes * self.shape[0] / self.hessian_passes)

    def _each(self, work: Callable[[int, int, int], None]) -> None:
        """Call ``work(k, start, stop)`` for each block of rows."""
        bounds = self._bounds
        self._runner.run(lambda k: work(k, bounds[k], bounds[k + 1]), len(bounds) - 1)

    def _summed(self, work: Callable[..., None], shape: tuple[int, ...]) -> Array:
        """The sum of what ``work(start, stop, out)`` writes for each block."""
        n_parts, bounds = len(self._bounds) - 1, self._bounds
        if self._runner.n_threads == 1:  # in the same order, in less memory
            total, part = np.empty(shape), np.empty(shape if n_parts > 1 else 0)
            work(bounds[0], bounds[1], total)
            for k in range(1, n_parts):
                work(bounds[k], bounds[k + 1], part)
                total += part
            return total
        parts = np.empty((n_parts, *shape))
        self._each(lambda k, start, stop: work(start, stop, parts[k]))
        return parts[0] if n_parts == 1 else parts.sum(axis=0)

    def _parts(self, n_rows: int, products: float) -> list[int]:
        """Bounds of the rows of at most four parts of a Hessian."""
        # at most 4, as each has a matrix of its own, of 2 ms or more
        count = int(min(4, 1 + products // (1 << 23)))
        return [k * n_rows // count for k in range(count + 1)]


class DenseRows(Rows):
    """C-ordered array of float32 or float64."""

    def __init__(self, X: np.ndarray, runner: BlockRunner):
        super().__init__(X, (frozen(X),), X.size, runner)

    def _scores(self, w: Array) -> Array:
        (X,), w, out = self._arrays, np.ascontiguousarray(w), np.empty(self.shape[0])
        self._each(lambda _, start, stop: passes.dense_scores(X, w, start, stop, out))
        return out

    def _gradient(self, g: Array) -> Array:
        (X,), g = self._arrays, np.ascontiguousarray(g)
        return self._summed(
            lambda start, stop, out: passes.dense_gradient(X, g, start, stop, out), self.shape[1:]
        )

    def _class_scores(self, W: Array) -> Array:
        (X,), out = self._arrays, np.empty((len(W), self.shape[0]))

        def multiply(_: int, first: int, last: int) -> None:
            for start, stop in _pieces(first, last):
                np.matmul(W, X[start:stop].T, out=out[:, start:stop])

        self._each(multiply)
        return out

    def _class_gradient(self, G: Array) -> Array:
        (X,) = self._arrays

        def multiply(first: int, last: int, out: Array) -> None:
            out[:] = 0.0
            for start, stop in _pieces(first, last):
                out += G[:, start:stop] @ X[start:stop]

        return self._summed(multiply, (len(G), self.shape[1]))

    def hessian(self, rows: Places, coefs: Array, centered: bool) -> tuple[Array, Array]:
        (X,), d = self._arrays, self.shape[1]
        mean, total = np.zeros(d), float(coefs.sum())
        if centered and total > 0.0:
            shares = np.zeros(self.shape[0])
            shares[rows] = coefs / total
            mean = self._gradient(shares)
        bounds = self._parts(len(rows), len(rows) * d**2 / 8.0)
        parts = np.zeros((len(bounds) - 1, d, d))

        def add_products(k: int) -> None:
            scratch = np.empty((min(_DENSE_ROWS, bounds[k + 1] - bounds[k]), d))
            for start, stop in _pieces(bounds[k], bounds[k + 1]):
                block = scratch[: stop - start]
                passes.dense_scaled(X, rows, coefs, mean, start, stop, block)
                parts[k] += block.T @ block

        self._runner.run(add_products, len(parts))
        return parts[0] if len(parts) == 1 else parts.sum(axis=0), mean

    def squares(self, weights: Array) -> Array:
        (X,), (n, d), self.passes = self._arrays, self.shape, self.passes + 1
        out, height = np.zeros(d), max(1, _BLOCK // d)
        for start in range(0, n, height):
            block = X[start : start + height].astype(np.float64, copy=False)
            out += weights[start : start + height] @ (block * block)
        return out

    def distances(self, center: Array) -> Array:
        """By differences, which cost no accuracy where the center is far from 0."""
        (X,), (n, d), self.passes = self._arrays, self.shape, self.passes + 1
        squares, height = np.empty(n), max(1, _BLOCK // d)
        for start in range(0, n, height):
            block = X[start : start + height] - center
            np.einsum("ij,ij->i", block, block, out=squares[start : start + height])
        return squares

    def dense(self, rows: Places) -> Array:
        return self._arrays[0][rows].astype(np.float64, copy=False)

    def columns(self, which: Places) -> Rows:
        return DenseRows(np.take(self._arrays[0], which, axis=1), self._runner)

    def stored(self) -> Stored:
        none = frozen(np.zeros(0, dtype=np.uint32)), np.zeros(0, dtype=np.uint64)
        return Stored(self._arrays[0].reshape(-1), *none, self.shape[1])

    @property
    def hessian_passes(self) -> float:
        # BLAS forms 16 products in the time of an entry in a pass, but takes 8 passes at least
        return max(self.shape[1] / 16.0, 8.0)


def _pieces(first: int, last: int) -> list[tuple[int, int]]:
    """Few rows at a time: BLAS gets a copy of them where X is float32."""
    starts = range(first, last, _DENSE_ROWS)
    return [(start, min(start + _DENSE_ROWS, last)) for start in starts]


class CSRRows(Rows):
    """CSR of float32 or float64 with indices of 32 or 64 bits."""

    def __init__(self, X: Any, runner: BlockRunner):
        super().__init__(X, _arrays_of(X), X.nnz, runner)

    def _scores(self, w: Array) -> Array:
        arrays, w, out = self._arrays, np.ascontiguousarray(w), np.empty(self.shape[0])
        self._each(lambda _, start, stop: passes.csr_scores(*arrays, w, start, stop, out))
        return out

    def _gradient(self, g: Array) -> Array:
        arrays, g = self._arrays, np.ascontiguousarray(g)
        return self._summed(
            lambda start, stop, out: passes.csr_gradient(*arrays, g, start, stop, out),
            self.shape[1:],
        )

    def _class_scores(self, W: Array) -> Array:
        arrays, W, out = self._arrays, np.ascontiguousarray(W.T), np.empty((self.shape[0], len(W)))
        self._each(lambda _, start, stop: passes.csr_class_scores(*arrays, W, start, stop, out))
        return np.ascontiguousarray(out.T)

    def _class_gradient(self, G: Array) -> Array:
        arrays, G = self._arrays, np.ascontiguousarray(G.T)

        def add(start: int, stop: int, out: Array) -> None:
            passes.csr_class_gradient(*arrays, G, start, stop, out)

        return np.ascontiguousarray(self._summed(add, (self.shape[1], G.shape[1])).T)

    def hessian(self, rows: Places, coefs: Array, centered: bool) -> tuple[Array, Array]:
        d, arrays = self.shape[1], self._arrays
        bounds = self._parts(len(rows), 4.0 * len(rows) * (self.n_entries / self.shape[0]) ** 2)
        H, sums = np.zeros((len(bounds) - 1, d, d)), np.zeros((len(bounds) - 1, d))

        def add(k: int) -> None:
            passes.csr_hessian(*arrays, rows, coefs, bounds[k], bounds[k + 1], H[k], sums[k])

        self._runner.run(add, len(H))
        matrix, mean, total = H.sum(axis=0), sums.sum(axis=0), float(coefs.sum())
        if not (centered and total > 0.0):
            return matrix, np.zeros(d)
        matrix -= np.outer(mean, mean / total)
        return matrix, mean / total

    def squares(self, weights: Array) -> Array:
        self.passes += 1
        out = np.zeros(self.shape[1])
        passes.csr_squares(*self._arrays, weights, out)
        return out

    def distances(self, center: Array) -> Array:
        X = self.X.astype(np.float64, copy=False)  # sums of float32 would be too short
        return row_norms(X, squared=True) - 2.0 * self.scores(center) + center @ center

    def dense(self, rows: Places) -> Array:
        return self.X[rows].toarray().astype(np.float64, copy=False)

    def columns(self, which: Places) -> Rows:
        part = self.X[:, which]
        part.sum_duplicates()
        return CSRRows(part, self._runner)

    @cached_property
    def transposed(self) -> sp.csr_array:
        """A copy in float64 with one column of X per row."""
        return sp.csr_array(self.X.T.tocsr(), dtype=np.float64)

    def stored(self) -> Stored:
        return Stored(*self._arrays, 0)

    @property
    def hessian_passes(self) -> float:
        return max(self.n_entries / self.shape[0] / 2.0, 1.0)  # half of the products are formed


def _arrays_of(X: Any) -> tuple[np.ndarray, ...]:
    """Values, indices and row pointers as compiled functions take them."""
    unsigned = np.uint32 if X.indices.dtype == np.int32 else np.uint64
    indices = np.asarray(X.indices).view(unsigned)
    return frozen(X.data), frozen(indices), X.indptr.astype(np.uint64)


def rows_of(X: Any, n_threads: int = 1) -> Rows:
    """The rows of a matrix in memory: without a copy, unless CSR has entries in parts."""
    runner = BlockRunner(n_threads)
    if not sp.issparse(X):
        return DenseRows(X, runner)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return CSRRows(X, runner)


def factor_passes(side: int, n_entries: int) -> float:
    """The time of a Cholesky factor of a matrix with ``side`` rows, in passes over the data."""
    # as measured
    return side**3 / (12.0 * max(n_entries, LEAST_ENTRIES))
