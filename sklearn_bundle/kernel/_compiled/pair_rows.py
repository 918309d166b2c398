"""Rows of the matrix of a pair of classes: copied from blocks of values, or computed by fours."""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.jit import elementary
from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.vector import load_fast, splat, spread, store

RBF, LINEAR, POLY = 0, 1, 2  # kernels that compiled code computes
# Columns to a multiple of which matrices are padded, a vector of float32, and points of a tile.
LANES = 16
_SUMMED = 256  # products that are added one after another: a few times as many are off by too much


class Points(NamedTuple):
    """Dense points with a kernel that is known.

    A tile has 16 points of a class: the first feature of each, the second of each, and so on;
    ``places[i]`` is where the first of point i is. ``norms`` are ``gamma |x|^2``, ``squares``
    k(x, x).
    """

    tiles: np.ndarray
    places: np.ndarray
    terms: int
    norms: np.ndarray
    squares: np.ndarray
    kind: int
    gamma: float
    coef0: float
    degree: int


class Pair(NamedTuple):
    """A pair of classes whose rows are computed, or copied, when they are needed.

    The first class has the m points from ``first`` on, the second those from ``start`` on. Without
    ``points``, ``strip`` has the values of some points from ``begin`` on, those of the first class
    among them, with all from ``begin`` on. ``own`` has values of each point with its class, or
    nothing: then points are computed, or the strip has the rows of both classes. ``four`` and
    ``features`` are space.
    """

    strip: np.ndarray
    begin: int
    own: np.ndarray
    known: np.ndarray
    four: np.ndarray
    features: np.ndarray
    m: int
    first: int
    start: int
    size: int
    points: Points | None  # last, since numba 0.59 tells long tuples apart by their last fields


@inner
def _put(out, k, vector, more):
    """Write a vector, or add it to what is there."""
    store(out, k, vector + load_fast(out, k) if more else vector)


@inner
def _compute(points, four, F, start, n, out, begin, side):
    """Values of the points ``four[0]`` with the n of a class into the rows ``four[1]``.

    F has the first feature of all four, the second of all, and so on. ``out`` has rows of this
    side, which are filled by whole tiles from ``begin`` on. Four points, since what is read of the
    others then serves them all.
    """
    X, half, place = points.tiles, LANES // 2, points.places[start]
    a, b, c, d = four[1, 0] * side, four[1, 1] * side, four[1, 2] * side, four[1, 3] * side
    for s in range(begin, begin + n, LANES):
        for first in range(0, 4 * points.terms, 4 * _SUMMED):
            a0 = b0 = c0 = d0 = a1 = b1 = c1 = d1 = splat(0.0)
            for f in range(first, min(first + 4 * _SUMMED, 4 * points.terms), 4):
                u, v = load_fast(X, place), load_fast(X, place + half)
                x, y, z, w = spread(F, f), spread(F, f + 1), spread(F, f + 2), spread(F, f + 3)
                a0, b0, c0, d0 = a0 + x * u, b0 + y * u, c0 + z * u, d0 + w * u
                a1, b1, c1, d1 = a1 + x * v, b1 + y * v, c1 + z * v, d1 + w * v
                place += LANES
            t, more = s + half, first > 0
            _put(out, a + s, a0, more), _put(out, b + s, b0, more), _put(out, c + s, c0, more)
            _put(out, d + s, d0, more), _put(out, a + t, a1, more), _put(out, b + t, b1, more)
            _put(out, c + t, c1, more), _put(out, d + t, d1, more)
    norms, scale = points.norms[start : start + n], 2.0 * points.gamma
    for r in range(4):
        t, norm = four[1, r] * side + begin, points.norms[four[0, r]]
        row = out[t : t + n]
        for k in range(n if points.kind == RBF else 0):
            row[k] = elementary.exp(min(scale * row[k] - (norm + norms[k]), 0.0))
        for k in range(n if points.kind == POLY else 0):
            base, row[k] = points.gamma * row[k] + points.coef0, 1.0
            for _ in range(points.degree):
                row[k] *= base


@inner
def _likely(pair, g, i, level, begin, end):
    """The three points from ``begin`` on, without rows, whose slopes lie farthest beyond ``level``.

    The last row but one of the matrix stands for those that are missing.
    """
    sign = 1.0 if i < pair.m else -1.0
    least = less = last = sign * level
    p = q = r = g.shape[0] - 2
    for k in range(begin, end):
        value = sign * g[k]
        if value < last and k != i and not pair.known[k]:
            if value < least:
                p, q, r, least, less, last = k, p, q, value, least, less
            elif value < less:
                q, r, less, last = k, q, value, less
            else:
                r, last = k, value
    return p, q, r


@inner
def fill(pair, points, values, g, i, level):
    """Row i of a pair; where rows are computed, those that steps are likely to need next as well.

    They are of points of its class whose slopes lie beyond ``level``.
    """
    if points is None:
        copy_rows(pair, i, i + 1, values)
        return
    m, size, four, own, is_first = pair.m, pair.size, pair.four, pair.own, i < pair.m
    begin, end, shift = (0, m, pair.first) if is_first else (m, size, pair.start - m)
    side, kept = values.shape[0], own.shape[1] > 0
    four[1, 0] = i
    four[1, 1], four[1, 2], four[1, 3] = _likely(pair, g, i, level, begin, end)
    for r in range(4):
        four[0, r] = shift + (four[1, r] if four[1, r] < size else i)
        for f in range(points.terms):
            pair.features[4 * f + r] = points.tiles[points.places[four[0, r]] + LANES * f]
    out = values.reshape(side * side)
    if not (kept and is_first):
        _compute(points, four, pair.features, pair.first, m, out, 0, side)
    if is_first or not kept:
        _compute(points, four, pair.features, pair.start, size - m, out, m, side)
    for r in range(4):
        place, k = four[0, r], four[1, r]
        for h in range(end - begin if kept else 0):
            values[k, begin + h] = own[place, h]
        for h in range(size, side):
            values[k, h] = 0.0
        values[k, k], pair.known[k] = points.squares[place], True


@inner
def copy_rows(pair, top, stop, values):
    """Rows of a pair from ``top`` on: values of a point with its own class, and with the other."""
    m, size, strip, own, begin = pair.m, pair.size, pair.strip, pair.own, pair.begin
    first, start, kept = pair.first, pair.start - m, own.shape[1] > 0
    for i in range(top, stop):
        is_first = i < m
        low, high, shift = (0, m, first) if is_first else (m, size, start)
        place = i + shift
        for k in range(low, high):
            values[i, k] = own[place, k - low] if kept else strip[place - begin, k + shift - begin]
        for k in range(m if is_first else 0, size if is_first else m):
            earlier, later = (place, k + start) if is_first else (k + first, place)
            values[i, k] = strip[earlier - begin, later - begin]
        for k in range(size, values.shape[1]):
            values[i, k] = 0.0
        pair.known[i] = True
