"""Losses of a score f and a target y, functions of the residual r = f - y or of a log mean.

Each best intercept and each line search is exact. Planes are written from slopes, as
:mod:`~._piecewise` explains.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from sklearn_bundle.core.values import as_float, as_numbers, is_between, shown
from sklearn_bundle.linear.losses._piecewise import (
    balance_slopes,
    clipped_risk,
    clipped_slope,
    clipped_slopes,
    constant_far_left,
    intercept_zero,
    line_zero,
    mean_residual,
    plane_from_slopes,
    squared_cut,
)
from sklearn_bundle.linear.losses.base import Array, Cut, Prepared
from sklearn_bundle.linear.losses.samples import SampleLoss

ROUNDED = 1e-12  # of a mean of slopes, in units of the steepest
POLISHES = 3  # Newton steps on a piecewise linear function, near its zero
# Tolerances for a matrix that is symmetric and semidefinite up to rounding, in units of its largest
# entry: for the difference of M[i, j] and M[j, i], and for an eigenvalue below 0.
_ASYMMETRY = 1e-8


class RegressionLoss(SampleLoss):
    """Base class of losses of a score and a real target, and the contract for your own.

    A loss l(y, f) is convex in the score f and never negative. Two methods are required,
    :meth:`value` and :meth:`gradient`; both are plain numpy functions of arrays, to which they must
    not write. Everything else has a fallback: see :class:`~sklearn_bundle.losses.Loss`.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        :meth:`evaluate`, and thus by `fit`.

    See Also
    --------
    SquaredError, MultivariateSquaredError, Huber, SquaredEpsilonInsensitive : With curvature.
    AbsoluteError, Quantile, EpsilonInsensitive : Piecewise linear.
    Poisson : With a log link.
    Loss : All methods that may be overridden.

    Examples
    --------
    The logarithm of the hyperbolic cosine, a loss of your own:

    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressor
    >>> from sklearn_bundle.losses import RegressionLoss
    >>> class LogCosh(RegressionLoss):
    ...     def value(self, scores, y):
    ...         size = np.abs(scores - y)
    ...         return size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)
    ...
    ...     def gradient(self, scores, y):
    ...         return np.tanh(scores - y)
    >>> X, y = load_diabetes(return_X_y=True)
    >>> BMRMRegressor(LogCosh(), reg_lambda=1e-3).fit(X, y / 50.0).status_
    'converged'
    """

    #: Whether several targets, y of shape (n, k), make one problem. If not, there is one for each.
    multi_output: ClassVar[bool] = False
    #: Whether targets must not be negative.
    positive_only: ClassVar[bool] = False
    #: The p in ``l(c y, c f) = c^p l(y, f)``, if parameters in units of the target are multiplied
    #: by c too; None if there is none. The default `reg_lambda` depends on it.
    degree: ClassVar[float | None] = None

    def mean(self, scores: Array) -> Array:
        """Prediction of the target from the scores: the inverse link.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.

        Returns
        -------
        mean : ndarray of the shape of scores
            By default the scores.
        """
        return scores


def weighted_mean(y: Array, weights: Array) -> float:
    return float(np.sum(weights * y))


def require(allowed: bool, name: str, value: object, what: str) -> None:
    if not allowed:
        raise ValueError(f"{name} must be {what}, but is {shown(value)}.")


# ---- squared error and Huber's loss ----------------------------------------------------------


class _Clipped(RegressionLoss):
    """Losses whose derivative is the residual clipped to an interval [-limit, limit]."""

    degree = 2.0

    @abstractmethod
    def _limit(self) -> float:
        """The largest derivative."""

    def risk(self, scores, y, weights, intercept) -> float:
        return clipped_risk(scores, y, weights, intercept, self._limit())

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        limit = self._limit()
        b = fine = center = 0.0
        if fit_intercept:
            b, center = self.intercept(scores, y, weights, scratch), weighted_mean(y, weights)
            first, second = clipped_slope(scores, y, weights, b, limit)
            fine = -first / second if second > 0.0 else 0.0
        clipped_slopes(scores, y, b, fine, limit, out)
        if fit_intercept:
            balance_slopes(weights, out)
        risk = clipped_risk(scores, y, weights, b, limit)
        return Cut(risk, plane_from_slopes(y, weights, center, 0.0, 1.0, out), b)


class SquaredError(_Clipped):
    """Squared error, ``l(y, f) = (f - y)^2 / 2``, of least squares.

    Table 5 of [1]_. With this factor 1/2, Ridge's alpha is ``n reg_lambda``. The best intercept and
    the best step along a line are closed forms. With several targets it is
    :class:`MultivariateSquaredError` with the identity.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import SquaredError
    >>> SquaredError().value(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    array([0.5, 2. ])
    """

    multi_output = True

    def prepare_target(self, target) -> Prepared:
        if np.ndim(target.y) == 2:
            return MultivariateSquaredError().prepare_target(target)
        return super().prepare_target(target)

    def value(self, scores, y) -> Array:
        return 0.5 * (scores - y) ** 2

    def gradient(self, scores, y) -> Array:
        return scores - y

    def curvature(self, scores, y) -> Array:
        return np.ones_like(scores)

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        return Cut(*squared_cut(scores, y, weights, fit_intercept, out))

    def intercept(self, scores, y, weights, scratch) -> float:
        """The mean residual; the second mean removes the rounding of the first."""
        return sum(mean_residual(scores, y, weights))

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        weighted = weights * direction
        first = slope + float(np.sum(weighted * (scores - y)))
        second = curvature + float(np.sum(weighted * direction))
        return max(0.0, -first / second) if second > 0.0 else 0.0

    def _limit(self):
        return np.inf


class Huber(_Clipped):
    """Huber's loss, ``l(y, f) = r^2/2`` for ``|r| <= delta``, ``delta (|r| - delta/2)`` beyond.

    With ``r = f - y``: [2]_, and table 5 of [1]_ with delta = 1. The derivative in b and along a
    line is piecewise linear; its zero is exact, in O(n) by selection.

    Parameters
    ----------
    delta : float, default=1.0
        Size of an error above which the loss is linear, in units of the target; positive.

    Raises
    ------
    ValueError
        If `delta` is not positive and finite; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.
    .. [2] P. J. Huber: Robust estimation of a location parameter. The Annals of Mathematical
       Statistics 35 (1964), 73-101.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Huber
    >>> Huber(1.0).value(np.array([1.5, 4.0]), np.array([2.0, 2.0]))
    array([0.125, 1.5  ])
    """

    def __init__(self, delta=1.0):
        self.delta = as_float(delta)

    def check(self, y) -> None:
        allowed = is_between(self.delta, 0.0, np.inf)
        require(allowed, "delta", self.delta, "above 0 and finite")

    def value(self, scores, y) -> Array:
        r = np.abs(scores - y)
        u = np.minimum(r, self.delta)
        return u * (r - 0.5 * u)

    def gradient(self, scores, y) -> Array:
        return np.clip(scores - y, -self.delta, self.delta)

    def curvature(self, scores, y) -> Array:
        return (np.abs(scores - y) <= self.delta).astype(np.float64)

    def intercept(self, scores, y, weights, scratch) -> float:
        """A best b, by selection; Newton steps remove the rounding of the long sums.

        If residuals far above delta round so much that the steps fail, it uses bisection.
        """
        limit = self._limit()
        b = intercept_zero(scores, y, weights, constant_far_left(-limit), self._kinks(), scratch)
        for _ in range(POLISHES):
            first, second = clipped_slope(scores, y, weights, b, limit)
            if second > 0.0:
                b -= first / second
            resolved = abs(first) <= ROUNDED * limit + second * np.spacing(abs(b))
            if resolved or second == 0.0:
                break
        return b if resolved else float(super().intercept(scores, y, weights, scratch))

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        low, kinks = -self._limit(), self._kinks()
        args = scores, direction, y, weights, low, kinks, slope, curvature, scratch
        return max(0.0, line_zero(*args))

    def _limit(self):
        return float(self.delta)

    def _kinks(self):
        return [(-self._limit(), 0.0, 1.0), (self._limit(), 0.0, -1.0)]


# ---- several outputs -----------------------------------------------------------------------


class MultivariateSquaredError(RegressionLoss):
    """Squared error of k outputs, ``l(y, f) = (f - y)' M (f - y) / 2``.

    Table 6 of [1]_. Scores and targets have shape (n, k), and the intercept is an array (k,), the
    mean residual of each output.

    Parameters
    ----------
    M : array-like of shape (k, k), default=None
        Symmetric and positive semidefinite: the costs of the products of two outputs' errors. None
        means the identity: with the L2 regularizer the outputs are then fitted independently.

    Raises
    ------
    ValueError
        If y is 1-D, or `M` is not of shape (k, k), finite, symmetric and positive semidefinite;
        raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import MultivariateSquaredError
    >>> scores, y = np.array([[1.0, 4.0]]), np.array([[2.0, 2.0]])
    >>> MultivariateSquaredError().value(scores, y)
    array([2.5])
    >>> MultivariateSquaredError([[2.0, 1.0], [1.0, 2.0]]).value(scores, y)
    array([3.])
    """

    multi_output = True
    degree = 2.0

    def __init__(self, M=None):
        self.M = M

    def check(self, y) -> None:
        if np.ndim(y) != 2:
            raise ValueError(
                "MultivariateSquaredError needs y of shape (n_samples, n_targets) with two targets "
                f"or more, got y of shape {np.shape(y)}."
            )
        if self.M is None:
            return
        M, k = as_numbers("M", self.M), y.shape[1]
        if M.shape != (k, k):
            raise ValueError(
                f"M must have shape ({k}, {k}), as y has {k} outputs, not {M.shape}: {shown(M)}."
            )
        require(bool(np.isfinite(M).all()), "M", self.M, "finite")
        rounding = _ASYMMETRY * np.abs(M).max()
        require(np.abs(M - M.T).max() <= rounding, "M", self.M, "symmetric")
        least = np.linalg.eigvalsh(M).min()
        if least < -rounding:
            raise ValueError(f"M must be positive semidefinite, but has an eigenvalue {least}.")

    def n_outputs(self, y) -> int:
        return y.shape[1]

    def value(self, scores, y) -> Array:
        residual = scores - y
        return np.maximum(0.0, 0.5 * np.sum(residual * self._times(residual), axis=1))

    def gradient(self, scores, y) -> Array:
        return self._times(scores - y)

    def intercept(self, scores, y, weights, scratch) -> Array:
        """The mean residual of each output, shape (k,)."""
        b = weights @ (y - scores)
        return b + weights @ ((y - scores) - b)

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        b = center = np.zeros(y.shape[1])
        if fit_intercept:
            b, center = self.intercept(scores, y, weights, scratch), weights @ y
        residual = (scores - y) + b
        if fit_intercept:  # finer than the spacing of floats at b
            residual -= weights @ residual
        np.multiply(weights[:, None], self._times(residual), out=out)
        if fit_intercept:
            out -= weights[:, None] * out.sum(axis=0)
        risk = self.risk(scores, y, weights, b)
        offset = -0.5 * np.sum(out * residual) - np.sum(out * (y - center))
        return Cut(risk, float(offset), b if fit_intercept else 0.0)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        weighted = weights[:, None] * self._times(direction)
        first = slope + float(np.sum(weighted * (scores - y)))
        second = curvature + float(np.sum(weighted * direction))
        return max(0.0, -first / second) if second > 0.0 else 0.0

    def metric(self) -> Array | None:
        """M as an array, made exactly symmetric.

        Returns
        -------
        metric : ndarray of shape (k, k) or None
            None means the identity.
        """
        if self.M is None:
            return None
        M = np.asarray(self.M, dtype=np.float64)
        return 0.5 * (M + M.T)

    def _times(self, residual):
        """M residual of each row."""
        M = self.metric()
        return residual if M is None else residual @ M
