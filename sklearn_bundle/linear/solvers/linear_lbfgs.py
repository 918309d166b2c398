"""L-BFGS for every smooth loss of one score, with a true bound from the gradient."""

from typing import ClassVar

from sklearn_bundle.linear.losses._newton import newton_loss
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._descent_solver import DescentSolver
from sklearn_bundle.linear.solvers._score_descent import ScoreDescent
from sklearn_bundle.linear.solvers.asks import NewtonSteps


class LinearLBFGSSolver(DescentSolver):
    """L-BFGS in w, each w at its best intercept: for wide data, and sparse data of many columns.

    A step costs two passes and needs no matrix. The derivatives at the best intercept sum to zero,
    so they give a plane as they are: the bound costs nothing in addition to the gradient.
    """

    needs: ClassVar[type] = NewtonSteps
    name = "lbfgs"

    @classmethod
    def takes(cls, loss: Loss, omega: Regularizer) -> bool:
        """See :class:`LinearSolver`: for smooth losses whose curvature is known."""
        form = newton_loss(loss)
        return super().takes(loss, omega) and form is not None and form.smooth

    def _begin(self, problem, start):
        return ScoreDescent(problem, self._lambda, start)
