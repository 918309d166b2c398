"""Losses of a residual for dual coordinate ascent: piecewise linear, or quadratic and linear.

They are ``l(f - y) = max over u in [low, high] of u (f - y) - half |u| - bend u^2 / 2``, and
alpha_i is ``-s_i u_i`` (Ho and Lin, JMLR 13, 2012, call it beta).
"""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear.losses._dual_loss import Array, DualLoss, scale_heavier_down


class TargetSteps(NamedTuple):
    """A loss of a residual in compiled epochs: its slopes, half its tube, its bend."""

    low: float
    high: float
    half: float
    bend: float


@registered(coordinate.direction, TargetSteps)
def _one(loss, target):
    return 1.0


@inner
def _shrunk(x, half):
    """x moved towards 0 by ``half``."""
    return max(x - half, 0.0) + min(x + half, 0.0)


@registered(coordinate.step, TargetSteps)
def _target_step(loss, target, margin, alpha, weight, curvature, high, low):
    """Minimum of ``curvature a^2/2 - (residual + curvature alpha) a + half |a| + ...`` in a box."""
    residual = target - margin
    least, most = -weight * loss.high, -weight * loss.low
    half, bend = loss.half, loss.bend / weight
    excess = _shrunk(-residual, half)
    if loss.bend > 0.0:
        u = min(max(excess, loss.low), loss.high)
    elif excess != 0.0:
        u = loss.high if excess > 0.0 else loss.low
    else:
        u = 0.0
    value = weight * u * (excess - 0.5 * loss.bend * u)
    gap = value - alpha * residual + abs(alpha) * half + 0.5 * bend * alpha * alpha

    # Minus the one-sided derivatives of the dual in alpha.
    gradient = bend * alpha - residual
    right = gradient + (half if alpha >= 0.0 else -half)
    left = gradient + (half if alpha > 0.0 else -half)
    projected = min(right, 0.0) + max(left, 0.0)
    if alpha == least:
        projected = min(right, 0.0)
        counts = not (right > 0.0 and right * right > high * curvature)
    elif alpha == most:
        projected = max(left, 0.0)
        counts = not (left < 0.0 and left * left > low * curvature)
    elif alpha == 0.0 and half > 0.0:
        counts = not (
            right > 0.0
            and left < 0.0
            and right * right > high * curvature
            and left * left > low * curvature
        )
    else:
        counts = True
    if not counts:
        return alpha, 0.0, gap, False
    best, bend = _shrunk(curvature * alpha + residual, half), bend + curvature
    if bend > 0.0:
        return min(max(best / bend, least), most), projected, gap, True
    if best != 0.0:  # a row of zeros
        return most if best > 0.0 else least, 0.0, gap, True
    return 0.0, 0.0, gap, True


@registered(coordinate.gain, TargetSteps)
def _target_gain(loss, target, margin, alpha, new, weight, curvature):
    change = new - alpha
    rise = change * (target - margin - 0.5 * curvature * change)
    fall = loss.half * (abs(new) - abs(alpha))
    fall += 0.5 * loss.bend / weight * change * (new + alpha)
    return rise, fall


class DualTargets(DualLoss):
    """A loss of a residual, with slopes from low <= 0 to high >= 0."""

    steps: TargetSteps
    far_targets = True

    def __init__(
        self, low: float = -np.inf, high: float = np.inf, *, half: float = 0.0, bend: float = 0.0
    ):
        self.steps = TargetSteps(low, high, half, bend)

    @property
    def at_bounds(self) -> bool:
        return self.steps.half > 0.0 or np.isfinite(self.steps.high)

    def bounds(self, weights) -> tuple[Array | float, Array | float]:
        return -weights * self.steps.high, -weights * self.steps.low

    def offset(self, alpha, target, weights, center) -> float:
        terms = alpha * (target - center) - self.steps.half * np.abs(alpha)
        return float(np.sum(terms - 0.5 * self.steps.bend * alpha * alpha / weights))

    def slope(self, alpha, target) -> float:
        return max(float(np.sum(alpha * target - self.steps.half * np.abs(alpha))), 0.0)

    def direction(self, target) -> Array:
        return np.broadcast_to(1.0, len(target))

    def balance(self, alpha, target) -> None:
        """Scale the heavier sign down: 0 is a derivative of each of these losses."""
        scale_heavier_down(alpha, alpha > 0.0)
