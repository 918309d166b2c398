"""The loss log(cosh(f - y)): the guide on adding losses includes it."""

from typing import NamedTuple

from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.jit.elementary import exp, log, log1p_unit
from sklearn_bundle.linear._compiled import coordinate, scores
from sklearn_bundle.linear.losses.scores import TargetLoss


class LogCoshFormula(NamedTuple): ...  # stands for the loss in compiled code, with its parameters


@registered(scores.value, LogCoshFormula)
def _value(loss, f, r, y):
    e = exp(-2.0 * abs(r))
    small = log1p_unit(0.25 * (1.0 - e) ** 2 / max(e, 0.2))  # loses no digits
    return 0.5 * small if e > 0.2 else abs(r) - 0.6931471805599453 + log1p_unit(e)


@registered(scores.slope, LogCoshFormula)
def _slope(loss, f, r, y, steepness):
    e = exp(-2.0 * abs(r))
    return (1.0 - e) / (1.0 + e) * (1.0 if r > 0.0 else -1.0)


@registered(scores.curvature, LogCoshFormula)
def _curvature(loss, f, r, y, steepness):
    return 1.0 - scores.slope(loss, f, r, y, steepness) ** 2


@registered(scores.conjugate, LogCoshFormula)
def _conjugate(loss, u, y, center):
    v = min(abs(u), 1.0)
    small = -log1p_unit(v / (1.0 - v)) if v < 0.5 else log(max(1.0 - v, 1e-300))
    return u * (y - center) + 0.5 * ((1.0 + v) * log1p_unit(v) + (1.0 - v) * small)


@registered(scores.height, LogCoshFormula)
def _height(loss, f, r, y, u, center):
    return scores.value(loss, f, r, y) - u * (r + (y - center))


@registered(coordinate.step, LogCoshFormula)
def _step(loss, target, margin, alpha, weight, curvature, high, low):
    r, old, bend = margin - target, -alpha / weight, weight * curvature
    z = r + bend * old  # of the new residual x: x + bend tanh(x) = z
    x, more = max(abs(z) / (1.0 + bend), abs(z) - bend), 1e300  # Newton's steps only rise from x
    while more > 1e-5 * x:
        u = scores.slope(loss, x, x, target, 1.0)
        more = (abs(z) - x - bend * u) / (1.0 + bend * (1.0 - u * u))
        x, u = x + more, u + more * (1.0 - u * u)
    gap = scores.value(loss, margin, r, target) + scores.conjugate(loss, old, target, 0.0)
    return weight * (-u if z > 0.0 else u), 0.0, weight * (gap - old * margin), True


class LogCosh(TargetLoss):
    def formula(self):
        return LogCoshFormula()
