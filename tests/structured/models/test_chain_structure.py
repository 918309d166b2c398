"""Chains as a structured model: enumeration of all labelings, plain methods, compiled sweeps."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.chain.model import Weights, flat, taken_apart
from sklearn_bundle.models import Chain
from sklearn_bundle.structured._compiled.structures import sweep
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined, split
from tests.chains import sequences
from tests.reference_chain import labelings, totals

D = 3
LENGTHS = [1, 3, 2, 1, 4, 3]
# Rows are padded to multiples of 8: one label, padding of all sizes and none, two vectors.
SIZES = [(1, LENGTHS), (2, LENGTHS), (3, LENGTHS), (7, [1, 3, 2]), (8, [2, 3]), (9, [1, 3])]
COSTS = {
    "hamming": None,
    "costs": np.array([[0, 2, 1], [3, 0, 0], [0.5, 1.25, 0]]),  # a mistake that is free too
    "whole": np.array([[0, 2, 1], [3, 0, 0], [5, 1, 0]]),
}
scalings = pytest.mark.parametrize("scaling", ["margin", "slack"])
intercepts = pytest.mark.parametrize("fit_intercept", [True, False])


def cost_of(cost, K):
    return 1.0 - np.eye(K) if cost is None else cost


def drawn(K, rng, size=1.0):
    """Weights of size about one, biases among them even where the model has none."""
    shapes = (K, D), (K, K), K, K, K
    return Weights(*(size * rng.normal(size=shape) for shape in shapes))


def scores_of_all(x, weights, fit_intercept):
    """All labelings and their scores."""
    T, K = len(x), len(weights.coef)
    unary = x @ weights.coef.T
    if fit_intercept:
        unary += weights.intercept + np.outer(np.arange(T) == 0, weights.start)
        unary[-1] += weights.end
    paths = labelings(T, K)
    return paths, totals(unary, weights.transitions, paths)


def worst_of_all(x, y, weights, cost, scaling, fit_intercept=True):
    """The highest loss-augmented score of all labelings, with its loss."""
    paths, scores = scores_of_all(x, weights, fit_intercept)
    losses = cost[y, paths].sum(axis=1)
    margins = scores - scores[(paths == y).all(axis=1)]
    values = losses * (1.0 + margins) if scaling == "slack" else losses + margins
    return values.max(), losses[values.argmax()]


def bound(model, X, y, K, scaling="margin", dtype=np.float64):
    rows = TokenRows(sp.csr_array(np.concatenate(X).astype(dtype)), np.array(list(map(len, X))), K)
    return model.examples(rows, np.concatenate(y), scaling)


def in_public_order(found, n_parameters, K):
    """Rows of psi as the methods in numpy order them."""
    rows = np.zeros((len(found.losses), n_parameters))
    for i, row in enumerate(rows):
        part = slice(*found.starts[i : i + 2])
        row[found.indices[part]] = found.values[part]
    return np.array([joined(taken_apart(row, K)) for row in rows])


def check_found(model, X, y, K, weights, scaling="margin", dtype=np.float64):
    """All that is found: the best by enumeration; features, loss and score of one labeling."""
    examples = bound(model, X, y, K, scaling, dtype)
    found = examples.find(flat(weights), 0, len(X))
    cost = cost_of(model.cost, K)
    psi = in_public_order(found, examples.n_parameters, K)
    model.n_parameters(X, [np.array([K - 1])])
    assert (found.values != 0.0).all()
    for i, (x, labels) in enumerate(zip(X, y, strict=True)):
        value, _ = worst_of_all(x, labels, weights, cost, scaling, model.fit_intercept)
        assert found.scores[i] == pytest.approx(value, rel=1e-12, abs=1e-12)
        own = found.indices[slice(*found.starts[i : i + 2])]
        assert len(own) == len(np.unique(own)) <= examples.longest[i]
        factor = found.losses[i] if scaling == "slack" else 1.0
        possible = [
            factor * (model.joint_feature(x, labels) - model.joint_feature(x, path))
            for path in labelings(len(x), K)
            if cost[labels, path].sum() == found.losses[i]
        ]
        assert np.abs(np.array(possible) - psi[i]).max(axis=1).min() <= 1e-13
        explained = found.losses[i] - joined(weights) @ psi[i]
        assert found.scores[i] == pytest.approx(explained, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("K, lengths", SIZES)
@scalings
@intercepts
def test_the_worst_labelings_are_those_of_enumeration(K, lengths, scaling, fit_intercept):
    X, y = sequences(K, lengths, D)
    model, weights = Chain(fit_intercept=fit_intercept), drawn(K, np.random.default_rng(1))
    check_found(model, X, y, K, weights, scaling)


@pytest.mark.parametrize(
    "name, scaling", [("costs", "margin"), ("whole", "margin"), ("whole", "slack")]
)
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_with_costs(name, scaling, size):
    X, y = sequences(3, LENGTHS, D)
    check_found(Chain(cost=COSTS[name]), X, y, 3, drawn(3, np.random.default_rng(2), size), scaling)


@scalings
@pytest.mark.parametrize("seed", range(5))
def test_of_labelings_that_tie_one_is_found(scaling, seed):
    rng = np.random.default_rng(seed)
    X, y = sequences(3, LENGTHS, D, seed)
    X = [np.sign(x) for x in X]  # entries that cancel
    weights = Weights(*(rng.integers(-1, 2, part.shape).astype(float) for part in drawn(3, rng)))
    check_found(Chain(), X, y, 3, weights, scaling)


@scalings
def test_at_zero_the_loss_is_the_largest(scaling):
    X, y = sequences(3, LENGTHS, D)
    weights = Weights(*(0.0 * part for part in drawn(3, np.random.default_rng(0))))
    check_found(Chain(cost=COSTS["whole"]), X, y, 3, weights, scaling)
    examples = bound(Chain(cost=COSTS["whole"]), X, y, 3, scaling)
    most = [COSTS["whole"][labels].max(axis=1).sum() for labels in y]
    np.testing.assert_array_equal(examples.find(flat(weights), 0, len(X)).losses, most)


@scalings
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_true_labels_have_no_entries_and_a_score_of_zero(scaling, dtype):
    X, y = [np.eye(3)[[0, 1, 1]], np.eye(3)[[2]]], [np.array([2, 0, 0]), np.array([1])]
    weights = drawn(3, np.random.default_rng(0), 1e-3)
    weights = weights._replace(coef=50.0 * np.eye(3)[[1, 2, 0]])
    found = bound(Chain(), X, y, 3, scaling, dtype).find(flat(weights), 0, 2)
    assert (found.starts == 0).all()
    assert (found.losses == 0.0).all()
    assert (found.scores == 0.0).all()


@scalings
def test_attributes_in_single_precision(scaling):
    X, y = sequences(3, LENGTHS, D)
    X = [x.astype(np.float32).astype(np.float64) for x in X]
    weights = drawn(3, np.random.default_rng(3))
    check_found(Chain(), X, y, 3, weights, scaling, np.float32)


@intercepts
def test_sequences_without_attributes(fit_intercept):
    X, y = [0.0 * x for x in sequences(3, LENGTHS, D)[0]], sequences(3, LENGTHS, D)[1]
    check_found(Chain(fit_intercept=fit_intercept), X, y, 3, drawn(3, np.random.default_rng(4)))


def test_parameters_that_exceed_the_cache():
    """Rows of a large w are asked for ahead."""
    X, y = sequences(3, LENGTHS, D)
    places = np.array([5, 3000, 17000 - 1])  # of padded rows of 8
    K, d = 3, 17000
    wide = [np.zeros((len(x), d)) for x in X]
    for x, narrow in zip(wide, X, strict=True):
        x[:, places] = narrow
    weights = drawn(K, np.random.default_rng(5))
    coef = np.zeros((K, d))
    coef[:, places] = weights.coef
    one = bound(Chain(), X, y, K).find(flat(weights), 0, len(X))
    other = bound(Chain(), wide, y, K).find(flat(weights._replace(coef=coef)), 0, len(X))
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.values, other.values)


@scalings
def test_any_part_of_the_examples_is_found_as_the_whole(scaling):
    X, y = sequences(5, LENGTHS, D)
    w = flat(drawn(5, np.random.default_rng(6)))
    examples = bound(Chain(), X, y, 5, scaling)
    whole, part = examples.find(w, 0, len(X)), examples.find(w, 2, 5)
    own = slice(whole.starts[2], whole.starts[5])
    np.testing.assert_array_equal(part.starts, whole.starts[2:6] - whole.starts[2])
    np.testing.assert_array_equal(part.indices, whole.indices[own])
    np.testing.assert_array_equal(part.values, whole.values[own])
    np.testing.assert_array_equal(part.scores, whole.scores[2:5])


def test_nothing_is_written_beyond_the_room_that_is_told():
    """With two labels the most entries and sums that cancel come together."""
    y = list(np.random.default_rng(0).integers(0, 2, (100, 12)))
    model = Chain(fit_intercept=False)
    examples = bound(model, [np.zeros((12, 1))] * 100, y, 2)
    for i in range(100):
        w = flat(drawn(2, np.random.default_rng(i))._replace(coef=np.zeros((2, 1))))
        work = examples.longest[i]
        starts, indices, values = np.zeros(2, np.int64), np.zeros(99, np.uint32), np.zeros(99)
        of_outputs = starts, indices, values, np.zeros(1), np.zeros(1), np.zeros(1)
        sweep(examples.structure, w, i, i + 1, *of_outputs)
        assert not indices[work:].any()


# ---- methods in numpy ------------------------------------------------------------------------


@pytest.mark.parametrize("K, lengths", SIZES)
@intercepts
def test_joint_features_make_the_scores(K, lengths, fit_intercept):
    X, y = sequences(K, lengths, D)
    model, weights = Chain(fit_intercept=fit_intercept), drawn(K, np.random.default_rng(1))
    w = joined(weights)
    assert model.n_parameters(X, [*y, np.array([K - 1])]) == len(w)
    for x in X:
        paths, scores = scores_of_all(x, weights, fit_intercept)
        features = np.array([model.joint_feature(x, path) for path in paths])
        np.testing.assert_allclose(features @ w, scores, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(model.inference(x, w), paths[scores.argmax()])


@pytest.mark.parametrize(
    "name, scaling",
    [
        *(("hamming", scaling) for scaling in ("margin", "slack")),
        *(("costs", "margin"), ("whole", "margin"), ("whole", "slack")),
    ],
)
@intercepts
def test_inference_with_the_loss(name, scaling, fit_intercept):
    X, y = sequences(3, LENGTHS, D)
    model, cost = Chain(cost=COSTS[name], fit_intercept=fit_intercept), cost_of(COSTS[name], 3)
    model.n_parameters(X, y)
    method = {
        "margin": model.loss_augmented_inference,
        "slack": model.slack_rescaled_inference,
    }[scaling]
    for seed in range(5):
        weights = drawn(3, np.random.default_rng(seed))
        for x, labels in zip(X, y, strict=True):
            path = method(x, labels, joined(weights))
            best, loss = worst_of_all(x, labels, weights, cost, scaling, fit_intercept)
            assert model.loss(labels, path) == loss
            paths, scores = scores_of_all(x, weights, fit_intercept)
            score, truth = (scores[(paths == labels).all(axis=1)] for labels in (path, labels))
            value = loss * (1.0 + score - truth) if scaling == "slack" else loss + score - truth
            assert value == pytest.approx(best, rel=1e-12, abs=1e-12)


def test_the_largest_loss():
    X, y = sequences(3, LENGTHS, D)
    for name, cost in COSTS.items():
        model = Chain(cost=cost)
        model.n_parameters(X, y)
        for labels in y:
            losses = [model.loss(labels, path) for path in labelings(len(labels), 3)]
            assert model.max_loss(labels) == max(losses), name


def test_parameters_are_joined_in_the_order_that_is_told():
    weights = drawn(4, np.random.default_rng(7))
    w = joined(weights)
    np.testing.assert_array_equal(w[: 4 * D], weights.coef.ravel())
    np.testing.assert_array_equal(w[-8:-4], weights.start)
    for one, other in zip(split(w, 4), weights, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cost, scaling, message",
    [
        (COSTS["costs"], "slack", r"cost must have whole numbers.* cost\[2, 0\] is 0\.5"),
        (101.0 * (1.0 - np.eye(3)), "slack", r"from 0 to 100 .* cost\[0, 1\] is 101"),
        (np.zeros((2, 2)), "margin", r"each of the 3 classes"),
        (-COSTS["costs"], "margin", r"at least 0"),
        (np.ones((3, 3)), "margin", r"0 on its diagonal"),
        ("hamming", "margin", r"matrix of numbers or None"),
    ],
)
def test_costs_that_are_refused(cost, scaling, message):
    X, y = sequences(3, LENGTHS, D)
    with pytest.raises(ValueError, match=message):
        bound(Chain(cost=cost), X, y, 3, scaling)


@pytest.mark.parametrize("labels", [[0, 1, 3], [-1, 0, 1], [0, 1]])
def test_labels_that_no_row_stands_for(labels):
    with pytest.raises(ValueError, match="y must hold 3 numbers of labels, from 0 to 2"):
        bound(Chain(), [np.eye(3)], [np.array(labels)], 3)


def test_more_parameters_than_indices_can_tell():
    rows = TokenRows(sp.csr_array((1, 1 << 29), dtype=np.float64), np.array([1]), 8)
    with pytest.raises(ValueError, match=r"at most 2\^32 - 1 parameters"):
        Chain().examples(rows, np.array([0]), "margin")
