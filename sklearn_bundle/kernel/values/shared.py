"""Kernel values for the folds of a search.

Folds compute their own: fits need few of the values, and all values of up to 2,048 points take less
time than copies of them. Only what a callable computes is computed once for all folds.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.kernel.values.data import KernelData
from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

Array = NDArray[np.float64]

_OF_CACHE = 0.5  # share of the memory for kernel values that the matrix of a callable may take


class SharedValues:
    """Kernel values between the points of every fold, for one gamma or several.

    Parameters
    ----------
    data : KernelData
        All points.
    gammas : ndarray
        Empty for the gamma of the kernel.
    n_bytes : float
        Memory for kernel values.
    """

    def __init__(self, data: KernelData, gammas: Array, n_bytes: float):
        self._X, self._kernel, self._dtype = data.X, data.kernel, data.dtype
        self._gammas = gammas
        if callable(data.kernel.name) and 8 * data.X.shape[0] ** 2 <= _OF_CACHE * n_bytes:
            self._X = KernelRows(data.X, data.kernel, np.float64).gram()
            self._kernel, self._dtype = Kernel("precomputed"), np.dtype(np.float64)

    @property
    def n_gammas(self) -> int:
        """At least one."""
        return max(1, len(self._gammas))

    def of_fold(
        self, train: NDArray[np.intp], test: NDArray[np.intp]
    ) -> Iterator[tuple[KernelData, Matrix]]:
        """For each gamma the values between training points, and the test points.

        Of a matrix of values the latter are rows of values with the training points.
        """
        X, Z = self._X[train], self._X[test]
        if self._kernel.name == "precomputed":
            X, Z = X[:, train], Z[:, train]
        kernels = [replace(self._kernel, gamma=float(gamma)) for gamma in self._gammas]
        for kernel in kernels or [self._kernel]:
            values = KernelData(X, kernel, self._dtype)
            values.definite = True  # the values of all data are checked
            values.choose_dtype()
            yield values, Z
