"""Losses for dual coordinate ascent: those of labels -1 and 1, and the table of all.

The types that stand for losses must stay in this module: numba's disk cache refers to it by name,
and cannot be read if the types are not found there.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.jit.vector import muladd
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear.losses._dual_loss import Array, DualLoss, scale_heavier_down
from sklearn_bundle.linear.losses._dual_targets import DualTargets
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.hinge import Hinge, SquaredHinge
from sklearn_bundle.linear.losses.logistic import LogLoss
from sklearn_bundle.linear.losses.quantile import AbsoluteError, EpsilonInsensitive, Quantile
from sklearn_bundle.linear.losses.regression import Huber
from sklearn_bundle.linear.losses.tube import SquaredEpsilonInsensitive

_NEWTON_STEPS = 50  # per alpha: usually four or five; at least halving the interval if they fail
_SETTLED = 1e-12  # relative: a Newton step this short leaves an error of its square


class HingeSteps(NamedTuple):
    """The type that stands for the hinge in compiled epochs."""


class SquaredHingeSteps(NamedTuple):
    """The type that stands for the squared hinge in compiled epochs."""


class LogLossSteps(NamedTuple):
    """The type that stands for the logistic loss in compiled epochs."""


@registered(coordinate.direction, HingeSteps)
@registered(coordinate.direction, SquaredHingeSteps)
@registered(coordinate.direction, LogLossSteps)
def _label(loss, target):
    return target


@inner
def _box_step(gradient, bend, top, alpha, curvature, high, low):
    """The best alpha in [0, top], the projected gradient, and whether the row counts.

    ``gradient`` is minus that of the dual, ``bend`` the curvature of the loss term in it. The
    limits are relative to the row's length, since a change of w moves the scores of long rows more.
    """
    projected = gradient
    if alpha == 0.0:
        if gradient > 0.0 and gradient * gradient > high * curvature:
            return alpha, 0.0, False
        projected = min(gradient, 0.0)
    elif alpha == top:
        if gradient < 0.0 and gradient * gradient > low * curvature:
            return alpha, 0.0, False
        projected = max(gradient, 0.0)
    bend += curvature
    if bend > 0.0:
        return min(max(alpha - gradient / bend, 0.0), top), projected, True
    return top if gradient < 0.0 else alpha, 0.0, True  # a row of zeros


@registered(coordinate.step, HingeSteps)
def _hinge_step(loss, target, margin, alpha, weight, curvature, high, low):
    slack = 1.0 - margin
    # Explicit fma: LLVM could round either product, and the gap decides what is averaged.
    gap = muladd(-alpha, slack, weight * max(slack, 0.0))
    new, projected, counts = _box_step(-slack, 0.0, weight, alpha, curvature, high, low)
    return new, projected, gap, counts


@registered(coordinate.gain, HingeSteps)
def _hinge_gain(loss, target, margin, alpha, new, weight, curvature):
    change = new - alpha
    return change * ((1.0 - margin) - 0.5 * curvature * change), 0.0


@registered(coordinate.step, SquaredHingeSteps)
def _squared_hinge_step(loss, target, margin, alpha, weight, curvature, high, low):
    slack = 1.0 - margin
    excess = max(slack, 0.0)
    bend = 1.0 / weight
    # Explicit fma, since products used in two sums are not fused automatically.
    squares = muladd(bend * alpha, alpha, weight * excess * excess)
    gap = muladd(-alpha, slack, 0.5 * squares)
    gradient = muladd(bend, alpha, -slack)
    new, projected, counts = _box_step(gradient, bend, np.inf, alpha, curvature, high, low)
    return new, projected, gap, counts


@registered(coordinate.gain, SquaredHingeSteps)
def _squared_hinge_gain(loss, target, margin, alpha, new, weight, curvature):
    change = new - alpha
    both = curvature * change + (new + alpha) / weight
    return change * ((1.0 - margin) - 0.5 * both), 0.0


@inner
def _entropy(p):
    """``-p log p - (1 - p) log(1 - p)``."""
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log1p(-p)


@registered(coordinate.step, LogLossSteps)
def _log_loss_step(loss, target, margin, alpha, weight, curvature, high, low):
    """Zero of ``margin + weight curvature (p - p_0) + t``, ``p = 1/(1 + exp(-t))``.

    The function rises in t with a slope of at least 1, so Newton steps between two bounds converge.
    """
    old = alpha / weight
    bend = weight * curvature
    low, high = -margin - bend * (1.0 - old), -margin + bend * old
    t = min(max(-margin, low), high)
    if 0.0 < old < 1.0:
        t = min(max(math.log(old) - math.log1p(-old), low), high)
    p = old
    for _ in range(_NEWTON_STEPS):
        e = math.exp(-abs(t))
        p = 1.0 / (1.0 + e) if t > 0.0 else e / (1.0 + e)
        value = margin + bend * (p - old) + t
        if value > 0.0:
            high = t
        else:
            low = t
        step = value / (1.0 + bend * e / ((1.0 + e) * (1.0 + e)))
        if abs(step) <= _SETTLED * (1.0 + abs(t)):
            break
        t -= step
        if not low < t < high:
            t = 0.5 * (low + high)
    loss_here = math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)
    return weight * p, 0.0, weight * (loss_here - _entropy(old) + old * margin), True


@registered(coordinate.gain, LogLossSteps)
def _log_loss_gain(loss, target, margin, alpha, new, weight, curvature):
    change = new - alpha
    rise = weight * (_entropy(new / weight) - _entropy(alpha / weight))
    return rise, change * (margin + 0.5 * curvature * change)


class _DualLabels(DualLoss):
    """A loss whose direction is the label and whose alpha is not negative."""

    def slope(self, alpha, target) -> float:
        return float(alpha.sum())

    def direction(self, target) -> Array:
        return target

    def balance(self, alpha, target) -> None:
        """Scale the heavier class down."""
        scale_heavier_down(alpha, target > 0.0)


class DualHinge(_DualLabels):
    steps = HingeSteps()

    def bounds(self, weights) -> tuple[Array | float, Array | float]:
        return 0.0, weights

    def offset(self, alpha, target, weights, center) -> float:
        return float(np.sum(alpha))


class DualSquaredHinge(_DualLabels):
    steps = SquaredHingeSteps()

    def bounds(self, weights) -> tuple[Array | float, Array | float]:
        return 0.0, np.inf

    def offset(self, alpha, target, weights, center) -> float:
        conjugate = 0.5 * alpha
        conjugate *= alpha
        conjugate /= weights
        return float(np.sum(np.subtract(alpha, conjugate, out=conjugate)))


class DualLogLoss(_DualLabels):
    steps = LogLossSteps()
    at_bounds = False
    multiplications = 400.0  # about 15 logarithms and exponentials: 170 ns

    def bounds(self, weights) -> tuple[Array | float, Array | float]:
        return 0.0, weights

    def offset(self, alpha, target, weights, center) -> float:
        p = alpha / weights
        rest = 1.0 - p
        entropy = entr(p, out=p)
        entropy += entr(rest, out=rest)
        entropy *= weights
        return float(np.sum(entropy))


# Exact class only: a subclass may have another conjugate.
_KINDS: dict[type[Loss], Callable[[Any], DualLoss]] = {
    Hinge: lambda loss: DualHinge(),
    SquaredHinge: lambda loss: DualSquaredHinge(),
    LogLoss: lambda loss: DualLogLoss(),
    AbsoluteError: lambda loss: DualTargets(-1.0, 1.0),
    Quantile: lambda loss: DualTargets(-float(loss.quantile), 1.0 - float(loss.quantile)),
    EpsilonInsensitive: lambda loss: DualTargets(-1.0, 1.0, half=float(loss.epsilon)),
    SquaredEpsilonInsensitive: lambda loss: DualTargets(half=float(loss.epsilon), bend=1.0),
    Huber: lambda loss: DualTargets(-float(loss.delta), float(loss.delta), bend=1.0),
}


def dual_loss(loss: Loss) -> DualLoss | None:
    """The form of the loss for dual coordinate ascent; None if it has no steps."""
    kind = _KINDS.get(type(loss))
    return None if kind is None else kind(loss)
