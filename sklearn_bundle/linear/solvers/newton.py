"""Newton's method on the smoothed risk; a bundle of planes at its points proves the bounds."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT, MOST_SIDE, MOST_STEPS
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss, score_loss
from sklearn_bundle.linear.problems.kink_rows import is_small, solved_at_kinks, takes_all_rows
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.memory_risk import MemoryRisk
from sklearn_bundle.linear.problems.round_risk import RoundRisk
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.problems.score_risk import ScoreRisk
from sklearn_bundle.linear.solvers._descent import COARSEST, FINEST, NewtonDescent
from sklearn_bundle.linear.solvers.bundle import ADVICE, BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.protocols import Points, offers
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

# Times features a row of the sample, in units of the targets: the width there at the end. What it
# says of a narrower one is its own and not that of the full problem, which goes on from there.
_NARROWEST = 8.0
_SAMPLE_STEPS = 10  # at most: it is a start and not a solution
_SAMPLE_DECREMENT = 1e-3  # times the objective and the square root of the share: of a smooth loss
_SHRINK = 0.4  # of the width at a time on a sample
_BALANCED = 1e-2  # of the gap asked for may be lost by a derivative in b that is not quite zero
_SMOOTHED = 0.3  # of the gap asked for may be left by the smoothing
_UNBALANCED = 0.5  # of the gap: a point that promises no more gets a plane to balance its own with
_PATIENCE = 100  # in so many steps the gap has to halve
_NEAR_END = 1e-3  # relative gap from which few rows cross their kinks,
_NEARER = 0.1  # and its share from which a method that has failed is tried again


class NewtonSolver(LinearSolver):
    """Newton's method in (w, b), on a sample of the rows first; each step on all rows adds a plane.

    A kinked loss is smoothed over a width that shrinks as steps get whole, down to where what the
    smoothing leaves of the gap is a share of ``tol``; the derivatives make planes of the loss
    itself (see :mod:`~.linear._compiled.scores`), so that the bound is exact. It is that of a
    bundle method with these planes. Where Newton's method stalls, that one goes on with line
    searches.

    For a smooth loss in memory a step from a Hessian of all rows has a plane of its own, by the
    derivatives that its quadratic model has at the end of the whole step. Where none of them has
    to be held back to what the loss has, their sum is that at the optimum of the model, ``X'g =
    -reg_lambda w``, and the gap of w and this plane is what the model misses of the loss alone. In
    the gap of the plane at w there is the rest of the gradient over reg_lambda.

    If all rows of a loss with one kink are in memory, an interior-point method on the rows near
    their kinks is tried: of few rows instead of the first step, and where the gap is small before
    the next one. See :mod:`~.linear.problems.kink_rows`.

    Where rows lie on workers the intercept is a coordinate of the planes, and only planes whose
    coefficients of b cancel prove anything: where all have one sign, a round cuts one beyond the
    best b. After a round with a step of 1 the next step follows at once.

    No sample is taken if the bundle has planes. ``kept.width`` is that of the smoothing, to go on
    with from a bundle.
    """

    needs: ClassVar[type] = Points
    advice: ClassVar[str] = ADVICE
    name = "newton"
    _problem: LinearProblem | RowBlocks
    _descent: NewtonDescent | None

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        super().__init__(task, kept)
        self._planes = BundleSolver.of(replace(task, solver="line-search"), kept)
        self.best = self._planes.best
        self._is_fresh = self.bundle.is_empty and not self._start[0].any()
        self._point = self._point_to_move()
        self._loss, self._units = self._point.loss, self._point.units
        widest = self._units.unit
        self.width = widest if kept.width is None else min(widest, kept.width / _SHRINK**2)
        self._descent = None
        self._gaps: list[float] = []
        self._end_from = _NEAR_END
        self._is_first, self._widenings = True, 0

    @classmethod
    def form(cls, loss: Loss) -> ScoreLoss | None:
        """The loss if its formula is known."""
        return score_loss(loss)

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Squared errors are for rows on workers only: in memory there are better ways."""
        problem = task.problem
        if isinstance(problem, RowBlocks):
            return problem.newton_loss is not None
        found = cls.form(problem.loss)
        return offers(problem, LinearProblem) and found is not None and not found.quadratic

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """For few rows with one kink each; on workers, where it needs the fewest rounds."""
        problem = task.problem
        if isinstance(problem, RowBlocks):
            return problem.n_features <= MOST_SIDE
        found = cls.form(problem.loss)
        return found is not None and found.has_one_kink and is_small(problem)

    def _point_to_move(self) -> ScoreRisk:
        problem = self._problem
        if isinstance(problem, RowBlocks):
            return RoundRisk(problem, hessians=True, sampled=self._is_fresh)
        return problem.score_risk()

    @property
    def bundle(self) -> Bundle:
        """The planes."""
        return self._planes.bundle

    @property
    def multiplications(self) -> float:
        """Multiplications so far in the inner problems."""
        return self._planes.multiplications

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: the point, planes, dual certificate and width."""
        return replace(self._planes.kept(point), width=self.width)

    def attach(self, problem: LinearProblem | RowBlocks) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        self._planes.attach(problem)
        self._point.attach(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        self._planes.detach()
        self._point.detach()

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute point and bound; memory that only steps need is released before."""
        if self._descent is not None:
            self._point.release_buffers()
            self.best.point.scores = None
        state = super().confirm(moving=moving)
        self._problem.release_buffers()
        return state

    def _fresh_risk(self, point: Point) -> float:
        """The risk at the best intercept; for a smooth loss its search starts near it."""
        at = self._point
        smooth = self._descent is not None and at.free and self._loss.smooth
        if not (smooth and isinstance(at, MemoryRisk)):
            return super()._fresh_risk(point)
        precision = FINEST * self._units.slope
        b, scores = float(point.intercept), point.scores
        point.intercept = at.best_intercept(scores, self.width, b, precision)
        return self._problem.risk(point)

    def begin(self) -> None:
        """Nothing: the first step evaluates the start."""

    @property
    def is_at_end(self) -> bool:
        """Whether line search, which continues, gains no more."""
        return self.name == "line-search" and self._planes.is_at_end

    def step(self) -> None:
        """A step and an evaluation on all rows; the first evaluation is at the start.

        After a stall it is an iteration of line search.
        """
        descent = self._descent
        if self.name == "line-search":
            self._planes.step()
        elif descent is None:
            if not self._solve_all_rows():
                self._descent = self._first_descent()
                self._evaluate(self._descent)
        elif self._end(descent):
            pass
        elif self._take_step(descent) and descent.n_steps < MOST_STEPS and not self._is_slow():
            self._evaluate(descent)
        else:
            self.name, self._descent = "line-search", None
            self._point.release()
            point = self._fresh_point(self.best.point)
            self.best.point = Point(point.w, point.scores, point.intercept, point.drift)
            self._planes.begin_at(point)
            self._planes.step()

    def _solve_all_rows(self) -> bool:
        """Try to solve a problem at once, all of whose rows count as near their kinks."""
        problem, (w, b), is_first, self._is_first = (
            self._problem,
            self._start,
            self._is_first,
            False,
        )
        if not (is_first and self._loss.has_one_kink and isinstance(problem, LinearProblem)):
            return False
        if not takes_all_rows(problem):
            return False
        b = self._units.intercept if b is None else float(np.ravel(b)[0])
        if not self._is_fresh:
            self._offer_start(w, b)
        return self._solve_at_kinks(w, b, problem.rows.scores(w), _SMOOTHED * self._tol)

    def _end(self, descent: NewtonDescent) -> bool:
        """Try to solve the problem from the rows near their kinks; whether ``tol`` is reached."""
        at, best = descent.point, self.best
        relative = best.gap / best.primal if best.primal > 0.0 else np.inf
        if not (self._tol < _NEAR_END and relative <= self._end_from):
            return False
        self._end_from = _NEARER * relative
        return isinstance(at, MemoryRisk) and self._solve_at_kinks(at.w, at.b, at.scores)

    def _solve_at_kinks(self, w: Array, b: float, scores: Array, tol: float = 0.0) -> bool:
        problem, best = self._problem, self.best
        if not (self._loss.has_one_kink and isinstance(problem, LinearProblem)):
            return False
        found = solved_at_kinks(problem, self._loss, self._lambda, w, b, scores, tol)
        if found is None:
            return False
        self.bundle.add(*found.plane, None)
        self._prove(found.plane)
        point = problem.point(found.w, found.b)
        risk = self._fresh_risk(point)
        self._offer(Point(found.w, None, point.intercept, 1.0), risk)
        problem.release_buffers()
        return best.gap <= self._tol * best.primal

    def _is_slow(self) -> bool:
        gaps = self._gaps
        return len(gaps) >= _PATIENCE and not gaps[-1] < 0.5 * gaps[-_PATIENCE]

    def _take_step(self, descent: NewtonDescent) -> bool:
        """Take a step, or widen the smoothing if it gained nothing; False after enough of these."""
        if descent.narrow(_SMOOTHED * self._tol * self.best.primal):
            self.width = descent.width
            descent.evaluate()
        if descent.step():
            return True
        if self._loss.smooth or self._widenings == IDLE_LIMIT:
            return False
        self._widenings += 1
        descent.widen(self._units.unit)
        return True

    def _first_descent(self) -> NewtonDescent:
        at, (w, b), width, factor = self._point, self._start, self.width, None
        b = self._units.intercept if b is None else float(np.ravel(b)[0])
        sampled = at.sample() if self._is_fresh else None
        if sampled is not None:
            begin, share = sampled
            begin.go(w, b)
            descent = self._descended(begin, share)
            at.count(begin, share)
            w, b, width = begin.w, begin.b, descent.width
            factor = descent.factor if at.keeps_scores else None
        elif at.keeps_scores and not self._is_fresh:
            self._offer_start(w, b)
        at.go(w, b)
        return NewtonDescent(at, self._lambda, width, factor)

    def _offer_start(self, w: Array, b: float) -> None:
        point = self._problem.point(w, b)
        self._offer(point, self._fresh_risk(point))
        if not self.bundle.is_empty:
            self._planes.solve_inner()

    def _descended(self, begin: ScoreRisk, share: int) -> NewtonDescent:
        """Steps on a sample to where it says no more of the full problem."""
        unit, begin.detail = self._units.unit, share  # a Hessian may take as long as on all rows
        narrowest = min(1.0, _NARROWEST * len(begin.w) / begin.n_samples) * unit
        descent = NewtonDescent(begin, self._lambda, unit)
        for _ in range(_SAMPLE_STEPS):
            descent.evaluate()
            if begin.risk <= 0.0 or not descent.step() or self._is_done(descent, narrowest, share):
                break
            if descent.settled:
                descent.width = max(_SHRINK * descent.width, narrowest)
        return descent

    def _is_done(self, descent: NewtonDescent, narrowest: float, share: int) -> bool:
        if self._loss.smooth:
            objective = self._objective(descent.w, descent.point.risk)
            return descent.decrement <= _SAMPLE_DECREMENT * np.sqrt(share) * objective
        return descent.settled and descent.width <= narrowest

    def _evaluate(self, descent: NewtonDescent) -> None:
        self._cut(descent)
        if self.best.bound > self.best.least:
            self._gaps.append(self.best.gap)

    def _cut(self, descent: NewtonDescent) -> None:
        """Plane and bound at the descent's point, which is offered as the best one."""
        at = descent.point
        self._set_precision(descent)
        descent.evaluate()
        point = Point(at.w, None, at.intercept, 1.0 + descent.n_steps)
        # Without the scores, which are the descent's; a confirmation computes them afresh.
        self._offer(point, at.risk)
        descent.asked = self._tol * self.best.primal
        if self._is_proven_by_model(descent):
            return
        self._take_planes()
        if descent.error <= self._objective(at.w, at.risk):
            self._planes.solve_inner()
        promised = descent.smoothed + descent.error
        # With a quadratic loss the next step ends at the optimum, where no plane has a balance.
        ends = self._loss.quadratic and descent.error > self._tol * self.best.primal
        if self.bundle.balance.any() and promised <= _UNBALANCED * self.best.gap and not ends:
            at.cut_on_other_side(descent.width)
            self._take_planes()
            self._planes.solve_inner()
        # The best b of the loss itself gains no more than about what the smoothing hides.
        missing = self.best.gap - self._tol * self.best.primal
        near = 0.0 < missing <= descent.smoothed
        if near and isinstance(at, MemoryRisk) and at.free and not self._loss.smooth:
            at.release_buffers()
            point = Point(at.w, at.scores, at.b, point.drift)
            risk = self._fresh_risk(point)
            self._offer(Point(point.w, None, point.intercept, point.drift), risk)
            self._problem.release_buffers()

    def _is_proven_by_model(self, descent: NewtonDescent) -> bool:
        """Whether the model of the last step proves the gap; if it promises to, it is tried."""
        model = self._point.take_model()
        if model is None:
            return False
        allowed = self._tol * self.best.primal
        gap = self.best.primal - model.offset + 0.5 * self._lambda * float(model.w @ model.w)
        promises = gap <= allowed
        if promises:
            plane = gradient, offset = self._point.plane_of(model)
            self.bundle.add(*plane, None)
            self._prove(plane)
            gap = self.best.primal - offset + float(gradient @ gradient) / (2.0 * self._lambda)
        descent.learn_from_model(gap)
        return promises and self.best.gap <= allowed

    def _take_planes(self) -> None:
        """Into the bundle; one on workers that is balanced proves a bound by itself."""
        for gradient, offset, balance in self._point.take_planes():
            self.bundle.add(gradient, offset, balance)
            if balance is not None and balance[0] == 0.0:
                self._prove((gradient, offset))

    def _set_precision(self, descent: NewtonDescent) -> None:
        """Set how small the derivative in b must be: times the unit, it lowers the plane."""
        units, primal = self._units, self.best.primal
        if np.isfinite(primal):
            share = _BALANCED * self._tol * primal / (units.unit * units.slope)
            descent.precision = units.slope * min(max(share, FINEST), COARSEST)
