"""What coordinate descent keeps of a problem: derivatives of the rows, some columns of X."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import lasso
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

# Lower limit of second derivatives, relative to their mean: where a loss is straight, steps would
# be unbounded. That of the exponential loss is large for few rows: with a thousandth of the largest
# as the limit, 300 steps were not enough for what now takes 4.
_LEAST_CURVATURE = 1e-5
# Relative to the allowed violation: after an epoch that met no more, all violations are computed.
# An epoch may leave far more than it met if features are correlated: 80 times as much on MNIST.
MET = 0.25
_SEED = np.uint64(0x9E3779B97F4A7C15)  # for the order in an epoch: any number except 0


class WeightedColumns:
    """Steps of coordinate descent on columns multiplied by the roots of a curvature.

    Parameters
    ----------
    entries : ndarray of shape (p, n), or CSR of this shape
        One column of X per row.
    free : bool
        Whether their weighted means are subtracted.
    """

    def __init__(self, entries: Array | sp.csr_array, free: bool):
        self.entries: Any = entries  # of a sparse matrix a type checker knows no attributes
        self._free, self._sparse = free, sp.issparse(entries)
        self._order = np.arange(entries.shape[0])
        self._seed = np.full(1, _SEED)
        if self._sparse:
            indices = frozen(self.entries.indices.astype(np.uint32, copy=False))
            self._places = indices, self.entries.indptr.astype(np.uint64), 0
        else:
            none = frozen(np.zeros(0, np.uint32)), np.zeros(0, np.uint64)
            self._places = *none, entries.shape[1]

    def scores(self, w: Array) -> Array:
        """The sum of the columns times w, without the curvature."""
        return self.entries.T @ w

    def weigh(self, curvature: Array) -> None:
        """Set the curvature, of shape (n,)."""
        roots = np.sqrt(curvature)
        length = np.linalg.norm(roots)
        free = self._free and length > 0.0
        self._unit = roots / length if free else np.zeros_like(roots)
        if self._sparse:
            entries = self.entries.data
            self._data = entries * roots[self._places[0]]
            self._squares = self._times(entries * entries, curvature)
            self._mean = self._times(self._data, self._unit)
        else:
            scaled = self.entries * roots
            self._data = scaled.reshape(-1)
            self._squares = np.einsum("ji,ji->j", scaled, scaled)
            self._mean = scaled @ self._unit

    def _times(self, data: Array, g: Array) -> Array:
        """Products with g of the columns with these entries."""
        entries = self.entries
        return sp.csr_array((data, entries.indices, entries.indptr), entries.shape) @ g

    def sweep(
        self, a: Array, w: Array, limits: Array, ridge: float, most: float, tol: float
    ) -> float:
        """Run epochs from w, in place, with its gradient a, until one meets no more than tol.

        Returns their number: at most ``most``, or a part of one more.
        """
        return self._epochs(np.zeros_like(self._unit), a, w, limits, ridge, most, tol)[1]

    def descend(
        self, a: Array, w: Array, limits: Array, ridge: float, most: float, tol: float
    ) -> None:
        """Run epochs until no coordinate violates its optimality by more than ``tol``.

        An epoch may leave a far larger violation than it met.
        """
        r, spent, allowed = np.zeros_like(self._unit), 0.0, MET * tol
        while spent < most:
            met, n = self._epochs(r, a, w, limits, ridge, most - spent, allowed)
            spent += n
            left = violation(a + self._along(r) + ridge * w, w, limits)
            if met > allowed or left <= tol:
                return
            allowed *= min(MET, tol / left)

    def _epochs(
        self, r: Array, a: Array, w: Array, limits: Array, ridge: float, most: float, tol: float
    ) -> tuple[float, float]:
        size = len(w)
        met, visited = lasso.column_epochs(
            frozen(self._data),
            *self._places,
            self._unit,
            r,
            self._mean,
            self._squares,
            a,
            w,
            limits,
            ridge,
            self._order,
            int(most * size),
            tol,
            self._seed,
        )
        return met, visited / max(size, 1)

    def _along(self, r: Array) -> Array:
        """The change of the gradient for the change r of the scores, times the roots."""
        if self._sparse:
            products = self._times(self._data, r)
        else:
            products = self._data.reshape(self.entries.shape) @ r
        return products - float(self._unit @ r) * self._mean


def violation(slopes: Array, w: Array, limits: Array) -> float:
    """The largest violation of the optimality conditions of w."""
    off = np.where(w == 0.0, np.abs(slopes) - limits, np.abs(slopes + np.sign(w) * limits))
    return float(off.max(initial=0.0))


class ColumnModel:
    """``R(w) = min_b sum_i s_i l(x_i w + b)`` of a problem with a curved loss, by columns.

    Parameters
    ----------
    problem : LinearProblem
        Its loss is a smooth :class:`~.scores.ScoreLoss`.

    Attributes
    ----------
    rows, y, weights, loss
        Those of the problem.
    free : bool
        Whether b is minimized out; else it is 0.
    """

    def __init__(self, problem: LinearProblem):
        self.rows, self.y, self.weights = problem.rows, problem.target, problem.weights
        loss = score_loss(problem.loss)
        assert loss is not None
        self.loss, self.free = loss, problem.fit_intercept
        self._scratch = np.empty((4, len(self.y)))
        self._center = loss.center(self.y, self.weights) if self.free else 0.0

    @property
    def is_quadratic(self) -> bool:
        return self.loss.quadratic

    def derive(self, scores: Array) -> tuple[Array, float, float]:
        """``s_i l'(f_i + b)`` at the best b, where they sum to zero; the risk there, and b."""
        g = np.empty_like(self.weights)
        cut = self.loss.cut(scores, self.y, self.weights, self.free, g, self._scratch)
        return g, cut.risk, float(cut.intercept)

    def gradient(self, g: Array) -> Array:
        """``X'g``."""
        return self.rows.gradient(g)

    def offset(self, g: Array) -> float:
        """``-sum_i s_i l*(g_i / s_i)``: a plane below R with X'g, if g sums to zero or b is 0."""
        return self.loss.offset(g, self.y, self.weights, self._center)

    def curvature(self, scores: Array, b: float) -> Array:
        """Second derivatives of the risk in the scores."""
        if self.is_quadratic:
            return self.weights
        n = len(self.y)
        rows, coefs, q = np.empty(n, dtype=np.int64), np.empty(n), np.zeros(n)
        size = self.loss.curved(scores, self.y, self.weights, 0.0, b, rows, coefs)
        q[rows[:size]] = coefs[:size]
        return np.maximum(q, _LEAST_CURVATURE * (float(q.sum()) or 1.0) * self.weights)

    def columns(self, which: NDArray[np.intp]) -> RowOperator:
        """The operator of copies of some columns of X."""
        return self.rows.columns(which)

    def matrix(self, columns: RowOperator, curvature: Array) -> Array:
        """``sum_i q_i x_i x_i'``, q the curvature, minus what the best b removes."""
        total = float(curvature.sum())
        return total * columns.gram(curvature / total, self.free)

    def weighted(self, columns: RowOperator) -> WeightedColumns:
        """Steps in the quadratic with this matrix, without forming it."""
        return WeightedColumns(columns.transposed(), self.free)
