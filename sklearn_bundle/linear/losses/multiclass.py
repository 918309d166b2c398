"""Losses of one score per class and the label's number, with their compiled functions.

``Cut.offset`` is written in closed form, without the cancellation in ``l - <g, f>``: a piece
``gamma (f_k - f_y) + delta`` of a maximum has the offset delta, and softmax the entropy of its
probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bundle.core.one_variable import search_kink
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.linear._compiled.classes import highest
from sklearn_bundle.linear.losses.base import Array, Cut, Loss
from sklearn_bundle.linear.losses.samples import SampleLoss


class MulticlassLoss(SampleLoss):
    """Base class of losses for several classes, and the contract for your own.

    A loss l(y, f) is convex in the scores f, one per class, and never negative. Its label y is the
    number of the class, in 0..K-1. Two methods are required: ``value(scores, y)`` of shape (n,) and
    ``gradient(scores, y)`` of shape (n, K), for scores of shape (n, K); both are plain numpy
    functions of arrays, to which they must not write. Everything else has a fallback that uses only
    these two. A loss that also has a method ``probability(scores)``, shape (n, K), gives the
    classifier ``predict_proba``.

    An intercept is a coordinate of the planes: the scores of :meth:`cut` contain it, and the column
    sums of its g are the plane's entries for it. Instances hold only parameters, in attributes of
    the same names, so that they can be cloned and pickled.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        :meth:`evaluate`, and thus by `fit`.

    See Also
    --------
    MulticlassHinge, Softmax, Ontology : The built-in losses, with their sources.
    Loss : All methods that may be overridden.

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

    _is_contract = True
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
            The scores have shape (n, k).
        """
        return int(y.max()) + 1

    def class_scores(self, scores: Array) -> Array:
        """Scores of the classes from the scores of the loss; by default the same.

        Parameters
        ----------
        scores : ndarray of shape (n, k)
            Scores, k per sample.

        Returns
        -------
        class_scores : ndarray of shape (n, K)
            The class with the largest one is predicted.
        """
        return scores

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        return self._search_kinks(scores, direction, y, weights, slope, curvature)


class CompiledLoss(MulticlassLoss):
    """Methods of the built-in losses, from two compiled functions.

    ``_cut(scores, y, weights, out)`` returns risk and offset, ``_along(scores, direction, y,
    weights, t)`` value, first and second derivative in t of ``R(f + t h)``.
    """

    _cut: Callable[..., tuple[float, float]]
    _along: Callable[..., tuple[float, float, float]]

    def evaluate(self, scores, y, weights, out) -> float:
        return self._cut(scores, y, weights, out)[0]

    def gradient(self, scores, y) -> Array:
        out = np.empty_like(scores)
        self._cut(scores, y, np.ones(len(scores)), out)
        return out

    def risk(self, scores, y, weights, intercept) -> float:
        moved = scores + intercept if np.any(intercept) else scores
        return self._along(moved, moved, y, weights, 0.0)[0]

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        return Cut(*self._cut(scores, y, weights, out), 0.0)

    def slope(self, scores, direction, y, weights, t) -> tuple[float, float]:
        return self._along(scores, direction, y, weights, t)[1:]


# ---- hinge ---------------------------------------------------------------------------------


@jit
def _hinge_cut(scores, y, weights, costs, slack, out):
    risk = 0.0
    offset = 0.0
    out[:] = 0.0
    for i in range(scores.shape[0]):
        label = y[i]
        value, at = highest(scores, i, label, costs, slack)
        cost = costs[min(label, costs.shape[0] - 1), at] * (at != label)
        pull = weights[i] * (cost if slack else 1.0)
        risk += weights[i] * value
        offset += weights[i] * cost
        out[i, at] += pull
        out[i, label] -= pull
    return risk, offset


@jit
def _hinge_along(scores, direction, y, weights, costs, slack, t):
    """Risk at scores + t direction, and its derivative, or at a kink a subgradient, in t."""
    risk = 0.0
    slope = 0.0
    for i in range(scores.shape[0]):
        label = y[i]
        c = min(label, costs.shape[0] - 1)
        own, drift = scores[i, label], direction[i, label]
        best = climb = 0.0
        broken = False
        for k in range(scores.shape[1]):
            cost = costs[c, k] * (k != label)
            gamma = cost if slack else 1.0
            step = gamma * (direction[i, k] - drift)
            v = gamma * (scores[i, k] - own) + cost + t * step
            higher = v > best
            broken |= v != v
            best = v if higher else best
            climb = step if higher else climb
        risk += weights[i] * (np.nan if broken else best)
        slope += weights[i] * climb
    return risk, slope


class MulticlassHinge(CompiledLoss):
    """Multiclass hinge loss of Crammer and Singer, with costs Delta of confusing classes.

    ``l(y, f) = max_k f_k - f_y + Delta(y, k)`` with ``scaling="margin"`` and
    ``max_k Delta(y, k) (f_k - f_y + 1)`` with ``scaling="slack"``; k = y gives 0. These are the
    first two rows of table 6 in [1]_, equation 29, with its Gamma = 1 and Gamma = Delta.

    Parameters
    ----------
    cost : array-like of shape (K, K), default=None
        Delta(y, k), classes in sorted order, y the row: at least 0, and 0 on the diagonal. None
        means 1 for every confusion; the two scalings are then the same. For "margin" it is in the
        unit of the scores; for "slack" it multiplies the loss.
    scaling : {"margin", "slack"}, default="margin"
        Whether a costlier confusion requires a larger margin, or is penalized more if the margin is
        below 1.

    Raises
    ------
    ValueError
        If `cost` is not a matrix with one row and one column per class, has a negative or nonfinite
        entry or a nonzero diagonal, or for an unknown `scaling`; raised by `fit`.

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
    >>> MulticlassHinge(cost).value(scores, y), MulticlassHinge(cost, "slack").value(scores, y)
    (array([3.5]), array([4.5]))
    """

    def __init__(
        self, cost: ArrayLike | None = None, scaling: Literal["margin", "slack"] = "margin"
    ):
        self.cost = cost
        self.scaling = scaling

    def check(self, y) -> None:
        if not (isinstance(self.scaling, str) and self.scaling in ("margin", "slack")):
            raise ValueError(f"scaling must be 'margin' or 'slack', but is {shown(self.scaling)}.")
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

    def _costs(self, n_classes):
        if self.cost is None:
            return np.ones((1, n_classes))
        return np.ascontiguousarray(self.cost, dtype=np.float64)

    def _cut(self, scores, y, weights, out):
        costs = self._costs(scores.shape[1])
        return _hinge_cut(scores, y, weights, costs, self.scaling == "slack", out)

    def _along(self, scores, direction, y, weights, t):
        costs = self._costs(scores.shape[1])
        slack = self.scaling == "slack"
        return *_hinge_along(scores, direction, y, weights, costs, slack, t), np.nan

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        arguments = scores, direction, y, weights, self._costs(scores.shape[1])
        slack = self.scaling == "slack"
        return search_kink(lambda t: _hinge_along(*arguments, slack, t), slope, curvature)

    def value(self, scores, y) -> Array:
        costs = self._costs(scores.shape[1])
        delta = costs[np.minimum(y, len(costs) - 1)]
        gamma = delta if self.scaling == "slack" else 1.0
        rows = np.arange(len(y))
        pieces = gamma * (scores - scores[rows, y][:, None]) + delta
        pieces[rows, y] = 0.0
        return pieces.max(axis=1)


def check_cost(cost: ArrayLike | None, n_classes: int) -> None:
    """Raise ValueError unless cost is None or a matrix with one row and one column per class."""
    if cost is None:
        return
    try:
        cost = as_numbers("cost", cost)
    except ValueError:
        what = "a matrix of numbers or None"
        raise ValueError(f"cost must be {what}, but is {shown(cost)}.") from None
    if cost.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost must have a row and a column for each of the {n_classes} classes, shape "
            f"({n_classes}, {n_classes}), but has shape {cost.shape}: {shown(cost)}."
        )
    wrong = ~(np.isfinite(cost) & (cost >= 0.0))
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(f"cost must be finite and at least 0, but cost[{i}, {j}] is {cost[i, j]}.")
    if cost.diagonal().any():
        i = np.flatnonzero(cost.diagonal())[0]
        raise ValueError(f"cost must be 0 on its diagonal, but cost[{i}, {i}] is {cost[i, i]}.")


def dual_hinge(loss: Loss) -> MulticlassHinge | None:
    """The loss if it has dual steps; None otherwise.

    Slack scaling weighs the differences of scores: the best alpha of a row is then not a projection
    onto the simplex. Without costs both scalings are the same.
    """
    if type(loss) is MulticlassHinge and (loss.scaling == "margin" or loss.cost is None):
        return loss
    return None
