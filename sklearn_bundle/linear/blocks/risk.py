"""The risk of rows in blocks: every point is one round, and what blocks answer adds up.

Blocks have the risk of their own rows, as in memory. All intercepts are coordinates, since the best
ones would take further rounds. A plane that no intercept changes comes from the same round: with
``l >= 0`` the plane of a row may be multiplied by a share in [0, 1]. Of the rows with positive and
those with negative derivatives the heavier side is scaled down until their sums cancel.

A side is an array: risk, offset, total and terms of its :class:`Plane`, the squares of the norms,
the balance, the gradient. Sides add up over blocks, and are multiplied by shares.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.linear.blocks.rounds import sums
from sklearn_bundle.linear.losses import Target
from sklearn_bundle.linear.losses.base import SampleLoss
from sklearn_bundle.linear.losses.one_score import Start as Units
from sklearn_bundle.linear.risk import ClassRisk, Line, Plane, Point, Risk, Sizes
from sklearn_bundle.linear.rows import rows_of
from sklearn_bundle.linear.score_risk import ScoreRisk, risk_of

Array = NDArray[np.float64]
_SUMS = 4  # of a side, before the entries of the outputs


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

    def of_rows(self, X: Any, y: Any, weights: Array, *, stand_for_all: bool = False) -> Risk:
        """The risk of some of the rows, whose weights sum to their share of all or to one."""
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
        if stand_for_all:
            return risk_of(rows_of(X), y, weights / weights.sum(), self.loss, self.free)
        risk = risk_of(rows_of(X), y, weights / self.total, self.loss, False)
        risk.n_outputs = self.n_outputs
        if isinstance(risk, ScoreRisk):
            risk.center = self.center
        return risk


# ---- what a block answers ------------------------------------------------------------------------


def of_block(block: Any, task: Callable[..., list[Array]], problem: Problem, *args: Any) -> Any:
    """The sum of what the task answers for pieces of the block."""
    return sums([task(risk, problem.free, *args) for risk in block.risks(problem)])


def look(
    risk: Any, free: bool, w: Array, b: Array, width: float, every: int, sized: bool
) -> list[Array]:
    """What is needed at (w, b): sides, curvature, what bends of a kinked loss, and sizes.

    Curvature is the Hessian of one in ``every`` curved rows, if that is not 0, as
    :func:`_bordered`; of several outputs the covariance of their derivatives. Of the rows that bend
    there are the gradient, the balance and the number. Rows have two sides, of positive and of
    negative derivatives; of several outputs they have one.
    """
    scores, of_sizes = risk.scores(w), (none := np.zeros(0))
    if sized:
        sizes = risk.sizes(w, scores, b)
        of_sizes = np.concatenate([[sizes.terms], sizes.norms**2, sizes.totals])
    if not isinstance(risk, ScoreRisk):
        point = risk.arrive(w, scores, b)
        covariance = none if risk.loss.covariance is None else risk.covariance(point)
        sides = [_side(risk, point.g, point.risk, point.offset, abs(point.offset))]
        return [np.array(sides), covariance, none, of_sizes]
    point = risk.arrive(w, scores, b, width)
    upper, weights = np.empty_like(scores), np.where(point.g > 0.0, risk.weights, 0.0)
    _, offset = risk.form.cut(scores, risk.y, weights, point.b, width, risk.center, upper)
    terms = abs(offset) + abs(point.offset)  # the other side is a difference
    sides = np.array(
        [
            _side(risk, upper, point.risk, offset, terms),
            _side(risk, point.g - upper, 0.0, point.offset - offset, terms),
        ]
    )
    if not every:
        return [sides, none, none, of_sizes]
    places, coefs = risk.curvature(point, width)
    curved = _bordered(risk.rows, places[::every].copy(), every * coefs[::every], free)
    bent = none
    if width > 0.0:
        g = np.zeros_like(scores)
        g[places] = point.g[places]
        bent = np.concatenate([risk.rows.gradient(g), [g.sum(), len(places)]])
    return [sides, curved, bent, of_sizes]


def _side(risk: Any, g: Array, value: float, offset: float, terms: float) -> Array:
    outputs = np.atleast_2d(g)
    sizes, squares = np.abs(outputs), np.einsum("ki,ki->k", outputs, outputs)
    terms += risk.size_of_targets(sizes)
    sums = [value, offset, float(sizes.sum()), terms]
    return np.concatenate([sums, squares, outputs.sum(axis=1), risk.rows.gradient(g).ravel()])


def _bordered(rows: Any, places: Any, coefs: Array, centered: bool) -> Array:
    """The Hessian of the features and, if it is ``centered``, of a column of ones.

    Without that, the last row and column are 0 but for the sum of the second derivatives.
    """
    total, (matrix, mean) = float(coefs.sum()), rows.hessian(places, coefs, centered)
    return np.block([[matrix + total * np.outer(mean, mean), total * mean[:, None]],
                     [total * mean, np.array([total])]])  # fmt: skip


def moments(risk: Any, free: bool) -> list[Array]:
    """The covariance of the features, as a Hessian."""
    return [_bordered(risk.rows, np.arange(len(risk.weights)), risk.weights, free)]


def balanced(
    risk: Any, free: bool, w: Array, b: Array, surplus: Array, shares: Array
) -> list[Array]:
    """The plane of derivatives that sum to zero over all rows, for several outputs."""
    g = risk.balanced(risk.arrive(w, risk.scores(w), b).g, surplus, shares)
    offset = risk.offset(g)
    return [_side(risk, g, 0.0, offset, abs(offset))]


# ---- the client ----------------------------------------------------------------------------------


@dataclass
class BlockPoint(Point):
    """A point with the answers of all blocks; w takes the place of its scores."""

    sides: Any = None
    curved: Any = None
    bent: Any = None
    sizes: Any = None
    width: float = 0.0


@dataclass
class BlockedRows:
    """What solvers and certificates need to know of all rows."""

    shape: tuple[int, int]
    n_entries: int
    column_norms: Array
    column_means: Array  # without weights
    passes: int = 0  # two in a round


class BlockRisk(Risk):
    """The sum of the risks of all blocks, whose intercepts are all coordinates.

    ``sample`` is the risk of some rows in memory, None if they would say too little.
    """

    def __init__(
        self, rounds: Any, problem: Problem, rows: BlockedRows, shares: Array, sample: Risk | None
    ):
        self.rows: Any = rows
        self.rounds, self.problem, self.sample = rounds, problem, sample
        self.loss, self.units, self.shares = problem.loss, problem.units, shares
        self.n_outputs, self.free = problem.n_outputs, False
        self.n_free = (self.n_outputs or 1) if problem.free else 0
        # Of one score sizes cost little: they come with every point, and none is asked for again.
        self._sized = self.n_outputs is None and self.loss.formula is not None
        self.kinked = self._sized and not self.loss.smooth  # bends over a width
        own = type(self.loss).curvature is not SampleLoss.curvature
        self.has_curvature = self._sized or own
        # answers that are kept: a line search returns to one of its last
        self._last: deque[tuple[bytes, BlockPoint]] = deque(maxlen=8)

    def limit(self, seconds: float | None) -> None:
        self.rounds.limit = TimeLimit(seconds)

    def scores(self, w: Array) -> Array:
        """The weights, of which scores are a linear function: no round."""
        return w

    def arrive(self, w, scores, b, width: float = 0.0, every: int = 0) -> BlockPoint:
        """One round, but for one of the last points."""
        return self._looked(w, b, width, every, self._sized)

    def _looked(self, w: Array, b: Any, width: float, every: int, sized: bool) -> BlockPoint:
        b = np.ravel(b).astype(np.float64)
        at, how = w.tobytes() + b.tobytes(), np.array([width, every, sized]).tobytes()
        for known, point in self._last:
            if known == at + how:
                return point
        self.rows.passes += 2
        answer = self._total(look, w, b, width, every, sized)
        plane, value = self._plane(answer[0].sum(axis=0)), float(answer[0][:, 0].sum())
        given = w, w, b, value, None, plane.offset, plane.gradient
        point = BlockPoint(*given, *answer, width=width)  # type: ignore[misc]
        # Hessians would fill the memory: a point that has one is kept for `reached` alone.
        self._last.append((b"", replace(point, curved=None)) if every else (at + how, point))
        return point

    def _total(self, task: Callable[..., list[Array]], *args: Any) -> list[Array]:
        return self.rounds.total(of_block, task, self.problem, *args)

    def value(self, scores: Array, b: Any) -> float:
        return self.arrive(scores, scores, b).risk

    def gradient(self, point: Any) -> Array:
        return point.gradient

    def balance(self, point: Any) -> Array:
        """The derivatives in the intercepts."""
        return self._plane(point.sides.sum(axis=0)).balance

    def covariance(self, point: Any) -> Array:
        return point.curved

    def _plane(self, side: Array) -> Plane:
        """A side as a plane, at targets that are counted from 0."""
        k = self.n_outputs or 1
        _, offset, total, terms = side[:_SUMS]
        norms, balance = np.sqrt(side[_SUMS : _SUMS + k]), side[_SUMS + k : _SUMS + 2 * k]
        moved = self.problem.center * float(balance.sum())
        sizes = norms, float(total), float(terms) + abs(moved)
        return Plane(side[_SUMS + 2 * k :], float(offset) - moved, balance, *sizes)

    def plane(self, point: Any) -> Plane:
        plane = self._plane(point.sides.sum(axis=0))
        return plane if self.n_free else plane._replace(balance=np.zeros(0))

    def balanced_plane(self, point: Any) -> Plane:
        """A plane that no intercept changes: a round for several outputs, none for one."""
        if not self.n_free:
            return self.plane(point)
        if self.n_outputs is not None:
            args = point.w, point.b, self.balance(point), self.shares
            return self._plane(*self._total(balanced, *args))
        sums = np.abs([self._plane(side).balance[0] for side in point.sides])
        lighter = float(sums.min())
        shares = np.array([lighter / side if side > lighter else 1.0 for side in sums])
        return self._plane(shares @ point.sides)

    def line(self, start: Point, end: Point) -> Line:
        """Of full points, whose planes have the slopes; second derivatives are secants."""
        along, along_b = end.w - start.w, np.ravel(end.b) - np.ravel(start.b)

        def slope(point: Any) -> float:
            free = float(self.balance(point) @ along_b) if self.n_free else 0.0
            return float(point.gradient @ along) + free

        first = slope(start)

        def risk(t: float) -> tuple[float, float, float]:
            if t == 0.0:
                return start.risk, first, np.nan
            w = (1.0 - t) * start.w + t * end.w
            point = self.arrive(w, w, (1.0 - t) * np.ravel(start.b) + t * np.ravel(end.b))
            there = slope(point)
            return point.risk, there, (there - first) / t

        return risk

    def reached(
        self, w: Array, b: Any, moving: bool, scores: Array | None = None
    ) -> tuple[float, Any, Sizes]:
        """From the answers of the round at this point; a further one if it had no sizes."""
        b = np.ravel(b).astype(np.float64)
        found = [p for _, p in self._last if np.array_equal(p.w, w) and np.array_equal(p.b, b)]
        sized = [point for point in found if len(point.sizes)]
        point = sized[0] if sized else self._looked(w, b, 0.0, 0, True)
        terms, *squares = point.sizes
        norms, totals = np.array_split(squares, 2)
        return point.risk, b, Sizes(np.sqrt(norms), totals, float(terms))

    def feature_moments(self, whole: bool, exact: bool) -> tuple[Array, Array]:
        """The covariance and the weighted means, or mean squares and means without weights."""
        if whole:
            return split(*self._total(moments))[:2]
        means = self.rows.column_means * self.problem.free
        return self.rows.column_norms**2 / self.rows.shape[0], means

    first_intercepts = ClassRisk.first_intercepts


def split(curved: Array) -> tuple[Array, Array, float]:
    """A Hessian about the mean row, that row, and the sum of the second derivatives."""
    total = float(curved[-1, -1])
    mean = curved[-1, :-1] / total if total > 0.0 else np.zeros(len(curved) - 1)
    return curved[:-1, :-1] - total * np.outer(mean, mean), mean, total
