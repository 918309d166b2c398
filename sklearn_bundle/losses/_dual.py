"""How dual coordinate ascent sees a loss: its steps in alpha, their bounds, the planes they make.

alpha_i is minus the derivative of the weighted loss of row i, in the direction y_i of that row:
``s_i l(f_i) = max over alpha_i of -y_i alpha_i f_i - s_i l*(-y_i alpha_i / s_i)``. Any feasible
alpha makes a cutting plane of the risk, with the derivatives ``-y alpha`` and an offset. The
compiled functions are declared, and their arguments explained, in
:mod:`sklearn_bundle._compiled.coordinate`.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from sklearn_bundle._compiled import coordinate
from sklearn_bundle._jit import inner, registered
from sklearn_bundle.losses.base import Loss
from sklearn_bundle.losses.hinge import Hinge, SquaredHinge
from sklearn_bundle.losses.logistic import LogLoss

Array = NDArray[np.float64]

_NEWTON_STEPS = 50  # of one alpha: four or five as a rule, each halving at least where they fail
_SETTLED = 1e-12  # relative: a Newton step that is this short leaves an error of its square


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
    """The best alpha in [0, top], the projected gradient, whether the row counts.

    ``gradient`` is minus that of the dual, ``bend`` the curvature of the loss's part of it. The
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
    # Fused by name: LLVM may round either of two products, and the gap decides what is averaged.
    gap = coordinate.muladd(-alpha, slack, weight * max(slack, 0.0))
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
    # Fused by name, since products that stand in two sums are not fused by themselves.
    squares = coordinate.muladd(bend * alpha, alpha, weight * excess * excess)
    gap = coordinate.muladd(-alpha, slack, 0.5 * squares)
    gradient = coordinate.muladd(bend, alpha, -slack)
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

    It rises in t with a slope of 1 and more: Newton steps between two bounds find it.
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


class DualLoss(ABC):
    """The contract, with what losses of labels -1 and 1 share, whose direction is the label."""

    #: Of the type for which the loss registers its compiled functions.
    steps: ClassVar[tuple]
    #: Whether the best alpha_i may lie at a bound: such rows are left out of epochs.
    at_bounds: ClassVar[bool] = True

    @abstractmethod
    def bounds(self, weights: Array) -> tuple[Array | float, Array | float]:
        """The least and the largest alpha."""

    @abstractmethod
    def offset(self, alpha: Array, target: Array, weights: Array) -> float:
        """Of the plane that alpha makes: the dual without its quadratic term."""

    def slope(self, alpha: Array, target: Array) -> float:
        """Derivative in t of the offset that ``t alpha`` makes, at t = 0; asked if `at_bounds`."""
        return float(alpha.sum())

    def direction(self, target: Array) -> Array:
        """The y_i."""
        return target

    def balanced(self, alpha: Array, target: Array) -> Array:
        """A feasible alpha with ``y'alpha = 0`` near this one: the heavier class scaled down."""
        positive = target > 0.0
        of_positive = float(alpha[positive].sum())
        of_negative = float(alpha[~positive].sum())
        larger = max(of_positive, of_negative)
        if larger == 0.0:
            return alpha
        share = min(of_positive, of_negative) / larger
        return alpha * np.where(positive == (of_positive > of_negative), share, 1.0)


class DualHinge(DualLoss):
    steps = HingeSteps()

    def bounds(self, weights):
        return 0.0, weights

    def offset(self, alpha, target, weights):
        return float(np.sum(alpha))


class DualSquaredHinge(DualLoss):
    steps = SquaredHingeSteps()

    def bounds(self, weights):
        return 0.0, np.inf

    def offset(self, alpha, target, weights):
        return float(np.sum(alpha - 0.5 * alpha * alpha / weights))


class DualLogLoss(DualLoss):
    steps = LogLossSteps()
    at_bounds = False

    def bounds(self, weights):
        return 0.0, weights

    def offset(self, alpha, target, weights):
        p = alpha / weights
        return float(np.sum(weights * (entr(p) + entr(1.0 - p))))


_KINDS = {Hinge: DualHinge, SquaredHinge: DualSquaredHinge, LogLoss: DualLogLoss}


def dual_loss(loss: Loss) -> DualLoss | None:
    """The loss as dual coordinate ascent sees it, None for one that has no steps."""
    kind = _KINDS.get(type(loss))
    return None if kind is None else kind()
