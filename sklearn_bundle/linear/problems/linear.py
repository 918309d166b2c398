"""Empirical risk of a linear model with a free intercept, and its cutting planes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import copied
from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.multiclass import MulticlassLoss
from sklearn_bundle.linear.losses.samples import SampleLoss, check_derivatives, is_of_package
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.losses.softmax import Softmax, softmax_loss
from sklearn_bundle.linear.problems.balance import (
    balancing_shares,
    cut_by_class,
    mixed,
    mixing,
    shares_of_classes,
    sums_of_classes,
)
from sklearn_bundle.linear.problems.linear_rounding import Sizes, distance
from sklearn_bundle.linear.problems.memory_risk import MemoryRisk
from sklearn_bundle.linear.rows.rows import RowOperator, RowProducts

Array = NDArray[np.float64]
Rows = TypeVar("Rows", bound=RowProducts)

LARGEST_RISK = 1e100  # squares of larger values may overflow
LARGEST_DRIFT = 1e3  # times the rounding of a new product: an error of about 1e-13 in the scores
_FEW_ROWS = 1 << 14  # whose sizes are computed at once: their scores with intercept take 128 KB
_CHECKED = 256  # rows at which a user's derivatives are compared with differences


@dataclass(init=False)
class Point:
    """Weights w with their scores (without b) and the intercept that goes with them.

    Scores are None where the rows are elsewhere or a solver does not need them, the intercept where
    a problem has none: what reads them belongs to a problem that has them. ``drift`` bounds the
    rounding in the scores, in units of that of a new product.
    """

    w: Array
    scores: Array
    intercept: float | Array
    drift: float

    def __init__(
        self,
        w: Array,
        scores: Array | None,
        intercept: float | Array | None,
        drift: float = 1.0,
    ):
        self.w, self.drift = w, drift
        self.scores = ABSENT if scores is None else scores
        self.intercept = ABSENT if intercept is None else intercept

    def copied(self) -> "Point":
        """With w and b of its own; scores are shared, since a confirmation recomputes them."""
        return Point(self.w.copy(), self.scores, copied(self.intercept), self.drift)


@dataclass
class Plane:
    """``R(v) >= <gradient, v> + offset`` for all v, with the risk R(w) where it was cut.

    If the intercept is a coordinate, ``R(v, b) >= <gradient, v> + <balance, b> + offset``.
    """

    gradient: Array
    offset: float
    risk: float
    balance: Array | None = None


class LinearRisk(Generic[Rows]):
    """``R(w) = min_b R(X w + b)``, with b = 0, or ``R(w, b)`` with b a coordinate of its own.

    Which of these holds depends on ``fit_intercept`` and on how the loss treats an intercept. The
    risk offers :meth:`evaluate`, the cutting-plane protocol, and what an exact line search
    needs: points with their scores, which are linear, so that a step costs no product with X.

    Parameters
    ----------
    rows : RowProducts
        The data X of shape (n, d); its threads end with the ``with`` of this object.
    target : as the loss takes it
    weights : ndarray of shape (n,), positive, summing to one
    loss : Loss
    fit_intercept : bool

    Attributes
    ----------
    rows, target, weights, loss
        As given.
    fit_intercept : bool
        Whether there is an intercept that is minimized out.
    n_outputs : int
        Scores per sample.
    scores_shape : tuple
        (n,) or (n, n_outputs).
    n_free : int
        Numbers in an intercept that is a coordinate of its own.
    intercept_scale : float
        About the square of the w that changes scores as much as such an intercept of 1.
    nonnegative : bool
        Whether the risk is known to be nonnegative.
    reg_lambda : float
        The strength that the estimator has chosen for this problem. Only solvers use it.
    """

    reg_lambda: float

    def __init__(self, rows: Rows, target: Any, weights: Array, loss: Loss, fit_intercept: bool):
        self.rows, self.target, self.weights, self.loss = rows, target, weights, loss
        self.nonnegative = loss.nonnegative
        self._is_by_rows = score_loss(loss) is not None  # rows can be summed in any blocks
        k = loss.n_outputs(target)
        self.scores_shape = (self.n_samples,) if k is None else (self.n_samples, k)
        self.n_outputs = k or 1
        self.fit_intercept = fit_intercept and loss.free_intercept == "minimized"
        joint = fit_intercept and loss.free_intercept == "joint"
        self.n_free = self.n_outputs if joint else 0
        self.intercept_scale = 1.0 / max(rows.mean_square(weights), TINY) if joint else 1.0

    @cached_property
    def _derivatives(self) -> Array:
        return np.empty(self.scores_shape)

    @cached_property
    def _scratch(self) -> Array:
        return np.empty((4, self.n_samples))

    @cached_property
    def _along(self) -> Array:
        return np.empty((2, self.n_samples * self.n_outputs))

    def release_buffers(self) -> None:
        """Release arrays that are made again where they are needed."""
        for name in ("_derivatives", "_scratch", "_along"):
            self.__dict__.pop(name, None)

    @property
    def n_samples(self) -> int:
        return self.rows.shape[0]

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    @property
    def n_entries(self) -> int:
        """Stored entries of X."""
        return self.rows.n_entries

    @property
    def dimension(self) -> int:
        """Length of w."""
        return self.n_features * self.n_outputs

    @property
    def passes(self) -> int:
        """Products with X or X' so far."""
        return self.rows.passes

    def begin(self) -> None:
        """Start counting passes from here."""
        self.rows.passes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.rows.__exit__(*exception)

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R(w) and a subgradient; infinity and zeros if numbers overflow."""
        plane = self.cut(self.point(w))
        return (np.inf, np.zeros_like(w)) if plane is None else (plane.risk, plane.gradient)

    def point(self, w: Array, intercept: float | Array | None = None) -> Point:
        """The point w with its scores: one product with X, none at w = 0."""
        scores = self._scores(w) if w.any() else np.zeros(self.scores_shape)
        if intercept is None:
            intercept = np.zeros(self.n_free) if self.n_free else 0.0
        return Point(w, scores, intercept)

    def cut(self, point: Point, risk_limit: float = LARGEST_RISK) -> Plane | None:
        """Cutting plane at ``point``, whose intercept becomes the best one: one product with X'.

        None, without a product, if the risk is above ``risk_limit`` or not a number.
        """
        scores = point.scores + point.intercept if self.n_free else point.scores
        free = self.fit_intercept
        args = self.target, self.weights, free, self._derivatives, self._scratch
        cut = self.loss.cut(scores, *args)
        if free:
            point.intercept = cut.intercept
        if not cut.risk <= risk_limit:
            return None
        balance = np.atleast_1d(self._derivatives.sum(axis=0)) if self.n_free else None
        return Plane(self.rows.gradient(self._derivatives), cut.offset, cut.risk, balance)

    def cut_balanced(self, point: Point) -> Plane | None:
        """A plane near the one at the point that no intercept changes: one product with X'."""
        if not (self.n_free and isinstance(self.loss, MulticlassLoss)):
            return None
        scores, g = point.scores + point.intercept, self._derivatives
        table = cut_by_class(self.loss, scores, self.target, self.weights, g)
        shares = balancing_shares(table)
        if shares is None:
            return None
        g *= shares[self.target, None]
        return Plane(self.rows.gradient(g), float(shares @ table[:, 0]), np.nan, g.sum(axis=0))

    def set_intercept(self, point: Point) -> None:
        """Set the point's intercept to the best one."""
        if self.fit_intercept:
            point.intercept = self.loss.intercept(
                point.scores, self.target, self.weights, self._scratch
            )

    def sizes(self, point: Point) -> Sizes:
        """Sizes of the terms of sums at the point, which bound their rounding."""
        scores = self._scores(point.w) if point.scores is None else point.scores
        squares, n = self.rows.squared_columns(), self.n_samples
        if not self._is_by_rows:
            args = self.target, self.weights, scores + point.intercept
            return Sizes.of(squares, self.loss, *args)
        blocks = [slice(start, start + _FEW_ROWS) for start in range(0, n, _FEW_ROWS)]

        def part(rows: slice, near: float | None) -> Sizes:
            args = self.target[rows], self.weights[rows], scores[rows] + point.intercept, near
            return Sizes.of(np.zeros(1), self.loss, *args)  # d zeros per block grow with n d

        near = None
        if len(blocks) > 1:  # scores of one may be much larger
            moved = (scores[rows] + point.intercept for rows in blocks)
            near = distance(sum(float(np.vdot(f, f)) for f in moved) / n)
        parts = [part(rows, near) for rows in blocks]
        return reduce(Sizes.plus, parts)._replace(squares=squares)

    def risk(self, point: Point) -> float:
        """Risk at the point with its own intercept."""
        if not self._is_by_rows:
            return self.loss.risk(point.scores, self.target, self.weights, point.intercept)

        def part(rows: slice) -> tuple[float]:
            args = point.scores[rows], self.target[rows], self.weights[rows], point.intercept
            return (self.loss.risk(*args),)

        return self.rows.sums(part)[0]

    def line_search(self, start: Point, end: Point, slope: float, curvature: float) -> float:
        """The t >= 0 that minimizes ``slope t + curvature t^2/2 + R`` from start towards end."""
        return self.loss.line_search(
            *self._line(start, end), self.target, self.weights, slope, curvature, self._scratch
        )

    def ray_search(self, end: Point, curvature: float) -> float:
        """The t that minimizes ``curvature t^2/2 + R`` from 0, where scores are 0, towards end."""
        start, b = np.zeros(end.scores.shape), end.intercept
        direction = end.scores + b if b else end.scores
        args = start, direction, self.target, self.weights, 0.0, curvature
        return self.loss.line_search(*args, self._scratch)

    def risk_along(self, start: Point, end: Point) -> Callable[[float], tuple[float, float]]:
        """The risk and its derivative at a step from start towards end."""
        arrays = *self._line(start, end), self.target, self.weights

        def part(
            step: float, scores: Array, direction: Array, *samples: Any
        ) -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):  # in threads, too
                moved, gradient = scores + step * direction, np.empty_like(scores)
                value = self.loss.evaluate(moved, *samples, gradient)
                return value, float(np.sum(gradient * direction))

        def risk(step: float) -> tuple[float, float]:
            if self._is_by_rows:
                value, slope = self.rows.sums(lambda rows: part(step, *(a[rows] for a in arrays)))
            else:
                value, slope = part(step, *arrays)
            return (value, slope) if np.isfinite(value) else (np.inf, np.inf)  # too long a step

        return risk

    def _scores(self, w: Array) -> Array:
        return self.rows.scores(w, *self.scores_shape[1:])

    def _line(self, start: Point, end: Point) -> tuple[Array, Array]:
        """Scores at the start and their change; valid until the next call."""
        if np.ndim(start.intercept) or np.ndim(end.intercept):
            direction = (end.scores - start.scores) + (end.intercept - start.intercept)
            return start.scores + start.intercept, direction
        scores, direction = self._along
        shifts = float(start.intercept), float(end.intercept)
        design.line(start.scores.ravel(), end.scores.ravel(), *shifts, scores, direction)
        shape = self.scores_shape
        return scores.reshape(shape), direction.reshape(shape)

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point start + step (end - start), scores by linearity.

        A step outside [0, 1] magnifies the rounding in both (near the optimum the direction is all
        rounding and the step may be 1e14): beyond a limit the scores are recomputed.
        """
        w = np.empty_like(start.w)
        design.blend(step, start.w, end.w, w)
        intercept = (1.0 - step) * start.intercept + step * end.intercept
        drift = abs(1.0 - step) * start.drift + abs(step) * end.drift
        if drift > LARGEST_DRIFT:
            return Point(w, self._scores(w), intercept)
        scores = np.empty_like(start.scores)
        design.blend(step, start.scores.ravel(), end.scores.ravel(), scores.ravel())
        return Point(w, scores, intercept, drift)


class LinearProblem(LinearRisk[RowOperator]):
    """The risk with its rows in this process: engines take the problem itself."""

    def cut_balanced(self, point: Point) -> Plane | None:
        """A balanced plane, for softmax by mixing: one product with X', two the first time."""
        if not self.n_free or softmax_loss(self.loss) is None:
            return super().cut_balanced(point)
        scores, g = point.scores + point.intercept, self._derivatives
        cut_by_class(self.loss, scores, self.target, self.weights, g)
        by_class = np.ascontiguousarray(g.T)
        gradient, offset = self.mixed_plane(by_class, self.rows.class_gradient(by_class))
        return Plane(gradient.ravel(), offset, np.nan, np.zeros(self.n_free))

    def mixed_plane(self, derivatives: Array, gradient: Array) -> tuple[Array, float]:
        """A plane ``R(W, b) >= <A, W> + c`` of softmax, from any derivatives s (P - Y) by class.

        The columns of P have to balance, sum_i s_i P_i = sum_i s_i Y_i, for b to cancel: see
        :mod:`~.balance`. The plane is A = X'S(P' - Y), c = sum_i s_i H(P'_i)
        for any P.

        Parameters
        ----------
        derivatives : ndarray of shape (K, n)
        gradient : ndarray of shape (K, d)
            Their product with X.
        """
        moved, given = np.zeros((2, self.n_outputs))
        A = gradient
        if self.n_free:
            moved, given = mixing(derivatives.sum(axis=1), self.class_shares())
            if given.any():
                A = mixed(gradient, self._class_sums, moved, given)
        args = derivatives, self.target, self.weights, moved, given
        return A, Softmax().mixed_entropy(*args)

    def class_shares(self) -> Array:
        """Weight of each class, shape (K,)."""
        return shares_of_classes(self.target, self.weights, self.n_outputs)

    @cached_property
    def _class_sums(self) -> Array:
        return sums_of_classes(self.rows, self.target, self.weights, self.n_outputs)

    def check_derivatives(self, w: Array, intercept: Any) -> None:
        """Raise ValueError if a user's loss has other derivatives at the scores of some rows.

        Losses of the package have tests.
        """
        loss = self.loss
        if not isinstance(loss, SampleLoss) or is_of_package(type(loss)):
            return
        some = np.linspace(0, self.n_samples - 1, min(self.n_samples, _CHECKED)).astype(np.int64)
        scores = self.rows.sample(some).scores(w, *self.scores_shape[1:])
        b = 0.0 if intercept is None else intercept
        check_derivatives(loss, scores + b, self.target[some])

    def score_risk(self) -> MemoryRisk:
        """The smoothed risk at a point that moves."""
        loss = score_loss(self.loss)
        assert loss is not None
        return MemoryRisk(self.rows, self.target, self.weights, loss, self.fit_intercept)
