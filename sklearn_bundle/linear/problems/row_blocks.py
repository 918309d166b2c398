"""A linear problem whose rows are in blocks on workers: only w goes out, and sums come back.

Algorithm 5 of Teo et al. (2010). The main cost is the round, one task per block and an answer, so
each round requests all that the next steps may need.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import SEED, TINY
from sklearn_bundle.core.one_variable import Bracket, search_in_rounds
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.multiclass import MulticlassLoss
from sklearn_bundle.linear.losses.regression import SOME_TARGETS
from sklearn_bundle.linear.losses.scores import Start, score_loss
from sklearn_bundle.linear.losses.softmax import softmax_loss
from sklearn_bundle.linear.problems import row_block
from sklearn_bundle.linear.problems.balance import balancing_shares, mixed, mixing
from sklearn_bundle.linear.problems.linear import LARGEST_RISK, Plane, Point
from sklearn_bundle.linear.problems.linear_rounding import Sizes, distance
from sklearn_bundle.linear.problems.memory_risk import MemoryRisk
from sklearn_bundle.linear.problems.row_block import Formulation
from sklearn_bundle.linear.rows._dask_workers import DaskWorkers
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory

Array = NDArray[np.float64]

# Of the first round of a line search.
_FIRST_STEPS = np.array([0.0, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 5.0, 20.0])


class End(NamedTuple):
    """The smoothed risk at the end of a line: the loss's risk, a plane, second derivatives."""

    risk: float
    offset: float
    balance: float
    n_curved: float
    gradient: Array
    hessian: Array = np.empty(0)


class RowBlocks:
    """``R(w, b)`` of rows on workers, with b a coordinate of its own if there is an intercept.

    Offers :class:`~.protocols.LineSearch` for every loss that is a sum over rows, and what Newton's
    method and L-BFGS need if the curvature of the loss is known. Nothing is kept between rounds:
    scores are recomputed from w.

    Parameters
    ----------
    workers : DaskWorkers
        Hold blocks of type :class:`~.row_block.RowBlock`.
    formulation : Formulation
    shape, n_entries
        Of all rows together.
    mean_square, column_scale
        Weighted mean of the rows' squared lengths; see :class:`~.rows.RowOperator`.
    fit_intercept : bool

    Attributes
    ----------
    passes, rounds : int
        Numbers of products with X or X' and of rounds so far.
    reg_lambda : float
        As of :class:`~.linear.LinearProblem`.
    """

    reg_lambda: float
    nonnegative: bool

    def __init__(
        self,
        workers: DaskWorkers,
        formulation: Formulation,
        shape: tuple[int, int],
        n_entries: int,
        mean_square: float,
        column_scale: Array,
        fit_intercept: bool,
    ):
        self.workers, self.formulation = workers, formulation
        self.shape, self.n_entries = shape, n_entries
        self.loss: Loss = formulation.loss
        self.newton_loss = formulation.newton_loss
        self.nonnegative = self.loss.nonnegative
        self.fit_intercept = False  # no intercept is minimized out
        self.n_outputs = formulation.n_outputs or 1
        self.n_free = self.n_outputs if fit_intercept and self.loss.free_intercept else 0
        self.column_scale = column_scale
        self.intercept_scale = 1.0 / max(mean_square, TINY) if self.n_free else 1.0
        self.passes, self.rounds = 0, 0
        # w and b of the last round at one point, and what `_at` answers there.
        self._known: tuple[Array, float | Array, tuple[float, float]] | None = None

    @property
    def n_samples(self) -> int:
        return self.shape[0]

    @property
    def n_features(self) -> int:
        return self.shape[1]

    @property
    def dimension(self) -> int:
        """Length of w."""
        return self.n_features * self.n_outputs

    def begin(self) -> None:
        """Start counting passes from here."""
        self.passes = self.rounds = 0

    def __enter__(self) -> "RowBlocks":
        return self

    def __exit__(self, *exception: object) -> None:
        return

    def release_buffers(self) -> None:
        """Release buffers: there are none, since nothing is kept between rounds."""
        return

    # ---- points, planes, lines -----------------------------------------------------------------

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """R and a subgradient at w and an intercept of 0; infinity and zeros after an overflow."""
        plane = self.cut(self.point(w, None))
        return (np.inf, np.zeros_like(w)) if plane is None else (plane.risk, plane.gradient)

    def point(self, w: Array, intercept: float | Array | None = None) -> Point:
        """The point w; its scores stay with the rows."""
        if not self.n_free:
            return Point(w, None, 0.0)
        given = np.zeros(self.n_free) if intercept is None else np.atleast_1d(intercept)
        return Point(w, None, np.asarray(given, dtype=np.float64))

    def blend(self, start: Point, end: Point, step: float) -> Point:
        """The point ``start + step (end - start)``."""
        intercept = start.intercept + step * (end.intercept - start.intercept)
        return Point(start.w + step * (end.w - start.w), None, intercept)

    def set_intercept(self, point: Point) -> None:
        """Do nothing: no intercept is minimized out."""

    def risk(self, point: Point) -> float:
        """R at the point: one round, or none if the last round was there."""
        return self._at(point)[0]

    def cut(self, point: Point, risk_limit: float = LARGEST_RISK) -> Plane | None:
        """The cutting plane at the point: one round. None if R is above the limit."""
        sums, balance, gradient = self._total(2, row_block.cut, *self._place(point))
        risk, squares, offset = sums.tolist()
        self._learn(point, risk, squares)
        if not risk <= risk_limit:
            return None
        return Plane(gradient, offset, risk, balance if self.n_free else None)

    def cut_balanced(self, point: Point) -> Plane | None:
        """A plane near the one at the point that no intercept changes: two rounds."""
        if not (self.n_free and isinstance(self.loss, MulticlassLoss)):
            return None
        place = self._place(point)
        if softmax_loss(self.loss) is not None:
            surplus, class_shares, *sums = self._total(3, row_block.softmax_sums, *place)
            how = mixing(surplus, class_shares)
            (offset,) = self._total(1, row_block.mixed_entropy, *place, *how)
            gradient = mixed(*sums, *how).ravel()
            return Plane(gradient, offset.item(), np.nan, np.zeros(self.n_free))
        (table,) = self._total(1, row_block.parts_of_classes, *place)
        shares = balancing_shares(table)
        if shares is None:
            return None
        balance, gradient = self._total(2, row_block.cut_with_shares, *place, shares)
        return Plane(gradient, float(shares @ table[:, 0]), np.nan, balance)

    def sizes(self, point: Point) -> Sizes:
        """Sizes of the terms of sums at the point, which bound their rounding.

        One round, or two if the last one was not there: all blocks need the distance of all rows.
        """
        near = distance(self._at(point)[1] / (self.n_samples * self.n_outputs))
        n, squares, slopes, totals, *sums = self._total(
            2, row_block.rounding_sizes, *self._place(point), near
        )
        return Sizes(n.item(), squares, slopes, totals, *(total.item() for total in sums))

    def line_search(self, start: Point, end: Point, slope: float, curvature: float) -> float:
        """The t that minimizes ``slope t + curvature t^2/2 + R`` from start towards end.

        Each round shrinks the bracket 15-fold.
        """

        def slopes(steps: Array) -> Array:
            risks, along = self._along(start, end, steps).T
            return np.where(np.isfinite(risks), slope + curvature * steps + along, np.inf)

        bracket = Bracket((0.0, np.nan))
        bracket.narrow(_FIRST_STEPS, slopes(_FIRST_STEPS))
        return search_in_rounds(slopes, bracket)

    def risk_along(self, start: Point, end: Point) -> Callable[[float], tuple[float, float]]:
        """R and its derivative at a step from start towards end: one round per step."""

        def risk(step: float) -> tuple[float, float]:
            value, slope = self._along(start, end, np.array([step]))[0].tolist()
            return (value, slope) if np.isfinite(value) else (np.inf, np.inf)

        return risk

    # ---- the smoothed risk ---------------------------------------------------------------------

    def look(
        self,
        ends: list[tuple[Array, float]],
        steps: Array | tuple[()],
        widths: list[float],
        moves: Array | tuple[()] | None = None,
        every: int = 0,
    ) -> list[Any]:
        """What :func:`~.row_block.look` sums up, with each end as an :class:`End`: one round.

        Without ``moves`` there are only the slopes along the line.
        """
        args = self.formulation, ends, steps, widths, moves, every, self.n_free > 0
        if moves is None:
            self._count(len(ends))
            return self.workers.total(row_block.look, *args, answer_bytes=8 * len(steps))
        self._count(len(ends) + len(widths))
        matrix = 8 * (self.n_features + (self.n_free > 0)) ** 2 if every else 0
        answer_bytes = len(widths) * (matrix + 8 * self.n_features)
        along, *parts = self.workers.total(row_block.look, *args, answer_bytes=answer_bytes)
        size = len(parts) // len(widths)
        found = [parts[k : k + size] for k in range(0, len(parts), size)]
        return [along, *(End(*sums.tolist(), *arrays) for sums, *arrays in found)]

    def column_moments(self) -> tuple[Array, Array]:
        """Weighted means of the columns and of their squares: one round."""
        self._count(1)
        answer_bytes = 16 * self.n_features
        means, squares = self.workers.total(row_block.column_moments, answer_bytes=answer_bytes)
        return means, squares

    def sample(self, n_rows: int) -> tuple[MemoryRisk | None, Start]:
        """The risk of about ``n_rows`` evenly drawn rows, and a starting point from their targets.

        With ``n_rows`` 0 only a few targets are used and the risk is None; it is also None if so
        few rows are of no use to the loss.
        """
        share = max(1, self.n_samples // max(n_rows, SOME_TARGETS))
        task = row_block.sample if n_rows else row_block.some_targets
        parts = self._map(task, share, SEED)
        if not any(len(part[2]) for part in parts):  # no block has that many neighbors
            return self.sample(0)
        X, y, weights = zip(*[part for part in parts if len(part[2])], strict=True)
        y, weights = np.concatenate(y), np.concatenate(weights)
        weights, free, loss = weights / weights.sum(), self.n_free > 0, self.newton_loss
        assert loss is not None
        start = loss.start(y, weights, free)
        if not n_rows or not loss.suffices(y):
            return None, start
        rows = rows_in_memory(row_block.stacked(X))
        return MemoryRisk(rows, y, weights, loss, free, start), start

    # ---- inside --------------------------------------------------------------------------------

    def _along(self, start: Point, end: Point, steps: Array) -> Array:
        ends = [self._place(point) for point in (start, end)]
        return self._total(2, row_block.slopes, ends, steps)[0]

    def _place(self, point: Point) -> tuple[Array, Array]:
        return point.w, np.asarray(point.intercept) if self.n_free else np.zeros(0)

    def _at(self, point: Point) -> tuple[float, float]:
        """R and the sum of squared scores, kept of the last round at one point."""
        known = self._known
        if known is not None and known[0] is point.w and known[1] is point.intercept:
            return known[2]
        (sums,) = self._total(1, row_block.risk, *self._place(point))
        return self._learn(point, *sums.tolist())

    def _learn(self, point: Point, risk: float, squares: float) -> tuple[float, float]:
        risk = risk if np.isfinite(risk) else np.inf
        self._known = point.w, point.intercept, (risk, squares)
        return risk, squares

    def _total(self, n_products: int, task: Callable[..., list[Array]], *args: Any) -> list[Array]:
        self._count(n_products)
        answer_bytes = 8 * self.dimension  # a gradient
        return self.workers.total(task, self.formulation, *args, answer_bytes=answer_bytes)

    def _count(self, n_products: int) -> None:
        self.passes += n_products
        self.rounds += 1

    def _map(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        self.rounds += 1
        return self.workers.map(task, self.formulation, *args)


def formulation(
    loss: Loss, *, positive: int | None = None, column: int | None = None, n_outputs: int | None
) -> Formulation:
    """The formulation, including the form of the loss for Newton's method."""
    newton = score_loss(loss) if n_outputs is None else None
    return Formulation(loss, newton, positive, column, n_outputs)
