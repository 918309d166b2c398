"""Sums of kernel values in float64 that keep their digits, and in extended precision.

For the kernel "rbf" squared distances are sums of squared differences here. ``|x|^2 + |z|^2 - 2 <x,
z>`` loses the digits by which the norms exceed the distance: with one column of 1e8, all of them.
Differences lose none but cost about five times as much, so they are used for certificates, and for
other values only if large norms would spoil these.
"""

from math import fsum
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, TINY, likely
from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.jit import exact_sums
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values._points import (
    ALL,
    BLOCK_ENTRIES,
    TILE_ENTRIES,
    Index,
    Points,
    picked,
    unsigned,
)
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix, canonical, densified

Array = NDArray[np.float64]

_DECAY = 0.37  # the largest t exp(-t), 1/e: the effect of a relative error of the exponent t
_MOST_PARTS, _LEAST_TILES = 8, 16  # most threads for sums over tiles, fewest tiles per thread
_OF_EXP = 5.0  # roundings in exp and its argument
LAST = 4.0  # further roundings: the last sums, and the product with a sign
_LONG = np.longdouble
_EPS = float(np.finfo(_LONG).eps)
_FINER = 1e-2  # share of the precision of float64 that pays: where long double is double, none does
# Products of features at most: about 0.3 s. The linear kernel has one per entry of X.
_MOST = 3e7


def roundings_of_rbf(d: int) -> float:
    """Of a value from sums of d squared differences."""
    return _DECAY * (likely(d) + 3.0) + _OF_EXP


def dense_rows(X: Matrix, indices: np.ndarray) -> Array:
    """Some rows of X, dense in float64."""
    rows = densified(X[indices]) if sp.issparse(X) else np.take(X, indices, axis=0)
    return rows.astype(np.float64, copy=False)


class Differences(Points):
    """Rows of X as given, dense or CSR; values in float64."""

    def __init__(self, X: Matrix, kernel: Kernel):
        self.X, self.kernel = (canonical(X) if sp.issparse(X) else np.asarray(X)), kernel

    def like(self, Z: Any) -> Self:
        return type(self)(sp.csr_matrix(Z) if sp.issparse(self.X) else densified(Z), self.kernel)

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.X[indices], self.kernel)

    def diagonal(self) -> Array:
        return np.ones(self.X.shape[0])

    def rounding(self, points: Self, unit: float, rows: Index = ALL, columns: Index = ALL):
        """A difference is rounded once, its square once, and then d of them are added."""
        error = unit * roundings_of_rbf(self.X.shape[1])
        return np.full(self.X.shape[0], error)[rows]

    def rounding_with(self, points: Self, unit: float) -> Array:
        return self.rounding(points, unit)

    def fill(self, rows: Any, points: Self, columns: Any, width: int, out: np.ndarray) -> None:
        """``out[a, c] = k(self[rows[a]], points[columns[c]])`` for c < width, by tiles."""
        left = self.X if rows is None else self.X[rows]
        step = max(1, TILE_ENTRIES // max(len(out), 1))
        for start in range(0, width, step):
            stop = min(start + step, width)
            tile = np.empty((len(out), stop - start))
            _squared_distances(left, points.X[picked(columns, start, stop)], tile)
            zeros = np.zeros(max(tile.shape))
            passes.rbf_double(tile, 0, stop - start, zeros, zeros, -self.kernel.gamma)
            out[:, start:stop] = tile


def rbf_sums(
    X: Matrix,
    gamma: float,
    coef: Array,
    chosen: np.ndarray,
    rows: np.ndarray,
    n_threads: int = 1,
) -> tuple[Array, Array]:
    """``sum_c coef[v, c] exp(-gamma |x_r - x_c|^2)`` per v and r, and error bounds per v.

    c runs over ``rows[chosen]``; the rows needed of a sparse X are made dense.
    """
    others = np.ones(len(rows), dtype=bool)
    others[chosen] = False
    order = np.concatenate([chosen, np.flatnonzero(others)])
    n_tiles = -(-len(rows) // exact_sums.TILE)
    points = dense_rows(X, rows[order])
    bounds = _parts(n_tiles, len(chosen))
    parts = np.zeros((len(bounds) - 1, len(coef), len(rows)))

    def work(k: int) -> None:
        exact_sums.add_sums(points, gamma, coef, bounds[k], bounds[k + 1], parts[k])

    with BlockRunner(n_threads) as runner:
        runner.run(work, len(parts))
    sums = np.empty((len(coef), len(rows)))
    sums[:, order] = parts.sum(axis=0)
    of_value = roundings_of_rbf(X.shape[1])
    of_sums = likely(min(len(chosen), exact_sums.SUMMED)) + likely(n_tiles + len(parts)) + LAST
    return sums, DOUBLE * (of_value + of_sums) * np.abs(coef).sum(axis=1)


def rbf_scores(X: np.ndarray, Z: np.ndarray, gamma: float, coef: Array) -> Array:
    """``sum_c coef[c] exp(-gamma |z - x_c|^2)`` for the rows z of Z."""
    points = np.concatenate([X, Z], dtype=np.float64)
    sums, first = np.zeros((1, len(points))), len(X) // exact_sums.TILE
    n_tiles = -(-len(points) // exact_sums.TILE)
    exact_sums.add_sums(points, gamma, np.array([coef]), first, n_tiles, sums)
    return sums[0, len(X) :]


def _parts(n_tiles: int, n_columns: int) -> NDArray[np.int64]:
    """Boundaries of parts of the tiles with about equal work; they depend only on the sizes."""
    count = min(_MOST_PARTS, n_tiles // _LEAST_TILES)
    if count <= 1:
        return np.array([0, n_tiles])
    work = np.cumsum(np.minimum(exact_sums.TILE * np.arange(1, n_tiles + 1), n_columns))
    inner = np.searchsorted(work, work[-1] * np.arange(1, count) / count)
    return np.array([0, *inner, n_tiles])


def _squared_distances(left: Matrix, right: Matrix, out: Array) -> None:
    if sp.issparse(left):
        passes.sparse_squared_distances(*unsigned(left), *unsigned(right), out)
        return
    columns = np.ascontiguousarray(right.T, dtype=np.float64)
    rows = np.ascontiguousarray(left, dtype=np.float64)
    passes.squared_distances(frozen(rows), frozen(columns), out)


def affordable(kernel: Kernel, shape: tuple[int, ...], n_columns: int) -> bool:
    """Whether sums of so many values for each row of X are fast, and more precise than float64."""
    n, d = shape[0], 1 if kernel.name == "precomputed" or len(shape) < 2 else shape[1]
    cost = n * d if kernel.name == "linear" else n * d * n_columns
    return _EPS < _FINER * DOUBLE and not callable(kernel.name) and cost <= _MOST


def extended_sums(
    rows: Matrix, columns: Matrix, kernel: Kernel, coef: Array, constant: float
) -> tuple[Array, Array]:
    """``sum_c coef[c] (k(x_r, x_c) + constant)``, and bounds on the errors.

    For "precomputed", ``rows`` holds the values themselves and ``columns`` is not read.
    """
    weights = coef.astype(_LONG)
    if kernel.name == "linear":
        left, right = _dense(rows), _dense(columns)
        sums = left @ (right.T @ weights)
        sizes = np.abs(left) @ (np.abs(right).T @ np.abs(weights))
        roundings = len(coef) + left.shape[1] + 4
        return _rounded(sums + constant * weights.sum(), sizes, weights, roundings)
    given = kernel.name == "precomputed"
    left, right = (rows, columns) if given else (_dense(rows), _dense(columns))
    n, d = left.shape
    sums, sizes = np.empty((2, n), _LONG)
    step = max(1, BLOCK_ENTRIES // max(len(coef), 1))
    for start in range(0, n, step):
        part = slice(start, start + step)
        values = _dense(left[part]) if given else _values(left[part], right, kernel)
        bounds = np.abs(values)
        if kernel.name == "poly":
            bounds = _values(abs(left[part]), abs(right), kernel)
        sums[part] = values @ weights + constant * weights.sum()
        sizes[part] = bounds @ np.abs(weights)
    of_values = 4 if given else kernel.degree * (d + 8) + d + 16
    return _rounded(sums, sizes, weights, len(coef) + of_values)


def _rounded(sums, sizes, weights, roundings) -> tuple[Array, Array]:
    """In float64, with the error of the sums and of rounding them; 1 for the constant."""
    sizes = sizes + np.abs(weights).sum()
    errors = (roundings * _EPS * sizes).astype(np.float64)
    sums = sums.astype(np.float64)
    return sums, errors + 2.0 * DOUBLE * np.abs(sums)


def _values(left, right, kernel: Kernel):
    gamma = _LONG(kernel.gamma)
    if kernel.name == "poly":
        return (gamma * (left @ right.T) + _LONG(kernel.coef0)) ** int(kernel.degree)
    squares = np.zeros((len(left), len(right)), _LONG)
    for x, z in zip(left.T, right.T, strict=True):
        squares += (x[:, np.newaxis] - z) ** 2
    return np.exp(-gamma * squares)


def _dense(X: Matrix) -> np.ndarray:
    return densified(X).astype(_LONG)


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
    mean = np.zeros(d) if sp.issparse(columns) else sizes @ columns / max(sizes.sum(), TINY)
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
