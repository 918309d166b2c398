"""The largest useful reg_lambda: above it w is 0, or explains next to nothing."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import TINY
from sklearn_bundle.linear.losses import BinaryLoss
from sklearn_bundle.linear.losses.softmax import softmax_loss
from sklearn_bundle.linear.problems.linear import LinearProblem, LinearRisk, Plane, Point
from sklearn_bundle.linear.problems.row_blocks import RowBlocks
from sklearn_bundle.linear.regularizers import Regularizer

Intercept = float | NDArray[np.float64]

# The same message as at the start of a fit, which overflows if this does.
_OVERFLOW = "The loss is not finite at w = 0: check the loss, and the scale of X and y."
_BALANCED = 1e-12  # a sum of derivatives of a mean loss up to this is taken for rounding
_USEFUL = 0.1  # share of the loss that a useful w explains, of what it could without regularization
_NOTHING = 1e-9  # share of the loss: what explains less than this is taken for rounding
_STEPS = 20  # of a geometric bisection, for about two digits over many orders of magnitude


def largest_reg_lambda(problem: LinearRisk | RowBlocks, omega: Regularizer) -> float | None:
    """``max_j |x_j' g| / thresholds_j``, g a subgradient at w = 0 and the best intercept.

    From this value on, w = 0 is optimal: ``-X'g`` is in reg_lambda times the subdifferential of
    Omega, and g sums to zero. If there is only one such g, as with smooth losses, no smaller value
    will do.

    Parameters
    ----------
    problem : LinearRisk or RowBlocks
    omega : Regularizer
        Bound to the data, with a ``lasso_form``.

    Returns
    -------
    reg_lambda : float or None
        None if the best intercept is not known in closed form.

    Raises
    ------
    ValueError
        If it overflows.
    """
    origin = problem.point(np.zeros(problem.dimension))
    plane = _plane(problem, origin)
    if softmax_loss(problem.loss) and plane.balance is not None and not _is_balanced(plane):
        # Softmax: the derivatives at b = 0 sum to 1/K minus the shares of the classes.
        shares = 1.0 / problem.n_free - plane.balance
        plane = _plane(problem, problem.point(origin.w, np.log(shares)))
    if not _is_balanced(plane):
        return None
    form = omega.lasso_form
    assert form is not None
    thresholds = form.thresholds
    largest = float(np.max(np.abs(plane.gradient) / thresholds, initial=0.0))
    if not np.isfinite(largest):
        raise ValueError(_OVERFLOW)
    return largest


def _is_balanced(plane: Plane) -> bool:
    """Whether its derivatives in the intercept are zero but for rounding."""
    return plane.balance is None or not np.abs(plane.balance).max() > _BALANCED


def _plane(problem: LinearRisk | RowBlocks, point: Point) -> Plane:
    """The problem's cutting plane, for a risk of any size: line searches set a limit."""
    plane = problem.cut(point, np.inf)
    if plane is None:
        raise ValueError(_OVERFLOW)
    return plane


def largest_useful(problem: LinearProblem, omega: Regularizer, b: Intercept) -> float | None:
    """The reg_lambda above which there is nothing to gain from w.

    With L1 or the elastic net it is that of :func:`largest_reg_lambda`, above which w = 0. With L2
    it is where the best multiple of the steepest descent direction at w = 0 explains a tenth of the
    loss that it can explain without regularization. This takes two products with X and X'.

    Parameters
    ----------
    problem : LinearProblem
    omega : Regularizer
        Bound to the data.
    b : float or ndarray
        The intercept of :func:`constant_risk`.

    Returns
    -------
    reg_lambda : float or None
        None if it is not known, or nothing can be learned.
    """
    if omega.lasso_form is not None:
        return largest_reg_lambda(problem, omega)
    if not omega.is_euclidean:
        return None
    start = problem.point(np.zeros(problem.dimension), b if problem.n_free else None)
    plane = problem.cut(start)
    square = 0.0 if plane is None else float(plane.gradient @ plane.gradient)
    if plane is None or not _NOTHING**2 < square < np.inf:
        return None
    end = problem.point(-plane.gradient)
    if problem.fit_intercept or problem.n_free:  # steps do not change the mean score
        end.intercept = start.intercept - problem.weights @ end.scores
    # A curvature that matters only where the loss has no minimum along the line.
    longest = problem.line_search(start, end, 0.0, _NOTHING * square * square / plane.risk)
    risk_at = problem.risk_along(start, end)
    gain = plane.risk - risk_at(longest)[0]
    if not gain > _NOTHING * plane.risk:
        return None
    low, high = _USEFUL * gain / square, _USEFUL * longest  # as the gain is concave in the step
    for _ in range(_STEPS):
        step = np.sqrt(low * high)
        if plane.risk - risk_at(step)[0] < _USEFUL * gain:
            low = step
        else:
            high = step
    return -risk_at(high)[1] / (high * square)


def constant_risk(problem: LinearProblem, b: Intercept) -> tuple[float, Intercept]:
    """The risk at w = 0 with its intercept: no product with X.

    If the best intercept has no closed form, it is the better one of b and 0.
    """
    if isinstance(problem.loss, BinaryLoss):
        return _constant_risk_of_two(problem)
    if softmax_loss(problem.loss) is not None:
        return _constant_risk_of_classes(problem)
    origin = problem.point(np.zeros(problem.dimension))
    problem.set_intercept(origin)
    risks = [(problem.risk(origin), origin.intercept)]
    if problem.n_free:
        origin.intercept = b
        risks.append((problem.risk(origin), b))
    return min(risks, key=lambda pair: pair[0])


def _constant_risk_of_two(problem: LinearProblem) -> tuple[float, Intercept]:
    """The risk at w = 0 for two classes: equal scores make it a risk of one row per class."""
    y, s, loss = problem.target, problem.weights, problem.loss

    def part(rows: slice) -> tuple[float]:
        return (float(s[rows] @ (y[rows] > 0.0)),)

    positive = problem.rows.sums(part)[0]
    rows = [int(np.argmax(y > 0.0)), int(np.argmax(y <= 0.0))]
    few = np.zeros(2), y[rows], np.array([positive, 1.0 - positive])
    b = loss.intercept(*few, np.empty((4, 2))) if problem.fit_intercept else 0.0
    return loss.risk(*few, b), b


def _constant_risk_of_classes(problem: LinearProblem) -> tuple[float, Intercept]:
    """The risk of softmax at w = 0: that of one row per class, whose best b is known."""
    shares = problem.class_shares()
    classes = np.flatnonzero(shares)
    b = np.zeros(problem.n_outputs)
    if problem.n_free:
        b = np.log(np.maximum(shares, TINY))
        b -= b.mean()
    few = np.zeros((len(classes), problem.n_outputs)), classes, shares[classes]
    return problem.loss.risk(*few, b), b
