"""Newton's method on the smoothed risk of a linear model, with a width that shrinks on the way."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sklearn_bundle._compiled import design
from sklearn_bundle.losses._newton_loss import Start
from sklearn_bundle.problems.newton_model import NewtonModel

Array = NDArray[np.float64]

_SEARCHES = 20  # evaluations of a line search
_SEARCHED = 0.1  # of the slope at 0 may be left at its end
_WHOLE, _SHORT = 0.7, 0.3  # steps after which the damping is changed
_SHRINKS = 0.5  # least step after which the width may shrink,
_UNDAMPED = 0.3  # if the damping's share of the quadratic model is below this,
# and the decrement is no more than what the smoothing hides, times the first of these; it shrinks
# to the second as long as that leaves steps of the length in the third, and by less from then on.
_HASTY, _CAREFUL = (10.0, 0.4, 0.05), (1.0, 0.6, 0.0)
_WIDER = 10.0  # factor on the width where no step is left
_BELOW = 0.95  # of the width that is aimed at
_MOST_TRUST = 4.0  # of the damping: the scores may then still change by a quarter a feature
# Fewer curved rows than twice the features leave directions in which reg_lambda alone bends: after
# a step that is this short, the Hessian gets a ridge (times its mean diagonal), or ten times it.
_RANK, _TOO_SHORT = 2, 0.02
_FIRST_RIDGE, _RIDGE_UP = 1e-4, 10.0
_FEW_CHANGED = 0.15  # of the derivatives: then the gradient is updated by these rows alone,
_REFRESHED = 32  # and computed afresh after so many steps, so that rounding does not gather
# Until a matrix is definite in spite of rounding. Relative to each diagonal entry: that of b may be
# far smaller than the others.
_RIDGES = (0.0, 1e-12, 1e-9, 1e-6)
_TINY = 1e-300  # in place of a curvature of 0
_HESSIAN_ROWS = 4  # times d: with these the Hessian of a smooth loss begins,
_HESSIAN_PASSES = 2.0  # or with what takes no longer than so many passes over the data
# Share to which the decrement falls from step to step, while a Hessian serves; and a new one that
# does not do as much takes twice the rows.
_FALLS = 0.03
_CENTERED = 1e-6  # of a typical slope: the derivative in b on samples of the rows


class Descent:
    """A point (w, b) that moves by Newton steps, each as long as an exact line search says.

    It minimises ``reg_lambda/2 ||w||^2 + smoothed risk``. A feature that few rows near the kinks
    have is damped: without that the quadratic model, which knows of these rows alone, takes its
    weight far beyond where others bend. The damping, ``|gradient_j| scale_j trust``, holds the
    scores' change by a feature to about 1 / trust, and vanishes with the gradient. A ridge helps
    where there are fewer curved rows than features.

    Attributes
    ----------
    w, b, scores : the point, and X w
    derivatives, gradient, balance : of the smoothed risk in the scores, in w and in b
    risk, offset : the loss's risk at the point, the offset of the plane with this gradient
    decrement : predicted decrease of the last whole step, twice
    settled : whether the width may shrink
    factor : of the last Hessian of a smooth loss, which serves as long as the decrement falls
    precision : to which the derivative in b is made zero
    """

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
        self.model, self.width = model, width
        self._loss, self._lambda, self._units = model.loss, reg_lambda, units
        self._scale = scale / units.unit
        self.w, self.b = w, b
        self.scores = model.rows.scores(w) if w.any() else np.zeros(len(model.y))
        self.n_steps = 0
        self.decrement, self.settled = np.inf, False
        self._pace, self._narrowed = _HASTY, False
        # Of one row in so many: a Hessian may take as long as on all of them.
        self._trust, self._ridge, self._detail = 1.0, 0.0, share
        self.factor, self.precision = factor, _CENTERED * units.slope
        n = self._n_curved = len(model.y)
        self._damped, self._every = 0.0, 1
        self.derivatives, self._spare = np.empty((2, n))  # the latter: for what is short-lived
        self.gradient = np.zeros_like(w)

    @property
    def _args(self) -> tuple:
        return self.model.y, self.model.weights, self.width, self.b

    def differentiate(self) -> None:
        """Risk, plane and gradient at w and its best b; elsewhere a plane would not be balanced."""
        model = self.model
        if model.free:
            args = self.scores, model.y, model.weights, self.width, self.b, self._units.unit
            self.b = self._loss.intercept(*args, self.precision, self._spare)
        self._spare, self.derivatives = self.derivatives, self._spare
        self.risk, self.offset = self._loss.cut(
            self.scores, *self._args, model.free, self.derivatives
        )
        self.gradient = self._updated_gradient()
        self.balance = float(self.derivatives.sum()) if model.free else 0.0

    @property
    def smoothed(self) -> float:
        """What the smoothing alone leaves of the gap of (w, b) and its plane."""
        return self.risk - self.offset - float(self.gradient @ self.w) - self.balance * self.b

    @property
    def error(self) -> float:
        """What w, which is not that of the plane, adds to this gap."""
        slack = self._lambda * self.w + self.gradient
        return float(slack @ slack) / (2.0 * self._lambda)

    def _updated_gradient(self) -> Array:
        """A kinked loss changes most derivatives of few rows alone."""
        if self.n_steps % _REFRESHED and not self._loss.smooth:
            change = np.subtract(self.derivatives, self._spare, out=self._spare)
            if np.count_nonzero(change) < _FEW_CHANGED * len(change):
                return self.gradient + self.model.rows.gradient(change)
        return self.model.rows.gradient(self.derivatives)

    def narrow(self, wanted: float) -> bool:
        """Shrink the width if the last step allows it and the smoothing hides more than wanted."""
        if self._loss.smooth or self.smoothed <= wanted:
            return False
        if self._pace is _CAREFUL:
            if self.error > self._pace[0] * self.smoothed:
                return False
        elif not self.settled:
            return False
        self.width *= max(self._pace[1], _BELOW * np.sqrt(wanted / self.smoothed))
        self._narrowed = True
        return True

    def widen(self, widest: float) -> None:
        """Take the width back to where more rows bend, and shrink it with care from then on."""
        self.width = min(widest, _WIDER * self.width)
        self._pace = _CAREFUL

    def step(self) -> bool:
        """One Newton step; False if nothing came of it, and the next one will be the same."""
        model, ridge, factor = self.model, self._ridge, self.factor
        along = self._direction()
        was_rough = self._every > 1 or (factor is not None and self.factor is factor)
        if along is None:
            return False
        w, b = along[: len(self.w)], float(along[-1]) if model.free else 0.0
        direction = model.rows.scores(w)
        length = self._search(direction, w, b)
        self._adapt_damping(length)
        self.settled = self._loss.smooth or (
            length >= _SHRINKS
            and self._damped < _UNDAMPED
            and self.decrement <= self._pace[0] * self.smoothed
        )
        if self._narrowed and length < self._pace[2]:
            self._pace = _CAREFUL
        self._narrowed = False
        self.w = self.w + length * w
        self.b += length * b
        design.add(length, direction, self.scores)
        self.n_steps += 1
        return length > 0.0 or self._ridge > ridge or was_rough

    def _adapt_damping(self, length: float) -> None:
        if length < _TOO_SHORT and self._n_curved < _RANK * len(self.w):
            self._ridge = min(max(_RIDGE_UP * self._ridge, _FIRST_RIDGE), 1.0)
        elif length > _SHRINKS:
            self._ridge = self._ridge / _RIDGE_UP if self._ridge > _FIRST_RIDGE else 0.0
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
        steepest = self.w * self._lambda + self.gradient
        if self.model.free:
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
        """The same with a new Hessian."""
        hessian = self._hessian()
        diagonal = np.einsum("ii->i", hessian)
        diagonal[: len(self.w)] += self._lambda
        undamped = diagonal.copy()
        if not self._loss.smooth:
            scale = np.append(self._scale, 1.0)[: len(hessian)]
            np.maximum(diagonal, self._trust * scale * np.abs(steepest), out=diagonal)
        diagonal[: len(self.w)] += self._ridge * undamped[: len(self.w)].mean()
        diagonal[diagonal == 0.0] = 1.0  # of b, where no row bends
        for ridge in _RIDGES:
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

    def _hessian(self) -> Array:
        """Of all rows with curvature, or of as many as tell it well enough."""
        model = self.model
        rows = self._spare.view(np.int64)
        rows = rows[: self._loss.curved(self.scores, model.y, self.width, self.b, rows)]
        self._n_curved, self._every = len(rows), 1
        if self._loss.smooth:
            enough = max(_HESSIAN_ROWS * len(self.w), model.rows_in_passes(_HESSIAN_PASSES))
            self._every = max(1, len(rows) // (self._detail * enough))
            rows = rows[:: self._every].copy()
        coefs = self._loss.curvature(self.scores, *self._args, rows)
        return model.hessian(rows, self._every * coefs)

    def _search(self, direction: Array, w: Array, b: float) -> float:
        """Newton's method in one dimension; the last step that was tried need not be exact."""
        across, square = self._lambda * float(w @ self.w), self._lambda * float(w @ w)
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(_SEARCHES):
            first, second = self._loss.slope(self.scores, direction, *self._args, b, t)
            first += across + t * square
            if abs(first) <= _SEARCHED * self.decrement:
                return t
            low, high = (t, high) if first < 0.0 else (low, t)
            newton = t - first / max(second + square, _TINY)
            if not low < newton < high:
                newton = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
            t = newton
        return low
