"""Steps on all examples together: they stay feasible, gain what they say, and are needed."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from sklearn_bundle import StructuredSVM
from sklearn_bundle.structured.solvers.block_solvers import SimplicialSolver
from tests.structures import bound, drawn


@pytest.mark.parametrize("reg_lambda", [1e-3, 0.1])
@pytest.mark.parametrize("squared", [False, True])
def test_climbing_stays_feasible_and_gains_what_it_says(squared, reg_lambda):
    reference = drawn("listed", 1, reg_lambda=reg_lambda, squared=squared)
    solver = SimplicialSolver(bound(reference), tol=1e-9)
    states, every = solver.states(), np.arange(solver.problem.n_examples)
    best = reference.optimum().value
    for _ in range(4):
        next(states)
        dual = solver._dual
        before = dual.refresh()
        dual.climb(every)
        gained, w = dual.gained, dual.w.copy()
        after, q = dual.refresh(), dual.outputs.arrays.q
        assert q.min() >= 0.0
        if not squared:
            np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
        assert gained >= 0.0
        assert after - before == pytest.approx(gained, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(dual.w, w, rtol=1e-8, atol=1e-8 * np.abs(w).max())
        assert after <= best * (1.0 + 1e-12)


def test_the_gap_over_kept_outputs_is_that_at_one_w():
    reference = drawn("listed", 1, reg_lambda=0.1)
    solver = SimplicialSolver(bound(reference), tol=1e-9)
    next(solver.states())
    dual, kept = solver._dual, solver.kept.arrays
    expected = 0.0
    for i, weight in enumerate(solver.problem.weights):
        scores = []
        for k in range(kept.count[i]):
            entries = slice(kept.begin[i, k], kept.begin[i, k] + kept.length[i, k])
            product = kept.values[entries] @ dual.w[kept.indices[entries]]
            scores.append(kept.loss[i, k] - product)
        expected += weight * (max(scores) - kept.q[i, : len(scores)] @ scores)
    found = dual.cached_gap(np.arange(solver.problem.n_examples))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-13)


def pairs_of_points(seed):
    """Thirty matchings of two features, the second of them mostly noise."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        p, order = rng.normal(size=(6, 2)), rng.permutation(6)
        q = p[order] + rng.normal(size=(6, 2)) * [0.05, 3.0]
        yield (p[:, None] - q) ** 2, np.argsort(order)


@pytest.mark.parametrize("solver", ["auto", "rsd"])
def test_few_features_take_few_iterations(solver):
    """Of 6 to 175 that were counted; steps on one example after the other took 32 to over 1,000."""
    X, y = load_iris(return_X_y=True)
    settings = {"random_state": 0, "solver": solver, "max_iter": 300}
    model = StructuredSVM("multiclass", reg_lambda=1e-4, **settings).fit(scale(X), y)
    assert model.status_ == "converged" and model.n_iter_ <= 60
    for seed in (0, 2):
        model = StructuredSVM("matching", reg_lambda=0.01, **settings)
        model.fit(*zip(*pairs_of_points(seed), strict=True))
        assert model.status_ == "converged"
