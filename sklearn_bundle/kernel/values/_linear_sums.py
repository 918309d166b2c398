"""Sums of linear kernel values computed through w, which cancel less than the values."""

from math import fsum

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.roundoff import DOUBLE, likely
from sklearn_bundle.kernel.values.kernel_function import Matrix

Array = NDArray[np.float64]

_TINY = 1e-300  # replaces a sum of sizes that is 0


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
    mean = np.zeros(d) if sp.issparse(columns) else sizes @ columns / max(sizes.sum(), _TINY)
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
