"""Kernel values for the folds of a search: from one matrix for all of them, or each its own."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, SINGLE
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values._points import TILE_ROWS, Features, points_of, slices
from sklearn_bundle.kernel.values.kernel import FAR
from sklearn_bundle.kernel.values.kernel_data import OF_CACHE, KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

_ROWS = 32  # picked at a time: they stay in a cache until they are kernel values


def products(X: Matrix, kernel: Kernel, order: NDArray[np.intp]) -> NDArray[np.float32] | None:
    """What "rbf" or "poly" of any gamma is computed from: see ``Kernel.of_all_products``.

    Of the points in this order, ``-1/2 |x - z|^2`` or ``<x, z>``, computed in float64, then
    rounded. None if the distances would have fewer digits than single precision.
    """
    points, near = points_of(X, kernel, np.dtype(np.float64)), kernel.name == "rbf"
    assert isinstance(points, Features)
    with np.errstate(over="ignore", invalid="ignore"):
        if near and not np.max(points.rounding(points, DOUBLE)) <= SINGLE:
            return None
    points = points.take(order)
    points.kernel = Kernel("linear")
    n, halves = len(order), 0.5 * points.squares
    out = np.empty((n, n), np.float32)
    for part in slices(n, TILE_ROWS):
        block = np.empty((part.stop - part.start, part.stop))
        points.fill(np.arange(part.start, part.stop), points, None, part.stop, block)
        if near:
            block -= halves[part, np.newaxis]
            block -= halves[: part.stop]
            np.minimum(block, 0.0, out=block)
        out[part, : part.stop] = block
        passes.mirror(out, part.start, part.stop)
    if near:
        np.fill_diagonal(out, 0.0)
    return out


class SearchValues:
    """Kernel values between the points of every fold, for one gamma or several.

    Parameters
    ----------
    data : KernelData
        All points; with several gammas its kernel has the largest.
    gammas : ndarray
        Empty for the gamma of the kernel.
    shares : bool
        Whether folds should take their values from one matrix, if there is space for it.
    n_bytes : float
        Memory for kernel values, of which the matrix may take half.
    n_threads : int
        Folds at a time.
    folds : list of (train, test)

    Attributes
    ----------
    bytes_of_thread : float
        Memory for further values in each thread.
    """

    def __init__(
        self,
        data: KernelData,
        gammas: NDArray[np.float64],
        shares: bool,
        n_bytes: float,
        n_threads: int,
        folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    ):
        self._data, self._gammas = data, gammas
        self._place: NDArray[np.intp] | None = None  # of each point in a matrix of our own
        self._matrix: np.ndarray | None = data.X if data.precomputed else None
        self._definite, self._products = data.definite, False
        n = data.X.shape[0]
        of_all, of_fold = 4 * n**2, 4 * n * max(len(train) for train, _ in folds)
        fits = of_all <= OF_CACHE * n_bytes and of_all + n_threads * of_fold <= n_bytes
        if shares and fits and not data.precomputed:
            self._share(folds)
        left = n_bytes / n_threads
        if self._matrix is not None:
            left -= of_all / n_threads + of_fold
        self.bytes_of_thread = max(left, 0.0)

    def _share(self, folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]]) -> None:
        """Compute the matrix, if single precision holds the values."""
        data, n = self._data, self._data.X.shape[0]
        if not data.rows(np.float32).in_range:
            return
        if not len(self._gammas):
            data.keep_all()
            self._matrix = data.kept
        elif self._gammas.min() >= 1.0 / FAR:
            # Points of the same test parts are neighbors, so that training parts are long runs.
            tested = np.zeros((len(folds), n), dtype=bool)
            for of_fold, (_, test) in zip(tested, folds, strict=True):
                of_fold[test] = True
            order = np.lexsort(tested)
            self._place = np.argsort(order)
            self._matrix = products(data.X, data.kernel, order)
            self._products = True
        self._definite = True  # the values of ``data`` are checked

    def arranged(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """The points in the order in which their values are fastest to read."""
        return points if self._place is None else points[np.argsort(self._place[points])]

    def of_fold(
        self, train: NDArray[np.intp], test: NDArray[np.intp]
    ) -> Iterator[tuple[KernelData, Matrix]]:
        """For each gamma the values between training points, and the test points.

        If the matrix is shared, the latter are rows of values with the training points, and both
        are overwritten by those of the next gamma.
        """
        data, matrix = self._data, self._matrix
        if matrix is None:
            for kernel in self._kernels():
                values = KernelData(data.X[train], kernel, data.dtype)
                values.definite = self._definite
                values.choose_dtype()
                yield values, data.X[test]
            return
        K, Z = (np.empty((len(rows), len(train)), matrix.dtype) for rows in (train, test))
        if self._place is not None:
            train, test = self._place[train], self._place[test]
        starts = np.flatnonzero(np.diff(train, prepend=-2) != 1)
        runs = train[starts], train[np.append(starts[1:], len(train)) - 1] + 1
        for kernel in self._kernels():
            for rows, out in ((train, K), (test, Z)):
                for top in range(0, len(rows), _ROWS):
                    part, chosen = out[top : top + _ROWS], rows[top : top + _ROWS]
                    passes.pick_runs(frozen(matrix), frozen(chosen), *map(frozen, runs), part)
                    if self._products:
                        kernel.of_all_products(part)
            values = KernelData(K, Kernel("precomputed"), data.dtype)
            values.definite = self._definite
            yield values, Z

    def _kernels(self) -> list[Kernel]:
        kernel = self._data.kernel
        if not len(self._gammas):
            return [kernel]
        return [replace(kernel, gamma=float(gamma)) for gamma in self._gammas]
