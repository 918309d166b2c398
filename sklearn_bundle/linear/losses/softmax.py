"""Cross-entropy of a score per class. Scores are kept by class, shape (K, n)."""

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from sklearn_bundle.core.limits import TINY
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.jit.elementary import exp, log, log1p_unit
from sklearn_bundle.linear.losses.base import Array
from sklearn_bundle.linear.losses.multiclass import CHUNK, Labels, MulticlassLoss


@jit
def _along(scores, direction, y, weights, t, out):
    """Risk, its first and second derivative in t, and the entropy of the probabilities P.

    ``out`` becomes ``s (P - Y)``, unless it has no rows.
    """
    n_classes, n = scores.shape
    risk = first = second = entropy = 0.0
    powers = np.empty((n_classes, CHUNK))
    top, others, below, mean, square = np.empty((5, CHUNK))
    at = np.empty(CHUNK, dtype=np.int64)
    for start in range(0, n, CHUNK):
        rows = slice(start, min(start + CHUNK, n))
        s, own = weights[rows], y[rows]
        for i in range(len(s)):
            top[i] = -np.inf
            others[i] = below[i] = mean[i] = square[i] = 0.0
            at[i] = 0
        for k in range(n_classes):
            f, h, moved = scores[k, rows], direction[k, rows], powers[k]
            for i in range(len(s)):
                v = f[i] + t * h[i]
                moved[i] = v
                higher = (v > top[i]) | (v != v)  # NaN stays the largest, and makes the risk NaN
                top[i] = v if higher else top[i]
                at[i] = k if higher else at[i]
        for i in range(len(s)):
            risk += s[i] * (top[i] - powers[own[i], i])
        for k in range(n_classes):
            h, power = direction[k, rows], powers[k]
            for i in range(len(s)):
                distance = top[i] - power[i]
                e = exp(-distance)
                power[i] = e
                # The largest is exactly 1: the small sum of the others keeps its precision.
                others[i] += e if at[i] != k else 0.0
                below[i] += e * distance if e > 0.0 else 0.0
                mean[i] += e * h[i]
                square[i] += e * h[i] * h[i]
        for i in range(len(s)):
            share = 1.0 / (1.0 + others[i])
            logs = log1p_unit(others[i]) if others[i] <= 1.0 else log(1.0 + others[i])
            average = mean[i] * share
            risk += s[i] * logs
            entropy += s[i] * (logs + share * below[i])
            first += s[i] * (average - direction[own[i], start + i])
            second += s[i] * max(share * square[i] - average * average, 0.0)
            top[i] = s[i] * share
        if len(out) == 0:
            continue
        for k in range(n_classes):
            power, g = powers[k], out[k, rows]
            for i in range(len(s)):
                g[i] = top[i] * power[i]
        for i in range(len(s)):
            # 1 - p of the label would lose precision if p is nearly 1
            rest = others[i] if at[i] == own[i] else 1.0 + others[i] - powers[own[i], i]
            out[own[i], start + i] = -top[i] * rest
    return risk, first, second, entropy


@jit
def _entropy(derivatives, y, weights):
    """``sum_i s_i H(P_i)`` for ``s_i (P_ik - Y_ik)``.

    P of the label is 1 minus the others; near 1 its entropy is computed from their sum.
    """
    n_classes, n = derivatives.shape
    total = 0.0
    entropy, rest = np.empty((2, CHUNK))
    for start in range(0, n, CHUNK):
        rows = slice(start, min(start + CHUNK, n))
        s, own = weights[rows], y[rows]
        for i in range(len(s)):
            entropy[i] = rest[i] = 0.0
        for k in range(n_classes):
            g = derivatives[k, rows]
            for i in range(len(s)):
                p = 0.0 if own[i] == k else g[i] / s[i]
                rest[i] += p
                entropy[i] -= p * log(max(p, TINY))
        for i in range(len(s)):
            label = max(1.0 - rest[i], 0.0)
            total += s[i] * (entropy[i] - label * np.log1p(-min(rest[i], 1.0 - 1e-16)))
    return total


class Softmax(MulticlassLoss):
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

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        risk, _, _, entropy = _along(scores, scores, y, weights, 0.0, out)
        return risk, entropy

    def along(self, scores, direction, y, weights, t) -> tuple[float, float, float]:
        return _along(scores, direction, y, weights, t, np.empty((0, 0)))[:3]

    def offset(self, derivatives, y, weights) -> float:
        """The entropy of the probabilities, from ``s_i (P_ik - Y_ik)``."""
        return _entropy(derivatives, y, weights)

    def covariance(self, derivatives: Array, y: Labels, weights: Array) -> Array:
        """``sum_i s_i (diag P_i - P_i P_i')``: the curvature of the risk in the intercepts.

        Rows and columns sum to zero exactly, and entries are precise where P is nearly 0 or 1.

        Parameters
        ----------
        derivatives : ndarray of shape (K, n)
            ``s_i (P_ik - Y_ik)``.
        y : ndarray of shape (n,)
            Numbers of the classes.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.

        Returns
        -------
        covariance : ndarray of shape (K, K)
            Positive semidefinite.
        """
        weighted = derivatives.copy()
        weighted[y, np.arange(len(y))] += weights
        covariance = -(weighted / weights) @ weighted.T
        np.fill_diagonal(covariance, 0.0)
        np.fill_diagonal(covariance, -covariance.sum(axis=1))
        return covariance

    def balanced(
        self, derivatives: Array, y: Labels, weights: Array, surplus: Array, shares: Array
    ) -> Array:
        """Derivatives ``s (P - Y)`` that sum to zero for every class.

        A class that has too much probability gives a share of it away, in every row, to classes
        that have too little: ``Q = P M`` with rows of M on the simplex. The entropy of Q makes a
        plane.

        Parameters
        ----------
        derivatives : ndarray of shape (K, n)
            Of all rows or of some.
        y : ndarray of shape (n,)
            Numbers of the classes.
        weights : ndarray of shape (n,)
            The s_i of these rows.
        surplus : ndarray of shape (K,)
            The sums of the derivatives over all rows.
        shares : ndarray of shape (K,)
            The weights of the classes.

        Returns
        -------
        balanced : ndarray of shape (K, n)
            Derivatives of the mixed probabilities.
        """
        deficit, excess = np.maximum(-surplus, 0.0), np.maximum(surplus, 0.0)
        total = float(deficit.sum())
        if not total > 0.0:
            return derivatives.copy()
        # The part that moves, not the part that stays: next to 1 it would lose digits.
        moved = np.minimum(excess / np.maximum(excess + shares, TINY), 1.0)[:, None]
        places = np.arange(len(y))
        probabilities = np.maximum(derivatives, 0.0)
        probabilities[y, places] = np.maximum(weights + derivatives[y, places], 0.0)
        lost = moved * probabilities
        taken = np.asarray(lost.sum(axis=0), dtype=np.float64)
        return derivatives - lost + np.outer(deficit / total, taken)
