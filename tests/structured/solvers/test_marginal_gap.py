"""Max-margin Markov networks by excessive gap: the condition, and bounds of every state."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle import StructuredSVM
from sklearn_bundle.chain.model import taken_apart
from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.solvers.excessive_gap import Series
from sklearn_bundle.models import Chain, Multiclass
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined
from sklearn_bundle.structured.models.examples import CompiledExamples
from sklearn_bundle.structured.problems.marginal_chain import MarginalDual
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


def series_of(dual):
    """A series from the true labels."""
    return Series(dual, None, dual.origin(), Best(least=0.0))


def weights_of(w, reference):
    return joined(taken_apart(w, K))[: reference.d]  # all, or without the biases


def labelings(u, tokens):
    """Marginals -> for each sequence the probabilities of labelings, in the reference's order."""
    at = 0
    for T in np.diff(tokens):
        edges, rows = max(T - 1, 1), K if T > 1 else 1
        size = edges * rows * 8
        point = u[at : at + size].reshape(edges, rows, 8)[:, :, :K]
        at += size
        paths = reference_chain.labelings(T, K)
        if T == 1:
            yield point[0, 0]
            continue
        p = point[0, paths[:, 0], paths[:, 1]].copy()
        for t in range(1, edges):
            rest = point[t].sum(axis=1)[paths[:, t]]
            p *= np.divide(
                point[t, paths[:, t], paths[:, t + 1]], rest, where=rest > 0.0, out=0 * p
            )
        yield p


def smoothed(reference, dual, w, center, mu, tokens):
    """J_mu(w) by the projection, its value by enumeration: at least that, as a maximum is."""
    u = dual.project(center, w, 1.0 / mu, 0)
    q = list(labelings(u, tokens))
    v = weights_of(w, reference)
    value = 0.5 * reference.reg_lambda * v @ v
    for s, q_i, psi, losses in zip(
        reference.weights, q, reference.psi, reference.losses, strict=True
    ):
        value += s * q_i @ (losses - psi @ v)
    return value - 0.5 * mu * prox(reference, u, center, tokens)


def prox(reference, u, center, tokens):
    """``sum_i s_i ||u_i - c_i||^2``."""
    total, at = 0.0, 0
    for s, T in zip(reference.weights, np.diff(tokens), strict=True):
        size = max(T - 1, 1) * (K if T > 1 else 1) * 8
        total += s * np.sum((u[at : at + size] - center[at : at + size]) ** 2)
        at += size
    return total


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


def test_the_bound_is_that_of_a_distribution_of_labelings():
    """D by enumeration, at the distribution that has the marginals."""
    problem, reference = made()
    series = series_of(MarginalDual(problem))
    tokens = problem.examples.structure.chains.tokens
    for _ in range(60):
        series.step()
        for point in (series.u, series.highest):
            q = list(labelings(point.u, tokens))
            assert_allclose([p.sum() for p in q], 1.0, rtol=0.0, atol=1e-13)
            assert min(p.min() for p in q) >= 0.0
            assert point.value == pytest.approx(reference.dual_objective(q), abs=1e-12)


def test_rounding_of_the_bound_grows_with_the_features():
    """Sums of features are off by a few roundings of the features' sizes."""
    taken = []
    for size in (1.0, 2.0**20):
        problem, _ = made()
        chains = problem.examples.structure.chains
        chains.values[:] *= size
        dual = MarginalDual(problem)
        combined = np.ones(problem.dimension + 1)
        taken.append(dual.rounding(combined).total)
        largest = np.abs(chains.values).max() * np.sqrt(problem.dimension) / problem.reg_lambda
        assert 2.0**-53 * largest < taken[-1] < 1e4 * 2.0**-53 * largest
    assert taken[1] > 2.0**16 * taken[0]


def test_the_condition_at_every_step():
    """J_mu(w) <= D(u), with projections that are exact."""
    problem, reference = made()
    dual = MarginalDual(problem, 1e-12)
    series = series_of(dual)
    tokens = problem.examples.structure.chains.tokens
    starts = set()
    for _ in range(120):
        series.step()
        starts.add(id(series.center))
        of_w = smoothed(reference, dual, series.point, series.center, series.mu, tokens)
        assert of_w <= series.u.value + 1e-11
    assert len(starts) > 1


@pytest.mark.parametrize("precision", [1e-1, 1e-3])
def test_bounds_hold_with_projections_that_are_not_exact(precision):
    problem, reference = made(1)
    best = reference.optimum()
    series = series_of(MarginalDual(problem, precision))
    for _ in range(60):
        series.step()
        feasible = series.evaluated(series.dual.feasible(series.highest.u))
        assert feasible.value <= best.value * (1.0 + 1e-13)
        assert best.value <= series.best.primal * (1.0 + 2e-13)


def test_the_optimum_is_reached():
    problem, reference = made(2, cost=COST)
    result = run(MarginalGapSolver(problem), tol=1e-7, max_iter=5000)
    best = reference.optimum()
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(best.value, rel=2e-7)


def test_threads_change_no_bit():
    results = []
    for n_threads in (1, 2):
        problem, _ = made(3, n_threads=n_threads)
        problem.examples.n_entries = 1 << 22
        dual = MarginalDual(problem)
        dual._bounds = [0, 3, 9]
        series = series_of(dual)
        for _ in range(20):
            series.step()
        results.append(series)
    assert_array_equal(results[0].point, results[1].point)
    assert results[0].highest.value == results[1].highest.value


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
    assert (np.diff(ours.history_["projection_passes"]) > 0).all()


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
