"""What a fit says of the optimum's scores, held against an independent optimum.

The reference is not the optimum either. How far off its w may be is proved where its method has a
proof, and else follows from its objective by strong convexity; its best intercept moves by no more
than the largest of its scores do.
"""

import numpy as np

from tests.reference_programme import LONG, LONG_EPS

REFERENCE = 1e-9  # of the terms of an objective: what an interior-point method leaves at least
_STEPS = 150  # of a search by thirds, each of which leaves two thirds


def region_faults(model, problem, best, bound, k):
    """Texts on the region of subproblem k that are not true of the reference at the rows of X."""
    region, off = _region(model, k), missed(problem, best, bound)
    if region is None or not np.isfinite(off):
        return []
    if hasattr(problem, "region_faults"):
        return problem.region_faults(region, best, off)
    if hasattr(problem, "Z"):
        return _kernel_faults(region, problem, best, off)
    return _linear_faults(region, problem, best, off)


def is_unknown(model, problem, best, bound, k):
    """Whether a region cannot be judged: the reference itself may be off by more than it allows."""
    region = _region(model, k)
    return region is not None and not missed(problem, best, bound) <= region.radius


def _region(model, k):
    """What the model says of subproblem k, if it does."""
    if "_regions" not in vars(model) or not hasattr(model, "_stored_regions"):
        return None
    return model._stored_regions()[k]


def missed(problem, best, bound):
    """How far the optimum's w may be from the reference's, or its function; NaN if unknown.

    A bound of the fit that is no lie says how far the reference's value is from the optimum too.
    """
    if best.point is None or not np.isfinite(best.value):
        return np.nan
    if best.apart is not None:
        return best.apart
    error = best.error + REFERENCE * getattr(problem, "size", 0.0)
    error = max(float(min(error, best.value - bound + problem.slack)), 0.0)
    error += len(problem.point) * float(LONG_EPS * abs(best.value))
    modulus = getattr(problem, "modulus", 1.0)  # of a function in its own metric
    return np.sqrt(2.0 * error / modulus) if modulus > 0.0 else np.nan


def _linear_faults(region, problem, best, off):
    W = np.asarray(best.point[0], LONG)
    found, apart = [], np.linalg.norm(np.asarray(W - region.weights, float))
    if not apart <= region.radius * (1 + 1e-12) + off + 1e-12 * np.linalg.norm(region.weights):
        found.append(f"w is {apart} from the middle, radius {region.radius}")
    if len(W) > 1 or not region.is_known or not np.isfinite(region.low).all():
        return found
    if not problem.free and region.center.any():  # of a quantile, which is no intercept
        return found
    X, least, most = problem.X, LONG(0), LONG(0)
    scores = X @ W[0]
    if problem.free and (region.center.any() or region.low < region.high):
        least, most = _best_intercepts(problem, best)
    lengths = np.linalg.norm(np.asarray(X - region.center, float), axis=1)
    sizes = np.abs(X) @ np.abs(W[0]) + max(abs(least), abs(most))
    slack = off * (lengths + lengths.max()) + (X.shape[1] + 2) * LONG_EPS * sizes
    low, high = region.intervals(np.asarray(X, float))
    inside = (low[:, 0] - slack <= scores + most) & (scores + least <= high[:, 0] + slack)
    if not inside.all():
        i = int(np.argmin(inside))
        f = f"[{scores[i] + least}, {scores[i] + most}]"
        found.append(f"score {f} is not in [{low[i, 0]}, {high[i, 0]}] +- {slack[i]}")
    return found


def _kernel_faults(region, problem, best, off):
    """Of the points of the subproblem, in the metric of the functions."""
    change = (best.point - problem.point) * getattr(problem, "signs", LONG(1))
    apart = np.sqrt(max(float(change @ problem.Z @ change), 0.0))
    sizes = float(np.abs(change) @ (problem.sizes @ np.abs(change)))
    lost = np.sqrt(1e-15 * sizes)  # where large terms of both signs cancel
    if not apart <= region.radius * (1 + 1e-9) + off + lost:
        return [f"the function is {apart} from the optimum's, radius {region.radius}"]
    return []


def _best_intercepts(problem, best):
    """Two numbers that a best b for the reference's w is between; the risk is convex in b."""
    W, (b,) = best.point
    if best.shift is not None:
        return b - best.shift, b + best.shift
    scores = problem.X @ W[0]
    reach = LONG(2) * (np.abs(scores).max() + abs(b) + 1)

    def risk(b):
        return problem.risk.value(scores + b)

    ends = low, high = b - reach, b + reach
    for _ in range(_STEPS):
        third = (high - low) / 3
        left, right = low + third, high - third
        low, high = (left, high) if risk(left) > risk(right) else (low, right)
    middle = (low + high) / 2
    # What rounding may make of the least value: the best b is none of those above it.
    level = risk(middle) + 2 * problem.unknown(W, middle)
    return [_crossed(risk, level, end, middle) for end in ends]


def _crossed(risk, level, outside, inside):
    """A point where the risk is above a level, next to one where it is not."""
    if risk(outside) <= level:
        return (outside - inside) * LONG(np.inf)
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if risk(middle) > level else (middle, outside)
    return outside
