"""Entropies of nonnegative weights."""

from math import e

import numpy as np
from scipy.special import xlog1py

from sklearn_bundle.linear_next.regularizers.base import Array, Regularizer

_OFF_SIMPLEX = 1e-10  # |sum(w) - 1| that counts as rounding
_NEARLY_UNIFORM = -0.5  # mean of exp(m) - 1 above which its rounding is as small as that of m


class Entropy(Regularizer):
    """``Omega(w) = sum_j (w_j log w_j + 1/e)`` on w >= 0; its least value, at 1/e, is 0.

    The conjugate is ``sum_j (exp(m_j - 1) - 1/e)``, its gradient ``w = exp(m - 1)``: section 3.3.1
    of [1]_. If that overflows, it is infinity.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import Entropy
    >>> round(Entropy().value(np.array([0.0, 1.0])), 6), Entropy().value(np.array([-1.0, 1.0]))
    (0.735759, inf)
    """

    def value(self, w) -> float:
        if not np.all(w >= 0.0):
            return np.inf
        return _divergence(w, 1.0 / e)

    def conjugate(self, m) -> float:
        with np.errstate(over="ignore"):
            return float(np.sum(np.expm1(m))) / e

    def conjugate_gradient(self, m) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(m - 1.0)

    def conjugate_curvature(self, m, planes) -> Array:
        bent = planes * np.exp(0.5 * (m - 1.0))
        return bent @ bent.T

    def slope(self, w, direction) -> tuple[float, float]:
        return _entropy_slope(w, direction)

    def start(self, size) -> Array:
        return np.full(size, 1.0 / e)


class EntropySimplex(Regularizer):
    """``Omega(w) = sum_j w_j log w_j + log p`` on the unit simplex.

    This is the relative entropy of w to the uniform distribution.

    The conjugate is ``log(sum_j exp m_j) - log p``, its gradient the softmax of m: section 3.3.1
    of [1]_. A direction from one point of the simplex to another sums to zero.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import EntropySimplex
    >>> omega = EntropySimplex()
    >>> omega.value(np.array([0.5, 0.5])), omega.value(np.array([1.0, 1.0]))
    (0.0, inf)
    >>> omega.conjugate_gradient(np.array([0.0, np.log(3.0)])).round(6)
    array([0.25, 0.75])
    """

    def value(self, w) -> float:
        if not (np.all(w >= 0.0) and abs(np.sum(w) - 1.0) <= _OFF_SIMPLEX):
            return np.inf
        return _divergence(w, 1.0 / len(w))

    def conjugate(self, m) -> float:
        """``log(mean(exp m))``; log p does not enter the sum if all m are nearly equal."""
        largest = float(m.max())
        below = m - largest
        mean = float(np.mean(np.expm1(below)))
        if mean > _NEARLY_UNIFORM:
            return largest + float(np.log1p(mean))
        return largest + float(np.log(np.sum(np.exp(below))) - np.log(len(m)))

    def conjugate_gradient(self, m) -> Array:
        w = np.exp(m - m.max())
        return w / w.sum()

    def conjugate_curvature(self, m, planes) -> Array:
        """``P (diag(w) - w w') P'``, as squares of differences: no cancellation."""
        w = self.conjugate_gradient(m)
        bent = (planes - (planes @ w)[:, None]) * np.sqrt(w)
        return bent @ bent.T

    def slope(self, w, direction) -> tuple[float, float]:
        return _entropy_slope(w, direction)

    def start(self, size) -> Array:
        return np.full(size, 1.0 / size)


def _divergence(w: Array, center: float) -> float:
    """``sum_j w_j log(w_j / center) - w_j + center``, which is 0 at ``center``.

    With ``w = center (1 + u)`` it is ``center ((1 + u) log(1 + u) - u)``: near ``center`` the terms
    are as small as u, not as large as 1.
    """
    u = (w - center) / center
    return center * float(np.sum(np.maximum(xlog1py(1.0 + u, u) - u, 0.0)))


def _entropy_slope(w: Array, direction: Array) -> tuple[float, float]:
    """Derivatives of ``sum w log w``; the first is minus infinity if an entry leaves 0."""
    moving = direction != 0.0
    d, w = direction[moving], w[moving]
    if np.any(w == 0.0):
        return (np.inf if np.any(d[w == 0.0] < 0.0) else -np.inf), np.nan
    return float(np.sum(d * (np.log(w) + 1.0))), float(np.sum(d * d / w))
