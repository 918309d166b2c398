"""Cross-entropy of a score per class."""

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.elementary import exp
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.multiclass import CompiledLoss

_BLOCK = 256  # exponentials in one loop: a single row is too short to vectorize well


@jit
def _softmax_cut(scores, y, weights, out):
    n, n_classes = scores.shape
    risk = 0.0
    offset = 0.0
    block = max(1, _BLOCK // n_classes)
    tops = np.empty(block, dtype=np.int64)
    powers = np.empty((block, n_classes))
    flat = powers.reshape(-1)
    for start in range(0, n, block):
        size = min(n - start, block)
        _shift(scores, start, size, tops, powers)
        for j in range(size * n_classes):
            flat[j] = exp(flat[j])
        for r in range(size):
            i, at = start + r, tops[r]
            label, top = y[i], scores[i, at]
            others = 0.0  # the largest is exactly 1; the small sum of the others stays precise
            spread = 0.0
            for k in range(n_classes):
                e = powers[r, k]
                others += e * (k != at)
                spread += e * min(top - scores[i, k], 1e3)  # e is 0 far earlier; no 0 * inf
            share = 1.0 / (1.0 + others)
            log = np.log1p(others)
            for k in range(n_classes):
                out[i, k] = weights[i] * share * powers[r, k]
            # 1 - p of the label would lose precision if p is nearly 1
            rest = others if at == label else 1.0 + others - powers[r, label]
            out[i, label] = -weights[i] * share * rest
            risk += weights[i] * ((top - scores[i, label]) + log)
            offset += weights[i] * (log + spread * share)
    return risk, offset


@inner
def _shift(scores, start, size, tops, out):
    """Rows minus their maxima, and the places of these; a row with NaN becomes NaN."""
    for r in range(size):
        i = start + r
        top = scores[i, 0]
        at = broken = 0
        for k in range(scores.shape[1]):
            v = scores[i, k]
            higher = v > top
            top = v if higher else top
            at = k if higher else at
            broken = k if v != v else broken
        at = broken if scores[i, broken] != scores[i, broken] else at
        top = scores[i, at]
        tops[r] = at
        for k in range(scores.shape[1]):
            out[r, k] = scores[i, k] - top


@jit
def _softmax_along(scores, direction, y, weights, t):
    """Risk at scores + t direction, its first and its second derivative in t."""
    n, n_classes = scores.shape
    risk = first = second = 0.0
    block = max(1, _BLOCK // n_classes)
    tops = np.empty(block, dtype=np.int64)
    moved = np.empty((block, n_classes))
    powers = np.empty((block, n_classes))
    flat = powers.reshape(-1)
    for start in range(0, n, block):
        size = min(n - start, block)
        for i in range(size):
            for k in range(n_classes):
                moved[i, k] = scores[start + i, k] + t * direction[start + i, k]
        _shift(moved, 0, size, tops, powers)
        for j in range(size * n_classes):
            flat[j] = exp(flat[j])
        for i in range(size):
            row, at = start + i, tops[i]
            label = y[row]
            others = mean = 0.0
            for k in range(n_classes):
                others += powers[i, k] * (k != at)
                mean += powers[i, k] * (direction[row, k] - direction[row, label])
            share = 1.0 / (1.0 + others)
            mean *= share
            variance = 0.0
            for k in range(n_classes):
                d = (direction[row, k] - direction[row, label]) - mean
                variance += powers[i, k] * d * d
            risk += weights[row] * ((moved[i, at] - moved[i, label]) + np.log1p(others))
            first += weights[row] * mean
            second += weights[row] * share * variance
    return risk, first, second


class Softmax(CompiledLoss):
    """Softmax loss, ``l(y, f) = log sum_k exp f_k - f_y``, of multinomial logistic regression.

    The third row of table 6 in [1]_. scikit-learn's C is ``1 / (n reg_lambda)``.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Softmax
    >>> scores, y = np.array([[0.0, 2.0, 0.5]]), np.array([0])
    >>> Softmax().value(scores, y).round(3), Softmax().probability(scores).round(3)
    (array([2.306]), array([[0.1  , 0.736, 0.164]]))
    """

    _cut = staticmethod(_softmax_cut)
    _along = staticmethod(_softmax_along)

    def value(self, scores, y) -> Array:
        own = np.take_along_axis(scores, y[:, None], axis=1)
        return logsumexp(scores - own, axis=1)

    def gradient(self, scores, y) -> Array:
        gradient = self.probability(scores)
        gradient[np.arange(len(y)), y] -= 1.0
        return gradient

    def probability(self, scores: Array) -> Array:
        """P(y = k | f) = exp f_k / sum_j exp f_j.

        Parameters
        ----------
        scores : ndarray of shape (n, K)
            Scores f.

        Returns
        -------
        probabilities : ndarray of shape (n, K)
            Rows sum to one.
        """
        return softmax(scores, axis=1)

    def log_probability(self, scores: Array) -> Array:
        """Logarithm of :meth:`probability`, finite even if that is 0.

        Parameters
        ----------
        scores : ndarray of shape (n, K)
            Scores f.

        Returns
        -------
        log_probabilities : ndarray of shape (n, K)
            At most 0.
        """
        return log_softmax(scores, axis=1)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        def derivative(t):
            _, first, second = _softmax_along(scores, direction, y, weights, t)
            return slope + curvature * t + first, curvature + second

        return search_zero(derivative)
