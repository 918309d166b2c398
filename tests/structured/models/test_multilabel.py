"""Sets of labels: inference and expectations against enumeration, optima, and the reader."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.metrics import hamming_loss, mutual_info_score
from sklearn.svm import LinearSVC

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Multilabel
from sklearn_bundle.structured.models.examples import ListedExamples
from tests.contract.judge import judge
from tests.reference_structured import sets

L, D, N = 4, 3, 9
FOREST = [(2, 0), (1, 2)]  # and a label on its own
STAR = [(0, 3), (3, 1), (2, 3)]
EDGES = {"tree": "tree", "none": None, "forest": FOREST, "star": STAR}
every_kind = pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)


def draw(seed=0, n=N, n_labels=L):
    """Rows with zeros, sets that depend on them and on each other, weights that are to be cut."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    Y = (X @ rng.normal(size=(D, n_labels)) + rng.normal(size=(n, n_labels)) > 0.0).astype(int)
    Y[:, 1] |= Y[:, 0]
    return X, Y, 1.5 * rng.normal(size=200)


def bound(edges, X, Y, **settings):
    model = Multilabel(edges, **settings)
    examples = model.examples(X, Y, "margin")
    return model, examples, sets(np.asarray(X, float), Y, model.edges_, model.fit_intercept)


LAYOUTS = {"dense": np.array, "csr": sp.csr_array, "float32": lambda X: X.astype(np.float32)}


# ---- inference --------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_worst_sets_by_enumeration(edges, fit_intercept):
    X, Y, w = draw()
    model, examples, reference = bound(edges, X, Y, fit_intercept=fit_intercept)
    w = w[: examples.n_parameters]
    assert examples.exact and examples.n_parameters == model.n_parameters(X, Y)
    found = examples.find(w, 0, N)
    rows = sp.csr_array((found.values, found.indices, found.starts), (N, len(w))).toarray()
    for i, example in enumerate(reference):
        psi = example.psi("margin")
        scores = example.losses - psi @ w
        assert found.scores[i] == pytest.approx(scores.max(), rel=1e-12, abs=1e-12)
        far = np.abs(psi - rows[i]).max(axis=1) + np.abs(example.losses - found.losses[i])
        assert far.min() <= 1e-12 and scores[far.argmin()] == pytest.approx(scores.max())
    assert_array_equal(found.bounds, found.scores)


@pytest.mark.parametrize(
    "layout", ["dense", "csr", pytest.param("float32", marks=pytest.mark.wide)]
)
@pytest.mark.parametrize("edges", [None, "tree"])
def test_layouts_of_rows(layout, edges):
    X, Y, w = draw()
    X = LAYOUTS[layout](X)
    dense = X.toarray() if sp.issparse(X) else X
    _, examples, reference = bound(edges, dense, Y)
    stored = Multilabel(edges).examples(X, Y, "margin")
    w = w[: examples.n_parameters]
    best = [(e.losses - e.psi("margin") @ w).max() for e in reference]
    assert_allclose(stored.find(w, 0, N).scores, best, rtol=1e-12, atol=1e-12)
    gradient, weights = np.zeros(len(w)), np.ones(N)
    losses = stored.expect(w, 0, N, weights, gradient).losses
    assert_allclose(losses, [logsumexp(-e.psi("margin") @ w) for e in reference], rtol=1e-12)
    assert_allclose(gradient, mean_features(reference, w, weights), atol=1e-12)


@every_kind
def test_the_plain_methods_find_the_same(edges):
    X, Y, w = draw()
    model, compiled, _ = bound(edges, X, Y)
    w, listed = w[: compiled.n_parameters], ListedExamples(model, X, Y, "margin")
    one, other = compiled.find(w, 0, N), listed.find(w, 0, N)
    for part, same in zip(one[3:], other[3:], strict=True):
        assert_allclose(part, same, rtol=1e-12, atol=1e-12)


@every_kind
def test_predictions_by_enumeration(edges):
    X, Y, w = draw()
    model, examples, reference = bound(edges, X, Y)
    w = w[: examples.n_parameters]
    for x, found, example in zip(X, model.best_sets(X, w), reference, strict=True):
        assert w @ model.joint_feature(x, found) == pytest.approx((example.phi @ w).max())
        assert_array_equal(model.inference(x, w), found)


# ---- expectations -----------------------------------------------------------------------------


def mean_features(reference, w, weights):
    """``sum_i weights_i (E phi - phi_i)`` by enumeration."""
    total = np.zeros(len(w))
    for weight, example in zip(weights, reference, strict=True):
        differences = -example.psi("margin")
        powers = np.exp(differences @ w - logsumexp(differences @ w))
        total += weight * powers @ differences
    return total


@every_kind
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_expectations_by_enumeration(edges, size):
    X, Y, w = draw()
    model, examples, reference = bound(edges, X, Y)
    w = size * w[: examples.n_parameters]
    gradient, weights = np.zeros(len(w)), np.linspace(0.5, 2.0, N)
    found = examples.expect(w, 0, N, weights, gradient)
    losses = np.array([logsumexp(-e.psi("margin") @ w) for e in reference])
    assert_allclose(found.losses, losses, rtol=1e-11, atol=1e-11)
    assert_allclose(gradient, mean_features(reference, w, weights), atol=1e-11)
    assert (found.shifts + examples.errors(w) <= 1e-11 * (1.0 + size)).all()
    log_partition, mean = model.expected_features(X[0], w)
    truth = reference[0].phi[reference[0].truth]
    assert log_partition == pytest.approx(losses[0] + w @ truth)
    assert_allclose(mean, truth + mean_features(reference[:1], w, [1.0]), atol=1e-11)


# ---- pairs of labels --------------------------------------------------------------------------


def test_the_tree_of_most_mutual_information():
    _, Y, _ = draw(n=60, n_labels=6)
    model = Multilabel()
    model.n_parameters(np.ones((60, 1)), Y)
    shared = np.array([[mutual_info_score(a, b) for a in Y.T] for b in Y.T])
    inside, edges = {0}, []
    while len(inside) < 6:  # Prim's algorithm
        rest = [v for v in range(6) if v not in inside]
        a, b = max(((u, v) for u in inside for v in rest), key=lambda pair: shared[pair])
        inside.add(b)
        edges.append(sorted((a, b)))
    assert sorted(edges) == model.edges_.tolist()


def test_a_tree_of_weighted_rows_is_that_of_repeated_ones():
    X, Y, _ = draw(n=30, n_labels=6)
    weights = np.random.default_rng(0).integers(0, 4, 30)
    settings = {"reg_lambda": 0.1, "random_state": 0}
    weighted = StructuredSVM("multilabel", **settings).fit(X, Y, weights)
    repeated = StructuredSVM("multilabel", **settings)
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    assert_array_equal(weighted.model_.edges_, repeated.model_.edges_)
    larger = max(weighted.lower_bound_, repeated.lower_bound_)
    assert larger <= min(weighted.objective_, repeated.objective_)


def test_independent_labels_have_no_edge():
    Y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    model = Multilabel()
    model.n_parameters(np.ones((4, 1)), Y)
    assert model.edges_.shape == (0, 2)


# ---- fits -------------------------------------------------------------------------------------


SETTINGS = [
    ("tree", {"solver": "auto"}),
    ("tree", {"solver": "bundle"}),
    (STAR, {"loss": "squared_hinge", "solver": "rsd"}),
    (FOREST, {"loss": "log"}),
    ("tree", {"loss": "log", "solver": "bundle"}),
]


@pytest.mark.parametrize("edges, settings", SETTINGS)
def test_certificates(edges, settings):
    X, Y, _ = draw()
    weights = [1.0, 0.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 1.0]
    svm = StructuredSVM(
        Multilabel(edges), reg_lambda=0.2, tol=1e-6, max_iter=5000, random_state=0, **settings
    )
    svm.fit(X, Y, weights)
    assert svm.status_ == "converged" and svm.exact_
    judge(svm, X, Y, weights)


def test_without_pairs_it_is_a_linear_machine_per_label():
    X, Y, _ = draw(n=40)
    svm = StructuredSVM(
        Multilabel(None, fit_intercept=False), reg_lambda=0.1, tol=1e-8, random_state=0
    ).fit(X, Y)
    peer = LinearSVC(loss="hinge", C=1 / (0.1 * 40), fit_intercept=False, tol=1e-8, max_iter=10**6)
    for k, row in enumerate(svm.coef_):
        # The score of a label against the other state is what has a margin of 1.
        assert_allclose(row, peer.fit(X, Y[:, k]).coef_[0], atol=1e-3)


def test_attributes_prediction_and_score():
    X, Y, _ = draw(n=30)
    names = ["a", "b", "c"]
    frame, indicators = pd.DataFrame(X, columns=names), sp.csr_array(Y)
    svm = StructuredSVM("multilabel", random_state=0).fit(frame, indicators)
    assert svm.feature_names_in_.tolist() == names and svm.n_features_in_ == D
    assert svm.coef_.shape == (L, D) and svm.intercept_.shape == (L,)
    assert svm.pairs_.shape == (len(svm.model_.edges_), 2, 2)
    assert_array_equal(svm.w_, np.r_[svm.coef_.ravel(), svm.intercept_, svm.pairs_.ravel()])
    found = svm.predict(frame)
    assert found.dtype == np.int64 and found.shape == Y.shape
    assert svm.score(frame, Y) == pytest.approx(1.0 - hamming_loss(Y, found))
    weights = np.arange(30.0)
    expected = 1.0 - hamming_loss(Y, found, sample_weight=weights)
    assert svm.score(frame, indicators, weights) == pytest.approx(expected)
    assert_array_equal(svm.predict(frame[::-1]), found[::-1])


# ---- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edges, message",
    [
        ("full", "edges must be 'tree', None or a list of pairs .* got 'full'"),
        ([(0, 1), (1, 2), (2, 0)], "edges of Multilabel must have no cycle"),
        (3, r"edges must have the shape \(m, 2\), but has \(\)"),
        ([(0, 1, 2)], r"edges must have the shape \(m, 2\), but has \(1, 3\)"),
        ([(0, 1), (1, 4)], r"from 0 to 3, but the entry at \(1, 1\) is 4"),
        ([(2, 2)], r"two different labels, but the entry at \(0, 0\) is 2"),
    ],
)
def test_wrong_edges(edges, message):
    X, Y, _ = draw()
    with pytest.raises(ValueError, match=message):
        StructuredSVM(Multilabel(edges)).fit(X, Y)


def test_slack_rescaling_is_refused():
    X, Y, _ = draw()
    with pytest.raises(ValueError, match="scaling='slack' needs a method"):
        StructuredSVM("multilabel", scaling="slack").fit(X, Y)


ONES = np.ones((N, L))
WRONG_Y = {
    "a vector": (ONES[:, 0], r"y must be an indicator matrix of shape \(n_samples, n_labels\)"),
    "two": (2.0 * ONES, "y must hold 0 and 1, but row 0 has 2 in column 0"),
    "half": (0.5 * ONES, "y must hold 0 and 1, but row 0 has 0.5 in column 0"),
    "text": (np.full((N, L), "a"), "y must hold numbers, got 'a'"),
    "too few": (ONES[:5], "inconsistent numbers of samples"),
    "NaN": (np.nan * ONES, "Input y contains NaN"),
    "none": (None, "requires y to be passed, but the target y is None"),
}


@pytest.mark.parametrize("name", WRONG_Y)
def test_wrong_sets(name):
    X, _, _ = draw()
    y, message = WRONG_Y[name]
    with pytest.raises(ValueError, match=message):
        StructuredSVM("multilabel").fit(X, y)


def test_wrong_input_of_a_fitted_model():
    X, Y, _ = draw()
    svm = StructuredSVM("multilabel", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but StructuredSVM is expecting 3"):
        svm.predict(X[:, :2])
    with pytest.raises(ValueError, match=r"y must have shape \(9, 4\), .* got \(9, 3\)"):
        svm.score(X, Y[:, :3])
    with pytest.raises(ValueError, match="contains NaN"):
        svm.predict(np.nan * X)
