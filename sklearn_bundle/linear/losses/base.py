"""What a loss is to estimators and solvers, and the losses that are sums over samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.parameters import Parameters, forget_inherited
from sklearn_bundle.core.values import shown

Array = NDArray[np.float64]


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
    group : array-like of shape (n_samples,), default=None
        A query id per sample.

    See Also
    --------
    Loss.prepare_target : Takes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Softmax, Target
    >>> loss, y = Softmax().prepare_target(Target(np.array([2, 0, 1, 0]), 4))
    >>> loss.n_outputs(y)
    3
    """

    y: Any
    n_samples: int
    group: ArrayLike | None = None


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


class Loss(Parameters, ABC):
    """Contract of a loss: a convex risk R(f) of all scores, by default not negative.

    There are three forms, from which to derive. A loss of one score is a sum over samples of
    ``l(y_i, f_i)``: :class:`BinaryLoss` and :class:`RegressionLoss`. A loss by class is one of k
    scores per sample: :class:`MulticlassLoss`, and :class:`RegressionLoss` of several targets. Of
    all others only their planes are known: :class:`MeasureLoss` and :class:`RankingLoss`.

    Instances hold only parameters, in attributes of the same names, so that they can be cloned and
    pickled. In all methods ``weights`` are the s_i, positive and of sum one, and ``y`` is the
    target as returned by :meth:`prepare_target`. Nothing may be written to but ``out``.

    See Also
    --------
    BinaryLoss, MulticlassLoss, RegressionLoss : Sums over samples, to derive from.
    MeasureLoss, RankingLoss : Functions of all scores at once, to derive from.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Hinge
    >>> scores, y, weights = np.array([2.0, 0.5, -1.0]), np.array([1.0, 1.0, -1.0]), np.ones(3) / 3
    >>> derivatives = np.empty(3)
    >>> risk, offset = Hinge().cut(scores, y, weights, derivatives)
    >>> round(risk, 6), derivatives.round(6).tolist()
    (0.166667, [0.0, -0.333333, 0.0])
    """

    #: What is done with an intercept that is not penalized. "minimized": R(f) is minimized over it
    #: at every point. "joint": b, one number per output, is a coordinate of the planes. None: the
    #: risk does not depend on it, or the loss has its own.
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

    def prepare_target(self, target: Target) -> Prepared:
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
            The loss to fit with, and its ``y``.

        Raises
        ------
        ValueError
            If the target is invalid.
        """
        self.check(target.y)
        return Prepared(self, target.y)

    def check(self, y: Any) -> None:
        """Check parameters and target. Optional: by default nothing is checked.

        Parameters
        ----------
        y : ndarray
            The target of one problem.

        Raises
        ------
        ValueError
            If one of them is invalid.
        """
        return None

    def n_outputs(self, y: Any) -> int | None:
        """Number k of scores per sample, or None if their shape is (n,).

        Parameters
        ----------
        y : object
            The target.

        Returns
        -------
        k : int or None
            Solvers keep scores of shape (k, n), or (n,).
        """
        return None

    @abstractmethod
    def cut(self, scores: Array, y: Any, weights: Array, out: Array) -> tuple[float, float]:
        """The risk R(f), and a plane that touches it at f.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (k, n)
            Scores f.
        y : object
            The target.
        weights : ndarray of shape (n,)
            The s_i.
        out : ndarray of the shape of scores
            Filled with the derivatives g of the risk.

        Returns
        -------
        risk : float
            R(f).
        offset : float
            Height of the plane at scores of zero: ``R(h) >= <g, h> + offset`` for all scores h.
        """

    def risk(self, scores: Array, y: Any, weights: Array) -> float:
        """R(f).

        Parameters
        ----------
        scores : ndarray of shape (n,) or (k, n)
            Scores f.
        y : object
            The target.
        weights : ndarray of shape (n,)
            The s_i.

        Returns
        -------
        risk : float
            The sum over samples, or what takes its place.
        """
        return self.cut(scores, y, weights, np.empty_like(scores))[0]


class SampleLoss(Loss):
    """A loss that is a sum over samples, ``R(f) = sum_i s_i l(y_i, f_i)``.

    Two methods are required, :meth:`value` and :meth:`gradient`; both are plain numpy functions of
    arrays. Of a subclass that overrides one of them nothing is known but what it says itself: it
    does not inherit ``smooth`` or compiled functions, for example.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        :meth:`cut`, and thus by `fit`.

    See Also
    --------
    BinaryLoss : For two classes, to derive from.
    MulticlassLoss : For several classes, to derive from.
    RegressionLoss : For real targets, to derive from.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import LogLoss
    >>> scores, y = np.array([0.0, 3.0]), np.array([1.0, -1.0])
    >>> LogLoss().value(scores, y).round(3), LogLoss().gradient(scores, y).round(3)
    (array([0.693, 3.049]), array([-0.5  ,  0.953]))
    """

    #: What follows from the values, and is not inherited by a class with others.
    _from_values: ClassVar[tuple[str, ...]] = (
        *("curvature", "smooth", "cut", "along", "offset", "covariance", "closed_intercept"),
    )
    #: Optional method ``offset(derivatives, y, weights)``: the exact height
    #: ``-sum_i s_i l*(g_i / s_i)`` at scores of zero of a plane with given derivatives.
    offset: ClassVar[Callable[..., float] | None] = None
    #: Optional method ``covariance(derivatives, y, weights)`` by class: the second derivatives of
    #: the risk in the intercepts, of shape (k, k).
    covariance: ClassVar[Callable[..., Array] | None] = None

    def __init_subclass__(cls, **further: Any):
        super().__init_subclass__(**further)
        contract = next(
            base for base in cls.__mro__ if getattr(base.value, "__isabstractmethod__", False)
        )
        forget_inherited(cls, contract, ("value", "gradient"), cls._from_values)

    @abstractmethod
    def value(self, scores: Array, y: NDArray[Any]) -> Array:
        """Losses l(y_i, f_i). Required.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f_i. Must not be written to.
        y : ndarray of shape (n,) or (n, k)
            Targets. Must not be written to.

        Returns
        -------
        losses : ndarray of shape (n,)
            Not negative.
        """

    @abstractmethod
    def gradient(self, scores: Array, y: NDArray[Any]) -> Array:
        """Derivatives of l in f_i, or subgradients at a kink. Required.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f_i. Must not be written to.
        y : ndarray of shape (n,) or (n, k)
            Targets. Must not be written to.

        Returns
        -------
        derivatives : ndarray of the shape of scores
            One entry per score.
        """

    def curvature(self, scores: Array, y: NDArray[Any]) -> Array | None:
        """Second derivatives of a loss of one score. Optional: for Newton's method.

        Parameters
        ----------
        scores : ndarray of shape (n,)
            Scores f_i. Must not be written to.
        y : ndarray of shape (n,)
            Targets. Must not be written to.

        Returns
        -------
        second : ndarray of shape (n,) or None
            Second derivatives of l in f_i, None if they are not known.
        """
        return None

    def closed_intercept(self, scores: Array, y: Any, weights: Array) -> float | Array | None:
        """The b that minimizes R(f + b), if that is a closed form.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (k, n)
            Scores f.
        y : ndarray of shape (n,) or (n, k)
            Targets.
        weights : ndarray of shape (n,)
            The s_i.

        Returns
        -------
        b : float, ndarray of shape (k,) or None
            By default None: it has to be searched for.
        """
        return None

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        values, gradient = self.checked("value", scores.T, y), self.checked("gradient", scores.T, y)
        # rounding may take a loss of zero below zero
        if values.min() < -1e-9:
            raise ValueError(
                f"{type(self).__name__}.value must never be negative, but returned {values.min()}; "
                "add a constant, so that the least loss is 0."
            )
        np.multiply(weights, gradient.T, out=out)
        risk = float(np.sum(weights * values))
        return risk, tangent_offset(risk, out, scores)

    def along(
        self, scores: Array, direction: Array, y: Any, weights: Array, t: float
    ) -> tuple[float, float, float]:
        """Value, first and second derivative in t of ``R(f + t h)``.

        Parameters
        ----------
        scores, direction : ndarray of shape (n,) or (k, n)
            Scores f and direction h.
        y : ndarray
            Targets.
        weights : ndarray of shape (n,)
            The s_i.
        t : float
            Step.

        Returns
        -------
        risk, first, second : float
            At a kink the first is a subgradient; NaN for a second derivative that is not known.
        """
        moved = (scores + t * direction).T
        risk = float(np.sum(weights * self.checked("value", moved, y)))
        first = float(np.sum(weights * (direction * self.checked("gradient", moved, y).T)))
        bend = None if scores.ndim > 1 else self.curvature(moved, y)
        second = np.nan if bend is None else float(np.sum(weights * direction**2 * bend))
        return risk, first, second

    def checked(self, method: str, scores: Array, y: Any) -> Array:
        """What :meth:`value` or :meth:`gradient` returns, if that has the right shape.

        Parameters
        ----------
        method : {"value", "gradient"}
            Which one to call.
        scores : ndarray of shape (n,) or (n, k)
            Scores.
        y : ndarray
            Targets.

        Returns
        -------
        array : ndarray
            Of float64.
        """
        array = np.asarray(getattr(self, method)(scores, y), dtype=np.float64)
        shape = scores.shape if method == "gradient" else scores.shape[:1]
        if array.shape != shape:
            raise ValueError(
                f"{type(self).__name__}.{method} must return an array of shape {shape}, one entry "
                f"per sample, but returned shape {array.shape}."
            )
        return array


def tangent_offset(risk: float, derivatives: Array, scores: Array) -> float:
    """The offset of the plane that touches the risk at these scores, less its rounding.

    Far from the solution both terms are so large that nothing else of a difference is left.
    """
    products = derivatives * scores
    size = abs(risk) + float(np.sum(np.abs(products)))
    # 4 roundings of a risk and of the products that are subtracted from it: pairwise sums
    return risk - float(np.sum(products)) - 4.0 * np.finfo(float).eps * size


def must_be(name: str, what: str, value: Any) -> ValueError:
    """The error for a parameter that is not allowed."""
    return ValueError(f"{name} must be {what}, but is {shown(value)}.")


def is_of_package(kind: type) -> bool:
    """Whether the class ships with the package, whose tests check its losses."""
    return kind.__module__.startswith("sklearn_bundle.")


def check_derivatives(loss: SampleLoss, scores: Array, y: Any) -> None:
    """Raise ValueError if the ``gradient`` of a loss does not belong to its ``value``.

    Scores have shape (n,) or (n, k). Of a convex loss the mean slope between two scores lies
    between the derivatives there, with or without kinks. A gradient that is too large converges
    all the same, with a bound that is false.
    """
    # differences over so much have about ten digits
    step = 1e-5 * np.maximum(1.0, np.abs(scores))
    if scores.ndim == 2:  # every other score falls
        step = step.max(axis=1, keepdims=True) * np.where(np.arange(scores.shape[1]) % 2, 1.0, -1.0)
    ends = scores - step, scores + step
    with np.errstate(all="ignore"):  # losses may overflow at a score that no point has
        gradients = [loss.checked("gradient", f, y) for f in ends]
        values = [loss.checked("value", f, y) for f in ends]
        low, high = (np.reshape(g * step, (len(scores), -1)).sum(axis=1) for g in gradients)
        at_zero = np.asarray(loss.value(np.zeros_like(scores), y))
        rise = 0.5 * (values[1] - values[0])
        # Of the scores too: the loss may be constant along the step, where its derivatives cancel.
        moved = np.abs(gradients) * np.maximum(1.0, np.abs(ends))
    # ``log(1 + exp(-z))`` is 0 at a margin of 40, where its derivative is not.
    size = np.abs(values).sum(axis=0) + np.mean(at_zero, where=np.isfinite(at_zero))
    size = size + moved.reshape(2, len(scores), -1).sum(axis=(0, 2))
    # a difference that lies outside of the derivatives at both ends by more is a mistake
    allowed = 1e-3 * (np.abs(low) + np.abs(high)) + 8.0 * np.finfo(float).eps * size
    wrong = (rise < low - allowed) | (rise > high + allowed)
    if wrong.any():
        i, name = int(np.argmax(wrong)), type(loss).__name__
        unit = float(np.max(np.abs(step[i])))
        raise ValueError(
            f"{name}.gradient is not the derivative of {name}.value, or the loss is not convex: at "
            f"the score {scores[i]} for the target {y[i]} the value rises by {rise[i] / unit:.6g} "
            f"per unit, and the gradient around it is between {low[i] / unit:.6g} and "
            f"{high[i] / unit:.6g}."
        )
