"""The risk of a loss of one score per row, whose intercept is minimized out."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.certificate import DOUBLE, likely
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses import BinaryLoss, Loss
from sklearn_bundle.linear.losses.base import SampleLoss
from sklearn_bundle.linear.losses.planes import PlaneLoss
from sklearn_bundle.linear.risk import ClassRisk, Line, PlaneRisk, Point, Risk, Sizes
from sklearn_bundle.linear.rows import Rows

Array = NDArray[np.float64]
_WEIGHT_ROUNDING = 1e-15  # of a sum of weights, relative to their total of one
ROWS_A_FEATURE = 50  # of a sample: the optimum of fewer is too far away
_AT_A_TIME = 1 << 8  # rows to look through, of which one is usually enough
_FEW = 16.0  # roundings of a score beside those of its product


class ScoreRisk(Risk):
    """``sum_i s_i l(y_i, x_i w + b)``; derivatives of kinked losses may bend over a width."""

    def __init__(self, rows: Rows, y: Array, weights: Array, loss: Any, fit_intercept: bool):
        super().__init__(rows, y, weights, loss, fit_intercept)
        compiled = _Squares if loss.quadratic else _Compiled
        self.form: Any = _Numpy(loss) if loss.formula is None else compiled(loss)
        # Kept for the next value of a path: of wide rows, see in_span, and a working set.
        self.span: tuple[Any, Rows] | None = None
        self.chosen: Any = None
        self.units = loss.start(y, weights, self.free)
        self.center = loss.center(y, weights) if self.free else 0.0

    @property
    def is_compiled(self) -> bool:
        """Whether curvature, conjugates and smoothed slopes are known."""
        return isinstance(self.form, _Compiled)

    def arrive(
        self, w: Array, scores: Array, b: Any, width: float = 0.0, left: float = 0.0
    ) -> Point:
        """At the best b, whose derivative may be up to ``left``; g sums to zero all the same."""
        b, g = float(np.ravel(b)[0]), np.empty_like(scores)
        if not self.free:
            risk, offset = self._cut(scores, b, width, g)
            return Point(w, scores, b, risk, g, offset)
        b = self.best_intercept(scores, b, width, left)
        risk, offset = self.form.balanced_cut(self, scores, b, width, g)
        return Point(w, scores, b, risk, g, offset)

    def value(self, scores: Array, b: Any) -> float:
        b = float(np.ravel(b)[0])

        def part(rows: slice) -> tuple[float]:
            return (self.form.risk(scores[rows], self.y[rows], self.weights[rows], b),)

        return self.rows.sums(part)[0]

    def line(self, start: Point, end: Point) -> Line:
        direction, along_b = end.scores - start.scores, end.b - start.b

        def risk(t: float) -> tuple[float, float, float]:
            value = self.value(start.scores + t * direction, start.b + t * along_b)
            return value, *self.slopes(start, direction, along_b, 0.0, t)

        return risk

    def slopes(
        self, start: Point, direction: Array, along_b: float, width: float, t: float
    ) -> tuple[float, float]:
        """First and second derivative of the smoothed risk at a step along scores and b."""

        def part(rows: slice) -> tuple[float, float]:
            args = start.scores[rows], direction[rows], self.y[rows], self.weights[rows]
            return self.form.along(*args, start.b, along_b, width, t)

        return self.rows.sums(part)  # type: ignore[return-value]

    def curvature(self, point: Point, width: float = 0.0) -> tuple[NDArray[np.intp], Array]:
        """The rows with a second derivative, and ``s_i l''``."""
        return self.form.curved(point.scores, self.y, self.weights, point.b, width)

    def reached(
        self, w: Array, b: Any, moving: bool, scores: Array | None = None
    ) -> tuple[float, Any, Sizes]:
        scores, b = self.scores(w) if scores is None else scores, float(np.ravel(b)[0])
        value = self.value(scores, b)
        if self.free and moving:
            best = self.best_intercept(scores, b)
            there = self.value(scores, best)
            value, b = (there, best) if there <= value else (value, b)
        return value, b, self.sizes(w, scores, b)

    def sizes(self, w: Array, scores: Array, b: Any) -> Sizes:
        """The largest derivatives at scores that are off by their rounding."""
        d, reach = self.rows.shape[1], float(np.abs(w) @ self.rows.column_norms)
        moved = scores + b
        off = DOUBLE * ((likely(d) + _FEW) * reach + _FEW * float(np.abs(moved).max(initial=0.0)))
        return self.form.sizes(moved, self.y, self.weights, off)

    def offset(self, g: Array) -> float:
        def part(rows: slice) -> tuple[float]:
            return (self.form.offset(g[rows], self.y[rows], self.weights[rows], self.center),)

        return self.rows.sums(part)[0]

    @cached_property
    def end_slopes(self) -> tuple[float, float]:
        """The derivative in b far below and far above all kinks."""
        low, high = (float(self.weights @ end) for end in self.loss.end_slopes(self.y))
        return low, high

    @property
    def has_curvature(self) -> bool:
        """Whether second derivatives are known."""
        return self.is_compiled or type(self.loss).curvature is not SampleLoss.curvature

    def best_intercept(
        self, scores: Array, b: float, width: float = 0.0, left: float = 0.0
    ) -> float:
        """The b that minimizes the smoothed risk of these scores, by Newton's method from ``b``."""
        known = self.form.exact_intercept(self, scores, width)
        if known is not None:
            return known
        still, reach = np.zeros_like(scores), self.units.unit
        low, high = (-np.inf, np.nan), (np.inf, np.nan)  # with the derivatives there
        left = max(left, likely(len(scores)) * DOUBLE * self.units.slope)  # else of rounding
        # Usually two or three; at most a bisection. Steps go no farther than 1000 units at first:
        # where a loss is flat it would be 1e130. They grow by a factor of 4.
        for k in range(500):
            first, second = self.slopes(Point(still, scores, b), still, 1.0, width, 0.0)
            if abs(first) <= left:
                break
            low, high = ((b, first), high) if first < 0.0 else (low, (b, first))
            rise, apart = high[1] - low[1], high[0] - low[0]
            if second > 0.0:
                moved = b - first / second
                if not np.isfinite(apart) and abs(moved - b) > 1e3 * reach:
                    moved, reach = b + np.copysign(1e3 * reach, moved - b), 4.0 * reach
            elif np.isfinite(apart):
                moved = low[0] - low[1] * apart / rise if k % 3 else 0.5 * (low[0] + high[0])
            else:
                moved, reach = b - np.copysign(reach, first), 4.0 * reach
            if not low[0] < moved < high[0]:
                moved = 0.5 * (low[0] + high[0]) if np.isfinite(apart) else b + 2.0 * (moved - b)
            if moved in (b, low[0], high[0]):
                break
            b = moved
        return b

    def sample(self) -> "tuple[ScoreRisk, int] | None":
        """The risk of one row out of every so many neighbors; None if there are too few."""
        (n, d), bytes_ = self.rows.shape, self.rows.n_entries * 8
        # one row out of 16 or 4: a copy of rows may take 32 MB, few beside X itself
        for share in (max(share, -(-bytes_ // (1 << 25))) for share in (16, 4)):
            if n // share < ROWS_A_FEATURE * d:
                continue
            # any seed would do, but equal fits have to draw the same
            drawn = np.random.default_rng(0).integers(0, share, n // share)
            chosen = np.arange(n // share) * share + drawn
            y, weights = self.y[chosen], self.weights[chosen]
            # at least 20 rows of each class, or its solution is of no use
            rarest = min(np.count_nonzero(y > 0.0), np.count_nonzero(y <= 0.0))
            if not isinstance(self.loss, BinaryLoss) or rarest >= 20:
                given = self.rows.take(chosen), y, weights / weights.sum(), self.loss, self.free
                sampled = ScoreRisk(*given)
                sampled.units = self.units
                return sampled, share
        return None

    def _cut(self, scores: Array, b: float, width: float, out: Array) -> tuple[float, float]:
        def part(rows: slice) -> tuple[float, float]:
            args = scores[rows], self.y[rows], self.weights[rows], b, width, self.center
            return self.form.cut(*args, out[rows])

        return self.rows.sums(part)  # type: ignore[return-value]

    def size_of_targets(self, sizes: Array) -> float:
        return 2.0 * float(sizes[0] @ self._distances)

    @cached_property
    def _distances(self) -> Array:
        return np.abs(self.y - self.center)


class _Compiled:
    """What is computed of a loss by its formula, row by row."""

    def __init__(self, loss: Any):
        self.formula, self.loss = loss.formula, loss

    def steepness(self, width: float) -> float:
        if self.loss.smooth:
            return 1.0
        return 1.0 / width if width > 0.0 else np.inf

    def risk(self, f: Array, y: Array, s: Array, b: float) -> float:
        return self.cut(f, y, s, b, 0.0, 0.0, np.empty_like(f))[0]

    def cut(
        self, f, y, s, b: float, width: float, center: float, out: Array
    ) -> tuple[float, float]:
        return loops.cut(self.formula, f, y, s, self.steepness(width), b, center, out)

    def along(self, f, h, y, s, b: float, db: float, width: float, t: float) -> tuple[float, float]:
        first, second = loops.along(self.formula, f, h, y, s, self.steepness(width), b, db, t)
        return first, second if self.loss.smooth or width > 0.0 else np.nan

    def curved(self, f, y, s, b: float, width: float) -> tuple[NDArray[np.intp], Array]:
        rows, coefs = np.empty(len(f), dtype=np.int64), np.empty(len(f))
        size = loops.curved(self.formula, f, y, s, self.steepness(width), b, rows, coefs)
        return rows[:size], coefs[:size]

    def offset(self, g: Array, y: Array, s: Array, center: float) -> float:
        return loops.offset(self.formula, g, y, s, center)

    def sizes(self, moved: Array, y: Array, s: Array, off: float) -> Sizes:
        """Of scores that may be off by so much: slopes rise with the score, so the ends say it."""
        ends = np.empty((2, len(moved)))
        for end, step in zip(ends, (-off, off), strict=True):
            self.cut(moved, y, s, step, 0.0, 0.0, end)
        np.abs(ends, out=ends)[ends == np.inf] = 0.0  # without what overflows
        return Sizes.of(ends.max(axis=0))

    def exact_intercept(self, risk: ScoreRisk, scores: Array, width: float) -> float | None:
        """A closed form, or of a kinked loss a weighted quantile."""
        if not self.loss.smooth and width == 0.0:
            return _quantile(risk, scores)
        return self.loss.closed_intercept(scores, risk.y, risk.weights)

    def balanced_cut(self, risk: ScoreRisk, scores, b, width, out) -> tuple[float, float]:
        """With derivatives that sum to zero: rows at the kinks share what is left."""
        y, s, center = risk.y, risk.weights, risk.center
        if not self.loss.smooth and width == 0.0:
            loops.share_ties(self.formula, scores, y, s, b, out)
            self.balance(out, y, s, center)
            return risk.value(scores, b), risk.offset(out)
        value, offset = risk._cut(scores, b, width, out)
        change = self.balance(out, y, s, center)
        # up to here the change's rounding counts no more than the offset's own
        if abs(change) > 0.1 * abs(offset + change):
            return value, risk.offset(out)
        return value, offset + change

    def balance(self, g: Array, y: Array, s: Array, center: float) -> float:
        """Make derivatives sum to zero by shrinking those of a few rows; the offset's change.

        A slope times a number in [0, 1] is a slope of a loss that is never negative.
        """
        before = {}  # blocks of rows as they were; most often one row of the first is enough
        for _ in range(2):  # again for what rounding left
            excess = float(g.sum())
            for start in range(0, len(g), _AT_A_TIME):
                if excess == 0.0 or not np.isfinite(excess):
                    break
                block = g[start : start + _AT_A_TIME]
                before.setdefault(start, block.copy())
                sizes = block if excess > 0.0 else -block
                k = int(sizes.argmax())
                if sizes[k] >= abs(excess):
                    block[k] -= excess
                    break
                sizes = np.maximum(sizes, 0.0)
                less = np.clip(abs(excess) - (np.cumsum(sizes) - sizes), 0.0, sizes)
                block -= np.copysign(less, excess)
                excess -= float(np.copysign(less.sum(), excess))
        change = 0.0
        for start, old in before.items():
            rows = slice(start, start + len(old))
            given = y[rows], s[rows], center
            change += self.offset(g[rows], *given) - self.offset(old, *given)
        return change


class _Squares(_Compiled):
    """Squared errors, by products that are fast without the seconds that compilation takes."""

    def cut(
        self, f, y, s, b: float, width: float, center: float, out: Array
    ) -> tuple[float, float]:
        r = b - (y - f)
        risk = 0.5 * float(np.multiply(s, r, out=out) @ r)
        return risk, -risk - float(out @ (y - center))

    def along(self, f, h, y, s, b: float, db: float, width: float, t: float) -> tuple[float, float]:
        move = h + db
        weighted = s * move
        return float(weighted @ ((b - (y - f)) + t * move)), float(weighted @ move)

    def curved(self, f, y, s, b: float, width: float) -> tuple[NDArray[np.intp], Array]:
        return np.arange(len(f)), s

    def offset(self, g: Array, y: Array, s: Array, center: float) -> float:
        return -float(g @ (0.5 * g / s + (y - center)))


class _Numpy:
    """The same of a user's loss, from its values and derivatives."""

    def __init__(self, loss: Any):
        self.loss = loss

    def risk(self, f: Array, y: Array, s: Array, b: float) -> float:
        return float(np.sum(s * self.loss.checked("value", f + b, y)))

    def cut(
        self, f, y, s, b: float, width: float, center: float, out: Array
    ) -> tuple[float, float]:
        return self.loss.cut(f + b, y, s, out)

    def along(self, f, h, y, s, b: float, db: float, width: float, t: float) -> tuple[float, float]:
        return self.loss.along(f + b, h + db, y, s, t)[1:]

    def curved(self, f, y, s, b: float, width: float) -> tuple[NDArray[np.intp], Array]:
        bend = self.loss.curvature(f + b, y)
        coefs = s if bend is None else s * bend
        rows = np.flatnonzero(coefs > 0.0)
        return rows, coefs[rows]

    def sizes(self, moved: Array, y: Array, s: Array, off: float) -> Sizes:
        ends = (s * np.abs(self.loss.gradient(moved + step, y)) for step in (-off, 0.0, off))
        return Sizes.of(np.maximum.reduce(list(ends)))

    def exact_intercept(self, risk: ScoreRisk, scores: Array, width: float) -> float | None:
        """By secants where there is no curvature: the slope in b changes its sign."""
        return None

    def balanced_cut(self, risk: ScoreRisk, scores, b, width, out) -> tuple[float, float]:
        """The mean of two planes on both sides of the best b whose slopes in b cancel."""
        value, offset = risk._cut(scores, b, width, out)
        slope, step = float(out.sum()), np.spacing(abs(b))
        other = np.empty_like(out)
        while slope != 0.0:
            moved = b - np.copysign(step, slope)
            of_moved, offset_there = risk._cut(scores, moved, width, other)
            there = float(other.sum())
            if np.sign(there) != np.sign(slope):  # products of small ones may be 0
                share = slope / (slope - there)
                out += share * (other - out)
                return min(value, of_moved), offset + share * (offset_there - offset)
            step = 4.0 * max(step, np.finfo(float).tiny)
            if not np.isfinite(moved):
                break
        return value, offset


def _quantile(risk: ScoreRisk, scores: Array) -> float:
    """The smallest b at which the derivative of a kinked loss is not negative.

    The derivative rises by the weight times the jump at each kink. It is summed up from the end
    where fewer are needed, so that a light class is not lost in the rounding of the other.
    """
    (low, high), apart, pairs = risk.end_slopes, risk.y - scores, risk.loss.kinks
    if len(pairs) == 1:
        kinks, jumps = apart + pairs[0][0], risk.weights * pairs[0][1]
    else:
        kinks = np.concatenate([apart + place for place, _ in pairs])
        jumps = np.concatenate([risk.weights * jump for _, jump in pairs])
    upward = -low <= high
    values, needed = (kinks, -low) if upward else (-kinks, high)
    among, before = _near(values, jumps, needed)
    order = among[np.argsort(values[among])]
    reached = before + np.cumsum(jumps[order])
    if upward:
        k = int(np.searchsorted(reached, needed * (1.0 - _WEIGHT_ROUNDING)))
    else:  # the last one beyond which no more than that is left
        beyond = reached - jumps[order]
        k = int(np.searchsorted(beyond, needed * (1.0 + _WEIGHT_ROUNDING), side="right")) - 1
    return float(kinks[order[min(max(k, 0), len(order) - 1)]])


def _near(values: Array, jumps: Array, needed: float) -> tuple[NDArray[np.intp], float]:
    """Places around where the sum of jumps, in order of values, reaches ``needed``; the sum below.

    A few values say where that is; if they are wrong, all are taken.
    """
    n = len(values)
    if n > 1 << 12:
        stride = n // 2048
        some = np.argsort(values[::stride])
        ranked, reached = values[::stride][some], np.cumsum(jumps[::stride][some])
        k = int(np.searchsorted(reached, needed * reached[-1] / float(jumps.sum())))
        margin = int(2.0 * np.sqrt(len(ranked)))  # four standard deviations
        lower, upper = ranked[max(k - margin, 0)], ranked[min(k + margin, len(ranked) - 1)]
        inside, before = (values >= lower) & (values <= upper), float(jumps @ (values < lower))
        exact = before < needed * (1.0 - _FEW * _WEIGHT_ROUNDING)
        if exact and before + float(jumps @ inside) > needed:
            return np.flatnonzero(inside), before
    return np.arange(n), 0.0


def risk_of(rows: Rows, y: Any, weights: Array, loss: Loss, fit_intercept: bool) -> Risk:
    """The problem of a loss and a prepared target."""
    if isinstance(loss, PlaneLoss):
        return PlaneRisk(rows, y, weights, loss, fit_intercept)
    kind = ScoreRisk if loss.n_outputs(y) is None else ClassRisk
    return kind(rows, y, weights, loss, fit_intercept)
