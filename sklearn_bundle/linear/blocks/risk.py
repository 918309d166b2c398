"""The risk of rows in blocks: every point is one round, and what blocks answer adds up.

Blocks have the risk of their own rows, as in memory. All intercepts are coordinates, since the best
ones would take further rounds. A plane that no intercept changes comes from the same round: with
``l >= 0`` the plane of a row may be multiplied by a share in [0, 1]. Of the rows with positive and
those with negative derivatives the heavier side is scaled down until their sums cancel.
"""

from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.linear.losses import Softmax, Target
from sklearn_bundle.linear.losses.base import SampleLoss
from sklearn_bundle.linear.losses.one_score import Start as Units
from sklearn_bundle.linear.risk import Line, Plane, Point, Risk, ScoreRisk, Sizes, risk_of
from sklearn_bundle.linear.rows import rows_of

Array = NDArray[np.float64]
_POINTS = 8  # whose answers are kept: a line search returns to one of its last


@dataclass(frozen=True, eq=False)
class Problem:
    """What turns rows into a problem: the loss, and the targets and weights that it uses.

    ``positive`` is the number of the class that is +1, ``column`` that of one target of several;
    ``center`` is what targets in offsets are counted from. Blocks know a problem by its token.
    """

    token: str
    loss: Any
    n_outputs: int | None
    classes: Any = None
    factors: Any = None
    total: float = 1.0
    positive: int | None = None
    column: int | None = None
    units: Units = Units()  # noqa: RUF009
    center: float = 0.0
    free: bool = False

    def of_rows(self, X: Any, y: Any, weights: Array) -> Risk:
        """The risk of some of the rows, whose weights sum to their share of all."""
        if self.classes is not None:
            numbers = np.searchsorted(self.classes, y)
            known = self.classes.take(numbers, mode="clip") == y  # others have no weight
            if not known.all():
                X, weights, numbers = X[known], weights[known], numbers[known]
            weights = weights * self.factors[numbers]
            y = numbers.astype(np.int64)
            if self.positive is not None:
                y = np.where(numbers == self.positive, 1.0, -1.0)
        elif y is None:
            y = self.loss.prepare_target(Target(None, len(weights))).y
        elif self.column is not None:
            y = np.ascontiguousarray(y[:, self.column])
        risk = risk_of(rows_of(X), y, weights / self.total, self.loss, False)
        risk.n_outputs = self.n_outputs
        if isinstance(risk, ScoreRisk):
            risk.center = self.center
        return risk


# ---- what a block answers ------------------------------------------------------------------------


@dataclass
class Curved:
    """A Hessian about the mean row, of rows with these second derivatives in sum.

    Of a kinked loss ``bent`` is the part of these rows in the gradient, and at last in the balance.
    """

    count: float
    total: float
    mean: Array
    matrix: Array
    bent: Any = 0.0

    def __add__(self, other: "Curved") -> "Curved":
        total, apart = self.total + other.total, other.mean - self.mean
        share = other.total / total if total > 0.0 else 0.0
        matrix = self.matrix + other.matrix
        if matrix.ndim == 2 and matrix.size:
            matrix += self.total * share * np.outer(apart, apart)
        mean = self.mean + share * apart
        return Curved(self.count + other.count, total, mean, matrix, self.bent + other.bent)


@dataclass
class Answer:
    """Sums over rows; the first index is the side, if rows are apart by their derivatives' signs.

    ``sums`` are risk, offset, total and terms of a :class:`Plane`, ``outputs`` squares of its norms
    and balance.
    """

    sums: Array
    outputs: Array
    gradient: Array
    curved: Any = 0.0

    def __add__(self, other: "Answer") -> "Answer":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Answer(*(a + b for a, b in pairs))

    def __sizeof__(self) -> int:
        return self.gradient.nbytes + getattr(getattr(self.curved, "matrix", None), "nbytes", 0)

    def plane(self, shares: Array, center: float = 0.0) -> Plane:
        """The sum of the sides' planes times shares, at targets that are counted from 0."""
        _, offset, total, terms = shares @ self.sums
        norms, balance = np.tensordot(shares, self.outputs, 1)
        gradient = shares @ self.gradient
        moved = center * float(balance.sum())
        sizes = np.sqrt(norms), float(total), float(terms) + abs(moved)
        return Plane(gradient, float(offset) - moved, balance, *sizes)


def look(block: Any, problem: Problem, w: Array, b: Array, width: float, every: int) -> Answer:
    """What is needed at (w, b); the Hessian of one in ``every`` curved rows, if that is not 0."""
    risk = block.risk(problem)
    scores = risk.scores(w)
    if not isinstance(risk, ScoreRisk):
        point = risk.arrive(w, scores, b)
        covariance = risk.covariance(point) if risk.loss.covariance is not None else 0.0
        return _of_classes(risk, point.g, point.risk, point.offset, covariance)
    # Few new arrays: workers give freed memory back at once, and to get it takes as long as a sum.
    point, G = risk.arrive(w, scores, b, width), np.zeros((3 if width > 0.0 else 2, len(scores)))
    weights, sides = np.where(point.g > 0.0, risk.weights, 0.0), []
    for g in G[:2]:
        given = scores, risk.y, weights, point.b, width, risk.center
        value, offset = risk.form.cut(*given, g)
        total = float(g.sum())
        terms = abs(offset) + abs(risk.size_of_targets(g[None]))  # all g have the same sign
        sides.append(([value, offset, abs(total), terms], [[float(g @ g)], [total]]))
        np.subtract(risk.weights, weights, out=weights)
    curved = None
    if risk.has_curvature:
        places, coefs = risk.curvature(point, width)
        curved = _hessian(risk, places, coefs, every, problem.free)
        if width > 0.0:
            G[2][places] = point.g[places]
    gradients = risk.rows.gradient(G)  # of all in one pass over X
    if curved is not None and width > 0.0:
        curved.bent = np.append(gradients[2], G[2].sum())
    return Answer(*map(np.array, zip(*sides, strict=True)), gradients[:2], curved or 0.0)


def _hessian(risk: ScoreRisk, places: Any, coefs: Array, every: int, centered: bool) -> Curved:
    d = risk.rows.shape[1]
    if not every:
        return Curved(len(places), float(coefs.sum()), np.zeros(d), np.zeros((0, 0)))
    some = np.ascontiguousarray(places[::every]), np.ascontiguousarray(coefs[::every])
    matrix, mean = risk.rows.hessian(*some, centered)
    return Curved(len(places), every * float(some[1].sum()), mean, every * matrix)


def _of_classes(risk: Any, g: Array, value: float, offset: float, covariance: Any = 0.0) -> Answer:
    """The sums of derivatives of several outputs."""
    total, gradient = float(np.abs(g).sum()), risk.rows.gradient(g).ravel()
    outputs = np.array([[np.einsum("ki,ki->k", g, g), g.sum(axis=1)]])
    sums = np.array([[value, offset, total, abs(offset)]])
    return Answer(sums, outputs, gradient[None], covariance)


def slopes(block: Any, problem: Problem, start: Any, end: Any, width: float, steps: Array) -> Array:
    """Derivatives of the smoothed risk at steps from one point (w, b) to another one."""
    risk = block.risk(problem)
    scores = risk.scores(start[0])
    direction, b = risk.scores(end[0] - start[0]), float(np.ravel(start[1])[0])
    given = Point(start[0], scores, b), direction, float(np.ravel(end[1])[0]) - b, width
    return np.array([risk.slopes(*given, float(t))[0] for t in steps])


def balanced(
    block: Any, problem: Problem, w: Array, b: Array, surplus: Array, shares: Array
) -> Answer:
    """The plane of derivatives that sum to zero over all rows, for several outputs."""
    risk = block.risk(problem)
    g = risk.balanced(risk.arrive(w, risk.scores(w), b).g, surplus, shares)
    return _of_classes(risk, g, 0.0, risk.offset(g))


def reached(block: Any, problem: Problem, w: Array, b: Array) -> Array:
    """Risk, terms, squares of norms and totals, see :class:`Sizes`."""
    value, _, sizes = block.risk(problem).reached(w, b, False)
    return np.concatenate([[value, sizes.terms], sizes.norms**2, sizes.totals])


def moments(block: Any, problem: Problem, whole: bool) -> Curved:
    """Mean and covariance of the features, or without ``whole`` their sums of squares."""
    risk = block.risk(problem)
    n, d = risk.rows.shape
    if whole:
        matrix, mean = risk.rows.hessian(np.arange(n), risk.weights, problem.free)
    else:
        total = float(risk.weights.sum())
        mean = risk.rows.gradient(risk.weights) / total if problem.free else np.zeros(d)
        matrix = risk.rows.squares(risk.weights)
    return Curved(n, float(risk.weights.sum()), mean, matrix)


# ---- the client ----------------------------------------------------------------------------------


@dataclass
class BlockPoint(Point):
    """A point with what all blocks have answered; w takes the place of its scores."""

    answer: Any = None
    width: float = 0.0


@dataclass
class BlockedRows:
    """What solvers and certificates need to know of all rows."""

    shape: tuple[int, int]
    n_entries: int
    column_norms: Array
    passes: int = 0  # two in a round


class BlockRisk(Risk):
    """The sum of the risks of all blocks, whose intercepts are all coordinates."""

    def __init__(
        self, rounds: Any, problem: Problem, rows: BlockedRows, shares: Array, fit_intercept: bool
    ):
        self.rows: Any = rows
        self.rounds, self.problem = rounds, replace(problem, free=fit_intercept)
        self.loss, self.units, self.shares = problem.loss, problem.units, shares
        self.n_outputs, self.free = problem.n_outputs, False
        self.n_free = (self.n_outputs or 1) if fit_intercept else 0
        self._last: deque[tuple[bytes, BlockPoint]] = deque(maxlen=_POINTS)

    def limit(self, seconds: float | None) -> None:
        self.rounds.limit = TimeLimit(seconds)

    def scores(self, w: Array) -> Array:
        """The weights, of which scores are a linear function: no round."""
        return w

    def arrive(self, w, scores, b, width: float = 0.0, every: int = 0) -> BlockPoint:
        """One round, but for one of the last points."""
        b = np.ravel(b).astype(np.float64)
        key = w.tobytes() + b.tobytes() + np.array([width, every]).tobytes()
        for known, point in self._last:
            if known == key:
                return point
        self.rows.passes += 2
        answer = self.rounds.total(look, self.problem, w, b, width, every)
        plane = answer.plane(np.ones(len(answer.sums)), self.problem.center)
        value = float(answer.sums[:, 0].sum())
        given = w, w, b, value, None, plane.offset, plane.gradient
        point = BlockPoint(*given, answer=answer, width=width)
        if not every:  # Hessians would fill the memory
            self._last.append((key, point))
        return point

    def value(self, scores: Array, b: Any) -> float:
        return self.arrive(scores, scores, b).risk

    def gradient(self, point: Any, last: Any = None) -> Array:
        return point.gradient

    def balance(self, point: Any) -> Array:
        """The derivatives in the intercepts."""
        return point.answer.outputs[:, 1].sum(axis=0)

    def covariance(self, point: Any) -> Array:
        return point.answer.curved

    def plane(self, point: Any) -> Plane:
        plane = point.answer.plane(np.ones(len(point.answer.sums)), self.problem.center)
        return plane if self.n_free else plane._replace(balance=np.zeros(0))

    def balanced_plane(self, point: Any) -> Plane:
        """A plane that no intercept changes: a round for several outputs, none for one."""
        if not self.n_free:
            return self.plane(point)
        if self.n_outputs is not None:
            args = point.w, point.b, self.balance(point), self.shares
            answer = self.rounds.total(balanced, self.problem, *args)
            return answer.plane(np.ones(1))
        sums = np.abs(point.answer.outputs[:, 1, 0])
        lighter = float(sums.min())
        shares = np.array([lighter / side if side > lighter else 1.0 for side in sums])
        return point.answer.plane(shares, self.problem.center)

    def slopes(self, start: BlockPoint, end: BlockPoint, steps: Array) -> Array:
        """Derivatives of the smoothed risk at steps towards the end: one round."""
        ends = (start.w, start.b), (end.w, end.b)
        return self.rounds.total(slopes, self.problem, *ends, start.width, steps)

    def line(self, start: Point, end: Point) -> Line:
        """Of full points, whose planes have the slopes; second derivatives are secants."""
        along, along_b = end.w - start.w, np.ravel(end.b) - np.ravel(start.b)
        width = getattr(start, "width", 0.0)

        def slope(point: Any) -> float:
            free = float(self.balance(point) @ along_b) if self.n_free else 0.0
            return float(point.gradient @ along) + free

        first = slope(start)

        def risk(t: float) -> tuple[float, float, float]:
            if t == 0.0:
                return start.risk, first, np.nan
            w = (1.0 - t) * start.w + t * end.w
            point = self.arrive(w, w, (1.0 - t) * np.ravel(start.b) + t * np.ravel(end.b), width)
            there = slope(point)
            return point.risk, there, (there - first) / t

        return risk

    def reached(
        self, w: Array, b: Any, moving: bool, scores: Array | None = None
    ) -> tuple[float, Any, Sizes]:
        b = np.ravel(b).astype(np.float64)
        value, terms, *sizes = self.rounds.total(reached, self.problem, w, b)
        squares, totals = np.array_split(sizes, 2)
        return float(value), b, Sizes(np.sqrt(squares), totals, float(terms))

    def feature_moments(self, whole: bool, exact: bool) -> tuple[Array, Array]:
        found = self.rounds.total(moments, self.problem, whole)
        return found.matrix, found.mean

    def first_intercepts(self) -> Array:
        if not (self.n_free and isinstance(self.loss, Softmax)):
            return np.zeros(self.n_outputs)
        return np.log(self.shares) - np.log(self.shares).mean()

    @cached_property
    def kinked(self) -> bool:
        """Whether the loss bends over a width, which may be narrowed."""
        return self.n_outputs is None and not self.loss.smooth and self.loss.formula is not None

    @cached_property
    def has_curvature(self) -> bool:
        """Whether second derivatives are known."""
        loss = self.loss
        return loss.formula is not None or type(loss).curvature is not SampleLoss.curvature
