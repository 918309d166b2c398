"""Where the scores of the optimum of a kinked loss lie: rows at their kinks hold it.

A row whose derivative is between the slopes on both sides of its kink pulls with the rest of them
against any move: the objective grows in proportion to it. So such scores are known up to the gap,
and not up to its root.
"""

from math import fsum

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.roundoff import DOUBLE
from sklearn_bundle.linear.losses.scores import score_loss
from sklearn_bundle.linear.problems.curved_region import CurvedRegion, InverseFactor
from sklearn_bundle.linear.problems.kink_rows import solved_at_kinks
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.linear_rounding import Certified, rounding
from sklearn_bundle.linear.regularizers import L2
from sklearn_bundle.linear.rows.amid_rows import score_rounding

Array = NDArray[np.float64]

_FEW = 8.0  # roundings of a term beside those of its sum


def kinked_region(
    problem: LinearProblem, reg_lambda: float, point: tuple[Array, float]
) -> CurvedRegion | None:
    """The region of a problem with a loss of one kink and the regularizer of l2, from near (w, b).

    Let g be derivatives that prove a bound D: with slopes low_i and high_i around the kink t_i,
    ``J* - D = sum_i (max(low_i r_i, high_i r_i) - g_i r_i) + reg_lambda/2 ||w* - w_q||^2``, where
    r = f* - t and ``w_q = -X'g / reg_lambda``, if g sums to zero. The sum is at least
    ``sum_i m_i |r_i|`` with ``m_i = min(high_i - g_i, g_i - low_i)``. With the gap e, which is no
    less than J* - D, this makes ``sum_i (m_i r_i / e)^2 + reg_lambda/2 ||w* - w_q||^2 / e <= 1``,
    an ellipsoid. It also holds the distance of any other point from its middle.

    None if that cannot be had.
    """
    loss, free, rows = score_loss(problem.loss), problem.fit_intercept, problem.rows
    if loss is None or not loss.has_one_kink:
        return None
    found = solved_at_kinks(problem, loss, reg_lambda, *point, rows.scores(point[0]))
    if found is None:
        return None
    w, b, g, (a, offset) = found
    y, weights, d = problem.target, problem.weights, problem.n_features
    at = problem.point(w, b)
    objective = problem.risk(at) + 0.5 * reg_lambda * float(w @ w)
    taken = rounding(problem, at, Certified(w, b, objective, (a, offset)), L2(), reg_lambda)
    lengths = rows.amid.sizes(rows.amid.lengths(rows)) + 1.0
    gap = objective - (offset - float(a @ a) / (2.0 * reg_lambda)) + taken.total
    if free:  # The best b is that of a kink; no w that is longer than this is as good as (w, b).
        longest = np.sqrt(2.0 * (objective + taken.total) / reg_lambda) * float(lengths.max())
        gap += abs(fsum(g)) * 2.0 * (float(np.abs(y).max()) + longest)
    if not 0.0 < gap < np.inf:
        return None
    low, high = (weights * end for end in loss.end_slopes(y))
    margin = np.minimum(high - g, g - low) - _FEW * DOUBLE * (high - low)
    margin = np.where(margin > _FEW * DOUBLE * (high - low), margin, 0.0)
    factor = InverseFactor.of(problem, margin**2, 0.5 * reg_lambda * gap)
    if factor is None:
        return None
    off = score_rounding(w[None], lengths, d)[:, 0] + _FEW * DOUBLE * (np.abs(y) + abs(b))
    r = np.abs(rows.scores(w) + b - y) + off
    apart = float(np.linalg.norm(w + a / reg_lambda)) + (
        taken.of_plane / reg_lambda + _FEW * DOUBLE * float(np.linalg.norm(w))
    )
    square = float(np.sum((margin * r) ** 2)) + 0.5 * reg_lambda * gap * apart**2
    return factor.region(w, b, gap + np.sqrt(square))
