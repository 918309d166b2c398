"""The features of a step of coordinate descent: a working set, or all that sweeps may change."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import IDLE_LIMIT, MOST_SIDE, RIDGES
from sklearn_bundle.linear._compiled import lasso
from sklearn_bundle.linear.rows.rows import RowOperator
from sklearn_bundle.linear.solvers._columns import MET, ColumnModel, WeightedColumns, violation

Array = NDArray[np.float64]

EPOCHS = 5  # fewest epochs of a matrix between Newton steps on the nonzeros
# Most epochs in all, where Newton steps count as what they cost. A quadratic that is not yet that
# of the optimum gets only the first number.
_MOST_EPOCHS, _MOST_QUADRATIC_EPOCHS = 300.0, 10_000.0
SHARPER = 1e-2  # factor on the violations that are allowed, if nothing else is left to do
# Epochs of a matrix in the time of a Newton step, times p^2 over the cube of the nonzeros: so many
# are done before a step. BLAS accounts for 0.08, copies of parts of the matrix for the rest.
_NEWTON_COST = 0.3
_CHANGES_COST = 300.0  # epochs in the time of the steps that change signs, before epochs again
_CHANGES = 2  # but at least so many steps
_LENGTHS = 4  # step lengths, each half of the one before, that are tried with many changes of sign
_MOST_COLUMN_EPOCHS = 200  # most epochs of columns
# For squared errors with more features than half of H's largest rank: H is nearly singular,
# and hundreds of Newton steps would end at the first change of sign. A proximal term around the
# last point needs a tenth of them. It begins with this part of the mean diagonal of H.
_NEAR = 1e-2
MOST_FEATURES = 4000  # of a matrix: 128 MB
_MATRIX_PASSES = 160.0  # that a matrix may cost: so much do epochs of columns in its place
# Of sweeps.
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
_TRUSTED_EPOCHS, _MOST_SWEPT = 10.0, 500.0


class Evaluation(NamedTuple):
    """What is known about the weights w from all rows and features, for any reg_lambda.

    ``scores`` are those without b, ``g`` has the derivatives ``s_i l'(f_i)`` at the best b, and
    ``gradient`` is ``X'g``.
    """

    w: Array
    scores: Array
    g: Array
    gradient: Array
    risk: float
    b: float


class WorkingSet:
    """Some features with their columns.

    A step minimizes ``<a, v - w> + (v - w)'H(v - w)/2 + sum_j limits_j |v_j| + ridge/2 ||v||^2``
    over v. With H as a matrix, a few epochs of coordinate descent find the signs, and Newton's
    method solves for the nonzeros; those whose sign would change become 0. This ends after a few
    steps however correlated the features are. A matrix of many dense columns that is soon
    recomputed costs more than epochs over the columns themselves.

    Parameters
    ----------
    which : ndarray of shape (p,)
        Features, in ascending order.
    columns : RowOperator or None
        Their part of X; None if these are all features, so that X itself is used.

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
        H, once formed.
    """

    def __init__(self, which: NDArray[np.intp], columns: RowOperator | None):
        self.which, self._columns = which, columns
        self.matrix: Array | None = None
        self._weighted: WeightedColumns | None = None
        self._most_rank, self._is_singular = len(which), False
        self._most_epochs = _MOST_EPOCHS

    def columns(self, model: ColumnModel) -> RowOperator:
        """The features' part of X."""
        return model.rows if self._columns is None else self._columns

    def begin(self, model: ColumnModel, curvature: Array) -> None:
        """Set the second derivatives of the risk in the scores."""
        if model.is_quadratic:
            if self.matrix is not None or self._weighted is not None:
                return
            self._most_epochs = _MOST_QUADRATIC_EPOCHS
            self._is_singular = 2 * len(self.which) > len(model.y)
        columns, few = self.columns(model), len(self.which) <= MOST_FEATURES
        self._most_rank = len(model.y)
        if few and (model.is_quadratic or columns.gram_passes <= _MATRIX_PASSES):
            self.matrix = model.matrix(columns, curvature)
            return
        if self._weighted is None:
            self._weighted = model.weighted(columns)
        self._weighted.weigh(curvature)

    def minimize(self, a: Array, w: Array, limits: Array, ridge: float, tol: float) -> Array:
        """The v, from w on, with violations of optimality below ``tol`` unless it takes long."""
        v, limits = w.copy(), np.ascontiguousarray(limits)
        if self._weighted is not None:
            self._weighted.descend(a, v, limits, ridge, _MOST_COLUMN_EPOCHS, tol)
            return v
        H, slopes, left = np.ascontiguousarray(self.matrix), np.array(a), self._most_epochs
        near = _NEAR * float(H.diagonal().mean()) if self._is_singular else 0.0
        while left > 0.0:
            worst = violation(slopes + ridge * v, v, limits)
            if worst <= tol:
                break
            share = MET * max(worst, 2.0 * tol) if near > 0.0 else tol
            center = v.copy()
            slopes -= near * center
            left -= self._descend(H, slopes, v, limits, ridge + near, share, left)
            slopes += near * center
            near *= MET
        return v

    def _descend(
        self,
        H: Array,
        slopes: Array,
        v: Array,
        limits: Array,
        ridge: float,
        tol: float,
        most: float,
    ) -> float:
        """Take epochs and steps from v, in place, given its slopes; returns the cost in epochs."""
        flat, spent, longer, allowed = H.reshape(-1), 0.0, 1, MET * tol
        while spent < most:
            epochs = longer * max(EPOCHS, int(newton_cost(int(np.count_nonzero(v)), len(v))))
            epochs = min(epochs, int(most - spent) + 1)
            met, n = lasso.matrix_epochs(flat, slopes, v, limits, ridge, epochs, allowed)
            spent += n
            if met <= allowed:
                left = violation(slopes + ridge * v, v, limits)
                if left <= tol:
                    break
                allowed *= min(MET, tol / left)
            cost = self._solve_for_nonzeros(H, slopes, v, limits, ridge)
            spent += cost
            if cost == 0.0:
                longer *= 2
        return spent

    def _solve_for_nonzeros(
        self, H: Array, slopes: Array, v: Array, limits: Array, ridge: float
    ) -> float:
        """Take Newton steps on the nonzeros, in place; returns their cost in epochs of the matrix.

        Numbers whose sign would change become 0, and the steps continue with the rest.
        """
        used = np.flatnonzero(v)
        n_used, cost = len(used), 0.0
        if not 0 < n_used <= MOST_SIDE:
            return 0.0
        whole = H[np.ix_(used, used)]
        whole.flat[:: n_used + 1] += ridge
        x, limits = v[used], limits[used]
        derivatives = slopes[used] + ridge * x
        start, among, part = x.copy(), np.arange(n_used), whole
        for _ in range(self._most_changes(n_used)):
            signs = np.sign(x[among])
            right = -(derivatives[among] + limits[among] * signs)
            step = _newton_step(part, right)
            if step is None:
                break
            cost += newton_cost(len(among), len(v))
            change = _without_changes_of_sign(step, x[among], -right, part)
            x[among] += change
            derivatives += whole[:, among] @ change
            left = x[among] != 0.0
            if left.all():
                break
            among = among[left]
            part = whole[np.ix_(among, among)]
            if len(among) == 0:
                break
        slopes += (x - start) @ H[used]
        v[used] = x
        return cost

    def _most_changes(self, n_used: int) -> int:
        """The most Newton steps; nonzeros far beyond the rank of H are removed one by one."""
        affordable = int(_CHANGES_COST / newton_cost(n_used, len(self.which)))
        beyond = n_used - self._most_rank if n_used > 2 * self._most_rank else 0
        return max(_CHANGES, affordable) + beyond


def newton_cost(n_used: int, size: int) -> float:
    """Cost of a Newton step with ``n_used`` nonzeros, in epochs of the matrix."""
    return _NEWTON_COST * n_used**3 / max(size, 1) ** 2


def _newton_step(H: Array, right: Array) -> Array | None:
    """The solution of ``H step = right``, None if there is none."""
    copy = np.array(H, order="F")
    copy.flat[:: len(copy) + 1] += RIDGES[1] * H.diagonal()
    _, step, failed = lapack.dposv(copy, right, overwrite_a=True)
    return None if failed or not np.isfinite(step).all() else step


def _without_changes_of_sign(step: Array, x: Array, slopes: Array, H: Array) -> Array:
    """A part of the step from x on that lowers the objective; numbers end at 0.

    A shorter step changes fewer signs. If none of the lengths tried will do, the step ends at the
    first change of sign.

    Parameters
    ----------
    slopes : ndarray of shape (k,)
        Of the objective at x, including the penalty.
    H : ndarray of shape (k, k)
        Its second derivatives.
    """
    signs, length = np.sign(x), 1.0
    for _ in range(_LENGTHS):
        kept = (x + length * step) * signs > 0.0
        change = np.where(kept, length * step, -x)
        if length == 1.0 and kept.all():
            return step
        if change @ (slopes + 0.5 * (H @ change)) < 0.0:
            return change
        length *= 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(step * signs < 0.0, -x / step, np.inf)
    length = min(1.0, float(ends.min()))
    return np.where(ends <= length, -x, length * step)


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
            self._trusted = min(2.0 * self._trusted, _MOST_SWEPT)
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


class Kept(NamedTuple):
    """What coordinate descent keeps for the next value of reg_lambda."""

    working_set: WorkingSet | None = None
    sweep: Sweep | None = None
    evaluation: Evaluation | None = None


def _are_in(which: NDArray[np.intp], known: NDArray[np.intp]) -> bool:
    return bool(np.isin(which, known, assume_unique=True).all())
