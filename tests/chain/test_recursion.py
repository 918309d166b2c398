"""The recursion, in both semirings, against enumeration of all labelings."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.chain._compiled import recursion
from sklearn_bundle.chain.model import ChainModel, Weights, flat_bars, padded
from tests import reference_chain as reference


def drawn(K, T, scale, barred, seed=0):
    """Scores of a sequence by enumeration, and the model that has them."""
    rng = np.random.default_rng([seed, K, T])
    coef, transitions = rng.normal(size=(K, 4)) * scale, rng.normal(size=(K, K)) * scale
    intercept, start, end = rng.normal(size=(3, K)) * scale
    if barred:
        transitions[rng.random((K, K)) < 0.4] = -np.inf
        start[rng.random(K) < 0.3] = end[rng.random(K) < 0.3] = -np.inf
    x = rng.normal(size=(T, 4))
    scores = x @ coef.T + intercept
    scores[0] += start
    scores[-1] += end
    paths = reference.labelings(T, K)
    totals = reference.totals(scores, transitions, paths)
    weights = Weights(coef, transitions, intercept, start, end)
    return paths, totals, ChainModel(sp.csr_array(x), np.array([T]), weights, 1)


@njit
def of_pairs(scores, matrix, bars, T, K, S):
    work, pairs = recursion.new_workspace(T, S, bars), np.empty((T - 1) * K * K)
    nodes, edges = recursion.aligned(T * S), recursion.aligned(S * S)
    _, table, stride = recursion.marginals(scores, matrix, T, K, S, work, nodes, edges)
    recursion.pair_marginals(T, K, S, work, table, stride, pairs, 0)
    return pairs, edges


def assert_pairs(model, pairs=None, edges=None, **near):
    """Marginals of successive labels, which the fit sums: each of them, and their sum."""
    (T, K), S = model._scores.shape, padded(model._scores.shape[1])
    scores, matrix = np.zeros((T, S)), np.zeros((S, S))
    scores[:, :K], matrix[:K, :K] = model._scores, model._pairs
    given = scores.ravel(), matrix.ravel(), flat_bars(model._bars), T, K, S
    found, summed = of_pairs(*given)
    edges = pairs.sum(axis=0) if edges is None else edges
    assert_allclose(summed.reshape(S, S)[:K, :K], edges, **near)
    assert_allclose(found.reshape(-1, K, K).sum(axis=0), edges, **near)
    if pairs is not None:
        assert_allclose(found.reshape(-1, K, K), pairs, **near)


SHAPES = [(2, 1), (2, 5), (3, 1), (3, 2), (3, 6), (5, 4), (8, 3), (9, 3)]


@pytest.mark.parametrize("barred", [False, True], ids=["free", "barred"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 400.0, 3000.0])
@pytest.mark.parametrize("K, T", SHAPES)
def test_everything_against_enumeration(K, T, scale, barred):
    """Scores of 400 and more need the wide range; 30 with forbidden pairs may."""
    for seed in range(3):
        paths, totals, model = drawn(K, T, scale, barred, seed)
        if totals.max() == -np.inf:
            for call in (model.best_labels, model.marginals):
                with pytest.raises(ValueError, match=r"Sequence 0 of X, of length .* no labeling"):
                    call()
            continue
        joint, rtol = reference.Joint(T, K, totals), 1e-14 * max(scale, 10.0)
        best = paths[totals.argmax()]
        assert_array_equal(model.best_labels(), best)
        assert_allclose(model.marginals(), joint.nodes, atol=1e-12)
        assert_pairs(model, joint.pairs, atol=1e-12)
        log_p = np.array([model.log_probabilities(path)[0] for path in paths[:50]])
        assert_allclose(log_p, joint.log_p[:50], rtol=rtol, atol=30 * rtol)


def test_a_long_way_that_forbidden_pairs_prescribe():
    """All but one labeling are worth more by far, position by position, until the last forbids it:
    its weight relative to the others' underflows on the way.
    """
    T, K = 60, 2
    x, coef = np.ones((T, 1)), np.array([[140.0], [0.0]])
    transitions = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    end = np.array([-np.inf, 0.0])
    weights = Weights(coef, transitions, np.zeros(K), np.zeros(K), end)
    model = ChainModel(sp.csr_array(x), np.array([T]), weights, 1)
    assert_array_equal(model.best_labels(), np.ones(T))
    assert_array_equal(model.marginals(), np.tile([0.0, 1.0], (T, 1)))
    assert model.log_probabilities(np.ones(T, np.int64))[0] == 0.0
    assert model.log_probabilities(np.zeros(T, np.int64))[0] == -np.inf


def test_long_sequences_against_sums_of_logarithms():
    rng = np.random.default_rng(0)
    T, K = 5000, 4
    x, coef = rng.normal(size=(T, 3)), rng.normal(size=(K, 3))
    transitions = 3.0 * rng.normal(size=(K, K))
    weights = Weights(coef, transitions, *np.zeros((3, K)))
    model = ChainModel(sp.csr_array(x), np.array([T]), weights, 1)
    log_z, nodes, edges = reference.forward_backward(x @ coef.T, transitions)
    assert_allclose(model.marginals(), nodes, atol=1e-10)
    assert_pairs(model, edges=edges, rtol=1e-10)
    labels = model.best_labels()
    score = reference.totals(x @ coef.T, transitions, labels[None])[0]
    assert_allclose(model.log_probabilities(labels), score - log_z, rtol=1e-11)
