"""Conjugate gradients for kernel machines: weak duality at every step, and the low-rank factor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle.core.contract import run
from sklearn_bundle.kernel.problems.l2tube import L2Tube, Tube, extended, of_rank_0
from sklearn_bundle.kernel.solvers.kernel_gradients import KernelGradients
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.reference_tube import TubeMachine

N = 650  # above it the matrix is not kept
WORKING = 5e-5  # relative error of values in float32: up to 1.6e-5 seen among BLAS's kernels


def problem(kind="regression", C=30.0, cache_bytes=1e6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5)).astype(np.float32)
    y = np.sin(2.0 * X[:, 0]).astype(float) + 0.5 * rng.normal(size=N)
    costs = C * rng.integers(1, 4, N)
    tube = Tube(y, 0.3, 0.1) if kind == "regression" else Tube(np.ones(N), 0.0, np.inf)
    data = KernelData(X, Kernel("rbf", 0.2), np.float32)
    return X, L2Tube(data, tube, costs, intercept=kind == "regression", cache_bytes=cache_bytes)


@pytest.mark.parametrize("kind", ["regression", "one class"])
def test_weak_duality_at_every_step(kind):
    X, made = problem(kind)
    Z = rbf_kernel(X.astype(float), gamma=0.2) + made.constant
    solver = KernelGradients(made)
    zero = np.zeros(N)
    reference = TubeMachine(Z, Z, made.tube.y, made.C, made.tube.above, made.tube.below, zero)
    optimum = reference.optimum()
    gaps = []
    for k, state in enumerate(solver.states()):
        slack = WORKING * optimum.value  # until a step is confirmed
        assert state.lower_bound <= optimum.value + slack
        assert state.primal >= optimum.least - slack
        assert_allclose(float(reference.objective(state.point)), state.primal, rtol=WORKING)
        gaps.append(state.gap)
        if k % 5 == 4:
            state = solver.confirm()
            assert state.lower_bound <= optimum.value and state.primal >= optimum.least
            exact = float(reference.objective(state.point))
            assert_allclose(exact, state.primal, rtol=1e-11)
        if state.relative_gap <= 1e-6 or k > 200:
            break
    assert state.relative_gap <= 1e-6
    assert (np.diff(gaps) <= WORKING * optimum.value).all()


@pytest.mark.wide
def test_a_rank_that_is_too_low_grows():
    """Little memory gives few pivots; with more they are doubled while steps go on."""
    few, many = (KernelGradients(problem(C=1e4, cache_bytes=size)[1]) for size in (4e5, 2e7))
    for solver in (few, many):
        run(solver, tol=1e-12, max_iter=60)
    ranks = [len(solver._preconditioner.low.pivots) for solver in (few, many)]
    assert ranks[0] <= 4e5 / 2 / N / 4 and ranks[1] > 8.0 * np.sqrt(N)


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_kept_values_have_the_same_sums(share):
    """From the fifth product on, where they take no more than half of the memory."""
    coef = np.random.default_rng(0).normal(size=N)
    coef[int(share * N) :] = 0.0
    small, large = (problem(cache_bytes=8.0 * N**2 * size)[1] for size in (0.99, 1.0))
    for made in (small, large):
        for _ in range(4):
            first = made.scores(np.ones(N))
        assert made.data.kept is None
        made.scores(np.ones(N))
    assert large.data.kept is not None and small.data.kept is None
    assert_allclose(large.scores(np.ones(N)), first, rtol=1e-5)
    assert_allclose(large.scores(coef), small.scores(coef), atol=1e-6 * np.abs(coef).sum())


def test_a_solver_goes_on_where_it_was():
    """Detached and attached to a problem of the same data, in runs of one iteration."""
    made = problem()[1]
    one, long = KernelGradients(made), KernelGradients(made)
    objectives = []
    for _ in range(6):
        objectives.append(run(one, tol=1e-12, max_iter=one.n_steps + 1).primal)
        one.detach()
        one.attach(problem()[1])
    history = run(long, tol=1e-12, max_iter=6).history["objective"]
    assert_allclose(objectives, history, rtol=1e-4)


@pytest.mark.parametrize("double", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_the_next_C_takes_over_what_the_last_one_knows(double):
    """Its factors and its precision; the optimum is that of a solver that begins alone."""
    small, large, same, again = (problem(C=C, cache_bytes=4e6)[1] for C in (1.0, 30.0, 30.0, 30.0))
    if double:
        small.promote()
    last, alone = KernelGradients(small), KernelGradients(same)
    run(last, tol=1e-3, max_iter=100)
    solver, known = KernelGradients(large, last=last), last._preconditioner.low.pivots
    reached, expected = (run(each, tol=1e-3, max_iter=100) for each in (solver, alone))
    assert (solver._preconditioner.low.pivots[: len(known)] == known).all() and len(known) > 0
    assert large.dtype == small.dtype
    assert reached.relative_gap <= 1e-3 and expected.relative_gap <= 1e-3
    assert reached.lower_bound <= expected.primal and expected.lower_bound <= reached.primal
    solver = KernelGradients(again, last=solver)
    assert run(solver, tol=1e-3, max_iter=1).n_iter == 1 and solver._best.gap <= 1.1 * reached.gap


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_are_those_of_the_pivots(dtype):
    made = problem()[1]
    if dtype == np.float64:
        made.promote()
    known = extended(made, of_rank_0(made), made.C, 40, np.random.default_rng(0))
    low = extended(made, known, made.C, 200, np.random.default_rng(1))
    K = made.block(np.arange(N)).astype(float)
    precision = 50 * np.finfo(dtype).eps * K.max()
    assert len(known.pivots) == 40 and (low.pivots[:40] == known.pivots).all()
    assert_allclose(low.R.T @ low.L, K[low.pivots], atol=precision)
    left = K - low.L.T.astype(float) @ low.L
    assert_allclose(np.maximum(np.diag(left), 0.0), low.left, atol=10 * precision)
    assert np.linalg.eigvalsh(left)[0] >= -20 * precision
    assert low.left.sum() < known.left.sum()


def test_factors_end_where_the_ridge_is_all_that_is_left():
    """Of a kernel of rank 5 there are 5 pivots, whatever is allowed."""
    X = np.random.default_rng(0).normal(size=(N, 5))
    data = KernelData(X, Kernel("linear"), np.float64)
    tube = Tube(np.zeros(N), 0.0, 0.0)
    made = L2Tube(data, tube, np.full(N, 1e3), intercept=False, cache_bytes=1e9)
    low = extended(made, of_rank_0(made), made.C, 300, np.random.default_rng(0))
    assert len(low.pivots) == 5 and low.left.max() <= 1e-5
