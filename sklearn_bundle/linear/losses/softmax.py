"""Cross-entropy of a score per class.

Scores are stored by class in compiled functions, shape (K, n): every loop runs over samples of one
class and vectorizes for any K.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp, softmax

from sklearn_bundle.core.one_variable import search_zero
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.jit.elementary import exp, log, log1p_unit
from sklearn_bundle.linear.losses.base import Array, Loss
from sklearn_bundle.linear.losses.multiclass import CompiledLoss

Labels = NDArray[np.int64]
_CHUNK = 256  # samples per chunk: the numbers of 20 classes take 40 KB, which fits into caches


@jit
def _along_classes(scores, direction, y, weights, t, out):
    """Risk, its first and its second derivative in t; ``out`` becomes ``s (P - Y)``."""
    n_classes, n = scores.shape
    risk = first = second = 0.0
    powers = np.empty((n_classes, _CHUNK))
    top, others, share, logs, mean, square = np.empty((6, _CHUNK))
    at = np.empty(_CHUNK, dtype=np.int64)
    for start in range(0, n, _CHUNK):
        size = min(n - start, _CHUNK)
        s, own = weights[start : start + size], y[start : start + size]
        top[:] = -np.inf
        others[:] = 0.0
        mean[:] = 0.0
        square[:] = 0.0
        at[:] = 0
        for k in range(n_classes):
            f, h = scores[k, start : start + size], direction[k, start : start + size]
            moved = powers[k]
            for i in range(size):
                v = f[i] + t * h[i]
                moved[i] = v
                higher = (v > top[i]) | (v != v)  # NaN stays the largest, and makes the risk NaN
                top[i] = v if higher else top[i]
                at[i] = k if higher else at[i]
        for i in range(size):
            risk += s[i] * (top[i] - powers[own[i], i])
        for k in range(n_classes):
            h, power = direction[k, start : start + size], powers[k]
            for i in range(size):
                e = exp(power[i] - top[i])
                power[i] = e
                # The largest is exactly 1: the small sum of the others keeps its precision.
                others[i] += e if at[i] != k else 0.0
                mean[i] += e * h[i]
                square[i] += e * h[i] * h[i]
        for i in range(size):
            share[i] = 1.0 / (1.0 + others[i])
            logs[i] = log1p_unit(others[i]) if others[i] <= 1.0 else log(1.0 + others[i])
        for i in range(size):
            average = mean[i] * share[i]
            risk += s[i] * logs[i]
            first += s[i] * (average - direction[own[i], start + i])
            second += s[i] * max(share[i] * square[i] - average * average, 0.0)
            share[i] *= s[i]
        for k in range(n_classes):
            power, g = powers[k], out[k, start : start + size]
            for i in range(size):
                g[i] = share[i] * power[i]
        for i in range(size):
            # 1 - p of the label would lose precision if p is nearly 1
            rest = others[i] if at[i] == own[i] else 1.0 + others[i] - powers[own[i], i]
            out[own[i], start + i] = -share[i] * rest
    return risk, first, second


@jit
def _mixed_entropy(derivatives, y, weights, moved, given):
    """``sum_i s_i H(Q_i)`` for ``Q_ik = (1 - moved_k) P_ik + given_k sum_j moved_j P_ij``.

    Q of the label is 1 minus the others; near 1 its entropy is computed from their sum.
    """
    n_classes, n = derivatives.shape
    total = 0.0
    probabilities = np.empty((n_classes, _CHUNK))
    taken, entropy, rest = np.empty((3, _CHUNK))
    for start in range(0, n, _CHUNK):
        size = min(n - start, _CHUNK)
        s, own = weights[start : start + size], y[start : start + size]
        taken[:] = 0.0
        entropy[:] = 0.0
        rest[:] = 0.0
        for k in range(n_classes):
            g, p = derivatives[k, start : start + size], probabilities[k]
            for i in range(size):
                p[i] = g[i] / s[i] + (1.0 if own[i] == k else 0.0)
                taken[i] += moved[k] * p[i]
        for k in range(n_classes):
            p = probabilities[k]
            for i in range(size):
                q = (1.0 - moved[k]) * p[i] + given[k] * taken[i]
                q = 0.0 if own[i] == k else q
                rest[i] += q
                entropy[i] -= q * log(max(q, 1e-300))
        for i in range(size):
            label = max(1.0 - rest[i], 0.0)
            total += s[i] * (entropy[i] - label * np.log1p(-min(rest[i], 1.0 - 1e-16)))
    return total


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

    smooth = True

    def _cut(self, scores, y, weights, out):
        risk, derivatives = self._evaluated(scores, y, weights)
        out[:] = derivatives.T
        still = np.zeros(scores.shape[1])
        return risk, self.mixed_entropy(derivatives, y, weights, still, still)

    def _along(self, scores, direction, y, weights, t):
        lines = np.ascontiguousarray(scores.T), np.ascontiguousarray(direction.T)
        return self.along_classes(*lines, y, weights, t, np.empty_like(lines[0]))

    def _evaluated(self, scores, y, weights):
        """Risk, and the derivatives by class."""
        by_class = np.ascontiguousarray(scores.T)
        derivatives = np.empty_like(by_class)
        risk = self.along_classes(by_class, by_class, y, weights, 0.0, derivatives)[0]
        return risk, derivatives

    def evaluate(self, scores, y, weights, out) -> float:
        risk, derivatives = self._evaluated(scores, y, weights)
        out[:] = derivatives.T
        return risk

    def risk(self, scores, y, weights, intercept) -> float:
        moved = scores + intercept if np.any(intercept) else scores
        return self._evaluated(moved, y, weights)[0]

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
        lines = np.ascontiguousarray(scores.T), np.ascontiguousarray(direction.T)
        out = np.empty_like(lines[0])

        def derivative(t):
            _, first, second = self.along_classes(*lines, y, weights, t, out)
            return slope + curvature * t + first, curvature + second

        return search_zero(derivative)

    def along_classes(
        self, scores: Array, direction: Array, y: Labels, weights: Array, t: float, out: Array
    ) -> tuple[float, float, float]:
        """R at ``f = scores + t direction``, its first and its second derivative in t.

        Parameters
        ----------
        scores, direction : ndarray of shape (K, n)
            Scores and direction by class.
        y : ndarray of shape (n,)
            Numbers of the classes.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        t : float
            Step.
        out : ndarray of shape (K, n)
            Filled with ``s_i (P_ik - Y_ik)``, the derivatives in the scores; P are the
            probabilities of the classes, Y is 1 for the label.

        Returns
        -------
        risk, first, second : float
            Value and derivatives.
        """
        return _along_classes(scores, direction, y, weights, t, out)

    def mixed_entropy(
        self, derivatives: Array, y: Labels, weights: Array, moved: Array, given: Array
    ) -> float:
        """``sum_i s_i H(Q_i)``; every class gives away the share ``moved`` of its probability.

        What a sample's classes give away is divided among the classes by ``given``, of sum one.

        Parameters
        ----------
        derivatives : ndarray of shape (K, n)
            ``s_i (P_ik - Y_ik)``.
        y : ndarray of shape (n,)
            Numbers of the classes.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        moved, given : ndarray of shape (K,)
            Shares, between 0 and 1.

        Returns
        -------
        entropy : float
            The offset of the mixed plane.
        """
        return _mixed_entropy(derivatives, y, weights, moved, given)


def class_covariance(derivatives: Array, y: Labels, weights: Array) -> Array:
    """``sum_i s_i (diag P_i - P_i P_i')``: the curvature of the risk in b, shape (K, K).

    Rows and columns sum to zero exactly, and entries are precise where P is nearly 0 or 1.

    Parameters
    ----------
    derivatives : ndarray of shape (K, n)
        ``s_i (P_ik - Y_ik)``.
    y : ndarray of shape (n,)
        Numbers of the classes.
    weights : ndarray of shape (n,)
        The s_i, positive and of sum one.
    """
    weighted = derivatives.copy()
    weighted[y, np.arange(len(y))] += weights
    covariance = -(weighted / weights) @ weighted.T
    np.fill_diagonal(covariance, 0.0)
    np.fill_diagonal(covariance, -covariance.sum(axis=1))
    return covariance


def softmax_loss(loss: Loss) -> Softmax | None:
    """The loss if it is the softmax loss, for solvers that keep scores by class.

    Exact class only: a subclass may be another function.
    """
    return loss if type(loss) is Softmax else None
