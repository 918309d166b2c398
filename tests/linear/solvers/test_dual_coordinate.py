"""Dual coordinate steps against plain numpy, certificates and optima against other solvers."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import entr, expit
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear._compiled import coordinate
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.dual_coordinate import DualCoordinateSolver
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import BINARY_LOSSES, Exponential, Hinge
from tests.reference import LOSSES, objective, optimum

STEPS = ("hinge", "squared_hinge", "log_loss")
KINDS = ["dense", "csr"]


def dual_terms(loss, alpha, weights):
    """The dual without its quadratic term, an entry per row."""
    if loss == "hinge":
        return alpha
    if loss == "squared_hinge":
        return alpha - 0.5 * alpha**2 / weights
    p = alpha / weights
    return weights * (entr(p) + entr(1 - p))


def best_alpha(loss, margin, alpha, weight, square):
    """The alpha_i that maximizes the dual, ``square`` being ||x_i||^2 / reg_lambda."""

    def slope(a):  # of minus the dual
        return margin + square * (a - alpha) - 1 + (a / weight if loss == "squared_hinge" else 0)

    if loss == "log_loss":  # alpha = weight / (1 + exp(-t))
        bend = weight * square
        t = brentq(lambda t: margin - square * alpha + bend * expit(t) + t, -1e6, 1e6, xtol=1e-14)
        return weight * expit(t)
    end = 1e3 if loss == "squared_hinge" else weight
    if slope(0.0) >= 0:
        return 0.0
    return end if slope(end) <= 0 else brentq(slope, 0.0, end, xtol=1e-16)


def reference_epoch(loss, X, y, weights, reg_lambda, alpha, order, b, pull):
    w = X.T @ (y * alpha) / reg_lambda
    alpha, gap = alpha.copy(), 0.0
    for i in order:
        margin = y[i] * (X[i] @ w + b)
        gap += weights[i] * LOSSES[loss](margin) + alpha[i] * margin
        gap -= dual_terms(loss, alpha[i], weights[i])
        square = X[i] @ X[i] / reg_lambda + pull
        change = best_alpha(loss, margin, alpha[i], weights[i], square) - alpha[i]
        alpha[i] += change
        w += change * y[i] * X[i] / reg_lambda
        b += pull * change * y[i]
    return alpha, w, b, gap


def dual(loss, X, y, weights, reg_lambda, alpha):
    w = X.T @ (y * alpha) / reg_lambda
    return dual_terms(loss, alpha, weights).sum() - 0.5 * reg_lambda * w @ w


def problem_of(X, y, weights, loss, free, kind="dense", dtype=np.float64):
    X = np.ascontiguousarray(X, dtype=dtype)
    X = sp.csr_matrix(X) if kind == "csr" else X
    return LinearProblem(rows_in_memory(X), y, weights, BINARY_LOSSES[loss](), free)


@pytest.fixture
def small(cancer):
    """Rows with uneven weights."""
    X, y = (a[:120].copy() for a in cancer)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 120)
    return X, y, weights / weights.sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pull", [0.0, 3.0])
@pytest.mark.parametrize("loss", STEPS)
def test_epoch_against_numpy(small, loss, pull, kind):
    X, y, weights = small
    n, d = X.shape
    X[X < -0.5] = 0.0
    X[7] = 0.0
    reg_lambda, b = 1e-2, 0.1 * (pull > 0.0)
    alpha = weights * np.random.default_rng(1).uniform(0.1, 0.9, n)
    order, active = np.empty(n, dtype=np.int64), np.arange(n)
    squares = (X**2).sum(axis=1) / reg_lambda + pull
    rows = np.column_stack([y, weights, squares, alpha]).ravel()
    w = X.T @ (y * alpha) / reg_lambda
    if kind == "csr":
        A = sp.csr_matrix(X)
        arrays = A.data, A.indices.view(np.uint32), A.indptr.astype(np.uint64), 0
    else:
        arrays = X.ravel(), np.zeros(0, np.uint32), np.zeros(0, np.uint64), d
    limits, seed = (np.inf, np.inf), np.array([7], dtype=np.uint64)
    steps = BINARY_LOSSES[loss]().formula()
    args = active, n, 1, order, kind == "csr", steps, w, 1 / reg_lambda, *limits, b, pull
    size, _, _, gap, gained, new_b = coordinate.epoch(*arrays, rows, *args, seed)
    assert size == n and np.array_equal(np.sort(order), np.arange(n))
    taken = order[::-1]
    found = reference_epoch(loss, X, y, weights, reg_lambda, alpha, taken, b, pull)
    best, best_w, best_b, best_gap = found
    np.testing.assert_allclose(rows[3::4], best, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(w, best_w, rtol=1e-8, atol=1e-10)
    assert new_b == pytest.approx(best_b, rel=1e-8)
    assert gap == pytest.approx(best_gap, rel=1e-8)
    if pull == 0.0:
        before = dual(loss, X, y, weights, reg_lambda, alpha)
        after = dual(loss, X, y, weights, reg_lambda, rows[3::4])
        assert gained == pytest.approx(after - before, rel=1e-8)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reg_lambda", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", STEPS)
def test_optimum_and_certificate(small, loss, free, reg_lambda, kind):
    """Against an interior-point solver; objective and bound computed again in numpy."""
    X, y, weights = small
    best = optimum(loss, X, y, weights, reg_lambda, free)
    tol = 1e-4
    solver = DualCoordinateSolver(
        Task(problem_of(X, y, weights, loss, free, kind), reg_lambda, tol=tol)
    )
    result = run(solver, tol=tol, max_iter=6000)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1 + 1e-8) <= result.primal * (1 + 2e-8)
    value = objective(loss, X, y, weights, reg_lambda, result.point, result.intercept)
    assert value == pytest.approx(result.primal, rel=1e-9)
    gradient, offset = solver.plane
    bound = offset - gradient @ gradient / (2 * reg_lambda)
    assert bound == pytest.approx(result.lower_bound, rel=1e-9)
    rng = np.random.default_rng(2)  # the plane lies below the risk, whatever the intercept
    for _ in range(50):
        w, b = rng.normal(size=X.shape[1]), rng.normal(scale=3.0) if free else 0.0
        risk = objective(loss, X, y, weights, 0.0, w, b)
        assert risk >= gradient @ w + offset - 1e-12 * (1 + abs(offset))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", STEPS)
def test_weak_duality_at_every_epoch(small, loss, free):
    X, y, weights = small
    best = optimum(loss, X, y, weights, 1e-3, free)
    solver = DualCoordinateSolver(Task(problem_of(X, y, weights, loss, free), 1e-3))
    last = np.inf
    for _, state in zip(range(2000), solver.states(), strict=False):
        assert state.lower_bound <= best * (1 + 1e-8) and state.primal >= best * (1 - 1e-8)
        assert state.gap <= last
        last = state.gap
    assert last < 0.1 * best


@pytest.mark.parametrize("loss", STEPS)
def test_agrees_with_line_search_on_a_free_intercept(cancer, loss):
    X, y = cancer
    weights = np.full(len(y), 1 / len(y))
    found = [
        run(solver, tol=1e-6, max_iter=10_000)
        for solver in (
            DualCoordinateSolver(Task(problem_of(X, y, weights, loss, True), 1e-2, tol=1e-6)),
            BundleSolver(problem_of(X, y, weights, loss, True), 1e-2),
        )
    ]
    assert [r.status for r in found] == 2 * [Status.CONVERGED]
    assert found[0].primal == pytest.approx(found[1].primal, rel=2e-6)


def test_agrees_with_liblinear(data):
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    n, reg_lambda = len(y), 1e-2
    peer = LinearSVC(loss="hinge", C=1 / (n * reg_lambda), tol=1e-9, fit_intercept=False)
    w = peer.set_params(max_iter=1_000_000).fit(X, y).coef_.ravel()
    weights = np.full(n, 1 / n)
    solver = DualCoordinateSolver(Task(problem_of(X, y, weights, "hinge", False), reg_lambda))
    result = run(solver, tol=1e-8, max_iter=100_000)
    assert result.primal == pytest.approx(
        objective("hinge", X, y, weights, reg_lambda, w, 0.0), rel=2e-8
    )


@pytest.mark.parametrize("loss", STEPS)
def test_weights_are_repeated_rows(small, loss):
    X, y, _ = small
    counts = np.random.default_rng(3).integers(1, 4, len(y))
    weights = counts / counts.sum()
    repeated = [np.repeat(a, counts, axis=0) for a in (X, y)]
    even = np.full(counts.sum(), 1 / counts.sum())
    a = DualCoordinateSolver(Task(problem_of(X, y, weights, loss, True), 1e-2, tol=1e-6))
    b = DualCoordinateSolver(Task(problem_of(*repeated, even, loss, True), 1e-2, tol=1e-6))
    first, second = (run(solver, tol=1e-6, max_iter=10_000) for solver in (a, b))
    assert first.status is second.status is Status.CONVERGED
    assert first.primal == pytest.approx(second.primal, rel=2e-6)


@pytest.mark.parametrize(
    "dtype, indices",
    [
        (np.float64, np.int32),
        pytest.param(np.float64, np.int64, marks=pytest.mark.wide),
        pytest.param(np.float32, np.int32, marks=pytest.mark.wide),
        pytest.param(np.float32, np.int64, marks=pytest.mark.wide),
    ],
)
def test_many_columns(dtype, indices):
    """Neighboring rows together, single precision at first, double for the last digits."""
    rng = np.random.default_rng(4)
    n, d = 150, 140_000  # w is longer than what a core caches
    X = sp.random(n, d, 2e-4, format="csr", random_state=0, dtype=np.float64)
    X = sp.hstack([X, rng.normal(size=(n, 5))], format="csr").astype(dtype)
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    y = np.where(rng.normal(size=n) + X[:, -1].toarray().ravel() > 0.0, 1.0, -1.0)
    before = X.copy()
    weights = np.full(n, 1 / n)
    solver = DualCoordinateSolver(
        Task(LinearProblem(rows_in_memory(X), y, weights, Hinge(), False), 1e-2, tol=1e-3)
    )
    precisions = set()
    for _, state in zip(range(3000), solver.states(), strict=False):
        precisions.add(solver._steps.w.dtype)
        if state.relative_gap <= 1e-7:
            break
    assert precisions == {np.dtype(np.float32), np.dtype(np.float64)}
    final = solver.confirm()
    assert 0.0 <= final.relative_gap <= 1e-7
    value = objective("hinge", X.astype(np.float64), y, weights, 1e-2, final.point, 0.0)
    assert value == pytest.approx(final.primal, rel=1e-9)
    assert (before != X).nnz == 0


@pytest.mark.parametrize("kind", KINDS)
def test_equal_runs_are_equal_bit_by_bit(small, kind):
    X, y, weights = small
    results = [
        run(
            DualCoordinateSolver(Task(problem_of(X, y, weights, "hinge", True, kind), 1e-3)),
            tol=1e-4,
            max_iter=300,
        )
        for _ in range(2)
    ]
    assert np.array_equal(results[0].point, results[1].point)
    assert results[0].lower_bound == results[1].lower_bound


@pytest.mark.parametrize("free", [False, True])
def test_goes_on_from_its_dual_point_and_hands_its_plane_over(small, free):
    X, y, weights = small
    problem = problem_of(X, y, weights, "hinge", free)
    solver = DualCoordinateSolver(Task(problem, 1e-3, tol=1e-4))
    result = run(solver, tol=1e-4, max_iter=6000)
    assert result.status is Status.CONVERGED
    again = DualCoordinateSolver(Task(problem, 1e-3, tol=1e-4), LinearStart(alpha=solver.alpha))
    state = next(again.states())
    assert state.lower_bound >= result.lower_bound * (1 - 1e-9)
    start = result.point, result.intercept
    search = BundleSolver(problem, 1e-3, bundle=solver.bundle, start=start)
    assert next(search.states()).lower_bound >= result.lower_bound * (1 - 1e-9)
    warm = DualCoordinateSolver(Task(problem, 1e-3), LinearStart(bundle=solver.bundle, point=start))
    assert next(warm.states()).gap <= result.gap * (1 + 1e-6)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", STEPS)
def test_ends_where_rounding_leaves_nothing_to_gain(loss, free):
    X, y = make_classification(60, 4, random_state=1)
    y = np.where(y == 1, 1.0, -1.0)
    weights = np.full(60, 1 / 60)
    solver = DualCoordinateSolver(Task(problem_of(X, y, weights, loss, free), 0.1))
    result = run(solver, tol=1e-300, max_iter=200_000)
    assert result.status is Status.STALLED or result.gap == 0.0
    assert result.relative_gap < 1e-9


def test_rate_and_estimate(small):
    X, y, weights = small
    solver = DualCoordinateSolver(Task(problem_of(X, y, weights, "hinge", False), 1e-2, tol=1e-5))
    assert solver.rate == np.inf and solver.estimate == np.inf
    for _, _state in zip(range(30), solver.states(), strict=False):
        pass
    assert 0.0 < solver.rate < 5.0
    before = solver.estimate
    state = solver.confirm()
    assert before / 10 < state.relative_gap < 10 * before


def test_which_losses_have_steps():
    assert Hinge().has_dual_steps and not Exponential().has_dual_steps
