"""Rows in the memory of this process, dense or CSR, as a :class:`RowOperator`."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from sklearn_bundle.core.parallel import BlockRunner, column_ranges
from sklearn_bundle.core.sparse import squared_lengths
from sklearn_bundle.jit import vector
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.rows.rows import Array, Matrix, RowOperator, StoredRows

_MANY_COLUMNS = 1 << 18  # 2 MB of sums: more of them, one a block of rows, cost much to add up
_MOST_BLOCKS = 4  # of a Hessian: each has a matrix of its own, and there are few threads
_DENSE_ROWS = 2048  # of a dense block, multiplied with itself: 8 MB at 500 columns
_LEAST_DENSE_ROWS = 512  # of a block that a thread takes: BLAS is at its best from here on,
_BLOCK_PRODUCTS = 1 << 23  # and as many products are a millisecond at least
_MOST_TILED = 256  # columns up to which sums that stay in registers are faster than BLAS
_ROWS_OF_CENTER = 512  # whose mean is so close to that of all that products lose no digit
_COPIED = 1 << 18  # entries of a part that is copied: 2 MB, which stay in cache
_CENTERED = 1 << 15  # entries of a part less its center: 256 KB
_CANCELLED = 1e3  # factor by which centering may shrink a matrix whose rounding stays as it is
_ENTRIES = 1 << 21  # products of a sparse block: about 2 ms, so that zeroing its Hessian is cheap
# Products of a Hessian in the time of an entry in a pass: BLAS multiplies dense blocks, and of CSR
# rows only half of the products are formed.
_DENSE_PRODUCTS = 16.0
_CSR_PRODUCTS = 2.0
_LEAST_PASSES = 8.0  # that a dense Hessian takes however short the rows are


class DenseRows(RowOperator):
    """C-ordered array of float32 or float64."""

    _score_passes = design.dense_scores, design.dense_scores_many
    _gradient_passes = design.dense_gradient, design.dense_gradient_many

    def __init__(self, X: np.ndarray, runner: BlockRunner):
        super().__init__(X, (frozen(X),), X.size, runner)
        self._known_mean: tuple[Array, Array] | None = None  # and its weights

    def hessian(self, rows: NDArray[np.intp], coefs: Array, free: bool) -> Array:
        return self._products(rows, coefs, np.zeros(self.shape[1]), free)

    def gram(self, weights: Array, centered: bool) -> Array:
        mean = self._mean(weights, centered)
        self.passes += 1
        return self._products(np.arange(self.shape[0]), weights, mean, False)

    def moments(self, weights: Array, target: Array, centered: bool) -> tuple[Array, Array]:
        """One pass about the mean of some rows; another one if that is far from the mean of all."""
        d = self.shape[1]
        if d > _MOST_TILED:
            return super().moments(weights, target, centered)
        width = -(-d // vector.WIDTH) * vector.WIDTH
        center, y_center = np.zeros(width), 0.0
        if centered:
            some = self._X[:: -(-self.shape[0] // _ROWS_OF_CENTER)].astype(np.float64)
            center[:d] = some[0] + (some - some[0]).mean(axis=0)  # exact for constant columns
            y_center = float(weights @ target)
        H, q, m = self._moments_about(center, y_center, weights, target)
        if centered:
            squares = H.diagonal()
            if (squares > _CANCELLED * (squares - m * m)).any():
                center = center + m
                H, q, m = self._moments_about(center, y_center, weights, target)
            H -= np.outer(m, m)
            self._known_mean = weights, (center + m)[:d]
        return np.ascontiguousarray(H[:d, :d]), q[:d]

    def _moments_about(
        self, center: Array, y_center: float, weights: Array, target: Array
    ) -> tuple[Array, Array, Array]:
        """Weighted sums of the products of columns less their center, with y, and with 1."""
        n, width = self.shape[0], len(center)
        count = self._n_blocks(n, width)
        bounds = [k * n // count for k in range(count + 1)]
        parts = np.zeros((count, width + 3, width))
        args = *self._arrays, target, weights, center, y_center

        def add(k: int) -> None:
            H, vectors = parts[k, :width], parts[k, width:]
            design.dense_moments(*args, bounds[k], bounds[k + 1], H, *vectors)

        self._runner.run(add, count)
        self.passes += 1
        total = parts.sum(axis=0)
        q, m, squares = total[width:]
        self._squares = squares[: self.shape[1]]
        upper = np.triu(total[:width])
        return upper + np.triu(upper, 1).T, q, m

    def outer(self, weights: Array, centered: bool) -> Array:
        """``S^1/2 X X' S^1/2``; the mean is taken off the products unless it is large."""
        n, d = self.shape
        (X,) = self._arrays
        roots = np.sqrt(weights)[:, None]
        self.passes += 1
        if X.dtype == np.float64:
            total = X @ X.T
            size = total.trace()
            if centered:
                means = total @ weights
                total += (weights @ means - means) - means[:, None]
            if size <= _CANCELLED * total.trace():
                total *= roots * roots.T
                return total
        mean, total = self._mean(weights, centered), np.zeros((n, n))
        width = max(1, _COPIED // n)
        for start in range(0, d, width):
            columns = slice(start, start + width)
            block = X[:, columns] - mean[columns]
            block *= roots
            total += block @ block.T
        return total

    def column_squares(self, weights: Array) -> Array:
        (X,) = self._arrays
        self.passes += 1
        return np.einsum("i,ij,ij->j", weights, X, X)

    @property
    def gram_passes(self) -> float:
        return self.shape[1] / _DENSE_PRODUCTS

    @property
    def outer_passes(self) -> float:
        return self.shape[0] / _DENSE_PRODUCTS

    def _mean(self, weights: Array, centered: bool) -> Array:
        return self.mean(weights) if centered else np.zeros(self.shape[1])

    def mean(self, weights: Array) -> Array:
        """That of :meth:`moments`, whose terms are no larger, if it has the same weights."""
        known = self._known_mean
        return known[1] if known is not None and known[0] is weights else super().mean(weights)

    def _products(self, rows: NDArray[np.intp], coefs: Array, mean: Array, free: bool) -> Array:
        width = self.shape[1] + free
        count = self._n_blocks(len(rows), width)
        bounds = [k * len(rows) // count for k in range(count + 1)]
        parts = (np.empty if len(rows) else np.zeros)((count, width, width))
        (X,) = self._arrays

        def add_products(k: int) -> None:
            # One array for all: new pages take longer than the products where freed memory goes
            # back at once, as under dask.
            scratch = np.empty((min(_DENSE_ROWS, bounds[k + 1] - bounds[k]), width))
            for start in range(bounds[k], bounds[k + 1], _DENSE_ROWS):
                stop = min(start + _DENSE_ROWS, bounds[k + 1])
                block = scratch[: stop - start]
                design.scaled_rows(X, rows, coefs, mean, start, stop, free, block)
                if start == bounds[k]:
                    np.matmul(block.T, block, out=parts[k])
                else:
                    parts[k] += block.T @ block

        def add_up(k: int) -> None:
            piece = slice(k * width // count, (k + 1) * width // count)
            for part in parts[1:]:
                parts[0, piece] += part[piece]

        self._runner.run(add_products, count)
        self._runner.run(add_up, count if count > 1 else 0)
        return parts[0]

    def _n_blocks(self, n_rows: int, width: int) -> int:
        """Blocks of rows, each with a matrix of its own: 1, 2 or 4, as of 3 a thread would wait."""
        least = max(_LEAST_DENSE_ROWS, _BLOCK_PRODUCTS // width**2)
        count = 1
        while count < _MOST_BLOCKS and n_rows >= 2 * count * least:
            count *= 2
        return count

    @property
    def hessian_passes(self) -> float:
        return max(self.gram_passes, _LEAST_PASSES)

    def class_scores(self, W: Array) -> Array:
        (X,), out = self._arrays, np.empty((len(W), self.shape[0]))

        def multiply(k: int) -> None:
            for start, stop in self._pieces(k):
                np.matmul(W, X[start:stop].T, out=out[:, start:stop])

        self._runner.run(multiply, len(self._bounds) - 1)
        self.passes += 1
        return out

    def class_gradient(self, g: Array) -> Array:
        (X,), parts = self._arrays, np.zeros((len(self._bounds) - 1, len(g), self.shape[1]))

        def multiply(k: int) -> None:
            for start, stop in self._pieces(k):
                parts[k] += g[:, start:stop] @ X[start:stop]

        self._runner.run(multiply, len(parts))
        self.passes += 1
        return parts.sum(axis=0)

    def _pieces(self, k: int) -> list[tuple[int, int]]:
        """A block's rows, few at a time: BLAS gets a copy of them where X is float32."""
        first, last = self._bounds[k], self._bounds[k + 1]
        starts = range(first, last, _DENSE_ROWS)
        return [(start, min(start + _DENSE_ROWS, last)) for start in starts]

    def around(self, center: Array, W: Array) -> Array:
        scores = np.empty((self.shape[0], len(W)))
        for rows, block in self._centered(center):
            np.matmul(block, W.T, out=scores[rows])
        return scores

    def distances(self, center: Array) -> Array:
        squares, ones = np.empty(self.shape[0]), np.ones(self.shape[1])
        for rows, block in self._centered(center):
            np.square(block, out=block)
            np.matmul(block, ones, out=squares[rows])
        return squares

    def _centered(self, center: Array) -> Iterator[tuple[slice, Array]]:
        """Blocks of ``X - center``, which cost no accuracy where the center is far from 0.

        The center is repeated for all rows of a block: numpy subtracts short rows one by one.
        """
        (X,), (n, d) = self._arrays, self.shape
        height = min(max(1, _CENTERED // d), n)
        centers = np.tile(center, height).reshape(height, d)
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            yield rows, X[rows] - centers[: rows.stop - start]
        self.passes += 1

    def dense(self, rows: NDArray[np.intp]) -> Array:
        return self._arrays[0][rows].astype(np.float64, copy=False)

    def columns(self, which: NDArray[np.intp]) -> Self:
        return type(self)(np.take(self._arrays[0], which, axis=1), self._runner)

    def transposed(self, which: NDArray[np.intp] | None = None) -> Array:
        X = self._arrays[0] if which is None else np.take(self._arrays[0], which, axis=1)
        return np.ascontiguousarray(X.T, dtype=np.float64)

    def stored(self) -> StoredRows:
        none = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.uint64)
        return StoredRows(self._arrays[0].reshape(-1), frozen(none[0]), none[1], self.shape[1])

    def _column_sums(self, *, squared: bool) -> Array:
        out = np.zeros(self.shape[1])
        design.dense_column_sums(*self._arrays, squared, out)
        return out


def _arrays_of(X: Any) -> tuple[np.ndarray, ...]:
    """Values, indices and row pointers as compiled functions take them."""
    unsigned = np.uint32 if X.indices.dtype == np.int32 else np.uint64
    indices = np.asarray(X.indices).view(unsigned)
    return frozen(X.data), frozen(indices), X.indptr.astype(np.uint64)


class CSRRows(RowOperator):
    """CSR of float32 or float64 with indices of 32 or 64 bits, sorted or not."""

    _score_passes = design.csr_scores, design.csr_scores_many
    _gradient_passes = design.csr_gradient, design.csr_gradient_many

    def __init__(self, X: Any, runner: BlockRunner):
        super().__init__(X, _arrays_of(X), X.nnz, runner)
        self._columns: NDArray[np.intp] | None = None

    def gradient(self, g: Array) -> Array:
        """``X'g``; of many columns each one's sum by itself."""
        if g.ndim > 1 or self.shape[1] <= _MANY_COLUMNS:
            return super().gradient(g)
        self.passes += 1
        return self._gradient_by_columns(np.ascontiguousarray(g))

    def _gradient_by_columns(self, g: Array) -> Array:
        """A thread a range of columns, each of them reading all rows: no sums of parts."""
        d = self.shape[1]
        if self._columns is None:
            self._columns = column_ranges(self._arrays[1], d, self._runner.n_threads)
        out, ranges, args = np.empty(d), self._columns, (*self._arrays, g, self._skips(g))
        if len(ranges) == 2:
            design.csr_gradient(*args, 0, len(g), out)
        else:
            self._runner.run(
                lambda k: design.csr_gradient_columns(*args, ranges[k], ranges[k + 1], out),
                len(ranges) - 1,
            )
        return out

    def squared_norms(self) -> Array:
        return row_norms(self._whole, squared=True)

    def hessian(self, rows: NDArray[np.intp], coefs: Array, free: bool) -> Array:
        d = self.shape[1]
        products = len(rows) * self._entries_a_row() ** 2
        count = int(min(_MOST_BLOCKS, 1 + products // _ENTRIES))
        bounds = np.linspace(0, len(rows), count + 1).astype(np.int64)
        parts = np.zeros((count, d + 1, d + 1))
        arrays = self._arrays if self._whole is self._X else _arrays_of(self._whole)
        self._runner.run(
            lambda k: design.csr_hessian(
                *arrays, rows, coefs, bounds[k], bounds[k + 1], free, parts[k]
            ),
            count,
        )
        total = parts[0]
        for part in parts[1:]:
            total += part
        design.fold(total)
        return total if free else total[:d, :d]

    def gram(self, weights: Array, centered: bool) -> Array:
        """``X'SX``; the mean is taken off the products, to leave zeros zero."""
        H = self.hessian(np.arange(self.shape[0]), weights, True)
        self.passes += 1
        lower, mean = np.tril(H[:-1, :-1]), H[-1, :-1]
        total = lower + np.tril(lower, -1).T
        return total - np.outer(mean, mean) if centered else total

    def column_squares(self, weights: Array) -> Array:
        """``sum_i s_i x_ij^2``; entries stored in parts count as if they were not."""
        out = np.zeros(self.shape[1])
        design.csr_column_squares(*self._arrays, weights, out)
        self.passes += 1
        return out

    @property
    def gram_passes(self) -> float:
        return max(self._entries_a_row() / _CSR_PRODUCTS, 1.0)

    @property
    def hessian_passes(self) -> float:
        return self.gram_passes

    def class_scores(self, W: Array) -> Array:
        return np.ascontiguousarray(self.scores(W.ravel(), len(W)).T)

    def class_gradient(self, g: Array) -> Array:
        return self.gradient(g.T).reshape(len(g), -1)

    def around(self, center: Array, W: Array) -> Array:
        several = len(W) if len(W) > 1 else None
        return self.scores(W.ravel(), several).reshape(-1, len(W)) - W @ center

    def distances(self, center: Array) -> Array:
        return squared_lengths(self._whole) - 2.0 * self.scores(center) + center @ center

    def dense(self, rows: NDArray[np.intp]) -> Array:
        return self._X[rows].toarray().astype(np.float64, copy=False)

    def columns(self, which: NDArray[np.intp]) -> Self:
        """A copy of some columns; entries that are stored in parts are summed up."""
        part = self._X[:, which]
        part.sum_duplicates()
        return type(self)(part, self._runner)

    def transposed(self, which: NDArray[np.intp] | None = None) -> sp.csr_array:
        if which is not None:
            return self.columns(which).transposed()
        return sp.csr_array(self._whole.T.tocsr(), dtype=np.float64)

    def stored(self) -> StoredRows:
        return StoredRows(*self._arrays, 0)

    @cached_property
    def _whole(self) -> Any:
        """X, or a copy with sums in place of entries that are stored in parts."""
        X, (_, indices, indptr) = self._X, self._arrays
        if X.has_canonical_format or not design.has_parts(indices, indptr, self.shape[1]):
            return X
        X = X.copy()
        X.sum_duplicates()
        return X

    def _entries_a_row(self) -> float:
        return self.n_entries / self.shape[0]

    def _column_sums(self, *, squared: bool) -> Array:
        out = np.zeros(self.shape[1])
        design.csr_column_sums(*self._arrays[:2], squared, out)
        return out


def rows_in_memory(X: Matrix, n_threads: int = 1) -> DenseRows | CSRRows:
    """The operator of a matrix that is in memory or mapped into it, without a copy.

    Parameters
    ----------
    X : C-ordered ndarray or CSR of shape (n, d), float32 or float64
    n_threads : int, default=1
        Threads over blocks of rows.
    """
    runner = BlockRunner(n_threads)
    return CSRRows(X, runner) if sp.issparse(X) else DenseRows(X, runner)
