"""Losses of all scores at once, known by their planes: the contracts of measures and rankings."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from sklearn_bundle.linear.losses.base import Array, Loss, Prepared


class PlaneLoss(Loss):
    """A risk that is a maximum of planes in the scores, given by :meth:`plane`."""

    @abstractmethod
    def plane(self, scores: Array, y: Any, weights: Array, out: Array) -> float:
        """The offset c of a plane ``<g, h> + c`` that touches the risk at f. Required.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores f.
        y : object
            The target.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        out : ndarray of shape (n,)
            Filled with g.

        Returns
        -------
        offset : float
            Height c at scores of zero: ``R(h) >= <g, h> + c`` for all scores h, with equality at f.
        """

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        offset = self.plane(scores, y, weights, out)
        risk = float(offset + out @ scores)
        return max(risk, 0.0) if self.nonnegative else risk, offset


class MeasureLoss(PlaneLoss):
    """Base class of losses of all predictions of two classes, and the contract for your own.

    ``y`` holds labels in {-1, +1}. One method is required, :meth:`plane`; the maximum of its planes
    must be convex in the scores and never negative. :meth:`check` may raise ValueError for labels
    that are not supported. ``free_intercept`` is "joint", or None if the risk does not depend on an
    intercept: the classifier then chooses the threshold of the best balanced accuracy.

    See Also
    --------
    ROCAUC, FBeta : The built-in losses, with their sources.
    Loss : All methods that may be overridden.

    Examples
    --------
    A measure of your own, the hinge loss of the worst sample:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.losses import MeasureLoss
    >>> class WorstSample(MeasureLoss):
    ...     free_intercept = "joint"
    ...
    ...     def plane(self, scores, y, weights, out) -> float:
    ...         worst = np.argmin(y * scores)
    ...         wrong = float(y[worst] * scores[worst] < 1.0)
    ...         out[:] = 0.0
    ...         out[worst] = -wrong * y[worst]
    ...         return wrong
    >>> X, y = load_iris(return_X_y=True)
    >>> BMRMClassifier(WorstSample(), reg_lambda=1e-2).fit(X, y == 0).score(X, y == 0)
    1.0
    """


class RankingLoss(PlaneLoss):
    """A loss of differences of scores, on which a common intercept has no effect.

    The contract for your own loss: three methods are required, :meth:`prepare`, ``plane`` and
    :meth:`score`. The risk that the planes define must be convex in the scores and never negative.

    See Also
    --------
    Ordinal : Of grades, with its source.
    NDCG : Of the positions in a list.
    Loss : All methods that may be overridden.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Ordinal, RankingLoss
    >>> loss = Ordinal("constant")
    >>> isinstance(loss, RankingLoss)
    True
    >>> target = loss.prepare([1, 2, 3], None, 3)
    >>> scores, weights = np.array([0.0, 2.0, 1.0]), np.ones(3) / 3
    >>> round(loss.score(scores, target, weights), 3)  # two of three pairs are in order
    0.667
    """

    free_intercept: ClassVar[str | None] = None
    #: Whether the target has grades, which thresholds on the scores separate.
    has_grades: ClassVar[bool] = False

    def prepare_target(self, target) -> Prepared:
        return Prepared(self, self.prepare(target.y, target.group, target.n_samples))

    @abstractmethod
    def prepare(self, y: ArrayLike, group: ArrayLike | None, n_samples: int) -> Any:
        """Immutable target, passed as ``y`` to the other methods. Required.

        Parameters
        ----------
        y : array-like
            The target of ``fit``.
        group : array-like of shape (n_samples,) or None
            A query id per sample, of any type, in any order.
        n_samples : int
            Number of rows of X.

        Returns
        -------
        target : object
            Whatever the other methods need.

        Raises
        ------
        ValueError
            For an invalid target or parameter.
        """

    @abstractmethod
    def score(self, scores: Array, y: Any, weights: Array) -> float:
        """The measure itself, between 0 and 1; larger is better. Required.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores f.
        y : object
            What :meth:`prepare` returned.
        weights : ndarray of shape (n,)
            Weights of the rows, positive.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
