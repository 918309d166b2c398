"""Losses of a score f and a real target y: functions of the residual r = f - y.

Each best intercept and each line search is exact.
"""

from typing import NamedTuple

import numpy as np

from sklearn_bundle.core.values import as_float, as_numbers, is_between, shown
from sklearn_bundle.linear.losses.base import Array, Cut, Loss, Prepared
from sklearn_bundle.linear.losses.pieces import PieceLoss, Tube, in_b
from sklearn_bundle.linear.losses.samples import RegressionLoss
from sklearn_bundle.linear.losses.scores import Start, TargetLoss

_MEDIAN_TO_UNIT = 3.0  # median absolute residuals of a constant: nearly all residuals are within
SOME_TARGETS = 1000  # are enough to find the unit
# Tolerances for a matrix that is symmetric and semidefinite up to rounding, in units of its largest
# entry: for the difference of M[i, j] and M[j, i], and for an eigenvalue below 0.
_ASYMMETRY = 1e-8


def require(allowed: bool, name: str, value: object, what: str) -> None:
    if not allowed:
        raise ValueError(f"{name} must be {what}, but is {shown(value)}.")


class ResidualLoss(PieceLoss, TargetLoss):
    """A piecewise linear or quadratic function of the residual."""

    degree = 1.0

    def formula(self) -> Tube:
        raise NotImplementedError

    def _fine(self, scores, y, weights, b) -> float:
        if not self.smooth:
            return 0.0
        first, second, _ = in_b(self.formula(), scores, y, weights, b)
        return -first / second if second > 0.0 else 0.0

    def start(self, y, weights, free) -> Start:
        """The median (or another quantile, for other slopes), and the unit from the residuals."""
        low, high, _, square = self.formula()
        some = y[:: -(-len(y) // SOME_TARGETS)]
        level = -low / (high - low) if np.isfinite(high - low) else 0.5
        b = float(np.quantile(some, level)) if free else 0.0
        unit = _MEDIAN_TO_UNIT * float(np.median(np.abs(some - b)))
        unit = unit or float(weights @ np.abs(y - b)) or 1.0
        return Start(b, unit, min(max(high, -low), unit if square else np.inf))


class AbsoluteError(ResidualLoss):
    """Absolute error, ``l(y, f) = |f - y|``, of least absolute deviations: fits the median.

    Table 5 of [1]_. The best intercept and the best step along a line are exact, in O(n).

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import AbsoluteError
    >>> AbsoluteError().value(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    array([1., 2.])
    """

    def formula(self):
        return Tube(-1.0, 1.0, 0.0, 0.0)


class Quantile(ResidualLoss):
    """Pinball loss, ``l(y, f) = max(tau (y - f), (1 - tau) (f - y))``, of quantile regression.

    Table 5 of [1]_, where tau and 1 - tau are swapped. At 0.5 it is half the absolute error. The
    best intercept and the best step along a line are exact, in O(n).

    Parameters
    ----------
    quantile : float, default=0.5
        The level tau, in (0, 1): the share of the targets that should lie below the prediction.

    Raises
    ------
    ValueError
        If `quantile` is not in (0, 1); raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Quantile
    >>> Quantile(0.9).value(np.array([1.0, 4.0]), np.array([2.0, 2.0])).round(6)
    array([0.9, 0.2])
    """

    def __init__(self, quantile=0.5):
        self.quantile = as_float(quantile)

    def check(self, y) -> None:
        allowed = is_between(self.quantile, 0.0, 1.0)
        require(allowed, "quantile", self.quantile, "above 0 and below 1")

    def formula(self):
        return Tube(-float(self.quantile), 1.0 - float(self.quantile), 0.0, 0.0)


class EpsilonInsensitive(ResidualLoss):
    """Epsilon-insensitive loss, ``l(y, f) = max(0, |f - y| - epsilon)``, of support vectors.

    Table 5 of [1]_. With this risk, SVR's and LIBLINEAR's C is ``1 / (n reg_lambda)``. The best
    intercept and the best step along a line are exact, in O(n).

    Parameters
    ----------
    epsilon : float, default=0.1
        Error that costs nothing, in units of the target; not negative.

    Raises
    ------
    ValueError
        If `epsilon` is negative or not finite; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(1.5).value(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    array([0. , 0.5])
    """

    def __init__(self, epsilon=0.1):
        self.epsilon = as_float(epsilon)

    def check(self, y) -> None:
        allowed = self.epsilon == 0.0 or is_between(self.epsilon, 0.0, np.inf)
        require(allowed, "epsilon", self.epsilon, "at least 0 and finite")

    def formula(self):
        return Tube(-1.0, 1.0, float(self.epsilon), 0.0)


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """Squared epsilon-insensitive loss, ``l(y, f) = max(0, |f - y| - epsilon)^2 / 2``.

    Equation (2) of [1]_, with a factor of 1/2: LIBLINEAR's C is ``1 / (2 n reg_lambda)``. With
    epsilon = 0 it is the squared error. The derivative in b and along a line is piecewise linear;
    its zero is exact, in O(n) by selection.

    Parameters
    ----------
    epsilon : float, default=0.1
        Error that costs nothing, in units of the target; not negative.

    Raises
    ------
    ValueError
        If `epsilon` is negative or not finite; raised by `fit`.

    References
    ----------
    .. [1] C.-H. Ho, C.-J. Lin: Large-scale linear support vector regression. Journal of Machine
       Learning Research 13 (2012), 3323-3348.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import SquaredEpsilonInsensitive
    >>> SquaredEpsilonInsensitive(1.0).value(np.array([1.5, 4.0]), np.array([2.0, 2.0]))
    array([0. , 0.5])
    """

    degree = 2.0
    smooth = True

    def formula(self):
        return Tube(-np.inf, np.inf, float(self.epsilon), 1.0)


class Huber(ResidualLoss):
    """Huber's loss, ``l(y, f) = r^2/2`` for ``|r| <= delta``, ``delta (|r| - delta/2)`` beyond.

    With ``r = f - y``: [2]_, and table 5 of [1]_ with delta = 1. The derivative in b and along a
    line is piecewise linear; its zero is exact, in O(n) by selection.

    Parameters
    ----------
    delta : float, default=1.0
        Size of an error above which the loss is linear, in units of the target; positive.

    Raises
    ------
    ValueError
        If `delta` is not positive and finite; raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.
    .. [2] P. J. Huber: Robust estimation of a location parameter. The Annals of Mathematical
       Statistics 35 (1964), 73-101.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Huber
    >>> Huber(1.0).value(np.array([1.5, 4.0]), np.array([2.0, 2.0]))
    array([0.125, 1.5  ])
    """

    least_at_ends = True
    most_curvature = 1.0
    degree = 2.0
    smooth = True

    def __init__(self, delta=1.0):
        self.delta = as_float(delta)

    def check(self, y) -> None:
        allowed = is_between(self.delta, 0.0, np.inf)
        require(allowed, "delta", self.delta, "above 0 and finite")

    def formula(self):
        return Tube(-float(self.delta), float(self.delta), 0.0, 1.0)


class SquaredError(ResidualLoss):
    """Squared error, ``l(y, f) = (f - y)^2 / 2``, of least squares.

    Table 5 of [1]_. With this factor 1/2, Ridge's alpha is ``n reg_lambda``. The best intercept and
    the best step along a line are closed forms. With several targets it is
    :class:`MultivariateSquaredError` with the identity.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import SquaredError
    >>> SquaredError().value(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    array([0.5, 2. ])
    """

    multi_output = True
    degree = 2.0
    smooth = True
    quadratic = True

    @property
    def has_dual_steps(self) -> bool:
        """No: it has solvers of its own."""
        return False

    def __init_subclass__(cls, **further):
        """A subclass may be another loss: it has a problem for each target."""
        super().__init_subclass__(**further)
        cls.multi_output = vars(cls).get("multi_output", False)

    def prepare_target(self, target) -> Prepared:
        if np.ndim(target.y) == 2 and type(self) is SquaredError:
            return MultivariateSquaredError().prepare_target(target)
        return super().prepare_target(target)

    def formula(self):
        return Tube(-np.inf, np.inf, 0.0, 1.0)


# ---- several outputs -----------------------------------------------------------------------


class MultivariateSquaredError(RegressionLoss):
    """Squared error of k outputs, ``l(y, f) = (f - y)' M (f - y) / 2``.

    Table 6 of [1]_. Scores and targets have shape (n, k), and the intercept is an array (k,), the
    mean residual of each output.

    Parameters
    ----------
    M : array-like of shape (k, k), default=None
        Symmetric and positive semidefinite: the costs of the products of two outputs' errors. None
        means the identity: with the L2 regularizer the outputs are then fitted independently.

    Raises
    ------
    ValueError
        If y is 1-D, or `M` is not of shape (k, k), finite, symmetric and positive semidefinite;
        raised by `fit`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import MultivariateSquaredError
    >>> scores, y = np.array([[1.0, 4.0]]), np.array([[2.0, 2.0]])
    >>> MultivariateSquaredError().value(scores, y)
    array([2.5])
    >>> MultivariateSquaredError([[2.0, 1.0], [1.0, 2.0]]).value(scores, y)
    array([3.])
    """

    multi_output = True
    smooth = True
    degree = 2.0

    def __init_subclass__(cls, **further):
        """The best intercepts of another loss are coordinates of its planes, one per output."""
        super().__init_subclass__(**further)
        if cls.intercept is Loss.intercept:
            cls.free_intercept = "joint"

    def __init__(self, M=None):
        self.M = M

    def check(self, y) -> None:
        if np.ndim(y) != 2:
            raise ValueError(
                "MultivariateSquaredError needs y of shape (n_samples, n_targets) with two targets "
                f"or more, got y of shape {np.shape(y)}."
            )
        if self.M is None:
            return
        M, k = as_numbers("M", self.M), y.shape[1]
        if M.shape != (k, k):
            raise ValueError(
                f"M must have shape ({k}, {k}), as y has {k} outputs, not {M.shape}: {shown(M)}."
            )
        require(bool(np.isfinite(M).all()), "M", self.M, "finite")
        rounding = _ASYMMETRY * np.abs(M).max()
        require(np.abs(M - M.T).max() <= rounding, "M", self.M, "symmetric")
        least = np.linalg.eigvalsh(M).min()
        if least < -rounding:
            raise ValueError(f"M must be positive semidefinite, but has an eigenvalue {least}.")

    def n_outputs(self, y) -> int:
        return y.shape[1]

    def value(self, scores, y) -> Array:
        residual = scores - y
        return np.maximum(0.0, 0.5 * np.sum(residual * self._times(residual), axis=1))

    def gradient(self, scores, y) -> Array:
        return self._times(scores - y)

    def intercept(self, scores, y, weights, scratch) -> Array:
        """The mean residual of each output, shape (k,)."""
        b = weights @ (y - scores)
        return b + weights @ ((y - scores) - b)

    def cut(self, scores, y, weights, fit_intercept, out, scratch) -> Cut:
        b = center = np.zeros(y.shape[1])
        if fit_intercept:
            b, center = self.intercept(scores, y, weights, scratch), weights @ y
        residual = (scores - y) + b
        if fit_intercept:  # finer than the spacing of floats at b
            residual -= weights @ residual
        np.multiply(weights[:, None], self._times(residual), out=out)
        if fit_intercept:
            out -= weights[:, None] * out.sum(axis=0)
        risk = self.risk(scores, y, weights, b)
        offset = -0.5 * np.sum(out * residual) - np.sum(out * (y - center))
        return Cut(risk, float(offset), b if fit_intercept else 0.0)

    def line_search(self, scores, direction, y, weights, slope, curvature, scratch) -> float:
        weighted = weights[:, None] * self._times(direction)
        first = slope + float(np.sum(weighted * (scores - y)))
        second = curvature + float(np.sum(weighted * direction))
        return max(0.0, -first / second) if second > 0.0 else 0.0

    def metric(self) -> Array | None:
        """M as an array, made exactly symmetric.

        Returns
        -------
        metric : ndarray of shape (k, k) or None
            None means the identity.
        """
        if self.M is None:
            return None
        M = np.asarray(self.M, dtype=np.float64)
        return 0.5 * (M + M.T)

    def _times(self, residual):
        """M residual of each row."""
        M = self.metric()
        return residual if M is None else residual @ M


class SquaredErrors(NamedTuple):
    """The loss is ``r' M r / 2`` with the residual r; M is None for the identity."""

    metric: Array | None


def squared_errors(loss: Loss) -> SquaredErrors | None:
    """The loss as a squared error; None if it is not one.

    Exact class only: a subclass may be another loss.
    """
    if type(loss) is SquaredError:
        return SquaredErrors(None)
    if type(loss) is MultivariateSquaredError:
        return SquaredErrors(loss.metric())
    return None
