"""Features that coordinate descent works with, and the quadratic that it minimises over them."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle._compiled import lasso
from sklearn_bundle.problems.column_model import ColumnModel, WeightedColumns
from sklearn_bundle.problems.rows import RowOperator

Array = NDArray[np.float64]

_EPOCHS = 5  # of a matrix at least, between steps of Newton's method on the nonzeros,
_MOST_EPOCHS = 2000  # and all in all
# Epochs of a matrix in the time of a Newton step, times p^2 over the cube of the nonzeros: as many
# are done before one.
_NEWTON_COST = 0.08
_CHANGES = 2  # of signs, one after the other, before there are epochs again
_COLUMN_EPOCHS = 10  # of columns, as are reckoned with; of squared errors, which no steps follow,
_QUADRATIC_EPOCHS = 200
_MOST_COLUMN_EPOCHS = 200  # and at most
_MOST_NONZEROS = 2000  # of Newton's method: a factor of 32 MB, about 0.1 s
_RIDGE = 1e-13  # of the diagonal, so that columns that are the same have a factor
_MOST_FEATURES = 4000  # of a matrix: 128 MB
_MATRIX_EPOCHS = 16.0  # passes that a matrix may cost for each epoch of columns that it replaces


class WorkingSet:
    """Some features with their columns.

    A step minimises ``<a, v - w> + (v - w)'H(v - w)/2 + sum_j limits_j |v_j| + ridge/2 ||v||^2``
    over v. With H as a matrix: a few epochs of coordinate descent find the signs, and Newton's
    method solves for the nonzeros; those whose sign would change become 0. That ends after few
    steps however correlated the features are. A matrix of dense columns costs more
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
            self._weighted.descend(a, v, limits, ridge, _MOST_COLUMN_EPOCHS, tol)
            return v
        H = np.ascontiguousarray(self.matrix)
        flat, slopes, spent, longer = H.reshape(-1), np.array(a), 0, 1
        while spent < _MOST_EPOCHS:
            as_long = _NEWTON_COST * np.count_nonzero(v) ** 3 / len(v) ** 2
            epochs = longer * max(_EPOCHS, int(as_long))
            worst, n = lasso.matrix_epochs(flat, slopes, v, limits, ridge, epochs, tol)
            spent += n
            if worst <= tol:
                break
            if not self._solve_for_nonzeros(H, slopes, v, limits, ridge):
                longer *= 2
        return v

    def _solve_for_nonzeros(
        self, H: Array, slopes: Array, v: Array, limits: Array, ridge: float
    ) -> bool:
        """Newton's steps on the nonzeros, in place; whether one was taken.

        Numbers whose sign would change become 0, all at once if that is better than the start.
        """
        moved = False
        for _ in range(_CHANGES):
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
            kept = (v[used] + step) * signs > 0.0
            if kept.all():
                v[used] += step
                slopes += step @ H[used]
                return True
            moved = True
            change = np.where(kept, step, -v[used])
            image = change @ H[used]
            rise = change @ (slopes[used] + 0.5 * image[used])
            rise += 0.5 * ridge * change @ (2.0 * v[used] + change)
            rise += limits[used] @ (np.abs(v[used] + change) - np.abs(v[used]))
            if not rise < 0.0:
                change = _to_first_change(step, v[used], signs)
                image = change @ H[used]
            v[used] += change
            slopes += image
        return moved


def _to_first_change(step: Array, v: Array, signs: Array) -> Array:
    """The part of a step from v up to where a sign changes: that number becomes 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(step * signs < 0.0, -v / step, np.inf)
    length = min(1.0, float(ends.min()))
    return np.where(ends <= length, -v, length * step)
