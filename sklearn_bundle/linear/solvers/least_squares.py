"""Squared errors with a quadratic regularizer: normal equations, or conjugate gradients."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.regression import SquaredErrors, squared_errors
from sklearn_bundle.linear.problems.linear import LARGEST_RISK, LinearProblem, Plane, Point
from sklearn_bundle.linear.problems.normal_equations import NormalEquations, SampleSolution, Step
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    DualCertificate,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

_REFRESHED = 50  # steps after which scores are recomputed, so that rounding does not accumulate
_IDLE_SOLUTIONS = 3  # steps without progress, if each is a solution
_CHEAP = 16.0  # passes that matrix and factor may cost at once: eight steps without them


class _Residuals(NamedTuple):
    """Residuals, given by their scores, with the plane that they give."""

    scores: Array
    plane: Plane


class LeastSquaresSolver(LinearSolver):
    """Conjugate gradients, which a Cholesky factor turns into a direct solution.

    The objective is ``reg_lambda w'Bw / 2 + sum_i s_i r_i' M r_i / 2`` with residuals r that have
    the best intercept. Steps are those of conjugate gradients on its gradient in w, preconditioned
    with the diagonal of the Hessian or with its Cholesky factor, each with an exact line search.
    With the factor the first step is the solution up to rounding, and further ones refine it, so
    that a nearly singular matrix costs steps, but not the certificate. If the factor is cheap, the
    first step needs no residuals: with the products of columns and target it costs three passes
    over X, one for the matrix, one for the scores, one for the plane.

    Residuals are a dual point: each step adds a plane from the data, whose bound is
    ``D(r) = sum_i s_i r_i' M (y_i - r_i / 2) - ||X'S r M||^2 / (2 reg_lambda)`` with centered y.
    The best r between the newest residuals and those of the best bound has a closed form.

    The cheaper way is not known in advance: conjugate gradients get as many passes as matrix and
    factor would cost, then these are computed; at once if they cost only a few passes. By its name
    a solver uses the factor from the first step on ("newton"), or never ("conjugate-gradient"),
    which is for data with many rows and many columns.

    It starts with the matrices that the last solver of the same data has formed.
    """

    name = "newton"
    needs: ClassVar[type] = LinearProblem
    needs_euclidean: ClassVar[bool] = False
    history_fields: ClassVar[tuple] = (("solver", "U18"),)
    _problem: LinearProblem

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        super().__init__(task, kept)
        problem, normal_equations = self._problem, kept.of(NormalEquations)
        self._by_name = None if task.solver == "auto" else task.solver == "newton"
        if normal_equations is None:
            found = self.form(problem.loss)
            assert found is not None
            data = problem.rows, problem.target, problem.weights
            how = problem.fit_intercept, found.metric, task.omega
            normal_equations = NormalEquations(*data, *how)
        else:
            normal_equations.attach(problem.rows, problem.target, problem.weights)
        self._equations = normal_equations
        self._w = self._start[0]
        self._here: _Residuals = ABSENT  # those of w, until the first step
        self.name = "conjugate-gradient"
        self._solve: Step | None = None  # a preconditioner
        self._samples: SampleSolution | None = None  # instead of it, for wide data
        self._along: tuple[Array, Array, float] | None = None  # of the last step
        self._mixed: _Residuals | None = None  # the best ones
        self._proved: _Residuals | None = None  # those that proved the best bound
        self._was_factored = self._is_at_once = False
        self._is_fresh = False  # whether the scores of the best point are from the data
        self._n_steps = 0
        self._spent = 0.0  # passes

    @classmethod
    def form(cls, loss: Loss) -> SquaredErrors | None:
        """The loss as a squared error."""
        return squared_errors(loss)

    @classmethod
    def supports(cls, name: str, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is a squared error and the regularizer a quadratic form."""
        return super().supports(name, loss, omega) and omega.has_form

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Always: no other solver uses that the Hessian is constant."""
        return True

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        self._equations.attach(problem.rows, problem.target, problem.weights)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        self._equations.detach()

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: the point, the matrices and the dual certificate."""
        return LinearStart(point, self.dual_certificate, state=self._equations)

    def confirm(self, *, moving: bool = True) -> State:
        """Recompute point and bound; if the gap is then too large, scores are recomputed too."""
        claimed = self.best.gap
        state = super().confirm(moving=moving)
        if claimed <= self._tol * abs(state.primal) < self.best.gap:
            self._refresh()  # for later steps: what it proves is not confirmed
        return state

    def _fresh_point(self, point: Point) -> Point:
        return point if self._is_fresh else super()._fresh_point(point)

    def _improve(self, point: Point) -> None:
        if not self._is_fresh:  # otherwise the intercept is the best one for these scores
            super()._improve(point)

    def _prove_again(self) -> None:
        if self._proved is not None and self._proved.plane.risk == np.inf:  # a sum of planes
            point = Point(self.best.point.w, self._proved.scores, 0.0)
            plane = self._problem.cut(point, LARGEST_RISK)
            assert plane is not None
            self._proved = _Residuals(self._proved.scores, plane)
            self.best.dual_certificate = self._proof(plane)

    @property
    def is_at_end(self) -> bool:
        """Whether steps gain no more, which are not solutions."""
        return self.name == "conjugate-gradient" and self.idle >= IDLE_LIMIT

    def begin(self) -> None:
        """Move to the start, unless the first step is a solution that needs none."""
        solution = self._is_time_to_factor()
        self._is_at_once = solution and not self._equations.by_samples
        if not self._is_at_once:
            self._move_to(np.zeros_like(self._w) if solution else self._w)

    def step(self) -> None:
        """Take a step along the direction, as far as it is downhill."""
        if self._is_at_once:
            self._is_at_once = False
            if self._solve_at_once():
                return
            self._move_to(np.zeros_like(self._w))
        self._choose()
        gap, w, equations, (scores, plane) = self.best.gap, self._w, self._equations, self._here
        residual = -(plane.gradient + self._lambda * equations.form_times(w))
        if self._samples is not None:
            direction = self._samples.direction(scores)
        else:
            direction = self._direction(residual)
        change = self._problem.point(direction, None).scores
        assert change is not None
        image = self._lambda * equations.form_times(direction)
        bend = float(np.sum(direction * image)) + equations.bend(change)
        slope = float(np.sum(direction * residual))
        step = slope / bend if bend > 0.0 else 0.0
        if not (np.isfinite(step) and step > 0.0):
            self.idle += 1
            self._refresh()
            return
        change = step * change
        if w.any():
            change += scores
        if self._samples is not None:
            self._samples.move(step)
        self._n_steps += 1
        self._spent += 2.0
        self._move(Point(w + step * direction, change, 0.0), is_fresh=False)
        if self._n_steps % _REFRESHED == 0:
            self._refresh(forget=False)
        self._count_idle(gap)

    def _solve_at_once(self) -> bool:
        """Move to the solution of the normal equations; whether that is within ``tol``.

        If not, rounding was too large: steps from 0, each with a line search, are safer.
        """
        solve = self._equations.factored(self._lambda)
        if solve is None:
            return False
        w = solve(self._equations.right_side())
        point = self._problem.point(w, None)
        plane = self._problem.cut(point, LARGEST_RISK)
        self._spent += 2.0
        if plane is None:
            return False
        self.name, self._was_factored, self._solve = "newton", True, solve
        self._n_steps += 1
        self._offer_with(point, plane, is_fresh=True)
        return self.best.gap <= self._tol * abs(self.best.primal)

    def _choose(self) -> None:
        """Switch to a factor when it is due, and from one that is no longer of use."""
        if self.name == "newton":
            if self.idle >= _IDLE_SOLUTIONS:
                self._factor_failed()
        elif not self._was_factored and self._is_time_to_factor():
            self._was_factored, self._along = True, None
            if self._equations.by_samples:
                if self._w.any():
                    self._move_to(np.zeros_like(self._w))
                self._samples = self._equations.sample_solution(self._lambda)
            else:
                self._solve = self._equations.factored(self._lambda)
            if self._samples is not None or self._solve is not None:
                self.name = "newton"

    def _factor_failed(self) -> None:
        """Continue from the best point by conjugate gradients."""
        self.name, self._samples, self._solve, self._along = "conjugate-gradient", None, None, None
        self.idle = 0
        self._move_to(self.best.point.w)

    def _direction(self, residual: Array) -> Array:
        """The preconditioned gradient, conjugate to the last direction (Polak and Ribiere).

        This form is right even if rounding changes the preconditioner from step to step.
        """
        if self._solve is None:
            self._solve = self._equations.scaled(self._lambda)
        solved = self._solve(residual)
        if not np.isfinite(solved).all():
            self._solve = self._equations.scaled(self._lambda)
            self._along, solved = None, self._solve(residual)
        product = float(np.sum(residual * solved))
        direction = solved
        if self._along is not None:
            last, before, product_before = self._along
            share = (product - float(np.sum(before * solved))) / product_before
            if share > 0.0:
                direction = solved + share * last
        self._along = (direction, residual, product) if product > 0.0 else None
        return direction

    def _refresh(self, *, forget: bool = True) -> None:
        """Recompute scores and plane from the data; ``forget`` drops the last direction."""
        if forget:
            self._along = None
        self._move_to(self._w)

    def _move_to(self, w: Array) -> None:
        """Move to w, with scores from the data."""
        self._move(self._problem.point(w, None), is_fresh=True)
        self._spent += 2.0

    def _move(self, point: Point, *, is_fresh: bool) -> None:
        """Move to the point, and offer it and its plane."""
        plane = self._problem.cut(point, LARGEST_RISK)
        if plane is None or point.scores is None:
            raise ValueError(
                "The squared errors are too large for floating-point numbers: scale y, or the "
                "features."
            )
        self._offer_with(point, plane, is_fresh=is_fresh)

    def _offer_with(self, point: Point, plane: Plane, *, is_fresh: bool) -> None:
        """Move to the point, which has this plane, and offer both."""
        self._w, self._here = point.w, _Residuals(point.scores, plane)
        best = self.best
        if best.offer(self._objective(point.w, plane.risk), point):
            self._is_fresh = is_fresh
        dual_certificate = self._proof(plane)
        bound = dual_certificate.bound(self._omega)
        if self._mixed is None or best.primal - bound <= self._tol * abs(best.primal):
            self._mixed = self._here
        else:
            self._mixed = self._mix(self._mixed, self._here)
            dual_certificate = self._proof(self._mixed.plane)
            bound = dual_certificate.bound(self._omega)
        if best.raise_bound(bound, dual_certificate):
            self._proved = self._mixed

    def _mix(self, before: _Residuals, newest: _Residuals) -> _Residuals:
        """The best residuals between those before and the newest ones."""
        kept, plane = before.plane, newest.plane
        change = newest.scores - before.scores
        bend = self._equations.bend(change)
        along = plane.gradient - kept.gradient
        image = self._omega.conjugate_gradient(along) / self._lambda
        offset_slope = (plane.offset - kept.offset) + 0.5 * bend
        first = offset_slope - float(np.sum(kept.gradient * image))
        second = bend + float(np.sum(along * image))
        step = first / second if second > 0.0 else 0.0
        if not (np.isfinite(step) and step != 0.0):
            return before
        offset = kept.offset + step * (offset_slope - 0.5 * step * bend)
        gradient = kept.gradient + step * along
        return _Residuals(before.scores + step * change, Plane(gradient, offset, np.inf))

    def _proof(self, plane: Plane) -> DualCertificate:
        return DualCertificate(self._lambda, (plane.gradient, plane.offset))

    def _is_time_to_factor(self) -> bool:
        """Whether matrix and factor cost little, or no more than was spent so far."""
        if self._by_name is not None:
            return self._by_name
        cost = self._equations.passes_to_factor
        return cost < np.inf and (cost <= _CHEAP or self._spent >= cost)
