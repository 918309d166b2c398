"""Multinomial logistic regression by Newton's method and by L-BFGS, each with a true bound."""

from abc import abstractmethod
from typing import Any, ClassVar

from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.softmax import softmax_loss
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._class_curvature import (
    ClassCurvature,
    DiagonalCurvature,
    FullCurvature,
    GramCurvature,
)
from sklearn_bundle.linear.solvers._class_descent import ClassDescent
from sklearn_bundle.linear.solvers._descent import HESSIAN_PASSES
from sklearn_bundle.linear.solvers._descent_solver import DescentSolver
from sklearn_bundle.linear.solvers.linear_start import PointToStart
from sklearn_bundle.linear.solvers.linear_task import Task
from sklearn_bundle.linear.solvers.protocols import Points

# L-BFGS takes so many steps before the first Hessian: from there on Newton's steps are long enough.
_FEWEST_STEPS = 8
_HESSIANS = 3.0  # or as many as take as long as so many Hessians
_FALLS = 0.5  # of the decrement in a step: if more is left, the Hessian is recomputed,
_WHOLE = 0.5  # and from twice the rows after a step of at least this length
_ROWS_A_COORDINATE = 3  # rows per coordinate of the first Hessian,
# Products of a Hessian in the time of one in a pass: BLAS forms half of them, many at a time.
_BLAS = 4.0
_SOFTMAX = 15  # products in a pass, in the time of an exponential
_MOST_COORDINATES = 3000  # of a Hessian that "auto" computes: 72 MB
_FIRST_REFRESH, _LONGER = 5, 4  # steps with the first curvature, and growth of this number


class _SoftmaxSolver(DescentSolver[ClassDescent]):
    """Base class of both methods, which begin with W = 0 and the logarithms of the class shares.

    Any probabilities of the classes are a dual point; once balanced, they give a plane (see
    :meth:`~.softmax_model.SoftmaxModel.plane`).
    """

    needs: ClassVar[type] = LinearProblem
    form: ClassVar[str | None] = "class_loss"
    _problem: LinearProblem

    @classmethod
    def supports(cls, loss: Loss, omega: Regularizer) -> bool:
        """Whether the loss is softmax, and the regularizer ``||w||^2 / 2``."""
        return super().supports(loss, omega) and softmax_loss(loss) is not None

    def _begin(self, start: PointToStart | None) -> ClassDescent:
        return ClassDescent(self._problem.softmax_model(), self._lambda, start)

    @abstractmethod
    def _prepare_step(self, descent: ClassDescent) -> None:
        """Give the descent a curvature to begin with, or a new one."""


class SoftmaxLBFGSSolver(_SoftmaxSolver):
    """L-BFGS in (W, b) that begins every direction with a rough Hessian.

    It is the Kronecker product of the mean covariance of the classes and of the Gram matrix of the
    features or, with more than 2000 features, their variances. The former is recomputed after 5,
    20, 80, ... steps.
    """

    name = "lbfgs"

    def __init__(self, problem: Points, reg_lambda: float, **parameters: Any):
        super().__init__(problem, reg_lambda, **parameters)
        self._curvature: ClassCurvature | None = None
        self._next_refresh = _FIRST_REFRESH

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Always: Newton's method comes before it where that is better."""
        return True

    def _prepare_step(self, descent: ClassDescent) -> None:
        if self._curvature is None:
            few = self._problem.n_features <= MOST_SIDE
            kind = GramCurvature if few else DiagonalCurvature
            self._curvature = kind(descent.model, self._lambda)
        elif descent.n_steps >= self._next_refresh:
            self._next_refresh *= _LONGER
        elif descent.length > 0.0:
            return
        descent.recompute(self._curvature)


class SoftmaxNewtonSolver(SoftmaxLBFGSSolver):
    """Newton's method in (W, b), with Hessians of a growing part of the rows.

    It begins like :class:`SoftmaxLBFGSSolver`: far from the optimum a Hessian is soon outdated.
    After at least eight steps, and as much time as a few Hessians take, Newton's method continues.
    As long as the decrement falls, a Hessian serves for several steps, corrected by the gradients
    of these steps as in L-BFGS. Rows are drawn by their curvature. If the decrement falls by less
    than half after a new Hessian and a whole step, the next Hessian has twice the rows.
    """

    name = "newton"

    def __init__(self, problem: Points, reg_lambda: float, **parameters: Any):
        super().__init__(problem, reg_lambda, **parameters)
        self._full: FullCurvature | None = None
        self._fresh = True  # whether the last step was the first one with its Hessian
        self._rows, self._steps_before = self._plan()

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Whether a Hessian fits into memory; when to use it shows on the way."""
        problem = task.problem
        return problem.dimension + problem.n_free <= _MOST_COORDINATES

    def _prepare_step(self, descent: ClassDescent) -> None:
        if descent.n_steps < self._steps_before:
            super()._prepare_step(descent)
        elif self._full is None:
            self._full = FullCurvature(self._lambda, self._rows)
            descent.recompute(self._full)
        elif descent.fall > _FALLS or not descent.length > 0.0:
            if self._fresh and descent.length > _WHOLE:
                self._full.n_drawn *= 2
            descent.recompute(self._full)
            self._fresh = True
        else:
            self._fresh = False

    def _plan(self) -> tuple[int, int]:
        """Rows of the first Hessian, and steps before it.

        The rows are enough for a rough Hessian, or as many as cost a few passes.
        """
        problem = self._problem
        n, m = problem.n_samples, problem.dimension + problem.n_free
        a_pass = problem.n_outputs * (problem.n_entries + _SOFTMAX * n)
        rows = max(_ROWS_A_COORDINATE * m, int(HESSIAN_PASSES * _BLAS * a_pass / m**2))
        passes = (min(rows, n) * m**2 + m**3 / 3.0) / (_BLAS * a_pass)
        return rows, max(_FEWEST_STEPS, int(_HESSIANS * passes / 2.0))
