"""Newton's method on the smoothed risk; a bundle of planes at its points proves the bounds."""

from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT, MOST_STEPS, SEED
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss, Start, score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.newton_model import NewtonModel
from sklearn_bundle.linear.rows.rows import CHEAP_FACTORISATION, factorization
from sklearn_bundle.linear.solvers._descent import COARSEST, FINEST, Descent
from sklearn_bundle.linear.solvers.bundle import ADVICE, BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

SHARES = (16, 4)  # one row out of so many: the first that leaves enough of them
ROWS_A_FEATURE = 50  # of a sample: the optimum of fewer is too far away
# Times features a row of the sample, in units of the targets: the width there at the end. What it
# says of a narrower one is its own and not that of the full problem, which goes on from there.
_NARROWEST = 8.0
LARGEST_SAMPLE = 1 << 25  # bytes that a copy of rows may take: few beside X itself
_SAMPLE_STEPS = 10  # at most: it is a start and not a solution
_SAMPLE_DECREMENT = 1e-3  # times the objective and the square root of the share: of a smooth loss
SHRINK = 0.4  # of the width at a time on a sample
_BALANCED = 1e-2  # of the gap asked for may be lost by a derivative in b that is not quite zero
_SMOOTHED = 0.3  # of the gap asked for may be left by the smoothing
_PATIENCE = 100  # in so many steps the gap has to halve


class _Begin(NamedTuple):
    """Where a descent begins: scale of the features, point, width, factor of a Hessian."""

    scale: Array
    w: Array
    b: float
    width: float
    factor: Array | None = None


class NewtonSolver(LinearSolver):
    """Newton's method in (w, b), on a sample of the rows first; each step on all rows adds a plane.

    A kinked loss is smoothed over a width that shrinks as steps get whole, down to where what the
    smoothing leaves of the gap is a share of ``tol``; the derivatives make planes of the loss
    itself (see :mod:`~.linear._compiled.scores`), so that the bound is exact. It is that of a
    bundle method with these planes. Where Newton's method stalls, that one goes on with line
    searches.

    No sample is taken if the bundle has planes. ``kept.width`` is that of the smoothing, to go on
    with from a bundle.
    """

    needs: ClassVar[type] = LinearProblem
    advice: ClassVar[str] = ADVICE
    name = "newton"
    _problem: LinearProblem
    _descent: Descent | None

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        super().__init__(task, kept)
        self._planes = BundleSolver.of(replace(task, solver="line-search"), kept)
        self.best = self._planes.best
        loss = self.form(self._problem.loss)
        assert loss is not None
        self._loss = loss
        self._units = self._start_of_targets()
        widest = self._units.unit
        self.width = widest if kept.width is None else min(widest, kept.width / SHRINK**2)
        self._descent = None
        self._gaps: list[float] = []
        self._widenings = 0

    @classmethod
    def form(cls, loss: Loss) -> ScoreLoss | None:
        """The loss if its formula is known; squared errors have their own solvers in memory."""
        found = score_loss(loss)
        return None if found is None or found.quadratic else found

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

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        self._planes.attach(problem)
        if self._descent is not None:
            self._descent.attach(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        self._planes.detach()
        if self._descent is not None:
            self._descent.detach()

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute point and bound; memory that only steps need is released before."""
        if self._descent is not None:
            self._descent.release_buffers()
            self.best.point.scores = None
        state = super().confirm(moving=moving)
        self._problem.release_buffers()
        return state

    def _fresh_risk(self, point: Point) -> float:
        """The risk at the best intercept; for a smooth loss its search starts near it."""
        model = None if self._descent is None else self._descent.model
        if model is None or not model.free or not self._loss.smooth:
            return super()._fresh_risk(point)
        units, scores, b = self._units, point.scores, point.intercept
        assert scores is not None and b is not None
        args = scores, self.width, float(b), units.unit, FINEST * units.slope
        point.intercept = model.intercept(*args, np.empty_like(scores))
        return self._problem.risk(point)

    def _start_of_targets(self) -> Start:
        """What follows from the targets alone."""
        model = self._problem.newton_model()
        return self._loss.start(model.y, model.weights, model.free)

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
            self._descent = self._first_descent()
            self._evaluate(self._descent)
        elif self._take_step(descent) and descent.n_steps < MOST_STEPS and not self._is_slow():
            self._evaluate(descent)
        else:
            self.name, self._descent = "line-search", None
            point = self._fresh_point(self.best.point)
            self.best.point = Point(point.w, point.scores, point.intercept, point.drift)
            self._planes.begin_at(point)
            self._planes.step()

    def _is_slow(self) -> bool:
        gaps = self._gaps
        return len(gaps) >= _PATIENCE and not gaps[-1] < 0.5 * gaps[-_PATIENCE]

    def _take_step(self, descent: Descent) -> bool:
        """Take a step, or widen the smoothing if it gained nothing; False after enough of these."""
        if descent.narrow(_SMOOTHED * self._tol * self.best.primal):
            self.width = descent.width
            descent.differentiate()
        if descent.step():
            return True
        if self._loss.smooth or self._widenings == IDLE_LIMIT:
            return False
        self._widenings += 1
        descent.widen(self._units.unit)
        return True

    def _first_descent(self) -> Descent:
        model = self._problem.newton_model()
        w, b = self._start
        b = self._units.intercept if b is None else float(b)
        if self.bundle.is_empty and not w.any():
            problem = self._problem
            cost = factorization(problem.n_features, problem.n_entries)
            cheap = cost <= CHEAP_FACTORISATION
            begin = self._on_sample(SHARES if cheap else (), model, w, b)
        else:
            begin = _Begin(model.rows.column_scale(), w, b, self.width)
            point = self._problem.point(w, b)
            self._offer(point, self._fresh_risk(point))
            if not self.bundle.is_empty:
                self._planes.solve_inner()
        return Descent(model, self._lambda, self._units, *begin)

    def _on_sample(self, shares: tuple[int, ...], full: NewtonModel, w: Array, b: float) -> _Begin:
        """Where a descent begins, from a problem that costs little."""
        enough = ROWS_A_FEATURE * len(w)
        least = -(-full.rows.nbytes // LARGEST_SAMPLE)
        for share in shares:
            share = max(share, least)
            model = full.sample(share, SEED) if len(full.y) // share >= enough else None
            if model is None:
                continue
            scale = model.rows.column_scale()
            descent = self._descended(model, scale, w, b, share)
            full.rows.passes += model.rows.passes // share
            return _Begin(scale, descent.w, descent.b, descent.width, descent.factor)
        return _Begin(full.rows.column_scale(), w, b, self._units.unit)

    def _descended(
        self, model: NewtonModel, scale: Array, w: Array, b: float, share: int
    ) -> Descent:
        """Steps on a sample, from (w, b) to where it says no more of the full problem."""
        unit = self._units.unit
        narrowest = min(1.0, _NARROWEST * len(w) / len(model.y)) * unit
        descent = Descent(model, self._lambda, self._units, scale, w, b, unit, share=share)
        for _ in range(_SAMPLE_STEPS):
            descent.differentiate()
            if (
                descent.risk <= 0.0
                or not descent.step()
                or self._is_done(descent, narrowest, share)
            ):
                break
            if descent.settled:
                descent.width = max(SHRINK * descent.width, narrowest)
        return descent

    def _is_done(self, descent: Descent, narrowest: float, share: int) -> bool:
        if self._loss.smooth:
            objective = self._objective(descent.w, descent.risk)
            return descent.decrement <= _SAMPLE_DECREMENT * np.sqrt(share) * objective
        return descent.settled and descent.width <= narrowest

    def _evaluate(self, descent: Descent) -> None:
        self._cut(descent)
        if self.best.bound > self.best.least:
            self._gaps.append(self.best.gap)

    def _cut(self, descent: Descent) -> None:
        """Plane and bound at the descent's point, which is offered as the best one."""
        self._set_precision(descent)
        descent.differentiate()
        self.bundle.add(descent.gradient, descent.offset)
        point = Point(descent.w, descent.scores, descent.b, 1.0 + descent.n_steps)
        self._offer_copy(point, descent.risk)
        if descent.error <= self._objective(descent.w, descent.risk):
            self._planes.solve_inner()
        # The best b of the loss itself gains no more than about what the smoothing hides.
        missing = self.best.gap - self._tol * self.best.primal
        near = 0.0 < missing <= descent.smoothed
        if near and descent.model.free and not self._loss.smooth:
            descent.release_buffers()
            self._offer_copy(point, self._fresh_risk(point))
            self._problem.release_buffers()

    def _set_precision(self, descent: Descent) -> None:
        """Set how small the derivative in b must be: times the unit, it lowers the plane."""
        units, primal = self._units, self.best.primal
        if np.isfinite(primal):
            share = _BALANCED * self._tol * primal / (units.unit * units.slope)
            descent.precision = units.slope * min(max(share, FINEST), COARSEST)

    def _offer_copy(self, point: Point, risk: float) -> None:
        """Without the scores, which are the descent's; a confirmation computes them afresh."""
        self._offer(Point(point.w, None, point.intercept, point.drift), risk)
