"""Losses of two classes in their form for Newton's method.

The derivative of the smoothed hinge falls from 1 to 0 while the slack ``h = 1 - y f`` falls from
``width`` to 0. Any u in [0, 1] gives a valid cutting plane of the hinge itself, with the offset
``sum_i s_i u_i``.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from scipy.special import expit

from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear.losses._newton_loss import Array, NewtonLoss
from sklearn_bundle.linear.losses._sums import LANES, balance
from sklearn_bundle.linear.losses.hinge import squared_hinge_cut
from sklearn_bundle.linear.losses.logistic import (
    exponential_cut,
    exponential_intercept,
    exponential_slope,
    log_loss_cut,
    log_loss_slope,
)

# Rows per class in a sample: with fewer, its solution is useless as a start.
_FEWEST_OF_A_CLASS = 20


@jit
def _hinge_cut(scores, y, weights, width, b, out):
    """The hinge's risk, and the offset of the plane of the smoothed one's derivatives."""
    risk, offset = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    steepness = 1.0 / width
    for start in range(0, n, LANES):
        rows = slice(start, start + LANES)
        f, z, s, u = scores[rows], y[rows], weights[rows], out[rows]
        for k in range(len(f)):
            slack = z[k] * ((z[k] - f[k]) - b)
            su = s[k] * min(max(slack * steepness, 0.0), 1.0)
            u[k] = -z[k] * su
            offset[k] += su
            risk[k] += s[k] * max(slack, 0.0)
    return risk.sum(), offset.sum()


@jit
def _hinge_slope(scores, direction, y, weights, width, b, along_b, t):
    first, second = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    steepness = 1.0 / width
    for start in range(0, n, LANES):
        rows = slice(start, start + LANES)
        f, d, z, s = scores[rows], direction[rows], y[rows], weights[rows]
        for k in range(len(f)):
            move = d[k] + along_b
            share = z[k] * ((z[k] - f[k]) - b - t * move) * steepness
            first[k] -= s[k] * z[k] * move * min(max(share, 0.0), 1.0)
            second[k] += s[k] * move * move * ((share > 0.0) & (share < 1.0))
    return first.sum(), steepness * second.sum()


@jit
def _hinge_curved(scores, y, width, b, rows):
    size = 0
    for i in range(scores.shape[0]):
        slack = y[i] * ((y[i] - scores[i]) - b)
        rows[size] = i
        size += (slack > 0.0) & (slack < width)
    return size


@jit
def _make_balanced(derivatives, excess):
    """Make the derivatives, whose sum is ``excess``, sum to zero by shrinking a few of them.

    Each remains a share of a hinge's slope.
    """
    for _ in range(2):
        for i in range(derivatives.shape[0]):
            if excess * derivatives[i] > 0.0:
                change = derivatives[i] if abs(derivatives[i]) < abs(excess) else excess
                derivatives[i] -= change
                excess -= change
            if excess == 0.0:
                break
        excess = derivatives.sum()


@jit
def _squared_hinge_slope(scores, direction, y, weights, b, along_b, t):
    first, second = np.zeros(LANES), np.zeros(LANES)
    n = scores.shape[0]
    for start in range(0, n, LANES):
        rows = slice(start, start + LANES)
        f, d, z, s = scores[rows], direction[rows], y[rows], weights[rows]
        for k in range(len(f)):
            move = d[k] + along_b
            slack = z[k] * ((z[k] - f[k]) - b - t * move)
            first[k] -= s[k] * z[k] * move * max(slack, 0.0)
            second[k] += s[k] * move * move * (slack > 0.0)
    return first.sum(), second.sum()


@jit
def _squared_hinge_curved(scores, y, b, rows):
    size = 0
    for i in range(scores.shape[0]):
        rows[size] = i
        size += y[i] * ((y[i] - scores[i]) - b) > 0.0
    return size


class _NewtonBinary(NewtonLoss):
    def suffices(self, y) -> bool:
        positive = np.count_nonzero(y > 0.0)
        return bool(min(positive, len(y) - positive) >= _FEWEST_OF_A_CLASS)


class NewtonHinge(_NewtonBinary):
    smooth = False

    def cut_part(self, scores, y, weights, width, b, center, out) -> tuple[float, ...]:
        return _hinge_cut(scores, y, weights, width, b, out)

    def make_balanced(self, scores, y, weights, b, center, out, offset, *further) -> float:
        excess = float(out.sum())
        _make_balanced(out, excess)
        return offset - abs(excess)

    def slope(self, scores, direction, y, weights, width, b, along_b, t) -> tuple[float, float]:
        return _hinge_slope(scores, direction, y, weights, width, b, along_b, t)

    def curved(self, scores, y, width, b, rows) -> int:
        return _hinge_curved(scores, y, width, b, rows)

    def curvature(self, scores, y, weights, width, b, rows) -> Array:
        return weights[rows] / width


class _SmoothBinary(_NewtonBinary):
    """A loss that is smooth without smoothing."""

    _cut_kernel: ClassVar[Callable]

    def cut_part(self, scores, y, weights, width, b, center, out) -> tuple[float, ...]:
        return self._cut_kernel(scores, y, weights, b, out)

    def make_balanced(self, scores, y, weights, b, center, out, offset, *further) -> float:
        (signed,) = further
        return balance(y, out, offset, signed)


class NewtonSquaredHinge(_SmoothBinary):
    _cut_kernel = staticmethod(squared_hinge_cut)

    def slope(self, scores, direction, y, weights, width, b, along_b, t) -> tuple[float, float]:
        return _squared_hinge_slope(scores, direction, y, weights, b, along_b, t)

    def curved(self, scores, y, width, b, rows) -> int:
        return _squared_hinge_curved(scores, y, b, rows)

    def curvature(self, scores, y, weights, width, b, rows) -> Array:
        return weights[rows]


class NewtonLogLoss(_SmoothBinary):
    _cut_kernel = staticmethod(log_loss_cut)

    def slope(self, scores, direction, y, weights, width, b, along_b, t) -> tuple[float, float]:
        return log_loss_slope(scores, direction, y, weights, b, along_b, t)

    def curved(self, scores, y, width, b, rows) -> int:
        rows[:] = np.arange(len(rows))
        return len(rows)

    def curvature(self, scores, y, weights, width, b, rows) -> Array:
        p = expit(scores[rows] + b)
        return weights[rows] * p * (1.0 - p)


class NewtonExponential(_SmoothBinary):
    _cut_kernel = staticmethod(exponential_cut)

    def slope(self, scores, direction, y, weights, width, b, along_b, t) -> tuple[float, float]:
        return exponential_slope(scores, direction, y, weights, b, along_b, t)

    def curved(self, scores, y, width, b, rows) -> int:
        rows[:] = np.arange(len(rows))
        return len(rows)

    def curvature(self, scores, y, weights, width, b, rows) -> Array:
        return weights[rows] * np.exp(-y[rows] * (scores[rows] + b))

    def intercept(self, scores, y, weights, *further, **sums) -> float:
        """The intercept that gives both classes the same loss, in closed form."""
        return exponential_intercept(scores, y, weights)
