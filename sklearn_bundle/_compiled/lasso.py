"""Coordinate descent for a quadratic with a multiple of ``|w_j|`` per coordinate.

    minimise  <a, v - w> + (v - w)'H(v - w)/2 + sum_j limits_j |v_j| + ridge/2 ||v||^2  over v

from v = w on, in place. H is a matrix, or that of weighted columns which have a common mean taken
off. Each epoch visits all coordinates in order, and one whose violation of the optimality condition
is 0 costs no more than that is computed for.
"""

import numpy as np

from sklearn_bundle._compiled.coordinate import _csr_dot, _dense_dot
from sklearn_bundle._compiled.vector import WIDTH, fma, load, splat, store
from sklearn_bundle._jit import inner, jit


@inner
def _best(raw, limit, curvature):
    """The minimiser of ``curvature v^2/2 - raw v + limit |v|``; 0 if there is no curvature."""
    if not curvature > 0.0:
        return 0.0
    if raw > limit:
        return (raw - limit) / curvature
    if raw < -limit:
        return (raw + limit) / curvature
    return 0.0


@inner
def _violation(gradient, limit, w):
    """How far ``gradient`` is from what optimality of w asks for."""
    if w > 0.0:
        return abs(gradient + limit)
    if w < 0.0:
        return abs(gradient - limit)
    return max(abs(gradient) - limit, 0.0)


@inner
def _add_row(H, j, width, factor, out):
    factors = splat(factor)
    whole = width - width % WIDTH
    start = j * width
    for k in range(0, whole, WIDTH):
        store(out, k, fma(factors, load(H, start + k), load(out, k)))
    for k in range(whole, width):
        out[k] += factor * H[start + k]


@jit
def matrix_epochs(H, gradient, w, limits, ridge, most, tol):
    """With H as a matrix, flat; ``gradient`` is ``a + H(v - w)`` and is kept up to date.

    Returns the largest violation that the last epoch met, and how many epochs there were: ``most``
    or fewer, the last one being the first that met no more than ``tol``.
    """
    size = w.shape[0]
    worst = 0.0
    for epoch in range(most):
        worst = 0.0
        for j in range(size):
            curvature = H[j * size + j] + ridge
            slope = gradient[j] + ridge * w[j]
            worst = max(worst, _violation(slope, limits[j], w[j]))
            new = _best(curvature * w[j] - slope, limits[j], curvature)
            if new != w[j]:
                _add_row(H, j, size, new - w[j], gradient)
                w[j] = new
        if worst <= tol:
            return worst, epoch + 1
    return worst, most


@inner
def _dot(data, indices, indptr, width, j, r):
    if width > 0:
        return _dense_dot(data, j * width, width, r)
    return _csr_dot(data, indices, indptr[j], indptr[j + 1], np.uint64(0), r)


@inner
def _add(data, indices, indptr, width, j, factor, r):
    if width > 0:
        start = j * width
        for k in range(width):
            r[k] += factor * data[start + k]
    else:
        for k in range(indptr[j], indptr[j + 1]):
            r[indices[k]] += factor * data[k]


@jit
def column_epochs(
    data, indices, indptr, width, roots, r, mean, squares, a, w, limits, ridge, most, tol
):
    """With columns c_j one after the other, ``H_jk = <c_j, c_k> - mean_j mean_k``.

    ``r`` is the sum of the columns times the changes of w, which is kept up to date;
    ``mean_j = <c_j, roots>`` with ``roots`` of length one, or zeros. Returns as
    :func:`matrix_epochs`.
    """
    size = w.shape[0]
    along = 0.0
    for k in range(r.shape[0]):
        along += roots[k] * r[k]
    worst = 0.0
    for epoch in range(most):
        worst = 0.0
        for j in range(size):
            curvature = squares[j] - mean[j] * mean[j] + ridge
            product = _dot(data, indices, indptr, width, j, r) - mean[j] * along
            slope = a[j] + product + ridge * w[j]
            worst = max(worst, _violation(slope, limits[j], w[j]))
            new = _best(curvature * w[j] - slope, limits[j], curvature)
            if new != w[j]:
                _add(data, indices, indptr, width, j, new - w[j], r)
                along += (new - w[j]) * mean[j]
                w[j] = new
        if worst <= tol:
            return worst, epoch + 1
    return worst, most
