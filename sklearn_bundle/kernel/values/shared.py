"""Kernel values for the folds of a search: from one matrix for all of them, or each its own."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, SINGLE
from sklearn_bundle.kernel.values._points import Features, points_of
from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel import FAR, KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

Array = NDArray[np.float64]

_MOST = 6000  # points whose matrix pays: fits of more need few of their kernel values
_OF_CACHE = 0.5  # share of the memory for kernel values that the matrix may take


class SharedValues:
    """Kernel values between the points of every fold, for one gamma or several.

    Folds take them from one matrix in double precision if that pays: of kernel values or, with
    several gammas, of ``-1/2 |x - z|^2`` ("rbf") or ``<x, z>`` ("poly").

    Parameters
    ----------
    data : KernelData
        All points; with several gammas its kernel has the largest.
    gammas : ndarray
        Empty for the gamma of the kernel.
    n_bytes : float
        Memory for kernel values.
    """

    def __init__(self, data: KernelData, gammas: NDArray[np.float64], n_bytes: float):
        self._data, self._gammas = data, gammas
        self._matrix: Array | None = None
        n = data.X.shape[0]
        costly = callable(data.kernel.name)  # what the caller computes is computed once
        if data.precomputed or 8 * n**2 > _OF_CACHE * n_bytes or (n > _MOST and not costly):
            return
        if not len(gammas):
            self._matrix = KernelRows(data.X, data.kernel, np.float64).gram()
        elif gammas.min() >= 1.0 / FAR:
            self._matrix = _products(data.X, data.kernel)

    @property
    def n_gammas(self) -> int:
        """At least one."""
        return max(1, len(self._gammas))

    def of_fold(
        self, train: NDArray[np.intp], test: NDArray[np.intp]
    ) -> Iterator[tuple[KernelData, Matrix]]:
        """For each gamma the values between training points, and the test points.

        If the matrix is shared, the latter are rows of values with the training points.
        """
        data, matrix, kernels = self._data, self._matrix, self._kernels()
        if matrix is None:
            for kernel in kernels:
                X = data.X[train][:, train] if data.precomputed else data.X[train]
                Z = data.X[test][:, train] if data.precomputed else data.X[test]
                values = KernelData(X, kernel, data.dtype)
                values.definite = True  # the values of all data are checked
                values.choose_dtype()
                yield values, Z
            return
        for kernel in kernels:
            K, Z = matrix[np.ix_(train, train)], matrix[np.ix_(test, train)]
            if len(self._gammas):
                kernel.of_all_products(K)
                kernel.of_all_products(Z)
            values = KernelData(K, Kernel("precomputed"), np.float64)
            values.definite = True
            yield values, Z

    def _kernels(self) -> list[Kernel]:
        kernel = self._data.kernel
        if not len(self._gammas):
            return [kernel]
        return [replace(kernel, gamma=float(gamma)) for gamma in self._gammas]


def _products(X: Matrix, kernel: Kernel) -> Array | None:
    """What "rbf" or "poly" of any gamma is computed from: see ``Kernel.of_all_products``.

    None if distances would have fewer digits than single precision.
    """
    points, near = points_of(X, kernel, np.dtype(np.float64)), kernel.name == "rbf"
    assert isinstance(points, Features)
    with np.errstate(over="ignore", invalid="ignore"):
        if near and not np.max(points.rounding(points, DOUBLE)) <= SINGLE:
            return None
    points.kernel = Kernel("linear")
    out = np.empty((len(points.squares),) * 2)
    points.fill(None, points, None, len(out), out)
    if near:
        out -= 0.5 * points.squares[:, np.newaxis]
        out -= 0.5 * points.squares
        np.minimum(out, 0.0, out=out)
        np.fill_diagonal(out, 0.0)
    return out
