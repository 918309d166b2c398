"""Training points and a kernel: values that several problems share, and sums of them in float64.

Values that the caller gives or computes are checked: two triangles that differ, or a negative
eigenvalue, leave no convex problem, and so no certificate. What rounding in their type explains is
allowed.
"""

from functools import cached_property
from math import fsum
from threading import local
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import DOUBLE, MOST_SIDE, likely
from sklearn_bundle.kernel._compiled import working_set
from sklearn_bundle.kernel.values._exact_sums import (
    affordable,
    extended_sums,
    linear_sums,
    rbf_sums,
)
from sklearn_bundle.kernel.values._points import ByCallable, pays_dense
from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

Array = NDArray[np.float64]

OF_CACHE = 0.5  # share of the memory for kernel values that values for several uses may take
_EXACT_ROWS = 4096  # rows of X that are copied at a time: the copy stays small
_CALLED = 100  # points between which a callable is checked before the fit
_MOST_SPARE = 1.7  # rows per column up to which computing all values of the rows is faster
# Roundings of a value k(x, z), in units of sqrt(k(x, x) k(z, z)): sums of 10,000 products have some
# hundreds, and a power of them a few times as many.
_OF_VALUE = 1e3
# Roundings of an eigenvalue, in units of the largest k(x, x), are this times n + 100. Errors of
# opposite signs move the eigenvalues of n points by about sqrt(n) times the error of a value.
_OF_EIGENVALUE, _AT_LEAST = 30.0, 100
# Of the largest k(x, x): distances between points far from the origin leave this in float64.
_OF_DISTANCES = 1e-9
_TILE = 512  # rows and columns compared at a time: 2 MB in float64


class KernelData:
    """Training points and a kernel: values in single or double precision, computed on first use.

    Parameters
    ----------
    X : ndarray or CSR; the kernel matrix for "precomputed"
    kernel : Kernel
    dtype : float32 or float64, default=float32
        The precision in which problems begin.
    samples : ndarray of shape (n,), default=None
        What messages call the points; their numbers by default.

    Attributes
    ----------
    definite : bool
        Whether the kernel is positive semidefinite by its formula. The values of others, which the
        caller gives or computes, have to be checked.
    """

    def __init__(
        self,
        X: Matrix,
        kernel: Kernel,
        dtype: DTypeLike = np.float32,
        samples: np.ndarray | None = None,
    ):
        self.X, self.kernel = X, kernel
        self.dtype: np.dtype = np.dtype(dtype)
        self.precomputed = kernel.name == "precomputed"
        self.definite = not (self.precomputed or callable(kernel.name))
        self._type = X.dtype if self.precomputed else np.dtype(np.float64)  # of the caller's values
        self._samples = np.arange(X.shape[0]) if samples is None else samples
        self._rows: dict[np.dtype, KernelRows] = {}
        self._local = local()
        self._widest = self.bytes_shared = 0  # of ``store``, for each thread
        self.kept: np.ndarray | None = None
        self.bytes_kept = 0  # by this object, for all threads
        self._source: KernelRows | None = None  # of what is kept

    def rows(self, dtype: DTypeLike) -> KernelRows:
        dtype = np.dtype(dtype)
        if dtype not in self._rows:
            self._rows[dtype] = KernelRows(self.X, self.kernel, dtype)
        return self._rows[dtype]

    def choose_dtype(self) -> None:
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
        kept.bytes_kept, kept.definite = self.bytes_kept, True  # those of ``self`` are checked
        return kept

    def check(self) -> None:
        """Raise if the values are not symmetric or not positive semidefinite.

        All values of a matrix are compared with their mirror images, and up to 2,000 points are
        checked for a negative eigenvalue. A callable is called once, with up to 100 points.
        """
        n, name = self.X.shape[0], self.kernel.name
        if self.definite:
            return
        points = some_points(n, MOST_SIDE if self.precomputed else _CALLED)
        values = self._values_between(points)
        lowest = int(self.diagonal.argmin())
        if self.diagonal[lowest] < -self._allowed:
            raise ValueError(
                f"kernel={name!r} is not positive semidefinite: k(x, x) is "
                f"{self.diagonal[lowest]} for the sample {self._samples[lowest]}."
            )
        if self.precomputed:
            refuse_asymmetric(self.X, name, self._samples)
            refuse_indefinite(values, name, n)
        else:
            self.check_values(values, points)

    def check_costs(self, points: np.ndarray, costs: Array) -> None:
        """Raise if the caller's values are too rough for a problem with these costs.

        Rounding may make eigenvalues negative, but not ``K + diag(1/C)`` indefinite.
        """
        ridge = 1.0 / costs
        if not self.definite and ridge.min() < self._allowed:
            part = some_points(len(points), MOST_SIDE if self.precomputed else _CALLED)
            values, n = self._values_between(points[part]), self.X.shape[0]
            refuse_indefinite(values, self.kernel.name, n, ridge[part])

    def _values_between(self, points: np.ndarray) -> np.ndarray:
        """The caller's values, in their own type: that of a callable is known from then on."""
        if self.precomputed:
            return self.X[np.ix_(points, points)]
        called = ByCallable(self.X, self.kernel, np.dtype(np.float64)).X[points]
        values = ByCallable(called, self.kernel).values(called, called)
        if values.dtype.kind == "f":
            self._type = values.dtype
        return values

    def check_values(self, values: np.ndarray, points: np.ndarray) -> None:
        """Raise if values between some points, by the caller, are not those of a kernel.

        In whatever type they come, no digits are expected that the caller's type does not have.
        """
        values = values.astype(self._type)
        refuse_asymmetric(values, self.kernel.name, self._samples[points])
        refuse_indefinite(values, self.kernel.name, self.X.shape[0])

    @property
    def _allowed(self) -> float:
        """How far eigenvalues of all values may lie below 0 by rounding."""
        return allowance(self.diagonal, self._type)

    def refuse_indefinite(self, points: np.ndarray, coef: Array) -> None:
        """Raise if steps at these coefficients rightly found the values to be indefinite.

        Where no eigenvalue is negative beyond rounding, rounding is what the steps have met.
        """
        if self.definite or not len(points):
            return
        n, largest = self.X.shape[0], np.argsort(-np.abs(coef), kind="stable")[:MOST_SIDE]
        chosen = np.sort(points[largest])
        if self.precomputed:
            refuse_indefinite(self._values_between(chosen), self.kernel.name, n)
        else:
            self.check_values(self._values_between(chosen), chosen)
        if len(points) > MOST_SIDE:
            active = np.flatnonzero(coef)
            weights = coef[active] / np.linalg.norm(coef)
            (sums,), _ = self.exact_sums(weights[np.newaxis], active, points, constant=0.0)
            least = float(weights @ sums[active])
            if least < -self._allowed:
                why = "below what rounding explains"
                size = len(active)
                raise ValueError(negative(self.kernel.name, f"{least:.6g} or less", size, n, why))

    def share(self, labels: np.ndarray, cache_bytes: float, n_threads: int) -> None:
        """Compute once what several pairs of classes need, if there is space.

        For dense points in float32 these are the values within a class, kept as they are computed;
        for others all values, computed now.
        """
        n = len(labels)
        if self.precomputed or self.kept is not None or self.dtype != np.float32:
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
        if callable(self.kernel.name):
            some = some_points(len(self.kept), MOST_SIDE)
            refuse_indefinite(self.kept[np.ix_(some, some)], self.kernel.name, len(self.kept))
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

    def extended_sums(
        self, coef: Array, chosen: np.ndarray, rows: np.ndarray, *, constant: float = 1.0
    ) -> tuple[Array, Array] | None:
        """``exact_sums`` in extended precision for one vector; None if that takes too long."""
        columns = rows[chosen]
        if not affordable(self.kernel, (len(rows), *self.X.shape[1:]), len(columns)):
            return None
        if self.precomputed:
            values = self.X[np.ix_(rows, columns)]
            return extended_sums(values, values, self.kernel, coef, constant)
        return extended_sums(self.X[rows], self.X[columns], self.kernel, coef, constant)

    @cached_property
    def largest_rounding(self) -> float:
        """Bound on the error of any value in single precision."""
        points = np.arange(self.X.shape[0])
        return float(np.max(self.rounding(np.dtype(np.float32), points, points)))

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
        if self.precomputed or whole:
            coef_of_rows = np.zeros(len(rows))
            coef_of_rows[chosen] = coef
        if self.precomputed:
            points = KernelRows(self.X, self.kernel, np.float64)
            errors = points.take(rows).sums_rounding(coef_of_rows)
            if self.definite and 2 * len(rows) >= points.n:  # ours, so symmetric to the last bit
                sums = np.zeros(points.n)
                working_set.add_rows(self.X, columns, coef, sums)
                sums, lengths = sums[rows], np.sqrt(np.abs(points.diagonal))
                reach = np.abs(coef) @ lengths[columns]
                errors += DOUBLE * likely(len(coef)) * reach * lengths[rows]
            else:
                sums = points.sums(coef, columns, rows)
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


def refuse_asymmetric(K: np.ndarray, kernel: Any, samples: np.ndarray) -> None:
    """Raise if the square matrix K is not symmetric; ``samples`` are the names of its points."""
    lengths = np.sqrt(np.abs(np.diagonal(K).astype(np.float64)))
    lengths *= np.sqrt(_OF_VALUE * _precision(K.dtype))
    for top in range(0, len(K), _TILE):
        rows = slice(top, top + _TILE)
        for left in range(0, top + 1, _TILE):
            columns = slice(left, left + _TILE)
            tile, mirrored = K[rows, columns], K[columns, rows].T
            if np.array_equal(tile, mirrored):
                continue
            apart = np.abs(tile.astype(np.float64) - mirrored)
            apart -= np.outer(lengths[rows], lengths[columns])
            i, j = np.unravel_index(apart.argmax(), apart.shape)
            if apart[i, j] > 0.0:
                a, b = samples[top + i], samples[left + j]
                raise ValueError(
                    f"kernel={kernel!r} is not symmetric: k(x, z) is {tile[i, j]} for the samples "
                    f"{a} and {b} (row {a}, column {b}), but {mirrored[i, j]} for {b} and {a}."
                )


def refuse_indefinite(K: np.ndarray, kernel: Any, n: int, ridge: np.ndarray | None = None) -> None:
    """Raise if the symmetric matrix K, of some of n points, has a negative eigenvalue.

    Rounding is allowed; with a ``ridge``, only so much that ``K + diag(ridge)`` still has none
    beyond rounding in float64.
    """
    exact = K.astype(np.float64)
    shift = np.full(len(K), allowance(np.diagonal(exact), K.dtype))
    if ridge is not None:
        shift = np.maximum(np.minimum(shift, ridge), _of_sums(np.diagonal(exact), exact.dtype))
    _, failed = lapack.dpotrf(exact + np.diag(shift), lower=1, clean=0, overwrite_a=1)
    if not failed:
        return
    least = float(np.linalg.eigvalsh(exact)[0])
    if least < -shift.max() or (
        ridge is not None and np.linalg.eigvalsh(exact + np.diag(shift))[0] < 0.0
    ):
        why = "below what rounding explains"
        if ridge is not None:
            why = f"which is too large for 1/C of {ridge.min():.3g}: use a smaller C, or float64"
        raise ValueError(negative(kernel, f"{least:.6g}", len(K), n, why))


def negative(kernel: Any, eigenvalue: str, size: int, n: int, why: str) -> str:
    """The message about a negative eigenvalue of the values between ``size`` of n points."""
    among = "the samples" if size == n else f"{size} of the {n} samples"
    return (
        f"kernel={kernel!r} is not positive semidefinite: the matrix of its values between {among} "
        f"has the eigenvalue {eigenvalue}, {why}. There is no convex problem. Add as much to the "
        "diagonal, or use another kernel."
    )


def allowance(diagonal: np.ndarray, dtype: np.dtype) -> float:
    """How far below 0 rounding may have moved eigenvalues of a matrix with this diagonal."""
    return max(_of_sums(diagonal, dtype), _OF_DISTANCES * _largest(diagonal))


def _of_sums(diagonal: np.ndarray, dtype: np.dtype) -> float:
    n_roundings = _OF_EIGENVALUE * (len(diagonal) + _AT_LEAST)
    return n_roundings * _precision(dtype) * _largest(diagonal)


def _largest(diagonal: np.ndarray) -> float:
    return float(np.abs(diagonal).max(initial=0.0))


def some_points(n: int, most: int) -> np.ndarray:
    """All of n points, or so many of them at random, the same for equal n."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(n).choice(n, most, replace=False))


def _precision(dtype: np.dtype) -> float:
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)
