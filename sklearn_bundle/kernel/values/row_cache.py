"""Rows of kernel values, kept as long as there is space."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.kernel.values.kernel import KernelRows


class RowCache:
    """Rows of values with all points; those not used for longest give way to new ones.

    Parameters
    ----------
    source : KernelRows
    n_bytes : float
        Memory for the rows, of which there are at least ``least``.
    least : int
        Rows that are used together at most.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n)
        Memory is taken as it is filled.
    places : ndarray of shape (n,)
        Which row of ``values`` is that of a point, -1 if none is.
    n_computed : int
        Rows computed so far.
    """

    def __init__(self, source: KernelRows, n_bytes: float, least: int):
        self._source = source
        most = n_bytes // (source.n * source.dtype.itemsize)
        self.n_rows = int(min(source.n, max(least, most)))
        self.values = np.empty((self.n_rows, source.n), source.dtype)
        self.places, self._owners = np.full(source.n, -1), np.full(self.n_rows, -1)
        self._used, self._time = np.zeros(self.n_rows, np.int64), 0
        self.n_computed = 0

    def slots(self, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where in ``values`` the rows of these points are; those that are not there come there."""
        self._time += 1
        known = self.places[indices]
        self._used[known[known >= 0]] = self._time
        missing = indices[known < 0]
        if len(missing):
            places = self._free(len(missing))
            if places[-1] - places[0] == len(places) - 1:
                self._source.block(missing, None, self.values[places[0] : places[-1] + 1])
            else:
                self.values[places] = self._source.block(missing)
            self.places[missing], self._owners[places] = places, missing
            self._used[places] = self._time
            self.n_computed += len(missing)
        return self.places[indices]

    def _free(self, count: int) -> NDArray[np.intp]:
        """Ascending places for new rows: unused ones, then those not used for longest."""
        first = min(self.n_computed, self.n_rows)
        if first + count <= self.n_rows:
            return np.arange(first, first + count)
        places = np.sort(np.argpartition(self._used, count - 1)[:count])
        owners = self._owners[places]
        self.places[owners[owners >= 0]] = -1
        return places
