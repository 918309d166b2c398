"""SDCACRF: the certificate's allowance for rounding, against extended precision.

The reference computes in the precision of w: with ``longdouble`` its rounding is 2,000 times
smaller than that of the package, whose bounds must then hold without any tolerance.
"""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.dual_ascent import DualSolver
from sklearn_bundle.chain.model import Weights, flat
from sklearn_bundle.chain.problem import ChainProblem
from tests import reference_chain as reference
from tests.contract.chains import parts
from tests.contract.fits import quiet

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="long double is no longer than double here"
)


def bound(X, y, reg_lambda, K=3):
    """The same problem from the package and from the reference."""
    weights = np.full(len(X), 1.0 / len(X))
    lengths = np.array([len(x) for x in X])
    rest = np.concatenate(y), K, weights, reg_lambda, True, 1
    ours = ChainProblem(sp.csr_array(np.concatenate(X)), lengths, *rest)
    return ours, reference.Model(X, y, K, reg_lambda, dtype=np.longdouble)


def extended(model, w):
    return model.joined(*model.parts(w)).astype(np.longdouble)


def exact_bound(model, w):
    """``P - ||grad P||^2 / (2 reg_lambda)`` at w."""
    value, gradient = model.objective_and_gradient(extended(model, w))
    return value - gradient @ gradient / (2 * np.longdouble(model.reg_lambda))


def sequences(lengths, scale, seed=0, K=3, d=3):
    rng = np.random.default_rng(seed)
    X = [scale * rng.normal(size=(T, d)) for T in lengths]
    return X, [rng.integers(0, K, T) for T in lengths]


# ---- the values of the problem ----------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("size", [0.3, 30.0, 3000.0])
@pytest.mark.parametrize("lengths, scale", [([1, 2, 5, 9] * 5, 1.0), ([700, 800], 1e3)])
def test_the_bound_of_a_gradient_is_below_the_exact_one(lengths, scale, size):
    """For scaled probabilities, shifted scores and logarithms; and it is not far below."""
    ours, model = bound(*sequences(lengths, scale), 1.0)
    rng = np.random.default_rng(1)
    for _ in range(8):
        w = size / scale * rng.normal(size=model.size)
        value, _, found = ours.evaluate(flat(Weights(*model.parts(w))))
        exact = exact_bound(model, w)
        assert found <= exact
        assert exact - found <= 1e-9 * (value - exact)


def exact_duals(ours, model, blocks):
    """The value of the dual at log-potentials."""
    K, S, at = model.K, ours.chains.width, 0
    w, entropy = np.zeros(model.size, np.longdouble), np.longdouble(0)
    for i, T in enumerate(len(x) for x in model.X):
        theta = blocks.nodes.reshape(-1, S)[at : at + T, :K].astype(np.longdouble)
        pairs = np.zeros((K, K), np.longdouble)
        if T > 1:
            pairs += blocks.pairs.reshape(-1, S, S)[blocks.pairs_at[i], :K, :K]
        log_z, nodes, edges = reference.forward_backward(theta, pairs)
        difference = model.true_features(i) - model.features(i, nodes, edges)
        w += np.longdouble(model.weights[i]) / np.longdouble(model.reg_lambda) * difference
        entropy += model.weights[i] * (log_z - (theta * nodes).sum() - (pairs * edges).sum())
        at += T
    return entropy - np.longdouble(model.reg_lambda) / 2 * (w @ w)


@pytest.mark.parametrize("lengths", [[1, 2, 5, 9] * 5, [700, 800]])
@pytest.mark.parametrize("epochs", [0, 2, 30])
@pytest.mark.parametrize("tol", [1e-9, 1e-3])
def test_the_value_of_the_dual_less_its_margin_is_below_the_exact_one(lengths, epochs, tol):
    """From w and the entropies, and as P less the gaps."""
    ours, model = bound(*sequences(lengths, 1.0), 0.1)
    options = {"sampling": "gap", "nonuniformity": 0.8, "precision": 1e-3, "seed": 0}
    solver = DualSolver(ours, potentials=True, tol=tol, **options)
    list(islice(solver.states(), epochs))
    exact = exact_duals(ours, model, solver.kept)
    w, value, margin = ours.weights_of(solver.kept)
    assert exact - 1e-9 * abs(exact) <= value - margin <= exact
    primal, gaps, margin = ours.gaps(w, solver.kept)
    assert exact - 1e-10 * primal <= primal - ours.weights @ gaps - margin <= exact


@pytest.mark.parametrize("tol", [1e-9, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_states_are_below_the_exact_dual(seed, tol):
    """As the steps have raised it, and as full passes compute it: not by luck in all of them."""
    ours, model = bound(*sequences([1, 2, 5, 9] * 3, 1.0, seed), 0.1)
    options = {"sampling": "gap", "nonuniformity": 0.8, "precision": 1e-3, "seed": seed}
    solver = DualSolver(ours, potentials=True, tol=tol, **options)
    for state in islice(solver.states(), 12):
        assert state.lower_bound <= exact_duals(ours, model, solver.kept)
        if tol < 1e-6:  # otherwise w is in single precision until the next full pass
            assert solver.confirm().lower_bound <= exact_duals(ours, model, solver.kept)


@pytest.mark.wide
def test_rounding_of_w_takes_off_what_it_costs_the_dual():
    """One feature of 2^16 tokens: sums that err in one direction and cancel, over 2^-66.

    All labels are equally likely in the blocks, so that the exact w is 0 and the dual is the
    entropy. The first half of the weights lie .49 units of the sum's last place beyond its grid.
    """
    n = 2**16
    rng, labels = np.random.default_rng(0), np.arange(n) // (n // 2)
    weights = np.where(labels, rng.uniform(0.5, 1.5, n), 1.0 / n + 0.98 * 2.0**-55)
    first, last = (weights[labels == k].astype(np.longdouble).sum() for k in range(2))
    weights[labels == 1] *= float(first / last)
    weights[-1] += float(first - weights[labels == 1].astype(np.longdouble).sum())
    lengths = np.ones(n, int)
    rest = labels, 2, weights, 2.0**-66, False, 1
    ours = ChainProblem(sp.csr_array(np.ones((n, 1))), lengths, *rest)
    blocks = ours.start(True, np.float64, 1.0)
    w, _, _ = ours.weights_of(blocks)
    assert np.abs(w).max() > 1e7
    primal, gaps, margin = ours.gaps(w, blocks)
    exact = np.log(np.longdouble(2)) * weights.astype(np.longdouble).sum()
    assert primal - ours.weights @ gaps - margin <= exact


@pytest.mark.parametrize("T", [1, 2, 6])
@pytest.mark.parametrize("size", [5.0, 20.0, 200.0, 400.0])
def test_a_loss_below_the_rounding_of_log_z(T, size):
    """By enumeration of the other labelings; the scores of 400 take logarithms."""
    X, y = sequences([T], 1.0, seed=T)
    ours, model = bound(X, y, 1e-300)
    truth = np.eye(3)[y[0]] + 0.1 * X[0]
    ours, model = bound([truth], y, 1e-300)
    w = np.zeros(model.size)
    w[:9] = size * np.eye(3).ravel()
    scores, transitions = model.scores(0, w.astype(np.longdouble))
    paths = reference.labelings(T, 3)
    totals = reference.totals(scores, transitions, paths)
    own = (paths == y[0]).all(axis=1)
    expected = np.log1p(np.exp(totals[~own] - totals[own]).sum())
    assert 0.0 < expected < 1.0
    value, _, _ = ours.evaluate(flat(Weights(*model.parts(w))))
    assert value == pytest.approx(float(expected), rel=1e-11, abs=0.0)  # scores err by 400 u


# ---- long sequences ---------------------------------------------------------------------------


def half_spaces(n, scale):
    """One sequence, whose labels are the signs of a feature."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    return [scale * X], [(X[:, 0] > 0.0).astype(int)]


@pytest.mark.wide
@pytest.mark.parametrize("scale, reg_lambda", [(10.0, 1e-2), (100.0, 1.0)])
def test_a_long_sequence_has_a_true_and_tight_certificate(scale, reg_lambda):
    X, y = half_spaces(10_000, scale)
    model = SDCACRF(solver="lbfgs", reg_lambda=reg_lambda, tol=1e-6, max_iter=300).fit(X, y)
    assert model.status_ == "converged"
    exact = reference.Model(X, y, 2, reg_lambda, dtype=np.longdouble)
    w = exact.joined(*parts(model)).astype(np.longdouble)
    value, gradient = exact.objective_and_gradient(w)
    assert model.objective_ == pytest.approx(float(value), rel=1e-11)  # scores of hundreds
    assert model.lower_bound_ <= value
    assert model.objective_ >= value - gradient @ gradient / (2 * np.longdouble(reg_lambda))


@pytest.mark.wide
def test_a_sequence_of_a_hundred_thousand_converges():
    model = SDCACRF(solver="lbfgs", tol=1e-3).fit(*half_spaces(100_000, 1.0))
    assert model.status_ == "converged" and model.dual_gap_ <= 1e-3 * model.objective_


# ---- problems of any size ---------------------------------------------------------------------


def any_problem(seed):
    """Few labelings, and features, weights and reg_lambda of any size."""
    rng = np.random.default_rng(seed)
    K, d, n = rng.integers(2, 4), rng.integers(1, 4), rng.integers(1, 5)
    scale = 10.0 ** rng.uniform(-6.0, 8.0)
    X = [scale * rng.normal(size=(rng.integers(1, 5), d)) for _ in range(n)]
    coef = rng.normal(size=(K, d))
    y = [(x @ coef.T).argmax(axis=1) if seed % 2 else rng.integers(0, K, len(x)) for x in X]
    y[0][:] = 0
    X, y = [*X, X[0][:1]], [*y, np.array([K - 1])]
    X = [x.astype(np.float32) for x in X] if seed % 3 == 0 else X
    weights = 10.0 ** rng.uniform(-8.0, 8.0, len(X)) if seed % 4 == 0 else np.ones(len(X))
    return X, [np.unique(np.concatenate(y)).searchsorted(labels) for labels in y], weights


@pytest.mark.parametrize(
    "seed", [1, 4, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (0, 2, 3, 5, 6, 7, 8))]
)
def test_bounds_and_objectives_of_any_size(seed):
    """No bound of a history is above any objective that was reached, in extended precision."""
    X, y, weights = any_problem(seed)
    rng = np.random.default_rng(seed)
    reg_lambda = 10.0 ** rng.uniform(-8.0, 4.0)
    exact = reference.Model(X, y, 1 + max(map(max, y)), reg_lambda, weights, dtype=np.longdouble)
    bounds, reached = [], []
    for solver in ("auto", "exponentiated", "sdca", "lbfgs"):
        for max_iter in (3, 100):
            model = SDCACRF(solver=solver, reg_lambda=reg_lambda, tol=1e-9, max_iter=max_iter)
            quiet(model.set_params(random_state=0), X, [list(part) for part in y], weights)
            value = exact.objective(exact.joined(*parts(model)).astype(np.longdouble))
            assert model.objective_ == pytest.approx(float(value), rel=1e-9, abs=1e-18)
            reached.append(value)
            bounds.append(model.history_["lower_bound"].max())
    assert max(bounds) <= min(reached) + 1e-18  # log-sum-exp in long double, see the reference
