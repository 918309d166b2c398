"""The dual D of the bundle's inner problem as a function of alpha, without the intercepts' part.

It is that of :mod:`~.simplex_newton`, whose letters are used.
"""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import NEWTON_SLOPE_LEFT
from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.linear.regularizers import Regularizer

Array = NDArray[np.float64]

_DAMPING = 1e-10  # times the gap: curvature where there is none


def dot(x: Array, y: Array) -> float:
    """The product; after an overflow, infinity or NaN without a warning: the search steps back."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(x @ y)


class QuadraticDual:
    """D if Omega* is a quadratic form: needs only the Gram matrix of the planes."""

    def __init__(self, gram: Array, offsets: Array, reg_lambda: float):
        self.offsets = offsets
        self._gram = gram / reg_lambda

    def better_start(self, alpha: Array) -> Array:
        return alpha.copy()

    def losses(self, alpha: Array) -> Array:
        """``<a_i, w> + c_i`` at the w of alpha: the gradient of D."""
        return self.offsets - self._gram @ alpha

    def among(self, alpha: Array, rise: Array) -> NDArray[np.intp]:
        return np.arange(len(alpha))

    def second_order(self, alpha, losses, among) -> tuple[Array, Array]:
        """Q and q of ``q' beta - beta' Q beta / 2``, D up to a constant."""
        return self._gram[np.ix_(among, among)], self.offsets[among]

    def search(self, alpha, direction, prox) -> float:
        """A full step: the model is D itself."""
        return 1.0


class SmoothDual:
    """D if Omega* is twice differentiable."""

    def __init__(self, planes: Array, offsets: Array, omega: Regularizer, reg_lambda: float):
        self.offsets = offsets
        self._planes, self._omega, self._lambda = planes, omega, reg_lambda

    def better_start(self, alpha: Array) -> Array:
        """Alpha, or the flattest plane if that is better: -D may be huge, or infinite."""
        flattest = np.eye(len(alpha))[np.abs(self._planes).max(axis=1).argmin()]
        return (flattest if self._value(flattest) > self._value(alpha) else alpha).copy()

    def _value(self, alpha: Array) -> float:
        conjugate = self._omega.conjugate(self._slope_of(alpha))
        return float(alpha @ self.offsets) - self._lambda * conjugate

    def losses(self, alpha: Array) -> Array:
        """``<a_i, w> + c_i`` at the w of alpha: the gradient of D."""
        w = self._omega.conjugate_gradient(self._slope_of(alpha))
        with np.errstate(over="ignore", invalid="ignore"):  # far out, where no step ends
            return self._planes @ w + self.offsets

    def among(self, alpha: Array, rise: Array) -> NDArray[np.intp]:
        """Planes with weight or violated; computing their curvature is the cost of a step."""
        return np.flatnonzero((rise > 0.0) | (alpha > 0.0))

    def second_order(self, alpha, losses, among) -> tuple[Array, Array]:
        """Q and q of ``q' beta - beta' Q beta / 2``, the second-order model of D at alpha.

        It is centered at the aggregate plane, which changes nothing on the simplex: Q alpha = 0.
        """
        centered = self._planes[among] - alpha @ self._planes
        Q = self._omega.conjugate_curvature(self._slope_of(alpha), centered) / self._lambda
        Q[np.diag_indices_from(Q)] += _DAMPING * max(0.0, float(losses.max()) - dot(alpha, losses))
        return Q, losses[among]

    def search(self, alpha, direction, prox) -> float:
        """Step in [0, 1] at which the slope of D along the direction is small."""
        m, along = self._slope_of(alpha), self._slope_of(direction)
        constant, bend = -float(direction @ self.offsets), 0.0
        if prox is not None:
            constant, bend = constant + prox.slope(alpha, direction), prox.bend(direction)

        def slope(s):
            w = self._omega.conjugate_gradient(m + s * along)
            return self._lambda * dot(along, w) + constant + s * bend, np.nan

        return min(1.0, search_zero(slope, precision=NEWTON_SLOPE_LEFT))

    def _slope_of(self, alpha: Array) -> Array:
        return (alpha @ self._planes) / -self._lambda
