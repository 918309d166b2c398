"""The smoothed risk at a point that moves, of rows in memory: scores are kept."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import REFRESHED, SEARCH_STEPS, SEED, TINY
from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.linear.losses.scores import ScoreLoss, Start
from sklearn_bundle.linear.problems.score_risk import (
    LARGEST_SAMPLE,
    RANK,
    ROWS_A_FEATURE,
    SHARES,
    Line,
    Model,
    ScoreRisk,
    column_variances,
)
from sklearn_bundle.linear.rows.rows import CHEAP_FACTORISATION, RowOperator, factorization

Array = NDArray[np.float64]

HESSIAN_PASSES = 2.0  # over the data, in the time of the first Hessian of a smooth loss
_FEW_CHANGED = 0.15  # of the derivatives: if fewer change, only these rows update the gradient


class MemoryRisk(ScoreRisk):
    """:class:`ScoreRisk` of rows in memory, or of a sample of them.

    Parameters
    ----------
    rows : RowOperator
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,), summing to one
    loss : ScoreLoss
    free : bool
        Whether there is an intercept, whose coordinate of a Hessian comes last.
    units : Start, default=None
        Those of other targets.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        X w.
    """

    keeps_scores = True

    def __init__(
        self,
        rows: RowOperator,
        y: Array,
        weights: Array,
        loss: ScoreLoss,
        free: bool,
        units: Start | None = None,
    ):
        self.rows, self.y, self.weights = rows, y, weights
        units = loss.start(y, weights, free) if units is None else units
        super().__init__(loss, free, units, rows.shape)
        self._n_moves = 0
        self._spare: Array | None = None  # for temporary values
        self._model: Model | None = None

    def attach(self, problem: Any) -> None:
        self.rows, self.y, self.weights = problem.rows, problem.target, problem.weights

    def detach(self) -> None:
        self.rows = self.y = self.weights = ABSENT

    def release_buffers(self) -> None:
        self._spare = None

    def release(self) -> None:
        self.scores = self._derivatives = self._gradient = self._spare = ABSENT
        self._model = None

    @cached_property
    def scale(self) -> Array:
        return self.rows.column_scale()

    def count(self, sampled: Any, share: int) -> None:
        self.rows.passes += sampled.rows.passes // share

    def sample(self) -> "tuple[MemoryRisk, int] | None":
        """One row out of every ``share`` neighbors.

        None if steps on so few rows cost much, or if they are of no use to the loss.
        """
        n, d = self.rows.shape
        if factorization(d, self.rows.n_entries) > CHEAP_FACTORISATION:
            return None
        least = -(-self.rows.nbytes // LARGEST_SAMPLE)
        for share in (max(share, least) for share in SHARES):
            if n // share < ROWS_A_FEATURE * d:
                continue
            drawn = np.random.default_rng(SEED).integers(0, share, n // share)
            chosen = np.arange(n // share) * share + drawn
            y, weights = self.y[chosen], self.weights[chosen]
            if self.loss.suffices(y):
                rows, weights = self.rows.sample(chosen), weights / weights.sum()
                sampled = MemoryRisk(rows, y, weights, self.loss, self.free, self.units)
                self.scale = sampled.scale  # that of all rows is about the same, and costs more
                return sampled, share
        return None

    def curvature_of_columns(self, reg_lambda: float) -> Array | None:
        """As if all rows had the same curvature."""
        if self.is_wide:
            return None
        _, curvature = self._curved(self.units.unit)
        return float(curvature.sum()) * column_variances(*self._moments()) + reg_lambda

    def _moments(self) -> tuple[Array | None, Array]:
        squares = self.rows.column_squares(self.weights)
        return self.rows.gradient(self.weights) if self.free else None, squares

    # ---- the point -----------------------------------------------------------------------------

    def go(self, w: Array, b: float) -> None:
        self.w, self.b, n = w, b, len(self.y)
        self.scores = self.rows.scores(w) if w.any() else np.zeros(n)
        self._derivatives = np.empty(n)
        self._gradient: Array | None = None
        self._spare = None

    def refresh(self) -> None:
        """Compute the scores from w."""
        self.scores = self.rows.scores(self.w)

    @property
    def intercept(self) -> float:
        return self.b

    def _work(self) -> Array:
        spare = self._spare
        if spare is None:
            self._spare = spare = np.empty_like(self.scores)
        return spare

    def best_intercept(self, scores: Array, width: float, b: float, precision: float) -> float:
        """The best b of the smoothed risk with these scores, by Newton's method from b."""
        args = scores, self.y, self.weights, width, b, self.units.unit, precision
        scratch = self._work() if scores is self.scores else np.empty_like(scores)
        return self.loss.smoothed_intercept(*args, scratch, self.rows.sums)

    def evaluate(self, width: float, precision: float) -> None:
        if self.free:
            self.b = self.best_intercept(self.scores, width, self.b, precision)
        before, self._derivatives = self._derivatives, self._work()
        self._spare, last = before, self._gradient
        args = self.scores, self.y, self.weights, width, self.b, self.free, self._derivatives
        self.risk, self.offset = self.loss.smoothed_cut(*args, self.rows.sums)
        self.balance = float(self._derivatives.sum()) if self.free else 0.0
        self._gradient = None
        # A kinked loss often changes the derivatives of only a few rows.
        if last is not None and self._n_moves % REFRESHED and not self.loss.smooth:
            change = np.subtract(self._derivatives, before, out=before)
            if np.count_nonzero(change) < _FEW_CHANGED * len(change):
                self._gradient = last + self.rows.gradient(change)

    @property
    def gradient(self) -> Array:
        """One product with X', when it is first asked for."""
        found = self._gradient
        if found is None:
            self._gradient = found = self.rows.gradient(self._derivatives)
        return found

    def take_planes(self) -> list[tuple[Array, float, Array | None]]:
        return [(self.gradient, self.offset, None)]

    def take_model(self) -> Model | None:
        model, self._model = self._model, None
        return model

    def plane_of(self, model: Model) -> tuple[Array, float]:
        return self.rows.gradient(model.derivatives), model.offset

    def balanced_plane(self, promised: float) -> tuple[Array, float]:
        return self.gradient, self.offset

    def _curved(self, width: float) -> tuple[NDArray[np.int64], Array]:
        """The rows with curvature, and their curvature."""
        rows, coefs = self._work().view(np.int64), np.empty(len(self.y))
        args = self.scores, self.y, self.weights, width, self.b
        size = self.loss.curved(*args, rows, coefs)
        return rows[:size], coefs[:size]

    @property
    def hessian_passes(self) -> float:
        return self.rows.hessian_passes

    def hessian(self, width: float) -> Array:
        """From all rows with curvature, or from enough of them if the loss is smooth."""
        rows, coefs = self._curved(width)
        self.n_curved, self.every = len(rows), 1
        if self.loss.smooth and not self.takes_all:
            enough = max(2 * RANK * len(self.w), self.rows.rows_in_passes(HESSIAN_PASSES))
            self.every = max(1, len(rows) // (self.detail * enough))
            rows, coefs = rows[:: self.every].copy(), coefs[:: self.every]
        return self.rows.hessian(rows, self.every * coefs, self.free)

    # ---- lines ---------------------------------------------------------------------------------

    def step(self, line: Line, width: float) -> float:
        direction = self.rows.scores(line.w)
        b = self._move_of_best(direction, width) if line.b is None else line.b

        def derivative(t: float) -> tuple[float, float]:
            first, second = self.slope(direction, width, b, t)
            return first + line.across + t * line.square, second + line.square

        if line.b is None:
            length = search_zero(derivative, precision=line.left)
        else:
            length = _search_from_whole(derivative, line.left * -line.slope)
        self._n_moves += 1
        self._model = self._modeled(direction, line.w, b) if line.is_newton else None
        if length > 0.0:
            self.w = self.w + length * line.w
            self.b += length * b
            self._add(length, direction)
        return length

    def slope(self, direction: Array, width: float, b: float, t: float) -> tuple[float, float]:
        """First and second derivative of the smoothed risk at t along (direction, b)."""

        def part(rows: slice) -> tuple[float, float]:
            args = self.scores[rows], direction[rows], self.y[rows], self.weights[rows]
            return self.loss.smoothed_slope(*args, width, self.b, b, t)

        first, second = self.rows.sums(part)
        return first, second

    def _modeled(self, direction: Array, w: Array, b: float) -> Model:
        derivatives = np.empty_like(self.scores)
        args = self.scores, direction, self.y, self.weights, self.b, b, self.free, derivatives
        offset = self.loss.modeled_plane(*args, self.rows.sums)
        return Model(derivatives, offset, self.w + w)

    def _add(self, step: float, direction: Array) -> None:
        def part(rows: slice) -> tuple[float, ...]:
            design.add(step, direction[rows], self.scores[rows])
            return ()

        self.rows.sums(part)

    def _move_of_best(self, direction: Array, width: float) -> float:
        """The change of the best b along the direction, to first order."""
        if not self.free:
            return 0.0
        rows, curvature = self._curved(width)
        total = float(curvature.sum())
        move = -float(curvature @ direction[rows]) / total if total > 0.0 else 0.0
        return move if np.isfinite(move) else 0.0


def _search_from_whole(derivative: Callable[[float], tuple[float, float]], left: float) -> float:
    """Newton's method in one dimension from 1, whose first steps may be long.

    ``search_zero`` bounds their growth: with scales far apart it took 60 steps for 11. Where a step
    does not halve the one before the last, the interval is halved: from far up an exponential
    Newton's steps are all of one length.
    """
    t, low, high = 1.0, 0.0, np.inf
    steps = np.inf, np.inf
    for _ in range(SEARCH_STEPS):
        first, second = derivative(t)
        if abs(first) <= left:
            return t
        low, high = (t, high) if first < 0.0 else (low, t)
        newton = t - first / max(second, TINY)
        slow = np.isfinite(high) and abs(newton - t) > 0.5 * steps[0]
        if slow or not low < newton < high:
            newton = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
        steps = steps[1], abs(newton - t)
        t = newton
    return low
