"""Sums of kernel values of dense float32 points, which are not stored.

Points come in tiles of 64, feature by feature, so that the products of a tile with four further
points stay in registers. Kernels are RBF ``exp(scale <x, z> - norm - norm')``, LINEAR ``<x, z>``
and POLY ``(scale <x, z> + coef0)^degree``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import TINY
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.elementary import exp_single
from sklearn_bundle.jit.vector import load, splat, spread, store

WIDTH = 16  # entries of a vector of float32
TILE = 4 * WIDTH  # points in a tile
GROUP = 4  # further points whose features lie beside each other, taken two at a time
SUMMED = 32  # products that are added in float32 before float64 takes over
RBF, LINEAR, POLY = 0, 1, 2
_ZERO = np.float32(0.0)


class Function(NamedTuple):
    """A kernel: ``scale`` is 2 gamma for RBF, gamma for POLY, and not used otherwise."""

    kind: int
    scale: np.float32
    coef0: np.float32
    degree: int


class Tiled(NamedTuple):
    """Points: ``values[t, 64 k + l]`` is feature k of point 64 t + l; ``norms`` are gamma |x|^2."""

    values: NDArray[np.float32]
    norms: NDArray[np.float32]


class Few(NamedTuple):
    """Further points, four to a row, and their ``norms``."""

    values: NDArray[np.float32]
    norms: NDArray[np.float32]


@inner
def _of_half(tile, group, d, first):
    """Inner products of half a tile's points with two further points, ``first`` in the group.

    Eight sums of eight are half of the registers that AVX2 has: with a whole tile and four points
    most would be in memory, which took 2 to 3 times as long.
    """
    zero = splat(np.float32(0.0))
    a0, a1, b0, b1 = zero, zero, zero, zero
    for k in range(d):
        x0, x1 = load(tile, TILE * k), load(tile, TILE * k + WIDTH)
        z = spread(group, first + k)
        a0, a1 = x0 * z + a0, x1 * z + a1
        z = spread(group, first + d + k)
        b0, b1 = x0 * z + b0, x1 * z + b1
    return a0, a1, b0, b1


@inner
def _products(tile, group, d):
    """Inner products of a tile's 64 points with four further points, given as one vector."""
    half = tile[2 * WIDTH :]
    a0, a1, b0, b1 = _of_half(tile, group, d, 0)
    a2, a3, b2, b3 = _of_half(half, group, d, 0)
    c0, c1, e0, e1 = _of_half(tile, group, d, 2 * d)
    c2, c3, e2, e3 = _of_half(half, group, d, 2 * d)
    return (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (e0, e1, e2, e3)


@inner
def _power(base, degree):
    power = splat(np.float32(1.0))
    for _ in range(degree):
        power = power * base
    return power


@inner
def _kernel(function, products, left, right):
    """Values from the products of a tile's 64 points with one further point."""
    p0, p1, p2, p3 = products
    if function.kind == LINEAR:
        return p0, p1, p2, p3
    scale = function.scale
    if function.kind == RBF:
        n0, n1, n2, n3 = left
        p0, p1 = exp_single(scale * p0 - (n0 + right)), exp_single(scale * p1 - (n1 + right))
        p2, p3 = exp_single(scale * p2 - (n2 + right)), exp_single(scale * p3 - (n3 + right))
        return p0, p1, p2, p3
    shift, degree = function.coef0, function.degree
    p0, p1 = _power(scale * p0 + shift, degree), _power(scale * p1 + shift, degree)
    p2, p3 = _power(scale * p2 + shift, degree), _power(scale * p3 + shift, degree)
    return p0, p1, p2, p3


@inner
def _norms(norms, base):
    n0, n1 = load(norms, base), load(norms, base + WIDTH)
    return n0, n1, load(norms, base + 2 * WIDTH), load(norms, base + 3 * WIDTH)


@inner
def _added(sums, values, weight):
    (s0, s1, s2, s3), (v0, v1, v2, v3) = sums, values
    return v0 * weight + s0, v1 * weight + s1, v2 * weight + s2, v3 * weight + s3


@inner
def _gather(rows, norms, columns, start, stop, few):
    """Copy rows ``columns[start:stop]`` to ``few``; the rest of the last group is 0."""
    d = rows.shape[1]
    for c in range(start, start + -(-(stop - start) // GROUP) * GROUP):
        group, first = few.values[(c - start) // GROUP], d * ((c - start) % GROUP)
        i = columns[min(c, stop - 1)]
        few.norms[c - start] = norms[i]
        for k in range(d):
            group[first + k] = rows[i, k] if c < stop else np.float32(0.0)


@inner
def _add_chunk(function, tiled, few, coef, unit, t, added, out):
    """Add the products with up to 32 points to the sums of tile t."""
    d, tile, base = tiled.values.shape[1] // TILE, tiled.values[t], TILE * t
    left, zero = _norms(tiled.norms, base), splat(np.float32(0.0))
    sums = zero, zero, zero, zero
    for c in range(0, coef.shape[0], GROUP):
        p, q, r, s = _products(tile, few.values[c // GROUP], d)
        p = _kernel(function, p, left, spread(few.norms, c))
        sums = _added(sums, p, spread(coef, c))
        q = _kernel(function, q, left, spread(few.norms, c + 1))
        sums = _added(sums, q, spread(coef, c + 1))
        r = _kernel(function, r, left, spread(few.norms, c + 2))
        sums = _added(sums, r, spread(coef, c + 2))
        s = _kernel(function, s, left, spread(few.norms, c + 3))
        sums = _added(sums, s, spread(coef, c + 3))
    s0, s1, s2, s3 = sums
    store(added, 0, s0)
    store(added, WIDTH, s1)
    store(added, 2 * WIDTH, s2)
    store(added, 3 * WIDTH, s3)
    for k in range(TILE):
        out[base + k] += unit * added[k]


@jit
def add_sums(function, tiled, rows, columns, coef, first, last, out):
    """``out[i] += sum_c coef[c] k(x_i, x_columns[c])`` for the points of tiles first to last.

    The tiles hold the points ``rows``, and ``out`` is as long as the tiles.
    """
    m, d = columns.shape[0], rows.shape[1]
    few = Few(np.empty((SUMMED // GROUP, GROUP * d), np.float32), np.empty(SUMMED, np.float32))
    weights, added = np.empty(SUMMED, np.float32), np.empty(TILE, np.float32)
    for start in range(0, m, SUMMED):
        stop = min(start + SUMMED, m)
        _gather(rows, tiled.norms, columns, start, stop, few)
        unit = 0.0
        for c in range(start, stop):
            unit = max(unit, abs(coef[c]))
        unit = max(unit, TINY)
        size = -(-(stop - start) // GROUP) * GROUP
        for c in range(size):
            weights[c] = np.float32(coef[start + c] / unit) if start + c < stop else _ZERO
        for t in range(first, last):
            _add_chunk(function, tiled, few, weights[:size], unit, t, added, out)


@jit
def copy_to_tiles(rows, out):
    """Copy rows to tiles; the rest of the last one is 0."""
    d = rows.shape[1]
    for t in range(out.shape[0]):
        tile, count = out[t], min(TILE, rows.shape[0] - TILE * t)
        for k in range(tile.shape[0]):
            tile[k] = np.float32(0.0)
        for c in range(count):
            row = rows[TILE * t + c]
            for k in range(d):
                tile[TILE * k + c] = row[k]
