"""The contract of a loss: the methods that solvers call, and their generic fallbacks."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.limits import MOST_STEPS
from sklearn_bundle.core.one_variable import search_kink, search_zero
from sklearn_bundle.core.values import Shown

Array = NDArray[np.float64]
_ROUNDINGS = 4.0  # of a risk and of the products that are subtracted from it: pairwise sums


class Cut(NamedTuple):
    """A cutting plane of the empirical risk, in the scores.

    With the derivatives g that :meth:`Loss.cut` writes, ``risk(h) >= <g, h> + offset`` for all
    scores h, with equality where the plane was cut. If the loss minimizes its intercept out, the
    risk is taken at the best b of each h, and the entries of g sum to zero. As functions of the
    weights, these are the planes of algorithm 2 of [1]_.

    Parameters
    ----------
    risk : float
        R(f), or ``min_b R(f + b)``, where the plane was cut.
    offset : float
        Height of the plane at scores of zero.
    intercept : float or ndarray of shape (k,)
        The b at which the plane was cut; 0 if it was not minimized.

    See Also
    --------
    Loss.cut : Returns it.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Hinge
    >>> scores, y, weights = np.array([0.5, -2.0]), np.array([1.0, -1.0]), np.full(2, 0.5)
    >>> g, scratch = np.empty(2), np.empty((4, 2))
    >>> cut = Hinge().cut(scores, y, weights, False, g, scratch)
    >>> cut.risk, cut.offset, bool(cut.risk == g @ scores + cut.offset)
    (0.25, 0.5, True)
    """

    risk: float
    offset: float
    intercept: float | Array


class Target(NamedTuple):
    """The target of one problem, as checked by the estimator.

    Parameters
    ----------
    y : ndarray or None
        Labels in {-1, +1}; for a joint loss the numbers of the classes, from 0, each of them
        present; real targets of shape (n,) or (n, k); grades, relevances or pairs; None if there is
        no target.
    n_samples : int
        Rows of X.
    classes : sequence of length K, default=None
        For a joint loss: the labels, in the order of their numbers.
    group : array-like of shape (n_samples,), default=None
        A query id per sample.
    weights : ndarray of shape (n_samples,), default=None
        For losses of a group: the sample weights; None if all are equal.

    See Also
    --------
    Loss.prepare_target : Takes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Ontology, Target
    >>> loss = Ontology([("animal", "cat"), ("animal", "dog"), ("plant", "oak")])
    >>> numbers = np.array([2, 0, 1, 0])
    >>> bound, y = loss.prepare_target(Target(numbers, 4, classes=["cat", "dog", "oak"]))
    >>> bound.n_outputs(y)
    5
    """

    y: Any
    n_samples: int
    classes: Any = None
    group: ArrayLike | None = None
    weights: NDArray[np.float64] | None = None


class Loss(Shown, ABC):
    """Contract of a loss: a convex risk R(f) of all scores, by default not negative.

    Scores have shape (n,), or (n, k) for a loss with k outputs per sample. ``y`` is the target as
    returned by :meth:`prepare_target`. ``weights`` are the s_i, positive and of sum one; ``out``,
    of the shape of the scores, is filled; ``scratch`` of shape (4, n) is work space. Inputs must
    not be written to.

    :meth:`evaluate` is required. Every other method has a fallback that uses only it, and may be
    overridden if a closed form or a compiled function is faster. Instances hold only parameters, in
    attributes of the same names, so that they can be cloned and pickled.

    See Also
    --------
    BinaryLoss, MulticlassLoss, RegressionLoss : Sums over samples, to derive from.
    MeasureLoss, RankingLoss : Functions of all scores at once, to derive from.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Hinge
    >>> scores, y, weights = np.array([2.0, 0.5, -1.0]), np.array([1.0, 1.0, -1.0]), np.ones(3) / 3
    >>> subgradient = np.empty(3)
    >>> round(Hinge().evaluate(scores, y, weights, subgradient), 6)
    0.166667
    >>> subgradient.round(6).tolist()
    [0.0, -0.333333, 0.0]
    """

    #: What is done with an intercept that is not penalized. "minimized": b is a number, and R(f) is
    #: minimized over it at every plane. "joint": b, one number per output, is a coordinate of the
    #: planes. None: the risk does not depend on it, or the loss has its own.
    free_intercept: ClassVar[str | None] = "minimized"
    #: Whether all classes make one problem, with one score per class. If not, they are handled
    #: one-versus-rest, with one problem per class, and y is -1 or +1.
    joint: ClassVar[bool] = False
    #: Whether R is never negative, as for every loss of a class, a target or an order.
    nonnegative: ClassVar[bool] = True
    #: Whether R has a derivative everywhere.
    smooth: ClassVar[bool] = False
    #: Whether the loss supports sample weights; if not, the reason.
    supports_weights: ClassVar[bool] = True
    weights_reason: ClassVar[str] = ""
    #: Optional method ``probability(scores)`` of a loss of classes; None without probabilities.
    probability: ClassVar[Callable[..., Array] | None] = None
    #: Optional method ``log_probability(scores)``, the logarithm of it without overflow; for a loss
    #: of two classes with P(y = -1 | f) = P(y = +1 | -f).
    log_probability: ClassVar[Callable[..., Array] | None] = None

    def prepare_target(self, target: Target) -> "Prepared":
        """The loss for a given target, and the ``y`` that its other methods take.

        Estimators call it once per problem, before any work. By default it returns this loss and
        ``target.y``, after :meth:`check`.

        Parameters
        ----------
        target : Target
            The target, as checked by the estimator.

        Returns
        -------
        prepared : Prepared
            Loss and y.

        Raises
        ------
        ValueError
            For an invalid target or parameter of the loss.
        """
        self.check(target.y)
        return Prepared(self, target.y)

    def check(self, y: Any) -> None:
        """Raise ValueError for an invalid target or parameter; by default never.

        Parameters
        ----------
        y : ndarray or None
            As in :class:`Target`.

        Raises
        ------
        ValueError
            Says what is wrong.
        """

    @abstractmethod
    def evaluate(self, scores: Array, y: Any, weights: Array, out: Array) -> float:
        """R(f); writes a subgradient of R in f into ``out``. Required.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.
        y : object
            The target: an array with one entry per sample, or what the loss made of it.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        out : ndarray of the shape of scores
            Filled with a subgradient.

        Returns
        -------
        risk : float
            R(f), never negative.
        """

    def n_outputs(self, y: Any) -> int | None:
        """Number k of scores per sample, or None if their shape is (n,).

        Parameters
        ----------
        y : object
            The target.

        Returns
        -------
        k : int or None
            The scores have shape (n, k), or (n,).
        """
        return None

    def risk(self, scores: Array, y: Any, weights: Array, intercept: float | Array) -> float:
        """``R(f + b)``.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.
        y : object
            The target: an array with one entry per sample, or what the loss made of it.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        intercept : float or ndarray of shape (k,)
            The b that is added to all scores, or to those of each output.

        Returns
        -------
        risk : float
            ``R(f + b)``.
        """
        return self.evaluate(scores + intercept, y, weights, np.empty_like(scores))

    def intercept(self, scores: Array, y: Any, weights: Array, scratch: Array) -> float | Array:
        """A b that minimizes ``R(f + b)``; called if ``free_intercept`` is "minimized".

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.
        y : object
            The target: an array with one entry per sample, or what the loss made of it.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        scratch : ndarray of shape (4, n)
            Work space.

        Returns
        -------
        intercept : float, or ndarray of shape (k,)
            A minimizer b.
        """
        bracket = self._bracket_intercept(scores, y, weights)
        return min(bracket, key=lambda b: self.risk(scores, y, weights, b))

    def cut(
        self,
        scores: Array,
        y: Any,
        weights: Array,
        fit_intercept: bool,
        out: Array,
        scratch: Array,
    ) -> Cut:
        """Cutting plane at f, or with ``fit_intercept`` of ``min_b R(f + b)``; g goes to ``out``.

        The fallback brackets the best b between two neighboring floats. The derivative in b is at
        most 0 at the left one and at least 0 at the right one. The convex combination of the two
        planes whose derivative vanishes is a plane too, with or without kinks.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.
        y : object
            The target: an array with one entry per sample, or what the loss made of it.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        fit_intercept : bool
            Whether b is minimized out, if ``free_intercept`` is "minimized".
        out : ndarray of the shape of scores
            Filled with g.
        scratch : ndarray of shape (4, n)
            Work space.

        Returns
        -------
        cut : Cut
            Risk, offset and intercept of the plane.
        """
        if not (fit_intercept and self.free_intercept == "minimized"):
            return self._cut_at(scores, y, weights, 0.0, out)
        left, right = self._bracket_intercept(scores, y, weights)
        gradient_left = np.empty_like(out)
        cut_left = self._cut_at(scores, y, weights, left, gradient_left)
        cut_right = self._cut_at(scores, y, weights, right, out)
        slope_left, slope_right = gradient_left.sum(), out.sum()
        share = slope_right / (slope_right - slope_left) if slope_right > slope_left else 0.0
        out += share * (gradient_left - out)
        best = min(cut_left, cut_right)
        offset = (1.0 - share) * cut_right.offset + share * cut_left.offset
        return Cut(best.risk, offset, best.intercept)

    def slope(
        self, scores: Array, direction: Array, y: Any, weights: Array, t: float
    ) -> tuple[float, float]:
        """First and second derivative in t of ``R(f + t h)``.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.
        direction : ndarray of the shape of scores
            Direction h.
        y : object
            The target: an array with one entry per sample, or what the loss made of it.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        t : float
            Step.

        Returns
        -------
        first : float
            First derivative; at a kink a subgradient.
        second : float
            Second derivative, NaN if it is not known.
        """
        gradient = np.empty_like(scores)
        self.evaluate(scores + t * direction, y, weights, gradient)
        return float(np.sum(gradient * direction)), np.nan

    def line_search(
        self,
        scores: Array,
        direction: Array,
        y: Any,
        weights: Array,
        slope: float,
        curvature: float,
        scratch: Array,
    ) -> float:
        """Step t >= 0 that minimizes ``slope t + curvature t^2/2 + R(f + t h)``.

        The fallback brackets the zero of the derivative. It then takes Newton steps if the second
        derivative is known and they stay inside, and otherwise halves the interval.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.
        direction : ndarray of the shape of scores
            Direction h.
        y : object
            The target: an array with one entry per sample, or what the loss made of it.
        weights : ndarray of shape (n,)
            The s_i, positive and of sum one.
        slope, curvature : float
            First and second derivative of the regularizer, which is added to the risk.
        scratch : ndarray of shape (4, n)
            Work space.

        Returns
        -------
        t : float
            The step, 0 if the sum does not fall.
        """

        def derivative(t: float) -> tuple[float, float]:
            first, second = self.slope(scores, direction, y, weights, t)
            return slope + curvature * t + first, curvature + second

        return search_zero(derivative)

    def _search_kinks(self, scores, direction, y, weights, slope, curvature, **ends) -> float:
        """The same by subgradients alone; ``ends`` are what ends :func:`search_kink`."""
        gradient = np.empty_like(scores)

        def along(t: float) -> tuple[float, float]:
            risk = self.evaluate(scores + t * direction, y, weights, gradient)
            return risk, float(np.vdot(gradient, direction))

        return search_kink(along, slope, curvature, **ends)

    def _cut_at(self, scores: Array, y: Any, weights: Array, b: float, out: Array) -> Cut:
        shifted = scores + b
        risk = self.evaluate(shifted, y, weights, out)
        return Cut(risk, tangent_offset(risk, out, shifted), b)

    def _bracket_intercept(self, scores: Array, y: Any, weights: Array) -> tuple[float, float]:
        def slope(b):
            return self.slope(scores + b, np.ones_like(scores), y, weights, 0.0)[0]

        left, right = -1.0, 1.0
        while slope(left) > 0.0 and left > -1e300:
            left, right = 4.0 * left, left
        while slope(right) < 0.0 and right < 1e300:
            left, right = right, 4.0 * right
        for _ in range(MOST_STEPS):  # about 55 reach two neighboring floats, more if b is near 0
            middle = 0.5 * (left + right)
            if not left < middle < right:
                break
            at_middle = slope(middle)
            if at_middle == 0.0:
                return middle, middle
            if at_middle < 0.0:
                left = middle
            else:
                right = middle
        return left, right


def tangent_offset(risk: float, derivatives: Array, scores: Array) -> float:
    """The offset of the plane that touches the risk at these scores, less its rounding.

    Far from the solution both terms are so large that nothing else of a difference is left.
    """
    products = derivatives * scores
    size = abs(risk) + float(np.sum(np.abs(products)))
    return risk - float(np.sum(products)) - _ROUNDINGS * np.finfo(float).eps * size


class Prepared(NamedTuple):
    """A loss for one target, and the target in the form that this loss takes.

    Parameters
    ----------
    loss : Loss
        The loss, with what it needs to know about the target.
    y : object
        What the methods of this loss take for ``y``.

    See Also
    --------
    Loss.prepare_target : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Hinge, Target
    >>> loss, y = Hinge().prepare_target(Target(np.array([1.0, -1.0]), 2))
    >>> loss.value(np.zeros(2), y)
    array([1., 1.])
    """

    loss: Loss
    y: Any
