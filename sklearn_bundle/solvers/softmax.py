"""Multinomial logistic regression by Newton's method and by L-BFGS, each with a true bound."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.losses._softmax import class_loss
from sklearn_bundle.losses.base import Loss
from sklearn_bundle.problems.linear import Point
from sklearn_bundle.regularizers import L2, Regularizer
from sklearn_bundle.solvers._certificate import Best
from sklearn_bundle.solvers._class_curvature import (
    ClassCurvature,
    DiagonalCurvature,
    FullCurvature,
    GramCurvature,
)
from sklearn_bundle.solvers._class_descent import ClassDescent
from sklearn_bundle.solvers.asks import SoftmaxSteps, require
from sklearn_bundle.solvers.contract import State
from sklearn_bundle.solvers.linear_start import LinearStart, Proof
from sklearn_bundle.solvers.linear_task import LinearSolver, Task

Array = NDArray[np.float64]

_ADVICE = "scale the features"
_WORTH = 0.5  # of the gap: a plane that promises no less is not computed
_ROUNDING = 1e-15  # of the objective: a gap that falls by less has not fallen
_IDLE_LIMIT = 8  # steps without progress, after which rounding has the last word
_FEWEST_STEPS = 8  # of L-BFGS before the first Hessian,
_HESSIANS = 3.0  # or as many as take as long as these
_FALLS = 0.5  # of the decrement from step to step: else the Hessian is computed anew,
_WHOLE = 0.5  # and after a step that is as long as this from twice the rows
_ROWS_A_COORDINATE = 3  # of a Hessian at first,
_HESSIAN_PASSES = 2.0  # or as many as take no longer than so many passes over the data
# Products of a Hessian in the time of one in a pass: BLAS forms half of them, many at a time.
_BLAS = 4.0
_SOFTMAX = 15  # products in a pass, in the time of an exponential
_MOST_COORDINATES = 3000  # of a Hessian that "auto" computes: 72 MB
_MOST_GRAM = 2000  # features: a matrix of 32 MB that takes about 0.1 s to factor
_FIRST_REFRESH, _REFRESHED = 5, 4  # steps with the first curvature, and by how many times more


class _SoftmaxSolver(LinearSolver):
    """What both methods share: descent, and from its probabilities the bound.

    Any probabilities of the classes are a dual point: balanced, they make a plane (see
    :meth:`~sklearn_bundle.problems.softmax_model.SoftmaxModel.plane`). It is computed where the
    gradient says that it promises half of the gap, ``||grad_W J||^2 / (2 reg_lambda)`` if balanced.

    Parameters
    ----------
    problem : SoftmaxSteps
    reg_lambda : float
        The regularizer is ``||W||^2 / 2``.
    tol : float
        The relative gap that is asked for.
    start : (ndarray, ndarray)
        Point to start from; by default W = 0 with the logarithms of the class shares.
    proof : Proof
        Of a bound to start from, if its reg_lambda is the same.

    Attributes
    ----------
    plane : (ndarray of shape (K d,), float)
        The plane (a, c) that proves the bound ``c - ||a||^2 / (2 reg_lambda)``.
    """

    needs: ClassVar[type] = SoftmaxSteps
    history_fields: ClassVar[tuple] = (("solver", "U16"),)
    name: ClassVar[str]

    def __init__(
        self,
        problem: SoftmaxSteps,
        reg_lambda: float,
        *,
        tol: float,
        start: tuple[Array, Array | None] | None = None,
        proof: Proof | None = None,
    ):
        require(problem, SoftmaxSteps, self.name, "line-search")
        self._problem, self._lambda, self._tol = problem, reg_lambda, tol
        self._omega = L2()
        self._start = start
        self._best = Best(least=0.0, advice=_ADVICE)
        self._best.proof = Proof(reg_lambda, (np.zeros(problem.dimension), 0.0))
        if proof is not None and proof.reg_lambda == reg_lambda:
            self._best.prove(proof.bound(self._omega), proof)
        self._descent: ClassDescent | None = None
        self._idle = 0  # steps since the gap last became smaller
        self._spent = 0  # passes, as of the last problem that was let go
        self._passes_before = problem.passes

    @classmethod
    def takes(cls, loss: Loss, omega: Regularizer) -> bool:
        """As of :class:`LinearSolver`: for softmax."""
        return super().takes(loss, omega) and class_loss(loss) is not None

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """As of :class:`LinearSolver`: from the last point."""
        proof = kept.proof_of(task.problem.dimension)
        return cls(task.problem, task.reg_lambda, tol=task.tol, start=kept.point, proof=proof)

    @property
    def plane(self) -> tuple[Array, float]:
        """Of the proof."""
        return self._best.proof.plane

    def kept(self, point: tuple[Array, Array | None]) -> LinearStart:
        """What a new solver may start from."""
        return LinearStart(point, self._best.proof)

    def attach(self, problem: SoftmaxSteps) -> None:
        """Go on with the same problem in another object."""
        self._problem = problem
        self._passes_before = problem.passes - self._spent
        if self._descent is not None:
            self._descent.model = problem.softmax_model()

    def detach(self) -> None:
        """Let go of the problem, and of the data with it."""
        self._spent = self._problem.passes - self._passes_before
        self._problem = None
        if self._descent is not None:
            self._descent.model = None

    def states(self) -> Iterator[State]:
        """One state per step; the first is of the start. Ends when nothing is left to gain."""
        if self._descent is None:
            model = self._problem.softmax_model()
            self._descent = ClassDescent(model, self._lambda, self._start)
            self._look()
            yield self._state()
        elif self._idle >= _IDLE_LIMIT:  # the last run has ended so
            yield self._state()
            return
        while self._idle < _IDLE_LIMIT:
            self._renew_curvature(self._descent)
            moved = self._descent.step()
            gap = self._best.gap
            self._look()
            gained = gap - self._best.gap
            progress = moved and gained > _ROUNDING * abs(self._best.primal)
            self._idle = 0 if progress else self._idle + 1
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """Objective from the data at the best point, bound from the kept plane.

        The descent goes on as if nothing had been looked at.
        """
        best, spent = self._best, self._problem.passes
        point = self._problem.point(best.point.w, best.point.intercept)
        risk = self._problem.risk(point)
        best.renew(
            self._lambda * self._omega.value(point.w) + risk,
            Point(point.w, None, point.intercept),
            best.proof.bound(self._omega),
            best.proof,
        )
        self._passes_before += self._problem.passes - spent
        return self._state()

    def _look(self) -> None:
        """Offer the descent's point, and where it is worth it its plane."""
        descent, best = self._descent, self._best
        best.offer(descent.objective, Point(descent.w, None, descent.intercept))
        gap, promised = best.gap, descent.promised
        within = promised <= self._tol * best.primal
        if within or promised <= _WORTH * gap or self._idle or descent.n_steps == 0:
            A, offset = descent.model.plane(descent.derivatives, descent.gradient)
            plane = A.ravel(), offset
            bound = offset - float(plane[0] @ plane[0]) / (2.0 * self._lambda)
            best.prove(bound, Proof(self._lambda, plane))

    def _state(self) -> State:
        point = self._best.point
        passes = self._problem.passes - self._passes_before
        return self._best.state(point.w, point.intercept, passes, further=(self.name,))

    @abstractmethod
    def _renew_curvature(self, descent: ClassDescent) -> None:
        """Give the descent a curvature to begin with, or a new one."""


class SoftmaxLBFGSSolver(_SoftmaxSolver):
    """L-BFGS in (W, b) that begins every direction with a rough Hessian.

    That is the Kronecker product of the mean covariance of the classes and of the Gram matrix of
    the features; with more than 2000 features, their variances. The former is renewed after 5, 20,
    80, ... steps.
    """

    name = "lbfgs"

    def __init__(self, problem: SoftmaxSteps, reg_lambda: float, **parameters: Any):
        super().__init__(problem, reg_lambda, **parameters)
        self._curvature: ClassCurvature | None = None
        self._next_refresh = _FIRST_REFRESH

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """For all that Newton's method leaves."""
        return True

    def _renew_curvature(self, descent: ClassDescent) -> None:
        if self._curvature is None:
            few = self._problem.n_features <= _MOST_GRAM
            kind = GramCurvature if few else DiagonalCurvature
            self._curvature = kind(descent.model, self._lambda)
        elif descent.n_steps >= self._next_refresh:
            self._next_refresh *= _REFRESHED
        elif descent.length > 0.0:
            return
        descent.renew(self._curvature)


class SoftmaxNewtonSolver(SoftmaxLBFGSSolver):
    """Newton's method in (W, b), with Hessians of a part of the rows that grows.

    It begins as :class:`SoftmaxLBFGSSolver`: far from the optimum a Hessian does not hold long.
    When that has taken as long as a few Hessians would, and eight steps, Newton's method goes on.
    As long as the decrement falls, a Hessian serves for several steps, corrected by the gradients
    of these steps as L-BFGS does it. Rows are drawn by their curvature. Where a fresh Hessian and a
    whole step let the decrement fall by less than half, the next one has twice the rows.
    """

    name = "newton"

    def __init__(self, problem: SoftmaxSteps, reg_lambda: float, **parameters: Any):
        super().__init__(problem, reg_lambda, **parameters)
        self._full: FullCurvature | None = None
        self._fresh = True  # whether the last step was the first one with its Hessian
        self._rows, self._steps_before = self._plan()

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """Where a Hessian fits into memory: whether it is worth it shows on the way."""
        return _n_coordinates(task.problem) <= _MOST_COORDINATES

    def _renew_curvature(self, descent: ClassDescent) -> None:
        if descent.n_steps < self._steps_before:
            super()._renew_curvature(descent)
        elif self._full is None:
            self._full = FullCurvature(self._lambda, self._rows)
            descent.renew(self._full)
        elif descent.fall > _FALLS or not descent.length > 0.0:
            if self._fresh and descent.length > _WHOLE:
                self._full.n_drawn *= 2
            descent.renew(self._full)
            self._fresh = True
        else:
            self._fresh = False

    def _plan(self) -> tuple[int, int]:
        """Rows of the first Hessian, and steps before it.

        The rows are as many as tell a Hessian roughly, or cost a few passes.
        """
        problem = self._problem
        n, m = problem.n_samples, _n_coordinates(problem)
        a_pass = problem.n_outputs * (problem.n_entries + _SOFTMAX * n)
        rows = max(_ROWS_A_COORDINATE * m, int(_HESSIAN_PASSES * _BLAS * a_pass / m**2))
        passes = (min(rows, n) * m**2 + m**3 / 3.0) / (_BLAS * a_pass)
        return rows, max(_FEWEST_STEPS, int(_HESSIANS * passes / 2.0))


def _n_coordinates(problem: SoftmaxSteps) -> int:
    return problem.dimension + problem.n_free
