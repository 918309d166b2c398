"""The data matrix as an operator: products with it and with parts of it, block by block of rows.

Problems and solvers see the operator and never X, so only the operator knows where the rows are. A
new place for them (columns next to rows, say) is a new class that offers :class:`RowOperator`, or
:class:`RowProducts` if it has no access to single rows.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]


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


class RowOperator(RowProducts, Protocol):
    """What problems in memory need of the data; threads do not change a bit.

    Attributes
    ----------
    nbytes : int
        Bytes that a pass over all rows reads.
    gram_passes, outer_passes : float
        Cost of :meth:`gram` and :meth:`outer`, in passes; infinity if it is too much.
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def gram_passes(self) -> float: ...

    @property
    def outer_passes(self) -> float: ...

    def class_scores(self, W: Array) -> Array:
        """``W X'`` of shape (k, n), W of shape (k, d)."""
        ...

    def class_gradient(self, g: Array) -> Array:
        """``g X`` of shape (k, d), g of shape (k, n)."""
        ...

    def dense(self, rows: NDArray[np.intp]) -> Array:
        """These rows as a dense array of float64."""
        ...

    def sample(self, rows: NDArray[np.intp]) -> "RowOperator":
        """A copy of these rows, which counts its own passes."""
        ...

    def hessian(self, rows: NDArray[np.intp], coefs: Array, free: bool) -> Array:
        """The lower triangle of ``sum_r c_r x_r x_r'``; ``free`` gives x a last entry 1."""
        ...

    def rows_in_passes(self, passes: float) -> int:
        """The number of rows whose Hessian takes as long as ``passes`` passes over the data."""
        ...

    def gram(self, weights: Array, centered: bool) -> Array:
        """``X'SX``, both triangles, shape (d, d); ``centered`` subtracts the mean of the rows."""
        ...

    def outer(self, weights: Array, centered: bool) -> Array:
        """``S^1/2 X X' S^1/2`` of shape (n, n), otherwise like :meth:`gram`."""
        ...

    def column_squares(self, weights: Array) -> Array:
        """``sum_i s_i x_ij^2`` of every column."""
        ...

    def columns(self, which: NDArray[np.intp]) -> "RowOperator":
        """The operator of a copy of some columns."""
        ...

    def transposed(self, which: NDArray[np.intp] | None = None) -> Array | sp.csr_array:
        """A copy in float64 with one column of X, or of these columns, per row."""
        ...

    def stored(self) -> StoredRows:
        """The rows themselves, for compiled steps that visit one after the other."""
        ...
