"""Regularizers: Omega, its conjugate and the conjugate's derivatives."""

from abc import ABC, abstractmethod
from math import e
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py

from sklearn_bundle._definite import factored
from sklearn_bundle._repr import Shown
from sklearn_bundle._values import as_float, shown

__all__ = [
    "L1",
    "L2",
    "REGULARIZERS",
    "Entropy",
    "EntropySimplex",
    "Lp",
    "Quadratic",
    "Regularizer",
]

Array = NDArray[np.float64]

_OFF_SIMPLEX = 1e-10  # |sum(w) - 1| that is taken for rounding
_NEARLY_UNIFORM = -0.5  # mean of exp(m) - 1 above which its rounding is as small as that of m


class Regularizer(Shown, ABC):
    """A convex Omega(w) whose least value is 0, and its conjugate.

    The conjugate is ``Omega*(m) = max_w <w, m> - Omega(w)``. Instances hold parameters only, in
    attributes of the same names. w has shape (p,): p is the number of features or, with k outputs,
    k times that, an output after the other.

    The contract of a regularizer of one's own: :meth:`value`, :meth:`conjugate`,
    :meth:`conjugate_gradient` and :meth:`slope` are required, :meth:`conjugate_curvature` unless
    ``inner`` says otherwise. Lower bounds rest on the conjugate (theorem 2 of [1]_); it is right if
    ``Omega(w) + Omega*(m) = <w, m>`` at ``w = conjugate_gradient(m)``.

    Raises
    ------
    NotImplementedError
        If ``inner`` is "newton" and there is no :meth:`conjugate_curvature`; raised by `fit`.

    See Also
    --------
    L2, Lp, L1, Quadratic, Entropy, EntropySimplex : Those that there are.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import Lp, Regularizer
    >>> omega, m = Lp(p=1.5), np.array([3.0, -1.0, 0.5])
    >>> isinstance(omega, Regularizer)
    True
    >>> w = omega.conjugate_gradient(m)
    >>> bool(np.isclose(omega.value(w) + omega.conjugate(m), w @ m))
    True
    """

    #: How the bundle's inner problem is solved: "gram" where the conjugate is a quadratic form,
    #: "newton" where it is twice differentiable, "lp" where Omega is polyhedral.
    inner: ClassVar[str] = "newton"

    def bind(self, n_features: int, dimension: int) -> "Regularizer":
        """Check the parameters against the data and do once what need not be done again.

        Parameters
        ----------
        n_features : int
            Number of features.
        dimension : int
            The length p of w, a multiple of `n_features`.

        Returns
        -------
        regularizer : Regularizer
            What solvers work with; by default this one.

        Raises
        ------
        ValueError
            For a parameter that is not allowed, or does not fit to the data.
        """
        return self

    @abstractmethod
    def value(self, w: Array) -> float:
        """Omega(w). Required.

        Parameters
        ----------
        w : ndarray of shape (p,)
            Weights.

        Returns
        -------
        value : float
            Infinity outside of the domain.
        """

    @abstractmethod
    def conjugate(self, m: Array) -> float:
        """Omega*(m). Required.

        Parameters
        ----------
        m : ndarray of shape (p,)
            Argument of the conjugate.

        Returns
        -------
        value : float
            Infinity outside of the domain.
        """

    @abstractmethod
    def conjugate_gradient(self, m: Array) -> Array:
        """The w at which ``<w, m> - Omega(w)`` is largest. Required.

        Parameters
        ----------
        m : ndarray of shape (p,)
            Argument of the conjugate.

        Returns
        -------
        w : ndarray of shape (p,)
            A maximiser.
        """

    def conjugate_curvature(self, m: Array, planes: Array) -> Array:
        """``P H P'`` for the rows P of `planes`, H the Hessian of Omega* at m.

        Required where ``inner`` is "newton"; the conjugate of a norm has none.

        Parameters
        ----------
        m : ndarray of shape (p,)
            Argument of the conjugate.
        planes : ndarray of shape (t, p)
            The matrix P.

        Returns
        -------
        curvature : ndarray of shape (t, t)
            ``P H P'``.

        Raises
        ------
        NotImplementedError
            If there is none.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has inner={self.inner!r}, but no conjugate_curvature."
        )

    @abstractmethod
    def slope(self, w: Array, direction: Array) -> tuple[float, float]:
        """First and second derivative of ``Omega(w + t direction)`` at t = 0, from the right.

        Required.

        Parameters
        ----------
        w : ndarray of shape (p,)
            Weights.
        direction : ndarray of shape (p,)
            Direction.

        Returns
        -------
        first : float
            First derivative.
        second : float
            Second derivative, NaN if it is infinite.
        """

    def start(self, size: int) -> Array:
        """The minimiser of Omega; by default 0.

        Parameters
        ----------
        size : int
            The length p of w.

        Returns
        -------
        w : ndarray of shape (size,)
            Where Omega is 0.
        """
        return np.zeros(size)


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

    The conjugate's gradient is ``w = sign(m) |m|^(q-1) ||m||_q^(2-q)``: section 3.3.1 of [1]_. All
    powers are taken of entries divided by the norm, which are at most 1: nothing overflows that
    has a finite result.

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

    def bind(self, n_features, dimension):
        if not (isinstance(self.p, float) and 1.0 < self.p <= 2.0):
            raise ValueError(f"p={shown(self.p)} must be greater than 1 and at most 2.")
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

    With k outputs, the sum of this over the outputs. Section 3.3.1 of [1]_.

    Parameters
    ----------
    B : array-like of shape (n_features,) or (n_features, n_features), or sparse
        Symmetric and positive definite; one dimension stands for a diagonal matrix. It is
        factored once a fit.

    Raises
    ------
    ValueError
        If `B` is not of one of these shapes, has an entry that is not finite, or is not symmetric
        or not positive definite; raised by `fit`, and by the methods that factor it.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import Quadratic
    >>> omega = Quadratic([1.0, 4.0])  # diagonal: the second weight is penalised four times as much
    >>> omega.value(np.array([1.0, 1.0])), omega.conjugate_gradient(np.array([1.0, 1.0]))
    (2.5, array([1.  , 0.25]))
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

    The conjugate is ``sum_j (exp(m_j - 1) - 1/e)``, its gradient ``w = exp(m - 1)``: section 3.3.1
    of [1]_. Where that overflows it is infinity.

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

    def value(self, w):
        if not np.all(w >= 0.0):
            return np.inf
        return _divergence(w, 1.0 / e)

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

    def value(self, w):
        if not (np.all(w >= 0.0) and abs(np.sum(w) - 1.0) <= _OFF_SIMPLEX):
            return np.inf
        return _divergence(w, 1.0 / len(w))

    def conjugate(self, m):
        """``log(mean(exp m))``; where all m are nearly the same, log p is not in the sum."""
        largest = float(m.max())
        below = m - largest
        mean = float(np.mean(np.expm1(below)))
        if mean > _NEARLY_UNIFORM:
            return largest + float(np.log1p(mean))
        return largest + float(np.log(np.sum(np.exp(below))) - np.log(len(m)))

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
    Section 3.3.1 of [1]_.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import L1
    >>> L1().value(np.array([3.0, -4.0]))
    7.0
    >>> L1().conjugate(np.array([0.5, -1.0])), L1().conjugate(np.array([0.5, -2.0]))
    (0.0, inf)
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


def _divergence(w: Array, centre: float) -> float:
    """``sum_j w_j log(w_j / centre) - w_j + centre``, which is 0 at the centre.

    With ``w = centre (1 + u)`` it is ``centre ((1 + u) log(1 + u) - u)``: near the centre the terms
    are as small as u, and not as large as 1.
    """
    u = (w - centre) / centre
    return centre * float(np.sum(np.maximum(xlog1py(1.0 + u, u) - u, 0.0)))


def _entropy_slope(w: Array, direction: Array) -> tuple[float, float]:
    """Derivatives of ``sum w log w``; the first is minus infinity where an entry leaves 0."""
    moving = direction != 0.0
    d, w = direction[moving], w[moving]
    if np.any(w == 0.0):
        return (np.inf if np.any(d[w == 0.0] < 0.0) else -np.inf), np.nan
    return float(np.sum(d * (np.log(w) + 1.0))), float(np.sum(d * d / w))
