"""Planes in sample space against the line search with planes of length d, and against clarabel."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.sample_planes import (
    SampleBundle,
    SamplePlanesSolver,
    SampleSpace,
)
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import BINARY_LOSSES, Softmax
from tests.reference import objective, optimum

LAMBDA = 1e-2


@pytest.fixture(scope="module")
def wide():
    """Sparse rows with more features than samples, noisy labels, uneven weights."""
    rng = np.random.default_rng(0)
    X = sp.random(80, 300, 0.05, format="csr", random_state=0)
    X.data[:] = rng.normal(size=X.nnz) + 0.5
    y = np.where(X @ rng.normal(size=300) + rng.normal(size=80) > 0.0, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, size=80)
    return X, y, weights / weights.sum()


@pytest.fixture
def problem(wide):
    X, y, weights = wide

    def make(loss="hinge", fit_intercept=True, n_threads=1):
        rows = rows_in_memory(X, n_threads)
        return LinearProblem(rows, y, weights, BINARY_LOSSES[loss](), fit_intercept)

    return make


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_optimum_and_certificate(wide, problem, loss, fit_intercept):
    X, y, weights = wide
    solver = SamplePlanesSolver(Task(problem(loss, fit_intercept), LAMBDA))
    result = run(solver, tol=1e-8, max_iter=2000)
    assert result.status is Status.CONVERGED
    best = optimum(loss, X.toarray(), y, weights, LAMBDA, fit_intercept)
    assert result.primal == pytest.approx(best, rel=2e-8)
    assert result.lower_bound <= best * (1 + 1e-9)  # clarabel's own tolerance is 1e-11
    own = objective(loss, X, y, weights, LAMBDA, result.point, result.intercept)
    assert result.primal == pytest.approx(own, rel=1e-13)
    g, offset = solver.plane[0][:80], solver.plane[1]
    a = X.T @ g
    assert result.lower_bound == pytest.approx(offset - a @ a / (2 * LAMBDA), rel=1e-13)
    if fit_intercept:
        assert abs(g.sum()) <= 1e-16


@pytest.mark.parametrize("reg_lambda", [1e-2, 1e-5])
@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_same_iterates_as_with_planes_of_features(problem, loss, reg_lambda):
    """Rounding grows along the iterations; after 12 it is far below 1e-8."""
    pairs = zip(
        BundleSolver(problem(loss), reg_lambda).states(),
        SamplePlanesSolver(Task(problem(loss), reg_lambda)).states(),
        strict=False,
    )
    for _, (expected, state) in zip(range(12), pairs, strict=False):
        assert state.primal == pytest.approx(expected.primal, rel=1e-8)
        assert state.lower_bound == pytest.approx(expected.lower_bound, rel=1e-8, abs=1e-12)
        scale = np.abs(expected.point).max()
        np.testing.assert_allclose(state.point, expected.point, rtol=0, atol=1e-8 * scale)
        assert state.intercept == pytest.approx(expected.intercept, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("max_size", [2, 10])
@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_aggregation_keeps_weak_duality(wide, problem, loss, max_size):
    X, y, weights = wide
    best = optimum(loss, X.toarray(), y, weights, LAMBDA, True)
    solver = SamplePlanesSolver(Task(problem(loss), LAMBDA, max_size=max_size))
    last = np.inf
    for _, state in zip(range(100), solver.states(), strict=False):
        assert state.lower_bound <= best * (1 + 1e-8) and state.primal >= best * (1 - 1e-8)
        assert state.gap <= last and solver.bundle.size <= max_size
        last = state.gap
    confirmed = solver.confirm()
    assert confirmed.lower_bound <= best <= confirmed.primal * (1 + 1e-9)


@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_rounding_ends_the_run(problem, loss):
    """Scores are sums over all planes, and still nothing is lost but the last digits.

    What rounding takes off the bound is 200 roundings of the sizes, 20 times the objective.
    """
    result = run(SamplePlanesSolver(Task(problem(loss), 1e-2)), tol=1e-300, max_iter=5000)
    assert result.status is (Status.STALLED if result.gap > 0.0 else Status.CONVERGED)
    assert 0.0 <= result.gap <= 1e-11 * result.primal


@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_small_reg_lambda_keeps_the_scores(wide, problem, loss):
    """w_t is a sum of planes that are 1e7 times as long: its scores are computed afresh then."""
    X, y, weights = wide
    solver = SamplePlanesSolver(Task(problem(loss), 1e-7))
    for _, state in zip(range(60), solver.states(), strict=False):
        fresh = objective(loss, X, y, weights, 1e-7, state.point, state.intercept)
        # The risk may be 1e-7, from scores of size 1 whose rounding is 1e-13
        assert state.primal == pytest.approx(fresh, rel=1e-8, abs=1e-12)


def test_two_products_an_iteration(problem):
    p = problem()
    run(SamplePlanesSolver(Task(p, LAMBDA)), tol=1e-300, max_iter=10)
    # a pair each for the first plane and nine others; three to confirm: w, its scores, the plane
    assert p.passes == 23


def test_w_is_made_when_asked_for(wide, problem):
    X, y, weights = wide
    p = problem()
    solver = SamplePlanesSolver(Task(p, LAMBDA))
    kept = [state for _, state in zip(range(5), solver.states(), strict=False)]
    solver.confirm()  # moves the start of all later points
    passes = p.passes
    for state in kept:
        own = objective("hinge", X, y, weights, LAMBDA, state.point, state.intercept)
        assert state.primal == pytest.approx(own, rel=1e-12)
    assert p.passes == passes + 5
    assert kept[0].point is kept[0].point


def test_goes_on_after_confirm(problem):
    """The best point becomes the start; what follows is as without, but for rounding."""
    plain, confirmed = (
        SamplePlanesSolver(Task(problem(), LAMBDA)),
        SamplePlanesSolver(Task(problem(), LAMBDA)),
    )
    pairs = zip(plain.states(), confirmed.states(), strict=False)
    for k, (expected, state) in zip(range(30), pairs, strict=False):
        assert state.primal == pytest.approx(expected.primal, rel=1e-9)
        # Less what rounding takes off, from a confirmation on.
        assert state.lower_bound == pytest.approx(expected.lower_bound, rel=1e-6)
        if k % 5 == 3:
            fresh = confirmed.confirm()
            assert fresh.primal == pytest.approx(state.primal, rel=1e-12)


@pytest.mark.parametrize("loss", BINARY_LOSSES)
def test_start_at_any_point(wide, problem, loss):
    """One that is no combination of rows: its part has to vanish."""
    X, y, weights = wide
    w = np.random.default_rng(1).normal(size=300)
    solver = SamplePlanesSolver(Task(problem(loss), LAMBDA), LinearStart(point=(w, 0.5)))
    result = run(solver, tol=1e-6, max_iter=2000)
    assert result.status is Status.CONVERGED
    best = optimum(loss, X.toarray(), y, weights, LAMBDA, True)
    assert best * (1 - 1e-9) <= result.primal <= best * (1 + 1e-6)


def test_norm_of_a_point_is_that_of_its_w(wide, problem):
    X, *_ = wide
    rng = np.random.default_rng(2)
    space = SampleSpace(problem())
    x = 0.3 * space.start_at(rng.normal(size=300))
    v = rng.normal(size=80)
    x[:80] += v
    x[80:-1] += X @ (X.T @ v)
    w = space.weights(x, space.norm)
    assert space.norm.value(x) == pytest.approx(0.5 * w @ w, rel=1e-12)


def test_planes_of_another_reg_lambda(problem):
    bundle = SampleBundle(80)
    first = run(
        SamplePlanesSolver(Task(problem("squared_hinge"), 2e-2), LinearStart(state=bundle)),
        tol=1e-5,
        max_iter=500,
    )
    cold = run(SamplePlanesSolver(Task(problem("squared_hinge"), LAMBDA)), tol=1e-5, max_iter=500)
    start = first.point, first.intercept
    solver = SamplePlanesSolver(
        Task(problem("squared_hinge"), LAMBDA), LinearStart(state=bundle, point=start)
    )
    warm = run(solver, tol=1e-5, max_iter=500)
    assert warm.n_iter < cold.n_iter
    assert abs(warm.primal - cold.primal) <= 1e-5 * cold.primal


def test_same_bits_with_two_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2000))  # two blocks of rows
    y = np.where(X[:, 0] + rng.normal(size=300) > 0.0, 1.0, -1.0)
    results = []
    for n_threads in (1, 2):
        rows, weights = rows_in_memory(X, n_threads), np.full(300, 1 / 300)
        with LinearProblem(rows, y, weights, BINARY_LOSSES["hinge"](), True) as p:
            results.append(run(SamplePlanesSolver(Task(p, LAMBDA)), tol=1e-5, max_iter=200))
    one, two = results
    assert one.primal == two.primal and one.lower_bound == two.lower_bound
    np.testing.assert_array_equal(one.point, two.point)


def test_planes_have_an_entry_a_sample(problem):
    solver = SamplePlanesSolver(Task(problem(), LAMBDA))
    run(solver, tol=1e-4, max_iter=100)
    assert solver.bundle._planes.shape[1] == 2 * 80 + 1


def test_refuses_several_scores_a_sample(wide):
    X, y, weights = wide
    labels = (y > 0.0).astype(np.int64)
    with pytest.raises(ValueError, match="one score per sample"):
        SamplePlanesSolver(
            Task(LinearProblem(rows_in_memory(X), labels, weights, Softmax(), True), LAMBDA)
        )
