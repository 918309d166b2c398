"""The largest useful reg_lambda: above it w is 0, or explains next to nothing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import MISSES, SolverResult, Status
from sklearn_bundle.linear.losses import BinaryLoss, Softmax
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.risk import Point, Risk, ScoreRisk, risk_of
from sklearn_bundle.linear.rows import rows_of
from sklearn_bundle.linear.solvers.base import step_length

Array = NDArray[np.float64]
_BALANCED = 1e-12  # a sum of derivatives of a mean loss up to this is taken for rounding
_SHARE_OF_USEFUL = 1.0 / 3.0  # of the largest useful reg_lambda: above it fits warn
_EXPLAINS = 0.1  # share of the loss that a w explains that is not nearly 0
# Times 1/T, see below: sqrt(.9) / (1 - sqrt(.9)), and 10.
_OF_CURVED, _OF_KINKED = 18.5, 10.0
_NOTHING = 1e-9  # share of the loss: what explains less than this is taken for rounding


def largest_reg_lambda(risk: Risk, omega: Any) -> float | None:
    """``max_j |x_j' g| / thresholds_j``, g a subgradient at w = 0 and the best intercept.

    From this value on, w = 0 is optimal: ``-X'g`` is in reg_lambda times the subdifferential of
    Omega, and g sums to zero. If there is only one such g, as with smooth losses, no smaller value
    will do. None if the best intercept is not known in closed form, or not all features are
    penalized.
    """
    w, b = np.zeros(risk.dimension), None
    if risk.n_free and isinstance(risk.loss, Softmax):
        b = _shares(risk)
    point = risk.at(w, b)
    plane = risk.plane(point)
    if not np.isfinite([point.risk, np.abs(plane.gradient).max(initial=0.0)]).all():
        raise ValueError(
            "The loss is not finite at w = 0: check the loss, and the scale of X and y."
        )
    balance = plane.balance
    if np.abs(balance).max(initial=0.0) > _BALANCED or omega.unpenalized is not None:
        return None
    a = -plane.gradient
    reach = np.maximum(a, 0.0) if omega.nonnegative else np.abs(a)
    return float(np.max(reach / omega.lasso_form.thresholds, initial=0.0))


def _shares(risk: Risk) -> Array:
    """The best intercepts of softmax at w = 0."""
    b = np.log(np.bincount(risk.y, risk.weights, risk.n_outputs))
    return b - b.mean()


def nearly_zero(
    risk: Risk, omega: Any, reg_lambda: float, result: SolverResult
) -> tuple[float, float] | None:
    """reg_lambda and the largest useful one, if w is nearly 0 because of it.

    A first test needs no product with X: if w gained more than its penalty, it is far from 0. With
    L1, where w = 0 from the largest useful value on, one that explains a tenth of the loss is not
    nearly 0 either.
    """
    known = omega.is_euclidean or omega.lasso_form is not None
    if not (known and risk.loss.nonnegative and np.isfinite(result.primal)):
        return None
    if result.status not in (Status.CONVERGED, *MISSES):
        return None
    penalty = reg_lambda * omega.value(result.point)
    constant, b = constant_risk(risk, result.intercept)
    gain = constant - result.primal  # with the penalty of w
    if not (constant > 0.0 and gain <= 2.0 * (penalty + result.gap) < np.inf):
        return None
    if omega.lasso_form is not None and gain + penalty > _EXPLAINS * constant:
        return None
    largest = _largest_useful(risk, omega, b)
    useful = largest and reg_lambda <= _SHARE_OF_USEFUL * largest
    return None if useful or not largest else (reg_lambda, largest)


def constant_risk(risk: Risk, b: Any) -> tuple[float, Any]:
    """The risk at w = 0 with its intercept: no product with X.

    Equal scores make a loss of labels a risk of one row per label. Other losses of one score have
    about the best intercept; if nothing is known of it, it is the better one of b and 0.
    """
    loss, few = risk.loss, risk
    if isinstance(loss, BinaryLoss | Softmax):
        labels = (risk.y > 0.0).astype(np.int64) if isinstance(loss, BinaryLoss) else risk.y
        shares = np.bincount(labels, risk.weights).astype(float, copy=False)
        y = np.array([-1.0, 1.0]) if isinstance(loss, BinaryLoss) else np.arange(len(shares))
        present = np.flatnonzero(shares)
        rows = rows_of(np.zeros((len(present), 1)))
        free = risk.free or risk.n_free > 0
        few = risk_of(rows, y[present], shares[present], loss, free)
    elif isinstance(risk, ScoreRisk):
        b = risk.units.intercept if risk.free else 0.0
        return risk.value(np.zeros(len(risk.weights)), b), b
    if isinstance(loss, Softmax):
        b = _shares(few) if few.n_free else None
    zero = np.zeros(few.dimension)
    points = [few.at(zero)] + ([few.at(zero, b)] if few.n_free else [])
    best = min(points, key=lambda point: point.risk)
    return best.risk, best.b


def _largest_useful(risk: Risk, omega: Regularizer, b: Any) -> float | None:
    """The reg_lambda above which there is nothing to gain from w; None if it is not known.

    With L1 or the elastic net it is that of :func:`largest_reg_lambda`, above which w = 0. With L2
    it is about where the best multiple of the steepest descent direction at w = 0 explains a tenth
    of the loss that it can explain without regularization, at the step T. Along a quadratic that is
    ``t = (1 - sqrt(.9)) T`` with the slope ``(1 - t/T) ||a||^2 = reg_lambda t ||a||^2``; along a
    line with one kink ``t = T/10``. This takes two products with X and X'.
    """
    if omega.lasso_form is not None:
        return largest_reg_lambda(risk, omega)
    start = risk.at(np.zeros(risk.dimension), b if risk.n_free else None)
    a = risk.gradient(start)
    square = float(a @ a)
    if not _NOTHING**2 < square < np.inf:
        return None
    scores = risk.scores(-a)
    moved = start.b  # steps do not change the mean score
    if risk.free or risk.n_free:
        moved = start.b - scores @ risk.weights
    line = risk.line(start, Point(-a, scores, moved))
    bend = _NOTHING * square * square / start.risk  # that matters only where there is no minimum

    def derivative(t: float) -> tuple[float, float]:
        _, first, second = line(t)
        return first + t * bend, second + bend

    longest = step_length(derivative, _NOTHING * square)
    if not start.risk - line(longest)[0] > _NOTHING * start.risk:
        return None
    return (_OF_CURVED if risk.loss.smooth else _OF_KINKED) / longest
