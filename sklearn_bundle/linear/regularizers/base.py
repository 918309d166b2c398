"""The contract of a regularizer, and the regularizer of weights with an intercept."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.values import Shown

Array = NDArray[np.float64]


class LassoForm(NamedTuple):
    """``Omega(w) = sum_j thresholds_j |w_j| + ridge/2 ||w||^2``, the form for coordinate descent.

    Parameters
    ----------
    thresholds : float or ndarray of shape (p,)
        Positive; a number stands for all features.
    ridge : float
        Not negative.

    See Also
    --------
    L1, WeightedL1, ElasticNet : Regularizers that have one.

    Examples
    --------
    >>> from sklearn_bundle.regularizers import ElasticNet
    >>> ElasticNet(l1_ratio=0.25).lasso_form
    LassoForm(thresholds=0.25, ridge=0.75)
    """

    thresholds: float | Array
    ridge: float


class Regularizer(Shown, ABC):
    """A convex Omega(w) whose least value is 0, and its conjugate.

    The conjugate is ``Omega*(m) = max_w <w, m> - Omega(w)``. Instances hold only parameters, in
    attributes of the same names. w has shape (p,): p is the number of features or, with k outputs,
    k times that, one output after the other.

    The contract for your own regularizer: :meth:`value`, :meth:`conjugate`,
    :meth:`conjugate_gradient` and :meth:`slope` are required, and :meth:`conjugate_curvature`
    unless ``is_quadratic`` is true. Lower bounds depend on the conjugate (theorem 2 of [1]_), which
    is correct if ``Omega(w) + Omega*(m) = <w, m>`` at ``w = conjugate_gradient(m)``.

    Attributes
    ----------
    is_quadratic : bool
        Whether ``Omega(w) = w'Bw / 2`` for some B; False by default. If it is true, the inner
        problem of the bundle method needs only the products of planes, and a line search only the
        two derivatives of :meth:`slope`.
    is_euclidean : bool
        Whether ``Omega(w) = ||w||^2 / 2``: true for :class:`L2`, but not for its subclasses.
    is_l1 : bool
        Whether its ``lasso_form`` has no ridge: true for :class:`L1` and :class:`WeightedL1`.
    degree : float or None
        The q in ``Omega(c w) = c^q Omega(w)``, on which the default `reg_lambda` of
        :class:`~sklearn_bundle.BMRMRegressor` depends; None if there is none.

    Raises
    ------
    NotImplementedError
        If ``is_quadratic`` is false and there is no :meth:`conjugate_curvature`; raised by `fit`.

    See Also
    --------
    L2, Lp, L1, WeightedL1, ElasticNet, Quadratic, Entropy, EntropySimplex : Built-in ones.

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

    is_quadratic: ClassVar[bool] = False

    @property
    def degree(self) -> float | None:
        """The power of c with which ``Omega(c w)`` grows, if there is one."""
        return 2.0 if self.is_quadratic else None

    @property
    def strong_convexity(self) -> float:
        """The s in ``Omega(v) >= Omega(w) + <g, v - w> + s/2 ||v - w||^2``, g a subgradient.

        Where it is positive, the distance of w to the optimum is bounded by the gap. 0 by default.
        Available after :meth:`bind`.
        """
        return 1.0 if self.is_euclidean else 0.0

    @property
    def is_l1(self) -> bool:
        """Whether it is a weighted sum of the ``|w_j|``, and nothing else."""
        form = self.lasso_form
        return form is not None and form.ridge == 0.0

    @property
    def lasso_form(self) -> LassoForm | None:
        """Its coefficients, if it is a weighted sum of the ``|w_j|`` and a multiple of ``||w||^2``.

        Available after :meth:`bind`; None by default.
        """
        return None

    @property
    def is_euclidean(self) -> bool:
        """Whether ``Omega(w) = ||w||^2 / 2``."""
        return False

    @property
    def has_form(self) -> bool:
        """Whether it is ``w'Bw / 2`` with the B that :attr:`form` gives."""
        return self.is_euclidean

    @property
    def form(self) -> Any:
        """B: an array of shape (d,) for a diagonal or (d, d), or sparse; None for the identity.

        Available after :meth:`bind` if ``has_form`` is true.
        """
        return None

    def bind(self, n_features: int, dimension: int) -> "Regularizer":
        """Check the parameters against the data and do all work that is needed only once.

        Parameters
        ----------
        n_features : int
            Number of features.
        dimension : int
            The length p of w, a multiple of `n_features`.

        Returns
        -------
        regularizer : Regularizer
            The regularizer for solvers; by default this one.

        Raises
        ------
        ValueError
            For a parameter that is invalid or does not match the data.
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
            A maximizer.
        """

    def conjugate_curvature(self, m: Array, planes: Array) -> Array:
        """``P H P'`` for the rows P of `planes`, H the Hessian of Omega* at m.

        Required unless ``is_quadratic`` is true; the conjugate of a norm has none.

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
            If the method is not overridden.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no conjugate_curvature, and is_quadratic is not true."
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
        """The minimizer of Omega; by default 0.

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


class WithIntercept(Regularizer):
    """``Omega(w) + ||b||^2 / 2`` of (w, b), for a step of the proximal point method."""

    def __init__(self, omega: Regularizer, n_free: int):
        self.omega = omega
        self.n_free = n_free

    def value(self, w) -> float:
        w, b = w[: -self.n_free], w[-self.n_free :]
        return self.omega.value(w) + 0.5 * float(b @ b)

    def conjugate(self, m) -> float:
        m, r = m[: -self.n_free], m[-self.n_free :]
        return self.omega.conjugate(m) + 0.5 * float(r @ r)

    def conjugate_gradient(self, m) -> Array:
        return np.r_[self.omega.conjugate_gradient(m[: -self.n_free]), m[-self.n_free :]]

    def conjugate_curvature(self, m, planes) -> Array:
        balance = planes[:, -self.n_free :]
        planes = np.ascontiguousarray(planes[:, : -self.n_free])
        bent = self.omega.conjugate_curvature(m[: -self.n_free], planes)
        return bent + balance @ balance.T

    def slope(self, w, direction) -> tuple[float, float]:
        b, step = w[-self.n_free :], direction[-self.n_free :]
        first, second = self.omega.slope(w[: -self.n_free], direction[: -self.n_free])
        return first + float(b @ step), second + float(step @ step)
