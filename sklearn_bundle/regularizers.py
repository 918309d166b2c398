"""Regularizers: Omega, its conjugate and the conjugate's gradient."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class L2:
    """``Omega(w) = ||w||^2 / 2``; its conjugate is ``Omega*(m) = ||m||^2 / 2`` with gradient m."""

    def value(self, w: Array) -> float:
        """Omega(w)."""
        return 0.5 * float(np.sum(w * w))

    def inner(self, v: Array, w: Array) -> float:
        """<v, w> in the metric of Omega, so that Omega(w + t v) is a parabola in t."""
        return float(np.sum(v * w))

    def conjugate(self, m: Array) -> float:
        """Omega*(m)."""
        return 0.5 * float(np.sum(m * m))

    def conjugate_gradient(self, m: Array) -> Array:
        """The w at which ``<w, m> - Omega(w)`` is largest."""
        return m
