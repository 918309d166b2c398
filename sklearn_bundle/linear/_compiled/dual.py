"""Steps of dual coordinate ascent: what a formula registers for one row.

The dual of ``reg_lambda/2 ||w||^2 + sum_i s_i l(f_i)`` in alpha, one number per row, with
``w = X'(y alpha) / reg_lambda``; y_i is the direction of the row, for labels the label, so that
alpha_i is minus y_i s_i times a slope of the loss. A step maximizes the dual over one alpha_i.
"""

from typing import Any

from sklearn_bundle.jit.decorators import fallback, inner
from sklearn_bundle.linear._compiled.scores import conjugate


@fallback
def direction(loss, target) -> Any:
    """The y_i of a row with this target."""
    return 1.0


def step(loss, target, margin, alpha, weight, curvature, high, low) -> Any:
    """The best alpha_i for ``margin = y_i f_i`` before the step, with what the step computes.

    ``curvature`` is that of the quadratic term in alpha_i. A row does not count if alpha_i is at a
    bound and its gradient points far enough outwards: its square over the curvature is above
    ``high`` at the lower bound, or above ``low`` at the upper one.

    Returns the new alpha_i, the projected gradient, the row's part of the duality gap before the
    step, and whether the row counts.
    """
    raise NotImplementedError  # its place is taken by what a loss registers


@inner
def gain(loss, target, margin, alpha, new, weight, curvature):
    """By how much the dual rises from alpha to new."""
    change, toward = new - alpha, direction(loss, target) / weight
    before = conjugate(loss, -toward * alpha, target, 0.0)
    after = conjugate(loss, -toward * new, target, 0.0)
    return weight * (before - after) - change * (margin + 0.5 * curvature * change)


@inner
def projected(left, right, alpha, least, most, curvature, high, low):
    """The projected gradient in [least, most], and whether the row counts.

    ``left`` and ``right`` are minus the derivatives of the dual on both sides of alpha. A row of
    zeros counts, but says nothing about the others.
    """
    if curvature == 0.0:
        return 0.0, True
    upward = right > 0.0 and right * right > high * curvature
    downward = left < 0.0 and left * left > low * curvature
    if alpha == least:
        return min(right, 0.0), not upward
    if alpha == most:
        return max(left, 0.0), not downward
    return min(right, 0.0) + max(left, 0.0), not (left < right and upward and downward)


@inner
def maximizer(ascent, bend, alpha, least, most):
    """Where ``ascent a - bend a^2/2`` is largest in [least, most]; alpha if that is everywhere."""
    if bend > 0.0:
        return min(max(ascent / bend, least), most)
    if ascent == 0.0:
        return alpha
    return most if ascent > 0.0 else least  # a row of zeros
