"""Newton's method on the smoothed risk of a linear model: directions, damping, width, and steps."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.limits import (
    NEWTON_SLOPE_LEFT,
    REFRESHED,
    RIDGES,
    SEARCH_STEPS,
    TINY,
)
from sklearn_bundle.linear.losses.scores import ScoreLoss, Start
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.newton_model import NewtonModel

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
_RANK, _TOO_SHORT = 2, 0.02
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
# Of rows in memory.
_FEW_CHANGED = 0.15  # of the derivatives: if fewer change, only these rows update the gradient
HESSIAN_PASSES = 2.0  # over the data, in the time of the first Hessian of a smooth loss
FINEST, COARSEST = 1e-12, 1e-6  # limits of the derivative in b that is left, in typical slopes


class NewtonDescent(ABC):
    """A point (w, b) that moves by Newton steps, each as long as a line search says.

    It minimizes ``reg_lambda/2 ||w||^2 + smoothed risk``. A feature that few rows near the kinks
    have is damped: without that the quadratic model, which knows of these rows alone, takes its
    weight far beyond where others bend. The damping, ``|gradient_j| scale_j trust``, holds the
    scores' change by a feature to about 1 / trust, and vanishes with the gradient. A ridge helps
    where there are fewer curved rows than features; for a smooth loss, steps for a stronger
    regularization that becomes the given one do so better. A subclass knows the rows.

    Attributes
    ----------
    w, b : the point
    gradient, balance : of the smoothed risk, in w and in b
    risk, offset : the loss's risk at the point, the offset of the plane with this gradient
    decrement : predicted decrease of the last whole step, twice
    settled : whether the width may shrink
    model : rows, targets and weights; None where the rows are elsewhere
    factor : of the last Hessian of a smooth loss, which serves as long as the decrement falls
    """

    model: NewtonModel | None = None

    def __init__(
        self,
        loss: ScoreLoss,
        free: bool,
        reg_lambda: float,
        units: Start,
        scale: Array,
        w: Array,
        b: float,
        width: float,
        n_curved: int,
        factor: Array | None = None,
        detail: int = 1,
    ):
        self._loss, self._free, self._lambda, self._units = loss, free, reg_lambda, units
        self._strength = reg_lambda  # of the regularization that steps are for
        self._trace, self._n_rises = 0.0, 0
        self._scale = scale / units.unit
        self.w, self.b, self.width = w, b, width
        self.n_steps = 0
        self.decrement, self.settled = np.inf, False
        self._schedule, self._narrowed = _FAST, False
        # Of one row in so many: a Hessian may take as long as on all of them.
        self._trust, self._ridge, self._detail = 1.0, 0.0, detail
        self.factor = factor
        self._n_curved, self._damped, self._every = n_curved, 0.0, 1
        self.risk = self.offset = self.balance = 0.0
        self.gradient = np.zeros_like(w)

    @abstractmethod
    def attach(self, problem: Any) -> None:
        """Continue with the same rows in another object."""

    @abstractmethod
    def detach(self) -> None:
        """Release the rows."""

    def release_buffers(self) -> None:
        """Release what the next step makes again: nothing here."""
        return

    @abstractmethod
    def differentiate(self) -> None:
        """Compute risk, plane and gradient at the point."""

    @abstractmethod
    def _hessian(self) -> Array:
        """Lower triangle of that of the smoothed risk, from one of ``every`` of the curved rows."""

    @abstractmethod
    def _move(self, w: Array, b: float) -> float:
        """Move along this direction; the step, 0 where nothing is gained."""

    @property
    def smoothed(self) -> float:
        """What the smoothing alone leaves of the gap of (w, b) and its plane."""
        return self.risk - self.offset - float(self.gradient @ self.w) - self.balance * self.b

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
        self.width *= max(self._schedule[1], _BELOW * np.sqrt(allowed / self.smoothed))
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
        was_sampled = self._every > 1 or (factor is not None and self.factor is factor)
        if along is None:
            return self._adapt_strength(1.0)
        length = self._move(along[: len(self.w)], float(along[-1]) if self._free else 0.0)
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
        few = self._n_curved < _RANK * len(self.w)
        return self._loss.smooth and (few or self._strength > self._lambda)

    def _adapt_damping(self, length: float) -> None:
        if length < _TOO_SHORT and self._n_curved < _RANK * len(self.w):
            self._ridge = min(max(_MORE * self._ridge, _FIRST_RIDGE), 1.0)
        elif length > _SHRINKS:
            self._ridge = self._ridge / _MORE if self._ridge > _FIRST_RIDGE else 0.0
        if length < _SHORT or self._ridge > 0.0:
            self.factor = None
        if length < _SHORT and self._every > 1:
            self._detail *= 2
        if length < _SHORT:
            self._trust = min(2.0 * self._trust, _MOST_TRUST)
        elif length > _WHOLE:
            self._trust *= 0.25

    def _direction(self) -> Array | None:
        """Of Newton's step in (w, b); None where there is nothing to gain."""
        steepest = self.w * self._strength + self.gradient
        if self._free:
            steepest = np.append(steepest, self.balance)
        last = self.decrement
        if self.factor is not None:
            along = lapack.dpotrs(self.factor, -steepest, lower=0)[0]
            self.decrement = -float(steepest @ along)
            if 0.0 < self.decrement <= _FALLS * last:
                return along
        along = self._fresh_direction(steepest)
        if along is not None and self.decrement > _FALLS * last:
            self._detail *= 2
        return along

    def _fresh_direction(self, steepest: Array) -> Array | None:
        """The direction from a new Hessian."""
        hessian = self._hessian()
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


class Descent(NewtonDescent):
    """:class:`NewtonDescent`, always at the best b, with an exact line search for each step.

    Attributes
    ----------
    scores : X w
    derivatives : of the smoothed risk in the scores
    precision : to which the derivative in b is made zero
    """

    model: NewtonModel

    def __init__(
        self,
        model: NewtonModel,
        reg_lambda: float,
        units: Start,
        scale: Array,
        w: Array,
        b: float,
        width: float,
        factor: Array | None = None,
        share: int = 1,
    ):
        self.model, n = model, len(model.y)
        args = model.loss, model.free, reg_lambda, units, scale, w, b, width
        super().__init__(*args, n_curved=n, factor=factor, detail=share)
        self.scores = model.rows.scores(w) if w.any() else np.zeros(n)
        self.precision = COARSEST * units.slope
        self.derivatives = np.empty(n)
        self._spare: Array | None = None  # for temporary values

    def attach(self, problem: LinearProblem) -> None:
        """Continue with the same rows in another object."""
        self.model = problem.newton_model()

    def detach(self) -> None:
        """Release the rows."""
        self.model = ABSENT

    def release_buffers(self) -> None:
        """Release what the next step makes again."""
        self._spare = None

    def _work(self) -> Array:
        if self._spare is None:
            self._spare = np.empty_like(self.scores)
        return self._spare

    def differentiate(self) -> None:
        """Compute risk, plane and gradient at w and its best b, where the plane is balanced."""
        model, spare = self.model, self._work()
        if model.free:
            args = self.scores, self.width, self.b, self._units.unit, self.precision
            self.b = model.intercept(*args, spare)
        before, self.derivatives = self.derivatives, spare
        self._spare = before
        self.risk, self.offset = model.cut(self.scores, self.width, self.b, self.derivatives)
        self.gradient = self._updated_gradient(before)
        self.balance = float(self.derivatives.sum()) if model.free else 0.0

    def _updated_gradient(self, before: Array) -> Array:
        """The gradient; a kinked loss often changes the derivatives of only a few rows.

        The derivatives before are overwritten.
        """
        if self.n_steps % REFRESHED and not self._loss.smooth:
            change = np.subtract(self.derivatives, before, out=before)
            if np.count_nonzero(change) < _FEW_CHANGED * len(change):
                return self.gradient + self.model.rows.gradient(change)
        return self.model.rows.gradient(self.derivatives)

    def _move(self, w: Array, b: float) -> float:
        direction = self.model.rows.scores(w)
        length = self._search(direction, w, b)
        self.w = self.w + length * w
        self.b += length * b
        self.model.add(length, direction, self.scores)
        return length

    def _hessian(self) -> Array:
        """The Hessian of all rows with curvature, or of enough of them."""
        model = self.model
        rows, coefs = self._work().view(np.int64), np.empty(len(model.y))
        args = self.scores, model.y, model.weights, self.width, self.b
        size = self._loss.curved(*args, rows, coefs)
        rows, coefs = rows[:size], coefs[:size]
        self._n_curved, self._every = size, 1
        if self._loss.smooth:
            enough = max(2 * _RANK * len(self.w), model.rows_in_passes(HESSIAN_PASSES))
            self._every = max(1, len(rows) // (self._detail * enough))
            rows, coefs = rows[:: self._every].copy(), coefs[:: self._every]
        return model.hessian(rows, self._every * coefs)

    def _search(self, direction: Array, w: Array, b: float) -> float:
        """Newton's method in one dimension, whose first steps may be long.

        ``search_zero`` bounds their growth: with scales far apart it took 60 steps for 11. Where a
        step does not halve the one before the last, the interval is halved: from far up an
        exponential Newton's steps are all of one length.
        """
        across, square = self._strength * float(w @ self.w), self._strength * float(w @ w)
        t, low, high = 1.0, 0.0, np.inf
        steps = np.inf, np.inf
        for _ in range(SEARCH_STEPS):
            args = self.scores, direction, self.width, self.b, b, t
            first, second = self.model.slope(*args)
            first += across + t * square
            if abs(first) <= NEWTON_SLOPE_LEFT * self.decrement:
                return t
            low, high = (t, high) if first < 0.0 else (low, t)
            newton = t - first / max(second + square, TINY)
            slow = np.isfinite(high) and abs(newton - t) > 0.5 * steps[0]
            if slow or not low < newton < high:
                newton = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
            steps = steps[1], abs(newton - t)
            t = newton
        return low
