"""Graphs and matchings beyond the contracts of test_models: large ones, bounds, fits, errors."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Graph, Grid, Matching, PairwiseGraph
from tests.contract.cases import ListedGrid
from tests.contract.judge import judge
from tests.reference_structured import Structured, graphs, matchings
from tests.structured.test_models import cuts, edges_of_grid, exact, made, pairwise

# ---- large cuts, against scipy's maximum flow ---------------------------------------------------


def random_edges(seed, n, m):
    pairs = np.random.default_rng(seed).integers(0, n, (m, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]]


LARGE = {
    "grid": (edges_of_grid(30, 20), 600),
    "dense": (random_edges(0, 60, 1500), 60),
    "parallel": (np.repeat(random_edges(2, 20, 40), 3, axis=0), 20),
}


def lowest_by_scipy(edges, capacities, balances):
    """The lowest energy: of the largest flow, and what can drain."""
    n, nodes = len(balances), np.arange(len(balances))
    values = np.r_[np.maximum(balances, 0), np.maximum(-balances, 0), capacities, capacities]
    tails = np.r_[np.full(n, n), nodes, edges[:, 0], edges[:, 1]]
    heads = np.r_[nodes, np.full(n, n + 1), edges[:, 1], edges[:, 0]]
    network = csr_array((values.astype(np.int32), (tails, heads)), shape=(n + 2, n + 2))
    return np.minimum(balances, 0).sum() + maximum_flow(network, n, n + 1).flow_value


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_large_cuts(name, size):
    """Sums of whole numbers are exact: labels, and the bound of the flow, are those of scipy."""
    (edges, n), rng = LARGE[name], np.random.default_rng(size)
    capacities = rng.integers(0, size + 1, len(edges)).astype(float)
    balances = rng.integers(-2 * size, 2 * size + 1, n).astype(float)
    x, model = (-balances[:, None], edges, capacities[:, None]), Graph()
    assert model.n_parameters([x], [np.zeros(n)]) == 2
    labels, bound = model._best(x, None, np.ones(2))
    lowest = lowest_by_scipy(edges, capacities, balances)
    energy = labels @ balances + (labels[edges[:, 0]] != labels[edges[:, 1]]) @ capacities
    assert energy == lowest == -bound
    losses = model.examples([x], [np.zeros(n)], "margin").find(np.ones(2), 0, 1)
    assert losses.scores[0] == -lowest_by_scipy(edges, capacities, balances - 1.0)


def test_cuts_of_capacities_of_any_size():
    """The proved bound is that of the labels, but for rounding."""
    rng, edges, n = np.random.default_rng(3), edges_of_grid(60, 50), 3000
    capacities = rng.exponential(size=len(edges)) * 10.0 ** rng.uniform(-12, 0, len(edges))
    balances = rng.normal(size=n) * 10.0 ** rng.uniform(-12, 1, n)
    x, model = (-balances[:, None], edges, capacities[:, None]), Graph()
    model.n_parameters([x], [np.zeros(n)])
    labels, bound = model._best(x, None, np.ones(2))
    energy = labels @ balances + (labels[edges[:, 0]] != labels[edges[:, 1]]) @ capacities
    assert 0.0 <= bound + energy + 1e-13 * np.abs(balances).sum() <= 1e-12 * np.abs(balances).sum()


# ---- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_large_forest_in_any_order_of_its_nodes(seed):
    """Messages once up and down: the bound is reached by a labeling."""
    rng, n = np.random.default_rng(seed), 200
    edges = np.array([(rng.integers(v), v)[:: rng.choice([-1, 1])] for v in range(1, n)])
    x = rng.normal(size=(n, 2)), rng.permutation(n)[edges], rng.normal(size=(n - 1, 2))
    model, y = PairwiseGraph(3), rng.integers(0, 3, n)
    w = rng.normal(size=model.n_parameters([x], [y]))
    labels = model.loss_augmented_inference(x, y, w)
    score = model.loss(y, labels) + w @ model.joint_feature(x, labels)
    assert 0.0 <= model.upper_bound(x, y, w) - score <= 1e-11 * score


@pytest.mark.parametrize("branches", [0, 2, 6, 1000])
def test_bounds_however_soon_the_search_stops(branches):
    """Of spins whose pairs contradict each other: some best labelings are missed, none exceeded."""
    n, missed, w = 8, 0, np.r_[1.0, -1.0, 3.0, -3.0, -3.0, 3.0]
    edges, y = np.array([(a, b) for a in range(n) for b in range(a)]), np.zeros(n, int)
    for size, seed in product([0.1, 10.0], range(20)):  # of the scores of single spins
        rng = np.random.default_rng(seed)
        x = size * rng.normal(size=(n, 1)), edges, rng.normal(size=(len(edges), 1))
        examples = PairwiseGraph(2, max_branches=branches).examples([x], [y], "margin")
        found, highest = examples.find(w, 0, 1), exact(*graphs([x], [y], 2), "margin", w).max()
        assert found.scores[0] <= highest * (1.0 + 1e-12) and found.bounds[0] >= highest
        assert branches < 1000 or found.bounds[0] <= highest * (1.0 + 1e-12)
        missed += found.scores[0] < highest * (1.0 - 1e-12)
    assert (missed > 0) == (branches < 1000)


def test_a_loose_bound_ends_the_fit_and_is_named():
    case = pairwise(*[[(a, b) for a in range(5) for b in range(a)]] * 4, max_branches=0)
    svm = StructuredSVM(case.model, reg_lambda=0.1, tol=1e-4, random_state=0)
    with pytest.warns(ConvergenceWarning, match="between the outputs that PairwiseGraph has found"):
        svm.fit(case.X, case.y)
    assert svm.status_ == "stalled" and svm.exact_ and svm.n_iter_ < 100
    assert svm.lower_bound_ <= Structured(case.outputs, 0.1).optimum().value <= svm.objective_


# ---- matchings -----------------------------------------------------------------------------------


def test_bounds_where_scores_of_matchings_are_rounded():
    """Features and weights are such that enumeration rounds nothing."""
    rng, missed = np.random.default_rng(0), 0
    w = np.array([2.0**30, 2.0**-18])
    for _ in range(200):
        X = [rng.integers(-2, 3, (4, 4, 2)).astype(float)]
        found = Matching().examples(X, [np.arange(4)], "margin").find(w, 0, 1)
        (outputs,) = matchings(X, [np.arange(4)])
        highest = (outputs.losses - outputs.psi("margin") @ w).max()
        assert found.scores[0] <= highest <= found.bounds[0]
        missed += found.scores[0] < highest
    assert missed  # or this would prove nothing


HUGE = [
    (
        *(PairwiseGraph(2), [(1e300 * np.ones((3, 1)), [[0, 1], [1, 2]], np.ones((2, 1)))]),
        *([[0, 1, 1]], [1e300, -1e300, 0.0, 0.0, 0.0, 0.0]),
    ),
    (Matching(), [1e300 * np.arange(9.0).reshape(3, 3, 1)], [[0, 1, 2]], [1e300]),
]


@pytest.mark.parametrize("model, X, y, w", HUGE)
def test_points_whose_scores_overflow_have_no_value(model, X, y, w):
    examples = model.examples(X, y, "margin")
    with np.errstate(over="ignore", invalid="ignore"):
        found = examples.find(np.array(w), 0, 1)
    assert np.isnan(found.scores[0]) and np.isnan(found.bounds[0])


# ---- fits ----------------------------------------------------------------------------------------

SOLVERS = ["auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"]
KINDS = {
    "matching": lambda: made("matching"),
    "pairwise": lambda: pairwise(*[[(0, 1), (1, 2), (0, 2)]] * 6),
    "grid": lambda: replace(made("grid: contrast, costs"), model=ListedGrid(contrast=[0, 2])),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_certificates_of_all_solvers(solver, kind, loss):
    case, weights = KINDS[kind](), [1.0, 0.0, 2.0, 0.5, 1.0, 3.0]
    settings = {"reg_lambda": 0.5, "tol": 1e-5, "max_iter": 2000, "random_state": 0}
    svm = StructuredSVM(case.model, solver=solver, loss=loss, **settings)
    svm.fit(case.X, case.y, weights[: len(case.y)])
    assert svm.status_ == "converged" and svm.exact_
    judge(svm, case.X, case.y, weights[: len(case.y)])


# ---- errors --------------------------------------------------------------------------------------

NODES, EDGES, FEATURES = np.ones((3, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1))
NAN = np.where(np.arange(6).reshape(3, 2) == 2, np.nan, 1.0)
GOOD = {
    "graph": ((NODES, EDGES, FEATURES), [0, 1, 1]),
    "pairwise": ((NODES, EDGES, FEATURES), [0, 1, 2]),
    "grid": (np.ones((2, 3, 2)), np.eye(2, 3, dtype=int)),
    "matching": (np.zeros((3, 4, 2)), [2, 0, 1]),
}
WRONG_X = [
    ("graph", NODES, r"X\[1\] must be a tuple \(node_features, edges, edge_features\), got \[\["),
    ("pairwise", (NODES[:, :1], EDGES, FEATURES), r"node features of X\[1\] .* shape \(n, 2\)"),
    ("graph", (NAN, EDGES, FEATURES), r"node features of X\[1\] must be .* at \(1, 0\) is nan"),
    ("pairwise", (NODES[:0], EDGES[:0], FEATURES[:0]), r"X\[1\] must have at least one node"),
    ("graph", (NODES, np.ones((2, 3)), FEATURES), r"edges of X\[1\] .* shape \(m, 2\), but has"),
    ("pairwise", (NODES, EDGES - 1, FEATURES), r"from 0 to 2, but the entry at \(0, 0\) is -1\."),
    ("graph", (NODES, [[0, 1], [1, 1]], FEATURES), r"join two different nodes, but .* \(1, 0\)"),
    ("pairwise", (NODES, EDGES, FEATURES[:1]), r"edge features of X\[1\] .* shape \(2, 1\), but"),
    ("graph", (NODES, EDGES, -FEATURES), r"edge features of X\[1\] must not be negative, but"),
    ("grid", np.ones((2, 3)), r"X\[1\] must have the shape \(h, w, 2\), but has \(2, 3\)"),
    ("matching", np.zeros((4, 2)), r"X\[1\] must have the shape \(n, m, 2\), but has \(4, 2\)"),
    ("matching", np.zeros((4, 3, 2)), r"X\[1\] must have a shape \(n, m, d\) with 1 <= n <= m"),
]
WRONG_Y = [
    ([0, 1], r"y\[1\] must have the shape \(3,\), but has \(2,\)"),
    ([0, 1, -1], r"y\[1\] must hold whole numbers from 0 to \d, but the entry at \(2,\) is -1"),
    ([0, 4, 1], r"y\[1\] must hold whole numbers from 0 to \d, but the entry at \(1,\) is 4"),
]


def new(kind, **settings):
    model = PairwiseGraph(3) if kind == "pairwise" else kind
    return StructuredSVM(model, random_state=0, **settings)


@pytest.mark.parametrize("kind, x, message", WRONG_X)
def test_wrong_inputs(kind, x, message):
    good, y = GOOD[kind]
    with pytest.raises(ValueError, match=message):
        new(kind).fit([good, x], [y, y])
    with pytest.raises(ValueError, match=message.replace(r"X\[1\]", "x")) as raised:
        new(kind).fit([good], [y]).predict([good, x])
    assert raised.value.__notes__ == ["This is example 1 of those given."]


@pytest.mark.parametrize("kind", ["graph", "pairwise", "matching"])
@pytest.mark.parametrize("labels, message", WRONG_Y)
def test_wrong_outputs(kind, labels, message):
    x, y = GOOD[kind]
    with pytest.raises(ValueError, match=message):
        new(kind).fit([x, x], [y, labels])
    if "is 4" not in message or kind == "graph":  # others count it as wrong
        message = message.replace(r"y\[1\]", "y").replace(r"\d,", r"\d+,")
        with pytest.raises(ValueError, match=message):
            new(kind).fit([x], [y]).score([x], [labels])


WRONG_MODELS = [
    ("grid", Grid(contrast=[2]), r"contrast must hold whole numbers from 0 to 1, but .* is 2"),
    ("graph", Graph(cost=np.eye(3)), "cost must have a row and a column for each of the 2 classes"),
    ("pairwise", PairwiseGraph(max_branches=-1), "max_branches == -1, must be >= 0"),
]


@pytest.mark.parametrize("kind, model, message", WRONG_MODELS)
def test_wrong_parameters(kind, model, message):
    x, y = GOOD[kind]
    with pytest.raises(ValueError, match=message):
        StructuredSVM(model).fit([x], [y])


@pytest.mark.parametrize("kind", ["graph", "pairwise", "matching"])
def test_slack_rescaling_is_refused(kind):
    x, y = GOOD[kind]
    with pytest.raises(ValueError, match=r"slack_rescaled_inference, which .* does not have"):
        new(kind, scaling="slack").fit([x], [y])


def test_weights_that_are_none_of_a_cut():
    model, x = cuts().model, cuts().X[0]
    with pytest.raises(ValueError, match=r"w must have the shape \(5,\), but has \(2,\)"):
        model.inference(x, np.ones(2))
    with pytest.raises(ValueError, match=r"w must not be negative for edge .* \(4,\) is -1"):
        model.inference(x, [-1.0, 1.0, 1.0, 1.0, -1.0])
