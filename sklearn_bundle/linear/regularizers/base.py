"""The contract of a regularizer."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.parameters import Parameters, forget_inherited

Array = NDArray[np.float64]


class LassoForm(NamedTuple):
    """``Omega(w) = sum_j thresholds_j |w_j| + ridge/2 ||w||^2``, the form for coordinate descent.

    Parameters
    ----------
    thresholds : float or ndarray of shape (p,)
        Not negative, 0 for features that are not penalized; a number stands for all.
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


class Regularizer(Parameters, ABC):
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
        Whether ``Omega(w) = ||w||^2 / 2``: true for :class:`L2`.
    nonnegative : bool
        Whether the domain is the cone ``w >= 0``: true for :class:`Nonnegative`.
    degree : float or None
        The q in ``Omega(c w) = c^q Omega(w)``, on which the default `reg_lambda` of
        :class:`~sklearn_bundle.BMRMRegressor` depends; None if there is none.
    strong_convexity : float
        The s in ``Omega(v) >= Omega(w) + <g, v - w> + s/2 ||v - w||^2``, g a subgradient. Where it
        is positive, the distance of w to the optimum is bounded by the gap. 0 by default. This and
        the following are available after :meth:`bind`.
    lasso_form : LassoForm or None
        Its coefficients, if it is a weighted sum of the ``|w_j|`` and a multiple of ``||w||^2``.
    diagonal : float, ndarray of shape (d,) or None
        The diagonal of B for one output if it is ``w'Bw / 2`` with a known B, for which there are
        `matrix` and :meth:`image` too; None by default.
    matrix : ndarray of shape (d,) or (d, d), sparse matrix or None
        B for one output, as its diagonal if there is nothing else; None for the identity.
    unpenalized : ndarray of shape (m,) or (d, m), or None
        Directions of one output that cost nothing: features, or an orthonormal basis; None if
        there are none. :meth:`conjugate` takes its argument as orthogonal to them.
    excluded : ndarray of shape (m,) or None
        Features whose weights are 0. `fit` sets their columns of X to 0, so that any penalty will
        do; the bound regularizer has a finite one.

    Raises
    ------
    NotImplementedError
        If ``is_quadratic`` is false and there is no :meth:`conjugate_curvature`; raised by `fit`.

    See Also
    --------
    L2, L1, WeightedL1, ElasticNet, Quadratic : Built-in ones.
    Nonnegative : One of them with ``w >= 0``.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import ElasticNet, Regularizer
    >>> omega, m = ElasticNet(l1_ratio=0.5), np.array([3.0, -1.0, 0.5])
    >>> isinstance(omega, Regularizer)
    True
    >>> w = omega.conjugate_gradient(m)
    >>> bool(np.isclose(omega.value(w) + omega.conjugate(m), w @ m))
    True
    """

    #: What follows from the values, and is not inherited by a class with others.
    _from_values: ClassVar[tuple[str, ...]] = (
        *("is_euclidean", "strong_convexity", "lasso_form", "diagonal", "matrix", "image"),
        *("unpenalized", "nonnegative"),
    )
    is_quadratic: ClassVar[bool] = False
    is_euclidean: ClassVar[bool] = False
    #: Whether the domain is the cone ``w >= 0``.
    nonnegative: ClassVar[bool] = False
    # The following are known after bind.
    strong_convexity: float = 0.0
    lasso_form: LassoForm | None = None
    diagonal: Any = None
    matrix: Any = None
    unpenalized: Any = None
    excluded: NDArray[np.int64] | None = None

    def __init_subclass__(cls, **further: Any):
        super().__init_subclass__(**further)
        forget_inherited(cls, Regularizer, ("value", "conjugate"), cls._from_values)

    @property
    def degree(self) -> float | None:
        """The power of c with which ``Omega(c w)`` grows, if there is one."""
        return 2.0 if self.is_quadratic else None

    def image(self, w: Array) -> Array:
        """``B w``, if there is a ``diagonal``.

        Parameters
        ----------
        w : ndarray of shape (p,)
            Weights.

        Returns
        -------
        image : ndarray of shape (p,)
            The gradient of Omega.
        """
        return w

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


def split_infinite(penalties: Array) -> tuple[NDArray[np.int64] | None, Array]:
    """The places of infinities, and the penalties with the largest finite one there."""
    infinite = penalties == np.inf
    largest = penalties[~infinite].max(initial=0.0)
    return places(infinite), np.where(infinite, largest, penalties)


def places(chosen: Any) -> NDArray[np.int64] | None:
    """Where it is true; None if nowhere."""
    return np.flatnonzero(chosen) if chosen.any() else None
