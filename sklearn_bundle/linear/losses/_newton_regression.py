"""Losses of a real target in their form for Newton's method.

Functions of the residual r = f + b - y are written as maxima over slopes,

    l(r) = max over low <= u <= high of u r - half |u| - square u^2/2,

with square = 1 for smooth losses. The others, with square = 0, are smoothed to

    max over low <= u <= high of u r - half |u| - width u^2/2.

For any u of a row, ``l(r) >= u r - half |u| - square u^2/2``: this is its plane.
"""

import numpy as np

from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.jit.elementary import exp, log
from sklearn_bundle.linear.losses import _poisson
from sklearn_bundle.linear.losses._newton_loss import Array, NewtonLoss, Start, at_once
from sklearn_bundle.linear.losses._piecewise import balance_slopes
from sklearn_bundle.linear.losses._sums import LANES

_MEDIAN_TO_UNIT = 3.0  # median absolute residuals of a constant: nearly all residuals are within
SOME_TARGETS = 1000  # are enough to find the unit
_ROUNDED = 1e-12  # of the mean: a sum of all derivatives up to this is added to one of them
_TINY = 2.2250738585072014e-308  # smallest normal number, replaces 0 in x log(x)


# ---- functions of the residual ---------------------------------------------------------------


@jit
def _residual_cut(scores, y, weights, b, center, low, high, half, steepness, square, out):
    """Risk, and the offset of the plane of the derivatives with targets counted from ``center``."""
    risk, offset = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        rows = slice(start, start + LANES)
        f, z, s, slopes = scores[rows], y[rows], weights[rows], out[rows]
        for k in range(len(f)):
            r = b - (z[k] - f[k])
            beyond = max(r - half, 0.0) - max(-r - half, 0.0)
            u = min(max(beyond * steepness, low), high)
            su = s[k] * u
            slopes[k] = su
            steepest = u if square > 0.0 else (high if beyond > 0.0 else low)
            risk[k] += s[k] * steepest * (beyond - 0.5 * square * u)
            offset[k] -= su * (z[k] - center) + half * abs(su) + 0.5 * square * su * u
    return risk.sum(), offset.sum()


@jit
def _residual_slope(scores, direction, y, weights, b, along_b, t, low, high, half, steepness):
    first, second = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        rows = slice(start, start + LANES)
        f, d, z, s = scores[rows], direction[rows], y[rows], weights[rows]
        for k in range(len(f)):
            move = d[k] + along_b
            r = (b - (z[k] - f[k])) + t * move
            u = (max(r - half, 0.0) - max(-r - half, 0.0)) * steepness
            bends = (u > low) & (u < high) & (abs(r) >= half)
            first[k] += s[k] * move * min(max(u, low), high)
            second[k] += s[k] * move * move * bends
    return first.sum(), steepness * second.sum()


@jit
def _residual_curved(scores, y, b, low, high, half, steepness, rows):
    size = 0
    for i in range(scores.shape[0]):
        r = b - (y[i] - scores[i])
        u = (max(r - half, 0.0) - max(-r - half, 0.0)) * steepness
        rows[size] = i
        size += (u > low) & (u < high) & (abs(r) >= half)
    return size


@jit
def _make_balanced(y, weights, derivatives, excess, center, half, square):
    """Make the derivatives, whose sum is ``excess``, sum to zero; returns the offset's change.

    Derivatives of a few rows shrink: a slope times a number in [0, 1] is a slope.
    """
    change = 0.0
    for _ in range(2):
        for i in range(derivatives.shape[0]):
            if excess * derivatives[i] > 0.0:
                g = derivatives[i]
                less = g if abs(g) < abs(excess) else excess
                derivatives[i] = g - less
                excess -= less
                bend = square * less * (g + derivatives[i]) / weights[i]
                change += less * (y[i] - center) + half * abs(less) + 0.5 * bend
            if excess == 0.0:
                break
        excess = derivatives.sum()
    return change


class NewtonResidual(NewtonLoss):
    """A loss of the residual in the form above.

    Parameters
    ----------
    low, high, half : float
    smooth : bool
        Whether square is 1, so that no smoothing is needed.
    """

    def __init__(self, low: float, high: float, half: float = 0.0, *, smooth: bool):
        self._low, self._high, self._half = float(low), float(high), float(half)
        self.smooth, self._square = smooth, float(smooth)
        self.quadratic = smooth and high - low == np.inf and half == 0.0

    def start(self, y, weights, free) -> Start:
        """The median (or another quantile, for other slopes), and the unit from the residuals."""
        some = y[:: -(-len(y) // SOME_TARGETS)]
        width = self._high - self._low
        level = -self._low / width if np.isfinite(width) else 0.5
        b = float(np.quantile(some, level)) if free else 0.0
        unit = _MEDIAN_TO_UNIT * float(np.median(np.abs(some - b)))
        unit = unit or float(weights @ np.abs(y - b)) or 1.0
        return Start(b, unit, min(max(self._high, -self._low), unit if self.smooth else np.inf))

    def suffices(self, y) -> bool:
        return True

    def center(self, y, weights) -> float:
        return float(weights @ y)

    def cut_part(self, scores, y, weights, width, b, center, out) -> tuple[float, ...]:
        args = scores, y, weights, b, center, *self._shape(width), self._square
        return _residual_cut(*args, out)

    def make_balanced(self, scores, y, weights, b, center, out, offset, *further) -> float:
        excess = float(out.sum())
        args = excess, center, self._half, self._square
        return offset + _make_balanced(y, weights, out, *args)

    def slope(self, scores, direction, y, weights, width, b, along_b, t) -> tuple[float, float]:
        args = scores, direction, y, weights, b, along_b, t
        return _residual_slope(*args, *self._shape(width))

    def curved(self, scores, y, width, b, rows) -> int:
        return _residual_curved(scores, y, b, *self._shape(width), rows)

    def curvature(self, scores, y, weights, width, b, rows) -> Array:
        return weights[rows] * self._shape(width)[3]

    def _shape(self, width: float) -> tuple[float, float, float, float]:
        steepness = 1.0 if self.smooth else 1.0 / width
        return self._low, self._high, self._half, steepness


# ---- Poisson ---------------------------------------------------------------------------------


@jit
def _poisson_cut(scores, y, weights, b, center, out):
    """Risk and offset; ``l*(u) = m log(m) - m - y log(y) + y`` at u = m - y with m = exp(f)."""
    risk, offset = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        for k in range(min(LANES, n - start)):
            i = start + k
            z = scores[i] + b
            m = exp(z)
            positive = max(y[i], _TINY)
            log_y = log(positive)
            u, x = m - y[i], z - log_y
            remainder = _poisson.exp_remainder(x, u / positive)
            loss = positive * remainder if _poisson.is_apart(x, log_y) else 0.0
            risk[k] += weights[i] * (loss if y[i] > 0.0 else m)
            conjugate = u * (log_y - center) + (x * u - loss)
            conjugate = conjugate if y[i] > 0.0 else u * (z - center) - u
            offset[k] -= weights[i] * conjugate
            out[i] = weights[i] * u
    return risk.sum(), offset.sum()


class NewtonPoisson(NewtonLoss):
    def start(self, y, weights, free) -> Start:
        mean = float(weights @ y)
        return Start(float(np.log(mean)) if free else 0.0, 1.0, mean)

    def suffices(self, y) -> bool:
        return bool(np.max(y) > 0.0)

    def center(self, y, weights) -> float:
        return float(np.log(weights @ y))

    def cut_part(self, scores, y, weights, width, b, center, out) -> tuple[float, ...]:
        return _poisson_cut(scores, y, weights, b, center, out)

    def make_balanced(self, scores, y, weights, b, center, out, offset, *further) -> float:
        excess = float(out.sum())
        if abs(excess) <= _ROUNDED * float(weights @ y):
            # Added to the row with the largest mean, whose conjugate is linear over so small a
            # change.
            i = int(np.argmax(out + weights * y))
            out[i] -= excess
            return offset + excess * (scores[i] + b - center)
        _poisson.slopes(scores, y, b, out)
        balance_slopes(weights, out)
        return _poisson.plane_from_slopes(y, weights, center, out)

    def slope(self, scores, direction, y, weights, width, b, along_b, t) -> tuple[float, float]:
        return _poisson.slope(scores, direction, y, weights, b, along_b, t)

    def curved(self, scores, y, width, b, rows) -> int:
        rows[:] = np.arange(len(rows))
        return len(rows)

    def curvature(self, scores, y, weights, width, b, rows) -> Array:
        return weights[rows] * np.exp(scores[rows] + b)

    def intercept(
        self, scores, y, weights, width, b, unit, precision, scratch, sums=at_once
    ) -> float:
        """The intercept at which the means have the mean of the targets, in closed form."""
        largest = float(scores.max())
        np.subtract(scores, largest, out=scratch)
        np.exp(scratch, out=scratch)
        return float(np.log((weights @ y) / (weights @ scratch))) - largest
