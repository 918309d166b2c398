"""BMRM: bundle methods for regularized risk minimization (Teo et al., JMLR 11, 2010)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import IDLE_LIMIT, LAST_PLACE, SEARCH_STEPS
from sklearn_bundle.core.one_variable import search_kink
from sklearn_bundle.linear.problems.balance import MOST_MOVES, WIDER
from sklearn_bundle.linear.problems.linear import LARGEST_RISK, Plane, Point
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.solvers.inner.planes import (
    QP_SHARE,
    Bundle,
    Center,
    bound_of_plane,
    l1_limits,
)
from sklearn_bundle.linear.solvers.protocols import (
    CuttingPlanes,
    LineSearch,
    Points,
    offers,
    require,
    with_points,
)
from sklearn_bundle.linear.solvers.solver import (
    DualCertificate,
    LinearSolver,
    LinearStart,
    PointToStart,
    Task,
)

Array = NDArray[np.float64]

#: Why bounds from planes may cross, and what a user can do.
ADVICE = "the loss is not convex, or its gradient is not the derivative of its value; check both"

_USEFUL_GAP = 0.8  # of the gap: a costly bound that promises a larger one is not computed
_PATIENCE = 4 * IDLE_LIMIT  # if w_t is not unique, or the bound is that of plane 0 for long
# Planes with a risk of more than this times the best objective, or for Algorithm 2 with more than
# this times the first plane's slope, are too steep to be useful. Each iteration without progress
# raises both limits by the same factor.
_STEEPEST = 10.0
_RETREAT = 10 * [0.5] + 20 * [0.1]  # shares of the way from the best point; then the plane there
_PRUNED = (0.999, 0.99, 0.9)  # shares of reg_lambda, tried in turn: a gap blurs the limit
_STEP_PRECISION = (
    1e-6  # of a step along a curve other than a parabola; the objective has its square
)
_LARGEST_PROXIMAL = 0.1  # on an intercept, times reg_lambda: about the curvature of a loss
_FIRST_REACH = 0.125  # of the first move of b, over the factor: half a unit of the scores
_LEAP = 1e3  # times the size of the best w: a w_t that is farther away is of no use


class BundleSolver(LinearSolver):
    """Algorithms 2 ("cutting-plane"), 3 ("line-search") and, with two planes, 4 of the paper.

    Parameters
    ----------
    problem : LineSearch, or for "cutting-plane" any CuttingPlanes
    reg_lambda : float
    algorithm : {"line-search", "cutting-plane"}
    theta : float
        "line-search": the next plane is cut at ``(1 - theta) best + theta w_t``.
    bundle : Bundle
        Planes to start from, and the regularizer; empty by default, with L2.
    start : (ndarray, intercept)
        Point to start from; the minimizer of the regularizer by default.
    dual_certificate : DualCertificate
        A dual certificate to start from, if its reg_lambda is the same.

    Attributes
    ----------
    plane : (ndarray of shape (d,), float)
        The aggregate plane (a, c) that proves the bound ``c - reg_lambda Omega*(-a/reg_lambda)``.

    Raises
    ------
    ValueError
        For a problem that does not offer what is needed, and at a confirmation if the loss turns
        out not to be convex, to be infinite, or to be negative although declared nonnegative.
    """

    needs: ClassVar[type] = Points
    needs_euclidean: ClassVar[bool] = False
    advice: ClassVar[str] = ADVICE
    _problem: Points

    def __init__(
        self,
        problem: CuttingPlanes | Points,
        reg_lambda: float,
        *,
        algorithm: str = "line-search",
        theta: float = 0.1,
        bundle: Bundle | None = None,
        start: PointToStart | None = None,
        dual_certificate: DualCertificate | None = None,
    ):
        self.name = self._algorithm = algorithm
        instead = "cutting-plane" if algorithm == "line-search" else None
        require(problem, _needs(algorithm), algorithm, instead)
        points = with_points(problem)
        self.bundle = Bundle(points.dimension) if bundle is None else bundle
        omega = self.bundle.omega
        if self.bundle.anchored and not points.nonnegative:
            raise ValueError(
                f"{type(omega).__name__} needs a risk that is nowhere negative; if yours "
                "never is, set nonnegative = True on the problem."
            )
        task = Task(points, reg_lambda, omega)
        super().__init__(task, LinearStart(start, dual_certificate))
        self._theta = theta
        self._proximal = min(points.intercept_scale, _LARGEST_PROXIMAL / reg_lambda)
        self._length = 1.0  # of the last step
        self._wait = _Wait()
        self._end: Point | None = None  # the last w_t, towards which the next plane is cut
        self._steepest: float | None = None
        self._reach = _FIRST_REACH
        on_workers = isinstance(problem, RowBlocks) and algorithm == "line-search"
        self._needs_both_sides = on_workers and points.n_free == 1
        self._highest, self._rising = -np.inf, False  # value of the model's minimum, of any sign
        # Until the planes of all intercepts cancel, the bound is that of plane 0.
        self.patience = _PATIENCE + 2 * points.n_free if self.bundle.anchored else IDLE_LIMIT

    @classmethod
    def of(cls, task: Task, kept: LinearStart) -> Self:
        """The solver of a task, started from planes if there are any."""
        problem, bundle = task.problem, kept.bundle
        if bundle is None:
            bundle = Bundle(problem.dimension, task.max_size, task.omega, problem.n_free)
        else:
            bundle.resize(task.max_size)
        return cls(
            problem,
            task.reg_lambda,
            algorithm=_algorithm(task),
            theta=task.theta,
            bundle=bundle,
            start=kept.point,
            dual_certificate=kept.dual_certificate,
        )

    @classmethod
    def fits(cls, task: Task) -> bool:
        """Whether the problem offers what the algorithm needs."""
        return offers(task.problem, _needs(_algorithm(task)))

    def kept(self, point: PointToStart) -> LinearStart:
        """Where a new solver may start: the point, planes and dual certificate."""
        return LinearStart(point, self.dual_certificate, bundle=self.bundle)

    @property
    def multiplications(self) -> float:
        """Multiplications so far in the inner problems."""
        return self.bundle.multiplications

    def attach(self, problem: CuttingPlanes | Points) -> None:
        """Continue with the same problem in another object."""
        self._problem = with_points(problem)

    def begin(self) -> None:
        """Cut a first plane at the start; with planes, take only its objective."""
        self.begin_at(self._point(*self._start))

    def begin_at(self, point: Point) -> None:
        """Cut a first plane at this point; with planes, take only its objective."""
        if self.bundle.is_empty:
            self._cut(self._at_finite_risk(point))
        else:
            self._offer(point, self._fresh_risk(point))

    def step(self) -> None:
        """One iteration of the algorithm."""
        if self._algorithm == "line-search":
            self._step_of_line_search()
            return
        gap = self.best.gap
        self._cut(self._point(*self.solve_inner()))
        self._cut_balanced()
        self._count_idle(gap)

    def _step_of_line_search(self) -> None:
        problem = require(self._problem, LineSearch, self._algorithm)
        if self._end is not None:
            # The same w_t again: cut closer to it, where the plane is sure to cut it off.
            theta = min(1.0, self._theta * 2.0 ** min(self.idle, _PATIENCE))
            self._cut(problem.blend(self.best.point, self._end, theta))
        self._cut_balanced()
        gap = self.best.gap
        self._end = self._point(*self.solve_inner())
        problem.set_intercept(self._end)
        self._search(problem, self.best.point, self._end)
        self._count_idle(gap)

    def _improve(self, point: Point) -> None:
        super()._improve(point)
        if self._omega.is_l1:
            self._prune()

    def _prune(self) -> None:
        """Set features to 0 that the plane does not need, if the objective does not rise.

        The best point is a mean of many iterates, and has the nonzeros of all of them. Features
        with ``|A' alpha|`` below reg_lambda are zero at the optimum.
        """
        best, limits = self.best, l1_limits(self._omega, self._lambda)
        reach = np.abs(self.plane[0])
        for share in _PRUNED:
            w = np.where(reach >= share * limits, best.point.w, 0.0)
            point = self._point(w, best.point.intercept)
            objective = self._objective(w, self._fresh_risk(point))
            if objective <= best.primal:
                best.replace(objective, point)
                return

    def _at_finite_risk(self, point: Point) -> Point:
        """The point, or one closer to 0, which need not be the minimizer of the regularizer."""
        for _ in range(SEARCH_STEPS if point.w.any() else 0):
            smaller = 0.1 * point.w
            if self._fresh_risk(point) <= LARGEST_RISK or self._omega.value(smaller) == np.inf:
                break
            point = self._point(smaller, point.intercept)
        return point

    def solve_inner(self) -> tuple[Array, Array | None]:
        """The minimizer of reg_lambda Omega + model; keeps the bound if it is the best."""
        known, gap = self.best, self.best.gap
        exact = not np.isfinite(gap) or self.idle > 0
        tolerance = 0.0 if exact else QP_SHARE * gap
        least_bound = -np.inf if exact else known.primal - _USEFUL_GAP * gap
        w, b = known.point.w, known.point.intercept
        center = Center(w, b, known.primal, least_bound, self._proximal, self._length)
        inner = self.bundle.solve(self._lambda, tolerance, center)
        self._rising = inner.bound > self._highest + LAST_PLACE * abs(known.primal)
        self._highest = max(self._highest, inner.bound)
        self._prove(inner.plane, inner.bound)
        return self._near_best(inner.w), inner.intercept

    def _count_idle(self, gap_before: float, *, moved: bool = True) -> None:
        """The model may rise while it is below a bound that was known before, as after a refit."""
        super()._count_idle(gap_before, moved=moved)
        if self._rising:
            self.idle = 0

    def _near_best(self, w: Array) -> Array:
        """w_t itself, unless it is so far away that its scores would overflow."""
        if self._omega.is_quadratic or self._omega.is_l1:
            return w
        farthest = _LEAP * (1.0 + np.abs(self.best.point.w).max(initial=0.0))
        return np.clip(w, -farthest, farthest)

    def _search(self, problem: LineSearch, start: Point, end: Point) -> None:
        """Offer the best point on the line from start through end."""
        self._length = self._best_step(problem, start, end)
        if 0.0 < self._length < np.inf:
            point = problem.blend(start, end, self._length)
            self._offer(point, self._fresh_risk(point))

    def _best_step(self, problem: LineSearch, start: Point, end: Point) -> float:
        """The t >= 0, beyond 1 too, that minimizes the objective from start towards end."""
        omega, reg_lambda, along = self._omega, self._lambda, end.w - start.w
        if omega.is_quadratic:
            slope, curvature = omega.slope(start.w, along)
            return problem.line_search(start, end, reg_lambda * slope, reg_lambda * curvature)
        risk = problem.risk_along(start, end)

        def objective(step: float) -> tuple[float, float]:
            w = start.w + step * along
            penalty = omega.value(w)
            if not np.isfinite(penalty):
                return np.inf, np.inf  # outside its domain
            value, slope = risk(step)
            return reg_lambda * penalty + value, slope + reg_lambda * omega.slope(w, along)[0]

        return search_kink(objective, precision=_STEP_PRECISION)

    def _cut(self, point: Point) -> None:
        """Add the plane at the point, and others until a single intercept has both sides.

        Only planes whose coefficients of b cancel prove a bound, and points may approach the best b
        from one side only.
        """
        self._add_plane(point)
        if not self._needs_both_sides or self.best.point is None:
            return
        for _ in range(MOST_MOVES):
            balance = self.bundle.balance[:, 0]
            if balance.min() < 0.0 < balance.max() or not balance.any():
                return
            self._reach *= WIDER
            b = self.best.point.intercept - np.sign(balance.sum()) * self._reach
            self._add_plane(self._problem.point(self.best.point.w, b))

    def _add_plane(self, point: Point) -> None:
        """Add the plane at ``point``, or closer to the best point if it would be useless there."""
        plane = self._plane(point)
        for step in _RETREAT:
            if self._is_moderate(plane) or self.best.point is None:
                break
            point = self._problem.blend(self.best.point, point, step)
            plane = self._plane(point)
        if plane is None:
            if self.best.point is None or not np.isfinite(self._fresh_risk(point)):
                raise ValueError(
                    "The loss is not finite at the best point so far, or next to it: check the "
                    "loss, and the scale of the features."
                )
            plane = self._plane(self.best.point)
        else:
            self._offer(point, plane.risk)
        if plane is not None:  # rounding may leave no plane; the bound then stays as it is
            self.bundle.add(plane.gradient, plane.offset, plane.balance)

    def _cut_balanced(self) -> None:
        """Add a balanced plane, cut at the best point, as long as such planes prove more.

        With intercepts as coordinates the objective may be found long before the other planes
        prove it, because these have to surround the best intercepts.
        """
        best, wait = self.best, self._wait
        if not self._problem.n_free:
            return
        wait.left -= 1
        if best.point is wait.last or (wait.left > 0 and self.idle == 0):
            return
        wait.last = best.point
        plane = self._problem.cut_balanced(best.point)
        gap = best.gap
        if plane is not None:
            self.bundle.add(plane.gradient, plane.offset, plane.balance)
            bound, found = bound_of_plane(self.bundle, -1, self._lambda, best.point.intercept)
            self._prove(found, bound)
        wait.length = 1 if best.gap < gap else 2 * wait.length
        wait.left = wait.length

    def _is_moderate(self, plane: Plane | None) -> bool:
        """Algorithm 3 judges by the risk, which saves a product; Algorithm 2 by the slope."""
        if plane is None or self._algorithm == "line-search":
            return plane is not None
        slope = float(np.abs(plane.gradient).max(initial=0.0))
        if self._steepest is None:
            self._steepest = slope
        return slope <= self._steepest * self._lift

    def _risk_limit(self) -> float:
        """The more iterations are in vain, the farther out a plane may be cut."""
        if self.best.point is None or self._algorithm == "cutting-plane":
            return LARGEST_RISK
        if self.best.primal <= 0.0:  # a multiple of it means nothing
            return LARGEST_RISK
        return min(LARGEST_RISK, self._lift * self.best.primal)

    @property
    def _lift(self) -> float:
        return _STEEPEST ** (1 + min(self.idle, _PATIENCE))

    def _point(self, w: Array, intercept: float | Array | None) -> Point:
        """The point w; an intercept that is minimized out is not known yet."""
        return self._problem.point(w, intercept if self._problem.n_free else None)

    def _plane(self, point: Point) -> Plane | None:
        return self._problem.cut(point, self._risk_limit())


@dataclass
class _Wait:
    """When the next balanced plane is cut: after some iterations, twice as many if in vain."""

    length: int = 1
    left: int = 1
    last: Point | None = None  # where the last one was cut


def _algorithm(task: Task) -> str:
    return "cutting-plane" if task.solver == "cutting-plane" else "line-search"


def _needs(algorithm: str) -> type:
    return CuttingPlanes if algorithm == "cutting-plane" else LineSearch
