"""A linear problem as Newton's method sees it: the rows, or a sample of them, and Hessians."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle._compiled import hessian
from sklearn_bundle._parallel import BlockRunner
from sklearn_bundle.problems.linear import Design

Array = NDArray[np.float64]

_SIDE_BY_SIDE = 16.0  # products in the time of an entry in a pass, in a dense Hessian
_ROWS = 2048  # of a dense block, multiplied with itself
_ENTRIES = 1 << 21  # products of a sparse block: about 2 ms, so that zeroing its Hessian is cheap
_MOST_BLOCKS = 4
_FEW = 20  # rows of a class in a sample


class NewtonModel:
    """Rows with targets and weights of sum one.

    Parameters
    ----------
    X : ndarray or CSR
    y : ndarray of shape (n,), of -1 and 1
    weights : ndarray of shape (n,)
    free : bool
        Whether there is an intercept, whose coordinate comes last.
    runner : BlockRunner
    design : Design of X
    """

    def __init__(
        self, X: Any, y: Array, weights: Array, free: bool, runner: BlockRunner, design: Design
    ):
        self.X, self.y, self.weights, self.free = X, y, weights, free
        self.design = design
        self._runner = runner
        self._csr = None
        if sp.issparse(X):
            unsigned = np.uint32 if X.indices.dtype == np.int32 else np.uint64
            indptr = X.indptr.astype(np.uint64)
            self._csr = X.data, np.asarray(X.indices).view(unsigned), indptr

    def rows_in_passes(self, passes: float) -> int:
        """Rows whose Hessian takes as long as so many passes over the data."""
        row = self.entries_a_row / (2.0 if self._csr is not None else _SIDE_BY_SIDE)
        return int(passes * len(self.y) / max(row, 1.0))

    @property
    def entries_a_row(self) -> float:
        """Of X, in the mean."""
        return self.design.shape[1] if self._csr is None else len(self._csr[0]) / len(self.y)

    def sample(self, share: int, seed: int) -> "NewtonModel | None":
        """One row of every ``share`` neighbours; None if that leaves too few of a class."""
        n = len(self.y) // share
        drawn = np.random.default_rng(seed).integers(0, share, n)
        rows = np.arange(n) * share + drawn
        y, weights = self.y[rows], self.weights[rows]
        positive = np.count_nonzero(y > 0.0)
        if min(positive, n - positive) < _FEW:
            return None
        X = self.X[rows]
        design = Design(X, self._runner)
        return NewtonModel(X, y, weights / weights.sum(), self.free, self._runner, design)

    def column_scale(self) -> Array:
        """``sum_i x_ij^2 / sum_i |x_ij|``: how far a unit of w_j moves the scores that it moves."""
        squares, sizes = np.zeros((2, self.design.shape[1]))
        if self._csr is None:
            hessian.dense_column_scale(self.X, squares, sizes)
        else:
            hessian.csr_column_scale(*self._csr[:2], squares, sizes)
        return squares / np.maximum(sizes, np.finfo(np.float64).tiny)

    def hessian(self, rows: NDArray[np.intp], coefs: Array) -> Array:
        """The lower triangle of ``sum_r c_r x_r x_r'``; with an intercept x has a last entry 1."""
        if self._csr is None:
            return self._dense_hessian(rows, coefs)
        d = self.design.shape[1]
        count = int(min(_MOST_BLOCKS, 1 + len(rows) * self.entries_a_row**2 // _ENTRIES))
        bounds = np.linspace(0, len(rows), count + 1).astype(np.int64)
        parts = np.zeros((count, d + 1, d + 1))
        self._runner.run(
            lambda k: hessian.csr_hessian(
                *self._csr, rows, coefs, bounds[k], bounds[k + 1], self.free, parts[k]
            ),
            count,
        )
        total = parts[0]
        for part in parts[1:]:
            total += part
        hessian.fold(total)
        return total if self.free else total[:d, :d]

    def _dense_hessian(self, rows: NDArray[np.intp], coefs: Array) -> Array:
        width = self.design.shape[1] + self.free
        count = max(1, min(_MOST_BLOCKS, len(rows) // _ROWS))
        bounds = np.linspace(0, len(rows), count + 1).astype(np.int64)
        parts = np.zeros((count, width, width))

        def add_products(k: int) -> None:
            for start in range(bounds[k], bounds[k + 1], _ROWS):
                stop = min(start + _ROWS, bounds[k + 1])
                block = np.empty((stop - start, width))
                hessian.scaled_rows(self.X, rows, coefs, start, stop, self.free, block)
                parts[k] += block.T @ block

        self._runner.run(add_products, count)
        return parts.sum(axis=0)
