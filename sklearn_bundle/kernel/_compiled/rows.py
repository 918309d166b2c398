"""Kernel values from inner products, in place, and the inner products of sparse rows.

``out`` is a C-ordered block of values in the working dtype, float32 or float64; scalars have the
same dtype, or numba would compute in float64. Rows are processed as contiguous 1-D slices.
"""

import numpy as np

from sklearn_bundle.jit import elementary
from sklearn_bundle.jit.decorators import inner, jit

_SIDE = 16  # side of the squares in ``mirror``: a cache line of float32


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


@jit
def squared_distances(left, right, out):
    """``out[a, c] = |x_a - z_c|^2``, for z in the columns of ``right``: a sum of squares."""
    for a in range(left.shape[0]):
        x, row = left[a], out[a]
        row[:] = 0.0
        for k in range(right.shape[0]):
            z, x_k = right[k], x[k]
            for c in range(row.shape[0]):
                difference = x_k - z[c]
                row[c] += difference * difference


@inner
def _squared_distance(indices, data, start, stop, others, values, first, last):
    """``|x - z|^2`` of two rows of CSR with ascending indices."""
    total = 0.0
    while start < stop or first < last:
        if first == last or (start < stop and indices[start] < others[first]):
            difference = np.float64(data[start])
            start += np.uint64(1)
        elif start == stop or indices[start] > others[first]:
            difference = np.float64(values[first])
            first += np.uint64(1)
        else:
            difference = np.float64(data[start]) - np.float64(values[first])
            start += np.uint64(1)
            first += np.uint64(1)
        total += difference * difference
    return total


@jit
def sparse_squared_distances(data, indices, indptr, values, others, ends, out):
    """``out[a, c] = |x_a - z_c|^2``, for rows of CSR with unsigned indices."""
    for a in range(out.shape[0]):
        for c in range(out.shape[1]):
            start, stop, first, last = indptr[a], indptr[a + 1], ends[c], ends[c + 1]
            out[a, c] = _squared_distance(indices, data, start, stop, others, values, first, last)


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
def scatter(data, indices, indptr, rows, values, points, ends, places, dense, width, out):
    """out[a, c] = <x_rows[a], z_c> for c < width.

    x is in CSR (data, indices, indptr), z in CSC (values, points, ends), both with unsigned
    indices. Only the columns of Z in which x has an entry are read and added to the row. Column j
    is also dense[places[j]] if places[j] is not negative.
    """
    n_points = dense.shape[1]
    for a in range(rows.shape[0]):
        row = out[a, :width]
        row[:] = 0.0
        i = rows[a]
        for k in range(indptr[i], indptr[i + 1]):
            j, x = indices[k], data[k]
            if places[j] >= 0:
                column = dense[places[j], :width]
                for c in range(width):
                    row[c] += x * column[c]
            else:
                start, stop = ends[j], ends[j + np.uint64(1)]
                if width < n_points:
                    stop = _first_from(points, start, stop, width)
                for p in range(start, stop):
                    row[points[p]] += x * values[p]


@inner
def _transpose(out, top, left, tile):
    """Copy a square of _SIDE rows from top and columns from left to its mirror image."""
    for a in range(_SIDE):
        source, copy = out[top + a, left : left + _SIDE], tile[a]
        for b in range(_SIDE):
            copy[b] = source[b]
    for b in range(_SIDE):
        row = out[left + b, top : top + _SIDE]
        for a in range(_SIDE):
            row[a] = tile[a, b]


@jit
def mirror(out, start, stop):
    """Copy the entries left of the diagonal in rows start to stop to above the diagonal."""
    tile = np.empty((_SIDE, _SIDE), out.dtype)
    for left in range(0, stop, _SIDE):
        for top in range(start, stop, _SIDE):
            if left + _SIDE <= top <= stop - _SIDE:
                _transpose(out, top, left, tile)
            else:
                for a in range(top, min(top + _SIDE, stop)):
                    for b in range(left, min(left + _SIDE, a)):
                        out[b, a] = out[a, b]


@jit
def pick(matrix, rows, columns, out):
    """``out[a, c] = matrix[rows[a], columns[c]]``."""
    for a in range(rows.shape[0]):
        source, row = matrix[rows[a]], out[a]
        for c in range(columns.shape[0]):
            row[c] = source[columns[c]]
