"""Hessians of linear models, ``sum of c_r x_r x_r'`` over some rows, and sums of their halves.

With ``free`` there is a last row for the intercept, as for a column of ones.
"""

import numpy as np

from sklearn_bundle.jit.decorators import jit


@jit
def csr_hessian(data, indices, indptr, rows, coefs, start, stop, free, H):
    """Add the products of ``rows[start:stop]``; each goes to (i, j) or to (j, i), not to both."""
    d = H.shape[0] - 1
    for r in range(start, stop):
        first, end = indptr[rows[r]], indptr[rows[r] + 1]
        for k in range(first, end):
            value = coefs[r] * data[k]
            row = H[indices[k]]
            for m in range(first, k + np.uint64(1)):
                row[indices[m]] += value * data[m]
            if free:
                H[d, indices[k]] += value
        if free:
            H[d, d] += coefs[r]


@jit
def has_parts(indices, indptr, n_columns):
    """Whether a row of CSR, sorted or not, has several entries in the same column."""
    met = np.full(n_columns, -1, dtype=np.int64)  # the last row with an entry there
    parts = 0
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            parts += met[j] == i
            met[j] = i
    return parts > 0


@jit
def fold(H):
    """Add the strictly upper triangle to the lower one: rows of CSR need not be sorted."""
    for i in range(H.shape[0]):
        for j in range(i):
            H[i, j] += H[j, i]


@jit
def scaled_rows(X, rows, coefs, mean, start, stop, free, out):
    """(Rows minus ``mean``) times the roots of their coefficients: ``out' out`` is the Hessian."""
    d = X.shape[1]
    for r in range(start, stop):
        root = np.sqrt(coefs[r])
        for j in range(d):
            out[r - start, j] = root * (X[rows[r], j] - mean[j])
        if free:
            out[r - start, d] = root


@jit
def csr_column_scale(data, indices, squares, sizes):
    for k in range(data.shape[0]):
        value = np.float64(data[k])
        squares[indices[k]] += value * value
        sizes[indices[k]] += abs(value)


@jit
def dense_column_scale(X, squares, sizes):
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            value = np.float64(X[i, j])
            squares[j] += value * value
            sizes[j] += abs(value)
