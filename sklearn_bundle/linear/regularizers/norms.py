"""Norms: L2 and Lp."""

from __future__ import annotations

import numpy as np

from sklearn_bundle.core.values import as_float, shown
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


class Lp(Regularizer):
    """``Omega(w) = ||w||_p^2 / 2``; its conjugate is ``||m||_q^2 / 2``, ``1/p + 1/q = 1``.

    The conjugate's gradient is ``w = sign(m) |m|^(q-1) ||m||_q^(2-q)``: section 3.3.1 of [1]_. All
    powers are of entries divided by the norm, which are at most 1, so no finite result overflows.

    Parameters
    ----------
    p : float, default=1.5
        Order of the norm, ``1 < p <= 2``. Near 1 the solution is almost sparse.

    Raises
    ------
    ValueError
        If `p` is not greater than 1 and at most 2; raised by `fit`, and by :meth:`bind`.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import Lp
    >>> round(Lp(p=1.5).value(np.array([1.0, 1.0])), 6)  # 2^(4/3) / 2
    1.259921
    >>> round(Lp(p=1.5).conjugate(np.array([1.0, 1.0])), 6)  # q = 3: 2^(2/3) / 2
    0.793701
    """

    def __init__(self, p: float = 1.5):
        self.p = as_float(p)

    @property
    def degree(self) -> float:
        return 2.0

    @property
    def strong_convexity(self) -> float:
        """``p - 1`` in the p-norm, which is at least as large as the Euclidean one."""
        return self.p - 1.0

    def bind(self, n_features, dimension) -> Regularizer:
        if not (isinstance(self.p, float) and 1.0 < self.p <= 2.0):
            raise ValueError(f"p={shown(self.p)} must be greater than 1 and at most 2.")
        return self

    def value(self, w) -> float:
        norm = _norm(w, self.p)[0]
        return 0.5 * norm * norm

    def conjugate(self, m) -> float:
        norm = _norm(m, self._q)[0]
        return 0.5 * norm * norm

    def conjugate_gradient(self, m) -> Array:
        norm, share = _norm(m, self._q)
        return np.sign(m) * share ** (self._q - 1.0) * norm

    def conjugate_curvature(self, m, planes) -> Array:
        """``(q-1) diag(u^(q-2)) + (2-q) v v'`` with ``u = |m| / ||m||_q``, ``v = sign(m) u^(q-1)``.

        It depends only on the direction of m, and has no limit at m = 0 unless q = 2. The value
        there is ``(q-1) I``, an upper bound everywhere.
        """
        q = self._q
        norm, share = _norm(m, q)
        if norm == 0.0:
            return (q - 1.0) * (planes @ planes.T)
        along = planes @ (np.sign(m) * share ** (q - 1.0))
        bent = planes * np.sqrt((q - 1.0) * share ** (q - 2.0))
        return bent @ bent.T + (2.0 - q) * np.outer(along, along)

    def slope(self, w, direction) -> tuple[float, float]:
        p = self.p
        norm, share = _norm(w, p)
        if norm == 0.0:
            length = _norm(direction, p)[0]
            return 0.0, length * length
        along = float(np.sum(direction * np.sign(w) * share ** (p - 1.0)))
        moving = direction != 0.0
        if p < 2.0 and np.any(share[moving] == 0.0):
            return norm * along, np.nan
        bend = np.sum(direction[moving] ** 2 * share[moving] ** (p - 2.0))
        return norm * along, (p - 1.0) * float(bend) + (2.0 - p) * along**2

    @property
    def _q(self) -> float:
        return self.p / (self.p - 1.0)


def _norm(x: Array, order: float) -> tuple[float, Array]:
    """``||x||_order`` and ``|x| / ||x||_order``, zeros for x = 0."""
    size = np.abs(x)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return 0.0, size
    size = size / largest
    norm = float(np.sum(size**order)) ** (1.0 / order)
    return largest * norm, size / norm
