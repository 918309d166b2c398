"""L1 and elastic net with a curved loss: coordinate descent on working sets, with a true bound."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import ROUNDING, SEARCH_STEPS
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss, score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._columns import MET, ColumnModel, violation
from sklearn_bundle.linear.solvers._working_set import SHARPER, Evaluation, Kept, Sweep, WorkingSet
from sklearn_bundle.linear.solvers.gram_path import MOST_FEATURES, WITHIN, GramPath, solve_path
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    Along,
    DualCertificate,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

_FEWEST = 128  # least number of columns in a working set, if there are as many
_NEAR = 0.9  # of the limit: features with larger correlations may be needed soon
# Of tol: a share of the limits below which a working set's violations have to fall at first. The
# gap over the objective is at most the largest violation over its limit.
_SHARE_OF_TOL = 0.3
_OF_OUTSIDE = 0.1  # of the largest violation outside: with less inside, other features are due
_INNER_STEPS = 15  # on one working set
_GAINED = 0.01  # of the gain that the slope at the step's beginning promises
# For squared errors the matrix of all features, if they are few, is formed once and for all if it
# costs at most so many passes: a working set takes about ten. Along a path it is always formed.
_PASSES_AT_ONCE = 20.0


class CoordinateDescentSolver(LinearSolver):
    """The objective is ``reg_lambda Omega(w) + R(w)``, R with the best intercept.

    ``Omega(w) = sum_j t_j |w_j| + ridge/2 ||w||^2``. On sparse data a loss that is not quadratic
    begins with sweeps over all features that are nonzero or violate their optimality condition; see
    :class:`~._working_set.Sweep`. When a matrix is faster, working sets take over.
    A working set has the nonzeros of w and the features with the largest ``|dR/dw_j| / t_j``, at
    most twice as many; see :class:`~._working_set.WorkingSet`. Steps are
    Newton's, on a quadratic that is minimized with the penalty, as long as the objective falls
    enough. When no feature of the set violates its optimality condition by more than a small part
    of its limit, the derivatives for all features give the bound and the next set.

    The derivatives ``g_i = s_i l'(f_i)`` at the best b sum to zero, and so does theta g. Its bound
    is ``D = -sum_i s_i l*(theta g_i / s_i) - reg_lambda Omega*(-theta X'g / reg_lambda)``, where
    theta <= 1 makes ``theta |X'g| <= reg_lambda t`` if there is no ridge; with one, theta = 1 is
    tried as well.

    It starts with the columns that were copied for the last solver of the same data, and with what
    is known about its point, which saves a path one pass over all features per value.
    """

    name = "coordinate-descent"
    needs: ClassVar[type] = LinearProblem
    needs_euclidean: ClassVar[bool] = False
    history_fields: ClassVar[tuple] = (("solver", "U18"),)
    _problem: LinearProblem

    yields_start = True

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        super().__init__(task, kept)
        problem, form = self._problem, task.omega.lasso_form
        assert form is not None
        reg_lambda = task.reg_lambda
        self._limits = np.broadcast_to(reg_lambda * form.thresholds, problem.n_features)
        self._ridge = reg_lambda * form.ridge
        self._model = ColumnModel(problem)
        self._w = np.array(self._start[0])
        self._proved: Array | None = None  # the dual point of the dual certificate
        self._set, sweep, known = kept.of(Kept) or Kept()
        self._is_warm = self._set is not None
        self._sweep = (sweep or Sweep()) if Sweep.suits(self._model) else None
        self._sweeps = self._sweep is not None
        self._scores: Array = ABSENT  # until the first evaluation
        if known is not None and not np.array_equal(known.w, self._w):
            known = None
        self._evaluation = known  # of the current point
        self._precision = _SHARE_OF_TOL * task.tol

    @classmethod
    def form(cls, loss: Loss) -> ScoreLoss | None:
        """The loss if it is a smooth function of one score."""
        found = score_loss(loss)
        return found if found is not None and found.smooth else None

    @classmethod
    def supports(cls, name: str, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is curved and the regularizer L1 or elastic net."""
        lasso = omega.lasso_form
        one_norm = lasso is not None and bool(np.any(lasso.thresholds))
        return one_norm and super().supports(name, loss, omega)

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the problem offers columns and has one score per sample."""
        form = task.omega.lasso_form
        return super().fits(task) and task.problem.n_outputs == 1 and form is not None

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Always: no other solver skips the zeros."""
        return True

    @classmethod
    def along(
        cls, task: Task, reg_lambdas: Sequence[float], max_iter: int, max_time: float | None
    ) -> Along | None:
        """Solutions for squared errors of few features, from products of the columns alone."""
        if not GramPath.is_faster(ColumnModel(task.problem), len(reg_lambdas)):
            return None
        return solve_path(task, cls.name, cls.history_fields, reg_lambdas, max_iter, max_time)

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start."""
        state = Kept(self._set, self._sweep, self._evaluation)
        return LinearStart(point, self.dual_certificate, state=state)

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        self._problem, self._model = problem, ColumnModel(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        self._problem = self._model = ABSENT

    def begin(self) -> None:
        """Evaluate the start, unless it is known."""
        if self._evaluation is None:
            scores = self._problem.point(self._w, None).scores
            assert scores is not None
            self._scores = scores
            self._evaluate()
        else:
            self._record(self._evaluation)

    def step(self) -> None:
        """Improve the point by a sweep or on a working set, and evaluate it."""
        gap = self.best.gap
        if self._sweep is not None and self._sweeps:
            self._step_in_sweep(self._sweep)
        else:
            self._step_in_set(self._chosen())
        self._evaluate()
        self._count_idle(gap)

    def _prove_again(self) -> None:
        if self._proved is not None:
            gradient = self._model.gradient(self._proved)
            self.best.dual_certificate = self._proof(self._proved, gradient)

    def _evaluate(self) -> None:
        """Compute derivatives for all features; offer the point and the bound."""
        g, risk, b = self._model.derive(self._scores)
        gradient = self._model.gradient(g)
        self._record(Evaluation(self._w.copy(), self._scores, g, gradient, risk, b))

    def _record(self, evaluation: Evaluation) -> None:
        """Continue from the point that is known, and offer it and its bound."""
        best, g, b = self.best, evaluation.g, evaluation.b
        self._evaluation, self._scores = evaluation, evaluation.scores
        self._gradient, self._risk = evaluation.gradient, evaluation.risk
        self._point_b, self._g = b, g
        self._value = self._objective(evaluation.w, evaluation.risk)
        if best.point is None and not np.isfinite(self._value):
            raise ValueError(
                "The loss is not finite at the starting point: check the loss, and the scale of X "
                "and y."
            )
        best.offer(self._value, Point(evaluation.w, None, b))
        dual_certificate = self._proof(g, self._gradient)
        if best.raise_bound(dual_certificate.bound(self._omega), dual_certificate):
            self._proved = g

    def _proof(self, g: Array, gradient: Array) -> DualCertificate:
        """The best plane among those of multiples of g."""
        reach = float((np.abs(gradient) / self._limits).max(initial=0.0))
        share = 1.0 if reach <= WITHIN else min(1.0, WITHIN / reach)
        proofs = []
        for theta in {share, 1.0} if self._ridge > 0.0 else {share}:
            plane = theta * gradient, self._model.offset(theta * g)
            proofs.append(DualCertificate(self._lambda, plane))
        return max(proofs, key=lambda dual_certificate: dual_certificate.bound(self._omega))

    def _step_in_sweep(self, sweep: Sweep) -> None:
        model, w = self._model, self._w
        sweep.choose(model, (w != 0.0) | (np.abs(self._gradient) > self._limits))
        which = sweep.which
        limits, a, start = self._limits[which], self._gradient[which], w[which]
        curvature = model.curvature(self._scores, self._point_b)
        new = sweep.minimize(curvature, a, start, limits, self._ridge)
        self._sweeps = sweep.adapt(self._move(sweep, new - start, a, limits))

    def _step_in_set(self, chosen: WorkingSet) -> None:
        self._set = chosen
        model, which = self._model, chosen.which
        limits, g, b = self._limits[which], self._g, self._point_b
        share = max(self._precision, _OF_OUTSIDE * self._outside)
        precision = share * float(limits.min(initial=np.inf))
        a = self._gradient[which]
        for k in range(_INNER_STEPS):
            if k > 0:
                g, _, b = model.derive(self._scores)
                a = chosen.columns(model).gradient(g)
            w = self._w[which]
            worst = violation(a + self._ridge * w, w, limits)
            if worst <= precision:
                break
            chosen.begin(model, model.curvature(self._scores, b))
            enough = precision if model.is_quadratic else max(precision, MET * worst)
            new = chosen.minimize(a, w, limits, self._ridge, enough)
            if self._move(chosen, new - w, a, limits) == 0.0 or model.is_quadratic:
                break

    def _move(self, chosen: WorkingSet | Sweep, along: Array, a: Array, limits: Array) -> float:
        """Go along the step while the objective falls enough; returns the share taken, or 0."""
        if not along.any():
            return 0.0
        direction = chosen.columns(self._model).scores(along)
        w = self._w[chosen.which]
        start = self._penalty(w, limits)
        predicted = float(a @ along) + self._penalty(w + along, limits) - start
        before = self._value
        # The bound's distance is linear in the remaining violations and the objective's is
        # quadratic, so the last steps do not show in it.
        unseen = ROUNDING * abs(before)
        if not predicted <= unseen:
            return 0.0
        t = 1.0
        for _ in range(SEARCH_STEPS):
            scores = self._scores + t * direction
            moved = w + t * along if t < 1.0 else w + along
            if self._model.is_quadratic and t == 1.0:
                value, risk = before, self._risk  # exact: no search is needed
            else:
                point = Point(self._w, scores, 0.0)
                self._problem.set_intercept(point)
                risk = self._problem.risk(point)
                value = before + (risk - self._risk) + self._penalty(moved, limits) - start
            enough = before + _GAINED * t * predicted + unseen
            if value <= enough or (self._model.is_quadratic and t == 1.0):
                self._w[chosen.which] = moved
                self._scores = scores
                self._value, self._risk = value, risk
                return t
            t *= 0.5
        return 0.0

    def _penalty(self, w: Array, limits: Array) -> float:
        return float(limits @ np.abs(w)) + 0.5 * self._ridge * float(w @ w)

    def _chosen(self) -> WorkingSet:
        """The next working set: the same as before if it has all wanted features."""
        gradient, limits, w = self._gradient, self._limits, self._w
        d, model, last = len(w), self._model, self._set
        self._outside = 0.0
        if last is not None and len(last.which) == d:
            self._precision *= SHARPER
            return last
        if self._takes_all_at_once():
            return WorkingSet(np.arange(d), None)
        used = w != 0.0
        reach = np.where(used, 0.0, np.abs(gradient) / limits)
        violated = reach > 1.0 + self._precision
        self._outside = max(float(reach.max(initial=0.0)) - 1.0, 0.0)
        n_used = int(np.count_nonzero(used))
        size = min(max(_FEWEST, 2 * n_used), d)
        wanted = np.flatnonzero(violated)
        if len(wanted) > size - n_used:
            wanted = wanted[np.argpartition(reach[wanted], n_used - size)[n_used - size :]]
        needed = np.union1d(np.flatnonzero(used), wanted)
        if last is not None and np.isin(needed, last.which, assume_unique=True).all():
            self._precision *= SHARPER
            return last
        near = np.flatnonzero((reach > _NEAR) & ~violated)
        work = size - len(needed)
        if 0 < work < len(near):
            near = near[np.argpartition(reach[near], -work)[-work:]]
        which = np.union1d(needed, near) if work > 0 else needed
        return WorkingSet(which, model.columns(which) if len(which) < d else None)

    def _takes_all_at_once(self) -> bool:
        model, d = self._model, len(self._w)
        if not model.is_quadratic or not d < self._problem.n_samples or d > MOST_FEATURES:
            return False
        return self._is_warm or model.rows.gram_passes <= _PASSES_AT_ONCE
