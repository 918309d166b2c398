"""Losses of one score per class and the label's number: the contract, and the multiclass hinge.

Solvers keep scores by class, shape (K, n): compiled loops run over the samples of one class, and
vectorize for any K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear.losses.base import Array, Loss, SampleLoss, must_be

Labels = NDArray[np.int64]
CHUNK = 256  # samples per chunk: the numbers of 20 classes take 40 KB, which fits into caches


class MulticlassLoss(SampleLoss):
    """Base class of losses for several classes, and the contract for your own.

    A loss l(y, f) is convex in the scores f, one per class, and never negative. Its label y is the
    number of the class, in 0..K-1. Two methods are required: ``value(scores, y)`` of shape (n,) and
    ``gradient(scores, y)`` of shape (n, K), for scores of shape (n, K); both are plain numpy
    functions of arrays, to which they must not write. Everything else has a fallback that uses only
    these two. A loss that also has a method ``probability(scores)``, shape (n, K), gives the
    classifier ``predict_proba``.

    Instances hold only parameters, in attributes of the same names, so that they can be cloned and
    pickled.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        `fit`.

    See Also
    --------
    MulticlassHinge, Softmax : The built-in losses, with their sources.
    Loss : What else a loss has.

    Examples
    --------
    Least squares on the indicators of the classes, a loss of your own:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.losses import MulticlassLoss
    >>> class Indicators(MulticlassLoss):
    ...     def value(self, scores, y):
    ...         return 0.5 * np.sum(self.gradient(scores, y) ** 2, axis=1)
    ...
    ...     def gradient(self, scores, y):
    ...         return scores - np.eye(scores.shape[1])[y]
    >>> X, y = load_iris(return_X_y=True)
    >>> BMRMClassifier(Indicators(), reg_lambda=1e-2).fit(X, y).coef_.shape
    (3, 4)
    """

    free_intercept = "joint"
    joint = True

    def n_outputs(self, y: Array) -> int:
        """Scores per sample: the number of classes, each of which must be present in ``y``.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Numbers of the classes, from 0.

        Returns
        -------
        k : int
            Solvers keep scores of shape (k, n).
        """
        return int(y.max()) + 1


# ---- hinge ---------------------------------------------------------------------------------------


@jit
def _along(scores, direction, y, weights, costs, t, worst):
    """The risk at scores + t direction and its derivative in t, or at a kink a subgradient.

    ``costs[k, y]`` is that of the class k. ``worst`` becomes the class that attains each row's
    loss: the label itself if that is zero. The risk is NaN if a score is.
    """
    n_classes, n = scores.shape
    risk = slope = 0.0
    own, drift, best, climb, delta = np.empty((5, CHUNK))
    for start in range(0, n, CHUNK):
        rows = slice(start, min(start + CHUNK, n))
        labels, s, at = y[rows], weights[rows], worst[rows]
        for i in range(len(s)):
            own[i] = scores[labels[i], start + i]
            drift[i] = direction[labels[i], start + i]
            best[i] = climb[i] = 0.0
            at[i] = labels[i]
        for k in range(n_classes):
            f, h = scores[k, rows], direction[k, rows]
            for i in range(len(s)):
                delta[i] = costs[k, labels[i]]
            for i in range(len(s)):
                step = h[i] - drift[i]
                v = (f[i] - own[i]) + delta[i] + t * step
                higher = (v > best[i]) | (v != v)
                best[i] = v if higher else best[i]
                climb[i] = step if higher else climb[i]
                at[i] = k if higher else at[i]
        for i in range(len(s)):
            risk += s[i] * best[i]
            slope += s[i] * climb[i]
    return risk, slope


class MulticlassHinge(MulticlassLoss):
    """Multiclass hinge loss of Crammer and Singer, with costs Delta of confusing classes.

    ``l(y, f) = max_k f_k - f_y + Delta(y, k)``; k = y gives 0. It is the first row of table 6 in
    [1]_, equation 29 with Gamma = 1.

    Parameters
    ----------
    cost : array-like of shape (K, K), default=None
        Delta(y, k), classes in sorted order, y the row: at least 0, and 0 on the diagonal. None
        means 1 for every confusion. It is in the unit of the scores: a costlier confusion requires
        a larger margin.

    Raises
    ------
    ValueError
        If `cost` is not a matrix with one row and one column per class, has a negative or nonfinite
        entry or a nonzero diagonal; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import MulticlassHinge
    >>> scores, y = np.array([[0.0, 2.0, 0.5]]), np.array([0])
    >>> cost = [[0, 1, 3], [1, 0, 1], [3, 1, 0]]
    >>> MulticlassHinge().value(scores, y)
    array([3.])
    >>> MulticlassHinge(cost).value(scores, y)
    array([3.5])
    """

    def __init__(self, cost: ArrayLike | None = None):
        self.cost = cost

    def check(self, y) -> None:
        check_cost(self.cost, int(y.max()) + 1)

    def costs(self, n_classes: int) -> Array:
        """Delta.

        Parameters
        ----------
        n_classes : int
            The number K of classes.

        Returns
        -------
        costs : ndarray of shape (K, K)
            Zeros on the diagonal.
        """
        if self.cost is None:
            return 1.0 - np.eye(n_classes)
        return np.array(self.cost, dtype=np.float64)

    def value(self, scores, y) -> Array:
        return self._pieces(scores, y).max(axis=1)

    def gradient(self, scores, y) -> Array:
        pieces = self._pieces(scores, y)
        rows, worst = np.arange(len(y)), pieces.argmax(axis=1)
        worst = np.where(pieces[rows, worst] > 0.0, worst, y)
        gradient = np.zeros_like(scores)
        gradient[rows, worst] += 1.0
        gradient[rows, y] -= 1.0
        return gradient

    def _pieces(self, scores: Array, y: Labels) -> Array:
        """The losses of all classes."""
        return scores - scores[np.arange(len(y)), y][:, None] + self.costs(scores.shape[1])[y]

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        worst, rows = np.empty_like(y), np.arange(len(y))
        risk = self._risk(scores, scores, y, weights, 0.0, worst)[0]
        costs = self.costs(len(scores))[y, worst]
        out.fill(0.0)
        out[worst, rows] = weights
        out[y, rows] -= weights
        return risk, float(np.sum(weights * costs))

    def along(self, scores, direction, y, weights, t) -> tuple[float, float, float]:
        return *self._risk(scores, direction, y, weights, t, np.empty_like(y)), np.nan

    def offset(self, derivatives, y, weights) -> float:
        """``sum_i s_i <alpha_i, Delta(y_i, .)>`` with derivatives ``s_i (alpha_i - e_y)``."""
        costs = self.costs(len(derivatives)).T
        return float(sum(g @ cost[y] for g, cost in zip(derivatives, costs, strict=True)))

    def _risk(self, scores, direction, y, weights, t, worst) -> tuple[float, float]:
        costs = np.ascontiguousarray(self.costs(len(scores)).T)
        return _along(scores, direction, y, weights, costs, t, worst)


def check_cost(cost: ArrayLike | None, n_classes: int) -> None:
    """Raise ValueError unless cost is None or a matrix with one row and one column per class."""
    if cost is None:
        return
    try:
        matrix = as_numbers("cost", cost)
    except ValueError:
        raise must_be("cost", "a matrix of numbers or None", cost) from None
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost must have a row and a column for each of the {n_classes} classes, shape "
            f"({n_classes}, {n_classes}), but has shape {matrix.shape}: {shown(matrix)}."
        )
    wrong = ~(np.isfinite(matrix) & (matrix >= 0.0))
    wrong |= np.eye(n_classes, dtype=bool) & (matrix != 0.0)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        what = "finite and at least 0" if i != j else "0 on its diagonal"
        raise ValueError(f"cost must be {what}, but cost[{i}, {j}] is {matrix[i, j]}.")


def has_dual(loss: Loss) -> bool:
    """Whether the loss has steps of the dual by class."""
    return type(loss) is MulticlassHinge
