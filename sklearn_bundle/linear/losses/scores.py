"""Losses of one score that ship with the package: what solvers need, from compiled functions.

A loss registers functions of one row for the type of its :meth:`~ScoreLoss.formula`
(:mod:`~.linear._compiled.scores`). The methods here run the loops over rows that are made of them.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import MOST_STEPS
from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.jit.decorators import is_registered
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Array, Cut, Loss
from sklearn_bundle.linear.losses.samples import BinaryLoss, RegressionLoss, SampleLoss

Part = Callable[[slice], tuple[float, ...]]  # sums over some rows
Sums = Callable[[Part], tuple[float, ...]]  # makes of them the sums over all rows

_REACH = 4.0  # factor between steps in b while no row has curvature
_CHANGED = 0.1  # of an offset: a change whose rounding counts no more than its own
_ROWS = 1 << 16  # whose copies are small beside a vector
# Rows per class in a sample: with fewer, its solution is useless as a start.
_FEWEST_OF_A_CLASS = 20


class Start(NamedTuple):
    """What follows from the targets alone.

    Parameters
    ----------
    intercept : float
        A good b at w = 0.
    unit : float
        Unit of the scores: the widest useful smoothing; positive.
    slope : float
        A typical derivative of the loss; positive.
    """

    intercept: float = 0.0
    unit: float = 1.0
    slope: float = 1.0


def at_once(part: Part) -> tuple[float, ...]:
    """Sums over all rows in one piece."""
    return part(slice(None))


class ScoreLoss(SampleLoss):
    """A loss that is stated by compiled functions of one score.

    Methods with a ``width`` are of the loss smoothed over it; smooth losses ignore it. Scores are
    then given without the intercept b. If there are ``sums``, all that is computed row by row is
    left to them: they may sum blocks of rows in several threads.
    """

    smooth = True
    #: Whether second derivatives are the same everywhere.
    quadratic: ClassVar[bool] = False
    #: Whether the least second derivative in any range of scores is that at one of its ends: they
    #: rise to one maximum and then fall, or do one of both.
    least_at_ends: ClassVar[bool] = False
    #: The largest of all; if that is infinite, they only rise or only fall.
    most_curvature: ClassVar[float] = np.inf
    #: Whether targets may lie far from 0: epochs then begin at the best intercept of w = 0.
    far_targets: ClassVar[bool] = False
    #: Cost of a dual step in multiplications, without its products with the row; 0 if only a few.
    multiplications: ClassVar[float] = 0.0
    #: Whether :meth:`intercept` is a closed form, which Newton's method then uses.
    closed_intercept: ClassVar[bool] = False

    @property
    def has_dual_steps(self) -> bool:
        """Whether the loss registers steps for dual coordinate ascent."""
        return is_registered(coordinate.step, type(self.formula()))

    @property
    def at_bounds(self) -> bool:
        """Whether the best alpha_i may lie at a bound or a kink; epochs can skip such rows."""
        return False

    @abstractmethod
    def formula(self) -> Any:
        """The named tuple for whose type the functions are registered, with the parameters."""

    # ---- as every loss -------------------------------------------------------------------------

    def value(self, scores, y) -> Array:
        return self._mapped(loops.values, scores, y)

    def gradient(self, scores, y) -> Array:
        def slopes(formula, scores, y, out):
            loops.cut(formula, scores, y, np.ones(len(y)), np.inf, 0.0, 0.0, 0.0, out)

        return self._mapped(slopes, scores, y)

    def curvature(self, scores, y) -> Array | None:
        return self._mapped(loops.curvatures, scores, y, 1.0) if self.smooth else None

    @property
    def has_one_kink(self) -> bool:
        """Whether the loss is linear on both sides of f = y."""
        return False

    def end_slopes(self, y: Array) -> tuple[Array, Array]:
        """The derivatives at scores far below and far above."""
        low, high = (self.gradient(np.full(len(y), end), y) for end in (-loops.FAR, loops.FAR))
        return low, high

    def _mapped(self, loop, scores, y, *further) -> Array:
        scores, y = np.broadcast_arrays(np.asarray(scores, float), np.asarray(y, float))
        out = np.empty(scores.shape)
        flat = np.ascontiguousarray(scores).ravel(), np.ascontiguousarray(y).ravel()
        loop(self.formula(), *flat, *further, out.reshape(-1))
        return out + 0.0  # no zero with a sign

    def evaluate(self, scores, y, weights, out) -> float:
        args = scores, y, weights, np.inf, 0.0, 0.0, 0.0, out
        return loops.cut(self.formula(), *args)[0]

    def risk(self, scores, y, weights, intercept) -> float:
        return loops.risk(self.formula(), scores, y, weights, float(intercept))

    def slope(self, scores, direction, y, weights, t) -> tuple[float, float]:
        args = scores, direction, y, weights, np.inf, 0.0, 0.0, t
        first, second = loops.along(self.formula(), *args)
        return first, second if self.smooth else np.nan

    def intercept(self, scores, y, weights, scratch) -> float:
        """The best b, by Newton's method from the one that suits the mean score."""
        still = np.zeros(len(scores))
        start = self.start(y, weights, True).intercept - float(np.einsum("i,i->", weights, scores))

        def along(downhill: float, t: float) -> tuple[float, float]:
            return self.smoothed_slope(scores, still, y, weights, 0.0, start, downhill, t)

        downhill = -1.0 if along(1.0, 0.0)[0] > 0.0 else 1.0
        return start + downhill * search_zero(lambda t: along(downhill, t), precision=0.0)

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        b = fine = center = 0.0
        if fit_intercept:
            b, center = self.intercept(scores, y, weights, scratch), self.center(y, weights)
            fine = self._fine(scores, y, weights, b)
        args = scores, y, weights, np.inf, b, fine, center, out
        risk, offset = loops.cut(self.formula(), *args)
        if fit_intercept:
            offset = self._balanced(out, y, weights, center, offset)
        return Cut(risk, offset, b)

    def _balanced(self, derivatives, y, weights, center, offset) -> float:
        """Make derivatives sum to zero; returns the offset of their plane, given that of before.

        A difference keeps the rounding of both: if the change is most of it, it is summed again.
        """
        change = loops.balance(self.formula(), derivatives, y, weights, center)
        if abs(change) > _CHANGED * abs(offset + change):
            return self.offset(derivatives, y, weights, center)
        return offset + change

    def _fine(self, scores, y, weights, b) -> float:
        """By how much the best b differs from the nearest floating-point number."""
        return 0.0

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        def derivative(t: float) -> tuple[float, float]:
            first, second = self.slope(scores, direction, y, weights, t)
            return slope + curvature * t + first, curvature + second

        return search_zero(derivative)

    # ---- smoothed, for Newton's method and L-BFGS ----------------------------------------------

    def start(self, y: Array, weights: Array, free: bool) -> Start:
        """The start and the units; for labels 0 and 1."""
        return Start()

    @abstractmethod
    def suffices(self, y: Array) -> bool:
        """Whether the solution for a sample with these targets is useful."""

    def center(self, y: Array, weights: Array) -> float:
        """What the targets in a plane's offset are counted from if the intercept is free."""
        return 0.0

    def steepness(self, width: float) -> float:
        """Of the loss smoothed over the width."""
        return 1.0 if self.smooth else 1.0 / width

    def smoothed_cut(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        free: bool,
        out: Array,
        sums: Sums = at_once,
    ) -> tuple[float, float]:
        """The risk, and the offset of a plane with the smoothed derivatives, written to ``out``.

        With ``free`` these sum to zero; they hardly change if b is nearly the best.
        """
        center = self.center(y, weights) if free else 0.0
        formula, steepness = self.formula(), self.steepness(width)

        def part(rows: slice) -> tuple[float, ...]:
            args = scores[rows], y[rows], weights[rows], steepness, b, 0.0, center
            return loops.cut(formula, *args, out[rows])

        risk, offset = sums(part)
        if free:
            offset = self._balanced(out, y, weights, center, offset)
        return risk, offset

    def modeled_plane(
        self,
        scores: Array,
        direction: Array,
        y: Array,
        weights: Array,
        b: float,
        along_b: float,
        free: bool,
        out: Array,
        sums: Sums = at_once,
    ) -> float:
        """The offset of a plane, whose derivatives are written to ``out``, of a smooth loss.

        They are what its second derivatives at f + b say of the point that is a step (direction,
        along_b) away; with ``free`` they sum to zero.
        """
        center = self.center(y, weights) if free else 0.0
        formula = self.formula()

        def part(rows: slice) -> tuple[float, ...]:
            args = scores[rows], direction[rows], y[rows], weights[rows], 1.0, b, along_b, center
            return (loops.modeled(formula, *args, out[rows]),)

        (offset,) = sums(part)
        return self._balanced(out, y, weights, center, offset) if free else offset

    def smoothed_slope(
        self,
        scores: Array,
        direction: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        along_b: float,
        t: float,
    ) -> tuple[float, float]:
        """First and second derivative of the smoothed risk at t along (direction, along_b)."""
        args = scores, direction, y, weights, self.steepness(width), b, along_b, t
        return loops.along(self.formula(), *args)

    def curved(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        rows: NDArray[np.int64],
        coefs: Array,
    ) -> int:
        """Number of rows with curvature; writes their indices and weighted second derivatives."""
        args = scores, y, weights, self.steepness(width), b, rows, coefs
        return loops.curved(self.formula(), *args)

    def smoothed_intercept(
        self,
        scores: Array,
        y: Array,
        weights: Array,
        width: float,
        b: float,
        unit: float,
        precision: float,
        scratch: Array,
        sums: Sums = at_once,
    ) -> float:
        """The best b of the smoothed risk, by Newton's method from b; writes to ``scratch``.

        Its derivative there is at most ``precision``. The first steps, while no row has curvature,
        have the length ``unit``.
        """
        if self.closed_intercept:
            return self.intercept(scores, y, weights, scratch)
        still = scratch
        still[:] = 0.0
        low, high, reach = -np.inf, np.inf, unit
        for _ in range(MOST_STEPS):  # usually two or three, since the last b is near
            first, second = sums(
                lambda rows, b=b: self.smoothed_slope(
                    scores[rows], still[rows], y[rows], weights[rows], width, b, 1.0, 0.0
                )
            )
            if abs(first) <= precision:
                break
            low, high = (b, high) if first < 0.0 else (low, b)
            if second > 0.0:
                move = -first / second
            else:
                move, reach = -np.copysign(reach, first), _REACH * reach
            moved = b + move
            if not low < moved < high:
                moved = 0.5 * (low + high) if np.isfinite(high - low) else b + 2.0 * move
            if moved == b:
                break
            b = moved
        return b

    # ---- the dual ------------------------------------------------------------------------------

    def offset(self, derivatives: Array, y: Array, weights: Array, center: float) -> float:
        """The offset ``-sum_i s_i l*(g_i / s_i)`` of the plane with the derivatives g.

        If these sum to zero, ``center`` changes only rounding: the mean target keeps terms small.
        """
        return loops.offset(self.formula(), derivatives, y, weights, center)

    def direction(self, y: Array) -> Array:
        """The y_i of dual steps: alpha_i is minus y_i times the derivative of row i."""
        return np.broadcast_to(1.0, len(y))

    def bounds(self, y: Array, weights: Array) -> tuple[Array | float, Array | float]:
        """The smallest and the largest alpha: by default from the slopes at both ends."""
        last, first = (-self.direction(y) * weights * end for end in self.end_slopes(y))
        return np.minimum(first, last), np.maximum(first, last)

    def slope_at_zero(self, derivatives: Array, y: Array, weights: Array) -> float:
        """Derivative in t of the offset for t times these derivatives, at t = 0+."""
        raise NotImplementedError


def scale_heavier_down(values: Array, positive: NDArray[np.bool_]) -> None:
    """Scale one of the two parts down, so that the sizes of their sums are equal."""
    sums = np.zeros(2)
    for start in range(0, len(values), _ROWS):
        part, above = values[start : start + _ROWS], positive[start : start + _ROWS]
        sums += part[above].sum(), part[~above].sum()
    up, down = np.abs(sums).tolist()
    if up != down:
        heavier = positive if up > down else ~positive
        np.multiply(values, min(up, down) / max(up, down), out=values, where=heavier)


class LabelLoss(ScoreLoss, BinaryLoss):
    """A loss of a label in {-1, +1}."""

    def direction(self, y) -> Array:
        return y

    def suffices(self, y) -> bool:
        positive = np.count_nonzero(y > 0.0)
        return bool(min(positive, len(y) - positive) >= _FEWEST_OF_A_CLASS)


class TargetLoss(ScoreLoss, RegressionLoss):
    """A loss of a real target."""

    far_targets = True

    def suffices(self, y) -> bool:
        return True

    def center(self, y, weights) -> float:
        return float(weights @ y)


def score_loss(loss: Loss) -> ScoreLoss | None:
    """The loss if it is stated by compiled functions; None if it is not.

    A subclass that does not state its own may be another function.
    """
    return loss if isinstance(loss, ScoreLoss) and "formula" in vars(type(loss)) else None
