"""The smallest reg_lambda for which w = 0 is optimal."""

import numpy as np

from sklearn_bundle.problems.linear import LinearProblem, Plane, Point
from sklearn_bundle.regularizers import Regularizer

# The same message as at the start of a fit, which overflows if this does.
_OVERFLOW = "The loss is not finite at w = 0: check the loss, and the scale of X and y."
_BALANCED = 1e-12  # a sum of derivatives of a mean loss up to this is taken for rounding


def largest_reg_lambda(problem: LinearProblem, omega: Regularizer) -> float | None:
    """``max_j |x_j' g| / thresholds_j``, g a subgradient at w = 0 and the best intercept.

    From this value on, w = 0 is optimal: ``-X'g`` is in reg_lambda times the subdifferential of
    Omega, and g sums to zero. If there is only one such g, as with smooth losses, no smaller value
    will do.

    Parameters
    ----------
    problem : LinearProblem
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
    if problem.n_free and np.abs(plane.balance).max() > _BALANCED and problem.class_loss:
        # Softmax: the derivatives at b = 0 sum to 1/K minus the shares of the classes.
        shares = 1.0 / problem.n_free - plane.balance
        plane = _plane(problem, problem.point(origin.w, np.log(shares)))
    if problem.n_free and np.abs(plane.balance).max() > _BALANCED:
        return None
    thresholds = omega.lasso_form.thresholds
    largest = float(np.max(np.abs(plane.gradient) / thresholds, initial=0.0))
    if not np.isfinite(largest):
        raise ValueError(_OVERFLOW)
    return largest


def _plane(problem: LinearProblem, point: Point) -> Plane:
    """The problem's cutting plane, for a risk of any size: line searches set a limit."""
    plane = problem.cut(point, np.inf)
    if plane is None:
        raise ValueError(_OVERFLOW)
    return plane
