"""The data matrix as an operator: products with it and with parts of it, block by block of rows.

Problems and solvers see the operator and never X, so only the operator knows where the rows are. A
new place for them (columns next to rows, say) is a new class that offers :class:`RowProducts`, and
what else of :class:`RowOperator` solvers of its problems need.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from sklearn_bundle.core.parallel import BlockRunner, row_blocks, vector_blocks
from sklearn_bundle.linear.rows.amid_rows import AmidRows

Array = NDArray[np.float64]
Matrix = np.ndarray | sp.csr_matrix | sp.csr_array

# Entries a row. Leaving out rows breaks the stream that the processor prefetches: with rows of
# several cache lines it is faster to read all of them, unless few have a weight (MNIST: up to twice
# as fast).
_LONG_ROW = 64
# A Cholesky factorization takes as long as a pass over side^3 / 12 entries of X: side^3 / 6
# multiplications with additions, two at a time, since small matrices are slower than large ones.
_FACTORISATION = 12.0
_LEAST_ENTRIES = 1 << 17  # passes over fewer entries take as long, since calls take time too
CHEAP_FACTORISATION = 1.0  # passes; if it costs more, steps on samples of the rows are too slow


class StoredRows(NamedTuple):
    """Rows stored one after the other, for compiled steps that visit them in any order.

    Dense rows have ``width`` entries each, and ``indices`` and ``indptr`` are empty. For CSR rows
    width is 0.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    width: int


class RowProducts(Protocol):
    """What points, planes and lines need of the data; sums are float64.

    Attributes
    ----------
    shape : (int, int)
        n rows, d columns.
    n_entries : int
        Stored entries.
    passes : int
        Products with X or X' so far. Code that uses the rows by other means adds to it.
    """

    shape: tuple[int, int]
    n_entries: int
    passes: int

    def scores(self, w: Array, n_outputs: int | None = None) -> Array:
        """``X w``, or with k outputs ``X W'`` of shape (n, k), where w is W row after row."""
        ...

    def gradient(self, g: Array) -> Array:
        """``X'g``; with g of shape (n, k) ``G'X``, row after row."""
        ...

    def mean_square(self, weights: Array) -> float:
        """Weighted mean of the rows' squared lengths."""
        ...

    def squared_norms(self) -> Array:
        """``||x_i||^2`` of every row; entries that are stored in parts count as their sums."""
        ...

    def squared_columns(self) -> Array:
        """``sum_i x_ij^2`` of every column, computed once."""
        ...

    def column_scale(self) -> Array:
        """``sum_i x_ij^2 / sum_i |x_ij|``: how far a unit of w_j moves the scores it affects."""
        ...

    def sums(self, part: Callable[[slice], tuple[float, ...]]) -> tuple[float, ...]:
        """Sums over all rows of what ``part`` sums up of blocks of them, maybe in threads."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None:
        """End the threads, if there are any."""
        ...


class RowOperator(RowProducts):
    """A matrix in memory, or mapped into it: arrays that compiled functions take blocks of.

    Threads do not change a bit.
    """

    #: Compiled passes over a block of rows, with one output and with several.
    _score_passes: ClassVar[tuple[Callable, Callable]]
    _gradient_passes: ClassVar[tuple[Callable, Callable]]

    def __init__(
        self, X: Matrix, arrays: tuple[np.ndarray, ...], n_entries: int, runner: BlockRunner
    ):
        self.shape: tuple[int, int] = X.shape
        self.n_entries, self.passes = n_entries, 0
        self._X: Any = X  # of a sparse matrix a type checker knows no attributes
        self._arrays, self._runner = arrays, runner
        self._bounds = row_blocks(n_entries, self.shape[0], 1)
        self._partial: dict[int | None, tuple[tuple[int, ...], Array]] = {}
        self._squares: Array | None = None  # of columns, once they are known

    @property
    def nbytes(self) -> int:
        """Bytes that a pass over all rows reads."""
        return sum(array.nbytes for array in self._arrays)

    def scores(self, w: Array, n_outputs: int | None = None) -> Array:
        n = self.shape[0]
        if n_outputs is None:
            w, out = np.ascontiguousarray(w), np.empty(n)
        else:
            w = np.ascontiguousarray(w.reshape(n_outputs, -1).T)
            out = np.empty((n, n_outputs))
        kernel = self._score_passes[n_outputs is not None]
        arrays, bounds = self._arrays, self._bounds
        self._runner.run(
            lambda k: kernel(*arrays, w, bounds[k], bounds[k + 1], out), len(bounds) - 1
        )
        self.passes += 1
        return out

    def gradient(self, g: Array) -> Array:
        """``X'g``: parts of blocks of rows, summed in order."""
        self.passes += 1
        g = np.ascontiguousarray(g)
        n_outputs = None if g.ndim == 1 else g.shape[1]
        kernel = self._gradient_passes[n_outputs is not None]
        arrays, skip = self._arrays, self._skips(g)
        bounds, partial = self._partial_sums(n_outputs)
        self._runner.run(
            lambda k: kernel(*arrays, g, skip, bounds[k], bounds[k + 1], partial[k]),
            len(bounds) - 1,
        )
        total = partial.sum(axis=0)
        return total if n_outputs is None else total.T.ravel()

    def sums(self, part: Callable[[slice], tuple[float, ...]]) -> tuple[float, ...]:
        """Sums over blocks of rows, added up in order."""
        bounds = vector_blocks(self.shape[0])
        if len(bounds) == 2:
            return part(slice(None))
        parts: list[tuple[float, ...]] = [()] * (len(bounds) - 1)

        def work(k: int) -> None:
            parts[k] = part(slice(bounds[k], bounds[k + 1]))

        self._runner.run(work, len(parts))
        return tuple(map(float, np.sum(parts, axis=0)))

    def mean_square(self, weights: Array) -> float:
        if weights.min() == weights.max():  # every fit knows the columns' squares
            return float(weights[0]) * float(self.squared_columns().sum())
        return float(weights @ row_norms(self._X, squared=True))

    def squared_norms(self) -> Array:
        return row_norms(self._X, squared=True)

    def squared_columns(self) -> Array:
        if self._squares is None:
            self._squares = self._column_sums(squared=True)
        return self._squares

    def column_scale(self) -> Array:
        return self._column_scale

    @cached_property
    def _column_scale(self) -> Array:
        sizes = self._column_sums(squared=False)
        return self.squared_columns() / np.maximum(sizes, np.finfo(np.float64).tiny)

    def sample(self, rows: NDArray[np.intp]) -> Self:
        """A copy of these rows, which counts its own passes."""
        return type(self)(self._X[rows], self._runner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

    @property
    @abstractmethod
    def gram_passes(self) -> float:
        """The cost of :meth:`gram` in passes over the data; infinity if it is too much."""

    @property
    def outer_passes(self) -> float:
        """The same of :meth:`outer`; infinity means that there is none."""
        return np.inf

    @abstractmethod
    def class_scores(self, W: Array) -> Array:
        """``W X'`` of shape (k, n), W of shape (k, d)."""

    @abstractmethod
    def class_gradient(self, g: Array) -> Array:
        """``g X`` of shape (k, d), g of shape (k, n)."""

    @cached_property
    def amid(self) -> AmidRows:
        """A point amid the rows, and how far each is from it."""
        return AmidRows(self)

    @abstractmethod
    def around(self, center: Array, W: Array) -> Array:
        """``<W_k, x_i - center>`` of shape (n, k), up to rounding."""

    @abstractmethod
    def distances(self, center: Array) -> Array:
        """``||x_i - center||^2``, up to rounding."""

    @abstractmethod
    def dense(self, rows: NDArray[np.intp]) -> Array:
        """These rows as a dense array of float64."""

    @abstractmethod
    def hessian(self, rows: NDArray[np.intp], coefs: Array, free: bool) -> Array:
        """The lower triangle of ``sum_r c_r x_r x_r'``; ``free`` gives x a last entry 1."""

    @property
    @abstractmethod
    def hessian_passes(self) -> float:
        """Passes over the data in the time of a Hessian from all rows."""

    def rows_in_passes(self, passes: float) -> int:
        """The number of rows whose Hessian takes as long as ``passes`` passes over the data."""
        return int(passes * self.shape[0] / self.hessian_passes)

    def mean(self, weights: Array) -> Array:
        """``X's``: the mean of the rows, with weights that sum to one."""
        return self.gradient(weights)

    @abstractmethod
    def gram(self, weights: Array, centered: bool) -> Array:
        """``X'SX``, both triangles, shape (d, d); ``centered`` subtracts the mean of the rows."""

    def moments(self, weights: Array, target: Array, centered: bool) -> tuple[Array, Array]:
        """:meth:`gram`, and ``X'Sy`` with the same rows and y centered if ``centered``."""
        y = target - weights @ target if centered else target
        return self.gram(weights, centered), self.gradient(weights * y)

    def outer(self, weights: Array, centered: bool) -> Array:
        """``S^1/2 X X' S^1/2`` of shape (n, n), otherwise like :meth:`gram`."""
        raise NotImplementedError("outer_passes is infinite")

    @abstractmethod
    def column_squares(self, weights: Array) -> Array:
        """``sum_i s_i x_ij^2`` of every column."""

    @abstractmethod
    def columns(self, which: NDArray[np.intp]) -> Self:
        """The operator of a copy of some columns."""

    @abstractmethod
    def transposed(self, which: NDArray[np.intp] | None = None) -> Array | sp.csr_array:
        """A copy in float64 with one column of X, or of these columns, per row."""

    @abstractmethod
    def stored(self) -> StoredRows:
        """The rows themselves, for compiled steps that visit one after the other."""

    @abstractmethod
    def _column_sums(self, *, squared: bool) -> Array:
        """Sums of the squares of each column's entries, or of their absolute values."""

    def _skips(self, g: Array) -> bool:
        """Whether rows with g_i = 0 are left out even if they are few."""
        return g.ndim > 1 or self.n_entries <= _LONG_ROW * self.shape[0]

    def _partial_sums(self, n_outputs: int | None) -> tuple[tuple[int, ...], Array]:
        """Boundaries of blocks of rows, and a part of ``X'g`` for each of them."""
        if n_outputs not in self._partial:
            n, d = self.shape
            bounds = row_blocks(self.n_entries, n, d * (n_outputs or 1))
            of_outputs = () if n_outputs is None else (n_outputs,)
            self._partial[n_outputs] = bounds, np.empty((len(bounds) - 1, d, *of_outputs))
        return self._partial[n_outputs]


def entries_of_pass(n_entries: int) -> int:
    """The size of a pass over ``n_entries`` stored entries, for comparing times."""
    return max(n_entries, _LEAST_ENTRIES)


def factorization(side: int, n_entries: int) -> float:
    """The time of a Cholesky factorization of a matrix with ``side`` rows, in passes."""
    return side**3 / (_FACTORISATION * entries_of_pass(n_entries))
