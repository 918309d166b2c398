"""Points and planes for a user's problem that gives only values and subgradients."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.problems.linear import Plane, Point
from sklearn_bundle.linear.solvers.protocols import CuttingPlanes, Points, offers, require

Array = NDArray[np.float64]


class Oracle:
    """Offers :class:`Points` for a problem with only :class:`CuttingPlanes`: no intercept.

    Parameters
    ----------
    problem : CuttingPlanes
    """

    n_free = 0
    intercept_scale = 1.0

    def __init__(self, problem: CuttingPlanes):
        self._problem: Any = problem
        self._n_evaluations = 0
        self.dimension = problem.dimension
        self.nonnegative = getattr(problem, "nonnegative", False)

    @property
    def passes(self) -> int:
        """Passes as the problem counts them; evaluations if it does not."""
        return getattr(self._problem, "passes", self._n_evaluations)

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w) and a subgradient of R at w, as the problem gives them."""
        self._n_evaluations += 1
        return self._problem.evaluate(w)

    def point(self, w: Array, intercept: float | Array | None = None) -> Point:
        """The point w, without an intercept."""
        return Point(w, None, None)

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point ``start + step (end - start)``."""
        return Point(start.w + step * (end.w - start.w), None, None)

    def set_intercept(self, point: Point) -> None:
        """Do nothing: there is no intercept."""

    def risk(self, point: Point) -> float:
        """R(w)."""
        return self.evaluate(point.w)[0]

    def cut(self, point: Point, risk_limit: float) -> Plane | None:
        """The plane of value and subgradient; None if the value is above the limit or NaN."""
        risk, gradient = self.evaluate(point.w)
        if not risk <= risk_limit:
            return None
        return Plane(gradient, risk - float(np.sum(gradient * point.w)), risk)

    def cut_balanced(self, point: Point) -> None:
        """None: there is no intercept."""

    def sizes(self, point: Point) -> None:
        """None: they are not known."""


def with_points(problem: CuttingPlanes | Points) -> Points:
    """The problem itself if it offers points, else an adapter that does."""
    if offers(problem, Points):
        return problem
    return Oracle(require(problem, CuttingPlanes, "cutting-plane"))
