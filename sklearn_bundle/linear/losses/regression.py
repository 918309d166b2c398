"""Losses of a score f and a real target y: functions of the residual ``r = f - y``."""

from typing import Any, NamedTuple

import numpy as np

from sklearn_bundle.core.values import as_float, is_between
from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.linear._compiled import dual
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses.base import Array, Prepared, must_be
from sklearn_bundle.linear.losses.one_score import RegressionLoss

# Compiled functions of piecewise linear and quadratic losses of the residual ``r = f - y``. l(r) =
# max over low <= u <= high of u r - half |u| - square u^2 / 2.
#
# Inside of a tube of half width ``half`` it is zero. Beyond, its slope u jumps to ``low`` or
# ``high`` (``square`` = 0), or grows by one per unit up to there (``square`` = 1). Kinked losses
# are smoothed with ``width u^2 / 2`` in place of the square. Dual steps: Ho and Lin (JMLR 13, 2012,
# 3323-3348), who call alpha beta.


class Tube(NamedTuple):
    """The slopes at both ends, the half width of the tube, and 1 if there are squares, or 0."""

    low: float
    high: float
    half: float
    square: float


@inner
def _shrunk(x, half):
    """x moved towards 0 by ``half``."""
    return max(x - half, 0.0) + min(x + half, 0.0)


@registered(loops.value, Tube)
def _value(loss, f, r, y):
    beyond = _shrunk(r, loss.half)
    steepest = loss.high if beyond > 0.0 else loss.low
    u = min(max(beyond, loss.low), loss.high) if loss.square > 0.0 else steepest
    return u * (beyond - 0.5 * loss.square * u)


@registered(loops.slope, Tube)
def _slope(loss, f, r, y, steepness):
    beyond = _shrunk(r, loss.half)
    u = beyond if loss.square > 0.0 or beyond == 0.0 else beyond * steepness
    return min(max(u, loss.low), loss.high)


@registered(loops.curvature, Tube)
def _curvature(loss, f, r, y, steepness):
    factor = 1.0 if loss.square > 0.0 else steepness
    u = _shrunk(r, loss.half) * factor
    return factor if (u > loss.low) & (u < loss.high) & (abs(r) >= loss.half) else 0.0


@registered(loops.conjugate, Tube)
def _conjugate(loss, u, y, center):
    return u * (y - center) + loss.half * abs(u) + 0.5 * loss.square * u * u


@registered(loops.sides, Tube)
def _sides(loss, b, t, y):
    left, right = t - loss.half, t + loss.half
    below = loss.low * (b <= left) + loss.high * (b > right)
    return below, loss.low * (b < left) + loss.high * (b >= right)


@registered(dual.step, Tube)
def _step(loss, target, margin, alpha, weight, curvature, high, low):
    """Maximum of ``ascent a - half |a| - bend a^2/2`` between the bounds."""
    residual, bend = target - margin, loss.square / weight
    least, most = -weight * loss.high, -weight * loss.low
    gap = weight * loops.value(loss, margin, -residual, target) - alpha * residual
    gap += abs(alpha) * loss.half + 0.5 * bend * alpha * alpha
    minus = bend * alpha - residual
    right = minus + (loss.half if alpha >= 0.0 else -loss.half)
    left = minus + (loss.half if alpha > 0.0 else -loss.half)
    gradient, counts = dual.projected(left, right, alpha, least, most, curvature, high, low)
    ascent = _shrunk(residual + curvature * alpha, loss.half)
    new = dual.maximizer(ascent, bend + curvature, 0.0, least, most)
    return (new if counts else alpha), gradient, gap, counts


class SquaredErrors(RegressionLoss):
    """Squared error of k outputs, ``l(y, f) = ||f - y||^2 / 2``, for targets of shape (n, k)."""

    multi_output = True
    smooth = True
    quadratic = True
    degree = 2.0

    def value(self, scores, y) -> Array:
        return 0.5 * np.sum((scores - y) ** 2, axis=1)

    def gradient(self, scores, y) -> Array:
        return scores - y

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        residual = scores - y.T
        np.multiply(weights, residual, out=out)
        double_risk = float(np.sum(out * residual))
        return 0.5 * double_risk, -0.5 * double_risk - float(np.sum(out * y.T))

    def along(self, scores, direction, y, weights, t) -> tuple[float, float, float]:
        residual, image = scores - y.T + t * direction, direction * weights
        risk = 0.5 * float(np.sum(weights * residual**2))
        return risk, float(np.sum(image * residual)), float(np.sum(image * direction))

    def offset(self, derivatives, y, weights) -> float:
        """``-sum_i <g_i, y_i> + ||g_i||^2 / (2 s_i)``."""
        return -float(np.sum(derivatives * (y.T + 0.5 * derivatives / weights)))

    def covariance(self, derivatives, y, weights) -> Array:
        """The identity, as the weights have the sum one."""
        return np.eye(len(derivatives))

    def closed_intercept(self, scores, y, weights) -> Array:
        """The mean residual of each output, and the mean of what rounding left of them."""
        residual = y.T - scores
        b = residual @ weights
        return b + (residual - b[:, None]) @ weights


class TubeLoss(RegressionLoss):
    """A loss of the residual that a :class:`~.tube.Tube` describes."""

    dual_steps = True
    _tube: Any  # whatever a subclass makes of values and formula

    @property
    def formula(self):
        return self._tube

    @property
    def kinks(self):
        low, high, half, square = self._tube
        if square:
            return ()
        return ((-half, -low), (half, high)) if half else ((0.0, high - low),)

    def value(self, scores, y) -> Array:
        u, r = TubeLoss.gradient(self, scores, y), scores - y
        return u * (_beyond(r, self._tube.half) - 0.5 * self._tube.square * u)

    def gradient(self, scores, y) -> Array:
        (low, high, half, square), r = self._tube, scores - y
        if square:
            return np.clip(_beyond(r, half), low, high)
        return np.where(r > half, high, np.where(r < -half, low, 0.0))

    def curvature(self, scores, y) -> Array | None:
        low, high, half, square = self._tube
        u = TubeLoss.gradient(self, scores, y)
        bends = (u > low) & (u < high) & (np.abs(scores - y) >= half)
        return bends.astype(float) if square else None


def _beyond(r: Array, half: float) -> Array:
    """Residuals less the tube."""
    return r - np.clip(r, -half, half)


class AbsoluteError(TubeLoss):
    """Absolute error, ``l(y, f) = |f - y|``, of least absolute deviations: fits the median.

    Table 5 of [1]_.

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

    degree = 1.0
    _tube = Tube(-1.0, 1.0, 0.0, 0.0)


class Quantile(TubeLoss):
    """Pinball loss, ``l(y, f) = max(tau (y - f), (1 - tau) (f - y))``, of quantile regression.

    Table 5 of [1]_, where tau and 1 - tau are swapped. At 0.5 it is half the absolute error.

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

    degree = 1.0

    def __init__(self, quantile=0.5):
        self.quantile = as_float(quantile)

    def check(self, y) -> None:
        if not is_between(self.quantile, 0.0, 1.0):
            raise must_be("quantile", "above 0 and below 1", self.quantile)

    @property
    def _tube(self):
        return Tube(-float(self.quantile), 1.0 - float(self.quantile), 0.0, 0.0)

    @property
    def level(self):
        return float(self.quantile)


class EpsilonInsensitive(TubeLoss):
    """Epsilon-insensitive loss, ``l(y, f) = max(0, |f - y| - epsilon)``, of support vectors.

    Table 5 of [1]_. With this risk, SVR's and LIBLINEAR's C is ``1 / (n reg_lambda)``.

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

    degree = 1.0

    def __init__(self, epsilon=0.1):
        self.epsilon = as_float(epsilon)

    def check(self, y) -> None:
        if not (self.epsilon == 0.0 or is_between(self.epsilon, 0.0, np.inf)):
            raise must_be("epsilon", "at least 0 and finite", self.epsilon)

    @property
    def _tube(self):
        return Tube(-1.0, 1.0, float(self.epsilon), 0.0)


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """Squared epsilon-insensitive loss, ``l(y, f) = max(0, |f - y| - epsilon)^2 / 2``.

    Equation (2) of [1]_, with a factor of 1/2: LIBLINEAR's C is ``1 / (2 n reg_lambda)``. With
    epsilon = 0 it is the squared error.

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

    @property
    def _tube(self):
        return Tube(-np.inf, np.inf, float(self.epsilon), 1.0)


class Huber(TubeLoss):
    """Huber's loss, ``l(y, f) = r^2/2`` for ``|r| <= delta``, ``delta (|r| - delta/2)`` beyond.

    With ``r = f - y``: [2]_, and table 5 of [1]_ with delta = 1.

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

    degree = 2.0
    smooth = True

    def __init__(self, delta=1.0):
        self.delta = as_float(delta)

    def check(self, y) -> None:
        if not is_between(self.delta, 0.0, np.inf):
            raise must_be("delta", "above 0 and finite", self.delta)

    @property
    def _tube(self):
        return Tube(-float(self.delta), float(self.delta), 0.0, 1.0)


class SquaredError(TubeLoss):
    """Squared error, ``l(y, f) = (f - y)^2 / 2``, of least squares.

    Table 5 of [1]_. With this factor 1/2, Ridge's alpha is ``n reg_lambda``. With several targets
    all of them make one problem.

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
    _tube = Tube(-np.inf, np.inf, 0.0, 1.0)
    dual_steps = False

    def prepare_target(self, target) -> Prepared:
        if np.ndim(target.y) == 2 and self.formula is not None:
            return SquaredErrors().prepare_target(target)
        return super().prepare_target(target)

    def closed_intercept(self, scores, y, weights) -> float:
        """The mean residual, and the mean of what rounding left of the residuals."""
        b = float(weights @ (y - scores))
        return b + float(weights @ ((y - scores) - b))
