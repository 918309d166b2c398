"""Models of classes: compiled inference by enumeration, plain methods, and optima."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklearn_bundle import BMRMClassifier, losses
from sklearn_bundle.core.contract import run
from sklearn_bundle.models import Multiclass, Ontology
from sklearn_bundle.structured.models.classes import Rows
from sklearn_bundle.structured.models.examples import ListedExamples
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers.one_simplex import OneSimplexSolver

K = 5
COST = np.array([[0, 1, 2, 3, 1], [0.5, 0, 1, 2, 0], [2, 1, 0, 0, 4], [3, 1, 0.2, 0, 1], [1] * 5])
COST[4, 4] = 0.0
ONES = 1.0 - np.eye(K)
# 3 has two paths from the root, 4 hangs on it; "rare" and its child have no class below them
EDGES = [("root", "a"), ("root", "b"), ("a", 0), ("a", 1), ("a", "c"), ("b", "c"), ("b", 2)]
EDGES += [("c", 3), ("root", 4), ("root", "rare"), ("rare", "none")]
INNER = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
ANCESTORS = np.c_[np.eye(K), INNER]  # classes; root, a, b, c
DISTANCES = np.abs(ANCESTORS[:, None] - ANCESTORS).sum(axis=2)
# models, with the ancestors and costs that they stand for
MODELS = {
    "multiclass": (Multiclass(), np.eye(K), ONES),
    "multiclass_cost": (Multiclass(cost=COST), np.eye(K), COST),
    "ontology": (Ontology(EDGES), ANCESTORS, DISTANCES),
    "ontology_cost": (Ontology(EDGES, cost=COST), ANCESTORS, COST),
}
every_model = pytest.mark.parametrize("model, A, cost", MODELS.values(), ids=MODELS)
scalings = pytest.mark.parametrize("scaling", ["margin", "slack"])


def draw(seed=0, n=23, d=11, n_classes=K):
    """Rows with zeros, and labels of every class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = rng.permutation(np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    return X, y, rng


def check(examples, X, y, A, cost, scaling, w, rtol=1e-12):
    """All that is found against the classes, one after the other."""
    n = len(y)
    found = examples.find(w, 0, n)
    scores = X @ w.reshape(A.shape[1], -1).T @ A.T
    margins = scores - scores[np.arange(n), y][:, None]
    pieces = cost[y] * (1.0 + margins) if scaling == "slack" else cost[y] + margins
    at, rows = pieces.argmax(axis=1), np.arange(n)
    np.testing.assert_allclose(found.scores, pieces.max(axis=1), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.losses, cost[y, at], rtol=1e-15)
    gamma = cost[y, at] if scaling == "slack" else np.ones(n)
    psi = [np.outer(gamma[i] * (A[y[i]] - A[at[i]]), X[i]).ravel() for i in rows]
    stored = sp.csr_array((found.values, found.indices, found.starts), shape=(n, len(w)))
    np.testing.assert_allclose(stored.toarray(), psi, rtol=rtol)
    assert len(found.values) == np.count_nonzero(psi)  # no zeros, and each index once
    np.testing.assert_array_equal(found.bounds, found.scores)
    return found


def with_duplicates(X):
    """CSR in which every entry is stored twice, with half its value."""
    X = sp.csr_matrix(X)
    indices, data = np.repeat(X.indices, 2), np.repeat(0.5 * X.data, 2)
    return sp.csr_matrix((data, indices, 2 * X.indptr), shape=X.shape)


def with_long_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_zeros(X):
    """CSR that stores all entries."""
    X = np.array(X)
    zeros = X == 0.0
    X[zeros] = 1.0
    X = sp.csr_array(X)
    X.data[zeros.ravel()] = 0.0
    return X


LAYOUTS = {
    "dense": np.array,
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "duplicates": with_duplicates,
    "long": with_long_indices,
    "zeros": with_zeros,
}


@every_model
@scalings
@pytest.mark.parametrize("layout", LAYOUTS)
def test_worst_classes_by_enumeration(model, A, cost, scaling, layout):
    X, y, rng = draw()
    examples = model.examples(LAYOUTS[layout](X), y, scaling)
    w = rng.normal(size=A.shape[1] * X.shape[1])
    check(examples, X, y, A, cost, scaling, w)


@pytest.mark.wide
@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
def test_float32_rows_with_float64_sums(layout):
    X, y, rng = draw()
    X = X.astype(np.float32)
    examples = Multiclass().examples(layout(X), y, "margin")
    check(examples, X.astype(np.float64), y, np.eye(K), ONES, "margin", rng.normal(size=K * 11))


@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize("n_classes, d", [(2, 1), (3, 7), (4, 8), (9, 130), (33, 4200)])
def test_any_number_of_classes_and_features(layout, n_classes, d):
    X, y, rng = draw(n=34, d=d, n_classes=n_classes)
    examples = Multiclass().examples(layout(X), y, "margin")
    w = rng.normal(size=n_classes * d)
    ones = 1.0 - np.eye(n_classes)
    check(examples, X, y, np.eye(n_classes), ones, "margin", w, rtol=1e-11)


def test_examples_from_the_middle():
    X, y, rng = draw()
    examples = Multiclass().examples(X, y, "margin")
    w = rng.normal(size=examples.n_parameters)
    all_of_them, some = examples.find(w, 0, 23), examples.find(w, 5, 9)
    np.testing.assert_array_equal(some.scores, all_of_them.scores[5:9])
    first, last = all_of_them.starts[[5, 9]]
    np.testing.assert_array_equal(some.indices, all_of_them.indices[first:last])


@scalings
@pytest.mark.parametrize("cost", [None, COST], ids=["ones", "cost"])
def test_the_loss_is_that_of_multiclass_hinge(scaling, cost):
    X, y, rng = draw()
    w = rng.normal(size=K * X.shape[1])
    found = Multiclass(cost=cost).examples(X, y, scaling).find(w, 0, len(y))
    f = X @ w.reshape(K, -1).T
    delta = (1.0 - np.eye(K) if cost is None else np.asarray(cost))[y]
    apart = f - f[np.arange(len(y)), y][:, None]
    loss = (delta * (1.0 + apart) if scaling == "slack" else delta + apart).max(axis=1)
    np.testing.assert_allclose(found.scores, loss, rtol=1e-12, atol=1e-12)


@every_model
@scalings
def test_the_plain_methods_find_the_same(model, A, cost, scaling):
    X, y, rng = draw()
    compiled, listed = model.examples(X, y, scaling), ListedExamples(model, X, y, scaling)
    assert compiled.n_parameters == listed.n_parameters == A.shape[1] * X.shape[1]
    w = rng.normal(size=compiled.n_parameters)
    for part, other in zip(compiled.find(w, 0, 23), listed.find(w, 0, 23), strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-12, atol=1e-12)


@every_model
@pytest.mark.parametrize("layout", [np.array, sp.csr_array, sp.csr_matrix])
def test_decision_values(model, A, cost, layout):
    X, y, rng = draw()
    w = rng.normal(size=model.n_parameters(X, y))
    values = model.decision_values(layout(X), w)
    assert type(values) is np.ndarray
    expected = [[w @ model.joint_feature(x, k) for k in range(K)] for x in X]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    assert [model.inference(x, w) for x in X] == np.argmax(expected, axis=1).tolist()


@every_model
def test_loss_and_its_largest_value(model, A, cost):
    X, y, _ = draw()
    model.n_parameters(X, y)
    assert [[model.loss(a, b) for b in range(K)] for a in range(K)] == cost.tolist()
    assert [model.max_loss(a) for a in range(K)] == cost.max(axis=1).tolist()


def test_a_class_whose_mistakes_cost_nothing():
    X, y, _ = draw(n_classes=2)
    model = Multiclass(cost=[[0, 0], [1, 0]])
    model.n_parameters(X, y)
    assert model.max_loss(0) == 1.0  # the score divides by it


def test_constructors_store_what_they_get():
    cost, edges = COST.tolist(), list(EDGES)
    model = Ontology(edges, cost=cost)
    assert model.cost is cost and model.edges is edges
    assert clone(model).set_params(cost=None).get_params() == {"edges": edges, "cost": None}
    assert clone(Multiclass(cost=cost)).get_params() == {"cost": cost}


@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@scalings
def test_the_optimum_of_multiclass_hinge(layout, scaling):
    X, y, _ = draw()
    cost = COST if scaling == "margin" else None  # without costs both scalings are the same
    model, loss, X = Multiclass(cost=cost), losses.MulticlassHinge(cost), layout(X)
    reg_lambda, tol = 0.1, 1e-5
    peer = BMRMClassifier(loss, reg_lambda=reg_lambda, fit_intercept=False, tol=tol).fit(X, y)
    examples = model.examples(Rows(X, K, peer.classes_), y, scaling)
    with StructuredProblem(examples, np.full(len(y), 1 / len(y)), reg_lambda) as problem:
        result = run(OneSimplexSolver(problem, name="bundle", tol=tol), tol=tol, max_iter=2000)
    assert result.relative_gap <= tol
    assert result.lower_bound <= peer.objective_
    assert peer.lower_bound_ <= result.primal


# ---- errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, message",
    [
        (Multiclass(cost=ONES[:4]), "cost must have a row and a column for each of the 5 classes"),
        (Multiclass(cost=-ONES), r"finite and at least 0, but cost\[0, 1\] is -1\.0"),
        (Multiclass(cost=np.ones((K, K))), "cost must be 0 on its diagonal"),
        (Multiclass(cost="high"), "cost must be a matrix of numbers or None"),
        (Ontology(EDGES, cost=-ONES), r"finite and at least 0, but cost\[0, 1\] is -1\.0"),
        (Ontology(EDGES[:-3]), "a node for each class, but none for 4"),
        (Ontology("edges"), "edges must be a list of pairs"),
    ],
)
def test_wrong_parameters(model, message):
    X, y, _ = draw()
    with pytest.raises(ValueError, match=message):
        model.examples(X, y, "margin")


@pytest.mark.parametrize("y", [[0, 1, -1], [0, 1, 2], [0, 1]])
def test_wrong_numbers_of_classes(y):
    with pytest.raises(ValueError, match="y must hold 3 numbers of labels, from 0 to 1"):
        Multiclass().examples(Rows(np.eye(3), 2, range(2)), y, "margin")


def test_too_many_parameters():
    X = sp.csr_array((3, 1 << 31))
    with pytest.raises(ValueError, match="at most 2\\^32 - 1 parameters, but 2 rows of 2147483648"):
        Multiclass().examples(X, [0, 1, 0], "margin")
