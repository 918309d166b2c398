"""The squared Euclidean norm."""

from __future__ import annotations

import numpy as np

from sklearn_bundle.linear.regularizers.base import Array, Regularizer


class L2(Regularizer):
    """``Omega(w) = ||w||^2 / 2``; its conjugate is ``Omega*(m) = ||m||^2 / 2`` with gradient m.

    Section 3.3.1 of [1]_.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import L2
    >>> L2().value(np.array([3.0, 4.0])), L2().conjugate(np.array([3.0, 4.0]))
    (12.5, 12.5)
    """

    is_quadratic = True
    is_euclidean = True
    strong_convexity = 1.0
    diagonal = 1.0

    def value(self, w) -> float:
        return 0.5 * float(np.sum(w * w))

    def conjugate(self, m) -> float:
        return 0.5 * float(np.sum(m * m))

    def conjugate_gradient(self, m) -> Array:
        return m

    def conjugate_curvature(self, m, planes) -> Array:
        return planes @ planes.T

    def slope(self, w, direction) -> tuple[float, float]:
        return float(np.sum(w * direction)), float(np.sum(direction * direction))
