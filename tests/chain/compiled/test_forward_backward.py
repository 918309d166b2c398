"""Forward and backward recursions: scaled, in logarithms, and by enumeration of all labelings."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from sklearn_bundle.chain._compiled.forward_backward import (
    _logarithmic,
    marginals,
    new_work,
    pair_marginals,
)
from sklearn_bundle.chain.model import pack
from tests import reference_chain as reference


@numba.njit
def _call(logarithmic, chains, scores, transitions, T, nodes, edges, pairs):
    """Any T and K; inner functions have no wrapper that Python could call."""
    work = new_work(T, chains.width)
    if logarithmic:
        K, S = chains.n_labels, chains.width
        log_z = _logarithmic(scores, transitions, T, K, S, work, nodes, edges)
    else:
        log_z = marginals(chains, scores, transitions, T, work, nodes, edges)
    pair_marginals(chains, scores, transitions, T, work, pairs)
    return log_z


def oracle(scores, transitions, logarithmic=False):
    """log Z, marginals, those of pairs, and the sums of these, without padding."""
    T, K = scores.shape
    chains = pack(sp.csr_array((T, 1)), np.array([T]), K, True)
    S = chains.width
    rows, matrix = np.zeros((T, S)), np.zeros((S, S))
    rows[:, :K], matrix[:K, :K] = scores, transitions
    nodes, edges, pairs = np.full((T, S), np.nan), np.full((S, S), np.nan), np.zeros((T - 1, S, S))
    outputs = nodes.ravel(), edges.ravel(), pairs.ravel()
    log_z = _call(logarithmic, chains, rows.ravel(), matrix.ravel(), T, *outputs)
    assert not nodes[:, K:].any() and not edges[K:].any() and not edges[:, K:].any()
    assert not pairs[:, K:].any() and not pairs[:, :, K:].any()
    return log_z, nodes[:, :K], pairs[:, :K, :K], edges[:K, :K]


@pytest.mark.matrix
@pytest.mark.parametrize("T", [1, 2, 3, 5])
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_oracle_against_enumeration(K, T, logarithmic):
    rng = np.random.default_rng(K * T)
    scores, transitions = 2.0 * rng.normal(size=(T, K)), 2.0 * rng.normal(size=(K, K))
    log_z, nodes, pairs, edges = oracle(scores, transitions, logarithmic)
    expected = reference.from_scores(scores, transitions)
    assert log_z == pytest.approx(expected.log_z, rel=1e-13)
    assert_allclose(nodes, expected.nodes, atol=1e-14)
    assert_allclose(pairs, expected.pairs, atol=1e-14)
    assert_allclose(edges, expected.pairs.sum(axis=0), atol=1e-14)


@pytest.mark.parametrize("K", [2, 7, 8, 9, 16, 17, 50])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_any_number_of_labels(K, logarithmic):
    """Of the padding nothing may be seen; T is beyond enumeration."""
    rng = np.random.default_rng(K)
    scores, transitions = 2.0 * rng.normal(size=(12, K)), 2.0 * rng.normal(size=(K, K))
    log_z, nodes, pairs, edges = oracle(scores, transitions, logarithmic)
    expected = reference.forward_backward(scores, transitions)
    assert log_z == pytest.approx(expected[0], rel=1e-13)
    assert_allclose(nodes, expected[1], atol=1e-13)
    assert_allclose(edges, expected[2], atol=1e-13)
    assert_allclose(pairs.sum(axis=2), nodes[:-1], atol=1e-13)
    assert_allclose(pairs.sum(axis=1), nodes[1:], atol=1e-13)


def extreme(kind, size, T, K):
    """Scores and transitions of which some are of this size."""
    rng = np.random.default_rng(int(size))
    scores, transitions = rng.uniform(-1, 1, (T, K)), rng.uniform(-1, 1, (K, K))
    if kind in ("scores", "both"):
        scores *= size
    if kind in ("transitions", "both"):
        transitions *= size
    if kind == "shifted":  # large, but their differences are not
        scores += size * rng.choice([-1.0, 1.0], (T, 1))
    if kind == "some":
        scores[rng.random((T, K)) < 0.2] *= size
        transitions[rng.random((K, K)) < 0.2] *= size
    if kind == "opposed":  # each position and each transition rules out what the other wants
        scores[:], transitions[:] = -size, size
        scores[np.arange(T), np.arange(T) % K] = size
        transitions[np.arange(K), (np.arange(K) + 1) % K] = -size
    if kind == "sticky":  # all 0 and all 1 are equally probable, but not at half the way
        scores[:], transitions[:] = 0.0, -size
        scores[: T // 2, 0] = scores[T - T // 2 :, 1] = 1.9 * size / (T // 2)
        transitions[[0, 1], [0, 1]] = size
    return scores, transitions


KINDS = ["scores", "transitions", "both", "shifted", "some", "opposed", "sticky"]
SIZES = [1.0, 100.0, 149.9, 150.1, 290.0, 310.0, 450.0, 700.0, 2000.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_scaled_and_logarithmic_agree(kind, size):
    """To 1e-12, and to the rounding of sums of T scores of this size where that is more."""
    scores, transitions = extreme(kind, size, 40, 5)
    (log_z, *values), (expected, *others) = (
        oracle(scores, transitions, logarithmic) for logarithmic in (False, True)
    )
    rounding = max(1e-12, 40 * size * 2e-16)
    assert log_z == pytest.approx(expected, rel=1e-12)
    for value, other in zip(values, others, strict=True):
        assert_allclose(value, other, atol=rounding)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_large_scores_against_enumeration(kind, size):
    scores, transitions = extreme(kind, size, 5, 4)
    log_z, nodes, pairs, edges = oracle(scores, transitions)
    expected = reference.from_scores(scores, transitions)
    rounding = max(1e-14, 5 * size * 1e-15)
    assert log_z == pytest.approx(expected.log_z, rel=1e-13, abs=1e-13)
    assert_allclose(nodes, expected.nodes, atol=rounding)
    assert_allclose(pairs, expected.pairs, atol=rounding)
    assert_allclose(edges, expected.pairs.sum(axis=0), atol=4 * rounding)


@pytest.mark.parametrize("shift", [0.0, 800.0, -800.0, 1e5, -1e5])
@pytest.mark.parametrize("K", [2, 8])
def test_large_scores_of_a_single_position(K, shift):
    """Also where all are far below those of the padding."""
    scores = np.random.default_rng(0).normal(size=(1, K)) + shift
    log_z, nodes, pairs, edges = oracle(scores, np.zeros((K, K)))
    expected = reference.from_scores(scores, np.zeros((K, K)))
    assert log_z == pytest.approx(expected.log_z, rel=1e-14)
    assert_allclose(nodes, expected.nodes, atol=1e-11)
    assert pairs.shape == (0, K, K) and not edges.any()


def test_a_long_chain():
    rng = np.random.default_rng(0)
    scores, transitions = 3.0 * rng.normal(size=(5000, 3)), rng.normal(size=(3, 3))
    log_z, nodes, _, edges = oracle(scores, transitions)
    expected = reference.forward_backward(scores, transitions)
    assert log_z == pytest.approx(expected[0], rel=1e-12)
    assert_allclose(nodes, expected[1], atol=1e-10)  # log-sum-exp rounds at log Z of 15,000
    assert_allclose(edges, expected[2], rtol=1e-9)
