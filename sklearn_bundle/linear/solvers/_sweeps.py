"""Epochs over the columns of sparse data, for all features that may be nonzero."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.linear.problems.column_model import MET, ColumnModel, WeightedColumns, violation
from sklearn_bundle.linear.solvers._working_set import MOST_FEATURES, newton_cost

Array = NDArray[np.float64]

_DENSEST = 0.1  # largest share of nonzero entries: beyond it, forming a matrix is as fast
_SHARE = 0.3  # of the violation before a step: an epoch that meets no more ends it
_FEW = 30  # times the wanted features: if there are more in all, only these are copied at first
_SPARE = 1.5  # times the wanted features: larger sets are cut down
# Costs in units of an entry in an epoch (1.8 ns): of a product of two entries of a row that a
# matrix sums up or of an entry of the matrix in one of its own epochs, and of forming that entry.
_PRODUCT, _FORMED = 0.5, 16.0
_FEWEST_EPOCHS = 2.0  # in a step, however soon a matrix would pay
# Epochs in the first step, and after a step that was too long: the curvature there says little
# about that of the optimum. Other steps may be followed by one of twice as many.
_TRUSTED_EPOCHS, _MOST_EPOCHS = 10.0, 500.0


class Sweep:
    """Columns of sparse data, and steps over some of them.

    A step is a few epochs in the quadratic of the curvature at w, as in Yuan, Ho and Lin, "An
    improved GLMNET for L1-regularized logistic regression", JMLR 13 (2012), Algorithm 3: far from
    the optimum, where most features are wanted, the matrix of a working set or an exact minimum of
    the quadratic would cost more than it saves. The columns are a copy: those of the first step if
    they are few and suffice for all steps, else all of X.

    Attributes
    ----------
    which : ndarray of shape (p,)
        The features of the steps, in ascending order.
    """

    def __init__(self) -> None:
        self.which = np.zeros(0, np.intp)
        self._stored: Array | sp.csr_array | None = None
        self._known: NDArray[np.intp] | None = None  # features of these columns, None for all
        self._columns: WeightedColumns = ABSENT  # until the first :meth:`choose`
        self._share, self._trusted = _SHARE, _TRUSTED_EPOCHS
        self._matrix_is_faster, self._too_long = False, 0

    @staticmethod
    def suits(model: ColumnModel) -> bool:
        """Whether the data are sparse, and the loss has another curvature at each point."""
        n, d = model.rows.shape
        return not model.is_quadratic and model.rows.n_entries <= _DENSEST * n * d

    def columns(self, model: ColumnModel) -> WeightedColumns:
        """The columns of ``which``."""
        return self._columns

    def choose(self, model: ColumnModel, wanted: NDArray[np.bool_]) -> None:
        """Select the wanted features, or continue with a set that has hardly any others."""
        which, stored = np.flatnonzero(wanted), self._stored
        if stored is None or not (self._known is None or _are_in(which, self._known)):
            few = _FEW * len(which) < model.rows.shape[1]
            self._known = which if few and stored is None else None
            stored = self._stored = model.rows.transposed(self._known)
        few_others = len(self.which) <= _SPARE * len(which)
        if self._columns is not ABSENT and few_others and _are_in(which, self.which):
            return
        self.which = which
        places = which if self._known is None else np.searchsorted(self._known, which)
        self._columns = WeightedColumns(stored[places], model.free)

    def minimize(self, curvature: Array, a: Array, w: Array, limits: Array, ridge: float) -> Array:
        """The end of a step from w, with the gradient a at w."""
        if len(w) == 0:
            return w
        v, limits = w.copy(), np.ascontiguousarray(limits)
        allowed = self._share * violation(a + ridge * w, w, limits)
        epochs_of_matrix = self._epochs_of_matrix(int(np.count_nonzero(w)))
        self._columns.weigh(curvature)
        most = min(epochs_of_matrix, self._trusted)
        epochs = self._columns.sweep(a, v, limits, ridge, most, allowed)
        if epochs <= 1.0:
            self._share *= MET
        self._matrix_is_faster = epochs >= epochs_of_matrix
        return v

    def adapt(self, length: float) -> bool:
        """Note the share of the last step that was taken; returns whether to continue like this."""
        if length == 1.0:
            self._trusted = min(2.0 * self._trusted, _MOST_EPOCHS)
            return not self._matrix_is_faster
        self._trusted = _TRUSTED_EPOCHS
        self._too_long += 1
        return length > 0.0 and self._too_long < IDLE_LIMIT  # text has up to four

    def _epochs_of_matrix(self, n_used: int) -> float:
        """Epochs in the time of a matrix, including its own epochs or Newton's steps."""
        columns: Any = self._columns.entries  # sparse
        size, n_rows = columns.shape
        if size > MOST_FEATURES:
            return np.inf
        entries = max(columns.nnz, 1)
        squares = size * size / entries
        matrix, epoch = 0.5 * _PRODUCT * entries / n_rows + _FORMED * squares, _PRODUCT * squares
        most = matrix + newton_cost(n_used, size) * epoch
        if epoch < 1.0:
            most = min(most, matrix / (1.0 - epoch))
        return max(most, _FEWEST_EPOCHS)


def _are_in(which: NDArray[np.intp], known: NDArray[np.intp]) -> bool:
    return bool(np.isin(which, known, assume_unique=True).all())
