"""Scores of new points by a kernel machine: one machine, or one for each pair of classes."""

from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import ADDED, DOUBLE, likely
from sklearn_bundle.core.parallel import BlockRunner
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import rows as passes
from sklearn_bundle.kernel.values._exact_sums import rbf_scores
from sklearn_bundle.kernel.values._points import SUMMED
from sklearn_bundle.kernel.values.kernel import KernelRows, add_products
from sklearn_bundle.kernel.values.kernel_function import Kernel, Matrix

_ROWS = 1024  # rows of new points at a time, copied next to the support vectors
_FEW = 8.0  # roundings of a term before it is added
_SURE = 16.0  # standard deviations of a score's rounding: many, since they are estimates


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
        self.dual_coef, self.intercept = dual_coef, intercept
        self._ends = np.concatenate([[0], np.cumsum(n_support)])
        self._pairs = list(combinations(range(len(n_support)), 2))

    @property
    def n_support(self) -> NDArray[np.int64]:
        return np.diff(self._ends)

    def __getstate__(self) -> dict:
        kept = ("vectors", "kernel", "dual_coef", "intercept", "_ends", "_pairs")
        return {name: vars(self)[name] for name in kept}

    def scores(
        self, Z: Matrix, dtype: type = np.float64, n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Array of shape (n_pairs, n), from kernel values in float32 or float64."""
        if self.dual_coef.shape[1] == 0:  # without support vectors there is no largest one either
            return np.repeat(self.intercept[:, np.newaxis], Z.shape[0], axis=1)
        narrow = len(self._pairs) == 1 and self.kernel.name == "rbf"
        if narrow and dtype == np.float64 and not (sp.issparse(Z) or sp.issparse(self.vectors)):
            return self._exact_scores(Z, n_threads)
        return self._scores_and_rounding(Z, dtype, n_threads)[0]

    def bounded_scores(self, Z: Matrix, n_threads: int = 1) -> tuple[NDArray, NDArray]:
        """Scores in float64, and what rounding may add to them, both of shape (n_pairs, n)."""
        if self.dual_coef.shape[1] == 0:
            scores = self.scores(Z)
            return scores, DOUBLE * np.abs(scores)
        scores, rounding = self._scores_and_rounding(Z, np.float64, n_threads)
        sizes = self._sums_of_pairs(np.abs(self.dual_coef))
        largest = np.sqrt(self._largest() * self.diagonal(Z))
        sums = (likely(self.dual_coef.shape[1]) + _FEW) * DOUBLE * np.outer(sizes, largest)
        # The intercept may be the sum of the coefficients.
        sums += ADDED * (sizes + np.abs(self.intercept))[:, np.newaxis]
        return scores, _SURE * np.outer(self._norms, rounding) + sums + DOUBLE * np.abs(scores)

    def diagonal(self, Z: Matrix) -> NDArray[np.float64]:
        """``k(z, z)`` of rows; of a matrix of kernel values they are not known."""
        return KernelRows(Z, self.kernel, np.float64).diagonal

    def _largest(self) -> float:
        return float(self.diagonal(self.vectors).max())

    def _exact_scores(self, Z: np.ndarray, n_threads: int) -> NDArray[np.float64]:
        """Scores of one machine from differences, some rows at a time."""
        scores = np.empty((1, Z.shape[0]))

        def work(k: int) -> None:
            part = slice(k * _ROWS, (k + 1) * _ROWS)
            sums = rbf_scores(self.vectors, Z[part], self.kernel.gamma, self.dual_coef[0])
            scores[0, part] = sums + self.intercept[0]

        with BlockRunner(n_threads) as runner:
            runner.run(work, -(-Z.shape[0] // _ROWS))
        return scores

    def sure_scores(self, Z: Matrix, n_threads: int = 1) -> NDArray[np.float64]:
        """Scores in float32 where their sign is certain, else in float64."""
        given = not isinstance(self.kernel.name, str) or self.kernel.name == "precomputed"
        with np.errstate(over="ignore", invalid="ignore"):
            if given or not self.dual_coef.shape[1] or not self._single.in_range:
                return self.scores(Z, np.float64, n_threads)
            scores, rounding = self._scores_and_rounding(Z, np.float32, n_threads)
        error = _SURE * (np.outer(self._norms, rounding) + self._of_sums[:, np.newaxis])
        unsure = np.flatnonzero(~(np.abs(scores) >= error).all(axis=0))  # NaN are unsure too
        if len(unsure):
            scores[:, unsure] = self.scores(Z[unsure], np.float64, n_threads)
        return scores

    def _scores_and_rounding(self, Z: Matrix, dtype: type, n_threads: int) -> tuple:
        """Scores, and the standard deviation of the error of a kernel value for each row."""
        n = Z.shape[0]
        scores, rounding = np.empty((len(self._pairs), n)), np.zeros(n)
        rows = None
        if self.kernel.name != "precomputed":
            rows = self._single if dtype == np.float32 else self._double
        bounds = np.linspace(0, n, n_threads + 1).astype(int)

        def work(k: int) -> None:
            start, part = bounds[k], Z[bounds[k] : bounds[k + 1]]
            blocks = [(self._picked(part), 0.0)] if rows is None else rows.blocks(part)
            for block, errors in blocks:
                stop = start + len(block)
                self._add(block, scores[:, start:stop])
                rounding[start:stop] = errors
                start = stop

        with BlockRunner(n_threads) as runner:
            runner.run(work, n_threads)
        return scores, rounding

    def _picked(self, part: np.ndarray) -> np.ndarray:
        """The columns of the support vectors, in less time than ``part[:, vectors]``."""
        out = np.empty((len(part), len(self.vectors)), part.dtype)
        columns = frozen(self.vectors.astype(np.intp, copy=False))
        passes.pick(frozen(np.ascontiguousarray(part)), frozen(np.arange(len(part))), columns, out)
        return out

    @cached_property
    def _single(self) -> KernelRows:
        return KernelRows(self.vectors, self.kernel, np.float32)

    @cached_property
    def _double(self) -> KernelRows:
        return KernelRows(self.vectors, self.kernel, np.float64)

    @cached_property
    def _norms(self) -> NDArray[np.float64]:
        """Euclidean norms of the coefficients of each pair."""
        return np.sqrt(self._sums_of_pairs(self.dual_coef**2))

    @cached_property
    def _of_sums(self) -> NDArray[np.float64]:
        """About the standard deviation of the error of each score from adding in float32.

        This is for ``|k| <= 1``, as for "rbf"; for others it scales with their largest value.
        """
        unit = 0.5 * float(np.finfo(np.float32).eps)
        largest = max(1.0, float(self._single.diagonal.max()))
        sums, (i, j) = self._sums_of_pairs(np.abs(self.dual_coef)), np.transpose(self._pairs)
        pieces = np.maximum(1.0, (self.n_support[i] + self.n_support[j]) / SUMMED)
        return unit * largest * np.sqrt(SUMMED / pieces) * sums

    def _sums_of_pairs(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the coefficients of each pair of what there is for each of ``dual_coef``."""
        if len(self._pairs) == 1:
            return values.sum(axis=1)
        ends, (i, j) = self._ends, np.transpose(self._pairs)
        sums = np.array([values[:, start:stop].sum(axis=1) for start, stop in pairwise(ends)])
        return sums[i, j - 1] + sums[j, i]

    @cached_property
    def _pairs_of_class(self) -> list[NDArray[np.intp]]:
        """For each class the places of its pairs, in the order of the other classes."""
        pairs = np.array(self._pairs)
        return [np.flatnonzero((pairs == c).any(axis=1)) for c in range(len(self._ends) - 1)]

    def _add(self, block: np.ndarray, out: NDArray[np.float64]) -> None:
        """Scores of some rows, whose kernel values are in ``block``."""
        out[:] = self.intercept[:, np.newaxis]
        if len(self._pairs) == 1:
            add_products(block, self.dual_coef[0], out[0])
            return
        coef = self.dual_coef.astype(block.dtype)
        for c in range(len(self._ends) - 1):
            sums = np.zeros((len(coef), len(block)))
            for start in range(self._ends[c], self._ends[c + 1], SUMMED):
                own = slice(start, min(start + SUMMED, self._ends[c + 1]))
                sums += coef[:, own] @ block[:, own].T
            out[self._pairs_of_class[c]] += sums

    def coef_of_pairs(self) -> NDArray[np.float64]:
        """Coefficients of all support vectors in each pair, of shape (n_pairs, n_support)."""
        if len(self._pairs) == 1:
            return self.dual_coef
        coef, ends = np.zeros((len(self._pairs), self.dual_coef.shape[1])), self._ends
        for row, (i, j) in zip(coef, self._pairs, strict=True):
            of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            row[of_i], row[of_j] = self.dual_coef[j - 1, of_i], self.dual_coef[i, of_j]
        return coef

    def weights(self) -> np.ndarray:
        """``sum_c coef[c] x_c`` of every pair, of shape (n_pairs, d): for the linear kernel."""
        if len(self._pairs) == 1:
            return self.dual_coef @ self.vectors
        ends, rows = self._ends, []
        for i, j in self._pairs:
            of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            rows.append(
                self.dual_coef[j - 1, of_i] @ self.vectors[of_i]
                + self.dual_coef[i, of_j] @ self.vectors[of_j]
            )
        return np.array(rows)
