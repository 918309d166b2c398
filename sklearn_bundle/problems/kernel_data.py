"""Training points and a kernel: values that several problems share, and sums of them in float64."""

from functools import cached_property
from math import fsum
from threading import local

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.problems._distances import dense_rows, rbf_sums
from sklearn_bundle.problems._linear_sums import linear_sums
from sklearn_bundle.problems._points import pays_dense
from sklearn_bundle.problems.kernel import KernelRows
from sklearn_bundle.problems.kernel_function import Kernel, Matrix

Array = NDArray[np.float64]

OF_CACHE = 0.5  # share of the memory for kernel values that values for several uses may take
_EXACT_ROWS = 4096  # rows of X that are copied at a time: the copy stays small
_MOST_SPARE = 1.7  # rows per column up to which computing all values of the rows is faster


class KernelData:
    """Training points and a kernel: values in single or double precision, made when asked for.

    Parameters
    ----------
    X : ndarray or CSR; the kernel matrix for "precomputed"
    kernel : Kernel
    dtype : float32 or float64, default=float32
        The precision in which problems begin.
    """

    def __init__(self, X: Matrix, kernel: Kernel, dtype: type = np.float32):
        self.X, self.kernel, self.dtype = X, kernel, np.dtype(dtype)
        self.given = kernel.name == "precomputed"
        self._rows: dict[np.dtype, KernelRows] = {}
        self._local = local()
        self._widest = self.bytes_shared = 0  # of ``store``, for each thread
        self.kept: np.ndarray | None = None
        self.bytes_kept = 0  # by this object, for all threads
        self._source: KernelRows | None = None  # of what is kept

    def rows(self, dtype: type) -> KernelRows:
        dtype = np.dtype(dtype)
        if dtype not in self._rows:
            self._rows[dtype] = KernelRows(self.X, self.kernel, dtype)
        return self._rows[dtype]

    def settle(self) -> None:
        """Begin in double precision where single precision cannot hold the values."""
        if not self.rows(self.dtype).in_range:
            self.dtype = np.dtype(np.float64)

    @property
    def diagonal(self) -> Array:
        """k(x, x) of all points."""
        return self.rows(self.dtype).diagonal

    @property
    def largest(self) -> float:
        """Largest magnitude of k(x, x), and of the exponent's parts."""
        return self.rows(self.dtype).largest

    def all_values(self) -> "KernelData | None":
        """All values in single precision, computed once, as data; None if they do not fit into it.

        Points then are rows of the matrix: the kernel is "precomputed".
        """
        if not self.rows(np.float32).in_range:
            return None
        self.keep_all()
        kept = KernelData(self.kept, Kernel("precomputed"), self.dtype)
        kept.bytes_kept = self.bytes_kept
        return kept

    def share(self, labels: np.ndarray, cache_bytes: float, n_threads: int) -> None:
        """Compute once what several pairs of classes need, if there is space.

        For dense points in float32 these are the values within a class, kept as they are computed;
        for others all values, computed now.
        """
        n = len(labels)
        if self.given or self.kept is not None or self.dtype != np.float32:
            return
        if self.rows(self.dtype).dense is None:
            if 4 * n**2 <= OF_CACHE * cache_bytes:
                self.keep_all()
            return
        widest = int(np.bincount(labels).max())
        if 4 * n * widest <= OF_CACHE * cache_bytes / n_threads:
            self._widest, self.bytes_shared = widest, 4 * n * widest

    @property
    def store(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """This thread's values within classes, one row per point, and which rows are known."""
        if not hasattr(self._local, "store"):
            n = self.X.shape[0] if self._widest else 0
            self._local.store = np.empty((n, self._widest), np.float32), np.zeros(n, np.bool_)
        return self._local.store

    def keep_all(self) -> None:
        """Compute all values in single precision, once; ``rows`` reads them from there."""
        self._source = self.rows(np.float32)
        self.kept = self._source.gram()
        self.bytes_kept = self.kept.nbytes
        self._rows[np.dtype(np.float32)] = KernelRows(self.kept, Kernel("precomputed"), np.float32)

    def rounding(self, dtype: np.dtype, rows: np.ndarray, columns: np.ndarray) -> Array | float:
        """Bounds on the errors of the values of points in ``rows`` with those in ``columns``."""
        source = self.rows(dtype) if dtype == np.float64 else self._source or self.rows(dtype)
        return source.rounding(rows, columns)

    def space(self, size: int, dtype: np.dtype) -> np.ndarray:
        """An uninitialized vector; every call of a thread gets the same memory."""
        memory = getattr(self._local, "memory", np.empty(0, np.uint8))
        if len(memory) < size * dtype.itemsize:
            memory = self._local.memory = np.empty(size * dtype.itemsize, np.uint8)
        return memory[: size * dtype.itemsize].view(dtype)

    def exact_sums(
        self,
        coef: Array,
        chosen: np.ndarray,
        rows: np.ndarray,
        n_threads: int = 1,
        *,
        constant: float = 1.0,
    ) -> tuple[Array, Array]:
        """``sum_c coef[v, c] (k(x_r, x_c) + constant)`` by v and r, c over ``rows[chosen]``.

        From the data, in float64; and bounds on the errors. The places ``chosen`` ascend.
        """
        if self.kernel.name == "rbf" and self.exact_by_tiles:
            sums, errors = rbf_sums(self.X, self.kernel.gamma, coef, chosen, rows, n_threads)
            sums += constant * np.array([[fsum(of_v)] for of_v in coef])
            return sums, errors[:, np.newaxis]
        each = [self._exact_sums(of_v, chosen, rows, constant) for of_v in coef]
        return np.array([sums for sums, _ in each]), np.array([errors for _, errors in each])

    @cached_property
    def largest_rounding(self) -> float:
        """Bound on the error of any value in single precision."""
        points = np.arange(self.X.shape[0])
        return float(np.max(self.rounding(np.dtype(np.float32), points, points)))

    def rows_of(self, indices: np.ndarray) -> Array:
        """Some rows of X, dense in float64."""
        return dense_rows(self.X, indices)

    @cached_property
    def exact_by_tiles(self) -> bool:
        return not sp.issparse(self.X) or pays_dense(self.X)

    def _exact_sums(
        self, coef: Array, chosen: np.ndarray, rows: np.ndarray, constant: float
    ) -> tuple[Array, Array]:
        columns = rows[chosen]
        if self.kernel.name == "linear":
            return linear_sums(self.X[rows], self.X[columns], coef, constant)
        whole = len(rows) < _MOST_SPARE * len(columns)
        if self.given or whole:
            coef_of_rows = np.zeros(len(rows))
            coef_of_rows[chosen] = coef
        if self.given:
            points = KernelRows(self.X, self.kernel, np.float64)
            sums = points.sums(coef, columns, rows)
            errors = points.take(rows).sums_rounding(coef_of_rows)
        elif whole:
            points = KernelRows(self.X[rows], self.kernel, np.float64)
            sums, errors = points.own_sums(coef_of_rows), points.sums_rounding(coef_of_rows)
        else:
            points = KernelRows(self.X[columns], self.kernel, np.float64)
            sums, errors = np.empty((2, len(rows)))
            for start in range(0, len(rows), _EXACT_ROWS):
                part = slice(start, start + _EXACT_ROWS)
                Z = self.X[rows[part]]
                sums[part], errors[part] = points.scores(Z, coef), points.sums_rounding(coef, Z)
        return sums + constant * fsum(coef), errors
