"""The loss log(cosh(f - y)): the guide on adding losses includes it."""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.jit.decorators import registered
from sklearn_bundle.jit.elementary import exp, log, log1p_unit
from sklearn_bundle.linear._compiled import scores
from sklearn_bundle.losses import RegressionLoss


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


class LogCosh(RegressionLoss):
    smooth = True
    formula = LogCoshFormula()

    def value(self, scores, y):
        size = np.abs(scores - y)
        return size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)

    def gradient(self, scores, y):
        return np.tanh(scores - y)

    def curvature(self, scores, y):
        return 1.0 - np.tanh(scores - y) ** 2
