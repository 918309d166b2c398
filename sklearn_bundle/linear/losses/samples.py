"""Base classes of losses that are sums over samples."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.losses.base import Array, Loss

# What a loss of the package may compute in other ways than from values and derivatives.
_FROM_VALUES = "evaluate", "risk", "curvature", "slope", "intercept", "cut", "line_search"
_NEGATIVE = 1e-9  # in units of the loss: how far rounding may take a loss of zero below zero
_STEP = 1e-5  # of a score, or of 1 if that is smaller: its differences have about ten digits
_OFF = 1e-3  # of the derivatives at both ends: a difference that lies outside by more is a mistake


class SampleLoss(Loss):
    """A loss that is a sum over samples, ``R(f) = sum_i s_i l(y_i, f_i)``.

    Two methods are required, :meth:`value` and :meth:`gradient`; both are plain numpy functions of
    arrays. Scores and ``y`` have one entry per sample; if the scores have shape (n, k), so does the
    gradient.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        :meth:`evaluate`, and thus by `fit`.

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

    #: Whether the class itself knows nothing of a loss but its values and derivatives.
    _is_contract: ClassVar[bool] = True

    def __init_subclass__(cls, **further: Any):
        """Of a user's class with other values than its base from here, nothing is known but these.

        Unless it has compiled functions of its own; a mixin may have the values too.
        """
        super().__init_subclass__(**further)
        owners = {name: _owner(cls, name) for name in (*_FROM_VALUES, "value", "gradient")}
        order = list(cls.__mro__)
        first = min(owners["value"], owners["gradient"], key=order.index)
        if is_of_package(first) or not is_of_package(_owner(cls, "formula") or SampleLoss):
            return
        contract = next(base for base in order if vars(base).get("_is_contract", False))
        for name in _FROM_VALUES:
            owner = owners[name]
            if is_of_package(owner) and order.index(first) < order.index(owner):
                setattr(cls, name, getattr(contract, name))

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
        """Second derivatives. Optional: lets line searches use Newton's method.

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

    def evaluate(self, scores, y, weights, out) -> float:
        n = len(scores)
        values = self._checked(self.value(scores, y), "value", (n,))
        if values.min() < -_NEGATIVE:
            raise ValueError(
                f"{type(self).__name__}.value must never be negative, but returned {values.min()}; "
                "add a constant, so that the least loss is 0."
            )
        gradient = self._checked(self.gradient(scores, y), "gradient", scores.shape)
        np.multiply(weights if scores.ndim == 1 else weights[:, None], gradient, out=out)
        return float(np.sum(weights * values))

    def risk(self, scores, y, weights, intercept) -> float:
        return float(np.sum(weights * self.value(scores + intercept, y)))

    def slope(self, scores, direction, y, weights, t) -> tuple[float, float]:
        moved = scores + t * direction
        gradient = self.gradient(moved, y)
        if scores.ndim == 2:
            return float(np.sum(weights * np.sum(direction * gradient, axis=1))), np.nan
        bend = self.curvature(moved, y)
        second = np.nan if bend is None else float(np.sum(weights * direction**2 * bend))
        return float(np.sum(weights * direction * gradient)), second

    def _checked(self, array, method: str, shape: tuple[int, ...]) -> Array:
        array = np.asarray(array, dtype=np.float64)
        if array.shape != shape:
            raise ValueError(
                f"{type(self).__name__}.{method} must return an array of shape {shape}, one entry "
                f"per sample, but returned shape {array.shape}."
            )
        return array


def is_of_package(kind: type) -> bool:
    """Whether the class ships with the package, whose tests check its losses."""
    return kind.__module__.startswith("sklearn_bundle.")


def _owner(kind: type, name: str) -> Any:
    """The class that an attribute is from; None if there is none."""
    return next((base for base in kind.__mro__ if name in vars(base)), None)


def check_derivatives(loss: SampleLoss, scores: Array, y: Any) -> None:
    """Raise ValueError if the ``gradient`` of a loss does not belong to its ``value``.

    Of a convex loss the mean slope between two scores lies between the derivatives there, with or
    without kinks. A gradient that is too large converges all the same, with a bound that is false.
    """
    step = _STEP * np.maximum(1.0, np.abs(scores))
    if scores.ndim == 2:  # every other score falls
        step = step.max(axis=1, keepdims=True) * np.where(np.arange(scores.shape[1]) % 2, 1.0, -1.0)
    ends = scores - step, scores + step
    with np.errstate(all="ignore"):  # losses may overflow at a score that no point has
        gradients = [loss._checked(loss.gradient(f, y), "gradient", f.shape) for f in ends]
        values = [loss._checked(loss.value(f, y), "value", (len(f),)) for f in ends]
        low, high = (np.reshape(g * step, (len(scores), -1)).sum(axis=1) for g in gradients)
        at_zero = np.asarray(loss.value(np.zeros_like(scores), y))
        rise = 0.5 * (values[1] - values[0])
        # Of the scores too: the loss may be constant along the step, where its derivatives cancel.
        moved = np.abs(gradients) * np.maximum(1.0, np.abs(ends))
    # ``log(1 + exp(-z))`` is 0 at a margin of 40, where its derivative is not.
    size = np.abs(values).sum(axis=0) + np.mean(at_zero, where=np.isfinite(at_zero))
    size = size + moved.reshape(2, len(scores), -1).sum(axis=(0, 2))
    allowed = _OFF * (np.abs(low) + np.abs(high)) + 8.0 * np.finfo(float).eps * size
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


class BinaryLoss(SampleLoss):
    """Base class of losses for two classes, and the contract for your own.

    A loss l(y, f), with the label y in {-1, +1}, is convex in the score f and never negative. Two
    methods are required, :meth:`value` and :meth:`gradient`; both are plain numpy functions of
    arrays, to which they must not write. Everything else has a fallback that uses only these two,
    and may be overridden if a closed form or a compiled function is faster. A loss that also has a
    method ``probability(scores)``, P(y = +1 | f), gives the classifier ``predict_proba``.

    Instances hold only parameters, in attributes of the same names, so that they can be cloned and
    pickled. In the methods below ``weights`` are the s_i, positive and of sum one; ``out`` of shape
    (n,) is filled, and ``scratch`` of shape (4, n) is work space.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        :meth:`evaluate`, and thus by `fit`.

    See Also
    --------
    Hinge, SquaredHinge, LogLoss, Exponential : The built-in losses, with their sources.
    Loss : All methods that may be overridden.

    Examples
    --------
    Least squares, a loss of your own:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.losses import BinaryLoss
    >>> class LeastSquares(BinaryLoss):
    ...     def value(self, scores, y):
    ...         return 0.5 * (1.0 - y * scores) ** 2
    ...
    ...     def gradient(self, scores, y):
    ...         return scores - y
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> BMRMClassifier(LeastSquares(), reg_lambda=1e-2).fit(scale(X), y).status_
    'converged'
    """

    _is_contract = True


class RegressionLoss(SampleLoss):
    """Base class of losses of a score and a real target, and the contract for your own.

    A loss l(y, f) is convex in the score f and never negative. Two methods are required,
    :meth:`value` and :meth:`gradient`; both are plain numpy functions of arrays, to which they must
    not write. Everything else has a fallback: see :class:`~sklearn_bundle.losses.Loss`.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        :meth:`evaluate`, and thus by `fit`.

    See Also
    --------
    SquaredError, MultivariateSquaredError, Huber, SquaredEpsilonInsensitive : With curvature.
    AbsoluteError, Quantile, EpsilonInsensitive : Piecewise linear.
    Poisson : With a log link.
    Loss : All methods that may be overridden.

    Examples
    --------
    The logarithm of the hyperbolic cosine, a loss of your own:

    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressor
    >>> from sklearn_bundle.losses import RegressionLoss
    >>> class LogCosh(RegressionLoss):
    ...     def value(self, scores, y):
    ...         size = np.abs(scores - y)
    ...         return size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)
    ...
    ...     def gradient(self, scores, y):
    ...         return np.tanh(scores - y)
    >>> X, y = load_diabetes(return_X_y=True)
    >>> BMRMRegressor(LogCosh(), reg_lambda=1e-3).fit(X, y / 50.0).status_
    'converged'
    """

    _is_contract = True

    #: Whether several targets, y of shape (n, k), make one problem. If not, there is one for each.
    multi_output: ClassVar[bool] = False
    #: Whether targets must not be negative.
    positive_only: ClassVar[bool] = False
    #: The p in ``l(c y, c f) = c^p l(y, f)``, if parameters in units of the target are multiplied
    #: by c too; None if there is none. The default `reg_lambda` depends on it.
    degree: ClassVar[float | None] = None

    def mean(self, scores: Array) -> Array:
        """Prediction of the target from the scores: the inverse link.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, k)
            Scores f.

        Returns
        -------
        mean : ndarray of the shape of scores
            By default the scores.
        """
        return scores
