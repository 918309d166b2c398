"""Bundle method whose planes and candidates come from Newton's method on the smoothed risk."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import State
from sklearn_bundle.core.limits import IDLE_LIMIT, MOST_STEPS, SEED
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import Start, score_loss
from sklearn_bundle.linear.problems._costs import CHEAP_FACTORISATION, factorization
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.newton_model import NewtonModel
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._descent import COARSEST, FINEST, Descent
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, LinearStart, PointToStart
from sklearn_bundle.linear.solvers.linear_task import Task
from sklearn_bundle.linear.solvers.protocols import Points, require

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


class NewtonSolver(BundleSolver):
    """Newton's method in (w, b), on a sample of the rows first; each step on all rows adds a plane.

    A kinked loss is smoothed over a width that shrinks as steps get whole, down to where what the
    smoothing leaves of the gap is a share of ``tol``; the derivatives make planes of the loss
    itself (see :mod:`~.linear._compiled.scores`), so that the bound is exact. Where it
    stalls, line search goes on from its bundle and its best point.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda, tol : float
        The regularizer is ``||w||^2 / 2``; the relative gap ``tol`` says how small the width has to
        become.
    theta, bundle, start, dual_certificate
        See :class:`BundleSolver`; no sample is taken if the bundle has planes.
    width : float
        Of the smoothing, to go on with from a bundle.
    """

    needs: ClassVar[type] = LinearProblem
    form: ClassVar[str | None] = "newton_loss"
    needs_euclidean: ClassVar[bool] = True
    _problem: LinearProblem
    _descent: Descent | None

    def __init__(
        self,
        problem: Points,
        reg_lambda: float,
        *,
        tol: float,
        theta: float = 0.1,
        bundle: Bundle | None = None,
        start: PointToStart | None = None,
        dual_certificate: DualCertificate | None = None,
        width: float | None = None,
    ):
        require(problem, self.needs, "newton", "line-search", self.form)
        super().__init__(
            problem,
            reg_lambda,
            theta=theta,
            bundle=bundle,
            start=start,
            dual_certificate=dual_certificate,
        )
        self._tol = tol
        loss = self._problem.newton_loss
        assert loss is not None
        self._loss = loss
        self._units = self._start_of_targets()
        widest = self._units.unit
        self.width = widest if width is None else min(widest, width / SHRINK**2)
        self._descent = None
        self._gaps: list[float] = []
        self._widenings = 0
        self.name = "newton"

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss has a form for Newton's method, and the regularizer is L2."""
        form = score_loss(loss)
        known = form is not None and not form.quadratic
        return super().supports(loss, omega) and known

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from planes, with the width of the last smoothing."""
        shared = cls._shared(task, kept)
        return cls(task.problem, task.reg_lambda, tol=task.tol, width=kept.width, **shared)

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        if self._descent is not None:
            self._descent.attach(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        if self._descent is not None:
            self._descent.detach()

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute point and bound; memory that only steps need is released before."""
        if self._descent is not None:
            self._descent.release_buffers()
            self._best.point.scores = None
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

    def kept(self, point: tuple[Array, float | Array | None]) -> LinearStart:
        """Where a new solver may start: the point, planes, dual certificate and width."""
        return replace(super().kept(point), width=self.width)

    def _start_of_targets(self) -> Start:
        """What follows from the targets alone."""
        model = self._problem.newton_model()
        return self._loss.start(model.y, model.weights, model.free)

    def states(self) -> Iterator[State]:
        """One state per step on all rows; after a stall, one an iteration of line search."""
        if self.name == "newton":
            for _ in self._newton():
                yield self._state()
            self.name = "line-search"
            self._descent, self._idle = None, 0
            point = self._fresh_point(self._best.point)
            self._best.point = Point(point.w, point.scores, point.intercept, point.drift)
            self._begin(point)
        yield from super().states()

    def _newton(self) -> Iterator[None]:
        """Steps, each followed by an evaluation; the first evaluation is at the start."""
        descent, gaps = self._descent, self._gaps
        if descent is None:
            descent = self._descent = self._first_descent()
        elif not self._take_step(descent):
            return
        while descent.n_steps < MOST_STEPS and (
            len(gaps) < _PATIENCE or gaps[-1] < 0.5 * gaps[-_PATIENCE]
        ):
            self._evaluate(descent)
            if self._best.bound > self._best.least:
                gaps.append(self._best.gap)
            yield
            if not self._take_step(descent):
                return

    def _take_step(self, descent: Descent) -> bool:
        """Take a step, or widen the smoothing if it gained nothing; False after enough of these."""
        if descent.narrow(_SMOOTHED * self._tol * self._best.primal):
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
                self._solve_inner()
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
        """Plane and bound at the descent's point, which is offered as the best one."""
        self._set_precision(descent)
        descent.differentiate()
        self.bundle.add(descent.gradient, descent.offset)
        point = Point(descent.w, descent.scores, descent.b, 1.0 + descent.n_steps)
        self._offer_copy(point, descent.risk)
        if descent.error <= self._objective(descent.w, descent.risk):
            self._solve_inner()
        # The best b of the loss itself gains no more than about what the smoothing hides.
        missing = self._best.gap - self._tol * self._best.primal
        near = 0.0 < missing <= descent.smoothed
        if near and descent.model.free and not self._loss.smooth:
            descent.release_buffers()
            self._offer_copy(point, self._fresh_risk(point))
            self._problem.release_buffers()

    def _set_precision(self, descent: Descent) -> None:
        """Set how small the derivative in b must be: times the unit, it lowers the plane."""
        units, primal = self._units, self._best.primal
        if np.isfinite(primal):
            share = _BALANCED * self._tol * primal / (units.unit * units.slope)
            descent.precision = units.slope * min(max(share, FINEST), COARSEST)

    def _offer_copy(self, point: Point, risk: float) -> None:
        """Without the scores, which are the descent's; a confirmation computes them afresh."""
        self._offer(Point(point.w, None, point.intercept, point.drift), risk)
