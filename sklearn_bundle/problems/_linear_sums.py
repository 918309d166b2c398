"""Sums of linear kernel values by way of w, which cancel less than the values themselves."""

from math import fsum

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.problems._points import likely
from sklearn_bundle.problems.kernel_function import Matrix

Array = NDArray[np.float64]

_UNIT = 0.5 * float(np.finfo(np.float64).eps)


def linear_sums(rows: Matrix, columns: Matrix, coef: Array) -> tuple[Array, Array]:
    """``sum_c coef[c] (<x_r, x_c> + 1)`` in float64, and bounds on the errors.

    With ``x = m + z``, m the mean of the columns, ``v = sum_c coef[c] z_c`` and b the sum of the
    coefficients, that is ``<v + b m, z_r> + <v, m> + b (1 + |m|^2)``: where all points lie far from
    the origin, the large terms cancel once and not for every pair. Sparse X is not moved, m = 0.
    """
    sparse = sp.issparse(columns)
    d = columns.shape[1]
    mean = np.zeros(d) if sparse else columns.mean(axis=0, dtype=np.float64)
    left, right = _moved(rows, mean), _moved(columns, mean)
    b = fsum(coef)
    v = np.asarray(right.T @ coef).ravel()
    w = v + b * mean
    constant = fsum((*(v * mean), *(b * mean**2), b))
    sums = np.asarray(left @ w).ravel() + constant
    of_left, of_right, of_mean = _lengths(left), _lengths(right), float(np.sqrt(mean @ mean))
    size = float(np.abs(coef) @ of_right)  # of v at most
    error_of_v = (likely(len(coef)) + 3.0) * size
    of_products = (likely(d) + 4.0) * (size + abs(b) * of_mean) * of_left
    of_constant = 4.0 * (size * of_mean + abs(b) * (1.0 + of_mean**2))
    errors = error_of_v * (of_left + of_mean) + of_products + of_constant
    return sums, _UNIT * errors


def _moved(X: Matrix, mean: Array) -> Matrix:
    return X.astype(np.float64, copy=False) if sp.issparse(X) else X - mean


def _lengths(X: Matrix) -> Array:
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.sqrt(np.asarray(squares).ravel())
