"""Piecewise linear and quadratic losses of the residual ``r = f - y``, all of one form:

    l(r) = max over low <= u <= high of u r - half |u| - square u^2 / 2.

Inside of a tube of half width ``half`` it is zero. Beyond, its slope u jumps to ``low`` or ``high``
(``square`` = 0), or grows by one per unit up to there (``square`` = 1). For a label of -1 or 1 the
residual is minus the label times the slack of the margin, so that hinges have this form too, with
slopes of one sign. Kinked losses are smoothed with ``width u^2 / 2`` in place of the square.

The derivative along a line and in the intercept is piecewise linear: its zero is exact, in O(n) by
selection.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.jit.vector import muladd
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear._compiled.selection import first_crossing
from sklearn_bundle.linear.losses.base import Array, Cut, Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss

WEIGHT_ROUNDING = 1e-15  # of a sum of weights, relative to their total of one
MANY = 1 << 12  # samples, of which kinks far from the best intercept are not stored
_SOME = 256  # samples that say where that is,
_MARGIN = 2.0  # to this many roots of the number of their kinks: four standard deviations of a rank
_ROUNDED = 1e-12  # of a mean of slopes, in units of the steepest
_POLISHES = 3  # Newton steps on a piecewise linear function, near its zero


class Tube(NamedTuple):
    """Of a real target."""

    low: float
    high: float
    half: float
    square: float


class OneSided(NamedTuple):
    """Of a label: slopes have the sign that raises the margin, and no tube."""

    limit: float
    square: float


def interval(loss, y) -> Any:
    """low and high for this target."""
    raise NotImplementedError  # a name for compiled code: each of the two types has its own


def half_width(loss) -> Any:
    """The half width of the tube."""
    raise NotImplementedError  # a name for compiled code: each of the two types has its own


def turned(loss, y) -> Any:
    """The target of a dual step, whose margin is multiplied by the row's direction."""
    raise NotImplementedError  # a name for compiled code: each of the two types has its own


@registered(interval, Tube)
def _tube_interval(loss, y):
    return loss.low, loss.high


@registered(half_width, Tube)
def _tube_half_width(loss):
    return loss.half


@registered(interval, OneSided)
def _label_interval(loss, y):
    return -loss.limit if y > 0.0 else 0.0, loss.limit if y < 0.0 else 0.0


@registered(half_width, OneSided)
def _no_tube(loss):
    return 0.0


@inner
def _shrunk(x, half):
    """x moved towards 0 by ``half``."""
    return max(x - half, 0.0) + min(x + half, 0.0)


# ---- the loss ----------------------------------------------------------------------------------


@registered(loops.value, Tube)
@registered(loops.value, OneSided)
def _value(loss, f, r, y):
    low, high = interval(loss, y)
    beyond = _shrunk(r, half_width(loss))
    steepest = high if beyond > 0.0 else low
    u = min(max(beyond, low), high) if loss.square > 0.0 else steepest
    return u * (beyond - 0.5 * loss.square * u)


@registered(loops.slope, Tube)
@registered(loops.slope, OneSided)
def _slope(loss, f, r, y, steepness):
    low, high = interval(loss, y)
    beyond = _shrunk(r, half_width(loss))
    u = beyond if loss.square > 0.0 or beyond == 0.0 else beyond * steepness
    return min(max(u, low), high)


@registered(loops.curvature, Tube)
@registered(loops.curvature, OneSided)
def _curvature(loss, f, r, y, steepness):
    low, high = interval(loss, y)
    half = half_width(loss)
    factor = 1.0 if loss.square > 0.0 else steepness
    u = _shrunk(r, half) * factor
    return factor * ((u > low) & (u < high) & (abs(r) >= half))


@registered(loops.conjugate, Tube)
@registered(loops.conjugate, OneSided)
def _conjugate(loss, u, y, center):
    return u * (y - center) + half_width(loss) * abs(u) + 0.5 * loss.square * u * u


@registered(loops.sides, Tube)
@registered(loops.sides, OneSided)
def _sides(loss, b, t, y):
    low, high = interval(loss, y)
    left, right = t - half_width(loss), t + half_width(loss)
    below = low * (b <= left) + high * (b > right)
    return below, low * (b < left) + high * (b >= right)


# ---- dual steps (Ho and Lin, JMLR 13, 2012, call alpha beta) -------------------------------------


@registered(turned, Tube)
@registered(coordinate.direction, OneSided)
def _itself(loss, y):
    return y


@registered(turned, OneSided)
def _one_for_labels(loss, y):
    return 1.0


@registered(coordinate.step, Tube)
@registered(coordinate.step, OneSided)
def _step(loss, target, margin, alpha, weight, curvature, far_low, far_high):
    """Minimum of ``curvature a^2/2 - (residual + curvature alpha) a + half |a| + ...`` in a box."""
    target = turned(loss, target)
    low, high = interval(loss, target)
    half, bend = half_width(loss), loss.square / weight
    residual = target - margin
    least, most = -weight * high, -weight * low
    # Explicit fma: LLVM could round either product, and the gap decides what is averaged.
    value = weight * loops.value(loss, margin, -residual, target)
    gap = muladd(-alpha, residual, value + abs(alpha) * half + 0.5 * bend * alpha * alpha)

    # Minus the one-sided derivatives of the dual in alpha.
    gradient = muladd(bend, alpha, -residual)
    right = gradient + (half if alpha >= 0.0 else -half)
    left = gradient + (half if alpha > 0.0 else -half)
    upward = right > 0.0 and right * right > far_low * curvature
    downward = left < 0.0 and left * left > far_high * curvature
    projected = min(right, 0.0) + max(left, 0.0)
    if alpha == least:
        projected = min(right, 0.0)
        counts = not upward
    elif alpha == most:
        projected = max(left, 0.0)
        counts = not downward
    else:
        counts = not (alpha == 0.0 and half > 0.0 and upward and downward)
    if not counts:
        return alpha, 0.0, gap, False
    best, bend = _shrunk(muladd(curvature, alpha, residual), half), bend + curvature
    if bend > 0.0:
        return min(max(best / bend, least), most), projected, gap, True
    if best != 0.0:  # a row of zeros
        return most if best > 0.0 else least, 0.0, gap, True
    return 0.0, 0.0, gap, True


@registered(coordinate.gain, Tube)
@registered(coordinate.gain, OneSided)
def _gain(loss, target, margin, alpha, new, weight, curvature):
    change = new - alpha
    rise = change * (turned(loss, target) - margin - 0.5 * curvature * change)
    fall = half_width(loss) * (abs(new) - abs(alpha))
    return rise, fall + 0.5 * loss.square / weight * change * (new + alpha)


# ---- where the derivative is zero --------------------------------------------------------------


@jit
def _write_kinks(
    loss, pieces, labels, scores, direction, y, weights, left, right, kinks, jumps, bends
):
    """Write where r crosses the kinks of the derivative at t between ``left`` and ``right``.

    ``pieces`` holds a kink per row: where r is, and what the derivative gains there, ``jump + bend
    (r - kink)``; for labels the bend is that of label -1. All crossings of a block are computed as
    vectors; those to keep are then packed. Returns their number, the line p + q t of the derivative
    at left+, and the sum of the sizes of all jumps. A row's line is found before it is summed: what
    cancels within a row would leave rounding in the sum.
    """
    n = loops.LANES
    p, q, total = np.zeros(n), np.zeros(n), np.zeros(n)
    constant, slope = np.empty(n), np.empty(n)
    at, jump_at, bend_at = np.empty(n), np.empty(n), np.empty(n)
    size = np.uint64(0)
    for start in range(0, scores.shape[0], loops.LANES):
        rows = slice(start, start + loops.LANES)
        f, d, z, s = scores[rows], direction[rows], y[rows], weights[rows]
        for k in range(len(f)):
            low = interval(loss, z[k])[0]
            constant[k] = low if low > -np.inf else half_width(loss)
            slope[k] = 0.0 if low > -np.inf else 1.0
        for m in range(pieces.shape[0]):
            kink, jump, bend = pieces[m, 0], pieces[m, 1], pieces[m, 2]
            for k in range(len(f)):
                distance = kink - (f[k] - z[k])
                t = distance / d[k]
                rises = d[k] > 0.0
                passed = (rises & (t <= left)) | ((d[k] < 0.0) & (t > left))
                turn = -bend * z[k] if labels else bend
                constant[k] += passed * (jump - turn * kink)
                slope[k] += passed * turn
                change = s[k] * abs(d[k])
                gain = jump - turn * distance
                total[k] += change * abs(gain)
                at[k] = t
                jump_at[k] = change * gain
                bend_at[k] = change * turn * d[k]
            for k in range(len(f)):
                kinks[size] = at[k]
                jumps[size] = jump_at[k]
                bends[size] = bend_at[k]
                size += np.uint64((at[k] > left) & (at[k] < right))
        for k in range(len(f)):
            change = s[k] * d[k]
            p[k] += change * (constant[k] + slope[k] * (f[k] - z[k]))
            q[k] += change * slope[k] * d[k]
    return np.intp(size), loops.in_order(p), loops.in_order(q), loops.in_order(total)


@jit
def in_b(loss, scores, y, weights, b):
    """First and second derivative of the risk in b, and the mean size of a slope."""
    n = loops.LANES
    first, second, size = np.zeros(n), np.zeros(n), np.zeros(n)
    for start in range(0, scores.shape[0], loops.LANES):
        rows = slice(start, start + loops.LANES)
        f, z, s = scores[rows], y[rows], weights[rows]
        for k in range(len(f)):
            r = b - (z[k] - f[k])
            u = s[k] * loops.slope(loss, r, r, z[k], 1.0)
            first[k] += u
            second[k] += s[k] * loops.curvature(loss, r, r, z[k], 1.0)
            size[k] += abs(u)
    return loops.in_order(first), loops.in_order(second), loops.in_order(size)


class PieceLoss(ScoreLoss):
    """A loss of this form. Best intercepts and best steps along lines are exact."""

    smooth = False

    @abstractmethod
    def formula(self) -> Tube | OneSided:
        """The slopes, the tube, and whether there are squares."""

    @property
    def at_bounds(self) -> bool:
        formula = self.formula()
        tube = isinstance(formula, Tube)
        return not tube or formula.half > 0.0 or bool(np.isfinite(formula.high))

    def kinks(self) -> list[tuple[float, float, float]]:
        """Kinks of the derivative: where r is, the jump, and the bend."""
        formula = self.formula()
        if isinstance(formula, OneSided):
            return [(0.0, 0.0 if formula.square else formula.limit, formula.square)]
        low, high, half, square = formula
        if not square:
            return [(-half, -low, 0.0), (half, high, 0.0)] if half else [(0.0, high - low, 0.0)]
        bends = [(low - half, 1.0), (high + half, -1.0)]
        bends += [(-half, -1.0), (half, 1.0)] if half else []
        return [(kink, 0.0, bend) for kink, bend in bends if np.isfinite(kink)]

    @property
    def has_one_kink(self) -> bool:
        """Whether the loss is linear on both sides of f = y."""
        kinks = self.kinks()
        return not self.smooth and len(kinks) == 1 and kinks[0][0] == 0.0

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        if self.smooth or not fit_intercept:
            return super().cut(scores, y, weights, fit_intercept, out, scratch)
        b, center = self.intercept(scores, y, weights, scratch), self.center(y, weights)
        formula = self.formula()
        loops.share_ties(formula, scores, y, weights, b, out)
        loops.balance(formula, out, y, weights, center)
        offset = loops.offset(formula, out, y, weights, center)
        return Cut(loops.risk(formula, scores, y, weights, b), offset, b)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        args, n = (scores, direction, y, weights), len(scores)
        kinks = self.kinks()
        space = scratch[:3] if len(kinks) < 2 else np.empty((3, len(kinks) * n))
        size, p, q, _ = self._lines(*args, 0.0, np.inf, space)
        return max(0.0, first_crossing(*space, size, slope + p, curvature + q, 0.0))

    def _lines(self, scores, direction, y, weights, left, right, space):
        """Write the kinks between left and right; returns their number, and p + q t at left+.

        The last result is the sum of the sizes of all jumps.
        """
        formula = self.formula()
        pieces, labels = np.reshape(self.kinks(), (-1, 3)), isinstance(formula, OneSided)
        args = scores, direction, y, weights, left, right
        return _write_kinks(formula, pieces, labels, *args, *space)

    def intercept(self, scores, y, weights, scratch) -> float:
        """The smallest minimizer b; of a smooth loss Newton steps remove the rounding of long sums.

        If residuals round so much that these fail, it uses bisection.
        """
        b = self._zero_in_b(scores, y, weights, scratch) if self.kinks() else 0.0
        if not self.smooth:
            return b
        for _ in range(_POLISHES):
            first, second, size = in_b(self.formula(), scores, y, weights, b)
            if abs(first) <= _ROUNDED * size + second * np.spacing(abs(b)):
                return b
            if not second > 0.0:
                break
            b -= first / second
        return float(Loss.intercept(self, scores, y, weights, scratch))

    def _zero_in_b(self, scores, y, weights, scratch) -> float:
        """Where the derivative in b is zero up to the rounding of the weights, by selection.

        Of many samples only kinks near the zero of a few samples are written: the memory of the
        others is reserved, but never touched.
        """
        n, n_kinks = len(scores), len(self.kinks())
        space = scratch[:3] if n_kinks < 2 else np.empty((3, n_kinks * n))
        still = scratch[3]
        still[:] = 1.0
        args = scores, still, y, weights
        low, high = self._bracket(*args) if n >= MANY else (-np.inf, np.inf)
        size, p, q, total = self._lines(*args, low, high, space)
        limit = WEIGHT_ROUNDING * total
        if low == -np.inf or p + q * low < -limit:
            b = first_crossing(*space, size, p, q, limit)
            if b < high or high == np.inf:
                return self._finite(b, scores, y)
        for tied in (
            low,
            high,
        ):  # where many kinks are equal, the sample may end at the zero itself
            before = np.nextafter(tied, -np.inf)
            _, p, q, _ = self._lines(*args, before, tied, space)
            _, p_at, q_at, _ = self._lines(*args, tied, tied, space)
            if p + q * tied < -limit <= p_at + q_at * tied:
                return tied
        size, p, q, _ = self._lines(*args, -np.inf, np.inf, space)
        return self._finite(first_crossing(*space, size, p, q, limit), scores, y)

    def _finite(self, b, scores, y) -> float:
        """b, or the outermost kink if the slope on one side is only rounding."""
        if np.isfinite(b):
            return b
        return float((y - scores).max() if b > 0.0 else (y - scores).min())

    def _bracket(self, scores, still, y, weights) -> tuple[float, float]:
        """Two values that probably enclose the zero, from the kinks of a few samples."""
        stride = len(scores) // _SOME
        some = [np.ascontiguousarray(part[::stride]) for part in (scores, still, y, weights)]
        space = np.empty((3, len(self.kinks()) * len(some[0]) + 1))
        size, p, q, _ = self._lines(*some, -np.inf, np.inf, space)
        order = np.argsort(space[0, :size])
        kinks, jumps, bends = space[:, order]
        rising = p + np.cumsum(jumps) + (q + np.cumsum(bends)) * kinks >= 0.0
        crossing = int(np.argmax(rising)) if rising.any() else size
        margin = int(_MARGIN * np.sqrt(size))
        low, high = crossing - margin, crossing + margin
        return (kinks[low] if low >= 0 else -np.inf, kinks[high] if high < size else np.inf)

    # ---- the dual ------------------------------------------------------------------------------

    def bounds(self, y, weights) -> tuple[Array | float, Array | float]:
        formula = self.formula()
        if isinstance(formula, OneSided):
            return 0.0, weights * formula.limit
        return -weights * formula.high, -weights * formula.low

    def slope_at_zero(self, derivatives, y, weights) -> float:
        linear = self.formula()._replace(square=0.0)
        return max(float(loops.offset(linear, derivatives, y, weights, 0.0)), 0.0)
