"""Kernel values from inner products, in place, and the inner products of sparse rows.

``out`` is a C-ordered block of values in the working dtype, float32 or float64; scalars have the
same dtype, or numba would compute in float64. Rows are processed as contiguous 1-D slices.
"""

import numpy as np

from sklearn_bundle.jit import elementary
from sklearn_bundle.jit.decorators import inner, jit


@jit
def rbf_single(out, start, stop, left, right, scale):
    """Rows of ``out`` hold <x, z> from column start to stop, then exp(scale <x, z> - left - right).

    ``scale`` is 2 gamma, ``left`` and ``right`` are gamma |x|^2 and gamma |z|^2. The exponent is
    clipped at 0: rounding may make a distance negative.
    """
    for a in range(out.shape[0]):
        row = out[a, start:stop]
        norm = left[a]
        for b in range(stop - start):
            row[b] = elementary.exp_single(scale * row[b] - (norm + right[b]))


@jit
def rbf_double(out, start, stop, left, right, scale):
    """The steps of ``rbf_single`` in float64."""
    for a in range(out.shape[0]):
        row = out[a, start:stop]
        norm = left[a]
        for b in range(stop - start):
            row[b] = elementary.exp(min(scale * row[b] - (norm + right[b]), 0.0))


@jit
def poly(out, start, stop, gamma, coef0, degree):
    """Rows of ``out`` from column start to stop: ``p -> (gamma p + coef0)^degree``."""
    base = np.empty(stop - start, out.dtype)
    for a in range(out.shape[0]):
        row = out[a, start:stop]
        for b in range(stop - start):
            base[b] = gamma * row[b] + coef0
        row[:] = 1.0
        for _ in range(degree):
            for b in range(stop - start):
                row[b] *= base[b]


@inner
def _first_from(indices, start, stop, value):
    """First position with an index of at least value; indices ascend from start to stop."""
    while start < stop:
        middle = (start + stop) >> np.uint64(1)
        if indices[middle] < value:
            start = middle + np.uint64(1)
        else:
            stop = middle
    return start


@jit
def scatter(data, indices, indptr, rows, values, points, ends, n_points, width, out):
    """out[a, c] = <x_rows[a], z_c> for c < width.

    x is in CSR (data, indices, indptr), z in CSC (values, points, ends), both with unsigned
    indices. Only the columns of Z in which x has an entry are read and added to the row.
    """
    for a in range(rows.shape[0]):
        row = out[a, :width]
        row[:] = 0.0
        i = rows[a]
        for k in range(indptr[i], indptr[i + 1]):
            j, x = indices[k], data[k]
            start, stop = ends[j], ends[j + np.uint64(1)]
            if width < n_points:
                stop = _first_from(points, start, stop, width)
            for p in range(start, stop):
                row[points[p]] += x * values[p]


@jit
def pick(matrix, rows, columns, out):
    """``out[a, c] = matrix[rows[a], columns[c]]``."""
    for a in range(rows.shape[0]):
        source, row = matrix[rows[a]], out[a]
        for c in range(columns.shape[0]):
            row[c] = source[columns[c]]
