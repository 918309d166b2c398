"""The loss of novelty detection, a function of the score alone."""

import numpy as np

from sklearn_bundle._values import as_float, is_between, shown
from sklearn_bundle.losses._piecewise import line_zero, plane_from_slopes, step_risk, step_slopes
from sklearn_bundle.losses.base import Cut
from sklearn_bundle.losses.samples import SampleLoss


class Novelty(SampleLoss):
    """Novelty loss, ``l(f) = max(0, rho - f)``, of the one-class support vector machine.

    Table 5 of [1]_. There is no target: ``y`` is None, or is ignored. A free intercept would lift
    all scores above rho, so there is none. To the compiled functions this is the pinball loss of
    quantile 1 with the target rho.

    Parameters
    ----------
    rho : float, default=1.0
        Score above which a sample costs nothing, positive. With the L2 regularizer it only sets
        the scale: the optimal w for rho and reg_lambda is rho times that for 1 and
        rho * reg_lambda.

    Raises
    ------
    ValueError
        If `rho` is not positive and finite; raised by :meth:`check`, and so by `fit`.

    See Also
    --------
    sklearn_bundle.BMRMNoveltyDetector : The estimator, which has rho as a parameter of its own.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Novelty
    >>> Novelty(rho=1.0).value(np.array([2.0, 0.25]), None)
    array([0.  , 0.75])
    """

    free_intercept = None

    _slopes = -1.0, 0.0  # left and right of the kink

    def __init__(self, rho=1.0):
        self.rho = as_float(rho)

    def check(self, y):
        """Raise ValueError unless rho is a positive finite number."""
        if not is_between(self.rho, 0.0, np.inf):
            raise ValueError(f"rho must be above 0 and finite, but is {shown(self.rho)}.")

    def value(self, scores, y):
        return np.maximum(0.0, self.rho - scores)

    def gradient(self, scores, y):
        return np.where(scores < self.rho, -1.0, 0.0)

    def risk(self, scores, y, weights, intercept):
        return step_risk(scores, self._target(scores), weights, intercept, *self._slopes, 0.0)

    def cut(self, scores, y, weights, fit_intercept, out, scratch):
        target = self._target(scores)
        step_slopes(scores, target, 0.0, *self._slopes, 0.0, False, 0.0, out)
        offset = plane_from_slopes(target, weights, 0.0, 0.0, 0.0, out)
        return Cut(step_risk(scores, target, weights, 0.0, *self._slopes, 0.0), offset, 0.0)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch):
        low, high = self._slopes
        kinks = [(0.0, high - low, 0.0)]
        target = self._target(scores)
        args = scores, direction, target, weights, low, kinks, slope, curvature, scratch
        return max(0.0, line_zero(*args))

    def _target(self, scores):
        return np.full(len(scores), self.rho)
