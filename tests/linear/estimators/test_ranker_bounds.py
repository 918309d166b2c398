"""The range of a ranker's measure at the exact optimum, against optima of another solver.

The reference's w is within ``sqrt(2 error / reg_lambda)`` of the optimum's. Pairs of rows that this
may turn are counted either way, and lists are all those that it leaves open.
"""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklearn_bundle import BMRMRanker
from sklearn_bundle.linear.estimators import _order_bounds
from sklearn_bundle.losses import Ordinal, Preference
from tests.contract.fits import quiet
from tests.contract.subproblems import subproblems
from tests.reference_programme import LONG

TOLS = 1e-1, 1e-3, 1e-5, 1e-8
LOSSES = "ordinal", "queries", "preference", "ndcg"
SHAPES = [
    "plain",
    "sparse",
    "single",
    "one column",
    "constant",
    "few rows",
    "one row in a grade",
    "huge",
    "offset",
    "doubled",
    "one weight",
    "nothing",
]


def case(loss, shape, seed=0):
    """A model and its data, small enough for a reference that lists all orders."""
    rng = np.random.default_rng(seed)
    n = 4 if shape == "few rows" else 20
    X = rng.normal(size=(n, 3)) + 1.0
    grades = np.digitize(X @ [1.0, -1.0, 0.5] + rng.normal(size=n), [0.0, 1.0])
    if shape == "one column":
        X = X[:, :1]
    elif shape == "constant":
        X[:, 1] = 7.0
    elif shape == "few rows":
        grades = np.array([0, 1, 2, 1])
    elif shape == "one row in a grade":
        grades = (np.arange(n) == 3).astype(int)
    elif shape == "huge":
        X[:, 1] *= 1e8
    elif shape == "offset":
        X[:, 1] += 1e6
    elif shape == "doubled":
        X[::2] = X[1::2]
    elif shape == "nothing":
        X[:] = 0.0
    grades[:2] = 0, 2
    group, weights, y = np.arange(n) // 5, None, grades
    if loss in ("ordinal", "preference"):
        group = None
    if loss == "preference":
        pairs = rng.integers(0, n, (60, 2))
        y = np.r_[[[1, 0]], pairs[grades[pairs[:, 0]] > grades[pairs[:, 1]]]]
    if shape == "one weight":  # of rows 0 and 1, one of each grade
        weights = np.zeros(n)
        weights[:2] = 1.0, 3.0
        if loss == "ndcg":
            weights = (group == 0).astype(float)
    name = "ordinal" if loss == "queries" else loss
    model = BMRMRanker(name, reg_lambda=0.05, k=3 if loss == "ndcg" else None)
    X = sp.csr_matrix(X) if shape == "sparse" else X
    return model, X.astype(np.float32) if shape == "single" else X, y, weights, group


def optimal_scores(model, X, y, weights, group):
    """Scores of the reference, and how far their differences may be off, of shape (n, n)."""
    (problem,) = subproblems(model, X, y, weights, group)
    best = problem.optimum()
    off = np.sqrt(2.0 * max(float(best.error), 1e-18) / model.reg_lambda)
    rows = np.asarray(X.toarray() if sp.issparse(X) else X, LONG)
    apart = np.linalg.norm(np.asarray(rows[:, None] - rows, float), axis=2)
    size = np.abs(rows) @ np.abs(best.point[0][0])
    return rows @ best.point[0][0], off * apart + 1e-15 * np.asarray(size[:, None] + size, float)


def measures(model, f, off, y, weights, group):
    """The least and the largest measure of the scores f, by its definition."""
    n = len(f)
    s = np.ones(n) if weights is None else weights
    if model.loss == "ndcg":
        return of_lists(model.k, f, off, y, s, group)
    group = np.zeros(n) if group is None else group
    pairs = y[:, :2] if model.loss == "preference" else np.argwhere(y[:, None] > y)
    pairs = [(i, j) for i, j in pairs if group[i] == group[j]]
    low = high = total = 0.0
    for i, j in pairs:
        total += s[i] * s[j]
        low += s[i] * s[j] * (f[i] - f[j] > off[i, j])
        high += s[i] * s[j] * (f[i] - f[j] >= -off[i, j])
    return low / total, high / total


def of_lists(k, f, off, y, s, group):
    low = high = total = 0.0
    discounts = [1.0 / np.log2(place + 2.0) for place in range(k)]
    for q in np.unique(group):
        rows = np.flatnonzero((group == q) & (s > 0.0))
        gains = 2.0 ** y[rows] - 1.0
        if len(set(gains)) < 2:
            continue
        found = []
        for order in permutations(range(len(rows))):
            listed = rows[list(order)]
            before = f[listed][:, None] - f[listed] >= -off[np.ix_(listed, listed)]
            if before[np.triu_indices(len(rows), 1)].all():
                found.append(discounts @ gains[list(order)][:k])
        best = discounts @ np.sort(gains)[::-1][:k]
        low, high = low + s[rows[0]] * min(found) / best, high + s[rows[0]] * max(found) / best
        total += s[rows[0]]
    return low / total, high / total


def check(model, X, y, weights, group):
    """Bounds that hold; returns their last width and that of the reference."""
    models = [clone(model).set_params(tol=tol) for tol in TOLS]
    for fitted in models:
        quiet(fitted, X, y, weights, group=group)
    known = optimal_scores(models[-1], X, y, weights, group)
    truth = measures(model, *known, y, weights, group)
    for fitted in models:
        low, high = fitted.score_bounds(X, y, weights, group)
        assert 0.0 <= low <= truth[1] + 1e-14 and truth[0] - 1e-14 <= high <= 1.0
        assert low <= fitted.score(X, y, weights, group) <= high
    return high - low, truth[1] - truth[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_hold(loss, shape):
    width, least = check(*case(loss, shape))
    if shape in ("plain", "sparse", "single", "one column", "few rows", "one row in a grade"):
        assert width <= least + 1e-14


@pytest.mark.wide
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_hold_on_many_problems(loss):
    for seed in range(40):
        check(*case(loss, SHAPES[seed % len(SHAPES)], seed))


@pytest.mark.parametrize("loss", LOSSES)
def test_pairs_that_are_too_many_to_look_at(loss, monkeypatch):
    """Bounds are wider then, and they hold."""
    from sklearn_bundle.linear.problems import order_region

    given = case(loss, "plain")
    model, X, y, weights, group = given
    fine = quiet(clone(model).set_params(tol=1e-1), X, y, weights, group=group)
    fine = fine.score_bounds(X, y, weights, group)
    monkeypatch.setattr(order_region, "_MOST_PAIRS", -1)
    coarse = quiet(clone(model).set_params(tol=1e-1), X, y, weights, group=group)
    coarse = coarse.score_bounds(X, y, weights, group)
    assert coarse[0] <= fine[0] <= fine[1] <= coarse[1]
    assert loss == "preference" or coarse != fine
    check(*given)


def test_parts_of_many_pairs(monkeypatch):
    """Bounds do not depend on how many pairs are looked at together."""
    from sklearn_bundle.linear.problems import order_region

    given = [case(loss, "plain") for loss in LOSSES]
    fits = [
        (quiet(model.set_params(tol=1e-2), X, y, weights, group=group), X, y, weights, group)
        for model, X, y, weights, group in given
    ]
    whole = [model.score_bounds(*data) for model, *data in fits]
    monkeypatch.setattr(order_region, "_ENTRIES", 7)
    parts = [model.score_bounds(*data) for model, *data in fits]
    np.testing.assert_allclose(parts, whole, rtol=1e-14)


def test_other_data_and_both_ends_of_a_list():
    """A gap that knows nothing leaves the best and the worst list of each query."""
    model, X, y, _, group = case("ndcg", "plain")
    fitted = quiet(model.set_params(reg_lambda=1e-9, tol=0.5, max_iter=1), X, y, group=group)
    low, high = fitted.score_bounds(X, y, group=group)
    least, most = of_lists(3, np.zeros(len(y)), np.ones((len(y),) * 2), y, np.ones(len(y)), group)
    np.testing.assert_allclose((low, high), (least, most), rtol=1e-13)
    with pytest.raises(ValueError, match="needs group"):
        fitted.score_bounds(X, y)
    with pytest.raises(ValueError, match="features"):
        fitted.score_bounds(X[:, :1], y, group=group)


def test_unknown_measures_and_regularizers():
    class Own(Preference):
        def score(self, scores, y, weights):
            return 0.5

    _, X, y, _, _ = case("preference", "plain")
    with pytest.raises(ValueError, match="a score of its own"):
        quiet(BMRMRanker(Own()), X, y).score_bounds(X, y)
    grades = np.arange(len(X))
    quiet(BMRMRanker(Ordinal("constant")), X, grades).score_bounds(X, grades)
    with pytest.raises(ValueError, match="bounds no scores of the optimum"):
        quiet(BMRMRanker(regularizer="l1"), X, grades).score_bounds(X, grades)


def test_scores_of_single_precision():
    """The sums of a measure are of double precision: it is at most 1."""
    _, X, y, _, group = case("queries", "single")
    model = quiet(BMRMRanker(reg_lambda=0.05), X, y, group=group)
    assert model.coef_.dtype == np.float32
    assert model.score(X, y, group=group) == model.score(X.astype(float), y, group=group) <= 1.0


def test_pairs_that_are_far_apart():
    """The coarser test, by its definition: with half the margin some pair would be sure."""
    rng = np.random.default_rng(0)
    f, y, weights, apart = rng.normal(size=40), rng.integers(0, 3, 40), rng.random(40), 0.8
    loss = Ordinal("constant")
    target = loss.prepare(y, None, len(y))
    better, worse = np.nonzero(y[:, None] > y)
    pairs, difference = weights[better] * weights[worse], f[better] - f[worse]
    low, high = (pairs @ sure / pairs.sum() for sure in (difference > apart, difference > -apart))
    found = _order_bounds._of_far_grades(loss, f, apart, target, weights)
    np.testing.assert_allclose(found, (low, high), atol=1e-14)
