"""L1 and elastic net with a smooth loss of one score: coordinate descent on working sets.

A step takes the features that are used or violate their optimality conditions, minimizes the
quadratic model of the risk plus the penalty over them, and moves as far along as the objective
falls. The derivatives there, scaled so that no feature exceeds its limit, prove the bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.contract import SolverResult, at_once
from sklearn_bundle.core.limits import ROUNDING, SEARCH_STEPS
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import lasso
from sklearn_bundle.linear.certificate import Proof, certify
from sklearn_bundle.linear.risk import Point
from sklearn_bundle.linear.rows import Rows
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import At, Solver, Start, Task
from sklearn_bundle.linear.solvers.lasso_matrix import LESS, Quadratic, reach, violation

Array = NDArray[np.float64]
Places = NDArray[np.intp]
_FEWEST = 128  # features in a working set, if there are as many
# Of tol: a share of the limits below which violations have to fall at first. The gap over the
# objective is at most the largest violation over its limit.
_SHARE_OF_TOL = 0.3
_OF_OUTSIDE = 0.1  # of the largest violation outside: with less inside, other features are due
_SHARPER = 1e-2  # factor on the violations that are allowed, if nothing else is left to do
_INNER_STEPS = 15  # on one working set
_GAINED = 0.01  # of the gain that the slope at the step's beginning promises
_MOST_MATRIX, _MOST_PASSES = 4000, 160.0  # features of a Gram matrix, and its cost in passes
_MOST_OF_ALL = 1000  # features in one set: with more, a set of few takes a seventh of the time
_AT_ONCE = 20.0  # passes that the matrix of all features may cost for squared errors
_EPOCHS, _EPOCHS_OF_SQUARES = 300, 10_000  # of a matrix: a model that changes gets fewer
_COLUMN_EPOCHS = 200
# Many values at once: features and passes per value that a matrix may cost; scores at a time, 8 MB;
# rounds with what is asked for at the weights of the last one.
_MOST_AT_ONCE, _PASSES_A_VALUE, _SCORES, _ROUNDS = 600, 2.0, 1 << 20, 4
# Of steps over sparse columns without a matrix: the largest share of entries that are stored, and
# epochs in the first step, and later.
_DENSEST, _OF_SWEEP, _TRUSTED, _MOST_TRUSTED = 0.1, 0.3, 10.0, 500.0
# Times of a product of two entries of a row, of an entry of the matrix in its forming, and of one
# in its epochs, in those of an entry in an epoch of columns.
_PRODUCT, _FORMED, _FEWEST_EPOCHS = 0.25, 16.0, 2.0
_FEW = 30  # times the wanted features: if there are more in all, only these are copied at first
# Lower limit of second derivatives, relative to their mean: where a loss is straight, steps would
# be unbounded. With a thousandth of the largest, 300 steps were not enough for what now takes 4.
_LEAST_CURVATURE = 1e-5
_WITHIN = 1.0 - 1e-15  # a plane scaled by this is feasible despite its rounding
_SEED = np.uint64(0x9E3779B97F4A7C15)  # for the order in an epoch: any number except 0


@dataclass
class Kept:
    """What the next value of reg_lambda may use: the point with its gradient; sets, columns."""

    chosen: Any = None
    point: Point | None = None
    columns: Any = None


class Lasso(Solver):
    """The objective is ``sum_j limits_j |w_j| + ridge/2 ||w||^2 + R(w)``, w >= 0 if asked for."""

    name = "coordinate-descent"
    yields_start = True
    keeps_rows = True
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        form, lam = task.omega.lasso_form, task.reg_lambda
        self._limits = np.array(np.broadcast_to(lam * form.thresholds, self.risk.dimension), float)
        self._ridge, self._low = lam * form.ridge, 0.0 if task.omega.nonnegative else -np.inf
        kept = start.of(Kept) or Kept()
        self._chosen, self._known = kept.chosen, kept.point
        self._columns = kept.columns or Columns(self.risk.rows)
        self._is_warm, self._trusted = kept.chosen is not None, _TRUSTED
        self._precision = _SHARE_OF_TOL * task.tol
        if task.omega.unpenalized is not None:  # slopes are in units of the columns' reciprocals
            sizes = self.risk.rows.column_norms[self._limits == 0.0] / len(self.risk.weights) ** 0.5
            self._precision *= float(sizes[sizes > 0.0].min(initial=1.0))
        rows = self.risk.rows
        few_stored = rows.n_entries <= _DENSEST * rows.shape[0] * rows.shape[1]
        self._share, self._outside = _OF_SWEEP, 0.0
        self._sweeps = few_stored and not self.risk.loss.quadratic

    @property
    def reusable(self) -> Kept:
        return Kept(self._chosen, self.here, self._columns)

    def begin(self) -> None:
        """Evaluate the start, unless it is known."""
        w, b = self.first()
        if self._low == 0.0:
            w = np.maximum(w, 0.0)
        known = self._known
        if known is None or not np.array_equal(known.w, w):
            start = self.risk.units.intercept if b is None else b
            known = self.risk.arrive(w.copy(), self.risk.scores(w), start)
        self._evaluate(known)

    def step(self) -> None:
        """Improve the point on a working set, and evaluate it."""
        gap = self.best.gap
        self._chosen = chosen = self._choose()
        self._improve(chosen)
        self._evaluate(self.here)
        self.count_idle(gap)

    def _evaluate(self, point: Point) -> None:
        """Take a point, with derivatives for all features; offer it and the bound."""
        self.here = point
        self._a, self._value = self.risk.gradient(point), self.objective(point.w, point.risk)
        if self.best.point is None and not np.isfinite(self._value):
            raise ValueError(
                "The loss is not finite at the starting point: check the loss, and the scale of X "
                "and y."
            )
        self.best.offer(self._value, At(point.w, point.b))
        for proof in self._proofs(point):
            self.prove(proof, self._bound(proof))

    def _bound(self, proof: Any) -> float:
        conjugate = self.omega.conjugate(-proof.gradient / self.reg_lambda)
        return self.risk.offset(proof.derivatives) - self.reg_lambda * conjugate

    def _proofs(self, point: Point) -> list[Proof]:
        """Multiples of the derivatives within the limits."""
        used = self._limits > 0.0
        beyond = reach(self._a, self._low)[used] / self._limits[used]
        share = min(1.0, _WITHIN / max(float(beyond.max(initial=0.0)), _WITHIN))
        shares = {share, 1.0} if self._ridge > 0.0 else {share}
        return [Proof(derivatives=t * point.g, gradient=t * self._a) for t in shares]

    def result_at(self, point: Point, seconds: float) -> SolverResult | None:
        """The result with this point, whose gradient is known, if it is within tol."""
        self.here, self._a = point, point.gradient
        proofs = self._proofs(point)
        proof = proofs[0] if len(proofs) == 1 else max(proofs, key=self._bound)
        given = self.omega, self.reg_lambda, point.w, point.b, proof
        found = certify(self.risk, *given, scores=point.scores)
        state = self.confirmed(found, point.w, proof)
        if not state.relative_gap <= self.tol:
            return None
        return at_once(state, 1, seconds, self.history_fields)

    def _improve(self, chosen: "Chosen") -> None:
        """Steps on the features of the set until their violations are small."""
        which, limits = chosen.which, self._limits[chosen.which]
        least = float(limits[limits > 0.0].min(initial=np.inf))
        share = max(self._precision, _OF_OUTSIDE * self._outside)
        precision = share * (least if np.isfinite(least) else 1.0)
        quadratic, a = self.risk.loss.quadratic, self._a[which]
        for k in range(1 if self._sweeps else _INNER_STEPS):
            if k > 0:
                a = chosen.rows.gradient(self.here.g)
            w = self.here.w[which]
            worst = violation(a + self._ridge * w, w, limits, self._low)
            if worst <= precision:
                break
            chosen.weigh(self._curvature(), self.risk.free, not self._sweeps)
            enough, most = max(precision, LESS * worst), float(_COLUMN_EPOCHS)
            if self._sweeps:
                enough = self._share * worst
                of_matrix = chosen.epochs_of_matrix(int(np.count_nonzero(w)))
                most = min(self._trusted, of_matrix)
            elif chosen.matrix is not None:
                most = _EPOCHS_OF_SQUARES if quadratic else _EPOCHS
            else:
                enough *= LESS
            new, taken = chosen.minimize(a, w, limits, self._ridge, self._low, most, enough)
            t = self._move(chosen, new - w, a, limits)
            if self._sweeps:
                self._trusted = min(2.0 * self._trusted, _MOST_TRUSTED) if t == 1.0 else _TRUSTED
                self._share *= LESS if taken <= 1.0 else 1.0
                if taken >= of_matrix:
                    self._sweeps, self._chosen = False, None
            if t == 0.0 or quadratic:
                break

    def _curvature(self) -> Array:
        """Second derivatives of the risk in the scores."""
        weights = self.risk.weights
        if self.risk.loss.quadratic:
            return weights
        rows, coefs = self.risk.curvature(self.here)
        q = np.zeros_like(weights)
        q[rows] = coefs
        return np.maximum(q, _LEAST_CURVATURE * (float(q.sum()) or 1.0) * weights)

    def _move(self, chosen: "Chosen", along: Array, a: Array, limits: Array) -> float:
        """Go along the step while the objective falls enough; returns the share taken, or 0."""
        if not along.any():
            return 0.0
        here, risk, which = self.here, self.risk, chosen.which
        direction, w = chosen.scores(along), here.w[which]

        def penalty(v: Array) -> float:
            return float(limits @ np.abs(v)) + 0.5 * self._ridge * float(v @ v)

        start = penalty(w)
        predicted = float(a @ along) + penalty(w + along) - start
        # The bound's distance is linear in the remaining violations and the objective's is
        # quadratic, so the last steps do not show in it.
        unseen, t = ROUNDING * abs(self._value), 1.0
        for _ in range(SEARCH_STEPS if predicted <= unseen else 0):
            moved = here.w.copy()
            moved[which] = w + t * along
            if self._low == 0.0:
                np.maximum(moved, 0.0, out=moved)
            point = risk.arrive(moved, here.scores + t * direction, here.b)
            gained = point.risk - here.risk + penalty(moved[which]) - start
            if gained <= _GAINED * t * predicted + unseen or (risk.loss.quadratic and t == 1.0):
                self.here, self._value = point, self._value + gained
                return t
            t *= 0.5
        return 0.0

    def _choose(self) -> "Chosen":
        """The next working set: the same as before if it has all wanted features."""
        d, w, last, limits = self.risk.dimension, self.here.w, self._chosen, self._limits
        self._outside = 0.0
        if last is not None and len(last.which) == d:
            self._precision *= _SHARPER
            return last
        n, rows = self.risk.rows.shape[0], self.risk.rows
        cheap = self._is_warm or rows.hessian_passes <= _AT_ONCE
        if self.risk.loss.quadratic and d < n and d <= _MOST_OF_ALL and cheap:
            return Chosen(np.arange(d), rows)
        used = w != 0.0
        least = np.finfo(float).tiny
        beyond = np.where(used, 0.0, reach(self._a, self._low) / np.maximum(limits, least))
        self._outside = max(float(beyond[limits > 0.0].max(initial=0.0)) - 1.0, 0.0)
        wanted = np.flatnonzero(beyond > 1.0 + self._precision)
        size = d if self._sweeps else max(_FEWEST, 2 * int(np.count_nonzero(used)))
        most = max(size - int(np.count_nonzero(used)), 1)
        if len(wanted) > most:
            wanted = wanted[np.argpartition(beyond[wanted], -most)[-most:]]
        used[wanted] = True
        which = np.flatnonzero(used)
        if last is not None and _are_in(which, last.which):
            few = len(last.which) <= 1.5 * len(which) or not self._sweeps
            if len(wanted) == 0:
                self._precision *= _SHARPER
            if few:
                return last
        if self._sweeps:
            return Chosen(which, None, self._columns.of(which))
        return Chosen(which, rows.columns(which) if len(which) < d else rows)


def _are_in(some: Places, others: Places) -> bool:
    """Whether all of some features are among others; both ascend."""
    places = np.searchsorted(others, some)
    return bool(len(others) and np.array_equal(others[np.minimum(places, len(others) - 1)], some))


def solved_at_once(tasks: Sequence[Task]) -> list[SolverResult | None]:
    """Results for descending values of reg_lambda with squared errors, from one matrix.

    All points and all proofs of bounds take few products with the data. None is left to a fit.
    """
    results: list[SolverResult | None] = [None] * len(tasks)
    if not _suits(tasks):
        return results
    risk, start = tasks[0].risk, perf_counter()
    W, zero = _along(tasks)
    width = max(1, _SCORES // risk.rows.shape[0])
    for first in range(0, len(tasks), width):
        some = W[first : first + width]
        scores = risk.rows.scores(some)
        points = [risk.arrive(w, f, zero.b) for w, f in zip(some, scores, strict=True)]
        slopes = risk.rows.gradient(np.array([point.g for point in points]))
        for k, (point, a) in enumerate(zip(points, slopes, strict=True), start=first):
            if np.isfinite(a).all():
                point.gradient, seconds = a, (perf_counter() - start) / (k + 1)
                results[k] = Lasso(tasks[k], Start()).result_at(point, seconds)
    return results


def _suits(tasks: Sequence[Task]) -> bool:
    """Whether a matrix costs less than as many fits, one after the other."""
    risk, omega = tasks[0].risk, tasks[0].omega
    if not isinstance(risk, ScoreRisk) or not (risk.is_compiled and risk.loss.quadratic):
        return False
    is_lasso = omega.lasso_form is not None and omega.unpenalized is None
    (n, d), cost = risk.rows.shape, risk.rows.hessian_passes
    few = d <= min(n, _MOST_AT_ONCE) and cost <= _PASSES_A_VALUE * len(tasks)
    return few and is_lasso and tasks[0].solver in ("auto", Lasso.name)


def _along(tasks: Sequence[Task]) -> tuple[Array, Point]:
    """The weights of each value, and the point w = 0.

    Violations of x leave a gap of at most ``2 x ||v||_1 + (x / least limit)^2 risk``.
    """
    risk, omega, (n, d) = tasks[0].risk, tasks[0].omega, tasks[0].risk.rows.shape
    H = _both_triangles(risk.rows.hessian(np.arange(n), risk.weights, risk.free)[0])
    zero, W, v = risk.at(np.zeros(d)), np.zeros((len(tasks), d)), np.zeros(d)
    at_zero, low, tol = risk.gradient(zero), 0.0 if omega.nonnegative else -np.inf, tasks[0].tol
    for k, task in enumerate(tasks):
        ridge = task.reg_lambda * omega.lasso_form.ridge
        limits = task.reg_lambda * np.ones(d) * omega.lasso_form.thresholds
        for _ in range(_ROUNDS):
            slopes, length = at_zero + H @ v, float(np.abs(v).sum())
            smooth = zero.risk + 0.5 * float(v @ (slopes + at_zero + ridge * v))
            asked = _SHARE_OF_TOL * np.sqrt(tol) * float(limits.min())
            if length > 0.0:
                objective = smooth + float(limits @ np.abs(v))
                asked = min(asked, _SHARE_OF_TOL * tol * objective / length)
            if violation(slopes + ridge * v, v, limits, low) <= asked:
                break
            Quadratic(H, limits, ridge, low).minimize(slopes, v, _EPOCHS_OF_SQUARES, asked, n)
        W[k] = v
    return W, zero


def _both_triangles(lower: Array) -> Array:
    return np.tril(lower) + np.tril(lower, -1).T


class Columns:
    """Copies of columns of sparse data: of a first step's if these are few, or of all of X."""

    def __init__(self, rows: Rows):
        self._rows, self._known = rows, np.zeros(0, np.intp)
        self._stored: Any = None

    def of(self, which: Places) -> Any:
        """The transposed columns of these features, in ascending order."""
        d = self._rows.shape[1]
        if not (len(self._known) == d or _are_in(which, self._known)):
            few = self._stored is None and _FEW * len(which) < d
            self._known = which if few else np.arange(d)
            self._stored = self._rows.transposed(which if few else None)
        return self._stored[np.searchsorted(self._known, which)]


@dataclass
class Chosen:
    """Some features with their columns, and the quadratic model of the risk in them.

    The model is a matrix if that costs little, or the columns times the roots of the curvature.
    Sweeps have no rows: they need the columns alone.
    """

    which: Places
    rows: Any  # Rows or None
    columns: Any = None
    matrix: Array | None = None
    rank: int = 0  # of the matrix, at most
    _seed: Any = field(default_factory=lambda: np.full(1, _SEED))
    _weighed: Array | None = None

    def scores(self, along: Array) -> Array:
        """The change of the scores for a change of these features."""
        return self.columns.T @ along if self.rows is None else self.rows.scores(along)

    def epochs_of_matrix(self, n_used: int) -> float:
        """Epochs of columns in the time of a matrix and a Newton step on what is used."""
        (size, n), entries = self.columns.shape, max(self.columns.nnz, 1)
        if size > _MOST_MATRIX:
            return np.inf
        forming = _PRODUCT * entries / n + _FORMED * size**2 / entries
        return max(forming + _PRODUCT * n_used**3 / entries, _FEWEST_EPOCHS)

    def weigh(self, curvature: Array, free: bool, may_form: bool) -> None:
        """Set the second derivatives of the risk in the scores; a matrix if it may be one."""
        if curvature is self._weighed:
            return
        self._weighed, few = curvature, len(self.which) <= _MOST_MATRIX
        if may_form and few and self.rows.hessian_passes <= _MOST_PASSES:
            lower, _ = self.rows.hessian(np.arange(len(curvature)), curvature, free)
            self.matrix, self.rank = _both_triangles(lower), len(curvature)
            return
        if self.columns is None:
            self.columns = self.rows.transposed()
        self._weigh_columns(np.sqrt(curvature), free)

    def _weigh_columns(self, roots: Array, free: bool) -> None:
        length = float(np.linalg.norm(roots))
        self._unit = roots / length if free and length > 0.0 else np.zeros_like(roots)
        C = self.columns
        if sp.issparse(C):
            self._data = C.data * roots[C.indices]
            self._squares = sp.csr_array((C.data * C.data, C.indices, C.indptr), C.shape) @ roots**2
            self._mean = sp.csr_array((self._data, C.indices, C.indptr), C.shape) @ self._unit
            indices = C.indices.astype(np.int32, copy=False).view(np.uint32)
            places = frozen(indices), C.indptr.astype(np.uint64), 0
        else:
            weighted = C * roots
            self._data = weighted.reshape(-1)
            self._squares = np.einsum("ji,ji->j", weighted, weighted)
            self._mean = weighted @ self._unit
            places = frozen(np.zeros(0, np.uint32)), np.zeros(0, np.uint64), C.shape[1]
        self._places = places

    def minimize(
        self, a: Array, w: Array, limits: Array, ridge: float, low: float, most: float, tol: float
    ) -> tuple[Array, float]:
        """The v, from w on, that violates its optimality by at most ``tol``, or nearly; epochs."""
        v = w.copy()
        if self.matrix is not None:
            model = Quadratic(self.matrix, limits, ridge, low)
            model.minimize(a.copy(), v, int(most), tol, self.rank)
            return v, 0.0
        r, order = np.zeros(len(self._unit)), np.arange(len(v))
        given = a, v, limits, ridge, low, order, int(most * len(v)) + 1, tol, self._seed
        columns = frozen(self._data), *self._places, self._unit, r, self._mean, self._squares
        _, visits = lasso.column_epochs(*columns, *given)
        return v, visits / len(v)
