"""The linear support vector machine with the hinge loss, and its dual."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Rounding
from sklearn_bundle.core.limits import MOST_STEPS
from sklearn_bundle.core.multiplier import constant, multiplier, solution
from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.losses.hinge import Hinge
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.linear_rounding import Certified, optimum_ball, rounding
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

_LEAST_POWER_STEPS = 30  # earlier, a plateau may come from many slightly smaller eigenvalues
_POWER_PRECISION = 1e-5  # relative change of the estimate in a step
_POWER_MARGIN = 1.05  # times the estimate, which comes from below


class HingeDual(LinearProblem):
    """``D(u) = sum_i s_i u_i - ||X'(s y u)||^2 / (2 reg_lambda)`` over ``0 <= u <= 1``,

    with an intercept also ``sum_i s_i y_i u_i = 0``. The paper's dual variables are
    ``alpha_i = s_i u_i``. Distances are those of the prox-function ``1/2 sum_i s_i u_i^2``, or
    ``1/2 sum_i alpha_i^2/s_i``: a weight 2 equals a repeated row, and it is at most 1/2. D is the
    dual of ``J(w, b) = reg_lambda/2 ||w||^2 + R(w, b)``, R the risk of the hinge loss.

    Parameters
    ----------
    rows, target, weights, fit_intercept
        As in LinearProblem.
    reg_lambda : float
    """

    def __init__(
        self,
        rows: RowOperator,
        target: Array,
        weights: Array,
        reg_lambda: float,
        fit_intercept: bool,
    ):
        super().__init__(rows, target, weights, Hinge(), fit_intercept)
        self.reg_lambda = reg_lambda
        self._signed_weights = weights * target
        self._signs = frozen(target), frozen(weights), frozen(self._signed_weights)
        self._products = np.empty(self.n_samples)

    def origin(self) -> tuple[Array, Array]:
        """The point 0, with its sum."""
        return np.zeros(self.n_samples), np.zeros(self.dimension)

    def combine(self, u: Array) -> Array:
        """``X'(s y u)``, one product with X'."""
        return self.rows.gradient(np.multiply(self._signed_weights, u, out=self._products))

    def primal_point(self, combined: Array) -> Point:
        """``w(u) = X'(s y u) / reg_lambda`` with its scores: one product with X."""
        return self.point(combined / self.reg_lambda)

    def certified(self, point: Point, objective: float, combined: Array, bound: float) -> Certified:
        """J at the point, and the plane that proves D."""
        offset = bound + float(combined @ combined) / (2.0 * self.reg_lambda)
        return Certified(point.w, point.intercept, objective, (-combined, offset))

    def rounding(self, point: Point, certified: Certified) -> Rounding:
        """What rounding of J at the point and of D may hide, to be taken off the bound."""
        return rounding(self, point, certified, L2(), self.reg_lambda)

    def ball(self, certified: Certified, bound: float, gap: float, taken: Rounding) -> Ball | None:
        """The ball that contains the optimum."""
        return optimum_ball(certified, bound, gap, taken, L2(), self.reg_lambda)

    def primal_value(self, point: Point) -> float:
        """J at the point, whose intercept becomes the best one."""
        self.set_intercept(point)
        return self.objective(point)

    def objective(self, point: Point) -> float:
        """J at the point with its own intercept."""
        return 0.5 * self.reg_lambda * float(np.sum(point.w * point.w)) + self.risk(point)

    def dual_value(self, u: Array, combined: Array) -> float:
        """D(u)."""
        norm = float(np.sum(combined * combined))
        return float(np.sum(self.weights * u)) - norm / (2.0 * self.reg_lambda)

    def project(self, center: Array, point: Point, step: float, series: int) -> Array:
        """Project ``center + step (1 - y f)``, a step along the gradient of D at w's scores.

        It maximizes ``sum_i s_i u_i (1 - y_i f_i) - 1/(2 step) sum_i s_i (u_i - center_i)^2``.
        """
        moved = np.empty_like(center)
        design.ascend(center, self.target, point.scores, step, moved)
        if not self.fit_intercept:
            return np.clip(moved, 0.0, 1.0)
        y, weights, signed = self._signs
        box, moved = (constant(0.0), constant(1.0)), frozen(moved)
        t = multiplier(moved, y, weights, *box, 0.0)
        return solution(moved, y, signed, *box, 0.0, t)[0]

    def feasible(self, u: Array) -> Array:
        """u with the heavier class scaled down, so that it is feasible despite rounding."""
        if not self.fit_intercept:
            return u
        positive = float(np.sum(np.maximum(self._signed_weights, 0.0) * u))
        negative = -float(np.sum(np.minimum(self._signed_weights, 0.0) * u))
        if positive == negative:
            return u
        heavier = self.target > 0.0 if positive > negative else self.target < 0.0
        return u * np.where(heavier, min(positive, negative) / max(positive, negative), 1.0)

    def curvature(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """Curvature of -D from u to v, over the squared distance: at most L, and 0 if u = v."""
        change = u_combined - v_combined
        squared = float(np.sum(change * change)) / self.reg_lambda
        distance = float(design.squared_distance(self.weights, u, v))
        return squared / distance if distance > 0.0 else 0.0

    def best_between(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """The t in [0, 1] at which ``D(u + t (v - u))`` is largest."""
        change = v_combined - u_combined
        slope = float(np.sum(self.weights * (v - u)))
        slope -= float(np.sum(u_combined * change)) / self.reg_lambda
        curvature = float(np.sum(change * change)) / self.reg_lambda
        if slope <= 0.0:
            return 0.0
        return min(1.0, slope / curvature) if curvature > 0.0 else 1.0

    def lipschitz_constant(self, seed: int) -> float:
        """L of the gradient of D: an estimate of the largest eigenvalue of ``X'SX/reg_lambda``.

        With an intercept X is centered by its weighted mean: only differences of feasible u count.
        Power iteration takes two products per step; 5 % are added, since it comes from below.
        """
        w = np.random.default_rng(seed).standard_normal(self.dimension)
        value = 0.0
        for step in range(MOST_STEPS):  # of two products each
            scores = self.point(w / np.linalg.norm(w)).scores
            if self.fit_intercept:
                scores = scores - np.sum(self.weights * scores)
            w = self.rows.gradient(self.weights * scores)
            before, value = value, float(np.linalg.norm(w))
            settled = value - before <= _POWER_PRECISION * value
            if not value > 0.0 or (settled and step >= _LEAST_POWER_STEPS):
                break
        return _POWER_MARGIN * value / self.reg_lambda
