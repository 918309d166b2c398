"""What a fit says of its optimum's scores and labels, held against an independent optimum.

``decision_bounds`` or ``predict_bounds``, ``certain`` and ``score_bounds`` speak of the exact
optimum. The reference is not exact either: how far its w may be from the optimum's is proved where
its method has a proof, and else follows from its objective by strong convexity. A fit says nothing
by an infinite interval or by an error that says so.
"""

import copy

import numpy as np

from tests.reference_programme import LONG, LONG_EPS

REFERENCE = 1e-9  # of the terms of an objective: what an interior-point method leaves at least
SAYS_NOTHING = "bounds no scores of the optimum", "need k(x, x) of the samples"
_STEPS = 150  # of a search by thirds, each of which leaves two thirds


def bound_faults(model, X, y, problems, optima):
    """Texts on bounds of the optimum at the rows of X that are not true."""
    bounds = np.atleast_1d(model.lower_bound_)
    off = [missed(*parts) for parts in zip(problems, optima, bounds, strict=True)]
    if not np.isfinite(off).all():
        return []
    if hasattr(problems[0], "at"):
        return _label_faults(model, X, problems[0], optima[0], off[0])
    intervals = _intervals(model, X, len(problems))
    if intervals is None or (len(problems) == 1 and len(np.atleast_2d(optima[0].point[0])) > 1):
        return []
    scores = [p.scores(best, o) for p, best, o in zip(problems, optima, off, strict=True)]
    found = []
    for k, (problem, known) in enumerate(zip(problems, scores, strict=True)):
        rows = getattr(problem, "rows", slice(None))
        found += _outside(k, *(end[rows, k] for end in intervals), *known)
    if len(problems) == 1 and hasattr(model, "classes_") and not _threshold(model).any():
        rows = getattr(problems[0], "rows", np.arange(len(y)))
        y = np.asarray(y)
        found += _binary_faults(model, X[rows] if len(rows) < len(y) else X, y[rows], *scores[0])
    return found


def is_unknown(problem, best, bound):
    """Whether nothing can be judged: the reference itself may be anywhere."""
    return not np.isfinite(missed(problem, best, bound))


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


# ---- scores -----------------------------------------------------------------------------------


def _intervals(model, X, n_problems):
    """Lowest and highest scores, a column per subproblem, or None if the fit says nothing."""
    if getattr(model, "decision_function_shape", "ovo") == "ovr" and n_problems > 1:
        model = copy.copy(model).set_params(decision_function_shape="ovo")
    ask = getattr(model, "predict_bounds", None) or model.decision_bounds
    try:
        ends = ask(X)
    except ValueError as error:
        assert any(part in str(error) for part in SAYS_NOTHING), error
        return None
    ends = np.array([np.reshape(end, (X.shape[0], -1)) for end in ends])
    if getattr(model, "loss", "") == "poisson":
        with np.errstate(divide="ignore"):
            ends = np.log(ends)
    given = 0.0 if getattr(model, "nu", None) else getattr(model, "offset_", 0.0)
    return ends + given - _threshold(model)


def _threshold(model):
    """An intercept that predictions use and no objective has."""
    chosen = getattr(model, "loss", None) == "roc_auc"
    return np.ravel(model.intercept_) if chosen else np.zeros(1)


def _outside(k, low, high, least, most):
    """Of intervals that miss the optimum's scores, known to be between ``least`` and ``most``."""
    rounding = 1e-12 * (np.abs(least) + np.abs(most))
    inside = (low - rounding <= most) & (least <= high + rounding) & (low <= high)
    if inside.all():
        return []
    i = int(np.argmin(inside))
    text = f"{k}: the score [{least[i]}, {most[i]}] of row {i} is not in [{low[i]}, {high[i]}]"
    return [text]


def _binary_faults(model, X, y, least, most):
    """Certain labels and bounds of the accuracy, where the optimum's labels are known."""
    known = (least > 0) | (most < 0)
    labels = model.classes_[(least > 0).astype(int)]
    found = []
    if callable(model.certain):  # searches have a parameter of that name
        wrong = known & model.certain(X) & (model.predict(X) != labels)
        found = [f"the label of row {np.argmax(wrong)} is not certain"] if wrong.any() else []
    right = labels == y
    lowest, highest = np.mean(right & known), np.mean(right | ~known)
    low, high = model.score_bounds(X, y)
    if not (low <= highest + 1e-12 and lowest <= high + 1e-12):
        found.append(f"the score [{lowest}, {highest}] is not in [{low}, {high}]")
    return found


def linear_scores(problem, best, off):
    """Between what the optimum's scores are at the rows of a linear problem of one score."""
    W = np.asarray(best.point[0], LONG)
    scores, (least, most) = problem.X @ W[0], (LONG(0), LONG(0))
    if hasattr(problem.risk, "nu"):
        most, least = (-end for end in _quantiles(problem.risk, scores))
    elif problem.free:
        best.intercepts = best.intercepts or tuple(best_intercepts(problem, best))
        least, most = best.intercepts
    lengths = np.linalg.norm(np.asarray(problem.X, float), axis=1)
    sizes = np.abs(problem.X) @ np.abs(W[0]) + max(abs(least), abs(most))
    slack = off * (lengths + lengths.max())
    slack = slack + (problem.X.shape[1] + 2) * LONG_EPS * sizes
    return scores + least - slack, scores + most + slack


def _quantiles(risk, scores):
    """The least and the largest rho of a share nu of the weight below."""
    order = np.argsort(scores)
    shares = np.cumsum(risk.weights[order])
    rounding = len(shares) * LONG_EPS
    ends = np.searchsorted(shares, [risk.nu - rounding, risk.nu + rounding])
    return scores[order[np.minimum(ends, len(order) - 1)]]


def best_intercepts(problem, best):
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


# ---- labels of structures ---------------------------------------------------------------------


def _label_faults(model, X, problem, best, off):
    """Labels that are certain and that the reference's model does not predict."""
    if not callable(getattr(model, "certain", None)):
        return []
    try:
        certain = model.certain(X)
    except ValueError as error:
        assert any(part in str(error) for part in SAYS_NOTHING), error
        return []
    if off > 1e-3 * (1e-9 + np.linalg.norm(np.asarray(best.point, float))):
        return []  # the reference's labels may not be the optimum's
    predicted, labels = model.predict(X), problem.at(model, best.point).predict(X)
    for i, (sure, ours, theirs) in enumerate(zip(certain, predicted, labels, strict=True)):
        different = np.atleast_1d(np.asarray(ours) != np.asarray(theirs))
        if (np.atleast_1d(sure) & different).any():
            return [f"a label of sequence {i} is not certain"]
    return []
