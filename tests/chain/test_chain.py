"""Chains: the objective, its dual and labelings against enumeration of all labelings."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from sklearn_bundle.chain._compiled.chain_dual import Potentials
from sklearn_bundle.chain.dual_ascent import DualSolver
from sklearn_bundle.chain.model import ChainModel, Weights, flat, pack, taken_apart, unpacked
from tests import reference_chain as reference
from tests.chains import bound, sequences


def to_flat(model, w):
    return flat(Weights(*model.parts(w)))


def from_flat(model, w):
    return model.joined(*taken_apart(w, model.K))


LENGTHS = [3, 1, 5, 2, 4, 1]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_objective_and_gradient_against_enumeration(intercept, dtype):
    ours, model = bound(3, LENGTHS, intercept, dtype=dtype)
    w = np.random.default_rng(2).normal(size=model.size)
    value, gradient, _ = ours.evaluate(to_flat(model, w))
    expected = 0.5 * model.reg_lambda * (w @ w)
    slope = model.reg_lambda * w
    for i, s in enumerate(model.weights):
        joint = reference.from_scores(*model.scores(i, w))
        truth = model.true_features(i)
        expected += s * (joint.log_z - w @ truth)
        slope += s * (model.features(i, joint.nodes, joint.pairs.sum(axis=0)) - truth)
    assert value == pytest.approx(expected, rel=1e-13)
    assert_allclose(from_flat(model, gradient), slope, atol=1e-13)
    assert np.count_nonzero(gradient) <= model.size  # nothing in the padding
    assert model.objective(w) == pytest.approx(expected, rel=1e-13)  # the reference itself
    assert_allclose(model.objective_and_gradient(w)[1], slope, atol=1e-13)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("K", [2, 9])
def test_gradient_by_finite_differences(intercept, K):
    ours, model = bound(K, LENGTHS, intercept)
    rng = np.random.default_rng(2)
    w, step = rng.normal(size=model.size), 1e-5
    gradient = from_flat(model, ours.evaluate(to_flat(model, w))[1])
    for _ in range(10):
        v = rng.normal(size=model.size)
        up, down = (ours.evaluate(to_flat(model, w + h * v))[0] for h in (step, -step))
        # the third derivative times h^2/6, and rounding over h
        assert (up - down) / (2.0 * step) == pytest.approx(gradient @ v, abs=1e-7)


@pytest.mark.matrix
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4, 1e8, 1e12])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
def test_the_bound_of_a_gradient_is_below_the_optimum(size, scale):
    """However large w is: what the terms of the bound lose in rounding is more than the optimum."""
    ours, model = bound(3, LENGTHS, scale=scale)
    best, rng = model.objective(model.optimum()), np.random.default_rng(2)
    for _ in range(20):
        w = size * rng.normal(size=model.size)
        assert ours.evaluate(to_flat(model, w))[2] <= best * (1.0 + 1e-12)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_threads_agree(n_threads):
    (one, model), (several, _) = (bound(3, LENGTHS, n_threads=n) for n in (1, n_threads))
    w = to_flat(model, np.random.default_rng(2).normal(size=model.size))
    blocks = one.start(True, np.float64)
    with several:
        assert_allclose(several.evaluate(w)[1], one.evaluate(w)[1], atol=1e-15)
        assert several.evaluate(w)[0] == pytest.approx(one.evaluate(w)[0], rel=1e-15)
        assert_array_equal(several.gaps(w, blocks)[1], one.gaps(w, blocks)[1])


SHAPES = (3, 3), (3, 3), 3, 3, 3


def some_weights():
    return Weights(*(np.random.default_rng(k).normal(size=s) for k, s in enumerate(SHAPES)))


def test_threads_agree_on_many_blocks():
    X, _ = sequences(3, [50] * 1000)
    weights = some_weights()
    arguments = sp.csr_array(np.concatenate(X)), np.full(1000, 50), weights
    one, two = (ChainModel(*arguments, n) for n in (1, 2))
    assert_array_equal(one.best_labels(), two.best_labels())
    assert_array_equal(one.marginals(), two.marginals())
    assert_array_equal(one.pair_marginals(), two.pair_marginals())


def test_parameters_in_one_vector_and_apart():
    parts = some_weights()
    for part, again in zip(parts, taken_apart(flat(parts), 3), strict=True):
        assert_array_equal(part, again)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("overwrite", [False, True])
def test_entries_by_attribute_come_back(dtype, index, overwrite):
    lengths = np.array([4, 1, 7, 1, 3])
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.normal(size=(16, 30)) * (rng.random((16, 30)) < 0.3)).astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    given = X.toarray()
    chains = pack(X, lengths, 3, True, overwrite=overwrite)
    assert chains.values.dtype == dtype
    assert np.shares_memory(chains.values, X.data) == overwrite
    assert np.shares_memory(chains.places, X.indices) == (overwrite and index == np.int32)
    assert overwrite or (X.toarray() == given).all()
    back = np.zeros(X.shape)
    for i in range(len(lengths)):
        attributes = chains.attributes[chains.blocks[i] : chains.blocks[i + 1]]
        assert len(set(attributes)) == len(attributes)
        entries = slice(chains.entries[i], chains.entries[i + 1])
        slots, positions = chains.places[entries].T
        assert (np.diff(slots.astype(int)) >= 0).all()  # sorted by attributes
        assert_array_equal(np.unique(slots), np.arange(len(attributes)))
        rows = chains.tokens[i] + positions
        back[rows, attributes[slots]] = chains.values[entries]
    assert_array_equal(back, given)
    assert_array_equal(unpacked(chains).toarray(), given)


@pytest.mark.parametrize("n", [65_535, 65_536])
@pytest.mark.parametrize("long", [False, True])
def test_the_last_number_of_16_bits(n, long):
    """As many attributes of a token, or tokens of a sequence."""
    shape = (n, 1) if long else (1, n)
    X = sp.csr_array(np.arange(1.0, n + 1.0).reshape(shape))
    X = sp.csr_array(sp.vstack([X, X[::-1]]))
    chains = pack(X, np.full(2, shape[0]), 2, True)
    assert chains.places.dtype == (np.uint16 if n < 65_536 else np.uint32)
    assert chains.places.max() == n - 1
    assert (unpacked(chains) != X).nnz == 0


@pytest.mark.parametrize("value", [1.0, -0.1, 1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_values_are_kept_once(value, dtype):
    value = dtype(min(value, float(np.finfo(dtype).max)))
    X = sp.csr_array(np.array([[1, 0, 1], [1, 1, 0], [0, 0, 0]]) * value)
    chains = pack(X, np.array([2, 1]), 2, True)
    assert len(chains.values) == 1 and chains.values[0] == value
    assert_array_equal(unpacked(chains).toarray(), X.toarray())
    empty = pack(0.0 * X[:, :0], np.array([2, 1]), 2, True)
    assert unpacked(empty).shape == (3, 0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("nonnegative", [True, False])
def test_radii_bound_all_labelings(intercept, nonnegative):
    """Appendix C: an upper bound, and reached if a label does not occur in the sequence."""
    lengths = [1, 2, 3, 4, 4]
    ours, model = bound(4, lengths, intercept, nonnegative=nonnegative)
    for i, (T, radius) in enumerate(zip(lengths, ours.radii(), strict=True)):
        one_hot = np.eye(4)[reference.labelings(T, 4)]
        edges = np.einsum("mtj,mtk->mjk", one_hot[:, :-1], one_hot[:, 1:])
        truth = model.true_features(i)
        distances = [
            np.sum((model.features(i, *pair) - truth) ** 2)
            for pair in zip(one_hot, edges, strict=True)
        ]
        assert max(distances) <= radius * (1.0 + 1e-12)
        if nonnegative and len(set(model.y[i])) < 4:
            assert max(distances) == pytest.approx(radius, rel=1e-12)


# ---- the dual ---------------------------------------------------------------------------------


DUALS = {"double": (True, 1e-9), "single": (True, 1e-3), "sdca": (False, 1e-9)}


@pytest.fixture(params=DUALS)
def method(request):
    """A dual method at its start, and the reference's problem."""
    potentials, tol = DUALS[request.param]
    ours, model = bound(3, LENGTHS)
    options = {"sampling": "gap", "nonuniformity": 0.8, "precision": 1e-3, "tol": tol, "seed": 0}
    dual = DualSolver(ours, potentials=potentials, **options)
    assert dual.kept.nodes.dtype == (np.float32 if tol == 1e-3 else np.float64)
    return ours, model, dual


@pytest.fixture(params=[0, 1, 3], ids="after {} epochs".format)
def dual(request, method):
    """A problem and a dual point some epochs after the start."""
    ours, model, solver = method
    list(islice(solver.states(), request.param))
    return ours, model, solver.kept


def joints(ours, model, blocks):
    """The distributions that blocks stand for."""
    K, S = model.K, ours.chains.width
    nodes = blocks.nodes.reshape(-1, S)[:, :K].astype(float)
    matrices = blocks.pairs.reshape(-1, S, S)[:, :K, :K].astype(float)
    result, at = [], 0
    for i, T in enumerate(len(x) for x in model.X):
        first, rows = blocks.pairs_at[i], nodes[at : at + T]
        if isinstance(blocks, Potentials):
            matrix = matrices[first] if T > 1 else np.zeros((K, K))
            result.append(reference.from_scores(rows, matrix))
        else:
            result.append(reference.from_marginals(rows, matrices[first : first + T - 1]))
        at += T
    return result


def test_start_is_nearly_the_truth(method):
    ours, model, solver = method
    for joint, labels in zip(joints(ours, model, solver.kept), model.y, strict=True):
        assert 0.5 < joint.p[(joint.paths == labels).all(axis=1)].item() < 1.0


def test_point_and_value_of_the_dual(dual):
    ours, model, blocks = dual
    w, value, _ = ours.weights_of(blocks)
    expected, expected_value = model.dual(joints(ours, model, blocks))
    assert_allclose(from_flat(model, w), expected, atol=1e-12)
    assert np.count_nonzero(w) <= model.size
    assert value == pytest.approx(expected_value, rel=1e-12)


@pytest.mark.matrix
@pytest.mark.parametrize("l1_ratio", [0.5, 0.99, 1.0])
@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_value_of_the_dual_with_l1(dual, strength, l1_ratio):
    """The best of the mixtures with the truth: features scale with s, entropies at least so."""
    ours, model, blocks = dual
    features, entropy = model.dual(joints(ours, model, blocks))
    entropy += 0.5 * model.reg_lambda * (features @ features)
    sizes, l1 = model.reg_lambda * np.abs(features), strength * sizes_at_zero(model) * l1_ratio

    def value(s):
        above = np.maximum(s * sizes - l1, 0.0)
        return s * entropy - above @ above * l1_ratio / (2.0 * l1 * (1.0 - l1_ratio))

    if l1_ratio < 1.0:
        inside = minimize_scalar(
            lambda s: -value(s), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12}
        )
        best = max(value(1.0), -inside.fun)
    else:
        best = entropy * min(1.0, l1 / sizes.max())
    ours.reg_lambda, ours.l1_ratio = l1 / l1_ratio, l1_ratio
    _, found, margin = ours.weights_of(blocks)
    assert found == pytest.approx(best, rel=1e-9)
    assert 0.0 <= margin <= 1e-10 * max(best, 1.0)
    assert found <= entropy and found >= 0.0


@pytest.mark.parametrize("l1_ratio", [0.7, 1.0])
def test_objective_with_l1(l1_ratio):
    ours, model = bound(3, LENGTHS, l1_ratio=l1_ratio)
    w = np.random.default_rng(2).normal(size=model.size)
    primal, _, _ = ours.gaps(to_flat(model, w), ours.start(True, np.float64))
    assert primal == pytest.approx(model.objective(w), rel=1e-13)


def sizes_at_zero(model):
    """The largest derivative at w = 0: with L1 of this strength all weights are 0."""
    return np.abs(model.objective_and_gradient(np.zeros(model.size))[1]).max()


def test_gaps_are_divergences(dual):
    """At any w, not only at the one that belongs to the dual point."""
    ours, model, blocks = dual
    w = np.random.default_rng(2).normal(size=model.size)
    primal, gaps, _ = ours.gaps(to_flat(model, w), blocks)
    expected = [
        joint.divergence(reference.from_scores(*model.scores(i, w)))
        for i, joint in enumerate(joints(ours, model, blocks))
    ]
    assert_allclose(gaps, expected, atol=1e-12)
    assert primal == pytest.approx(model.objective(w), rel=1e-13)


def test_gap_is_primal_less_dual(dual):
    ours, _, blocks = dual
    w, value, _ = ours.weights_of(blocks)
    primal, gaps, _ = ours.gaps(w, blocks)
    assert (gaps >= 0.0).all()
    assert ours.weights @ gaps == pytest.approx(primal - value, abs=1e-13)


def test_weak_duality(dual):
    ours, model, blocks = dual
    best = model.objective(model.optimum())
    w, value, _ = ours.weights_of(blocks)
    assert value <= best * (1.0 + 1e-14) and best <= ours.gaps(w, blocks)[0] * (1.0 + 1e-14)


# ---- labelings -------------------------------------------------------------------------------


@pytest.fixture(params=[2, 3, 4])
def model_and_joints(request):
    """What a model of random weights says, and the distributions by enumeration."""
    K = request.param
    ours, model = bound(K, LENGTHS)
    w = 2.0 * np.random.default_rng(K).normal(size=model.size)
    X = sp.csr_array(np.concatenate(model.X))
    ours = ChainModel(X, np.array(LENGTHS), Weights(*model.parts(w)), 1)
    return ours, [reference.from_scores(*model.scores(i, w)) for i in range(len(LENGTHS))]


def test_best_labels(model_and_joints):
    ours, expected = model_and_joints
    best = np.concatenate([joint.paths[joint.p.argmax()] for joint in expected])
    assert_array_equal(ours.best_labels(), best)


@pytest.mark.parametrize("n_best", [1, 2, 7, 20, 2000])
def test_several_best_labelings(model_and_joints, n_best):
    """In order, each once, and no more than there are."""
    ours, expected = model_and_joints
    for (paths, values), joint in zip(ours.several_best(n_best), expected, strict=True):
        order = np.argsort(-joint.p)[:n_best]
        assert_array_equal(paths, joint.paths[order])
        assert_allclose(values, joint.log_p[order], atol=1e-12)


def test_ties_are_each_listed_once():
    zero = Weights(np.zeros((3, 1)), np.zeros((3, 3)), *np.zeros((3, 3)))
    model = ChainModel(sp.csr_array((3, 1)), np.array([3]), zero, 1)
    ((paths, values),) = model.several_best(100)
    assert len(np.unique(paths, axis=0)) == len(paths) == 27
    assert_allclose(values, -3.0 * np.log(3.0), rtol=1e-14)


def test_marginals_and_log_probabilities(model_and_joints):
    ours, expected = model_and_joints
    assert_allclose(ours.marginals(), np.concatenate([j.nodes for j in expected]), atol=1e-14)
    pairs = np.concatenate([joint.pairs for joint in expected])
    assert_allclose(ours.pair_marginals(), pairs, atol=1e-14)
    labels = np.concatenate([joint.paths[-1] for joint in expected])
    assert_allclose(ours.log_probabilities(labels), [j.log_p[-1] for j in expected], atol=1e-12)
