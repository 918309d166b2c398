"""Scores of new points by a kernel machine: one machine, or one for each pair of classes."""

from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.parallel import BlockRunner, blas_threads
from sklearn_bundle.kernel._compiled import pairs
from sklearn_bundle.kernel._compiled.steps import FEW
from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

Array = NDArray[np.float64]

_SMALL = 1 << 18  # products of features: below this threads save nothing


class KernelScores:
    """``f(z) = sum_c coef[c] k(z, x_c) + b`` for two classes, or for all pairs i < j of more.

    Parameters
    ----------
    vectors : ndarray or CSR of shape (n_support, d)
        Support vectors sorted by class; for "precomputed", the indices of their columns.
    kernel : Kernel
    dual_coef : ndarray of shape (1, n_support) or (n_classes - 1, n_support)
        As in :class:`~sklearn.svm.SVC`: a support vector of class i has its coefficient against
        class j in row j, or j - 1 if j > i.
    intercept : ndarray of shape (1,) or (n_pairs,)
    n_support : ndarray of shape (n_classes,)
    """

    def __init__(self, vectors: Matrix, kernel: Kernel, dual_coef, intercept, n_support):
        self.vectors, self.kernel = vectors, kernel
        self.dual_coef, self.intercept = np.ascontiguousarray(dual_coef), intercept
        self._ends = np.concatenate([[0], np.cumsum(n_support)])

    def __getstate__(self) -> dict:
        kept = ("vectors", "kernel", "dual_coef", "intercept", "_ends")
        return {name: vars(self)[name] for name in kept}

    def scores(self, Z: Matrix, n_jobs: int | None = None) -> Array:
        """Array of shape (n, n_pairs)."""
        n, (n_rows, n_support) = Z.shape[0], self.dual_coef.shape
        scores = np.empty((n, n_rows * (n_rows + 1) // 2))
        if n_support == 0:  # then there is no largest support vector either
            scores[:] = self.intercept
            return scores
        if n * self.vectors.size <= _SMALL:
            self._add(Z, scores)
            return scores

        def work(k: int) -> None:
            self._add(Z[bounds[k] : bounds[k + 1]], scores[bounds[k] : bounds[k + 1]])

        n_threads = effective_n_jobs(n_jobs)
        bounds = np.linspace(0, n, n_threads + 1).astype(int)
        with blas_threads(1), BlockRunner(n_threads) as runner:
            runner.run(work, n_threads)
        return scores

    def bounded(self, Z: Matrix, n_jobs: int | None = None) -> tuple[Array, Array]:
        """Scores in float64, and what rounding may add to them, both of shape (n, n_pairs)."""
        scores = self.scores(Z, n_jobs)
        if self.dual_coef.shape[1] == 0:
            return scores, DOUBLE * np.abs(scores)
        sizes = self._sums_of_pairs(np.abs(self.dual_coef))
        largest = float(np.abs(self._rows.diagonal).max())
        lengths = np.sqrt(largest * np.abs(self.diagonal(Z)))
        of_sums = (likely(self.dual_coef.shape[1]) + FEW) * DOUBLE * lengths
        error = np.outer(of_sums + self._rows.errors_with(Z), sizes)
        return scores, error + FEW * DOUBLE * (np.abs(scores) + np.abs(self.intercept))

    def diagonal(self, Z: Matrix) -> Array:
        """``k(z, z)`` of rows; of a matrix of kernel values they are not known."""
        return KernelRows(Z, self.kernel, np.float64).diagonal

    def _add(self, part: Matrix, out: Array) -> None:
        """Scores of some rows."""
        given = self.kernel.name == "precomputed"
        start = 0
        for block in [part.take(self.vectors, axis=1)] if given else self._rows.blocks(part):
            own = out[start : start + len(block)]
            if out.shape[1] == 1:
                pairs.pair_score(block, self._by_vector[:, 0], self.intercept[0], own[:, 0])
            else:
                pairs.pair_scores(block, self._by_vector, self._ends, self.intercept, own)
            start += len(block)

    @cached_property
    def _rows(self) -> KernelRows:
        return KernelRows(self.vectors, self.kernel, np.float64)

    @cached_property
    def _by_vector(self) -> Array:
        """The coefficients of each support vector beside each other."""
        return np.ascontiguousarray(self.dual_coef.T)

    def _sums_of_pairs(self, values: Array) -> Array:
        """Sums over the coefficients of each pair of what there is for each of ``dual_coef``."""
        sums = np.array([values[:, start:stop].sum(axis=1) for start, stop in pairwise(self._ends)])
        i, j = np.triu_indices(len(self._ends) - 1, 1)
        return sums[i, j - 1] + sums[j, i]

    def weights(self) -> Array:
        """``sum_c coef[c] x_c`` of every pair, of shape (n_pairs, d): for the linear kernel."""
        parts = [slice(start, stop) for start, stop in pairwise(self._ends)]
        of_class = [self.dual_coef[:, part] @ self.vectors[part] for part in parts]
        pairs = combinations(range(len(parts)), 2)
        return np.array([of_class[i][j - 1] + of_class[j][i] for i, j in pairs])
