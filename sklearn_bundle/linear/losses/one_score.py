"""Losses of one score per sample: the contracts for two classes and for real targets."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from sklearn_bundle.linear._compiled.scores import FAR
from sklearn_bundle.linear.losses.base import Array, SampleLoss


class Start(NamedTuple):
    """What follows from the targets alone.

    Parameters
    ----------
    intercept : float
        A good b at w = 0.
    unit : float
        Unit of the scores: the widest useful smoothing; positive.
    slope : float
        A typical derivative of the loss; positive.
    """

    intercept: float = 0.0
    unit: float = 1.0
    slope: float = 1.0


class ScoreLoss(SampleLoss):
    """A loss ``l(y, f)`` of one score.

    Its class may have a ``formula``: the type of this named tuple selects compiled functions of one
    row (:mod:`~.linear._compiled.scores`), and its fields are the parameters. Solvers that work on
    one row at a time need it.
    """

    _from_values = (
        *SampleLoss._from_values,
        *("formula", "kinks", "quadratic", "dual_steps"),
    )
    #: Whether it is ``(f - y)^2 / 2``, of which best intercepts and regions are closed forms.
    quadratic: ClassVar[bool] = False
    #: Whether the formula has compiled steps of dual coordinate ascent that solvers should take.
    dual_steps: ClassVar[bool] = False
    #: The named tuple that stands for the loss in compiled code, if there is one.
    formula: Any = None
    #: Of a piecewise linear loss: where ``f - y`` is at each kink, and the slope's jump.
    kinks: tuple[tuple[float, float], ...] = ()

    def start(self, y: Array, weights: Array, free: bool) -> Start:
        """A point from which to start, and units: by default 0 and 1.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        weights : ndarray of shape (n,)
            The s_i.
        free : bool
            Whether there is an intercept.

        Returns
        -------
        start : Start
            Intercept and units.
        """
        return Start()

    def center(self, y: Array, weights: Array) -> float:
        """What the targets in a plane's offset are counted from if the intercept is free.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        weights : ndarray of shape (n,)
            The s_i.

        Returns
        -------
        center : float
            By default 0.
        """
        return 0.0

    def end_slopes(self, y: Array) -> tuple[Array, Array]:
        """The derivatives at scores far below and far above, between which all others lie.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.

        Returns
        -------
        low, high : ndarray of shape (n,)
            Huge or infinite if there is no bound.
        """
        with np.errstate(over="ignore"):
            low, high = (self.gradient(np.full(len(y), end), y) for end in (-FAR, FAR))
        return low, high


class BinaryLoss(ScoreLoss):
    """Base class of losses for two classes, and the contract for your own.

    A loss l(y, f), with the label y in {-1, +1}, is convex in the score f and never negative. Two
    methods are required, :meth:`value` and :meth:`gradient`; both are plain numpy functions of
    arrays, to which they must not write. If the loss has a derivative everywhere, say
    ``smooth = True``: solvers that need one then take it, and use :meth:`curvature` if it is there.
    A loss that also has a method ``probability(scores)``, P(y = +1 | f), gives the classifier
    ``predict_proba``.

    Instances hold only parameters, in attributes of the same names, so that they can be cloned and
    pickled.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        `fit`.

    See Also
    --------
    Hinge, SquaredHinge, LogLoss : The built-in losses, with their sources.
    Loss : What else a loss has.

    Examples
    --------
    Least squares, a loss of your own:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.losses import BinaryLoss
    >>> class LeastSquares(BinaryLoss):
    ...     smooth = True
    ...
    ...     def value(self, scores, y):
    ...         return 0.5 * (1.0 - y * scores) ** 2
    ...
    ...     def gradient(self, scores, y):
    ...         return scores - y
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> BMRMClassifier(LeastSquares(), reg_lambda=1e-2).fit(scale(X), y).status_
    'converged'
    """


class RegressionLoss(ScoreLoss):
    """Base class of losses of a score and a real target, and the contract for your own.

    A loss l(y, f) is convex in the score f and never negative. Two methods are required,
    :meth:`value` and :meth:`gradient`; both are plain numpy functions of arrays, to which they must
    not write. If the loss has a derivative everywhere, say ``smooth = True``: solvers that need one
    then take it, and use :meth:`curvature` if it is there.

    Raises
    ------
    ValueError
        If a method returns an array of another shape, or :meth:`value` a negative number; raised by
        `fit`.

    See Also
    --------
    SquaredError, Huber, SquaredEpsilonInsensitive : With curvature.
    AbsoluteError, Quantile, EpsilonInsensitive : Piecewise linear.
    Poisson : With a log link.
    Loss : What else a loss has.

    Examples
    --------
    The logarithm of the hyperbolic cosine, a loss of your own:

    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressor
    >>> from sklearn_bundle.losses import RegressionLoss
    >>> class LogCosh(RegressionLoss):
    ...     smooth = True
    ...
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

    _from_values = *ScoreLoss._from_values, "multi_output"
    #: Whether several targets, y of shape (n, k), make one problem. If not, there is one for each.
    multi_output: ClassVar[bool] = False
    #: Whether targets must not be negative.
    positive_only: ClassVar[bool] = False
    #: The p in ``l(c y, c f) = c^p l(y, f)``, if parameters in units of the target are multiplied
    #: by c too; None if there is none. The default `reg_lambda` depends on it.
    degree: ClassVar[float | None] = None
    #: The quantile of the targets from which to start.
    level: float = 0.5

    def n_outputs(self, y) -> int | None:
        return y.shape[1] if np.ndim(y) == 2 else None

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

    def start(self, y, weights, free) -> Start:
        """The median or another quantile, unless 0 is better, and the unit from the residuals."""
        # 1000 targets are enough to find the unit
        some = y[:: -(-len(y) // 1000)]
        b = float(np.quantile(some, self.level)) if free else 0.0
        with np.errstate(all="ignore"):  # of a loss with a link, far from its scores
            risks = [float(np.mean(self.value(np.full(len(some), c), some))) for c in (b, 0.0)]
            b = b if risks[0] <= risks[1] else 0.0
            slope = float(np.mean(np.abs(self.gradient(np.full(len(some), b), some))))
        # nearly all residuals are within 3 times their median
        unit = 3.0 * float(np.median(np.abs(some - b)))
        unit = unit or float(weights @ np.abs(y - b)) or 1.0
        return Start(b, unit, slope if 0.0 < slope < np.inf else 1.0)

    def center(self, y, weights) -> float:
        return float(weights @ y)
