"""Two older bundle methods beside BMRM: proximal (Kiwiel) and bundle trust (Schramm and Zowe).

Both minimize ``J(w) = reg_lambda/2 ||w||^2 + R(w)`` as a nonsmooth function that they know nothing
about, as in section 5.2 of Teo et al.: the regularizer is inside of their planes, and each step
minimizes the model with ``u/2 ||w - center||^2`` added, (5) there. For the right u that is (6), the
model within a ball: bundle trust finds u by raising and lowering the limit on the step. An
evaluation of J and a subgradient, which BMRM's iterations cost as well, makes a state.

Sources: K. C. Kiwiel, Proximity control in bundle methods for convex nondifferentiable
minimization, Mathematical Programming 46, 1990; H. Schramm and J. Zowe, A version of the bundle
idea for minimizing a nonsmooth function, SIAM Journal on Optimization 2, 1992.

What is ours: u starts at ``||g||^2 / J`` for the first subgradient g, which makes the first plane
alone lead to an objective of 0; all planes are kept, also those of trial points that bundle trust
rejects; and bundle trust takes 10 times the step while no step has been too long.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import State
from sklearn_bundle.linear.solvers.inner.planes import Bundle

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


class _CenteredBundle(ABC):
    """Planes of J and a center; ``_judge`` of a method moves the center and the weight u.

    Parameters
    ----------
    problem : CuttingPlanes
    reg_lambda : float
    """

    def __init__(self, problem: Any, reg_lambda: float):
        self._problem, self._lambda = problem, reg_lambda
        self._best = Best(least=0.0)
        self._passes = 0
        center = np.zeros(problem.dimension)
        value, gradient = self._evaluate(center)
        self._bundle, self._heights = Bundle(problem.dimension), []
        self._center, self._value = center, value
        self._add(center, value, gradient)
        self._weight = self._first_weight = float(gradient @ gradient) / value
        self._first_norm = float(np.linalg.norm(gradient))
        self._predicted = 0.0

    def states(self) -> Iterator[State]:
        """One state per evaluation of J; ends where the model promises nothing any more."""
        while True:
            trial = self._try()
            if trial is None:
                return
            serious = self._judge(trial)
            if serious:
                self._center, self._value = trial.w, trial.value
            self._add(trial.w, trial.value, trial.gradient)
            if serious:
                planes, heights = self._bundle.planes, np.array(self._heights)
                self._bundle.offsets[:] = planes @ self._center + heights - self._value
            yield self._state()

    def confirm(self, *, moving: bool = True) -> State:
        """J at the best point once more."""
        point = self._best.point
        value, _ = self._evaluate(point)
        self._best.recompute(value, point, 0.0)
        return self._state()

    def kept(self, point: Any) -> None:
        """A next fit starts from nothing."""
        return

    def detach(self) -> None:
        """Let go of the problem."""
        self._problem = None

    @abstractmethod
    def _judge(self, trial: Trial) -> bool:
        """Whether the step is serious; the next weight."""

    def _try(self) -> Trial | None:
        for tolerance in (-_QP_SHARE * self._predicted, 0.0):
            alpha = self._bundle.alpha
            alpha[:] = self._bundle.maximize(alpha, self._bundle.omega, self._weight, tolerance)
            aggregate, height = self._bundle.aggregate(alpha)
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
        risk, gradient = self._problem.evaluate(w)
        self._passes += 1
        value = risk + 0.5 * self._lambda * float(w @ w)
        self._best.offer(value, w)
        return value, gradient + self._lambda * w

    def _add(self, w: Array, value: float, gradient: Array) -> None:
        """A plane, as the bundle has it: by its value at the center, less that of J there."""
        self._heights.append(value - float(gradient @ w))
        at_center = float(gradient @ self._center) + self._heights[-1] - self._value
        self._bundle.add(gradient, at_center)

    def _state(self) -> State:
        return self._best.state(self._best.point, 0.0, self._passes)


class ProximalBundle(_CenteredBundle):
    """Algorithm 1 of Teo et al. with a step of 1, and u by Kiwiel's procedure 2.2."""

    name = "proximal"

    def __init__(self, problem: Any, reg_lambda: float):
        super().__init__(problem, reg_lambda)
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

    def __init__(self, problem: Any, reg_lambda: float):
        super().__init__(problem, reg_lambda)
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


class PeerClassifier(BMRMClassifier):
    """BMRMClassifier whose ``solver`` may be one of METHODS: for L2, without intercept."""

    _parameter_constraints: ClassVar[dict] = {
        **BMRMClassifier._parameter_constraints,
        "solver": [*BMRMClassifier._parameter_constraints["solver"], StrOptions(set(METHODS))],
    }

    def _solver(self, problem: Any, kept: Any, seed: None) -> Any:
        kind = METHODS.get(self.solver)
        if kind is None:
            return super()._solver(problem, kept, seed)
        return kind(problem, self.reg_lambda)
