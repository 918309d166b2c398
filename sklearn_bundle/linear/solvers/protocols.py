"""What each kind of solver needs of a problem: Protocols, and checks that a problem offers them.

A problem need not name them: it offers a Protocol if it has all of its members. A member that a
problem cannot have for its data or its loss is None. A solver names what it ``needs``: a Protocol,
or a class such as :class:`~.problems.linear.LinearProblem`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.problems.linear import Plane, Point
from sklearn_bundle.linear.problems.linear_rounding import Sizes

Array = NDArray[np.float64]
P = TypeVar("P")


class CuttingPlanes(Protocol):
    """A convex risk R of a vector w. Your own problem needs nothing else.

    Two more attributes are optional. ``nonnegative = True`` says that R is nowhere negative, so
    that no lower bound is negative, including the first one. ``passes`` counts the work, by default
    the evaluations.
    """

    @property
    def dimension(self) -> int:
        """Length of w."""
        ...

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w), infinity if numbers overflow, and a subgradient of R at w."""
        ...


class Points(Protocol):
    """A convex risk at points that hold more than w: scores, which are linear, and an intercept."""

    @property
    def dimension(self) -> int:
        """Length of w."""
        ...

    @property
    def passes(self) -> int:
        """Products with the data so far."""
        ...

    @property
    def nonnegative(self) -> bool:
        """Whether the risk is known to be nonnegative."""
        ...

    @property
    def n_free(self) -> int:
        """Numbers in an intercept that is a coordinate of its own."""
        ...

    @property
    def intercept_scale(self) -> float:
        """About the square of the w that changes scores as much as such an intercept of 1."""
        ...

    def point(self, w: Array, intercept: float | Array | None, /) -> Point:
        """The point w; None is an intercept of 0, or no intercept."""
        ...

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point ``start + step (end - start)``."""
        ...

    def set_intercept(self, point: Point) -> None:
        """Set the point's intercept to the best one, if it can be minimized out."""
        ...

    def risk(self, point: Point) -> float:
        """R at the point with its own intercept."""
        ...

    def cut(self, point: Point, risk_limit: float) -> Plane | None:
        """The cutting plane at the point and its best intercept; None if R is above the limit."""
        ...

    def cut_balanced(self, point: Point) -> Plane | None:
        """A plane near the one at the point that no intercept changes; its risk is not set.

        None if there is none, or if no intercept is a coordinate.
        """
        ...

    def sizes(self, point: Point) -> Sizes | None:
        """Sizes of the terms of sums at the point, which bound their rounding; None if unknown."""
        ...


class LineSearch(Points, Protocol):
    """The risk along a line, at the cost of at most two products for scores."""

    def line_search(self, start: Point, end: Point, slope: float, curvature: float) -> float:
        """The t >= 0 that minimizes ``slope t + curvature t^2/2 + R`` from start towards end."""
        ...

    def risk_along(self, start: Point, end: Point) -> Callable[[float], tuple[float, float]]:
        """R and its derivative at a step from start towards end."""
        ...


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


def missing(problem: Any, needs: type) -> list[str]:
    """Members of a Protocol that the problem lacks; or the name of a class that is not its own."""
    if Protocol in needs.__mro__:
        return [name for name in _members(needs) if getattr(problem, name, None) is None]
    return [] if isinstance(problem, needs) else [needs.__name__]


def offers(problem: Any, needs: type[P]) -> TypeGuard[P]:
    """Whether the problem has all that a solver needs."""
    return not missing(problem, needs)


def require(problem: Any, needs: type[P], who: str, instead: str | None = None) -> P:
    """The problem, which is refused unless it offers what the solver ``who`` needs.

    Raises
    ------
    ValueError
        With the names of what is missing, and of the solver that may do ``instead``.
    """
    names = missing(problem, needs)
    if names:
        advice = f"; use {instead!r}" if instead else ""
        raise ValueError(
            f"{who!r} needs a problem with {', '.join(names)} ({needs.__name__} in "
            f"{needs.__module__}), which {type(problem).__name__} lacks{advice}."
        )
    return problem


def with_points(problem: CuttingPlanes | Points) -> Points:
    """The problem itself if it offers points, else an adapter that does."""
    if offers(problem, Points):
        return problem
    return Oracle(require(problem, CuttingPlanes, "cutting-plane"))


@cache  # a path needs this for each value and for several solvers
def _members(protocol: type) -> list[str]:
    """Methods and attributes that a Protocol and its base Protocols declare."""
    names: dict[str, None] = {}
    for kind in reversed(protocol.__mro__):
        if kind not in (object, Protocol, Generic):
            members = [*kind.__annotations__, *vars(kind)]
            names |= dict.fromkeys(name for name in members if not name.startswith("_"))
    return list(names)
