"""What a fit says of the optimum's scores, held against an independent optimum.

The reference is not the optimum either: by strong convexity its w is within ``sqrt(2 error / mu)``
of it, and its best intercept moves by no more than the largest of its scores do.
"""

import numpy as np

from tests import reference_regularizers as regularizers
from tests.reference_programme import LONG

SEARCHED = 1e-8  # of a score: precision to which the reference's intercept is searched
REFERENCE = 1e-9  # of the terms of an objective: what an interior-point method leaves at least
_STEPS = 150  # of that search, each of which leaves two thirds


def region_faults(model, problem, best, bound, k):
    """Texts on the region of subproblem k that are not true of the reference at the rows of X."""
    if "_regions" not in vars(model) or best.point is None:
        return []
    region = model._stored_regions()[k] if hasattr(model, "_stored_regions") else None
    if region is None:
        return []
    missed = best.error + REFERENCE * getattr(problem, "size", 0.0)
    error = max(float(min(missed, best.value - bound)), 0.0)
    error += len(problem.point) * float(np.finfo(LONG).eps * abs(best.value))
    if hasattr(problem, "region_faults"):
        return problem.region_faults(region, best, error)
    if hasattr(problem, "Z"):
        if not np.isfinite(np.asarray(best.point, float)).all():  # where rounding beats Newton
            return []
        return _kernel_faults(region, problem, best, error)
    modulus = problem.reg_lambda * _strong_convexity(problem.omega)
    if not (modulus > 0.0 and np.isfinite(error)):
        return []
    W = np.asarray(best.point[0], LONG)
    off = np.sqrt(2.0 * error / modulus)
    found, apart = [], np.linalg.norm(np.asarray(W - region.weights, float))
    if not apart <= region.radius * (1 + 1e-12) + off + 1e-12 * np.linalg.norm(region.weights):
        found.append(f"w is {apart} from the middle, radius {region.radius}")
    if len(W) > 1 or not region.is_known or not np.isfinite(region.low).all():
        return found
    if not problem.free and region.center.any():  # of a quantile, which is no intercept
        return found
    X, b = problem.X, LONG(0)
    scores = X @ W[0]
    if problem.free and (region.center.any() or region.low < region.high):
        b = _best_intercept(problem, scores, best.point[1][0])
    lengths = np.linalg.norm(np.asarray(X - region.center, float), axis=1)
    slack = off * (lengths + lengths.max()) + SEARCHED * (np.abs(scores).max() + np.abs(b).max())
    low, high = region.intervals(np.asarray(X, float))
    inside = (low[:, 0] - slack <= scores + b) & (scores + b <= high[:, 0] + slack)
    if not inside.all():
        i = int(np.argmin(inside))
        found.append(f"score {scores[i] + b} is not in [{low[i, 0]}, {high[i, 0]}] +- {slack[i]}")
    return found


def _kernel_faults(region, problem, best, error):
    """Of the points of the subproblem, in the metric of the functions."""
    off = np.sqrt(2.0 * error)
    change = (best.point - problem.point) * getattr(problem, "signs", LONG(1))
    apart = np.sqrt(max(float(change @ problem.Z @ change), 0.0))
    sizes = float(np.abs(change) @ (problem.sizes @ np.abs(change)))
    lost = np.sqrt(1e-15 * sizes)  # where large terms of both signs cancel
    if not apart <= region.radius * (1 + 1e-9) + off + lost:
        return [f"the function is {apart} from the optimum's, radius {region.radius}"]
    return []


def _strong_convexity(omega):
    if isinstance(omega, regularizers.Quadratic):
        return float(np.linalg.eigvalsh(np.asarray(omega.B, float))[0])
    if isinstance(omega, regularizers.L1):
        return float(omega.ridge)
    if isinstance(omega, regularizers.Lp):
        return float(omega.p) - 1.0
    return 0.0


def _best_intercept(problem, scores, start):
    """By thirds: the risk is convex in b."""
    reach = LONG(2) * (np.abs(scores).max() + abs(start) + 1)
    low, high = start - reach, start + reach
    for _ in range(_STEPS):
        third = (high - low) / 3
        left, right = (problem.risk.value(scores + b) for b in (low + third, high - third))
        low, high = (low + third, high) if left > right else (low, high - third)
    return (low + high) / 2
