"""Newton's method on the smoothed risk of rows in memory, with their scores."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.linear.losses._newton_loss import Start
from sklearn_bundle.linear.problems.newton_model import NewtonModel
from sklearn_bundle.linear.solvers._newton_descent import NewtonDescent
from sklearn_bundle.linear.solvers.protocols import NewtonSteps

Array = NDArray[np.float64]

_SEARCHES = 20  # evaluations of a line search
_SEARCHED = 0.1  # a line search ends at this share of the slope at 0
_FEW_CHANGED = 0.15  # of the derivatives: if fewer change, only these rows update the gradient
_REFRESHED = 32  # steps after which it is recomputed, so that rounding does not accumulate
_TINY = 1e-300  # replaces a curvature of 0
# Rows of the first Hessian of a smooth loss: this number times d, or as many as take no longer than
# so many passes over the data.
_HESSIAN_ROWS = 4
_HESSIAN_PASSES = 2.0
_CENTERED = 1e-6  # of a typical slope: the derivative in b on samples of the rows


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
        self.precision = _CENTERED * units.slope
        self.derivatives = np.empty(n)
        self._spare: Array | None = None  # for temporary values

    def attach(self, problem: NewtonSteps) -> None:
        """Continue with the same rows in another object."""
        self.model = problem.newton_model()

    def detach(self) -> None:
        """Release the rows."""
        self.model = ABSENT

    def rest(self) -> None:
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
        if self.n_steps % _REFRESHED and not self._loss.smooth:
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
        rows = self._work().view(np.int64)
        rows = rows[: self._loss.curved(self.scores, model.y, self.width, self.b, rows)]
        self._n_curved, self._every = len(rows), 1
        if self._loss.smooth:
            enough = max(_HESSIAN_ROWS * len(self.w), model.rows_in_passes(_HESSIAN_PASSES))
            self._every = max(1, len(rows) // (self._detail * enough))
            rows = rows[:: self._every].copy()
        args = self.scores, model.y, model.weights, self.width, self.b
        coefs = self._loss.curvature(*args, rows)
        return model.hessian(rows, self._every * coefs)

    def _search(self, direction: Array, w: Array, b: float) -> float:
        """Newton's method in one dimension; the last step tried need not be exact."""
        across, square = self._strength * float(w @ self.w), self._strength * float(w @ w)
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(_SEARCHES):
            args = self.scores, direction, self.width, self.b, b, t
            first, second = self.model.slope(*args)
            first += across + t * square
            if abs(first) <= _SEARCHED * self.decrement:
                return t
            low, high = (t, high) if first < 0.0 else (low, t)
            newton = t - first / max(second + square, _TINY)
            if not low < newton < high:
                newton = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
            t = newton
        return low
