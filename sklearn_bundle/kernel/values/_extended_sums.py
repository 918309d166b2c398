"""Sums of kernel values in extended precision, for models whose scores cancel in float64."""

from math import fsum

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import TINY
from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.kernel.values._points import BLOCK_ENTRIES
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix, densified

Array = NDArray[np.float64]

_LONG = np.longdouble
_EPS = float(np.finfo(_LONG).eps)
_FINER = 1e-2  # share of the precision of float64 that pays: where long double is double, none does
# Products of features at most: about 0.3 s. The linear kernel has one per entry of X.
_MOST = 3e7


def affordable(kernel: Kernel, shape: tuple[int, ...], n_columns: int) -> bool:
    """Whether sums of so many values for each row of X are fast, and more precise than float64."""
    n, d = shape[0], 1 if kernel.name == "precomputed" or len(shape) < 2 else shape[1]
    cost = n * d if kernel.name == "linear" else n * d * n_columns
    return _EPS < _FINER * DOUBLE and not callable(kernel.name) and cost <= _MOST


def extended_sums(
    rows: Matrix, columns: Matrix, kernel: Kernel, coef: Array, constant: float
) -> tuple[Array, Array]:
    """``sum_c coef[c] (k(x_r, x_c) + constant)``, and bounds on the errors.

    For "precomputed", ``rows`` holds the values themselves and ``columns`` is not read.
    """
    weights = coef.astype(_LONG)
    if kernel.name == "linear":
        left, right = _dense(rows), _dense(columns)
        sums = left @ (right.T @ weights)
        sizes = np.abs(left) @ (np.abs(right).T @ np.abs(weights))
        roundings = len(coef) + left.shape[1] + 4
        return _rounded(sums + constant * weights.sum(), sizes, weights, roundings)
    given = kernel.name == "precomputed"
    left, right = (rows, columns) if given else (_dense(rows), _dense(columns))
    n, d = left.shape
    sums, sizes = np.empty((2, n), _LONG)
    step = max(1, BLOCK_ENTRIES // max(len(coef), 1))
    for start in range(0, n, step):
        part = slice(start, start + step)
        values = _dense(left[part]) if given else _values(left[part], right, kernel)
        bounds = np.abs(values)
        if kernel.name == "poly":
            bounds = _values(abs(left[part]), abs(right), kernel)
        sums[part] = values @ weights + constant * weights.sum()
        sizes[part] = bounds @ np.abs(weights)
    of_values = 4 if given else kernel.degree * (d + 8) + d + 16
    return _rounded(sums, sizes, weights, len(coef) + of_values)


def _rounded(sums, sizes, weights, roundings) -> tuple[Array, Array]:
    """In float64, with the error of the sums and of rounding them; 1 for the constant."""
    sizes = sizes + np.abs(weights).sum()
    errors = (roundings * _EPS * sizes).astype(np.float64)
    sums = sums.astype(np.float64)
    return sums, errors + 2.0 * DOUBLE * np.abs(sums)


def _values(left, right, kernel: Kernel):
    gamma = _LONG(kernel.gamma)
    if kernel.name == "poly":
        return (gamma * (left @ right.T) + _LONG(kernel.coef0)) ** int(kernel.degree)
    squares = np.zeros((len(left), len(right)), _LONG)
    for x, z in zip(left.T, right.T, strict=True):
        squares += (x[:, np.newaxis] - z) ** 2
    return np.exp(-gamma * squares)


def _dense(X: Matrix) -> np.ndarray:
    return densified(X).astype(_LONG)


def linear_sums(
    rows: Matrix, columns: Matrix, coef: Array, constant: float = 1.0
) -> tuple[Array, Array]:
    """``sum_c coef[c] (<x_r, x_c> + constant)`` in float64, and bounds on the errors.

    With ``x = m + z``, m the mean of the columns weighted by the sizes of the coefficients,
    ``v = sum_c coef[c] z_c`` and b the sum of the coefficients, that is
    ``<v + b m, z_r> + <v, m> + b (constant + |m|^2)``: if all points lie far from the origin, the
    large terms cancel once instead of for every pair. Sparse X is not moved, m = 0.
    """
    d, sizes = columns.shape[1], np.abs(coef)
    mean = np.zeros(d) if sp.issparse(columns) else sizes @ columns / max(sizes.sum(), TINY)
    left, right = _moved(rows, mean), _moved(columns, mean)
    b = fsum(coef)
    v = np.asarray(right.T @ coef).ravel()
    of_all = fsum((*(v * mean), *(b * mean**2), constant * b))
    sums = np.asarray(left @ (v + b * mean)).ravel() + of_all
    # In roundings, column by column: the terms of v, then v and its products.
    parts, far = np.asarray(abs(right).T @ sizes).ravel(), np.abs(mean)
    of_v = (likely(len(coef)) + 3.0) * parts
    of_products = of_v + (likely(d) + 4.0) * (parts + abs(b) * far)
    of_constant = far @ (of_v + 4.0 * parts) + 4.0 * abs(b) * (constant + far @ far)
    return sums, DOUBLE * (np.asarray(abs(left) @ of_products).ravel() + of_constant)


def _moved(X: Matrix, mean: Array) -> Matrix:
    return X.astype(np.float64, copy=False) if sp.issparse(X) else X - mean
