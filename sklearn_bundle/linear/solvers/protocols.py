"""What each kind of solver needs of a problem: Protocols, and checks that a problem offers them.

A problem need not name them: it offers a Protocol if it has all of its members. A member that a
problem cannot have for its data or its loss is None. A solver names what it ``needs``: a Protocol,
or :class:`~.problems.linear.LinearProblem` and the ``form`` of the loss that it uses.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import Rounding
from sklearn_bundle.linear.losses.multiclass import MulticlassHinge
from sklearn_bundle.linear.losses.scores import ScoreLoss, Start
from sklearn_bundle.linear.problems.class_dual import ClassAscent
from sklearn_bundle.linear.problems.dual_steps import DualAscent
from sklearn_bundle.linear.problems.linear import Plane, Point
from sklearn_bundle.linear.problems.linear_rounding import Sizes
from sklearn_bundle.linear.problems.newton_model import NewtonModel
from sklearn_bundle.linear.rows.rows import RowOperator

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


class OnWorkers(LineSearch, Protocol):
    """Rows on workers: see :class:`~.row_blocks.RowBlocks`.

    Attributes
    ----------
    rounds : int
        Number of requests to all blocks so far.
    """

    rounds: int


class OwnRows(LineSearch, Protocol):
    """Rows in this process, for planes that are kept as their derivatives in the scores.

    Attributes
    ----------
    rows : RowOperator
    weights : ndarray of shape (n_samples,)
    scores_shape : tuple
        (n_samples,) if each sample has one score.
    n_samples, n_features : int
    """

    rows: RowOperator
    weights: Array
    scores_shape: tuple
    n_samples: int
    n_features: int


class NewtonRounds(LineSearch, Protocol):
    """Second derivatives of rows on workers, as much at a time as one round can return.

    Attributes
    ----------
    newton_loss : ScoreLoss
        The loss in the form for Newton's method; None if it has none.
    n_samples, n_features, n_entries : int
    column_scale : ndarray of shape (d,)
        See :class:`~.rows.RowOperator`.
    """

    newton_loss: ScoreLoss
    n_samples: int
    n_features: int
    n_entries: int
    column_scale: Array

    def newton_sums(
        self, ends: list[tuple[Array, float]], steps: Array, widths: list[float], every: int
    ) -> list[Array]:
        """Slopes along a line and, for each width, what a step from its end needs."""
        ...

    def plane_sums(
        self, ends: list[tuple[Array, float]], steps: Array, moves: Array, width: float
    ) -> list[Array]:
        """Slopes along a line, derivatives in b after moves from its end, and a plane there."""
        ...

    def column_moments(self) -> tuple[Array, Array]:
        """Weighted means of the columns and of their squares."""
        ...

    def newton_slopes(self, ends: list[tuple[Array, float]], steps: Array, width: float) -> Array:
        """Only slopes along a line."""
        ...

    def release_buffers(self) -> None:
        """Release arrays that are made again where they are needed."""
        ...

    def sample(self, n_rows: int) -> tuple[NewtonModel | None, Start]:
        """A model of some of the rows, or None, and a starting point from their targets."""
        ...


class DualSteps(LineSearch, Protocol):
    """Steps in the dual, which has one number per row, from row to row.

    Attributes
    ----------
    dual_loss : ScoreLoss
        The loss in the form for dual coordinate ascent; None if it has none.
    rows : RowOperator
        The data, for a :class:`DualAscent` made for another object with the same data.
    """

    dual_loss: ScoreLoss
    rows: RowOperator

    def dual_ascent(self, reg_lambda: float, alpha: Array | None) -> DualAscent:
        """The dual with ``reg_lambda/2 ||w||^2`` at alpha, or at 0: epochs, planes."""
        ...

    def ray_search(self, end: Point, curvature: float) -> float:
        """The step of a line search from 0, where scores and intercept are 0, without a slope."""
        ...

    def release_buffers(self) -> None:
        """Release arrays that are made again where they are needed."""
        ...


class ClassSteps(LineSearch, Protocol):
    """Steps in the dual of a loss of several classes, with a distribution over them per row.

    Attributes
    ----------
    class_dual : MulticlassHinge
        The loss in the form for these steps; None if it has none.
    rows : RowOperator
        See :class:`DualSteps`.
    n_samples : int
    """

    class_dual: MulticlassHinge
    rows: RowOperator
    n_samples: int

    def class_ascent(self, reg_lambda: float, alpha: Array | None) -> ClassAscent:
        """The dual with ``reg_lambda/2 ||W||^2`` at alpha, or at the labels: sweeps, planes."""
        ...


class ExcessiveGap(Protocol):
    """An objective P whose smooth dual D has a feasible set that can be projected onto.

    w is linear in ``combined``, which is linear in a dual point u; D(u) follows from both.
    """

    @property
    def passes(self) -> int:
        """The work so far."""
        ...

    def origin(self) -> tuple[Array, Array]:
        """A feasible u with D(u) = 0, and its ``combined``."""
        ...

    def point(self, w: Array, intercept: float | None) -> Point:
        """The point w."""
        ...

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point ``start + step (end - start)``."""
        ...

    def combine(self, u: Array) -> Array:
        """The linear functions of u on which w and D depend."""
        ...

    def primal_point(self, combined: Array) -> Point:
        """w(u), the maximizer's counterpart: (24) of Saha, Zhang and Vishwanathan (2010)."""
        ...

    def primal_value(self, point: Point) -> float:
        """P at the point, whose intercept may become the best one."""
        ...

    def objective(self, point: Point) -> float:
        """P at the point, with its own intercept."""
        ...

    def rounding(self, point: Point, objective: float, combined: Array, bound: float) -> Rounding:
        """What rounding of P at the point and of D may hide: it is to be taken off the bound."""
        ...

    def dual_value(self, u: Array, combined: Array) -> float:
        """D(u)."""
        ...

    def project(self, center: Array, point: Point, step: float, series: int) -> Array:
        """Project the end of a step from ``center`` along the gradient of D at w.

        Distances are those of the prox-function. Projections of a series, 0 or 1, change little
        from one to the next, so that one may start where the last one ended.
        """
        ...

    def feasible(self, u: Array) -> Array:
        """u, made feasible again despite rounding."""
        ...

    def curvature(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """Curvature of -D from u to v, over the squared distance; 0 if u = v."""
        ...

    def best_between(self, u: Array, u_combined: Array, v: Array, v_combined: Array) -> float:
        """The t in [0, 1] at which ``D(u + t (v - u))`` is largest."""
        ...


def missing(problem: Any, needs: type, form: str | None = None) -> list[str]:
    """Members of a Protocol that the problem lacks, or what it lacks of a class, and the form.

    The ``form`` is the attribute with the loss as the solver uses it; None for other losses.
    """
    if Protocol in needs.__mro__:
        names = _members(needs)
    elif isinstance(problem, needs):
        names = []
    else:
        return [needs.__name__ if form is None else form]
    wanted = names if form is None else dict.fromkeys([*names, form])
    return [name for name in wanted if getattr(problem, name, None) is None]


def offers(problem: Any, needs: type[P], form: str | None = None) -> TypeGuard[P]:
    """Whether the problem has all that a solver needs."""
    return not missing(problem, needs, form)


def require(
    problem: Any, needs: type[P], who: str, instead: str | None = None, form: str | None = None
) -> P:
    """The problem, which is refused unless it offers what the solver ``who`` needs.

    Raises
    ------
    ValueError
        With the names of what is missing, and of the solver that may do ``instead``.
    """
    names = missing(problem, needs, form)
    if names:
        advice = f"; use {instead!r}" if instead else ""
        raise ValueError(
            f"{who!r} needs a problem with {', '.join(names)} ({needs.__name__} in "
            f"{needs.__module__}), which {type(problem).__name__} lacks{advice}."
        )
    return problem


@cache  # a path needs this for each value and for several solvers
def _members(protocol: type) -> list[str]:
    """Methods and attributes that a Protocol and its base Protocols declare."""
    names: dict[str, None] = {}
    for kind in reversed(protocol.__mro__):
        if kind not in (object, Protocol, Generic):
            members = [*kind.__annotations__, *vars(kind)]
            names |= dict.fromkeys(name for name in members if not name.startswith("_"))
    return list(names)
