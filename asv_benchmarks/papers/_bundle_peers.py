"""Two older bundle methods beside BMRM: proximal (Kiwiel) and bundle trust (Schramm and Zowe).

Both minimize ``J(w) = reg_lambda/2 ||w||^2 + R(w)`` as a nonsmooth function that they know nothing
about, as in section 5.2 of Teo et al.: the regularizer is inside of their planes, and each step
minimizes the model with ``u/2 ||w - center||^2`` added, (5) there. For the right u that is (6), the
model within a ball: bundle trust finds u by raising and lowering the limit on the step. An
evaluation of J and a subgradient, which BMRM's iterations cost as well, is an iteration.

Sources: K. C. Kiwiel, Proximity control in bundle methods for convex nondifferentiable
minimization, Mathematical Programming 46, 1990; H. Schramm and J. Zowe, A version of the bundle
idea for minimizing a nonsmooth function, SIAM Journal on Optimization 2, 1992.

What is ours: u starts at ``||g||^2 / J`` for the first subgradient g, which makes the first plane
alone lead to an objective of 0; all planes are kept, also those of trial points that bundle trust
rejects; and bundle trust takes 10 times the step while no step has been too long.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _watch import Curve

from sklearn_bundle.linear.solvers import master
from sklearn_bundle.regularizers import L2

Array = np.ndarray

_DESCENT = 0.1  # share of the predicted decrease that makes a step serious: Kiwiel's m_L, and m_1
_GOOD = 0.5  # the same of a step after which Kiwiel's u may fall: m_R
_LEAST_WEIGHT = 1e-10  # of Kiwiel's u, times the first
_MOST_CHANGE = 10.0  # factor on Kiwiel's u in an iteration
_RUN = 3  # serious or null steps in a row after which Kiwiel's u may change
_SLOPE = 0.2  # of the predicted decrease: where J still falls as steeply, a step is too short: m_2
_NEAR = 0.9  # times the last linearization error, which makes a plane near enough: m_3
_LONGEST = 1e6  # times the first 1/u: Schramm and Zowe's T
_AT_LONGEST = 1.0 - 1e-3  # share of T from which on no longer step is asked for
_LONGER = 10.0  # factor on 1/u where no step has been too long yet
_QP_SHARE = 0.1  # of the last predicted decrease, to which the inner problem is solved: as BMRM's
_EXACT = 1e-13  # of J: a gap of the inner problem where the first one brings nothing
_ROUNDING = 1e-14  # of J: a predicted decrease that rounding hides


class Trial(NamedTuple):
    """A point that the model has led to, and what J is there."""

    w: Array
    value: float
    gradient: Array
    predicted: float  # decrease of the model from the center, negative
    error: float  # of the new plane at the center
    slope: float  # of J at w, along the step
    aggregate: tuple[float, float]  # norm of the aggregate subgradient, and its error


Risk = Callable[[Array], tuple[float, Array]]  # the mean loss at w, and a subgradient


class _CenteredBundle(ABC):
    """Planes of J and a center; ``_judge`` of a method moves the center and the weight u."""

    def __init__(self, risk: Risk, dimension: int, reg_lambda: float):
        self._risk, self._lambda = risk, reg_lambda
        self.best = np.inf
        self._center = np.zeros(dimension)
        self._value, gradient = self._evaluate(self._center)
        self._planes, self._heights = np.empty((0, dimension)), np.empty(0)
        self._gram, self._alpha = np.empty((0, 0)), np.empty(0)
        self._add(self._center, self._value, gradient)
        self._weight = self._first_weight = float(gradient @ gradient) / self._value
        self._first_norm = float(np.linalg.norm(gradient))
        self._predicted = 0.0

    def step(self) -> bool:
        """Evaluate J once; false where the model promises nothing any more."""
        trial = self._try()
        if trial is None:
            return False
        if self._judge(trial):
            self._center, self._value = trial.w, trial.value
        self._add(trial.w, trial.value, trial.gradient)
        return True

    @abstractmethod
    def _judge(self, trial: Trial) -> bool:
        """Whether the step is serious; the next weight."""

    def _try(self) -> Trial | None:
        # Planes by their values at the center, less that of J there.
        offsets = self._planes @ self._center + self._heights - self._value
        none = np.empty((len(offsets), 0))
        for tolerance in (-_QP_SHARE * self._predicted, _EXACT * self._value):
            given = L2(), self._weight, self._gram, self._alpha, tolerance
            self._alpha = master.solve(self._planes, offsets, none, *given).alpha
            aggregate, height = self._alpha @ self._planes, float(self._alpha @ offsets)
            squared = float(aggregate @ aggregate)
            self._predicted = height - squared / self._weight
            if self._predicted < -_ROUNDING * self._value:
                break
        else:
            return None
        step = aggregate / -self._weight
        w = self._center + step
        value, gradient = self._evaluate(w)
        slope = float(gradient @ step)
        error = self._value - value + slope
        found = squared**0.5, -height
        return Trial(w, value, gradient, self._predicted, error, slope, found)

    def _evaluate(self, w: Array) -> tuple[float, Array]:
        """J and a subgradient."""
        risk, gradient = self._risk(w)
        value = risk + 0.5 * self._lambda * float(w @ w)
        self.best = min(self.best, value)
        return value, gradient + self._lambda * w

    def _add(self, w: Array, value: float, gradient: Array) -> None:
        self._planes = np.vstack([self._planes, gradient])
        self._heights = np.append(self._heights, value - float(gradient @ w))
        self._alpha = np.append(self._alpha, float(not len(self._alpha)))
        products = self._planes @ gradient
        self._gram = np.block([[self._gram, products[:-1, None]], [products]])


class ProximalBundle(_CenteredBundle):
    """Algorithm 1 of Teo et al. with a step of 1, and u by Kiwiel's procedure 2.2."""

    name = "proximal"

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._since = 0  # steps of one kind since u changed: serious ones, or minus null ones
        self._variation = np.inf  # Kiwiel's estimate of how much J varies around the center

    def _judge(self, trial: Trial) -> bool:
        gained, predicted = trial.value - self._value, trial.predicted
        weight = self._weight
        interpolated = 2.0 * weight * (1.0 - gained / predicted)
        serious = gained <= _DESCENT * predicted
        if serious:
            if self._since > 0 and gained <= _GOOD * predicted:
                weight = interpolated
            elif self._since > _RUN:
                weight *= 0.5
            least = _LEAST_WEIGHT * self._first_weight
            weight = max(weight, self._weight / _MOST_CHANGE, least)
            self._variation = max(self._variation, -2.0 * predicted)
            self._since = max(self._since + 1, 1)
        else:
            self._variation = min(self._variation, sum(trial.aggregate))
            far = trial.error > max(self._variation, -10.0 * predicted)
            if far and self._since < -_RUN:
                weight = min(interpolated, _MOST_CHANGE * weight)
            self._since = min(self._since - 1, -1)
        if weight != self._weight:
            self._since = 1 if serious else -1
        self._weight = weight
        return serious


class BundleTrust(_CenteredBundle):
    """BT: 1/u is raised and lowered until a step is serious, or a null step of use."""

    name = "BT"

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._last = self._first_norm, 0.0  # the aggregate of the last step
        self._longest = _LONGEST / self._first_weight
        self._short, self._long = 0.0, self._longest

    def _judge(self, trial: Trial) -> bool:
        gained, predicted, length = trial.value - self._value, trial.predicted, 1.0 / self._weight
        norm, error = self._last
        decreases = gained < _DESCENT * predicted
        if decreases:
            done = trial.slope >= _SLOPE * predicted or length >= _AT_LONGEST * self._longest
        else:
            done = trial.error <= _NEAR * error or abs(gained) <= norm + error
        if done:
            self._last = trial.aggregate
            self._short, self._long = 0.0, self._longest
            return decreases
        if decreases:
            self._short = length
        else:
            self._long = length
        middle = 0.5 * (self._short + self._long)
        if self._long == self._longest:
            middle = min(middle, _LONGER * length)
        self._weight = 1.0 / middle
        return False


METHODS = {kind.name: kind for kind in (BundleTrust, ProximalBundle)}


def follow(
    solver: str,
    X: Any,
    y: Array,
    reg_lambda: float,
    enough: Callable[[Curve], bool],
    *,
    loss: str = "hinge",
    max_iter: int,
    max_seconds: float,
) -> Curve:
    """The best objectives by a solver of METHODS until it is enough, or a limit."""
    curve, start = Curve(), process_time()
    bundle = METHODS[solver](*_RISKS[loss](X, y), reg_lambda)
    curve.ended = "max_iter"
    while len(curve.seconds) < max_iter:
        if not bundle.step():
            curve.ended = "stalled"
            break
        curve.add(process_time() - start, bundle.best, 0.0)
        if enough(curve) or curve.seconds[-1] >= max_seconds:
            curve.ended = "enough" if enough(curve) else "time"
            break
    return curve


def _hinge(X: Any, y: Array) -> tuple[Risk, int]:
    """Labels of -1 and +1."""
    signs, transpose = np.where(y == y.max(), 1.0, -1.0), X.T.tocsr() if sp.issparse(X) else X.T

    def risk(w: Array) -> tuple[float, Array]:
        slack = 1.0 - signs * (X @ w)
        inside = np.where(slack > 0.0, signs, 0.0)
        return float(np.maximum(slack, 0.0).mean()), transpose @ inside / -len(y)

    return risk, X.shape[1]


def _multiclass_hinge(X: Any, y: Array) -> tuple[Risk, int]:
    """``max_c [c != y] + f_c - f_y``, with a column of weights for each class."""
    classes, labels = np.unique(y, return_inverse=True)
    n, K, rows = len(y), len(classes), np.arange(len(y))
    transpose = X.T.tocsr() if sp.issparse(X) else X.T

    def risk(w: Array) -> tuple[float, Array]:
        scores = np.asarray(X @ w.reshape(-1, K))
        margins = scores - scores[rows, labels][:, None] + 1.0
        margins[rows, labels] = 0.0
        worst = margins.argmax(axis=1)
        g = np.zeros((n, K))
        g[rows, worst] += 1.0 / n
        g[rows, labels] -= 1.0 / n
        return float(margins[rows, worst].mean()), np.asarray(transpose @ g).ravel()

    return risk, X.shape[1] * K


_RISKS = {"hinge": _hinge, "multiclass_hinge": _multiclass_hinge}
