"""All best intercepts of the multiclass hinge, by linear programs, lie in the interval of the fit.

The claim is for all weights in a ball: each of them may be the optimum of some problem.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.optimum import Ball
from sklearn_bundle.linear.losses import MulticlassHinge
from sklearn_bundle.linear.problems import class_intercepts
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.score_region import score_region
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from tests import reference_multiclass
from tests.contract.fits import quiet

TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def face(scores, y, weights, costs, share=1e-10):
    """Extreme optimal intercepts of sum 0: the least and the largest b_k - b_l, of shape (K, K)."""
    n, K = scores.shape
    own = np.eye(K)[y]
    rises = np.concatenate([np.eye(K) - own[i] for i in range(n)])
    slack = np.kron(np.eye(n), np.ones((K, 1)))
    A = np.hstack([rises, -slack])
    margins = (scores - scores[np.arange(n), y][:, None] + costs[y]).ravel()
    sums = np.r_[np.ones(K), np.zeros(n)][None]
    given = {"A_eq": sums, "b_eq": [0.0], "bounds": [(None, None)] * K + [(0.0, None)] * n}
    risk = np.r_[np.zeros(K), weights]
    given["options"] = TOLERANCES
    best = linprog(risk, A, -margins, **given)
    assert best.status == 0
    A, sides = np.vstack([A, risk]), np.r_[-margins, best.fun + share * (1.0 + best.fun)]
    largest = np.zeros((K, K))
    for k in range(K):
        for j in set(range(K)) - {k}:
            along = np.zeros(K + n)
            along[[k, j]] = -1.0, 1.0
            found = linprog(along, A, sides, **given)
            assert found.status == 0
            largest[k, j] = -found.fun
    return best.x[:K], largest


def outside(region, largest, w, center):
    """By how much differences of optimal intercepts, at the center, leave what the region says."""
    at_center = w @ center
    largest = largest + at_center[:, None] - at_center
    middle = 0.5 * (region.low + region.high)
    past = largest - (middle[:, None] - middle) - region.apart
    np.fill_diagonal(past, -np.inf)
    return past.max()


def random_case(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 5))
    n = K + int(rng.integers(0, 9)) * int(rng.integers(0, 3))
    d = int(rng.integers(1, 4))
    y = np.r_[np.arange(K), rng.integers(0, K, n - K)]
    X = rng.normal(size=(n, d)) + 2.0
    if rng.random() < 0.3:
        X = np.round(X)  # equal rows, and scores at kinks
    weights = rng.random(n) + 0.1 if rng.random() < 0.4 else np.ones(n)
    cost = None
    if rng.random() < 0.4:
        cost = rng.random((K, K)) * 2.0
        np.fill_diagonal(cost, 0.0)
    w = rng.normal(size=(K, d)) * rng.choice([0.0, 0.3, 2.0])
    radius = float(rng.choice([0.0, 1e-6, 1e-3, 0.05, 0.5]))
    return rng, X, y, weights / weights.sum(), MulticlassHinge(cost), w, radius


def known_region(X, y, weights, loss, w, radius, b, monkeypatch):
    problem = LinearProblem(rows_in_memory(X), y, weights, loss, True)
    monkeypatch.setattr("sklearn_bundle.linear.problems.score_region._is_hopeless", lambda *_: 0)
    return score_region(problem, Ball(w.ravel(), radius), b)


@pytest.mark.parametrize("first", [0, pytest.param(40, marks=pytest.mark.wide)])
def test_all_best_intercepts_of_weights_in_the_ball(first, monkeypatch):
    for seed in range(first, 40 if first == 0 else 600):
        rng, X, y, weights, loss, w, radius = random_case(seed)
        K = len(w)
        best = face(X @ w.T, y, weights, loss.costs(K))[0]
        best = best + rng.normal(size=K) * rng.choice([0.0, 1e-3, 0.1])
        region = known_region(X, y, weights, loss, w, radius, best, monkeypatch)
        assert np.isfinite(region.apart)
        away = rng.normal(size=w.shape)
        if rng.random() < 0.5:  # all differences of two classes rise in the same direction
            away = np.outer(rng.normal(size=K), X[rng.integers(len(X))] - region.center)
        away *= radius / max(np.linalg.norm(away), 1e-300)
        _, largest = face(X @ (w + away).T, y, weights, loss.costs(K))
        slack = 1e-7 * (1.0 + np.abs(largest).max())
        assert outside(region, largest, w + away, region.center) <= slack, seed


def test_two_classes_with_many_best_intercepts(monkeypatch):
    """One row per class: all b within the margin are optimal, and the interval has them all."""
    X, y = np.array([[0.0], [4.0]]), np.array([0, 1])
    w = np.array([[-0.5], [0.5]])
    weights = np.full(2, 0.5)
    best, largest = face(X @ w.T, y, weights, 1.0 - np.eye(2))
    region = known_region(X, y, weights, MulticlassHinge(), w, 0.0, best, monkeypatch)
    np.testing.assert_allclose(largest[1, 0], -1.0, atol=1e-8)
    np.testing.assert_allclose(-largest[0, 1], -3.0, atol=1e-8)
    difference = region.high[1] - region.low[0], region.low[1] - region.high[0]
    at_center = float(region.center[0])  # times w_1 - w_0 = 1
    assert difference[0] - at_center >= -1.0 and difference[1] - at_center <= -3.0
    assert region.apart <= 1.3 * 2.0


@pytest.mark.parametrize("radius", np.geomspace(0.1, 2.0, 12))
def test_weights_of_two_classes_that_move_apart(radius, monkeypatch):
    """Their difference moves by sqrt(2) r, and with it the last b that leaves both rows right."""
    X, y, weights = np.array([[-1.0], [1.0]]), np.array([0, 1]), np.full(2, 0.5)
    w = np.array([[-0.75], [0.75]])
    region = known_region(X, y, weights, MulticlassHinge(), w, radius, np.zeros(2), monkeypatch)
    assert region.apart >= 0.5 + np.sqrt(2.0) * radius
    assert region.apart <= 1.3 * (0.5 + np.sqrt(2.0) * radius)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_weights_of_sets_are_those_of_the_definition(K):
    rng = np.random.default_rng(K)
    values, shift = rng.integers(0, 4, (30, K)) * 1.0, rng.integers(-3, 4, 30) * 1.0
    weights = rng.random(30)
    behind = values.max(axis=1, keepdims=True) - values
    found = class_intercepts._weights_above(behind, shift, weights)
    for code in range(1, (1 << K) - 1):
        inside = np.array([bool(code >> k & 1) for k in range(K)])
        M = values[:, inside].max(axis=1) - values[:, ~inside].max(axis=1)
        np.testing.assert_allclose(found[code], weights[M + shift > 0.0].sum(), atol=1e-13)


def test_the_longest_chain():
    from itertools import permutations

    K = 4
    gaps = np.random.default_rng(0).random(1 << K)
    gaps[[0, -1]] = 0.0
    chains = [np.cumsum(1 << np.array(order)) for order in permutations(range(K))]
    longest = max(gaps[chain].sum() for chain in chains)
    np.testing.assert_allclose(class_intercepts._longest_chain(gaps, K), longest)


SHAPES = [
    "plain",
    "sparse",
    "single",
    "row per class",
    "one row in a class",
    "one column",
    "constant",
    "huge",
    "around",
    "doubled",
    "one weight",
    "nothing",
    "costs",
]


def shaped(shape, seed):
    rng = np.random.default_rng(seed)
    n, K = 18, 3
    y = np.r_[0, 1, 2, rng.integers(0, K, n - K)]
    X, weights, cost = rng.normal(size=(n, 2)) + np.eye(3, 2)[y], np.ones(n), None
    if shape == "row per class":
        X, y, weights = X[:K], y[:K], weights[:K]
    elif shape == "one row in a class":
        y[3:] = np.minimum(y[3:], 1)
    elif shape == "one column":
        X = X[:, :1]
    elif shape == "constant":
        X[:, 1] = 7.0
    elif shape == "huge":
        X[:, 1] *= 1e8
    elif shape == "around":
        X[:, 1] += 1e8
    elif shape == "doubled":
        X, y = np.r_[X[:9], X[:9]], np.r_[y[:9], y[:9]]
    elif shape == "one weight":
        weights = np.zeros(n)
        weights[:3] = 1.0, 3.0, 1.0
    elif shape == "nothing":
        X[:] = 0.0
    elif shape == "costs":
        cost = [[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [0.5, 1.0, 0.0]]
    return X, y, weights, cost


def test_numbers_that_overflow_say_nothing():
    scores, start = np.array([[np.nan, 0.0], [0.0, 1.0]]), np.zeros(2)
    given = np.array([0, 1]), np.full(2, 0.5), np.ones(2), start
    found = class_intercepts.hinge_intercepts(MulticlassHinge(), scores, *given)
    assert found["apart"] == np.inf and (found["low"] == -np.inf).all()


@pytest.mark.filterwarnings("ignore:w is nearly 0")
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.wide) for s in (1, 2, 3))])
@pytest.mark.parametrize("shape", SHAPES)
def test_fits_know_the_optimum(shape, seed):
    """Weights of another solver, where they are in the ball, with all their best intercepts."""
    X, y, weights, cost = shaped(shape, seed)
    kept = weights > 0.0
    rows, labels, shares = X[kept], y[kept], weights[kept] / weights.sum()
    if shape == "single":
        X = X.astype(np.float32)
        rows = X.astype(np.float64)
    costs = 1.0 - np.eye(3) if cost is None else np.asarray(cost)
    middle = rows.mean(axis=0)
    centered = rows - middle
    value, W, _ = reference_multiclass.optimum(centered, labels, shares, 0.05, True, cost=cost)
    largest = face(centered @ W.T, labels, shares, costs, 1e-9)[1]
    largest -= (W @ middle)[:, None] - W @ middle
    given = sp.csr_matrix(X) if shape == "sparse" else X
    in_balls = 0
    for tol in (1e-1, 1e-3, 1e-6):
        model = BMRMClassifier(
            "multiclass_hinge",
            cost=cost,
            reg_lambda=0.05,
            tol=tol,
            max_iter=10 if shape in ("huge", "around") else 100,
        )
        quiet(model, given, y, weights)
        (region,) = model._known_regions()
        if not np.linalg.norm(W - region.weights) <= region.radius:
            continue
        in_balls += 1
        if not np.isfinite(region.low).all():
            continue
        scores = np.abs(rows @ W.T).max()
        slack = 1e-7 * (1.0 + np.abs(largest).max() + scores)
        assert outside(region, largest, W, region.center) <= slack
        low, high = model.decision_bounds(rows)
        least = high[:, :, None] - low[:, None]  # of the largest difference of two classes
        f = rows @ W.T
        assert (f[:, :, None] - f[:, None] - largest.T <= least + slack).all()
        assert value <= model.objective_ * (1.0 + 1e-8) + 1e-8
    assert in_balls or shape == "nothing"


def test_more_classes_than_sets_can_be_listed(monkeypatch):
    X, y, _, _ = shaped("plain", 0)
    monkeypatch.setattr("sklearn_bundle.linear.problems.score_region.MOST_CLASSES", 2)
    model = quiet(BMRMClassifier("multiclass_hinge"), X, y)
    with pytest.raises(ValueError, match="bounds no scores of the optimum"):
        model.decision_bounds(X)
