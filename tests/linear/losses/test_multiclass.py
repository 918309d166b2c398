"""Every multiclass loss in the table, built in or not, keeps the contract of MulticlassLoss."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from sklearn_bundle.linear.losses.samples import check_derivatives
from sklearn_bundle.losses import MulticlassHinge, MulticlassLoss, Ontology, Softmax
from tests import reference_multiclass as reference
from tests.contract.user_losses import SquaredMargins

K = 4
COST = np.array([[0, 1, 2, 3], [0.5, 0, 1, 2], [2, 1, 0, 0], [3, 1, 0.2, 0]])
# 3 has two paths from the root; "rare" and its child have no class below them
EDGES = [("root", "a"), ("root", "b"), ("a", 0), ("a", 1), ("a", "c"), ("b", "c"), ("b", 2)]
EDGES += [("c", 3), ("root", "rare"), ("rare", "none")]


class Generic(MulticlassLoss):
    """The fallbacks of the base class, from another loss's value and gradient alone."""

    def __init__(self, loss):
        self.loss = loss
        self.n_outputs = loss.n_outputs

    def value(self, scores, y):
        return self.loss.value(scores, y)

    def gradient(self, scores, y):
        return self.loss.gradient(scores, y)


HINGES = {
    "hinge": MulticlassHinge(),
    "cost": MulticlassHinge(COST),
    "slack": MulticlassHinge(COST, scaling="slack"),
    "slack_ones": MulticlassHinge(scaling="slack"),
}
ONTOLOGIES = {
    "ontology": Ontology(EDGES).bind(range(K)),
    "ontology_cost": Ontology(EDGES, COST).bind(range(K)),
}
BUILT_IN = HINGES | ONTOLOGIES | {"softmax": Softmax()}
TABLE = BUILT_IN | {"user": SquaredMargins(), "generic": Generic(BUILT_IN["cost"])}
every_loss = pytest.mark.parametrize("loss", TABLE.values(), ids=TABLE)
built_in = pytest.mark.parametrize("loss", BUILT_IN.values(), ids=BUILT_IN)


def draw(loss, seed, n=40, decimals=None):
    """Scores, labels of every class and weights summing to one; rounded scores have ties."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.r_[np.arange(K), rng.integers(0, K, n - K)])
    scores = 2.0 * rng.normal(size=(n, loss.n_outputs(y)))
    if decimals is not None:
        scores = np.round(scores, decimals)
    weights = rng.random(n) + 0.1
    return scores, y, weights / weights.sum(), rng


def cut(loss, scores, y, weights, fit_intercept=True):
    out = np.full_like(scores, np.nan)
    return loss.cut(scores, y, weights, fit_intercept, out, np.empty((4, len(y)))), out


def enumerated(loss, scores, y):
    """Losses by the reference's enumeration."""
    if isinstance(loss, Softmax):
        return [reference.loss(f, k, "softmax") for f, k in zip(scores, y, strict=True)]
    scaling = getattr(loss, "scaling", "margin")
    return [
        reference.loss(f, k, "hinge", loss.cost, scaling) for f, k in zip(scores, y, strict=True)
    ]


@pytest.mark.parametrize("name", [*HINGES, "softmax"])
@pytest.mark.parametrize("decimals", [None, 0])
def test_formula(name, decimals):
    loss = TABLE[name]
    scores, y, weights, _ = draw(loss, 0, decimals=decimals)
    losses = enumerated(loss, scores, y)
    np.testing.assert_allclose(loss.value(scores, y), losses, rtol=1e-13, atol=1e-15)
    plane, _ = cut(loss, scores, y, weights)
    assert plane.risk == pytest.approx(weights @ losses, rel=1e-13)


@every_loss
def test_gradient_by_differences(loss):
    scores, y, _, _ = draw(loss, 1)
    gradient, step = loss.gradient(scores, y), 1e-6
    for k in range(scores.shape[1]):
        moved = np.zeros_like(scores)
        moved[:, k] = step
        difference = (loss.value(scores + moved, y) - loss.value(scores - moved, y)) / (2 * step)
        # second-order differences: step^2 times the third derivative, and rounding / step
        np.testing.assert_allclose(gradient[:, k], difference, atol=1e-7)


@every_loss
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("decimals", [None, 0])
def test_cut_is_a_plane_below_the_risk(loss, fit_intercept, decimals):
    scores, y, weights, rng = draw(loss, 2, decimals=decimals)
    plane, g = cut(loss, scores, y, weights, fit_intercept)
    assert plane.intercept == 0.0
    assert plane.offset + np.sum(g * scores) == pytest.approx(plane.risk, abs=1e-13)
    for scale in (0.01, 1.0, 10.0):
        for _ in range(50):
            other = scores + scale * rng.normal(size=scores.shape)
            risk = weights @ loss.value(other, y)
            assert plane.offset + np.sum(g * other) <= risk + 1e-13 * max(1.0, risk)


@built_in
def test_offset_has_no_cancellation(loss):
    scores, y, weights, _ = draw(loss, 3)
    scores = np.round(8.0 * scores) / 8.0
    expected, g = cut(loss, scores, y, weights)
    # the same number on all scores of a sample, or (ontology) the root's, changes nothing; with
    # eighths and a power of two the sums are exact, but <g, f> would lose all digits
    far = scores.copy()
    far[:, loss.nodes.index("root") if isinstance(loss, Ontology) else slice(None)] += 2.0**45
    shifted, h = cut(loss, far, y, weights)
    np.testing.assert_allclose(shifted, expected, rtol=1e-14)
    np.testing.assert_allclose(g, h, atol=1e-16)


@every_loss
@pytest.mark.parametrize("b", [0.7, None])
def test_risk_with_an_intercept(loss, b):
    scores, y, weights, rng = draw(loss, 4)
    b = rng.normal(size=scores.shape[1]) if b is None else b
    expected = weights @ loss.value(scores + b, y)
    assert loss.risk(scores, y, weights, b) == pytest.approx(expected, rel=1e-13)


@every_loss
def test_integer_weights_repeat_rows(loss):
    scores, y, _, rng = draw(loss, 5, decimals=1)
    counts = rng.integers(1, 4, size=len(y))
    repeated = np.full(counts.sum(), 1.0 / counts.sum())
    plane, g = cut(loss, scores, y, counts / counts.sum())
    again, h = cut(loss, scores.repeat(counts, axis=0), y.repeat(counts), repeated)
    np.testing.assert_allclose(plane, again, rtol=1e-12)
    starts = np.r_[0, np.cumsum(counts)[:-1]]
    np.testing.assert_allclose(g, np.add.reduceat(h, starts), atol=1e-15)


@built_in
def test_compiled_equals_generic(loss):
    scores, y, weights, rng = draw(loss, 6)
    direction = rng.normal(size=scores.shape)
    plane, g = cut(loss, scores, y, weights)
    other, h = cut(Generic(loss), scores, y, weights)
    np.testing.assert_allclose(plane, other, rtol=1e-12)
    np.testing.assert_allclose(g, h, atol=1e-15)
    risk = loss.evaluate(scores, y, weights, np.empty_like(scores))
    assert risk == pytest.approx(other.risk, rel=1e-13)
    first, _ = loss.slope(scores, direction, y, weights, 0.3)
    expected, _ = Generic(loss).slope(scores, direction, y, weights, 0.3)
    assert first == pytest.approx(expected, rel=1e-12)


def test_second_derivative_of_softmax():
    scores, y, weights, rng = draw(Softmax(), 7)
    direction, step = rng.normal(size=scores.shape), 1e-5

    def slope(t):
        return Softmax().slope(scores, direction, y, weights, t)

    difference = (slope(step)[0] - slope(-step)[0]) / (2 * step)
    assert slope(0.0)[1] == pytest.approx(difference, rel=1e-8)


@every_loss
@given(
    seed=st.integers(0, 2**32 - 1),
    decimals=st.sampled_from([None, 0]),
    size=st.sampled_from([1e-3, 1.0, 100.0]),
)
@settings(deadline=None, max_examples=30)
def test_line_search_is_exact(loss, seed, decimals, size):
    scores, y, weights, rng = draw(loss, seed, n=25, decimals=decimals)
    direction = size * rng.normal(size=scores.shape)
    slope, curvature = -size * rng.random(), size**2 * (rng.random() + 0.01)

    def along(t):
        return slope * t + 0.5 * curvature * t * t + weights @ loss.value(scores + t * direction, y)

    t = loss.line_search(scores, direction, y, weights, slope, curvature, np.empty((4, 25)))
    assert t >= 0.0
    bounds = (0.0, 400.0 / size)
    other = minimize_scalar(along, bounds=bounds, options={"xatol": 1e-10 / size, "maxiter": 1000})
    # Newton stops when the slope has fallen by 1e-8: second order in the value
    assert along(t) <= min(other.fun, along(0.0)) + 1e-10


@every_loss
def test_uphill_gives_a_zero_step(loss):
    scores, y, weights, _ = draw(loss, 8)
    uphill = loss.gradient(scores, y)
    assert loss.line_search(scores, uphill, y, weights, 0.0, 0.1, np.empty((4, len(y)))) == 0.0


@pytest.mark.parametrize("name", [*HINGES, "softmax"])
def test_permuted_classes(name):
    loss, order = TABLE[name], np.array([2, 0, 3, 1])
    scores, y, weights, _ = draw(loss, 9)
    renamed = Softmax()
    if name != "softmax":
        cost = None if loss.cost is None else COST[np.ix_(order, order)]
        renamed = MulticlassHinge(cost, loss.scaling)
    plane, g = cut(loss, scores, y, weights)
    other, h = cut(renamed, scores[:, order].copy(), np.argsort(order)[y], weights)
    np.testing.assert_allclose(plane, other, rtol=1e-13)
    np.testing.assert_allclose(g[:, order], h, atol=1e-15)


@pytest.mark.parametrize("size", [1e5, 1e300])
def test_softmax_does_not_overflow(size):
    scores, y = size * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]), np.array([0, 0])
    plane, g = cut(Softmax(), scores, y, np.array([0.5, 0.5]))
    assert plane.risk == pytest.approx(size)
    assert plane.offset == 0.0
    np.testing.assert_array_equal(g, [[0.0, 0.0, 0.0], [-0.5, 0.5, 0.0]])
    np.testing.assert_array_equal(Softmax().probability(scores), [[1, 0, 0], [0, 1, 0]])


def test_softmax_keeps_small_losses():
    scores = np.array([[50.0, 0.0, 0.0]])
    plane, g = cut(Softmax(), scores, np.array([0]), np.ones(1))
    np.testing.assert_allclose(plane.risk, 2.0 * np.exp(-50.0), rtol=1e-14)
    np.testing.assert_allclose(g, [np.array([-2.0, 1.0, 1.0]) * np.exp(-50.0)], rtol=1e-14)


@built_in
@pytest.mark.parametrize("column", range(K))
def test_not_a_number_comes_through(loss, column):
    scores, y, weights, _ = draw(loss, 10)
    scores[3, column] = np.nan
    assert np.isnan(cut(loss, scores, y, weights)[0].risk)
    assert np.isnan(loss.risk(scores, y, weights, 0.0))


@pytest.mark.parametrize("K", [2, 3, 7, 300])
def test_any_number_of_classes(K):
    rng = np.random.default_rng(K)
    y, scores = rng.permutation(np.arange(2 * K) % K), rng.normal(size=(2 * K, K))
    weights = np.full(2 * K, 0.5 / K)
    for loss in (MulticlassHinge(), Softmax()):
        assert loss.n_outputs(y) == K
        plane, g = cut(loss, scores, y, weights)
        other, h = cut(Generic(loss), scores, y, weights)
        np.testing.assert_allclose(plane, other, rtol=1e-12)
        np.testing.assert_allclose(g, h, atol=1e-15)


# ---- ontology ------------------------------------------------------------------------------


def test_ontology_of_depth_one_is_the_hinge():
    ontology = Ontology([("root", k) for k in "cabd"]).bind(np.array(list("abcd")))
    hinge = MulticlassHinge(2.0 * (1.0 - np.eye(K)))  # the path is up to the root and down
    assert ontology.nodes == ("a", "b", "c", "d", "root")
    scores, y, weights, _ = draw(ontology, 11)
    assert scores.shape[1] == 5
    plane, g = cut(ontology, scores, y, weights)
    other, h = cut(hinge, scores[:, :4].copy(), y, weights)
    np.testing.assert_allclose(plane, other, rtol=1e-12)
    np.testing.assert_array_equal(g, np.c_[h, np.zeros(len(y))])


def random_graph(rng):
    """An acyclic graph's edges, among them unused nodes, and the ancestors of each leaf by paths.

    Leaves are 0..K-1; the inner nodes "v0", "v1", ... have parents of a smaller number.
    """
    inner = [f"v{j}" for j in range(rng.integers(2, 7))]
    edges = [
        (inner[i], inner[j]) for j in range(len(inner)) for i in range(j) if rng.random() < 0.4
    ]
    for k in range(K):
        above = rng.choice(inner, size=rng.integers(1, len(inner)), replace=False)
        edges += [(str(parent), k) for parent in above]
    edges = [edges[i] for i in rng.permutation(len(edges))]

    def climb(node):
        return {node}.union(*(climb(parent) for parent, child in edges if child == node))

    return edges, [climb(k) for k in range(K)]


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_random_graph_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    edges, ancestors = random_graph(rng)
    ontology = Ontology(edges).bind(np.arange(K))
    nodes = ontology.nodes
    assert nodes[:K] == tuple(range(K))
    assert set(nodes) == set().union(*ancestors) and len(set(nodes)) == len(nodes)
    A = np.array([[node in above for node in nodes] for above in ancestors], dtype=float)
    distance = [[len(a ^ b) for b in ancestors] for a in ancestors]
    scores, y, weights, _ = draw(ontology, seed)
    class_scores = scores @ A.T
    np.testing.assert_allclose(ontology.class_scores(scores), class_scores, atol=1e-13)
    losses = [reference.loss(f, k, cost=distance) for f, k in zip(class_scores, y, strict=True)]
    plane, g = cut(ontology, scores, y, weights)
    assert plane.risk == pytest.approx(weights @ losses, rel=1e-12)
    pulls = MulticlassHinge(distance).gradient(class_scores, y) @ A
    np.testing.assert_allclose(g, weights[:, None] * pulls, atol=1e-15)


def test_renamed_classes_of_an_ontology():
    order = np.array([2, 0, 3, 1])
    ontology = Ontology(EDGES).bind(np.arange(K))
    renamed = Ontology(EDGES[::-1]).bind(order)  # class order[k] has number k
    scores, y, weights, _ = draw(ontology, 12)
    columns = [ontology.nodes.index(node) for node in renamed.nodes]
    plane, g = cut(ontology, scores, y, weights)
    other, h = cut(renamed, scores[:, columns].copy(), np.argsort(order)[y], weights)
    np.testing.assert_allclose(plane, other, rtol=1e-13)
    np.testing.assert_allclose(g[:, columns], h, atol=1e-15)


def test_class_scores_of_a_transposed_matrix():
    scores = draw(TABLE["ontology"], 13)[0]
    transposed = np.asfortranarray(scores)
    expected = TABLE["ontology"].class_scores(scores)
    np.testing.assert_array_equal(TABLE["ontology"].class_scores(transposed), expected)
    assert expected.flags.c_contiguous
    assert Softmax().class_scores(scores) is scores


@pytest.mark.parametrize(
    "edges, classes, message",
    [
        ([("r", "a"), ("a", "b")], ["a", "b"], "class 'a' has the child 'b'"),
        ([("r", "a")], ["a", "b"], "a node for each class, but none for 'b'"),
        ([("r", "a"), ("a", "b"), ("b", "r"), ("b", "c")], ["c"], "must not have a cycle, but has"),
        ([("a", "a"), ("a", "c")], ["c"], "cycle, but has 'a' -> 'a'"),
        ([("r", "a"), ("r", "a", "c")], ["a"], r"edges\[1\] is \('r', 'a', 'c'\)"),
        ([("r", ["a"])], ["a"], "nodes that can be hashed"),
        ([3], ["a"], r"edges\[0\] is 3"),
    ],
)
def test_edges_that_are_wrong(edges, classes, message):
    with pytest.raises(ValueError, match=message):
        Ontology(edges).bind(np.array(classes))


def test_ontology_must_be_bound():
    with pytest.raises(ValueError, match=r"call bind\(classes\) first"):
        Ontology(EDGES).n_outputs(np.arange(K))


def test_bind_leaves_the_parameters_alone():
    ontology = Ontology(EDGES)
    bound = pickle.loads(pickle.dumps(ontology.bind(range(K))))
    assert vars(ontology) == {"edges": EDGES, "cost": None}
    assert bound.nodes == TABLE["ontology"].nodes
    assert bound.bind([3, 2, 1, 0]).nodes[:K] == (3, 2, 1, 0)


# ---- parameters ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [MulticlassHinge, lambda cost: Ontology(EDGES, cost)])
@pytest.mark.parametrize(
    "cost, message",
    [
        (np.ones((3, 3)) - np.eye(3), r"shape \(4, 4\), but has shape \(3, 3\)"),
        (COST - 2.0 * (COST == 0.2), r"at least 0, but cost\[3, 2\] is -1.8"),
        (COST + np.diag([0, 1, 0, 0]), r"0 on its diagonal, but cost\[1, 1\] is 1.0"),
        (np.where(COST == 0.2, np.nan, COST), r"cost must be finite .* cost\[3, 2\] is nan"),
        ("high", "cost must be a matrix of numbers or None, but is 'high'"),
    ],
)
def test_costs_that_are_wrong(make, cost, message):
    with pytest.raises(ValueError, match=message):
        make(cost).check(np.arange(K))


def test_scaling_that_is_wrong():
    with pytest.raises(ValueError, match="scaling must be 'margin' or 'slack', but is 'both'"):
        MulticlassHinge(scaling="both").check(np.arange(K))


@every_loss
def test_parameters_that_are_right(loss):
    assert loss.check(np.arange(K)) is None


def test_cost_may_be_nested_lists():
    scores, y, weights, _ = draw(TABLE["cost"], 14)
    loss = MulticlassHinge(COST.tolist())
    loss.check(np.arange(K))
    assert cut(loss, scores, y, weights)[0] == cut(TABLE["cost"], scores, y, weights)[0]


def test_check_of_derivatives_knows_the_rounding_of_scores():
    """Two classes that move alike: the loss is constant along the step, up to its rounding."""
    rng = np.random.default_rng(0)
    scores = 2.0 * rng.normal(size=(20_000, 3))
    check_derivatives(SquaredMargins(), scores, rng.integers(0, 3, len(scores)))
