"""Squared errors with a quadratic regularizer: normal equations, or conjugate gradients."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT, State
from sklearn_bundle.core.limits import IDLE_LIMIT
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.regression import squared_errors
from sklearn_bundle.linear.problems.linear import LARGEST_RISK, LinearProblem, Plane, Point
from sklearn_bundle.linear.problems.normal_equations import NormalEquations, SampleSolution, Step
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.linear_start import DualCertificate, LinearStart, PointToStart
from sklearn_bundle.linear.solvers.linear_task import LinearSolver, Task
from sklearn_bundle.linear.solvers.protocols import Points, require

Array = NDArray[np.float64]

_ADVICE = "the features are too far apart in scale: scale them"  # why recomputed bounds may cross
_REFRESHED = 50  # steps after which scores are recomputed, so that rounding does not accumulate
_IDLE_SOLUTIONS = 3  # steps without progress, if each is a solution
_CHEAP = 16.0  # passes that matrix and factor may cost at once: eight steps without them


def _quiet() -> AbstractContextManager:
    """Silence warnings of overflows, which are detected and lead to other steps."""
    return np.errstate(over="ignore", invalid="ignore")


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
    that a nearly singular matrix costs steps, but not the certificate.

    Residuals are a dual point: each step adds a plane from the data, whose bound is
    ``D(r) = sum_i s_i r_i' M (y_i - r_i / 2) - ||X'S r M||^2 / (2 reg_lambda)`` with centered y.
    The best r between the newest residuals and those of the best bound has a closed form.

    The cheaper way is not known in advance: conjugate gradients get as many passes as matrix and
    factor would cost, then these are computed; at once if they cost only a few passes.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda, tol : float
        ``tol`` is the requested relative gap.
    omega : Regularizer
        Must have a ``form``.
    start : (ndarray, intercept)
        A point to begin with, if steps are not solutions; 0 by default.
    dual_certificate : DualCertificate
        A dual certificate to start from, if its reg_lambda is the same.
    normal_equations : NormalEquations
        For the same data, loss and regularizer, with the matrices that were already formed.

    Attributes
    ----------
    plane : (ndarray, float)
        The plane (a, c) that proves the bound ``c - reg_lambda Omega*(-a / reg_lambda)``.
    """

    needs: ClassVar[type] = LinearProblem
    form: ClassVar[str | None] = "squared_errors"
    needs_euclidean: ClassVar[bool] = False
    history_fields: ClassVar[tuple] = (("solver", "U18"),)
    _problem: LinearProblem

    def __init__(
        self,
        problem: Points,
        reg_lambda: float,
        *,
        tol: float,
        omega: Regularizer,
        start: PointToStart | None = None,
        dual_certificate: DualCertificate | None = None,
        normal_equations: NormalEquations | None = None,
    ):
        problem = require(problem, LinearProblem, "newton", "line-search", self.form)
        super().__init__(problem, reg_lambda, omega, dual_certificate, advice=_ADVICE)
        self._problem, self._tol = problem, tol
        if normal_equations is None:
            normal_equations = problem.normal_equations(omega)
        else:
            normal_equations.attach(problem.rows, problem.target, problem.weights)
        self._equations = normal_equations
        self._w = np.zeros(problem.dimension) if start is None else start[0]
        self._here: _Residuals = ABSENT  # those of w, until the first step
        self.name = "conjugate-gradient"
        self._solve: Step | None = None  # a preconditioner
        self._samples: SampleSolution | None = None  # instead of it, for wide data
        self._along: tuple[Array, Array, float] | None = None  # of the last step
        self._mixed: _Residuals | None = None  # the best ones
        self._proved: _Residuals | None = None  # those that proved the best bound
        self._was_factored = False
        self._n_steps = 0
        self._spent = 0.0  # passes

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is a squared error and the regularizer a quadratic form."""
        return squared_errors(loss) is not None and omega.has_form

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Always: no other solver uses that the Hessian is constant."""
        return True

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from the last point with the matrices formed for it."""
        return cls(
            task.problem,
            task.reg_lambda,
            tol=task.tol,
            omega=task.omega,
            start=kept.point,
            dual_certificate=kept.certificate_of(task.problem.dimension),
            normal_equations=kept.normal_equations,
        )

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
        return LinearStart(point, self.dual_certificate, normal_equations=self._equations)

    def states(self) -> Iterator[State]:
        """One state per step; ends when rounding leaves nothing to gain."""
        if self._mixed is None:
            with _quiet():
                self._begin()
        while True:
            if not self._is_at_end():
                with _quiet():
                    self._step()
            yield self._state()
            if self._is_at_end():
                return

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the kept residuals.

        The steps then continue as if there had been no confirmation, unless the gap is too large.
        """
        best, problem = self._best, self._problem
        claimed = best.gap
        point = problem.point(best.point.w, best.point.intercept)
        if moving:
            problem.set_intercept(point)
        objective = self._objective(point.w, problem.risk(point))
        if self._proved is not None and self._proved.plane.risk == np.inf:  # a sum of planes
            plane = problem.cut(Point(point.w, self._proved.scores, 0.0), LARGEST_RISK)
            assert plane is not None
            best.dual_certificate = self._proof(plane)
            self._proved = _Residuals(self._proved.scores, plane)
        with _quiet():
            self._renew(point, objective)
        state = self._state()
        if claimed <= self._tol * abs(objective) < best.gap:
            self._refresh()  # for later steps: what it proves is not confirmed
        return state

    def _is_at_end(self) -> bool:
        return self.name == "conjugate-gradient" and self._idle >= IDLE_LIMIT

    def _begin(self) -> None:
        """Move to the start, unless the first step is a solution that needs none."""
        solution = self._is_time_to_factor()
        self._move(self._problem.point(np.zeros_like(self._w) if solution else self._w, None))
        self._spent += 2.0

    def _step(self) -> None:
        """Take a step along the direction, as far as it is downhill."""
        self._choose()
        gap, w, equations, (scores, plane) = self._best.gap, self._w, self._equations, self._here
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
            self._idle += 1
            self._refresh()
            return
        change = step * change
        if w.any():
            change += scores
        if self._samples is not None:
            self._samples.move(step)
        self._n_steps += 1
        self._spent += 2.0
        self._move(Point(w + step * direction, change, 0.0))
        if self._n_steps % _REFRESHED == 0:
            self._refresh(forget=False)
        self._count_idle(gap)

    def _choose(self) -> None:
        """Switch to a factor when it is due, and from one that is no longer of use."""
        if self.name == "newton":
            if self._idle >= _IDLE_SOLUTIONS:
                self._factor_failed()
        elif not self._was_factored and self._is_time_to_factor():
            self._was_factored, self._along = True, None
            if self._equations.by_samples:
                if self._w.any():
                    self._move(self._problem.point(np.zeros_like(self._w), None))
                self._samples = self._equations.sample_solution(self._lambda)
            else:
                self._solve = self._equations.factored(self._lambda)
            if self._samples is not None or self._solve is not None:
                self.name = "newton"

    def _factor_failed(self) -> None:
        """Continue from the best point by conjugate gradients."""
        self.name, self._samples, self._solve, self._along = "conjugate-gradient", None, None, None
        self._idle = 0
        self._move(self._problem.point(self._best.point.w, None))

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
        self._move(self._problem.point(self._w, None))
        self._spent += 2.0

    def _move(self, point: Point) -> None:
        """Move to the point, and offer it and its plane."""
        plane = self._problem.cut(point, LARGEST_RISK)
        if plane is None or point.scores is None:
            raise ValueError(
                "The squared errors are too large for floating-point numbers: scale y, or the "
                "features."
            )
        self._w, self._here = point.w, _Residuals(point.scores, plane)
        best = self._best
        best.offer(self._objective(point.w, plane.risk), point)
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
        cost = self._equations.passes_to_factor
        return cost < np.inf and (cost <= _CHEAP or self._spent >= cost)

    def size_of_terms(self) -> float:
        """Size of the terms whose differences objective and bound are: of plane and loss."""
        w = np.zeros_like(self._best.point.w)
        return self._problem.risk(self._problem.point(w, None)) + abs(self.plane[1])


class NormalEquationsSolver(LeastSquaresSolver):
    """With the Cholesky factor from the first step on: a Newton step is the solution."""

    def _is_time_to_factor(self) -> bool:
        return True


class ConjugateGradientSolver(LeastSquaresSolver):
    """Without a factor: for data with many rows and many columns."""

    def _is_time_to_factor(self) -> bool:
        return False
