"""Coordinate descent for a quadratic with a multiple of ``|w_j|`` per coordinate.

    minimize  <a, v - w> + (v - w)'H(v - w)/2 + sum_j limits_j |v_j| + ridge/2 ||v||^2  over v

from v = w on, in place. H is given as a matrix, or by weighted columns from which a common mean is
subtracted. A coordinate that does not violate the optimality condition costs no more than this
check.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import WIDTH, fma, load, splat, store
from sklearn_bundle.linear._compiled.coordinate import _csr_dot, _dense_dot


@inner
def _best(raw, limit, curvature):
    """The minimizer of ``curvature v^2/2 - raw v + limit |v|``; 0 if there is no curvature."""
    if not curvature > 0.0:
        return 0.0
    if raw > limit:
        return (raw - limit) / curvature
    if raw < -limit:
        return (raw + limit) / curvature
    return 0.0


@inner
def _violation(gradient, limit, w):
    """How far ``gradient`` is from what optimality of w requires."""
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

    Each epoch visits all coordinates in order. Epochs end after ``most``, or with the first whose
    largest violation is at most ``tol``. Returns the largest violation of the last epoch and the
    number of epochs.
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
    data,
    indices,
    indptr,
    width,
    roots,
    r,
    mean,
    squares,
    a,
    w,
    limits,
    ridge,
    order,
    most,
    tol,
    seed,
):
    """With columns c_j one after the other, ``H_jk = <c_j, c_k> - mean_j mean_k``.

    ``r`` is the sum of the columns times the changes of w, which is kept up to date;
    ``mean_j = <c_j, roots>`` with ``roots`` of length one, or zeros. Each epoch draws another
    ``order`` of the coordinates: in a fixed one, text takes five times as many. A coordinate that
    is 0, and within its limit by more than the largest violation of the epoch before, is left out
    until the others have converged.

    Epochs end when ``most`` coordinates were visited, or when an epoch of all coordinates meets no
    violation above ``tol``. Returns the largest violation of the last epoch and the number of
    coordinates visited.
    """
    size = w.shape[0]
    along = 0.0
    for k in range(r.shape[0]):
        along += roots[k] * r[k]
    random = seed[0]
    visited, among = 0, size
    worst, before = 0.0, np.inf
    while True:
        for k in range(among - 1, 0, -1):
            random = exchanged(order, k, random)
        is_whole = among == size
        visited += among
        worst = 0.0
        k = 0
        while k < among:
            j = order[k]
            curvature = squares[j] - mean[j] * mean[j] + ridge
            product = _dot(data, indices, indptr, width, j, r) - mean[j] * along
            slope = a[j] + product + ridge * w[j]
            if w[j] == 0.0 and abs(slope) < limits[j] - before:
                among -= 1
                order[k], order[among] = order[among], order[k]
                continue
            worst = max(worst, _violation(slope, limits[j], w[j]))
            new = _best(curvature * w[j] - slope, limits[j], curvature)
            if new != w[j]:
                _add(data, indices, indptr, width, j, new - w[j], r)
                along += (new - w[j]) * mean[j]
                w[j] = new
            k += 1
        before = worst
        if not worst > tol:
            if is_whole:
                break
            among, before = size, np.inf
        if visited >= most:
            break
    seed[0] = random
    return worst, visited
