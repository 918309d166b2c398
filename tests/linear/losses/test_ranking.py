"""Ordinal, preference and position losses: the risk by definition, planes below it, scores."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.metrics import ndcg_score, roc_auc_score

from sklearn_bundle.linear.losses.measures import ROCAUC
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.losses import (
    NDCG,
    Ordinal,
    PositionMeasure,
    PrecisionAtK,
    Preference,
)
from tests import reference_measures as reference

N = 12
MATRIX = np.array([[0.0, 1.0, 4.0, 5.0], [9.0, 0.0, 0.5, 2.0], [9.0] * 4, [9.0] * 4])
MATRIX[2, 3] = 0.0

ORDINAL = {cost: Ordinal(cost) for cost in reference.COSTS} | {"matrix": Ordinal(MATRIX)}
POSITION = {
    "ndcg": NDCG(),
    "ndcg_2": NDCG(2),
    "ndcg_linear": NDCG(3, "log2", "linear"),
    "reciprocal_rank": PositionMeasure("reciprocal", "binary"),
    "precision_2": PrecisionAtK(2),
}
TABLE = ORDINAL | {"preference": Preference()} | POSITION
every_loss = pytest.mark.parametrize("loss", TABLE.values(), ids=TABLE)
grouped = pytest.mark.parametrize("groups", [False, True])
seeds = st.integers(0, 2**32 - 1)
decimals_or_none = st.sampled_from([None, 0, 1])


def draw(loss, seed, decimals=None, groups=True):
    """Scores, target, query ids, weights and the generator; queries' weights are one a query."""
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.3, 2.0]) * rng.normal(size=N)
    if decimals is not None:
        scores = np.round(scores, decimals)
    weights = rng.random(N) + 0.1
    group = np.array(["b", "a", "c"])[rng.integers(0, 3, size=N)]
    y = rng.integers(0, 4, size=N)
    if isinstance(loss, PositionMeasure):
        group = rng.permutation(np.array(list("bbbbaaaacccd")))
        weights = dict(zip("abcd", weights, strict=False))
        weights = np.array([weights[query] for query in group])
        y[np.flatnonzero(group == "a")[:2]] = 0, 2
    else:
        group = group if groups else None
        y[:2], group = (0, 3), group if group is None else np.r_[group[:1], group[:1], group[2:]]
    if isinstance(loss, Preference):
        pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
        pairs = [p for p in pairs if group is None or group[p[0]] == group[p[1]]]
        y = np.array(pairs)[rng.integers(0, len(pairs), size=9)]
        y = np.c_[y, rng.integers(0, 4, size=9)] if seed % 2 else y
    return scores, y, group, weights / weights.sum(), rng


def blocks(loss, y, group, weights):
    if isinstance(loss, Preference):
        costs = y[:, 2] if y.shape[1] == 3 else np.ones(len(y))
        return reference.preference(y[:, :2], costs, weights)
    group = np.zeros(len(y)) if group is None else group
    if isinstance(loss, Ordinal):
        named = isinstance(loss.cost, str)
        cost = reference.COSTS[loss.cost] if named else lambda low, high: loss.cost[low, high]
        return reference.ordinal(y, weights, cost, group)
    discount, gain = reference.DISCOUNTS[loss.discount], reference.GAINS[loss.gain]
    return reference.position_measure(y, group, weights, discount, gain, loss.k)


def evaluate(loss, scores, y, group, weights):
    out = np.full(len(scores), np.nan)
    return loss.evaluate(scores, loss.prepare(y, group, len(scores)), weights, out), out


@every_loss
@grouped
@given(seed=seeds, decimals=decimals_or_none)
@settings(deadline=None, max_examples=25)
def test_risk_of_the_definition_and_planes_below_it(loss, groups, seed, decimals):
    scores, y, group, weights, rng = draw(loss, seed, decimals, groups)
    planes = blocks(loss, y, group, weights)
    risk, g = evaluate(loss, scores, y, group, weights)
    assert risk == pytest.approx(reference.risk(planes, scores), rel=1e-12, abs=1e-13)
    for scale in (0.01, 1.0, 10.0):
        for _ in range(5):
            step = scale * rng.normal(size=N)
            assert risk + g @ step <= reference.risk(planes, scores + step) + 1e-12 * (1 + scale)


@every_loss
def test_an_intercept_changes_nothing(loss):
    scores, y, group, weights, _ = draw(loss, 1)
    risk, g = evaluate(loss, scores, y, group, weights)
    prepared = loss.prepare(y, group, N)
    assert loss.free_intercept is None
    assert loss.risk(scores, prepared, weights, 1e3) == pytest.approx(risk, rel=1e-10)
    assert abs(g.sum()) <= 1e-15


@every_loss
@pytest.mark.parametrize("decimals", [None, 0])
def test_order_of_the_rows_is_no_matter(loss, decimals):
    scores, y, group, weights, rng = draw(loss, 2, decimals)
    order = rng.permutation(N)
    place = np.argsort(order)
    moved = np.c_[place[y[:, :2]], y[:, 2:]] if isinstance(loss, Preference) else y[order]
    risk, g = evaluate(loss, scores, y, group, weights)
    again, h = evaluate(loss, scores[order], moved, group[order], weights[order])
    assert again == pytest.approx(risk, rel=1e-13)
    if not isinstance(loss, PositionMeasure):  # there a plane may take either of two tied rows
        np.testing.assert_allclose(h, g[order], atol=1e-15)
    prepared, other = loss.prepare(y, group, N), loss.prepare(moved, group[order], N)
    score = loss.score(scores, prepared, weights)
    assert loss.score(scores[order], other, weights[order]) == pytest.approx(score, rel=1e-13)


@pytest.mark.parametrize("loss", ORDINAL.values(), ids=ORDINAL)
@grouped
def test_ordinal_integer_weights_repeat_rows(loss, groups):
    scores, y, group, _, rng = draw(loss, 3, 1, groups)
    counts = rng.integers(1, 4, size=N)
    total, owner = counts.sum(), np.arange(N).repeat(counts)
    risk, g = evaluate(loss, scores, y, group, counts / total)
    several = None if group is None else group[owner]
    again, h = evaluate(loss, scores[owner], y[owner], several, np.full(total, 1.0 / total))
    assert again == pytest.approx(risk, rel=1e-13)
    np.testing.assert_allclose(np.bincount(owner, h), g, atol=1e-15)


def test_preference_weights_repeat_rows_with_their_pairs():
    loss = Preference()
    scores, y, _, _, rng = draw(loss, 3, groups=False)
    counts = rng.integers(1, 4, size=N)
    total, owner = counts.sum(), np.arange(N).repeat(counts)
    pairs = [
        (i, j, cost)
        for better, worse, cost in y
        for i in np.flatnonzero(owner == better)
        for j in np.flatnonzero(owner == worse)
    ]
    risk, g = evaluate(loss, scores, y, None, counts / total)
    uniform = np.full(total, 1.0 / total)
    again, h = evaluate(loss, scores[owner], np.array(pairs), None, uniform)
    assert again == pytest.approx(risk, rel=1e-13)
    np.testing.assert_allclose(np.bincount(owner, h), g, atol=1e-15)


@pytest.mark.parametrize("loss", POSITION.values(), ids=POSITION)
def test_position_weights_repeat_queries(loss):
    scores, y, group, _, _ = draw(loss, 4)
    counts = np.select([group == "a", group == "b"], [2, 3], 1)
    parts = [np.flatnonzero(counts > copy) for copy in range(3)]
    owner = np.concatenate(parts)
    copies = np.concatenate([[f"{q}{copy}" for q in group[r]] for copy, r in enumerate(parts)])
    uniform = np.full(len(owner), 1.0 / len(owner))
    risk, g = evaluate(loss, scores, y, group, counts / counts.sum())
    again, h = evaluate(loss, scores[owner], y[owner], copies, uniform)
    assert again == pytest.approx(risk, rel=1e-13)
    np.testing.assert_allclose(np.bincount(owner, h), g, atol=1e-15)
    score = loss.score(scores, loss.prepare(y, group, N), counts / counts.sum())
    repeated = loss.prepare(y[owner], copies, len(owner))
    assert loss.score(scores[owner], repeated, uniform) == pytest.approx(score, rel=1e-13)


def test_two_grades_are_the_roc_area():
    rng = np.random.default_rng(5)
    scores, labels, weights = (
        rng.normal(size=300).round(1),
        rng.integers(0, 2, 300),
        rng.random(300),
    )
    weights /= weights.sum()
    risk, g = evaluate(Ordinal(), scores, labels, None, weights)
    out = np.empty(300)
    y = 2.0 * labels - 1.0
    assert risk == pytest.approx(ROCAUC().evaluate(scores, y, weights, out), rel=1e-13)
    np.testing.assert_allclose(g, out, atol=1e-15)
    score = Ordinal().score(scores, Ordinal().prepare(labels, None, 300), weights)
    assert score == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights), rel=1e-12)


@pytest.mark.parametrize("cost", reference.COSTS)
def test_as_many_grades_as_samples(cost):
    """Cancellation within moments of the grades: far from zero they still give the costs."""
    rng = np.random.default_rng(6)
    scores, y, weights = rng.normal(size=60), 1e4 + rng.normal(size=60), np.full(60, 1 / 60)
    risk, _ = evaluate(Ordinal(cost), scores, y, None, weights)
    planes = reference.ordinal(y, weights, reference.COSTS[cost], np.zeros(60))
    assert risk == pytest.approx(reference.risk(planes, scores), rel=1e-11)


@grouped
@given(seed=seeds, decimals=decimals_or_none)
@settings(deadline=None, max_examples=25)
def test_shares_of_ordered_pairs(groups, seed, decimals):
    for loss in (Ordinal("squared"), Preference()):
        scores, y, group, weights, _ = draw(loss, seed, decimals, groups)
        pairs = y[:, :2] if isinstance(loss, Preference) else np.argwhere(y[:, None] > y)
        if group is not None:
            pairs = pairs[group[pairs[:, 0]] == group[pairs[:, 1]]]
        products = weights[pairs].prod(axis=1)
        right = 0.5 + 0.5 * np.sign(scores[pairs[:, 0]] - scores[pairs[:, 1]])
        score = loss.score(scores, loss.prepare(y, group, N), weights)
        assert score == pytest.approx(products @ right / products.sum(), abs=1e-13)


@given(seed=seeds, k=st.sampled_from([None, 1, 3, 20]), decimals=decimals_or_none)
@settings(deadline=None, max_examples=50)
def test_ndcg_is_that_of_scikit_learn(seed, k, decimals):
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 5, size=(6, 9)), rng.normal(size=(6, 9))
    y[:, :2] = 0, 1
    scores = scores if decimals is None else scores.round(decimals)
    loss, group = NDCG(k), np.arange(6).repeat(9)
    prepared = loss.prepare(y.ravel(), group, 54)
    score = loss.score(scores.ravel(), prepared, np.full(54, 1 / 54))
    assert score == pytest.approx(ndcg_score(2.0**y - 1.0, scores, k=k), rel=1e-12)


def test_queries_of_equal_relevance_are_left_out():
    rng = np.random.default_rng(7)
    y, group = (
        np.r_[rng.integers(0, 3, 5), [0, 2], np.ones(4), [2]],
        np.array([0] * 7 + [1] * 4 + [2]),
    )
    scores, weights = rng.normal(size=12), np.full(12, 1 / 12)
    risk, g = evaluate(NDCG(), scores, y, group, weights)
    alone, h = evaluate(NDCG(), scores[:7], y[:7], group[:7], weights[:7])
    assert risk == pytest.approx(alone, rel=1e-14)
    np.testing.assert_allclose(g, np.r_[h, np.zeros(5)], atol=1e-16)


@pytest.mark.parametrize("loss", POSITION.values(), ids=POSITION)
@given(seed=seeds, decimals=decimals_or_none)
@settings(deadline=None, max_examples=25)
def test_risk_bounds_the_measure(loss, seed, decimals):
    scores, y, group, weights, _ = draw(loss, seed, decimals)
    risk, _ = evaluate(loss, scores, y, group, weights)
    assert risk >= 1.0 - loss.score(scores, loss.prepare(y, group, N), weights) - 1e-12


@pytest.mark.parametrize("loss", [PrecisionAtK(2), PositionMeasure("reciprocal", "binary")])
def test_classic_measures(loss):
    """One relevant document, third in the list: precision at 2 is 0, the reciprocal rank 1/3."""
    prepared = loss.prepare([0, 1, 0, 0], np.zeros(4), 4)
    score = loss.score(np.array([3.0, 1.0, 2.0, 0.0]), prepared, np.full(4, 0.25))
    assert score == pytest.approx(0.0 if loss.k == 2 else 1 / 3)


def test_parameters_may_be_functions():
    loss = NDCG(None, lambda position: 1.0 / position, lambda relevance: relevance**2)
    scores, y, group, weights, _ = draw(loss, 8)
    risk, _ = evaluate(loss, scores, y, group, weights)
    same = PositionMeasure("reciprocal", "linear")
    assert risk == pytest.approx(evaluate(same, scores, y**2, group, weights)[0], rel=1e-13)


@every_loss
@given(seed=seeds)
@settings(deadline=None, max_examples=15)
def test_line_search_takes_most_of_what_is_there(loss, seed):
    scores, y, group, weights, rng = draw(loss, seed)
    prepared = loss.prepare(y, group, N)
    direction, slope, curvature = rng.normal(size=N), -0.1 * rng.random(), rng.random() + 0.01

    def along(t):
        risk = loss.risk(scores + t * direction, prepared, weights, 0.0)
        return slope * t + 0.5 * curvature * t * t + risk

    t = loss.line_search(scores, direction, prepared, weights, slope, curvature, np.empty((4, N)))
    best = min(minimize_scalar(along, bounds=(0.0, 50.0)).fun, along(0.0))
    inexact = 1e-9 if isinstance(loss, Preference) else 0.1  # others end early
    assert t >= 0.0
    assert along(t) <= best + inexact * (along(0.0) - best) + 1e-12


@pytest.mark.parametrize("name", ["absolute", "preference", "ndcg", "ndcg_2"])
def test_bundle_method_reaches_the_optimum(name):
    loss, reg_lambda = TABLE[name], 0.1
    _, y, group, weights, rng = draw(loss, 9)
    X = rng.normal(size=(N, 3))
    best = reference.optimum(blocks(loss, y, group, weights), X, reg_lambda)
    problem = LinearProblem(rows_in_memory(X), loss.prepare(y, group, N), weights, loss, True)
    for _, state in zip(range(200), BundleSolver(problem, reg_lambda).states(), strict=False):
        assert state.lower_bound <= best + 1e-9 <= state.primal + 2e-9
        if state.gap <= 1e-7 * state.primal:
            break
    assert state.gap <= 1e-7 * state.primal


@every_loss
def test_loss_is_cloned_and_target_pickled(loss):
    scores, y, group, weights, _ = draw(loss, 10)
    copy = pickle.loads(pickle.dumps(loss))
    prepared = pickle.loads(pickle.dumps(loss.prepare(y, group, N)))
    risk, _ = evaluate(loss, scores, y, group, weights)
    assert copy.risk(scores, prepared, weights, 0.0) == risk
    assert vars(clone(copy, safe=False)).keys() == vars(loss).keys()


@every_loss
def test_inputs_are_not_written_to(loss):
    scores, y, group, weights, _ = draw(loss, 11)
    arrays = scores, y, group, weights
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    evaluate(loss, *arrays)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("loss", "y", "group", "match"),
    [
        (Ordinal(), [1, 1, 1], None, "y must hold two or more grades"),
        (Ordinal(), [1, 1, 2], [0, 0, 1], "two or more grades in at least one query"),
        (Ordinal(), [1, 2], None, r"y must have shape \(3,\)"),
        (Ordinal(), [1, 2, np.nan], None, r"y must be finite, but y\[2\] is nan"),
        (Ordinal(), ["low", "high", "low"], None, "y must hold numbers"),
        (Ordinal(), [1, 2, 3], [0, 0], r"group must have shape \(3,\)"),
        (Ordinal("linear"), [1, 2, 3], None, "cost must be one of .*, not 'linear'"),
        (Ordinal(np.ones((2, 3))), [0, 1, 1], None, "cost must be a square matrix"),
        (Ordinal([[0, -1], [0, 0]]), [0, 1, 1], None, r"cost must be .*, but cost\[0, 1\] is -1"),
        (Ordinal(np.ones((2, 2))), [1, 2, 2], None, "integers from 0 to 1.* from 1 to 2"),
        (Preference(), [["a", "b"]], None, "y must hold numbers"),
        (Preference(), [0, 1, 2], None, r"of shape \(m, 2\) or \(m, 3\)"),
        (Preference(), [[0, 3]], None, r"rows from 0 to 2, but pair 0 is \[0.0, 3.0\]"),
        (Preference(), [[0, 1], [1.5, 2]], None, r"pair 1 is \[1.5, 2.0\]"),
        (Preference(), [[0, 1], [2, 2]], None, r"paired with itself: pair 1 is \[2, 2\]"),
        (Preference(), [[0, 1, -1.0]], None, "not negative, but that of pair 0 is -1"),
        (Preference(), [[0, 1], [1, 2]], [5, 5, 6], r"two queries: pair 1 is \[1, 2\]"),
        (NDCG(), [0, 1, 2], None, "NDCG needs group"),
        (NDCG(), [0, 1, -2], [0, 0, 0], "relevances that are not negative, but has -2"),
        (NDCG(), [1, 1, 2], [0, 0, 1], "two different gains in at least one query"),
        (NDCG(0), [0, 1, 2], [0, 0, 0], "k must be None or an int of at least 1, but is 0"),
        (NDCG(1.5), [0, 1, 2], [0, 0, 0], "k must be .* but is 1.5"),
        (NDCG(gain="exp"), [0, 1, 2], [0, 0, 0], "gain must be one of .*, not 'exp'"),
        (NDCG(discount=lambda p: p), [0, 1, 2], [0, 0, 0], "rises from 1 at position 1 to 2"),
        (NDCG(gain=lambda r: -r), [0, 1, 2], [0, 0, 0], "gain must return one finite number"),
    ],
)
def test_prepare_names_what_is_wrong(loss, y, group, match):
    with pytest.raises(ValueError, match=match):
        loss.prepare(y, group, 3)


def test_ndcg_of_few_positions_rewards_scores_that_help():
    """Were all lists alike that have nothing relevant on top, 0 would be the best of all scores."""
    rng = np.random.default_rng(0)
    relevance = np.where(rng.random(800) < 0.2, 1.0, 0.0)
    scores, weights = relevance + 0.6 * rng.normal(size=800), np.full(800, 1 / 800)
    loss = NDCG(k=3)
    target = loss.prepare(relevance, np.repeat(np.arange(20), 40), 800)
    risks = [loss.risk(t * scores, target, weights, 0.0) for t in (0.0, 1e-3)]
    assert risks[1] < risks[0]
