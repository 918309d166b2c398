"""The loss of novelty detection, a function of the scores alone."""

import numpy as np

from sklearn_bundle.core.values import as_float, is_between, shown
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.planes import PlaneLoss


class NuNovelty(PlaneLoss):
    """Novelty loss with the offset as a variable, of the one-class support vector machine.

    ``R(f) = min_rho sum_i s_i max(0, rho - f_i) / nu - rho``: minus the mean of the scores in the
    lowest share ``nu`` of the weight, their conditional value at risk (theorem 1 of [2]_). It is
    the risk of [1]_, equation 3.3. It is convex and positively homogeneous, so its planes have the
    offset 0, and it may be negative. With the L2 regularizer the optimal w for reg_lambda is that
    for 1, divided by reg_lambda. There is no target: ``y`` is None or ignored.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]. At most this share of the weight is below the best offset; at least this share
        is below or at it.

    Raises
    ------
    ValueError
        If `nu` is not in (0, 1]; raised by :meth:`check`, and thus by `fit`.

    See Also
    --------
    sklearn_bundle.BMRMNoveltyDetector : The estimator, which has nu as a parameter of its own.

    References
    ----------
    .. [1] B. Schoelkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson: Estimating
       the support of a high-dimensional distribution. Neural Computation 13 (2001), 1443-1471.
    .. [2] R. T. Rockafellar, S. Uryasev: Optimization of conditional value-at-risk. Journal of Risk
       2 (2000), 21-41.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import NuNovelty
    >>> scores, weights = np.array([1.0, 2.0, 5.0, 6.0]), np.full(4, 0.25)
    >>> NuNovelty(nu=0.5).risk(scores, None, weights)  # minus the mean of the lower half
    -1.5
    >>> NuNovelty(nu=0.5).offset(scores, weights)
    3.5
    """

    free_intercept = None
    nonnegative = False

    def __init__(self, nu=0.5):
        self.nu = as_float(nu)

    def check(self, y) -> None:
        """Raise ValueError unless nu is above 0 and at most 1."""
        if not (self.nu == 1.0 or is_between(self.nu, 0.0, 1.0)):
            raise ValueError(f"nu must be above 0 and at most 1, but is {shown(self.nu)}.")

    def offset(self, scores: Array, weights: Array) -> float:
        """The best rho, a weighted quantile of the scores; the midpoint if there are several.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores f.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.

        Returns
        -------
        rho : float
            The share `nu` of the weight lies below it, or at it.
        """
        low, high = self.offsets(scores, weights)
        return 0.5 * (low + high)

    def offsets(self, scores: Array, weights: Array) -> tuple[float, float]:
        """The smallest and the largest of the best rho.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores f.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.

        Returns
        -------
        low, high : float
            Equal if there is one.
        """
        order = np.argsort(scores)
        reached = np.cumsum(weights[order])
        rounding = 8.0 * np.sqrt(len(scores)) * 2.0**-53  # of a sum of weights, which is one
        low = np.searchsorted(reached, self.nu - rounding)
        high = np.searchsorted(reached, self.nu + rounding, side="right")
        last = len(scores) - 1
        return float(scores[order[min(low, last)]]), float(scores[order[min(high, last)]])

    def plane(self, scores, y, weights, out) -> float:
        """Samples at rho share the rest of the weight nu."""
        rho = self.offsets(scores, weights)[0]
        below, tied = scores < rho, scores == rho
        rest = (self.nu - weights[below].sum()) / weights[tied].sum()
        out[:] = -weights * (below + min(max(rest, 0.0), 1.0) * tied) / self.nu
        return 0.0
