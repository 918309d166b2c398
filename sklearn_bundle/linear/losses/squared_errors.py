"""Squared error of several outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.linear.losses.base import Array, must_be
from sklearn_bundle.linear.losses.one_score import RegressionLoss

# Tolerances for a matrix that is symmetric and semidefinite up to rounding, in units of its largest
# entry: for the difference of M[i, j] and M[j, i], and for an eigenvalue below 0.
_ASYMMETRY = 1e-8


class MultivariateSquaredError(RegressionLoss):
    """Squared error of k outputs, ``l(y, f) = (f - y)' M (f - y) / 2``.

    Table 6 of [1]_. Targets have shape (n, k), and the best intercept is the mean residual of each
    output.

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
    smooth = True
    quadratic = True
    degree = 2.0

    def __init__(self, M: ArrayLike | None = None):
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
        if not np.isfinite(M).all():
            raise must_be("M", "finite", self.M)
        rounding = _ASYMMETRY * np.abs(M).max()
        if np.abs(M - M.T).max() > rounding:
            raise must_be("M", "symmetric", self.M)
        least = np.linalg.eigvalsh(M).min()
        if least < -rounding:
            raise ValueError(f"M must be positive semidefinite, but has an eigenvalue {least}.")

    def value(self, scores, y) -> Array:
        residual = scores - y
        return np.maximum(0.0, 0.5 * np.sum(residual * self._times(residual), axis=1))

    def gradient(self, scores, y) -> Array:
        return self._times(scores - y)

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

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        residual = scores - y.T
        np.multiply(weights, self._times(residual.T).T, out=out)
        double_risk = float(np.sum(out * residual))
        return max(0.5 * double_risk, 0.0), -0.5 * double_risk - float(np.sum(out * y.T))

    def along(self, scores, direction, y, weights, t) -> tuple[float, float, float]:
        residual, image = scores - y.T + t * direction, self._times(direction.T).T * weights
        risk = 0.5 * float(np.sum(weights * (residual * self._times(residual.T).T)))
        return max(risk, 0.0), float(np.sum(image * residual)), float(np.sum(image * direction))

    def offset(self, derivatives, y, weights) -> float:
        """``-sum_i <g_i, y_i> + <g_i, M^+ g_i> / (2 s_i)``, for g in the range of M."""
        M = self.metric()
        solved = derivatives if M is None else np.linalg.pinv(M, hermitian=True) @ derivatives
        return -float(np.sum(derivatives * (y.T + 0.5 * solved / weights)))

    def covariance(self, derivatives, y, weights) -> Array:
        """M, as the weights have the sum one."""
        M = self.metric()
        return np.eye(len(derivatives)) if M is None else M

    def closed_intercept(self, scores, y, weights) -> Array:
        """The mean residual of each output, and the mean of what rounding left of them."""
        residual = y.T - scores
        b = residual @ weights
        return b + (residual - b[:, None]) @ weights

    def _times(self, residual: Array) -> Array:
        """M residual of each row."""
        M = self.metric()
        return residual if M is None else residual @ M
