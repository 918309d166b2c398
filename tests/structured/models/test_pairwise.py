"""Graphs of several labels: inference and bounds against enumeration and the relaxation, optima."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import PairwiseGraph
from sklearn_bundle.structured.models.examples import ListedExamples
from tests.contract.judge import judge
from tests.reference_structured import Structured, graphs

K, D, E = 3, 2, 2
FOREST = [(2, 0), (0, 4), (3, 2)]  # and a node without an edge
LOOPS = [(0, 1), (2, 1), (2, 3), (4, 3), (0, 4), (1, 3), (0, 1)]  # one of them twice
ALL = [(a, b) for a in range(5) for b in range(a)]
SHAPES = {"forest": FOREST, "loops": LOOPS, "all pairs": ALL, "no edges": []}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def draw(shape, seed=0, count=1, size=2.0):
    """Graphs of five nodes, their labels, and weights."""
    rng, edges = np.random.default_rng(seed), np.array(SHAPES[shape], int).reshape(-1, 2)
    X = [(rng.normal(size=(5, D)), edges, rng.normal(size=(len(edges), E))) for _ in range(count)]
    y = [rng.integers(0, K, 5) for _ in range(count)]
    return X, y, size * rng.normal(size=K * D + E * K * K)


def scores(X, y, w):
    """Of each example loss and score of all labelings, less the true one's."""
    for example in graphs(X, y, K):
        yield example.losses - example.psi("margin") @ w


def loop_that_no_relaxation_closes():
    """Three nodes whose neighbors should differ, but have two labels only."""
    x = np.ones((3, 1)), [[0, 1], [1, 2], [0, 2]], np.ones((3, 1))
    return x, np.r_[0.0, 0.0, -1.0, 1.0, 1.0, -1.0]


# ---- inference --------------------------------------------------------------------------------


@every_shape
@pytest.mark.parametrize("seed", range(10))
def test_worst_labelings_and_bounds_by_enumeration(shape, seed):
    X, y, w = draw(shape, seed, count=3)
    examples = PairwiseGraph(K).examples(X, y, "margin")
    found = examples.find(w, 0, 3)
    assert examples.exact == (shape in ("forest", "no edges"))
    stored = sp.csr_array((found.values, found.indices, found.starts), (3, len(w)))
    np.testing.assert_allclose(found.losses - stored @ w, found.scores, rtol=1e-12, atol=1e-12)
    best = np.array([part.max() for part in scores(X, y, w)])
    np.testing.assert_allclose(found.scores, best, rtol=1e-12, atol=1e-12)
    assert (found.bounds >= best).all()
    np.testing.assert_allclose(found.bounds, best, rtol=1e-10, atol=1e-10)
    assert found.values.all()


@every_shape
def test_what_is_found_is_a_labeling(shape):
    X, y, w = draw(shape, seed=3)
    found = PairwiseGraph(K).examples(X, y, "margin").find(w, 0, 1)
    psi = np.zeros(len(w))
    psi[found.indices] = found.values
    [example] = graphs(X, y, K)
    far = np.abs(example.psi("margin") - psi).max(axis=1) + np.abs(example.losses - found.losses)
    assert far.min() <= 1e-13


@every_shape
def test_the_methods_by_enumeration(shape):
    [x], [y], w = draw(shape, seed=1)
    model = PairwiseGraph(K)
    assert model.n_parameters([x], [y]) == len(w)
    [example] = graphs([x], [y], K)
    np.testing.assert_allclose(model.joint_feature(x, y), example.phi[example.truth], atol=1e-14)
    plain, augmented = model.inference(x, w), model.loss_augmented_inference(x, y, w)
    highest = (example.phi @ w + example.losses).max()
    assert w @ model.joint_feature(x, plain) == pytest.approx((example.phi @ w).max())
    reached = model.loss(y, augmented) + w @ model.joint_feature(x, augmented)
    assert reached == pytest.approx(highest)
    assert highest <= model.upper_bound(x, y, w) <= highest * (1.0 + 1e-10)


@every_shape
def test_plain_examples_find_the_same(shape):
    X, y, w = draw(shape, count=2)
    model = PairwiseGraph(K)
    compiled, plain = model.examples(X, y, "margin"), ListedExamples(model, X, y, "margin")
    one, other = compiled.find(w, 0, 2), plain.find(w, 0, 2)
    for part, same in zip(one[3:], other[3:], strict=True):  # losses, scores and bounds
        np.testing.assert_allclose(part, same, rtol=1e-10, atol=1e-10)
    shape = 2, len(w)
    dense = [sp.csr_array((f.values, f.indices, f.starts), shape).toarray() for f in (one, other)]
    np.testing.assert_allclose(*dense, atol=1e-13)


def test_a_forest_in_any_order_of_its_nodes():
    rng = np.random.default_rng(0)
    n, numbers = 200, rng.permutation(200)
    edges = np.array([(rng.integers(v), v)[:: rng.choice([-1, 1])] for v in range(1, n)])
    X = [(rng.normal(size=(n, D)), numbers[edges], rng.normal(size=(n - 1, E)))]
    w, y = rng.normal(size=K * D + E * K * K), [rng.integers(0, K, n)]
    found = PairwiseGraph(K).examples(X, y, "margin").find(w, 0, 1)
    assert found.scores[0] == pytest.approx(best_of_tree(*X[0], y[0], w), rel=1e-12)
    assert found.bounds[0] == pytest.approx(found.scores[0], rel=1e-12)


def best_of_tree(nodes, edges, features, y, w):
    """The optimum of the linear relaxation, which trees reach, less the true score."""
    of_nodes = nodes @ w[: K * D].reshape(K, D).T
    of_edges = (features @ w[K * D :].reshape(E, K * K)).reshape(-1, K, K)
    truth = of_nodes[np.arange(len(y)), y].sum()
    truth += of_edges[np.arange(len(edges)), *y[edges].T].sum()
    augmented = of_nodes + (np.arange(K) != y[:, None])
    return -by_dense_programme(edges, augmented, of_edges) - truth


def by_dense_programme(edges, nodes, pairs):
    """The relaxation written out constraint by constraint."""
    n, m, rows, columns, values = len(nodes), len(edges), [], [], []
    for v in range(n):
        rows += [v] * K
        columns += range(v * K, v * K + K)
        values += [1.0] * K
    for a, (tail, head) in enumerate(edges):
        for side, v in enumerate((tail, head)):
            for k in range(K):
                cells = np.arange(K * K).reshape(K, K)
                cells = n * K + a * K * K + (cells[k] if side == 0 else cells[:, k])
                rows += [n + (2 * a + side) * K + k] * (K + 1)
                columns += [*cells, v * K + k]
                values += [1.0] * K + [-1.0]
    A = sp.csr_array((values, (rows, columns)), shape=(n + 2 * m * K, n * K + m * K * K))
    costs = -np.r_[nodes.ravel(), pairs.ravel()]
    return linprog(costs, A_eq=A, b_eq=np.r_[np.ones(n), np.zeros(2 * m * K)]).fun


def test_without_branches_the_bound_is_that_of_the_relaxation():
    x, w = loop_that_no_relaxation_closes()
    y = np.zeros(3, int)
    for settings, bound in [({"max_branches": 0}, 3.0), ({}, 1.0)]:
        model = PairwiseGraph(2, **settings)
        found = model.examples([x], [y], "margin").find(3.0 * w, 0, 1)
        truth = w @ model.joint_feature(x, y)
        losses = found.bounds[0] + 3.0 * truth - 3.0 * bound  # of the labeling or its relaxation
        assert losses == pytest.approx(1.5 if bound == 3.0 else 2.0, abs=1e-9)


# ---- fits -------------------------------------------------------------------------------------


def tiny(shape="loops", n=6):
    X, y, _ = draw(shape, seed=5, count=n)
    return X, y


@pytest.mark.parametrize("solver", ["auto", "rsd", "rsd-one-simplex", "bundle"])
def test_certificates_of_solvers(solver):
    X, y = tiny()
    weights = [1.0, 0.0, 2.0, 0.5, 1.0, 3.0]
    svm = StructuredSVM(
        PairwiseGraph(), reg_lambda=0.5, solver=solver, tol=1e-5, max_iter=2000, random_state=0
    )
    svm.fit(X, y, weights)
    assert svm.status_ == "converged" and svm.exact_
    judge(svm, X, y, weights)


def test_a_loose_bound_ends_the_fit_and_is_named():
    X, y = tiny("all pairs", n=4)
    svm = StructuredSVM(
        PairwiseGraph(max_branches=0), reg_lambda=0.1, tol=1e-4, random_state=0, max_iter=1000
    )
    with pytest.warns(ConvergenceWarning, match="between the outputs that PairwiseGraph has found"):
        svm.fit(X, y)
    assert svm.status_ == "stalled" and svm.exact_ and svm.n_iter_ < 100
    reference = Structured(graphs(X, y, K), 0.1)
    optimum = reference.optimum()
    assert svm.lower_bound_ <= optimum.value <= svm.objective_
    assert reference.objective(svm.w_.astype(np.longdouble)) <= svm.objective_


def test_prediction_and_score():
    X, y = tiny()
    svm = StructuredSVM(PairwiseGraph(), reg_lambda=0.5, random_state=0).fit(X, y)
    found = svm.predict(X)
    for x, labels, example in zip(X, found, graphs(X, y, K), strict=True):
        assert svm.w_ @ svm.model_.joint_feature(x, labels) == pytest.approx(
            (example.phi @ svm.w_).max()
        )
    right = np.concatenate(found) == np.concatenate(y)
    assert svm.score(X, y) == pytest.approx(right.mean())


def test_labels_that_no_example_has():
    X, y, _ = draw("forest", count=2)
    svm = StructuredSVM(PairwiseGraph(n_labels=5), random_state=0).fit(X, y)
    assert svm.model_.n_labels_ == 5 and len(svm.w_) == 5 * D + E * 25


# ---- errors -----------------------------------------------------------------------------------


NODES, EDGES, FEATURES = np.ones((3, D)), np.array([[0, 1], [1, 2]]), np.ones((2, E))
WRONG_X = {
    "two parts": ((NODES, EDGES), r"X\[1\] must be a tuple \(node_f.* got a tuple of length 2"),
    "an array": (NODES, r"X\[1\] must be a tuple \(node_features, .* got a ndarray"),
    "a vector": ((NODES[0], EDGES, FEATURES), r"node features of X\[1\] must have 2 dimensions"),
    "no nodes": ((NODES[:0], EDGES[:0], FEATURES[:0]), r"X\[1\] must have at least one node"),
    "NaN": ((NODES * np.nan, EDGES, FEATURES), r"of X\[1\] must be finite, .* \(0, 0\) is nan"),
    "another d": ((NODES[:, :1], EDGES, FEATURES), r"X\[1\] must have 2 node features, .* has 1"),
    "another e": ((NODES, EDGES, FEATURES[:, :1]), r"X\[1\] must have 2 edge features, .* has 1"),
    "triples": ((NODES, [[0, 1, 2]], FEATURES), r"edges of X\[1\] must be pairs of nodes, shape"),
    "no node": ((NODES, [[0, 1], [1, 3]], FEATURES), r"from 0 to 2, but number 1 is \[1.0, 3.0\]"),
    "to itself": ((NODES, [[0, 1], [1, 1]], FEATURES), r"different .* number 1 is \[1.0, 1.0\]"),
    "half": ((NODES, EDGES + 0.5, FEATURES), r"edges of X\[1\] must join .* is \[0.5, 1.5\]"),
    "too few": ((NODES, EDGES, FEATURES[:1]), r"a row for each of the 2 edges, got 1"),
}
WRONG_Y = {
    "too few": ([0, 1], r"y\[1\] must have the shape \(3,\), but has \(2,\)"),
    "negative": ([0, 1, -1], r"y\[1\] must hold whole .* from 0 to 2, .* at \(2,\) is -1"),
    "too large": ([0, 3, 1], r"y\[1\] must hold whole .* from 0 to 2, .* at \(1,\) is 3"),
    "infinity": ([0, np.inf, 1], r"y\[1\] must hold whole numbers .* at \(1,\) is inf"),
    "a column": ([[0], [1], [2]], r"y\[1\] must have the shape \(3,\), but has \(3, 1\)"),
    "half": ([0, 0.5, 1], r"y\[1\] must hold whole numbers .* at \(1,\) is 0\.5"),
    "text": (["a", "b", "c"], r"y\[1\] must hold numbers, got 'a'"),
}


@pytest.mark.parametrize("name", WRONG_X)
def test_wrong_graphs(name):
    value, message = WRONG_X[name]
    right = (NODES, EDGES, FEATURES)
    with pytest.raises(ValueError, match=message):
        StructuredSVM(PairwiseGraph(K)).fit([right, value], [[0, 1, 2], [0, 1, 2]])
    svm = StructuredSVM(PairwiseGraph(K), random_state=0).fit([right], [[0, 1, 2]])
    with pytest.raises(ValueError, match=message.replace(r"X\[1\]", "x")):
        svm.predict([right, value])


@pytest.mark.parametrize("name", WRONG_Y)
def test_wrong_labels(name):
    value, message = WRONG_Y[name]
    X = [(NODES, EDGES, FEATURES)] * 2
    with pytest.raises(ValueError, match=message):
        StructuredSVM(PairwiseGraph(K)).fit(X, [[0, 1, 2], value])
    if name == "too large":
        return  # a label that nothing was fitted with counts as wrong
    svm = StructuredSVM(PairwiseGraph(K), random_state=0).fit(X, [[0, 1, 2]] * 2)
    with pytest.raises(ValueError, match=message.replace(r"y\[1\]", "y").replace(" to 2", " on")):
        svm.score(X, [[0, 1, 2], value])


def test_weights_of_another_length():
    model = PairwiseGraph(K)
    model.n_parameters([(NODES, EDGES, FEATURES)], [[0, 1, 2]])
    with pytest.raises(ValueError, match=r"w must have the shape \(24,\), but has \(2,\)"):
        model.inference((NODES, EDGES, FEATURES), np.ones(2))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"n_labels": 0}, "n_labels must be an integer that is at least 1, got 0"),
        ({"n_labels": 2.5}, "n_labels must be an integer that is at least 1, got 2.5"),
        ({"max_branches": -1}, "max_branches must be an integer that is at least 0, got -1"),
        ({"max_branches": None}, "max_branches must be an integer that is at least 0, got None"),
    ],
)
def test_wrong_parameters(settings, message):
    X, y = tiny()
    with pytest.raises(ValueError, match=message):
        StructuredSVM(PairwiseGraph(**settings)).fit(X, y)


def test_points_whose_scores_overflow_have_no_value():
    x = 1e300 * np.ones((3, 1)), [[0, 1], [1, 2]], np.ones((2, 1))
    examples = PairwiseGraph(2).examples([x], [[0, 1, 1]], "margin")
    with np.errstate(over="ignore", invalid="ignore"):
        found = examples.find(np.r_[1e300, -1e300, np.zeros(4)], 0, 1)
    assert np.isnan(found.scores[0]) and np.isnan(found.bounds[0])


def test_slack_rescaling_is_refused():
    X, y = tiny()
    with pytest.raises(ValueError, match="scaling='slack' needs a method"):
        StructuredSVM(PairwiseGraph(), scaling="slack").fit(X, y)
