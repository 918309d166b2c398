"""Descent on a smooth objective as a solver: the best point, and a bound from its derivatives."""

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import MOST_SIDE
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss, score_loss
from sklearn_bundle.linear.losses.softmax import Softmax, softmax_loss
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.round_risk import RoundRisk
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._class_curvature import Hessians, RoughHessians
from sklearn_bundle.linear.solvers._class_descent import ClassDescent
from sklearn_bundle.linear.solvers.lbfgs import ScoreDescent
from sklearn_bundle.linear.solvers.protocols import Points, offers
from sklearn_bundle.linear.solvers.solver import (
    NOTHING,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

# Of the gap: a plane that promises no less is not computed. On few features its offset takes as
# long as a search along a line. Near the end half the gap is enough, as planes may hold more than
# they promise.
_USEFUL_GAP, _USEFUL_AT_END = 0.1, 0.5
_NEAR_END = 10.0  # times the gap that is asked for
_MOST_COORDINATES = 3000  # of a Hessian that "auto" computes: 72 MB


class SmoothDescent(Protocol):
    """A point that moves down ``reg_lambda/2 ||w||^2 + R``.

    Attributes
    ----------
    n_steps : int
        Steps so far.
    """

    n_steps: int

    @property
    def w(self) -> Array:
        """Weights of the point, not written to again."""
        ...

    @property
    def intercept(self) -> float | Array:
        """Intercept of the point, not written to again."""
        ...

    @property
    def objective(self) -> float:
        """The objective at the point."""
        ...

    @property
    def predicted_gap(self) -> float:
        """The gap to the plane at the point, if its derivatives balance."""
        ...

    def step(self) -> bool:
        """Take a step; False if no descent direction is left, up to rounding."""
        ...

    def plane(self) -> tuple[Array, float]:
        """A plane ``R(v, b) >= <a, v> + c`` for all v and b, from the derivatives at the point."""
        ...

    def attach(self, problem: Any) -> None:
        """Continue with the same data in another object."""
        ...

    def detach(self) -> None:
        """Release the data."""
        ...


class DescentSolver(LinearSolver):
    """The point of a descent, and the bound from its derivatives.

    Derivatives of a smooth loss in its scores are a dual point; once balanced, they give a plane.
    It is computed only if it promises a tenth of the gap, or near the end half of it: by the
    gradient, its gap is ``||grad J||^2 / (2 reg_lambda)`` if balanced. A fit that ends before gets
    the last one.

    The descent is by L-BFGS in w, each w at its best intercept, for losses of one score: for wide
    data, and sparse data of many columns. A step costs two passes and needs no matrix. Where rows
    lie on workers it is one that takes few rounds. For softmax it is L-BFGS or Newton's method in
    (W, b), which begin with W = 0 and the logarithms of the class shares.

    It starts from the last point; by default from w = 0 with the intercept that fits the targets.
    """

    _proved_at = -1  # the step of the last plane
    _amid_step = False  # Ctrl-C may leave derivatives of one point and the gradient of another

    needs: ClassVar[type] = Points
    advice: ClassVar[str] = "center and scale the features"
    yields_start = True

    def __init__(self, task: Task, kept: LinearStart = NOTHING):
        problem, name = task.problem, task.solver
        if name == "auto":
            few = problem.dimension + problem.n_free <= _MOST_COORDINATES
            name = "newton" if few and isinstance(problem, LinearProblem) else "lbfgs"
        self.name = name
        super().__init__(task, kept)

    @classmethod
    def form(cls, loss: Loss) -> ScoreLoss | Softmax | None:
        """The loss if it is smooth with a known curvature."""
        found = score_loss(loss)
        return softmax_loss(loss) if found is None or not found.smooth else found

    @classmethod
    def supports(cls, name: str, loss: Loss, omega: Regularizer) -> bool:
        """Squared errors are for "auto" only, on workers: in memory there are better ways."""
        found = cls.form(loss)
        by_name = not (isinstance(found, ScoreLoss) and found.quadratic)
        return super().supports(name, loss, omega) and (name == "auto" or by_name)

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the rows are in memory, or on workers and the loss has one score."""
        problem = task.problem
        if offers(problem, RowBlocks):
            return problem.newton_loss is not None
        by_class = offers(problem, LinearProblem) and softmax_loss(problem.loss) is not None
        return by_class or (task.solver == "lbfgs" and offers(problem, LinearProblem))

    @classmethod
    def is_best(cls, task: Task) -> bool:
        """For softmax, and on workers where Hessians are too large."""
        problem = task.problem
        return not isinstance(problem, RowBlocks) or problem.n_features > MOST_SIDE

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start."""
        return LinearStart(point, self.dual_certificate)

    def attach(self, problem: Points) -> None:
        """Continue with the same problem in another object."""
        super().attach(problem)
        if self._has_begun:
            self._descent.attach(problem)

    def detach(self) -> None:
        """Release the problem and its data."""
        super().detach()
        if self._has_begun:
            self._descent.detach()

    def begin(self) -> None:
        """Make the descent, and evaluate its start."""
        self._descent = self._first_descent()
        self._evaluate()

    def step(self) -> None:
        """One step of the descent."""
        gap = self.best.gap
        self._amid_step = True
        moved = self._descent.step()
        self._amid_step = False
        self._evaluate()
        self._count_idle(gap, moved=moved)

    def _first_descent(self) -> SmoothDescent:
        problem, reg_lambda, start = self._problem, self._lambda, self._start
        if isinstance(problem, RowBlocks):
            return ScoreDescent(RoundRisk(problem, hessians=False), reg_lambda, start)
        if softmax_loss(problem.loss) is None:
            return ScoreDescent(problem.score_risk(), reg_lambda, start)
        kind = Hessians if self.name == "newton" else RoughHessians
        return ClassDescent(problem, reg_lambda, kind(problem, reg_lambda), start)

    def _prepare_confirmation(self, moving: bool) -> None:
        """Prove what the last steps have gained, if no plane has done so."""
        whole = self._has_begun and not self._amid_step
        if whole and self._descent.predicted_gap < self.best.gap:
            self._prove_at(self._descent)

    def _fresh_point(self, point: Point) -> Point:
        """The point with scores from the data: for softmax by class, as its loss takes them."""
        problem = self._problem
        if softmax_loss(problem.loss) is None or not isinstance(problem, LinearProblem):
            return super()._fresh_point(point)
        scores = problem.rows.class_scores(point.w.reshape(problem.n_outputs, -1)).T
        return Point(point.w, scores, point.intercept)

    def _improve(self, point: Point) -> None:
        """Nothing: descents keep the best intercept."""

    def _evaluate(self) -> None:
        """Offer the descent's point, and its plane if it promises enough."""
        best, descent = self.best, self._descent
        best.offer(descent.objective, Point(descent.w, None, descent.intercept))
        predicted_gap = descent.predicted_gap
        within = predicted_gap <= self._tol * best.primal
        near_end = predicted_gap <= _NEAR_END * self._tol * best.primal
        useful = predicted_gap <= (_USEFUL_AT_END if near_end else _USEFUL_GAP) * best.gap
        if within or useful or self.idle or descent.n_steps == 0:
            self._prove_at(descent)

    def _prove_at(self, descent: SmoothDescent) -> None:
        if self._proved_at != descent.n_steps:
            self._proved_at = descent.n_steps
            self._prove(descent.plane())
