"""BMRM: bundle methods for regularized risk minimisation (Teo et al., JMLR 11, 2010)."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.problems.linear import LARGEST_RISK, Plane, Point
from sklearn_bundle.regularizers import L2
from sklearn_bundle.solvers._run import State
from sklearn_bundle.solvers.planes import Bundle

Array = NDArray[np.float64]

_QP_SHARE = 0.1  # solve the inner problem to this share of the outer gap: more is wasted
_IDLE_LIMIT = 12  # iterations without progress, after which rounding has the last word
_RISK_LIMIT = 10.0  # times the best objective: farther out a plane is a wall that tells little
_STEEPEST = 100.0  # times the first plane's slope: Algorithm 2 cuts at w_t, except where steeper
_ROUNDING = 1e-15
_CROSSED = 1e-6  # relative; far above rounding
_RETREAT = 10 * [0.5] + 20 * [0.1]  # towards the best point; after that, the plane there
_LIFT = 100.0  # of both limits with every iteration that brings no progress


class CuttingPlaneProblem(Protocol):
    """What Algorithms 2 and 4 ask of a problem; line search asks for :class:`LinearProblem`."""

    n_features: int
    passes: int

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w) and a subgradient of R at w, R convex."""


class BundleSolver:
    """Algorithms 2 ("cutting-plane"), 3 ("line-search") and, with two planes, 4 of the paper.

    Parameters
    ----------
    problem : LinearProblem, or for "cutting-plane" any CuttingPlaneProblem
    reg_lambda : float
    algorithm : {"line-search", "cutting-plane"}
    theta : float
        "line-search": the next plane is cut at ``(1 - theta) best + theta w_t``.
    bundle : Bundle
        Planes to start from; empty by default.
    start : ndarray of shape (d,)
        Point to start from; the origin by default.

    Attributes
    ----------
    plane : (ndarray of shape (d,), float)
        The aggregate plane (a, c) that proves the bound ``c - ||a||^2 / (2 reg_lambda)``.
    """

    def __init__(
        self,
        problem: CuttingPlaneProblem,
        reg_lambda: float,
        *,
        algorithm: str = "line-search",
        theta: float = 0.1,
        bundle: Bundle | None = None,
        start: Array | None = None,
    ):
        self._linear = hasattr(problem, "line_search")
        if algorithm == "line-search" and not self._linear:
            raise ValueError(
                f"algorithm='line-search' needs a problem with an exact line search, which "
                f"{type(problem).__name__} has not; use 'cutting-plane'."
            )
        self._problem = problem
        self._lambda = reg_lambda
        self._omega = L2()
        self._algorithm = algorithm
        self._theta = theta
        self.bundle = Bundle(problem.n_features) if bundle is None else bundle
        self._start = np.zeros(problem.n_features) if start is None else start
        self.plane: tuple[Array, float] | None = None
        self._bound = -np.inf
        self._primal = np.inf
        self._best: Point | None = None
        self._steepest: float | None = None
        self._idle = 0  # iterations since the gap last became smaller

    def states(self) -> Iterator[State]:
        """One state an iteration; ends when rounding leaves nothing to gain."""
        steps = self._line_search() if self._algorithm == "line-search" else self._cutting_plane()
        for _ in steps:
            yield self._state()
            if self._idle >= _IDLE_LIMIT:
                return

    def confirm(self) -> State:
        """Objective from the data at the best point, bound from the kept aggregate plane."""
        self._best = self._point(self._best.w)
        self._primal = self._objective(self._best.w, self._fresh_risk(self._best))
        bound = self._bound_of(*self.plane)
        # The bound is a difference of two terms and carries their rounding.
        if bound - self._primal > _CROSSED * abs(self._primal) + 1e-12 * abs(self.plane[1]):
            raise ValueError(
                f"The lower bound {bound:.8g} lies above the objective {self._primal:.8g}: the "
                "loss is not convex, or its gradient is not the derivative of its value."
            )
        self._bound = min(bound, self._primal)  # crossed by no more than rounding
        return self._state()

    def _cutting_plane(self) -> Iterator[None]:
        self._begin(self._point(self._start))
        while True:
            gap = self._primal - self._bound
            self._cut(self._point(self._solve_inner()))
            self._count_idle(gap)
            yield

    def _line_search(self) -> Iterator[None]:
        problem = self._problem
        self._begin(problem.point(self._start))
        while True:
            gap = self._primal - self._bound
            end = problem.point(self._solve_inner())
            problem.set_intercept(end)
            self._search_towards(end)
            self._count_idle(gap)
            yield
            # The same w_t again: move the cut towards it, where the model is sure to be cut off.
            theta = min(1.0, self._theta * 2.0**self._idle)
            self._cut(problem.blend(self._best, end, theta))

    def _begin(self, point: Point) -> None:
        if self.bundle.size == 0:
            self._cut(point)
        else:
            self._offer(point, self._fresh_risk(point))

    def _solve_inner(self) -> Array:
        """w_t, the minimiser of reg_lambda Omega + model; keeps the bound if it is the best."""
        gap = self._primal - self._bound
        share = _QP_SHARE if np.isfinite(gap) and self._idle == 0 else 0.0
        aggregate, offset = self.bundle.solve(self._lambda, share * gap if share else 0.0)
        bound = self._bound_of(aggregate, offset)
        if bound > self._bound:
            self._bound, self.plane = bound, (aggregate, offset)
        return self._omega.conjugate_gradient(-aggregate / self._lambda)

    def _search_towards(self, end: Point) -> None:
        start = self._best
        along = end.w - start.w
        slope = self._lambda * self._omega.inner(start.w, along)
        curvature = self._lambda * self._omega.inner(along, along)
        problem = self._problem
        step = problem.line_search(start, end, slope, curvature)
        if 0.0 < step < np.inf:
            point = problem.blend(start, end, step)
            self._offer(point, problem.minimise_intercept(point))

    def _cut(self, point: Point) -> None:
        """Add the plane at ``point``, or nearer to the best point where it would be of no use."""
        plane = self._plane(point)
        for step in _RETREAT:
            if self._is_moderate(plane) or self._best is None:
                break
            point = self._blend(self._best, point, step)
            plane = self._plane(point)
        if plane is None:
            if self._best is None or not np.isfinite(self._fresh_risk(point)):
                raise ValueError(
                    "The loss is not finite at the best point so far, or next to it: check the "
                    "loss, and the scale of the features."
                )
            plane = self._plane(self._best)
        else:
            self._offer(point, plane.risk)
        self.bundle.add(plane.gradient, plane.offset)

    def _is_moderate(self, plane: Plane | None) -> bool:
        """Algorithm 3 judges by the risk, before a product is spent; Algorithm 2 by the slope."""
        if plane is None or self._algorithm == "line-search":
            return plane is not None
        slope = np.abs(plane.gradient).max(initial=0.0)
        if self._steepest is None:
            self._steepest = _STEEPEST * slope
        return slope <= self._steepest * _LIFT**self._idle

    def _risk_limit(self) -> float:
        """The more iterations bring nothing, the farther out a plane may be cut."""
        if self._best is None or self._algorithm == "cutting-plane":
            return LARGEST_RISK
        return min(LARGEST_RISK, _RISK_LIMIT * _LIFT**self._idle * self._primal)

    # What follows asks a LinearProblem, or another problem by its protocol alone.

    def _point(self, w: Array) -> Point:
        return self._problem.point(w) if self._linear else Point(w, None, None)

    def _plane(self, point: Point) -> Plane | None:
        if self._linear:
            return self._problem.cut(point, self._risk_limit())
        risk, gradient = self._problem.evaluate(point.w)
        if not risk <= LARGEST_RISK:
            return None
        return Plane(gradient, risk - float(np.sum(gradient * point.w)), risk)

    def _blend(self, start: Point, end: Point, step: float) -> Point:
        if self._linear:
            return self._problem.blend(start, end, step)
        return Point(start.w + step * (end.w - start.w), None, None)

    def _fresh_risk(self, point: Point) -> float:
        if self._linear:
            return self._problem.minimise_intercept(point)
        return self._problem.evaluate(point.w)[0]

    def _offer(self, point: Point, risk: float) -> None:
        primal = self._objective(point.w, risk)
        if primal < self._primal:
            self._primal, self._best = primal, point

    def _objective(self, w: Array, risk: float) -> float:
        return self._lambda * self._omega.value(w) + risk

    def _bound_of(self, gradient: Array, offset: float) -> float:
        return offset - self._lambda * self._omega.conjugate(-gradient / self._lambda)

    def _count_idle(self, gap_before: float) -> None:
        gained = gap_before - (self._primal - self._bound)
        self._idle = 0 if gained > _ROUNDING * abs(self._primal) else self._idle + 1

    def _state(self) -> State:
        best = self._best
        return State(self._primal, self._bound, best.w, best.intercept, self._problem.passes)
