"""Features that coordinate descent works with, and the quadratic that it minimises over them."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle._compiled import lasso
from sklearn_bundle.problems.column_model import ColumnModel, WeightedColumns
from sklearn_bundle.problems.rows import RowOperator

Array = NDArray[np.float64]

_EPOCHS = 5  # of a matrix, between steps of Newton's method on the nonzeros,
_MOST_EPOCHS = 1000  # and all in all
_COLUMN_EPOCHS = 10  # of columns, which later steps follow; of squared errors, which none do:
_QUADRATIC_EPOCHS = 200
_MOST_NONZEROS = 2000  # of Newton's method: a factor of 32 MB, about 0.1 s
_RIDGE = 1e-13  # of the diagonal, so that columns that are the same have a factor
_MOST_FEATURES = 4000  # of a matrix: 128 MB
_MATRIX_EPOCHS = 4.0  # passes that a matrix may cost for each epoch of columns that it replaces


class WorkingSet:
    """Some features with their columns.

    A step minimises ``<a, v - w> + (v - w)'H(v - w)/2 + sum_j limits_j |v_j| + ridge/2 ||v||^2``
    over v. With H as a matrix: a few epochs of coordinate descent find the signs, and Newton's
    method solves for the nonzeros, up to where the first of them changes its sign. That ends after
    finitely many steps however correlated the features are. A matrix of dense columns costs more
    than epochs over the columns themselves if there are many of them and it does not last.

    Parameters
    ----------
    which : ndarray of shape (p,)
        Features, in ascending order.
    columns : RowOperator
        Their part of X.

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
        H, once it has been formed.
    """

    def __init__(self, which: NDArray[np.intp], columns: RowOperator):
        self.which, self.columns = which, columns
        self.matrix: Array | None = None
        self._weighted: WeightedColumns | None = None
        self._epochs = _COLUMN_EPOCHS

    def begin(self, model: ColumnModel, curvature: Array) -> None:
        """Second derivatives of the risk in the scores."""
        if model.is_quadratic:
            if self.matrix is not None or self._weighted is not None:
                return
            self._epochs = _QUADRATIC_EPOCHS
        few = len(self.which) <= _MOST_FEATURES
        if few and self.columns.gram_passes <= _MATRIX_EPOCHS * self._epochs:
            self.matrix = model.matrix(self.columns, curvature)
            return
        if self._weighted is None:
            self._weighted = model.weighted(self.columns)
        self._weighted.weigh(curvature)

    def minimise(self, a: Array, w: Array, limits: Array, ridge: float, tol: float) -> Array:
        """The v, from w on; violations of its optimality fall below ``tol``, or it takes long."""
        v, limits = w.copy(), np.ascontiguousarray(limits)
        if self.matrix is None:
            self._weighted.descend(a, v, limits, ridge, self._epochs, tol)
            return v
        H = np.ascontiguousarray(self.matrix)
        flat, slopes, spent, epochs = H.reshape(-1), np.array(a), 0, _EPOCHS
        while spent < _MOST_EPOCHS:
            worst, n = lasso.matrix_epochs(flat, slopes, v, limits, ridge, epochs, tol)
            spent += n
            if worst <= tol:
                break
            if not self._solve_for_nonzeros(H, slopes, v, limits, ridge):
                epochs *= 2
        return v

    def _solve_for_nonzeros(
        self, H: Array, slopes: Array, v: Array, limits: Array, ridge: float
    ) -> bool:
        """Newton's steps on the nonzeros, in place, up to a change of sign; whether one was."""
        moved = False
        for _ in range(_EPOCHS):
            used = np.flatnonzero(v)
            if not 0 < len(used) <= _MOST_NONZEROS:
                return moved
            part = H[np.ix_(used, used)]
            part.flat[:: len(used) + 1] += ridge + _RIDGE * part.diagonal()
            signs = np.sign(v[used])
            right = -(slopes[used] + ridge * v[used] + limits[used] * signs)
            _, step, failed = lapack.dposv(part, right)
            if failed or not np.isfinite(step).all():
                return moved
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.where(step * signs < 0.0, -v[used] / step, np.inf)
            length = min(1.0, float(ends.min()))
            change = length * step
            zero = ends <= length
            change[zero] = -v[used][zero]
            v[used] += change
            slopes += change @ H[used]
            moved = True
            if length == 1.0:
                return True
        return moved
