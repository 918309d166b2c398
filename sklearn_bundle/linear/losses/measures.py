"""Losses that bound a measure of all predictions of two classes: ROC area and F-beta.

The risk is not a sum over samples, but it is a maximum of planes in the scores.
"""

import numpy as np

from sklearn_bundle.core.values import as_float, is_between, shown
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear.losses.planes import MeasureLoss

# ---- ROC area ------------------------------------------------------------------------------


@jit
def _roc_plane(scores, signed_weights, out):
    """Offset and subgradient of the sum over pairs, and the weights of the two classes.

    All arrays are in ascending order of the scores; ``signed_weights`` are y_i s_i. A positive i
    and a negative j have a loss if f_i - f_j < 1. The left side is monotone in each score, even
    when rounded, so two pointers find these pairs, the same ones in both passes.
    """
    n = scores.shape[0]
    offset = 0.0
    reached = 0
    positive = 0.0  # weight of the positives up to ``reached``, less than 1 above the negative j
    for j in range(n):
        if signed_weights[j] < 0.0:
            while reached < n and scores[reached] - scores[j] < 1.0:
                positive += max(signed_weights[reached], 0.0)
                reached += 1
            out[j] = -signed_weights[j] * positive
            offset += out[j]
    for i in range(reached, n):
        positive += max(signed_weights[i], 0.0)
    reached = n - 1
    negative = 0.0
    for i in range(n - 1, -1, -1):
        if signed_weights[i] > 0.0:
            while reached >= 0 and scores[i] - scores[reached] < 1.0:
                negative -= min(signed_weights[reached], 0.0)
                reached -= 1
            out[i] = -signed_weights[i] * negative
    for j in range(reached + 1):
        negative -= min(signed_weights[j], 0.0)
    return offset, positive, negative


class ROCAUC(MeasureLoss):
    """Pairwise hinge loss of each positive with each negative; bounds 1 - area under the ROC curve.

    ``R(f) = sum_ij s_i s_j max(0, 1 - (f_i - f_j)) / (S_plus S_minus)``, i over the positives and j
    over the negatives, S_plus and S_minus the weights of the classes. It takes O(n log n): equation
    27 and algorithm 7 of [1]_, here with weights.

    Raises
    ------
    ValueError
        If y has a single class; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import ROCAUC
    >>> scores, y, weights = np.array([2.0, 0.0, 0.5]), np.array([1.0, 1.0, -1.0]), np.ones(3) / 3
    >>> round(ROCAUC().risk(scores, y, weights), 6)  # pairs (0, 2) and (1, 2): 0 and 1.5
    0.75
    """

    free_intercept = None

    def check(self, y) -> None:
        """Raise ValueError unless both classes are present."""
        if not ((y > 0.0).any() and (y < 0.0).any()):
            raise ValueError("The ROC area needs samples of both classes, but y has one only.")

    def plane(self, scores, y, weights, out) -> float:
        order = np.argsort(scores)
        gradient = np.zeros_like(out)
        offset, positive, negative = _roc_plane(scores[order], (y * weights)[order], gradient)
        out[order] = gradient / (positive * negative)
        return offset / (positive * negative)


# ---- F-beta --------------------------------------------------------------------------------

_LARGEST_BETA = 1e150  # its square times a number of samples is finite


@jit
def _worst_table(positives, negatives, beta2, n):
    """True positives p and false positives q of the labeling that maximizes the loss.

    ``positives`` and ``negatives`` are the scores of the classes, both in descending order. Among
    labelings with the same p and q, the worst one labels the largest scores as positive. With N = p
    + q fixed, the loss is concave in p: sums of descending numbers are concave, and Delta = 1 - (1
    + beta^2) p / (beta^2 m_plus + N) is linear. In (p, N) its cross differences are positive, and
    the domain is a lattice, so the best p (the smallest of several) never falls as N grows
    (Topkis). The walk along the best p's takes O(n) steps.
    """
    m_plus, m_minus = positives.shape[0], negatives.shape[0]
    best, best_p, best_q = 0.0, m_plus, 0  # the true labels
    p = 0
    inner = 0.0  # sum of (y'_i - y_i) f_i / 2
    for i in range(m_plus):
        inner -= positives[i]
    for size in range(m_plus + m_minus + 1):
        gain = (1.0 + beta2) / (beta2 * m_plus + size)
        if size > 0:
            if size - p <= m_minus:
                inner += negatives[size - p - 1]
            else:
                inner += positives[p]
                p += 1
        while p < min(size, m_plus):
            swapped = positives[p] - negatives[size - p - 1]
            if not 2.0 * swapped / n - gain > 0.0:
                break
            inner += swapped
            p += 1
        value = 1.0 - gain * p + 2.0 * inner / n
        if value > best:
            best, best_p, best_q = value, p, size - p
    return best_p, best_q


class FBeta(MeasureLoss):
    """Structured loss of all labels at once; bounds 1 - F_beta of the predictions sign(f).

    ``R(f) = max_y' Delta(y', y) + (1/n) sum_i (y'_i - y_i) f_i`` over all labelings y', with
    ``Delta = 1 - F_beta = 1 - (1 + beta^2) T_plus / (beta^2 m_plus + T_plus + F_plus)``. The paper
    has no 1/n; with it, scores count as in a mean over samples. If positives are rare, scores must
    be large, which requires a smaller reg_lambda than other losses. See section A.3.5 and algorithm
    11 of [1]_; its O(n^2) search is replaced by an exact one in O(n log n). Sample weights are not
    supported.

    Parameters
    ----------
    beta : float, default=1.0
        Positive, below 1e150; recall counts beta times as much as precision.

    Raises
    ------
    ValueError
        If `beta` is not positive and finite, if no sample is in the positive class, or if weights
        are given; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import FBeta
    >>> scores, y, weights = np.array([4.0, -4.0, 4.0]), np.array([1.0, -1.0, 1.0]), np.ones(3) / 3
    >>> FBeta().risk(scores, y, weights)
    0.0
    >>> round(FBeta().risk(-scores, y, weights), 6)  # all wrong: 1 + 2 (4 + 4 + 4) / 3
    9.0
    """

    free_intercept = "joint"
    supports_weights = False
    weights_reason = (
        "with sample weights the worst labeling would be the solution of a knapsack problem"
    )

    def __init__(self, beta: float = 1.0):
        self.beta = as_float(beta)

    def check(self, y) -> None:
        """Raise ValueError for a beta that is not positive, or without positives."""
        if not is_between(self.beta, 0.0, _LARGEST_BETA):
            raise ValueError(
                f"beta must be positive and finite, below {_LARGEST_BETA:g}, but is "
                f"{shown(self.beta)}."
            )
        if not (y > 0.0).any():
            raise ValueError("F_beta needs a sample of the positive class, but y has none.")

    def plane(self, scores, y, weights, out) -> float:
        order = np.argsort(-scores)
        is_positive = y[order] > 0.0
        positives, negatives = order[is_positive], order[~is_positive]
        n, m_plus, beta2 = len(y), len(positives), self.beta**2
        p, q = _worst_table(scores[positives], scores[negatives], beta2, n)
        out[:] = 0.0
        out[positives[p:]] = -2.0 / n
        out[negatives[:q]] = 2.0 / n
        return 1.0 - (1.0 + beta2) * p / (beta2 * m_plus + p + q)
