"""Sums of RBF values in float64 from squared differences; the values are not stored.

The values of a tile of 32 points with two others stay in the first-level cache. A value for two
points that both have a coefficient is computed once.
"""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.vector import (
    WIDTH,
    exp_of_negative,
    fma,
    load,
    minus,
    plus,
    splat,
    spread,
    store,
    times,
    total,
)

TILE = 4 * WIDTH  # points in a tile
_PAIR = 2  # other points at a time: with 16 of a tile, 8 of AVX2's 16 registers are sums
SUMMED = 512  # values that are added to a tile's sums at a time: fewer roundings


@inner
def _gather(X, begin, tile):
    """Copy rows of X into a tile, feature by feature; the last point fills the tile."""
    for r in range(TILE):
        row = X[min(begin + r, X.shape[0] - 1)]
        for k in range(row.shape[0]):
            tile[TILE * k + r] = row[k]


@inner
def _square(x, z, sums):
    difference = minus(x, z)
    return fma(difference, difference, sums)


@inner
def _values(tile, x, y, gamma, out):
    """Kernel values of a tile's points with two others, half of the points at a time."""
    scale = splat(-gamma)
    for half in range(0, TILE, 2 * WIDTH):
        a0 = a1 = b0 = b1 = splat(0.0)
        for k in range(x.shape[0]):
            at = TILE * k + half
            p0, p1 = load(tile, at), load(tile, at + WIDTH)
            z = spread(x, k)
            a0, a1 = _square(p0, z, a0), _square(p1, z, a1)
            z = spread(y, k)
            b0, b1 = _square(p0, z, b0), _square(p1, z, b1)
        store(out, half, exp_of_negative(times(scale, a0)))
        store(out, half + WIDTH, exp_of_negative(times(scale, a1)))
        store(out, TILE + half, exp_of_negative(times(scale, b0)))
        store(out, TILE + half + WIDTH, exp_of_negative(times(scale, b1)))


@inner
def _weighted(values, first, weights):
    """Weighted sum of a tile's values."""
    a = times(load(values, first), load(weights, 0))
    a = fma(load(values, first + WIDTH), load(weights, WIDTH), a)
    b = times(load(values, first + 2 * WIDTH), load(weights, 2 * WIDTH))
    b = fma(load(values, first + 3 * WIDTH), load(weights, 3 * WIDTH), b)
    return total(plus(a, b))


@jit
def add_sums(X, gamma, coef, first, last, out):
    """:func:`added` for Python."""
    added(X, gamma, coef, first, last, out)


@inner
def added(X, gamma, coef, first, last, out):
    """``out[v, r] += sum_c coef[v, c] exp(-gamma |x_r - x_c|^2)``; the x_c are the first points.

    Only tiles first to last are summed; calls for the other tiles add the rest.
    """
    n, n_columns = X.shape[0], coef.shape[1]
    tile, values = np.empty(TILE * X.shape[1]), np.empty(_PAIR * TILE)
    sums, weights = np.empty((coef.shape[0], TILE)), np.empty((coef.shape[0], TILE))
    for t in range(first, last):
        begin = TILE * t
        _gather(X, begin, tile)
        limit = min(begin + TILE, n_columns)
        sums[:] = 0.0
        for v in range(coef.shape[0]):
            for r in range(TILE):
                weights[v, r] = coef[v, begin + r] if begin + r < n_columns else 0.0
        for c in range(0, limit, _PAIR):
            _values(tile, X[c], X[min(c + 1, limit - 1)], gamma, values)
            for v in range(coef.shape[0]):
                of_v = sums[v]
                for e in range(min(_PAIR, limit - c)):
                    weight, part = coef[v, c + e], values[TILE * e : TILE * e + TILE]
                    for r in range(TILE):
                        of_v[r] += weight * part[r]
                    if c < begin < n_columns:
                        out[v, c + e] += _weighted(values, TILE * e, weights[v])
            if (c + _PAIR) % SUMMED == 0 or c + _PAIR >= limit:
                for v in range(coef.shape[0]):
                    for r in range(min(TILE, n - begin)):
                        out[v, begin + r] += sums[v, r]
                sums[:] = 0.0
