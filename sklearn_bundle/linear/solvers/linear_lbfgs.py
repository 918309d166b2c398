"""L-BFGS for every smooth loss of one score, with a true bound from the gradient."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.lbfgs import Corrections
from sklearn_bundle.core.limits import CONSTANT, MEMORY, REFRESHED, SLOPE_LEFT
from sklearn_bundle.core.numeric.roots import search_zero
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.newton_model import NewtonModel
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._descent import COARSEST
from sklearn_bundle.linear.solvers._descent_solver import DescentSolver
from sklearn_bundle.linear.solvers.linear_start import PointToStart

Array = NDArray[np.float64]

# Largest derivative in b that is left, in objectives per unit of the scores. Balancing the plane
# costs about that derivative times the unit.
_BALANCED = 1e-9
# The least, in typical slopes: with 1e-12 nearly separable data stalled at gaps of 5e-3.
_FINEST = 1e-14


class ScoreDescent:
    """A point w, at its best intercept, that moves along L-BFGS directions of the objective.

    The objective is ``reg_lambda/2 ||w||^2 + min_b R(w, b)``. With fewer features than samples a
    direction begins with the curvature's diagonal; otherwise most eigenvalues are reg_lambda, and
    the newest pair gives its length. The line search uses only scores: a step costs one product
    with X and one with X'.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda : float
    start : (ndarray of shape (d,), intercept)
        None is w = 0; so is a point whose objective is above that.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The point; arrays are not written to again.
    intercept, objective : float
    n_steps : int
    """

    def __init__(
        self,
        problem: LinearProblem,
        reg_lambda: float,
        start: PointToStart | None = None,
    ):
        self._model: NewtonModel
        self.attach(problem)
        model = self._model
        self._lambda = reg_lambda
        self._units = model.loss.start(model.y, model.weights, model.free)
        n, d = model.rows.shape
        self._derivatives, self._scratch = np.empty((2, n))
        self._pairs = Corrections(MEMORY)
        self.n_steps, self.objective = 0, np.inf
        self._zero = np.zeros(d)
        self._move_to(self._zero)
        if start is not None and start[0].any():
            highest = self.objective
            self._move_to(start[0])
            if not self.objective <= highest:
                self._move_to(self._zero)
        self._diagonal = self._curvature_of_columns() if d < n else None
        self._slopes = self._differentiate()

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point."""
        return blas.ddot(self._slopes, self._slopes) / (2.0 * self._lambda)

    def plane(self) -> tuple[Array, float]:
        """A plane of the risk from the derivatives at the point."""
        return self._gradient, self._offset

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same data in another object."""
        self._model = problem.newton_model()

    def detach(self) -> None:
        """Release the data."""
        self._model = ABSENT

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        along = self._direction()
        if along is None:
            return False
        model = self._model
        direction = model.rows.scores(along)
        across = self._lambda * blas.ddot(along, self.w)
        square = self._lambda * blas.ddot(along, along)
        along_b = self._move_of_intercept(direction)
        args = self._scores, direction, *self._args, along_b

        def derivative(t: float) -> tuple[float, float]:
            first, second = model.loss.smoothed_slope(*args, t)
            return first + across + t * square, second + square

        length = search_zero(derivative, precision=SLOPE_LEFT)
        self.n_steps += 1
        if not length > 0.0:
            self._pairs.clear()
            self._move_to(self.w)
            self._slopes = self._differentiate()
            return False
        change, before = length * along, self._slopes
        if self.n_steps % REFRESHED == 0:
            self._move_to(self.w + change)
        else:
            self.w = self.w + change
            design.add(length, direction, self._scores)
            self.intercept += length * along_b
            self._evaluate()
        self._slopes = self._differentiate()
        self._pairs.remember(change, self._slopes - before)
        return True

    @property
    def _args(self) -> tuple:
        model = self._model
        return model.y, model.weights, self._units.unit, self.intercept

    def _move_to(self, w: Array) -> None:
        """Move to w, with its scores from the data and the intercept that fits the targets."""
        n = len(self._model.y)
        self.w = w
        self._scores = self._model.rows.scores(w) if w.any() else np.zeros(n)
        self.intercept = self._units.intercept
        self._evaluate()

    def _evaluate(self) -> None:
        """Compute the best intercept, the objective, and derivatives that balance."""
        model, units = self._model, self._units
        if model.free:
            left = units.slope
            if np.isfinite(self.objective):
                left = _BALANCED * self.objective / units.unit
            precision = min(max(left, _FINEST * units.slope), COARSEST * units.slope)
            args = self._scores, *self._args, units.unit, precision, self._scratch
            self.intercept = model.loss.smoothed_intercept(*args)
        risk, self._offset = model.loss.smoothed_cut(
            self._scores, *self._args, model.free, self._derivatives
        )
        self.objective = risk + 0.5 * self._lambda * blas.ddot(self.w, self.w)

    def _differentiate(self) -> Array:
        """Gradient of the objective; that of the risk is the plane's."""
        self._gradient = self._model.rows.gradient(self._derivatives)
        return self._gradient + self._lambda * self.w

    def _direction(self) -> Array | None:
        """The corrected gradient, downhill; None if there is no such direction."""
        for _ in range(2):
            along = self._pairs.correct(-self._slopes, self._solved)
            if -np.inf < blas.ddot(along, self._slopes) < 0.0:
                return along
            self._pairs.clear()
        return None

    def _solved(self, x: Array) -> Array:
        if self._diagonal is not None:
            return x / self._diagonal
        return x * (self._pairs.scale if len(self._pairs) else 1.0 / self._lambda)

    def _curvature(self) -> tuple[NDArray[np.int64], Array]:
        """The rows with curvature, and their curvature."""
        rows, coefs = self._scratch.view(np.int64), np.empty(len(self._scratch))
        size = self._model.loss.curved(self._scores, *self._args, rows, coefs)
        return rows[:size], coefs[:size]

    def _move_of_intercept(self, direction: Array) -> float:
        """The change of the best intercept along the direction, to first order."""
        if not self._model.free:
            return 0.0
        rows, curvature = self._curvature()
        total = float(curvature.sum())
        move = -float(curvature @ direction[rows]) / total if total > 0.0 else 0.0
        return move if np.isfinite(move) else 0.0

    def _curvature_of_columns(self) -> Array:
        """Diagonal of the Hessian, as if all rows had the same curvature."""
        model = self._model
        _, curvature = self._curvature()
        variances = squares = model.rows.column_squares(model.weights)
        if model.free:
            means = model.rows.gradient(model.weights)
            variances = np.maximum(squares - means**2, CONSTANT * squares)
        return float(curvature.sum()) * variances + self._lambda


class LinearLBFGSSolver(DescentSolver[ScoreDescent]):
    """L-BFGS in w, each w at its best intercept: for wide data, and sparse data of many columns.

    A step costs two passes and needs no matrix. The derivatives at the best intercept sum to zero,
    so they give a plane as they are: the bound costs nothing in addition to the gradient.
    """

    needs: ClassVar[type] = LinearProblem
    form: ClassVar[str | None] = "newton_loss"
    name = "lbfgs"
    _problem: LinearProblem

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is smooth with a known curvature, and the regularizer is L2."""
        form = score_loss(loss)
        smooth = form is not None and form.smooth and not form.quadratic
        return super().supports(loss, omega) and smooth

    def _begin(self, start: PointToStart | None) -> ScoreDescent:
        return ScoreDescent(self._problem, self._lambda, start)
