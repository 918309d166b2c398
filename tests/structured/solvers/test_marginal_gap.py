"""Max-margin Markov networks by excessive gap: dual points, and bounds of every state."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from sklearn_bundle import StructuredSVM
from sklearn_bundle.chain.model import flat, taken_apart
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.models import Chain, Multiclass
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined, split
from sklearn_bundle.structured.models.examples import CompiledExamples
from sklearn_bundle.structured.problems.structured import StructuredProblem
from sklearn_bundle.structured.solvers.adapted import MarginalGapSolver
from tests import reference_chain
from tests.reference_structured import Structured, chains

K, D, LONGEST = 3, 2, 4
COST = [[0.0, 1.0, 0.5], [2.0, 0.0, 1.0], [1.0, 1.5, 0.0]]


def made(seed=0, n=9, K=K, reg_lambda=0.1, cost=None, intercept=True, n_threads=1):
    """The package's problem and the reference's; lengths 1 to 4, weights uneven."""
    rng = np.random.default_rng(seed)
    X, y = reference_chain.made(n, K, D, LONGEST, seed=seed)
    weights = rng.uniform(0.2, 2.0, n)
    reference = Structured(chains(X, y, K, cost, intercept), reg_lambda, weights)
    rows = TokenRows(sp.csr_array(np.vstack(X)), np.array([len(x) for x in X]), K)
    examples = Chain(cost=cost, fit_intercept=intercept).examples(rows, np.concatenate(y), "margin")
    return StructuredProblem(
        examples, weights / weights.sum(), reg_lambda, False, n_threads
    ), reference


def weights_of(w, reference):
    return joined(taken_apart(w, K))[: reference.d]  # all, or without the biases


@pytest.mark.parametrize(
    "settings", [{}, {"cost": COST}, {"intercept": False}, {"reg_lambda": 5.0}]
)
def test_bounds_of_every_state(settings):
    problem, reference = made(**settings)
    best = reference.optimum()
    solver = MarginalGapSolver(problem)
    last = np.inf
    for state in islice(solver.states(), 80):
        assert state.primal == pytest.approx(
            reference.objective(weights_of(state.point, reference)), rel=1e-11
        )
        assert state.lower_bound <= best.value * (1.0 + 1e-13)
        assert state.gap <= last
        last = state.gap
    state = solver.confirm()
    assert state.lower_bound <= best.value * (1.0 + 1e-13)


@pytest.mark.parametrize("charge", [0.0, 1.0, 30.0])
def test_expected_features_and_losses_by_enumeration(charge):
    """Of labelings in proportion to the exponentials of scores and losses: a dual point."""
    problem, reference = made(cost=COST)
    solver = MarginalGapSolver(problem)
    v = np.append(flat(split(np.random.default_rng(0).normal(size=reference.d), K)), charge)
    log_z, mixture = solver._at(v)
    w, expected, losses, logs, q = weights_of(v[:-1], reference), 0.0, 0.0, 0.0, []
    for weight, example in zip(reference.weights, reference.examples, strict=True):
        psi = example.psi("margin")
        powers = charge * example.losses - psi @ w
        q.append(np.exp(powers - logsumexp(powers)))
        expected, losses = expected - weight * q[-1] @ psi, losses + weight * q[-1] @ example.losses
        logs += weight * logsumexp(powers)
    assert log_z == pytest.approx(logs, rel=1e-12)
    assert_allclose(weights_of(mixture.features, reference), expected, atol=1e-12)
    assert mixture.loss == pytest.approx(losses, abs=1e-12)
    assert solver._value(mixture) == pytest.approx(reference.dual_objective(q), abs=1e-11)
    assert 0.0 < mixture.error < 1e-9


def test_the_optimum_is_reached():
    problem, reference = made(2, cost=COST)
    result = run(MarginalGapSolver(problem), tol=1e-7, max_iter=5000)
    best = reference.optimum()
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(best.value, rel=2e-7)


def test_threads_change_no_bit():
    results = []
    for n_threads in (1, 2):
        problem, _ = made(3, n=50, n_threads=n_threads)
        problem.examples.n_entries = 1 << 22
        with problem:
            results.append(run(MarginalGapSolver(problem), tol=1e-9, max_iter=20))
    assert_array_equal(results[0].point, results[1].point)
    assert results[0].lower_bound == results[1].lower_bound


def test_one_label():
    """Nothing to choose: the optimum is 0."""
    X = [np.ones((1, 2)), np.ones((3, 2))]
    rows = TokenRows(sp.csr_array(np.vstack(X)), np.array([1, 3]), 1)
    examples = Chain().examples(rows, np.zeros(4, np.int64), "margin")
    problem = StructuredProblem(examples, np.full(2, 0.5), 0.1)
    result = run(MarginalGapSolver(problem), tol=1e-9, max_iter=10)
    assert (result.primal, result.lower_bound) == (0.0, 0.0)


def test_numbers_of_every_size():
    """Features from tiny to huge: the bound stays below the objective, whatever is reached."""
    for scale in (1e-150, 1e-6, 1e6, 1e100):
        X, y = reference_chain.made(6, K, D, LONGEST, seed=0)
        rows = TokenRows(sp.csr_array(scale * np.vstack(X)), np.array([len(x) for x in X]), K)
        examples = Chain().examples(rows, np.concatenate(y), "margin")
        problem = StructuredProblem(examples, np.full(6, 1.0 / 6.0), 0.1)
        result = run(MarginalGapSolver(problem), tol=1e-3, max_iter=30)
        assert 0.0 <= result.lower_bound <= result.primal < np.inf


# ---- through the estimator --------------------------------------------------------------------


def fitted(**settings):
    X, y = reference_chain.made(15, K, D, LONGEST, seed=4)
    return StructuredSVM(Chain(), reg_lambda=0.2, random_state=0, **settings).fit(X, y)


def test_the_optimum_of_auto():
    ours = fitted(solver="excessive-gap", tol=1e-6)
    theirs = fitted(tol=1e-6)
    assert ours.solver_ == "excessive-gap"
    assert ours.lower_bound_ <= theirs.objective_
    assert theirs.lower_bound_ <= ours.objective_
    assert (np.diff(ours.history_["projections"]) > 0).all()


def test_warm_start_from_marginals():
    X, y = reference_chain.made(15, K, D, LONGEST, seed=4)
    svm = StructuredSVM(Chain(), reg_lambda=0.2, solver="excessive-gap", warm_start=True, tol=1e-4)
    first = svm.fit(X, y).n_iter_
    bound = svm.lower_bound_
    svm.set_params(tol=1e-5).fit(X, y)
    assert svm.status_ == "converged"
    assert svm.lower_bound_ >= bound - 1e-12
    again = StructuredSVM(Chain(), reg_lambda=0.2, solver="excessive-gap", tol=1e-5).fit(X, y)
    assert first + svm.n_iter_ < 1.5 * again.n_iter_


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"loss": "squared_hinge"}, "only loss='hinge' with scaling='margin'.*'squared_hinge'"),
        ({"scaling": "slack"}, "only loss='hinge' with scaling='margin'.*scaling='slack'"),
    ],
)
def test_what_it_does_not_take(settings, message):
    svm = StructuredSVM(solver="excessive-gap", **settings)
    with pytest.raises(ValueError, match=message):
        svm.fit([np.ones((1, 2))], [[0]])


class OwnInference(Chain):
    def examples(self, X, y, scaling):
        return CompiledExamples(None, 1, X.lengths)


@pytest.mark.parametrize("model", [Multiclass(), OwnInference()], ids=repr)
def test_what_has_no_marginals_is_named(model):
    message = f"takes only the model 'chain'.*got {type(model).__name__}; use"
    with pytest.raises(ValueError, match=message):
        StructuredSVM(model, solver="excessive-gap").fit(np.eye(2), [0, 1])
