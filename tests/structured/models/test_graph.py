"""Graphs and images with labels 0 and 1: cuts against enumeration, methods, optima."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklearn_bundle import StructuredSVM
from sklearn_bundle.jit.decorators import jit
from sklearn_bundle.models import Graph, Grid
from sklearn_bundle.structured._compiled import graph_oracle
from sklearn_bundle.structured.models.examples import ListedExamples
from tests.contract.judge import judge
from tests.contract.user_models import Grid as EnumeratedGrid
from tests.reference_structured import GRID, Structured, grids

COST = [[0.0, 0.5], [2.0, 0.0]]


def labelings(n):
    return np.array(list(product([0, 1], repeat=n)))


def graph(rng, n, m, d=3, e=2, whole=False):
    """Edges any two nodes may have several of; whole numbers make ties."""
    pairs = rng.integers(0, n, (m, 2)) if n > 1 else np.empty((0, 2), int)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    nodes, features = rng.normal(size=(n, d)), rng.uniform(0.0, 1.0, (len(pairs), e))
    features[rng.random(features.shape) < 0.2] = 0.0
    if whole:
        nodes, features = np.round(nodes), np.round(2.0 * features)
    return nodes, pairs, features


def graphs(seed=0, **settings):
    """Of one node, of no edge, in parts, dense, with edges that are there twice."""
    rng = np.random.default_rng(seed)
    sizes = [(1, 0), (5, 0), (7, 3), (6, 9), (4, 20), (8, 12), (2, 6)]
    X = [graph(rng, n, m, **settings) for n, m in sizes]
    return X, [rng.integers(0, 2, len(x[0])) for x in X]


def images(seed=0, d=3):
    rng = np.random.default_rng(seed)
    shapes = [(1, 1), (1, 5), (4, 1), (2, 3), (3, 3)]
    X = [rng.normal(size=(*shape, d)) for shape in shapes]
    return X, [rng.integers(0, 2, shape) for shape in shapes]


def point(rng, d, e):
    return np.r_[rng.normal(size=d), rng.uniform(0.0, 1.0, e)]


def outputs(x, y, cost=None):
    """All labels of a graph, with features and losses, straight from their definitions."""
    nodes, edges, features = x
    labels = labelings(len(nodes))
    phi = [
        np.r_[
            sum((nodes[a] for a in np.flatnonzero(t)), np.zeros(nodes.shape[1])),
            -sum(
                (z for (a, b), z in zip(edges, features, strict=True) if t[a] != t[b]),
                np.zeros(features.shape[1]),
            ),
        ]
        for t in labels
    ]
    cost = 1.0 - np.eye(2) if cost is None else np.array(cost)
    return labels, np.array(phi), cost[y, labels].sum(axis=1)


def dense(found, n_parameters):
    shape = len(found.losses), n_parameters
    return sp.csr_array((found.values, found.indices, found.starts), shape).toarray()


MODELS = {
    "graph": (Graph(), graphs()),
    "ties": (Graph(), graphs(whole=True)),
    "cost": (Graph(cost=COST), graphs(1)),
    "no edge features": (Graph(), graphs(e=0)),
    "one feature": (Graph(), graphs(d=1, e=1)),
    "many features": (Graph(), graphs(d=40, e=5)),
}
every_model = pytest.mark.parametrize("model, data", MODELS.values(), ids=MODELS)


# ---- the oracle -------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("size", [0.0, 0.3, 3.0])
def test_worst_labels_by_enumeration(model, data, size):
    X, y = data
    examples = model.examples(X, y, "margin")
    d, e = X[0][0].shape[1], X[0][2].shape[1]
    for seed in range(3):
        w = size * point(np.random.default_rng(seed), d, e)
        found = examples.find(w, 0, len(X))
        psi = dense(found, d + e)
        for i, (x, truth) in enumerate(zip(X, y, strict=True)):
            labels, phi, losses = outputs(x, truth, model.cost)
            own = phi[(labels == truth).all(axis=1)][0]
            scores = losses + (phi - own) @ w
            assert found.scores[i] == pytest.approx(scores.max(), rel=1e-13, abs=1e-13)
            at = np.abs(own - phi - psi[i]).max(axis=1) + np.abs(losses - found.losses[i])
            assert at.min() < 1e-12  # it is one of them, and one of the worst
            assert losses[at.argmin()] + (phi[at.argmin()] - own) @ w >= scores.max() - 1e-12
        np.testing.assert_allclose(found.scores, found.losses - psi @ w, rtol=1e-12, atol=1e-12)
        assert found.values.all() and (found.scores >= 0.0).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_labels_exceed_what_a_flow_proves(seed):
    """Any flow, not the largest alone; even one of more than the edges can take."""
    (X, y), rng = graphs(seed), np.random.default_rng(seed)
    outputs_of_all, w = Graph().examples(X, y, "margin").structure, point(rng, 3, 2)
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        labels, phi, losses = outputs(x, truth)
        highest = (losses + (phi - phi[(labels == truth).all(axis=1)]) @ w).max()
        ones, capacities = 2.0 * truth - 1.0 - x[0] @ w[:3], x[2] @ w[3:]
        for size in (0.0, 0.5, 2.0):
            left = size * rng.normal(size=2 * len(capacities))
            proved = _proved(outputs_of_all, i, ones, capacities, left)
            assert proved >= highest - 1e-12


@jit
def _proved(all_graphs, i, ones, capacities, left):
    cut = graph_oracle.cut_work(len(ones), 2 * len(capacities))
    work = graph_oracle.Workspace(ones.copy(), capacities, cut)
    work.cut.left[: len(left)] = left
    return graph_oracle.excess(all_graphs, i, work)


@pytest.mark.parametrize("seed", range(3))
def test_methods_by_enumeration(seed):
    rng, (X, y) = np.random.default_rng(seed), graphs(seed)
    model, w = Graph(cost=COST), point(rng, 3, 2)
    assert model.n_parameters(X, y) == 5 and list(model.nonnegative()) == [3, 4]
    for x, truth in zip(X, y, strict=True):
        labels, phi, losses = outputs(x, truth, COST)
        np.testing.assert_allclose([model.joint_feature(x, t) for t in labels], phi, atol=1e-12)
        np.testing.assert_allclose([model.loss(truth, t) for t in labels], losses)
        assert model.max_loss(truth) == losses.max()
        np.testing.assert_array_equal(model.inference(x, w), labels[np.argmax(phi @ w)])
        worst = labels[np.argmax(losses + phi @ w)]
        np.testing.assert_array_equal(model.loss_augmented_inference(x, truth, w), worst)


@pytest.mark.parametrize("kind", [float, bool, list])
def test_the_largest_loss_takes_labels_as_fit_does(kind):
    truth = [0, 1, 1]
    given = truth if kind is list else np.array(truth, kind)
    assert Graph(cost=COST).max_loss(given) == 4.5


def test_no_edges_as_an_empty_list():
    x = np.ones((3, 1)), [], np.ones((0, 1))
    model = Graph()
    model.n_parameters([x], [[0, 1, 1]])
    np.testing.assert_array_equal(model.joint_feature(x, [0, 1, 1]), [2.0, 0.0])


def test_of_several_best_labels_those_with_the_fewest_ones():
    x = np.zeros((3, 1)), [[0, 1]], [[1.0]]
    model = Graph()
    model.n_parameters([x], [[0, 0, 0]])
    np.testing.assert_array_equal(model.inference(x, [1.0, 1.0]), [0, 0, 0])


@pytest.mark.parametrize("kind", [pytest.param(np.float32, marks=pytest.mark.wide), int])
def test_kinds_of_arrays(kind):
    X, y = graphs(2, whole=True)
    w = point(np.random.default_rng(0), 3, 2)
    expected = Graph().examples(X, y, "margin").find(w, 0, len(X)).scores
    X = [(nodes.astype(kind), edges, widths.astype(kind)) for nodes, edges, widths in X]
    found = Graph().examples(X, [part.astype(bool) for part in y], "margin").find(w, 0, len(X))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-13)


def test_lists_in_place_of_arrays():
    X, y = (part[-3:] for part in graphs(2))
    w = point(np.random.default_rng(0), 3, 2)
    expected = Graph().examples(X, y, "margin").find(w, 0, 3)
    X, y = [[part.tolist() for part in x] for x in X], [part.tolist() for part in y]
    for part, other in zip(Graph().examples(X, y, "margin").find(w, 0, 3), expected, strict=True):
        np.testing.assert_array_equal(part, other)


def test_layouts_are_the_same_and_nothing_is_written():
    X, y = graphs(3)
    w = point(np.random.default_rng(0), 3, 2)
    expected = Graph().examples(X, y, "margin").find(w, 0, len(X))
    X = [tuple(np.asfortranarray(part) for part in x) for x in X]
    for part in [part for x in X for part in x] + y:
        part.flags.writeable = False
    found = Graph().examples(X, y, "margin").find(w, 0, len(X))
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, other)


def test_examples_from_the_middle():
    X, y = graphs(4)
    examples = Graph().examples(X, y, "margin")
    w = point(np.random.default_rng(1), 3, 2)
    np.testing.assert_array_equal(examples.find(w, 2, 6).scores, examples.find(w, 0, 7).scores[2:6])


@pytest.mark.parametrize("size", [1e-150, 1e150, 1e306])
def test_parameters_of_any_size(size):
    X, y = graphs(5)
    w = size * point(np.random.default_rng(1), 3, 2)
    found = Graph().examples(X, y, "margin").find(w, 0, len(X))
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        labels, phi, losses = outputs(x, truth)
        own = phi[(labels == truth).all(axis=1)]
        assert found.scores[i] == pytest.approx((losses + (phi - own) @ w).max(), rel=1e-12)


# ---- images -----------------------------------------------------------------------------------


@pytest.mark.parametrize("contrast", [None, [0, 2]])
def test_an_image_is_a_graph(contrast):
    X, y = images()
    rng, model = np.random.default_rng(0), Grid(contrast=contrast, cost=COST)
    n_parameters = model.n_parameters(X, y)
    assert n_parameters == 5 + (contrast is not None)
    w = point(rng, 3, n_parameters - 3)
    found = model.examples(X, y, "margin").find(w, 0, len(X))
    listed = ListedExamples(model, X, y, "margin")
    np.testing.assert_array_equal(model.examples(X, y, "margin").nonnegative, listed.nonnegative)
    for part, other in zip(found, listed.find(w, 0, len(X)), strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-12, atol=1e-12)
    for x, truth in zip(X, y, strict=True):
        all_phi = [model.joint_feature(x, t.reshape(truth.shape)) for t in labelings(truth.size)]
        best = labelings(truth.size)[np.argmax(all_phi @ w)].reshape(truth.shape)
        np.testing.assert_array_equal(model.inference(x, w), best)


def test_features_of_borders():
    """In rows, in columns, and by contrast, where the mean squared distance is 5.5."""
    image = np.array([[0.0, 1.0], [3.0, 4.0]])[:, :, None]
    model = Grid(contrast=[0])
    model.n_parameters([image], [np.zeros((2, 2))])
    near, far = np.exp(-1.0 / 10.0), np.exp(-9.0 / 10.0)
    phi = model.joint_feature(image, [[0, 1], [0, 0]])
    np.testing.assert_allclose(phi, [1.0, -1.0, -1.0, -near - far])


@pytest.mark.parametrize("size", [2.0**-600, 2.0**600])
def test_contrast_has_no_unit(size):
    image = np.random.default_rng(0).normal(size=(3, 4, 2))
    model, y = Grid(contrast=[0, 1]), [np.zeros((3, 4))] * 2
    one, other = model.examples([image, size * image], y, "margin").structure.edge_features.reshape(
        2, -1, 3
    )
    np.testing.assert_array_equal(one, other)
    assert np.ptp(one[:, 2]) > 0.1


def test_an_image_of_one_color_has_no_contrast():
    model, image = Grid(contrast=[0]), np.ones((2, 2, 1))
    model.n_parameters([image], [np.zeros((2, 2))])
    np.testing.assert_allclose(model.joint_feature(image, [[1, 1], [0, 0]]), [2, 0, -2, -2])


def test_the_grid_of_the_references():
    """The paper's section 4.1, as the tests of problems and solvers have it."""
    rng = np.random.default_rng(0)
    nodes, edges = rng.normal(size=(4, 6, 2)), rng.uniform(size=(4, 7, 2))
    y = rng.integers(0, 2, (4, 6))
    reference = Structured(grids(nodes, edges, y), 0.1, cone=[2, 3])
    X = [(x, np.array(GRID), z) for x, z in zip(nodes, edges, strict=True)]
    w = point(rng, 2, 2)
    found = Graph().examples(X, y, "margin").find(w, 0, 4)
    np.testing.assert_allclose(found.scores, reference.slacks(w), rtol=1e-12)


# ---- fits -------------------------------------------------------------------------------------


def pictures(n=8):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2, 3, 2))
    return list(X), list((X.sum(axis=3) > 0.5 * rng.normal(size=(n, 2, 3))).astype(int))


def as_graphs(n=8):
    """Features of which one pulls the wrong way, so that the cone is active."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, (n, 6))
    y[:, 1::2] = y[:, ::2]
    nodes = np.stack([y - 0.5 + rng.normal(size=y.shape), np.ones(y.shape)], axis=2)
    edges = np.stack([rng.uniform(size=7) * [1, 0, 1, 0, 0, 0, 0], rng.uniform(size=7)], axis=1)
    return [(x, GRID, edges) for x in nodes], list(y), nodes, np.tile(edges, (n, 1, 1))


@pytest.mark.matrix
@pytest.mark.parametrize("solver", ["auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_optimum_is_that_of_a_cone_programme(solver, loss):
    X, y, nodes, edges = as_graphs()
    squared = loss == "squared_hinge"
    reference = Structured(grids(nodes, edges, y), 0.1, cone=[2, 3], squared=squared)
    settings = {"reg_lambda": 0.1, "tol": 1e-6, "max_iter": 5000, "random_state": 0}
    model = StructuredSVM("graph", solver=solver, loss=loss, **settings).fit(X, y)
    best, rounding = reference.optimum(), 1e-12
    assert model.status_ == "converged"
    assert (model.w_[2:] >= 0.0).all()
    assert model.objective_ == pytest.approx(reference.objective(model.w_), rel=rounding)
    assert model.lower_bound_ <= best.value * (1.0 + rounding)
    assert model.objective_ >= (best.value - best.error) * (1.0 - rounding)


class Listed(Grid):
    """The judge asks for all outputs."""

    def outputs(self, x):
        return labelings(x[:, :, 0].size).reshape(-1, *x.shape[:2])


def test_certificate_against_enumeration():
    X, y = pictures()
    weights = np.arange(8) % 3 + 0.5
    model = StructuredSVM(Listed(contrast=[0]), reg_lambda=0.1, tol=1e-4, random_state=0)
    judge(model.fit(X, y, weights), X, y, weights)


def test_a_users_grid_has_the_same_optimum():
    X, y = pictures()
    settings = {"reg_lambda": 0.1, "tol": 1e-6, "random_state": 0, "max_iter": 3000}
    ours = StructuredSVM("grid", **settings).fit(X, y)
    theirs = StructuredSVM(EnumeratedGrid(), **settings).fit(X, y)
    assert ours.lower_bound_ <= theirs.objective_ and theirs.lower_bound_ <= ours.objective_
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.05)
    for labels, x in zip(ours.predict(X), X, strict=True):
        np.testing.assert_array_equal(labels, EnumeratedGrid().inference(x, ours.w_))


def test_threads_do_not_change_a_bit():
    """Of images so large that there are several blocks."""
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(4, 50, 50, 2)))
    y = [(x[:, :, 0] > 0.3).astype(int) for x in X]
    settings = {"reg_lambda": 1.0, "tol": 0.1, "random_state": 0}
    one, two = (StructuredSVM("grid", n_jobs=k, **settings).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.w_, two.w_)
    assert one.objective_ == two.objective_


def test_constructors_store_what_they_get():
    contrast = [0, 1]
    model = Grid(contrast=contrast, cost=COST)
    assert model.contrast is contrast and model.cost is COST
    assert clone(model).set_params(cost=None).get_params() == {"contrast": contrast, "cost": None}
