"""A duality gap as a sum over rows, whose terms are not negative.

For ``w = sum_i beta_i phi(x_i)`` the objective at w less the dual objective at beta is the sum of
the gaps of the rows in Fenchel's inequality, ``loss_i(r_i) + loss*_i(beta_i) - beta_i r_i`` with
the residual ``r_i = target_i - f(x_i)``. No large numbers cancel: rounding may leave 1e-15 of the
objective, where it leaves about 1e-9 of the difference of two objectives.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import ADDED

Array = NDArray[np.float64]


def squared_gaps(r: Array, beta: Array, C: Array, above: float, below: float) -> Array:
    """Gaps of ``C/2 (r - above)^2`` where r is above, ``C/2 (r + below)^2`` where it is below.

    The conjugate is ``above max(beta, 0) + below max(-beta, 0) + beta^2 / (2 C)``. If ``below`` is
    infinite, beta is not negative.
    """
    slope = C * (np.maximum(r - above, 0.0) - np.maximum(-r - below, 0.0))
    apart = np.abs(slope - beta) + ADDED * (np.abs(slope) + np.abs(beta))
    return 0.5 * apart**2 / C + _across(r, beta, above, below)


def box_gaps(r: Array, beta: Array, low: Array, high: Array, width: float) -> Array:
    """Gaps of ``high (r - width)`` where r is above, ``low (r + width)`` where it is below.

    The conjugate is ``width |beta|``, for beta from ``low`` to ``high``.
    """
    over, under = np.maximum(r - width, 0.0), np.maximum(-r - width, 0.0)
    return (high - beta) * over + (beta - low) * under + _across(r, beta, width, width)


def _across(r: Array, beta: Array, above: float, below: float) -> Array:
    """What a beta costs whose residual is not on its side of the tube."""
    over, under = np.maximum(above - r, 0.0), np.maximum(r + below, 0.0)
    return np.abs(beta) * np.minimum(np.where(beta >= 0.0, over, under), above + below)


def largest_sum(gaps: Callable[[Array], Array], r: Array, errors: Array) -> float:
    """An upper bound of the sum of the gaps of residuals that are known up to their errors.

    Gaps are convex in r: they are largest at an end.
    """
    most = np.maximum(gaps(r - errors), gaps(r + errors))
    return float(np.sum(most)) * (1.0 + ADDED)
