"""L1 and elastic net with a smooth loss of one score: coordinate descent on working sets.

A step takes the features that are used or violate their optimality conditions, minimizes the
quadratic model of the risk plus the penalty over them, and moves as far along as the objective
falls. The derivatives there, scaled so that no feature exceeds its limit, prove the bound.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import DOUBLE
from sklearn_bundle.core.contract import SolverResult, at_once
from sklearn_bundle.core.limits import MOST_SIDE, ROUNDING, SEARCH_STEPS
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import lasso
from sklearn_bundle.linear.certificate import Proof, certify
from sklearn_bundle.linear.risk import Point
from sklearn_bundle.linear.rows import Rows
from sklearn_bundle.linear.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers.base import NOT_FINITE, At, Solver, Start, Task
from sklearn_bundle.linear.solvers.lasso_matrix import Quadratic, reach, violations

Array = NDArray[np.float64]
Places = NDArray[np.intp]
_FEWEST = 128  # features in a working set, if there are as many


class Lasso(Solver):
    """The objective is ``sum_j limits_j |w_j| + ridge/2 ||w||^2 + R(w)``, w >= 0 if asked for."""

    name = "coordinate-descent"
    yields_start = True
    risk: ScoreRisk

    def __init__(self, task: Task, start: Start):
        super().__init__(task, start)
        form, lam, rows = task.omega.lasso_form, task.reg_lambda, task.risk.rows
        self._limits = np.array(np.broadcast_to(lam * form.thresholds, self.risk.dimension), float)
        self._ridge, self._low = lam * form.ridge, 0.0 if task.omega.nonnegative else -np.inf
        # steps over sparse columns take less time than the matrix of as many features
        self._by_columns = sp.issparse(rows.X) and rows.shape[1] > MOST_SIDE
        self._epochs = 10.0

    def begin(self) -> None:
        """Evaluate the start."""
        w, b = self.first()
        w, b = np.maximum(w, self._low), self.risk.units.intercept if b is None else b
        self._evaluate(self.risk.arrive(w, self.risk.scores(w), b))

    def step(self) -> None:
        """Improve the point on a working set, and evaluate it."""
        gap, chosen = self.best.gap, self._choose()
        which, limits, least = chosen.which, self._limits[chosen.which], 0.0
        a = self._a[which]
        # few features first come to rest, or ever more would be used for a while
        for k in range(1 if self._by_columns else 15):
            a, w = chosen.gradient(self.here.g) if k else a, self.here.w[which]
            worst = float(violations(a + self._ridge * w, w, limits, self._low).max(initial=0.0))
            least = least or 0.1 * max(worst, self._outside)
            if k and worst <= least:
                break
            chosen.weigh(self._curvature(), self.risk.free)
            model, enough = (a, w, limits, self._ridge, self._low), 0.25 * 0.1**self.idle * worst
            length = self._move(chosen, chosen.minimize(*model, enough, self._epochs) - w, a)
            # a model that was good up to its end may be trusted for longer
            self._epochs = min(2.0 * self._epochs, 500.0) if length == 1.0 else 10.0
            if not length > 0.0:
                break
        self._evaluate(self.here)
        self.count_idle(gap)

    def _evaluate(self, point: Point) -> None:
        """Take a point, with derivatives for all features; offer it and the bound."""
        self.here = point
        self._a, self._value = self.risk.gradient(point), self.objective(point.w, point.risk)
        if self.best.point is None and not np.isfinite(self._value):
            raise ValueError(NOT_FINITE)
        self.best.offer(self._value, At(point.w, point.b))
        for proof in self._proofs(point):
            self.prove(proof, self._bound(proof))

    def _bound(self, proof: Any) -> float:
        conjugate = self.omega.conjugate(-proof.gradient / self.reg_lambda)
        return self.risk.offset(proof.derivatives) - self.reg_lambda * conjugate

    def _proofs(self, point: Point) -> list[Proof]:
        """Multiples of the derivatives within the limits, despite their rounding."""
        used, within = self._limits > 0.0, 1.0 - 8.0 * DOUBLE
        beyond = reach(self._a, self._low)[used] / self._limits[used]
        share = min(1.0, within / max(float(beyond.max(initial=0.0)), within))
        shares = {share, 1.0} if self._ridge > 0.0 else {share}
        return [Proof(derivatives=t * point.g, gradient=t * self._a) for t in shares]

    def result_at(self, point: Point, seconds: float) -> SolverResult | None:
        """The result with this point, whose gradient is known, if it is within tol."""
        self.here, self._a = point, point.gradient
        proof = max(self._proofs(point), key=self._bound)
        given = self.omega, self.reg_lambda, point.w, point.b, proof
        found = certify(self.risk, *given, scores=point.scores)
        state = self.confirmed(found, point.w, proof)
        if not state.relative_gap <= self.tol:
            return None
        return at_once(state, 1, seconds, self.history_fields)

    def _curvature(self) -> Array:
        """Second derivatives of the risk in the scores."""
        weights = self.risk.weights
        if self.risk.loss.quadratic:
            return weights
        rows, coefs = self.risk.curvature(self.here)
        q = np.zeros_like(weights)
        q[rows] = coefs
        # Relative to their mean: where a loss is straight, steps would be unbounded. With a
        # thousandth of the largest, 300 steps were not enough for what now takes 4.
        return np.maximum(q, 1e-5 * (float(q.sum()) or 1.0) * weights)

    def _move(self, chosen: Any, along: Array, a: Array) -> float:
        """Go along the step while the objective falls enough; returns the share taken, or 0."""
        if not along.any():
            return 0.0
        here, risk, which = self.here, self.risk, chosen.which
        direction, w, limits = chosen.scores(along), here.w[which], self._limits[which]

        def penalty(v: Array) -> float:
            return float(limits @ np.abs(v)) + 0.5 * self._ridge * float(v @ v)

        start = penalty(w)
        predicted = float(a @ along) + penalty(w + along) - start
        # The bound's distance is linear in the remaining violations and the objective's is
        # quadratic, so the last steps do not show in it.
        unseen, t = ROUNDING * abs(self._value), 1.0
        for _ in range(SEARCH_STEPS if predicted <= unseen else 0):
            moved = here.w.copy()
            moved[which] = np.maximum(w + t * along, self._low)
            point = risk.arrive(moved, here.scores + t * direction, here.b)
            gained = point.risk - here.risk + penalty(moved[which]) - start
            # a hundredth of the gain that the slope at the step's beginning promises
            if gained <= 0.01 * t * predicted + unseen or (risk.loss.quadratic and t == 1.0):
                self.here = point
                return t
            t *= 0.5
        return 0.0

    def _choose(self) -> Any:
        """The next working set: the same as before if it has all wanted features."""
        risk, w, d = self.risk, self.here.w, self.risk.dimension
        worth = violations(self._a + self._ridge * w, w, self._limits, self._low)
        self._outside = float(worth[w == 0.0].max(initial=0.0))
        if risk.loss.quadratic and d <= 2 * _FEWEST:  # whose matrix is formed once
            which = np.arange(d)
        else:
            n_used = int(np.count_nonzero(w))
            most = d if self._by_columns else min(max(_FEWEST, 2 * n_used), MOST_SIDE)
            if n_used < most:  # otherwise the most violated ones
                worth[w != 0.0] = np.inf
            which = np.argpartition(worth, d - most)[d - most :] if most < d else np.arange(d)
            which = np.sort(which[worth[which] > 0.0])
        kind, last = (Columns if self._by_columns else Matrix), risk.chosen
        known = isinstance(last, kind) and _are_in(which, last.which)
        if not (known and (kind is Matrix or len(last.which) <= 1.5 * len(which))):
            risk.chosen = kind(risk.rows, which)
        return risk.chosen


def _are_in(some: Places, others: Places) -> bool:
    """Whether all of some features are among others; both ascend."""
    places = np.searchsorted(others, some)
    return bool(len(others) and np.array_equal(others[np.minimum(places, len(others) - 1)], some))


class Matrix:
    """Some features, and the quadratic model of the risk in them by its matrix."""

    def __init__(self, rows: Rows, which: Places):
        self.which, self._curvature = which, np.zeros(0)
        self._rows = rows.columns(which) if len(which) < rows.shape[1] else rows

    def scores(self, along: Array) -> Array:
        """The change of the scores for a change of these features."""
        return self._rows.scores(along)

    def gradient(self, g: Array) -> Array:
        """Its derivatives in these features."""
        return self._rows.gradient(g)

    def weigh(self, curvature: Array, free: bool) -> None:
        """Set the second derivatives of the risk in the scores."""
        if curvature is not self._curvature:
            self._curvature = curvature
            self._matrix = whole_hessian(self._rows, curvature, free)

    def minimize(
        self, a: Array, w: Array, limits: Array, ridge: float, low: float, tol: float, most: float
    ) -> Array:
        """The v, from w on, that violates its optimality by at most ``tol``, or nearly."""
        v = w.copy()
        model = Quadratic(self._matrix, limits, ridge, low)
        # a model that changes gets few epochs
        model.minimize(a.copy(), v, 300, tol, len(self._curvature))
        return v


class Columns:
    """The same by the columns of sparse rows times the roots of the curvature."""

    def __init__(self, rows: Any, which: Places):
        self.which = which
        self._columns = rows.transposed[which]
        self._seed = np.full(1, np.uint64(0x9E3779B97F4A7C15))  # any number except 0

    def scores(self, along: Array) -> Array:
        return self._columns.T @ along

    def weigh(self, curvature: Array, free: bool) -> None:
        C, roots = self._columns, np.sqrt(curvature)
        length = float(np.linalg.norm(roots))
        self._unit = roots / length if free and length > 0.0 else np.zeros_like(roots)
        self._data = C.data * roots[C.indices]
        self._squares = sp.csr_array((C.data * C.data, C.indices, C.indptr), C.shape) @ curvature
        self._mean = sp.csr_array((self._data, C.indices, C.indptr), C.shape) @ self._unit

    def minimize(
        self, a: Array, w: Array, limits: Array, ridge: float, low: float, tol: float, most: float
    ) -> Array:
        """The same in at most so many epochs."""
        v, r, order = w.copy(), np.zeros(len(self._unit)), np.arange(len(w))
        C = self._columns
        indices = C.indices.astype(np.int32, copy=False).view(np.uint32)
        columns = frozen(self._data), frozen(indices), C.indptr.astype(np.uint64)
        given = columns, self._unit, r, self._mean, self._squares
        visits = int(most * len(v)) + 1
        lasso.column_epochs(*given, a, v, limits, ridge, low, order, visits, tol, self._seed)
        return v


def whole_hessian(rows: Rows, curvature: Array, free: bool) -> Array:
    """Both triangles of the Hessian of all rows."""
    lower = rows.hessian(np.arange(len(curvature)), curvature, free)[0]
    return np.tril(lower) + np.tril(lower, -1).T


# ---- many values of reg_lambda at once -----------------------------------------------------------


def solved_at_once(tasks: Sequence[Task]) -> list[SolverResult | None]:
    """Results for descending values of reg_lambda with squared errors, from one matrix.

    All points and all proofs of bounds take few products with the data. None is left to a fit.
    """
    results: list[SolverResult | None] = [None] * len(tasks)
    if not _suits(tasks):
        return results
    risk, start = tasks[0].risk, perf_counter()
    W, zero = _along(tasks)
    width = max(1, (1 << 20) // risk.rows.shape[0])  # scores at a time: 8 MB
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
    n, d = risk.rows.shape
    # 2 passes a value
    few = d <= min(n, 600) and risk.rows.hessian_passes <= 2.0 * len(tasks)
    return few and is_lasso and tasks[0].solver in ("auto", Lasso.name)


def _along(tasks: Sequence[Task]) -> tuple[Array, Point]:
    """The weights of each value, and the point w = 0.

    Violations of x leave a gap of at most ``2 x ||v||_1 + (x / least limit)^2 risk``.
    """
    risk, omega, d = tasks[0].risk, tasks[0].omega, tasks[0].risk.rows.shape[1]
    H = whole_hessian(risk.rows, risk.weights, risk.free)
    zero, W, v = risk.at(np.zeros(d)), np.zeros((len(tasks), d)), np.zeros(d)
    at_zero, low, tol = risk.gradient(zero), 0.0 if omega.nonnegative else -np.inf, tasks[0].tol
    for k, task in enumerate(tasks):
        ridge = task.reg_lambda * omega.lasso_form.ridge
        limits = task.reg_lambda * np.ones(d) * omega.lasso_form.thresholds
        model = Quadratic(H, limits, ridge, low)
        # rounds with what is asked for at the weights of the last one
        for _ in range(4):
            slopes, length = at_zero + H @ v, float(np.abs(v).sum())
            smooth = zero.risk + 0.5 * float(v @ (slopes + at_zero + ridge * v))
            asked = 0.3 * np.sqrt(tol) * float(limits.min())
            if length > 0.0:
                objective = smooth + float(limits @ np.abs(v))
                asked = min(asked, 0.3 * tol * objective / length)
            if model.violation(slopes, v) <= asked:
                break
            model.minimize(slopes, v, 10_000, asked, len(risk.weights))
        W[k] = v
    return W, zero
