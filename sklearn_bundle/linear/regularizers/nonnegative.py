"""Nonnegative weights."""

from __future__ import annotations

from copy import copy

import numpy as np

from sklearn_bundle.linear.regularizers.base import Array, LassoForm, Regularizer
from sklearn_bundle.linear.regularizers.quadratic import L2, Quadratic
from sklearn_bundle.linear.regularizers.sparse import L1, ElasticNet, WeightedL1

_SEPARABLE = L2, Quadratic, L1, WeightedL1, ElasticNet


class Nonnegative(Regularizer):
    """``Omega(w)`` of another regularizer on the cone ``w >= 0``, infinity elsewhere.

    Its conjugate is ``Omega*(max(m, 0))``, with the same maximizer, for an Omega that does not fall
    as a ``|w_j|`` grows and does not depend on signs: section 3.3.1 of [1]_.

    Parameters
    ----------
    omega : L2, L1, WeightedL1, ElasticNet or Quadratic
        A quadratic one must be diagonal, and all features must be penalized.

    Raises
    ------
    ValueError
        For another `omega`; raised by `fit`, and by :meth:`bind`.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import L2, Nonnegative
    >>> omega = Nonnegative(L2())
    >>> omega.value(np.array([3.0, -4.0])), omega.conjugate(np.array([3.0, -4.0]))
    (inf, 4.5)
    """

    nonnegative = True

    def __init__(self, omega: Regularizer):
        self.omega = omega

    def bind(self, n_features, dimension) -> Regularizer:
        if type(self.omega) not in _SEPARABLE:
            names = ", ".join(kind.__name__ for kind in _SEPARABLE)
            raise ValueError(f"omega of Nonnegative must be one of {names}, but is {self.omega!r}.")
        bound = copy(self)
        bound.omega = self.omega.bind(n_features, dimension)
        bound.excluded = bound.omega.excluded
        if isinstance(bound.omega, Quadratic) and bound.omega.matrix.ndim > 1:
            raise ValueError("The B of Nonnegative(Quadratic(B)) must be a diagonal of shape (d,).")
        if bound.omega.unpenalized is not None:
            raise ValueError(
                "Nonnegative needs a penalty on each feature, but that of feature "
                f"{bound.omega.unpenalized[0]} is 0; a small one serves."
            )
        return bound

    @property
    def degree(self) -> float | None:
        return self.omega.degree

    @property
    def strong_convexity(self) -> float:
        return self.omega.strong_convexity

    @property
    def lasso_form(self) -> LassoForm | None:
        return self.omega.lasso_form

    def value(self, w) -> float:
        return self.omega.value(w) if np.all(w >= 0.0) else np.inf

    def conjugate(self, m) -> float:
        return self.omega.conjugate(np.maximum(m, 0.0))

    def conjugate_gradient(self, m) -> Array:
        return self.omega.conjugate_gradient(np.maximum(m, 0.0))

    def conjugate_curvature(self, m, planes) -> Array:
        """That of the weights that are positive, or become so at once."""
        return self.omega.conjugate_curvature(np.maximum(m, 0.0), planes * (m >= 0.0))

    def slope(self, w, direction) -> tuple[float, float]:
        if np.any((w <= 0.0) & (direction < 0.0)):
            return np.inf, np.nan
        return self.omega.slope(w, direction)
