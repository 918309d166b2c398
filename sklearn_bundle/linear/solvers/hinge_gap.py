"""The excessive gap technique for the linear support vector machine with the hinge loss."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Rounding
from sklearn_bundle.core.limits import MOST_STEPS
from sklearn_bundle.core.multiplier import constant, multiplier, solution
from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.linear_rounding import Certified, optimum_ball, rounding
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.solvers.excessive_gap import ExcessiveGapSolver

Array = NDArray[np.float64]

_LEAST_POWER_STEPS = 30  # earlier, a plateau may come from many slightly smaller eigenvalues
_POWER_PRECISION = 1e-5  # relative change of the estimate in a step
_POWER_MARGIN = 1.05  # times the estimate, which comes from below


class HingeDual:
    """``D(u) = sum_i s_i u_i - ||X'(s y u)||^2 / (2 reg_lambda)`` over ``0 <= u <= 1``,

    with an intercept also ``sum_i s_i y_i u_i = 0``. The paper's dual variables are
    ``alpha_i = s_i u_i``. Distances are those of the prox-function ``1/2 sum_i s_i u_i^2``, or
    ``1/2 sum_i alpha_i^2/s_i``: a weight 2 equals a repeated row, and it is at most 1/2. D is the
    dual of ``J(w, b) = reg_lambda/2 ||w||^2 + R(w, b)``, R the risk of the hinge loss.

    Parameters
    ----------
    problem : LinearProblem
        Of the hinge loss.
    reg_lambda : float
    """

    def __init__(self, problem: LinearProblem, reg_lambda: float):
        self._problem, self._lambda = problem, reg_lambda
        self._y, self._weights, self._free = problem.target, problem.weights, problem.fit_intercept
        self._signed_weights = self._weights * self._y
        self._signs = frozen(self._y), frozen(self._weights), frozen(self._signed_weights)
        self._products = np.empty(problem.n_samples)
        self.point, self.blend = problem.point, problem.blend

    @property
    def passes(self) -> int:
        """Products with X or X' so far."""
        return self._problem.passes

    def origin(self) -> tuple[Array, Array]:
        """The point 0, with its sum."""
        return np.zeros(self._problem.n_samples), np.zeros(self._problem.dimension)

    def combine(self, u: Array) -> Array:
        """``X'(s y u)``, one product with X'."""
        signed = np.multiply(self._signed_weights, u, out=self._products)
        return self._problem.rows.gradient(signed)

    def primal_point(self, combined: Array) -> Point:
        """``w(u) = X'(s y u) / reg_lambda`` with its scores: one product with X."""
        return self.point(combined / self._lambda)

    def rounding(self, point: Point, objective: float, combined: Array, bound: float) -> Rounding:
        """What rounding of J at the point and of D may hide, to be taken off the bound."""
        certified = self._certified(point, objective, combined, bound)
        return rounding(self._problem, point, certified, L2(), self._lambda)

    def ball(
        self, point: Point, objective: float, combined: Array, bound: float, taken: Rounding
    ) -> Ball | None:
        """The ball that contains the optimal w; ``taken`` is the rounding."""
        certified = self._certified(point, objective, combined, bound)
        gap = objective - (bound - taken.of_bound)
        return optimum_ball(certified, bound, gap, taken, L2(), self._lambda)

    def _certified(
        self, point: Point, objective: float, combined: Array, bound: float
    ) -> Certified:
        """J at the point, and the plane that proves D."""
        offset = bound + float(combined @ combined) / (2.0 * self._lambda)
        return Certified(point.w, point.intercept, objective, (-combined, offset))

    def primal_value(self, point: Point) -> float:
        """J at the point, whose intercept becomes the best one."""
        self._problem.set_intercept(point)
        return self.objective(point)

    def objective(self, point: Point) -> float:
        """J at the point with its own intercept."""
        return 0.5 * self._lambda * float(np.sum(point.w * point.w)) + self._problem.risk(point)

    def dual_value(self, u: Array, combined: Array) -> float:
        """D(u)."""
        norm = float(np.sum(combined * combined))
        return float(np.sum(self._weights * u)) - norm / (2.0 * self._lambda)

    def project(self, center: Array, point: Point, step: float, series: int) -> Array:
        """Project ``center + step (1 - y f)``, a step along the gradient of D at w's scores.

        It maximizes ``sum_i s_i u_i (1 - y_i f_i) - 1/(2 step) sum_i s_i (u_i - center_i)^2``.
        """
        moved = np.empty_like(center)
        design.ascend(center, self._y, point.scores, step, moved)
        if not self._free:
            return np.clip(moved, 0.0, 1.0)
        y, weights, signed = self._signs
        box, moved = (constant(0.0), constant(1.0)), frozen(moved)
        t = multiplier(moved, y, weights, *box, 0.0)
        return solution(moved, y, signed, *box, 0.0, t)[0]

    def feasible(self, u: Array) -> Array:
        """u with the heavier class scaled down, so that it is feasible despite rounding."""
        if not self._free:
            return u
        positive = float(np.sum(np.maximum(self._signed_weights, 0.0) * u))
        negative = -float(np.sum(np.minimum(self._signed_weights, 0.0) * u))
        if positive == negative:
            return u
        heavier = self._y > 0.0 if positive > negative else self._y < 0.0
        return u * np.where(heavier, min(positive, negative) / max(positive, negative), 1.0)

    def curvature(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """Curvature of -D from u to v, over the squared distance: at most L, and 0 if u = v."""
        change = u_combined - v_combined
        squared = float(np.sum(change * change)) / self._lambda
        distance = float(np.sum(self._weights * (u - v) ** 2))
        return squared / distance if distance > 0.0 else 0.0

    def best_between(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """The t in [0, 1] at which ``D(u + t (v - u))`` is largest."""
        change = v_combined - u_combined
        slope = float(np.sum(self._weights * (v - u)))
        slope -= float(np.sum(u_combined * change)) / self._lambda
        curvature = float(np.sum(change * change)) / self._lambda
        if slope <= 0.0:
            return 0.0
        return min(1.0, slope / curvature) if curvature > 0.0 else 1.0

    def lipschitz_constant(self, seed: int | None) -> float:
        """L of the gradient of D: an estimate of the largest eigenvalue of ``X'SX/reg_lambda``.

        With an intercept X is centered by its weighted mean: only differences of feasible u count.
        Power iteration takes two products per step; 5 % are added, since it comes from below.
        """
        problem, rows = self._problem, self._problem.rows
        w = np.random.default_rng(seed).standard_normal(problem.dimension)
        value = 0.0
        for step in range(MOST_STEPS):  # of two products each
            scores = problem.point(w / np.linalg.norm(w)).scores
            if self._free:
                scores = scores - np.sum(self._weights * scores)
            w = rows.gradient(self._weights * scores)
            before, value = value, float(np.linalg.norm(w))
            settled = value - before <= _POWER_PRECISION * value
            if not value > 0.0 or (settled and step >= _LEAST_POWER_STEPS):
                break
        return _POWER_MARGIN * value / self._lambda


class HingeGapSolver(ExcessiveGapSolver):
    """The method on the dual of a problem with the hinge loss.

    Parameters
    ----------
    problem : LinearProblem
    reg_lambda : float
    lipschitz : float, "adaptive" or "power"
        Constant of Algorithm 1, None of :class:`ExcessiveGapSolver`, or an estimate of the constant
        by power iteration.
    start : ndarray of shape (n,)
        Feasible u to start from.
    seed : int
        Of the power iteration.
    """

    def __init__(
        self,
        problem: LinearProblem,
        reg_lambda: float,
        lipschitz: float | str,
        start: Array | None = None,
        seed: int | None = None,
    ):
        dual, self._lambda = HingeDual(problem, reg_lambda), reg_lambda
        known = {"adaptive": None, "power": partial(dual.lipschitz_constant, seed)}
        fixed = known[lipschitz] if isinstance(lipschitz, str) else lipschitz
        super().__init__(dual, fixed, start)

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same problem in another object."""
        super().attach(HingeDual(problem, self._lambda))
