"""Coordinate descent for a quadratic with a multiple of ``|v_j|`` per coordinate, and signs.

min over v >= low:  a'(v - w) + (v - w)'H(v - w)/2 + sum_j limits_j |v_j| + ridge/2 ||v||^2
"""

from functools import partial

from sklearn_bundle.jit import decorators
from sklearn_bundle.jit.decorators import SUMS, inner
from sklearn_bundle.jit.sampling import exchanged

jit = partial(decorators.jit, **SUMS)


@inner
def _best(raw, limit, curvature, low):
    """The minimizer of ``curvature v^2/2 - raw v + limit |v|`` above low; 0 without curvature."""
    if not curvature > 0.0:
        return 0.0
    if raw > limit:
        return (raw - limit) / curvature
    if raw < -limit:
        return max((raw + limit) / curvature, low)
    return 0.0


@inner
def _violation(slope, limit, v, low):
    """How far the slope of the smooth part is from what optimality of v requires."""
    if v > 0.0:
        return abs(slope + limit)
    if v < 0.0:
        return abs(slope - limit)
    return max(-slope - limit, slope - limit if low < 0.0 else 0.0, 0.0)


@jit
def matrix_epochs(H, slopes, v, limits, ridge, low, most, tol):
    """With H as a matrix; ``slopes = a + H(v - w)`` is kept up to date.

    Ends when an epoch meets no violation above ``tol``; returns the largest one that it met, and
    the number of epochs.
    """
    worst = 0.0
    for epoch in range(most):
        worst = 0.0
        for j in range(v.shape[0]):
            curvature, slope = H[j, j] + ridge, slopes[j] + ridge * v[j]
            worst = max(worst, _violation(slope, limits[j], v[j], low))
            move = _best(curvature * v[j] - slope, limits[j], curvature, low) - v[j]
            if move != 0.0:
                v[j] += move
                for k in range(v.shape[0]):
                    slopes[k] += move * H[j, k]
        if worst <= tol:
            return worst, epoch + 1
    return worst, most


@inner
def _dot(data, indices, indptr, j, r):
    total = 0.0
    for k in range(indptr[j], indptr[j + 1]):
        total += data[k] * r[indices[k]]
    return total


@jit
def column_epochs(
    columns, unit, r, mean, squares, a, v, limits, ridge, low, order, most, tol, seed
):
    """With columns c_j one after the other, ``H_jk = <c_j, c_k> - mean_j mean_k``.

    ``mean_j = <c_j, unit>``; ``r = sum_j (v_j - w_j) c_j`` is kept up to date. Coordinates at zero
    that are safely so are left out until the others are settled. Ends when an epoch over all meets
    no violation above ``tol``, or after about ``most`` visits; returns the largest violation of the
    last epoch, and the visits.
    """
    data, indices, indptr = columns
    size = v.shape[0]
    along = 0.0
    for k in range(r.shape[0]):
        along += unit[k] * r[k]
    random = seed[0]
    visited, among = 0, size
    before = 1e300
    while True:
        for k in range(among - 1, 0, -1):
            random = exchanged(order, k, random)
        whole = among == size
        visited += among
        worst = 0.0
        k = 0
        while k < among:
            j = order[k]
            curvature = squares[j] - mean[j] * mean[j] + ridge
            product = _dot(data, indices, indptr, j, r) - mean[j] * along
            slope = a[j] + product + ridge * v[j]
            if v[j] == 0.0 and abs(slope) < limits[j] - before:
                among -= 1
                order[k], order[among] = order[among], order[k]
                continue
            worst = max(worst, _violation(slope, limits[j], v[j], low))
            move = _best(curvature * v[j] - slope, limits[j], curvature, low) - v[j]
            if move != 0.0:
                v[j] += move
                along += move * mean[j]
                for p in range(indptr[j], indptr[j + 1]):
                    r[indices[p]] += move * data[p]
            k += 1
        before = worst
        if not worst > tol:
            if whole:
                break
            among, before = size, 1e300
        if visited >= most:
            break
    seed[0] = random
    return worst, visited
