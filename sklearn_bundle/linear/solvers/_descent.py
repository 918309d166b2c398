"""Newton's method on the smoothed risk of a linear model: directions, damping, width, and steps."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.limits import NEWTON_SLOPE_LEFT, RIDGES, SEARCH_STEPS
from sklearn_bundle.linear.problems.score_risk import RANK, Line, ScoreRisk

Array = NDArray[np.float64]

_WHOLE, _SHORT = 0.7, 0.3  # steps after which the damping is changed
_SHRINKS = 0.5  # least step after which the width may shrink,
_UNDAMPED = 0.3  # if the damping's share of the quadratic model is below this,
# and the decrement is no more than what the smoothing hides, times the first of these; it shrinks
# to the second as long as that leaves steps of the length in the third, and by less from then on.
_FAST, _SLOW = (10.0, 0.4, 0.05), (1.0, 0.6, 0.0)
_BELOW = 0.95  # of the width that is aimed at
_MOST_TRUST = 4.0  # of the damping: the scores may then still change by a quarter a feature
# Fewer curved rows than twice the features leave directions in which reg_lambda alone bends: after
# a step that is this short, the Hessian gets a ridge (times its mean diagonal), or ten times it.
_TOO_SHORT = 0.02
_FIRST_RIDGE = 1e-4
# If the loss is smooth, steps are then for a stronger regularization: this share of the largest
# trace of a Hessian so far, which falls after each step that is long enough. Near the optimum of a
# stronger one the model knows the rows that matter. After a step that is too short it rises by the
# second number. After k of these it falls by a factor of 1 + 3/k: 4 at first, and never the same
# again, which might lead back to the same points.
_STRONGER, _RISE = 0.01, 16.0
_MORE = 10.0  # factor on the width, or on the ridge, where no step is left
# Share to which the decrement falls from step to step, while a Hessian serves; and a new one that
# does not do as much takes twice the rows.
_FALLS = 0.03
FINEST, COARSEST = 1e-12, 1e-6  # limits of the derivative in b that is left, in typical slopes
_WHOLE_STEP = np.ones(1)
# Relative gap of the plane of a step's model, in squares of the relative decrement, until one has
# been seen: .1 to 10 were common with Poisson and logistic loss.
_GAP_PER_SQUARE = 3.0
_STEP_PASSES = 4.0  # over the data, in the time of a step: two products, and losses of all rows


class NewtonDescent:
    """A point (w, b) that moves by Newton steps, each as long as a line search says.

    It minimizes ``reg_lambda/2 ||w||^2 + smoothed risk``. A feature that few rows near the kinks
    have is damped: without that the quadratic model, which knows of these rows alone, takes its
    weight far beyond where others bend. The damping, ``|gradient_j| scale_j trust``, holds the
    scores' change by a feature to about 1 / trust, and vanishes with the gradient. A ridge helps
    where there are fewer curved rows than features; for a smooth loss, steps for a stronger
    regularization that becomes the given one do so better.

    Parameters
    ----------
    point : ScoreRisk
        Where it begins, and which it moves.
    reg_lambda : float
    width : float
        Of the smoothing.
    factor : ndarray, default=None
        Of a Hessian to begin with.

    Attributes
    ----------
    decrement : predicted decrease of the last whole step, twice
    settled : whether the width may shrink
    asked : gap to reach; 0 if that is not known
    precision : to which the derivative in b is made zero where each w has its best b
    factor : of the last Hessian of a smooth loss, which serves as long as the decrement falls
    """

    def __init__(
        self, point: ScoreRisk, reg_lambda: float, width: float, factor: Array | None = None
    ):
        self.point, self._loss, self._free = point, point.loss, point.free
        self._lambda, self.width = reg_lambda, width
        self._strength = reg_lambda  # of the regularization that steps are for
        self._trace, self._n_rises = 0.0, 0
        self._scale = point.scale / point.units.unit
        self.n_steps = 0
        self.decrement, self.settled = np.inf, False
        self.precision = COARSEST * point.units.slope
        self._schedule, self._narrowed = _FAST, False
        self._trust, self._ridge, self._damped = 1.0, 0.0, 0.0
        self.factor = factor
        self.asked, self._gap_per_square = 0.0, _GAP_PER_SQUARE

    @property
    def w(self) -> Array:
        """Weights of the point."""
        return self.point.w

    @property
    def gradient(self) -> Array:
        """Of the smoothed risk in w, at the last evaluation."""
        return self.point.gradient

    def evaluate(self) -> None:
        """Compute the risk at the point, and all of its plane but the gradient."""
        self.point.evaluate(self.width, self.precision)

    @property
    def smoothed(self) -> float:
        """What the smoothing alone leaves of the gap of (w, b) and its plane."""
        at = self.point
        return at.risk - at.offset - float(self.gradient @ at.w) - at.balance * at.b

    @property
    def error(self) -> float:
        """What w, which is not that of the plane, adds to this gap."""
        slack = self._lambda * self.w + self.gradient
        return float(slack @ slack) / (2.0 * self._lambda)

    def narrow(self, allowed: float) -> bool:
        """Shrink the width if the last step allows it and the smoothing hides more than allowed."""
        if self._loss.smooth or self.smoothed <= allowed:
            return False
        if self._schedule is _SLOW:
            if self.error > self._schedule[0] * self.smoothed:
                return False
        elif not self.settled:
            return False
        narrower = self.width * max(self._schedule[1], _BELOW * np.sqrt(allowed / self.smoothed))
        self.width = self.point.nearest_width(narrower, self.width)
        self._narrowed = True
        return True

    def widen(self, widest: float) -> None:
        """Take the width back to where more rows bend, and shrink it with care from then on."""
        self.width = min(widest, _MORE * self.width)
        self._schedule = _SLOW

    def step(self) -> bool:
        """One Newton step; False if nothing came of it, and the next one will be the same."""
        ridge, factor, hidden = self._ridge, self.factor, self.smoothed
        along = self._direction()
        is_newton = self.point.takes_all and self.factor is not factor and self._is_undamped
        was_sampled = self.point.every > 1 or (factor is not None and self.factor is factor)
        if along is None:
            return self._adapt_strength(1.0)
        length = self.point.step(self._line(along)._replace(is_newton=is_newton), self.width)
        if self._adapt_strength(length):
            self.n_steps += 1
            return True
        self._adapt_damping(length)
        self.settled = self._loss.smooth or (
            length >= _SHRINKS
            and self._damped < _UNDAMPED
            and self.decrement <= self._schedule[0] * hidden
        )
        if self._narrowed and length < self._schedule[2]:
            self._schedule = _SLOW
        self._narrowed = False
        self.n_steps += 1
        return length > 0.0 or self._ridge > ridge or was_sampled

    def _line(self, along: Array) -> Line:
        w, b = along[: len(self.w)], float(along[-1]) if self._free else 0.0
        across, square = self._strength * float(w @ self.w), self._strength * float(w @ w)
        return Line(w, b, -self.decrement, across, square, NEWTON_SLOPE_LEFT, _WHOLE_STEP)

    def _adapt_strength(self, length: float) -> bool:
        """Change the regularization that steps are for; False if it stays the given one."""
        before, given = self._strength, self._lambda
        if before > given and length >= _SHRINKS:
            self._strength = max(before / (1.0 + 3.0 / self._n_rises), given)
        elif length < _TOO_SHORT and self._n_rises < SEARCH_STEPS and self._may_rise():
            highest = _STRONGER * self._trace
            self._strength = min(_RISE * before, highest) if self._n_rises else highest
            self._strength = max(self._strength, before)
            self._n_rises += 1
        if self._strength != before:
            self.factor = None
        return max(before, self._strength) > given

    def _may_rise(self) -> bool:
        few = self.point.n_curved < RANK * len(self.w)
        return self._loss.smooth and (few or self._strength > self._lambda)

    def _adapt_damping(self, length: float) -> None:
        if length < _TOO_SHORT and self.point.n_curved < RANK * len(self.w):
            self._ridge = min(max(_MORE * self._ridge, _FIRST_RIDGE), 1.0)
        elif length > _SHRINKS:
            self._ridge = self._ridge / _MORE if self._ridge > _FIRST_RIDGE else 0.0
        if length < _SHORT or self._ridge > 0.0:
            self.factor = None
        if length < _SHORT and self.point.every > 1:
            self.point.detail *= 2
        if length < _SHORT:
            self._trust = min(2.0 * self._trust, _MOST_TRUST)
        elif length > _WHOLE:
            self._trust *= 0.25

    def _direction(self) -> Array | None:
        """Of Newton's step in (w, b); None where there is nothing to gain."""
        steepest = self.w * self._strength + self.gradient
        if self._free:
            steepest = np.append(steepest, self.point.balance)
        last = self.decrement
        if self.factor is not None:
            along = lapack.dpotrs(self.factor, -steepest, lower=0)[0]
            self.decrement = -float(steepest @ along)
            if 0.0 < self.decrement <= _FALLS * last and not self._may_be_last():
                return along
        along = self._fresh_direction(steepest)
        if along is not None and self.decrement > _FALLS * last:
            self.point.detail *= 2
        return along

    @property
    def _is_undamped(self) -> bool:
        return self._loss.smooth and self._damped == 0.0 and self._strength == self._lambda

    def _may_be_last(self) -> bool:
        """Whether Newton's step from all rows may prove the gap asked for, and sooner than others.

        The gap of its model's plane falls as the square of the decrement, whatever reg_lambda is;
        that of the plane at a point, which is ``error``, as the decrement.
        """
        at = self.point
        if not (self._loss.smooth and at.keeps_scores and self.asked > 0.0):
            return False
        objective = self._objective
        if not self._gap_per_square * self._square(objective) <= self.asked / objective:
            return False
        steps = float(np.log(max(self.error / self.asked, 1.0))) / -np.log(_FALLS)
        return at.hessian_passes <= _STEP_PASSES * steps

    @property
    def _objective(self) -> float:
        return 0.5 * self._lambda * float(self.w @ self.w) + self.point.risk

    def _square(self, objective: float) -> float:
        """Of the decrement relative to the objective."""
        relative = self.decrement / objective if objective > 0.0 else np.inf
        return relative * relative

    def learn_from_model(self, gap: float) -> None:
        """Note the gap of the plane of the last step's model, as promised or as found."""
        objective = self._objective
        square = self._square(objective)
        if square > 0.0 and 0.0 < gap < np.inf:
            self._gap_per_square = gap / objective / square

    def _fresh_direction(self, steepest: Array) -> Array | None:
        """The direction from a new Hessian."""
        self.point.takes_all = self._may_be_last()
        hessian = self.point.hessian(self.width)
        diagonal = np.einsum("ii->i", hessian)
        self._trace = max(self._trace, float(diagonal[: len(self.w)].sum()))
        diagonal[: len(self.w)] += self._strength
        undamped = diagonal.copy()
        if not self._loss.smooth:
            scale = np.append(self._scale, 1.0)[: len(hessian)]
            np.maximum(diagonal, self._trust * scale * np.abs(steepest), out=diagonal)
        diagonal[: len(self.w)] += self._ridge * undamped[: len(self.w)].mean()
        diagonal[diagonal == 0.0] = 1.0  # of b, where no row bends
        for ridge in RIDGES:
            diagonal *= 1.0 + ridge
            factor, along, failed = lapack.dposv(hessian.T, -steepest, lower=0)
            if not failed:
                break
        self.decrement = -float(steepest @ along)
        if failed or not self.decrement > 0.0:
            return None
        self.factor = factor if self._loss.smooth else None
        self._damped = float((diagonal - undamped) @ along**2) / self.decrement
        return along
