"""Passes and steps: objective, gaps, features and bounds against the reference."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_bundle.chain._compiled.sdca import Marginals
from sklearn_bundle.chain.model import padded, taken_apart
from sklearn_bundle.chain.problem import GAPS
from tests import reference_chain as reference
from tests.chains import bound

LENGTHS = [1, 4, 2, 5, 3, 1]


def point(ours, K, scale=1.0, seed=0):
    """Random parameters, with zeros in the padding; no biases if the problem has none."""
    S, rng = padded(K), np.random.default_rng(seed)
    d = ours.chains.n_attributes
    rows = np.zeros((d + S + 3, S))
    used = [*range(d + K), *range(d + S, d + S + 3 * ours.chains.intercept)]
    rows[used, :K] = scale * rng.normal(size=(len(used), K))
    return rows.ravel()


def potentials(ours, K, scale=1.0, seed=1):
    """A random dual point, and the distributions that it stands for, in extended precision."""
    S, rng, blocks = padded(K), np.random.default_rng(seed), ours.start(True)
    nodes = blocks.nodes.reshape(-1, S)
    pairs = blocks.pairs.reshape(-1, S, S)
    nodes[:, :K] = scale * rng.normal(size=nodes[:, :K].shape)
    pairs[:, :K, :K] = scale * rng.normal(size=pairs[:, :K, :K].shape)
    joints, starts = [], ours.chains.tokens
    for i, (first, last) in enumerate(pairwise(starts)):
        own = pairs[blocks.pairs_at[i]] if last - first > 1 else np.zeros((S, S))
        given = nodes[first:last, :K], own[:K, :K]
        joints.append(reference.from_scores(*(part.astype(np.longdouble) for part in given)))
    return blocks, joints


def exactly(model, w, K):
    """The reference's problem in extended precision, and w as it has it."""
    X, y = model.X, model.y
    exact = reference.Model(
        X, y, K, model.reg_lambda, model.weights, model.intercept, np.longdouble
    )
    exact.weights = model.weights.astype(np.longdouble)
    return exact, exact.joined(*taken_apart(w, K)).astype(np.longdouble)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_a_pass_against_enumeration(K, intercept, n_threads):
    ours, model = bound(K, LENGTHS, intercept, n_threads=n_threads)
    w = point(ours, K)
    blocks, joints = potentials(ours, K)
    found = ours.check(w, blocks)
    own = model.joined(*taken_apart(w, K))
    assert found.primal == pytest.approx(model.objective(own), rel=1e-14)
    of_w = [reference.from_scores(*model.scores(i, own)) for i in range(len(LENGTHS))]
    gaps = [joint.divergence(other) for joint, other in zip(joints, of_w, strict=True)]
    assert_allclose(found.gaps, np.array(gaps, float), rtol=1e-11)
    r, dual = model.dual(joints)
    features = model.joined(*taken_apart(found.features, K))
    assert_allclose(features, model.reg_lambda * np.array(r, float), atol=1e-14)
    assert 0.0 < dual - found.bound < 1e-9  # the margin for rounding, far from the optimum
    value, gradient, lower = ours.evaluate(w)
    expected, slope = model.objective_and_gradient(own)
    assert value == pytest.approx(expected, rel=1e-14)
    assert_allclose(model.joined(*taken_apart(gradient, K)), slope, atol=1e-14)
    exact = expected - slope @ slope / (2 * model.reg_lambda)
    assert 0.0 < exact - lower < 1e-9


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("of_w", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("of_blocks", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_a_bound_is_never_above_the_exact_dual(scale, of_blocks, of_w, nonnegative):
    """The dual of the same point in extended precision; and the margin is small."""
    K = 3
    ours, model = bound(K, LENGTHS, scale=scale, reg_lambda=0.1, nonnegative=nonnegative)
    blocks, joints = potentials(ours, K, of_blocks)
    near = ours.check(point(ours, K, 0.0), blocks).features / ours.reg_lambda
    for w in (near, point(ours, K, of_w / scale)):
        found = ours.check(w, blocks)
        exact, own = exactly(model, w, K)
        _, dual = exact.dual(joints)
        assert found.bound <= dual
        assert abs(found.primal - exact.objective(own)) <= 1e-12 * found.primal
        away = found.primal - dual
        assert dual - found.bound <= 1e-9 * max(found.primal, abs(away))


@pytest.mark.parametrize("kind", ["exponentiated", "sdca"])
def test_steps_raise_the_dual_and_keep_w(kind):
    ours, _ = bound(3, LENGTHS * 3, reg_lambda=0.02)
    blocks = ours.start(kind == "exponentiated")
    memory = ours.squared_norms() + 2.0 if kind == "exponentiated" else np.array([1e-3])
    w = ours.check(np.zeros(ours.n_parameters), blocks).features / ours.reg_lambda
    gaps, before = np.zeros(ours.n_sequences), -np.inf
    for _ in range(6):
        found = ours.check(w, blocks)
        assert found.bound > before
        assert_allclose(w, found.features / ours.reg_lambda, atol=1e-12)
        before = found.bound
        ours.steps(blocks, np.arange(ours.n_sequences), 0.0, w, w, gaps, memory)
        assert (gaps >= 0.0).all()


def test_marginals_with_rounding_are_those_of_a_chain():
    """Numbers that are off by 1e-9 make another dual point, and not a false bound."""
    ours, model = bound(3, LENGTHS, reg_lambda=0.1)
    best = model.objective(model.optimum())
    blocks, rng = ours.start(False), np.random.default_rng(0)
    assert isinstance(blocks, Marginals)
    blocks.cells[:] *= 1.0 + 1e-9 * rng.normal(size=len(blocks.cells))
    w = ours.check(np.zeros(ours.n_parameters), blocks).features / ours.reg_lambda
    found = ours.check(w, blocks)
    assert found.bound < best <= found.primal
    assert found.primal - found.bound == pytest.approx(ours.weights @ found.gaps, rel=1e-9)
    assert GAPS == 1
