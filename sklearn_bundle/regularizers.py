"""Regularizers: Omega, its conjugate and the conjugate's derivatives."""

from abc import ABC, abstractmethod
from math import e
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, xlogy

from sklearn_bundle._definite import factored
from sklearn_bundle._repr import Shown

Array = NDArray[np.float64]

_OFF_SIMPLEX = 1e-10  # |sum(w) - 1| that is taken for rounding


class Regularizer(Shown, ABC):
    """A convex Omega(w) whose least value is 0, and its conjugate ``Omega*(m) = max_w <w, m> -
    Omega(w)``.

    Instances hold parameters only, in attributes of the same names. w has shape (p,): p is the
    number of features or, with k outputs, k times that, an output after the other.
    """

    #: How the bundle's inner problem is solved: "gram" where the conjugate is a quadratic form,
    #: "newton" where it is twice differentiable, "lp" where Omega is polyhedral.
    inner: ClassVar[str] = "newton"

    def bind(self, n_features: int, dimension: int) -> "Regularizer":
        """Check the parameters against the data and do once what need not be done again.

        ``dimension`` is p, a multiple of ``n_features``. Solvers work with what is returned.
        """
        return self

    @abstractmethod
    def value(self, w: Array) -> float:
        """Omega(w); infinity outside of its domain."""

    @abstractmethod
    def conjugate(self, m: Array) -> float:
        """Omega*(m)."""

    @abstractmethod
    def conjugate_gradient(self, m: Array) -> Array:
        """The w at which ``<w, m> - Omega(w)`` is largest."""

    def conjugate_curvature(self, m: Array, planes: Array) -> Array:
        """``P H P'`` for the rows P of ``planes`` (t, p), H the Hessian of Omega* at m.

        Required where :attr:`inner` is "newton"; the conjugate of a norm has none.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has inner={self.inner!r}, but no conjugate_curvature."
        )

    @abstractmethod
    def slope(self, w: Array, direction: Array) -> tuple[float, float]:
        """First and second derivative of ``Omega(w + t direction)`` at t = 0, from the right.

        NaN for a second derivative that is infinite.
        """

    def start(self, size: int) -> Array:
        """The minimiser of Omega, of shape (size,)."""
        return np.zeros(size)


class L2(Regularizer):
    """``Omega(w) = ||w||^2 / 2``; its conjugate is ``Omega*(m) = ||m||^2 / 2`` with gradient m."""

    inner = "gram"

    def value(self, w):
        return 0.5 * float(np.sum(w * w))

    def conjugate(self, m):
        return 0.5 * float(np.sum(m * m))

    def conjugate_gradient(self, m):
        return m

    def conjugate_curvature(self, m, planes):
        return planes @ planes.T

    def slope(self, w, direction):
        return float(np.sum(w * direction)), float(np.sum(direction * direction))


class Lp(Regularizer):
    """``Omega(w) = ||w||_p^2 / 2``; its conjugate is ``||m||_q^2 / 2``, ``1/p + 1/q = 1``.

    The conjugate's gradient is ``w = sign(m) |m|^(q-1) ||m||_q^(2-q)`` (METHODS, section 1). All
    powers are taken of entries divided by the norm, which are at most 1: nothing overflows that
    has a finite result.

    Parameters
    ----------
    p : float, default=1.5
        1 < p <= 2. Near 1 the solution is almost sparse.
    """

    def __init__(self, p: float = 1.5):
        self.p = p

    def bind(self, n_features, dimension):
        if not 1.0 < self.p <= 2.0:
            raise ValueError(f"p={self.p!r} must be greater than 1 and at most 2.")
        return self

    def value(self, w):
        norm = _norm(w, self.p)[0]
        return 0.5 * norm * norm

    def conjugate(self, m):
        norm = _norm(m, self._q)[0]
        return 0.5 * norm * norm

    def conjugate_gradient(self, m):
        norm, share = _norm(m, self._q)
        return np.sign(m) * share ** (self._q - 1.0) * norm

    def conjugate_curvature(self, m, planes):
        """``(q-1) diag(u^(q-2)) + (2-q) v v'`` with ``u = |m| / ||m||_q``, ``v = sign(m) u^(q-1)``.

        It depends on the direction of m alone, and has no limit at m = 0 unless q = 2: there
        ``(q-1) I``, which is nowhere exceeded.
        """
        q = self._q
        norm, share = _norm(m, q)
        if norm == 0.0:
            return (q - 1.0) * (planes @ planes.T)
        along = planes @ (np.sign(m) * share ** (q - 1.0))
        bent = planes * np.sqrt((q - 1.0) * share ** (q - 2.0))
        return bent @ bent.T + (2.0 - q) * np.outer(along, along)

    def slope(self, w, direction):
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


class Quadratic(Regularizer):
    """``Omega(w) = w' B w / 2``; its conjugate is ``m' B^-1 m / 2`` with gradient ``B^-1 m``.

    With k outputs, the sum of this over the outputs.

    Parameters
    ----------
    B : array-like of shape (n_features,) or (n_features, n_features), or sparse
        Symmetric and positive definite; one dimension stands for a diagonal matrix. It is
        factored once a fit.
    """

    inner = "gram"

    def __init__(self, B: ArrayLike):
        self.B = B

    def bind(self, n_features, dimension):
        return _FactoredQuadratic(self.B, n_features)

    def value(self, w):
        return self._factored().value(w)

    def conjugate(self, m):
        return self._factored().conjugate(m)

    def conjugate_gradient(self, m):
        return self._factored().conjugate_gradient(m)

    def conjugate_curvature(self, m, planes):
        return self._factored().conjugate_curvature(m, planes)

    def slope(self, w, direction):
        return self._factored().slope(w, direction)

    def _factored(self) -> "_FactoredQuadratic":
        return _FactoredQuadratic(self.B, None)


class Entropy(Regularizer):
    """``Omega(w) = sum_j (w_j log w_j + 1/e)`` on w >= 0; its least value, at 1/e, is 0.

    The conjugate is ``sum_j (exp(m_j - 1) - 1/e)``, its gradient ``w = exp(m - 1)`` (METHODS,
    section 1). Where that overflows it is infinity.
    """

    def value(self, w):
        if not np.all(w >= 0.0):
            return np.inf
        return float(np.sum(xlogy(w, w) + 1.0 / e))

    def conjugate(self, m):
        with np.errstate(over="ignore"):
            return float(np.sum(np.expm1(m))) / e

    def conjugate_gradient(self, m):
        with np.errstate(over="ignore"):
            return np.exp(m - 1.0)

    def conjugate_curvature(self, m, planes):
        bent = planes * np.exp(0.5 * (m - 1.0))
        return bent @ bent.T

    def slope(self, w, direction):
        return _entropy_slope(w, direction)

    def start(self, size):
        return np.full(size, 1.0 / e)


class EntropySimplex(Regularizer):
    """``Omega(w) = sum_j w_j log w_j + log p`` on the unit simplex.

    This is the relative entropy of w to the uniform distribution.

    The conjugate is ``log(sum_j exp m_j) - log p``, its gradient the softmax of m. A direction
    from one point of the simplex to another sums to zero.
    """

    def value(self, w):
        if not (np.all(w >= 0.0) and abs(np.sum(w) - 1.0) <= _OFF_SIMPLEX):
            return np.inf
        return max(0.0, float(np.sum(xlogy(w, w)) + np.log(len(w))))

    def conjugate(self, m):
        return float(logsumexp(m) - np.log(len(m)))

    def conjugate_gradient(self, m):
        w = np.exp(m - m.max())
        return w / w.sum()

    def conjugate_curvature(self, m, planes):
        """``P (diag(w) - w w') P'``, as squares of differences: no cancellation."""
        w = self.conjugate_gradient(m)
        bent = (planes - (planes @ w)[:, None]) * np.sqrt(w)
        return bent @ bent.T

    def slope(self, w, direction):
        return _entropy_slope(w, direction)

    def start(self, size):
        return np.full(size, 1.0 / size)


class L1(Regularizer):
    """``Omega(w) = ||w||_1``; its conjugate is 0 where ``|m|_inf <= 1`` and infinity elsewhere.

    Where the conjugate is finite, w = 0 is a maximiser, and the only one that m alone gives.
    """

    inner = "lp"

    def value(self, w):
        return float(np.sum(np.abs(w)))

    def conjugate(self, m):
        return 0.0 if np.abs(m).max(initial=0.0) <= 1.0 else np.inf

    def conjugate_gradient(self, m):
        return np.zeros_like(m)

    def slope(self, w, direction):
        at_kink = np.where(w == 0.0, np.abs(direction), np.sign(w) * direction)
        return float(np.sum(at_kink)), 0.0


REGULARIZERS: dict[str, type[Regularizer]] = {
    "l2": L2,
    "lp": Lp,
    "quadratic": Quadratic,
    "entropy": Entropy,
    "entropy_simplex": EntropySimplex,
    "l1": L1,
}


class WithIntercept(Regularizer):
    """``Omega(w) + ||b||^2 / 2`` of (w, b): what a step of the proximal point method minimises."""

    def __init__(self, omega: Regularizer, n_free: int):
        self.omega = omega
        self.n_free = n_free

    def value(self, w):
        w, b = w[: -self.n_free], w[-self.n_free :]
        return self.omega.value(w) + 0.5 * float(b @ b)

    def conjugate(self, m):
        m, r = m[: -self.n_free], m[-self.n_free :]
        return self.omega.conjugate(m) + 0.5 * float(r @ r)

    def conjugate_gradient(self, m):
        return np.r_[self.omega.conjugate_gradient(m[: -self.n_free]), m[-self.n_free :]]

    def conjugate_curvature(self, m, planes):
        balance = planes[:, -self.n_free :]
        planes = np.ascontiguousarray(planes[:, : -self.n_free])
        bent = self.omega.conjugate_curvature(m[: -self.n_free], planes)
        return bent + balance @ balance.T

    def slope(self, w, direction):
        b, step = w[-self.n_free :], direction[-self.n_free :]
        first, second = self.omega.slope(w[: -self.n_free], direction[: -self.n_free])
        return first + float(b @ step), second + float(step @ step)


class _FactoredQuadratic(Regularizer):
    """A :class:`Quadratic` with its factor: for one fit, not a parameter."""

    inner = "gram"

    def __init__(self, B: Any, n_features: int | None):
        self._matrix, self._solve = factored(B, n_features)
        self._side = self._matrix.shape[0]

    def value(self, w):
        return 0.5 * float(np.sum(w * self._times(w)))

    def conjugate(self, m):
        return 0.5 * float(np.sum(m * self.conjugate_gradient(m)))

    def conjugate_gradient(self, m):
        outputs = m.reshape(-1, self._side)
        return np.ascontiguousarray(self._solve(outputs.T).T).reshape(m.shape)

    def conjugate_curvature(self, m, planes):
        products = planes @ self.conjugate_gradient(planes).T
        return 0.5 * (products + products.T)

    def slope(self, w, direction):
        image = self._times(direction)
        return float(np.sum(w * image)), float(np.sum(direction * image))

    def _times(self, w: Array) -> Array:
        outputs = w.reshape(-1, self._side).T
        image = (
            self._matrix[:, None] * outputs if self._matrix.ndim == 1 else self._matrix @ outputs
        )
        return image.T.reshape(w.shape)


def _norm(x: Array, order: float) -> tuple[float, Array]:
    """``||x||_order`` and ``|x| / ||x||_order``, zeros for x = 0."""
    size = np.abs(x)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return 0.0, size
    size = size / largest
    norm = float(np.sum(size**order)) ** (1.0 / order)
    return largest * norm, size / norm


def _entropy_slope(w: Array, direction: Array) -> tuple[float, float]:
    """Derivatives of ``sum w log w``; the first is minus infinity where an entry leaves 0."""
    moving = direction != 0.0
    d, w = direction[moving], w[moving]
    if np.any(w == 0.0):
        return (np.inf if np.any(d[w == 0.0] < 0.0) else -np.inf), np.nan
    return float(np.sum(d * (np.log(w) + 1.0))), float(np.sum(d * d / w))
