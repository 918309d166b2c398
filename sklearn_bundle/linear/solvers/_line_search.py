"""The exact line search of a regularized risk, for any regularizer."""

import numpy as np

from sklearn_bundle.core.numeric.kinks import search_kink
from sklearn_bundle.linear.problems.linear import Point
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.protocols import LineSearch

# Relative error of a step along a curve other than a parabola; the objective has its square.
_STEP_PRECISION = 1e-6


def best_step(
    problem: LineSearch, omega: Regularizer, reg_lambda: float, start: Point, end: Point
) -> float:
    """The t >= 0, beyond 1 too, that minimizes ``reg_lambda Omega + R`` from start towards end."""
    along = end.w - start.w
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
