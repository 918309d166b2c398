"""Training points and a kernel: values that several problems share, and sums of them in float64."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.kernel._compiled.pair_rows import LANES
from sklearn_bundle.kernel._compiled.steps import FEW
from sklearn_bundle.kernel.values._points import ByCallable
from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

# Whether values that the caller gives or computes are those of a kernel. Two triangles that differ,
# or a negative eigenvalue, leave no convex problem, and so no certificate. What rounding in their
# type explains is allowed.

Array = NDArray[np.float64]

# Roundings of a value k(x, z), in units of sqrt(k(x, x) k(z, z)): sums of 10,000 products have some
# hundreds, and a power of them a few times as many.
_OF_VALUE = 1e3
# Roundings of an eigenvalue, in units of the largest k(x, x), are this times n + 100. Errors of
# opposite signs move the eigenvalues of n points by about sqrt(n) times the error of a value.
_OF_EIGENVALUE, _AT_LEAST = 30.0, 100
# Of the largest k(x, x): distances between points far from the origin leave this in float64.
_OF_DISTANCES = 1e-9
_TILE = 512  # rows compared with columns at a time


def refuse_asymmetric(K: np.ndarray, kernel: Any, samples: np.ndarray) -> None:
    """Raise if the square matrix K is not symmetric; ``samples`` are the names of its points."""
    lengths = np.sqrt(np.abs(np.diagonal(K).astype(np.float64)))
    lengths *= np.sqrt(_OF_VALUE * _precision(K.dtype))
    for top in range(0, len(K), _TILE):
        stop = min(top + _TILE, len(K))
        tile, mirrored = K[top:stop, :stop], K[:stop, top:stop].T
        if np.array_equal(tile, mirrored):
            continue
        apart = np.abs(tile.astype(np.float64, copy=False) - mirrored)
        if apart.max() <= lengths[:stop].min() * lengths[top:stop].min():
            continue
        apart -= np.outer(lengths[top:stop], lengths[:stop])
        i, j = np.unravel_index(apart.argmax(), apart.shape)
        if apart[i, j] > 0.0:
            a, b = samples[top + i], samples[j]
            raise ValueError(
                f"kernel={kernel!r} is not symmetric: k(x, z) is {tile[i, j]} for the samples "
                f"{a} and {b} (row {a}, column {b}), but {mirrored[i, j]} for {b} and {a}."
            )


def refuse_indefinite(K: np.ndarray, kernel: Any, n: int, ridge: np.ndarray | None = None) -> None:
    """Raise if the symmetric matrix K, of some of n points, has a negative eigenvalue.

    Rounding is allowed; with a ``ridge``, only so much that ``K + diag(ridge)`` still has none
    beyond rounding in float64.
    """
    diagonal = np.diagonal(K).astype(np.float64)
    shift = np.full(len(K), allowance(diagonal, K.dtype))
    if ridge is not None:
        shift = np.maximum(np.minimum(shift, ridge), _of_sums(diagonal, diagonal.dtype))
    shifted = K.astype(np.float64).T  # as LAPACK has its matrices
    np.fill_diagonal(shifted, diagonal + shift)
    with blas_threads(1):  # on so few points threads wait longer than they work
        _, failed = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return
        exact = K.astype(np.float64)
        least = float(np.linalg.eigvalsh(exact)[0])
        np.fill_diagonal(exact, diagonal + shift)
        of_ridge = ridge is not None and np.linalg.eigvalsh(exact)[0] < 0.0
    if least < -shift.max() or of_ridge:
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


_CHECKED = 1000  # points whose matrix is factored at a time: some 10 ms
_CALLED = 100  # points between which a callable is checked before the fit
_EXACT_ROWS = 4096  # rows of X that are copied at a time: the copy stays small
_SURE = 1e-13  # relative error of a value in double precision, at least


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

    def rows(self, dtype: DTypeLike) -> KernelRows:
        """Values in this precision."""
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

    @cached_property
    def error_of_value(self) -> float:
        """Bound on the error of any value in the precision in which problems begin."""
        everything = np.arange(self.X.shape[0])
        error = float(np.max(self.rows(self.dtype).rounding(everything, everything)))
        return max(error, _SURE * self.largest)

    def lengths(self, points: NDArray[np.intp]) -> Array:
        """Upper bounds of sqrt(k(x, x))."""
        rows = self.rows(self.dtype)
        return np.sqrt(np.maximum(rows.diagonal[points], 0.0) * (1.0 + rows.relative_error))

    # ---- values in double precision --------------------------------------------------------------

    def square(self, points: NDArray[np.intp], width: int) -> tuple[Array, float]:
        """The matrix of these points in a larger one of zeros; a bound on its relative error."""
        values = np.zeros((width, width))
        rows = KernelRows(self.X, self.kernel, np.float64)
        rows = rows if len(points) == rows.n else rows.take(points)
        rows.gram(values)
        if not self.definite and (not self.precomputed or rows.n > _CHECKED):
            self._check_values(values[: rows.n, : rows.n], points)
        return values, rows.relative_error

    def exact_sums(
        self, coef: Array, columns: np.ndarray, rows: np.ndarray, n_threads: int = 1
    ) -> tuple[Array, Array]:
        """``sum_c coef_c k(x_r, x_columns[c])`` by r, from the data; bounds on the errors."""
        sums, errors = np.zeros((2, len(rows)))
        if not len(columns):
            return sums, errors
        if self.kernel.name == "linear":
            return _linear_sums(self.X[rows], self.X[columns], coef)
        points = None
        if not self.precomputed:
            points = KernelRows(self.X[columns], self.kernel, np.float64)
        for start in range(0, len(rows), _EXACT_ROWS):
            part = slice(start, start + _EXACT_ROWS)
            if points is None:
                block = self.X[np.ix_(rows[part], columns)]
                sums[part] = block @ coef
                errors[part] = DOUBLE * likely(len(coef)) * (np.abs(block) @ np.abs(coef))
                continue
            Z = self.X[rows[part]]
            sums[part], errors[part] = points.scores(Z, coef), points.sums_rounding(coef, Z)
        return sums, errors

    # ---- values that the caller gives or computes ------------------------------------------------

    def check(self) -> None:
        """Raise if the values are not symmetric or not positive semidefinite.

        All values of a matrix are compared with their mirror images, and up to 1,000 points are
        checked for a negative eigenvalue. A callable is called once, with up to 100 points.
        """
        n, name = self.X.shape[0], self.kernel.name
        if self.definite:
            return
        most = _CHECKED if self.precomputed else _CALLED
        points = some_points(n, most)
        whole = self.precomputed and n <= most
        values = self.X if whole else self._values_between(points)
        lowest = int(self.diagonal.argmin())
        if self.diagonal[lowest] < -self._allowed:
            raise ValueError(
                f"kernel={name!r} is not positive semidefinite: k(x, x) is "
                f"{self.diagonal[lowest]} for the sample {self._samples[lowest]}."
            )
        if self.precomputed:
            refuse_asymmetric(self.X, name, self._samples)
        self._check_values(values, points)

    def check_costs(self, points: np.ndarray, costs: Array) -> None:
        """Raise if the caller's values are too rough for a problem with these costs.

        Rounding may make eigenvalues negative, but not ``K + diag(1/C)`` indefinite.
        """
        ridge = 1.0 / costs
        if not self.definite and ridge.min() < self._allowed:
            part = some_points(len(points), _CHECKED if self.precomputed else _CALLED)
            values, n = self._values_between(points[part]), self.X.shape[0]
            refuse_indefinite(values, self.kernel.name, n, ridge[part])

    def refuse_indefinite(self, points: np.ndarray, coef: Array) -> None:
        """Raise if steps at these coefficients rightly found the values to be indefinite.

        Where no eigenvalue is negative beyond rounding, rounding is what the steps have met.
        """
        if self.definite or not len(points):
            return
        n, largest = self.X.shape[0], np.argsort(-np.abs(coef), kind="stable")[:_CHECKED]
        chosen = np.sort(points[largest])
        values = self._values_between(chosen)
        self._check_values(values, chosen)
        if len(points) > _CHECKED:
            active = np.flatnonzero(coef)
            weights = coef[active] / np.linalg.norm(coef)
            sums, _ = self.exact_sums(weights, points[active], points[active])
            least = float(weights @ sums)
            if least < -self._allowed:
                why = "below what rounding explains"
                size = len(active)
                raise ValueError(negative(self.kernel.name, f"{least:.6g} or less", size, n, why))

    def _values_between(self, points: np.ndarray) -> np.ndarray:
        """The caller's values, in their own type: that of a callable is known from then on."""
        if self.precomputed:
            return self.X[np.ix_(points, points)]
        called = ByCallable(self.X, self.kernel, np.dtype(np.float64)).X[points]
        values = ByCallable(called, self.kernel).values(called, called)
        if values.dtype.kind == "f":
            self._type = values.dtype
        return values

    def _check_values(self, values: np.ndarray, points: np.ndarray) -> None:
        """Raise if values between some points are not those of a kernel.

        In whatever type they come, no digits are expected that the caller's type does not have. All
        of a matrix are known to be symmetric.
        """
        values = values.astype(self._type, copy=False)
        if not self.precomputed:
            refuse_asymmetric(values, self.kernel.name, self._samples[points])
        refuse_indefinite(values, self.kernel.name, self.X.shape[0])

    @property
    def _allowed(self) -> float:
        """How far eigenvalues of all values may lie below 0 by rounding."""
        return allowance(self.diagonal, self._type)


def _linear_sums(left: Any, right: Any, coef: Array) -> tuple[Array, Array]:
    """``sum_c coef[c] <x_r, x_c>`` in float64, and bounds on the errors."""
    left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
    sums = np.asarray(left @ (right.T @ coef)).ravel()
    sizes = np.asarray(abs(left) @ (abs(right).T @ np.abs(coef))).ravel()
    return sums, DOUBLE * (likely(len(coef)) + likely(left.shape[1]) + FEW) * sizes


def padded(n: int) -> int:
    """The side of a matrix of n variables for compiled steps, with one for an intercept."""
    return -(-(n + 1) // LANES) * LANES
