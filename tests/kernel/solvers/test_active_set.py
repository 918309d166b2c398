"""The L2-SVM as a problem on the simplex, and the solver with a growing active set."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.kernel._compiled import lazy
from sklearn_bundle.kernel.problems.l2svm import L2SVM, Candidate
from sklearn_bundle.kernel.solvers.active_set import ActiveSetSolver
from sklearn_bundle.kernel.solvers.base import SimplexPoints
from sklearn_bundle.kernel.solvers.swap import SwapSolver
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel

KERNELS = {
    "rbf": (Kernel("rbf", gamma=0.05), lambda X, Z: rbf_kernel(X, Z, gamma=0.05)),
    "linear": (Kernel("linear"), linear_kernel),
    "poly": (
        Kernel("poly", gamma=0.1, degree=3, coef0=1.0),
        lambda X, Z: polynomial_kernel(X, Z, gamma=0.1, degree=3, coef0=1.0),
    ),
    "callable": (Kernel(linear_kernel), linear_kernel),
    "precomputed": (Kernel("precomputed"), lambda X, Z: rbf_kernel(X, Z, gamma=0.05)),
}
ROUNDING = {np.float32: 2e-5, np.float64: 1e-12}  # of sums of 200 values up to 1e3, relative


@pytest.fixture(autouse=True)
def one_thread():
    """As the estimators do: where cores are shared, the threads of BLAS wait for each other."""
    with blas_threads(1):
        yield


@pytest.fixture(params=[np.float32, np.float64], ids=["work32", "work64"])
def dtype(request):
    return request.param


@pytest.fixture(params=["dense", "csr"])
def layout(request):
    return request.param


@pytest.fixture(params=KERNELS)
def case(request, data, dtype, layout):
    """A problem of some of the points, and its matrix K in float64."""
    if request.param == "precomputed" and layout == "csr":
        pytest.skip("a precomputed matrix is dense")
    kernel, values = KERNELS[request.param]
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    rng = np.random.default_rng(0)
    points, C = np.sort(rng.permutation(200)[:150]), rng.uniform(0.5, 2.0, 150)
    K = values(X[points], X[points])
    M = np.outer(y[points], y[points]) * (K + 1.0)
    if layout == "csr":
        X = sp.csr_matrix(X)
    elif request.param == "precomputed":
        X = values(X, X)
    return L2SVM(KernelData(X, kernel, dtype), points, y[points], C), M, C


def random_point(n):
    a = np.random.default_rng(1).random(n) * (np.random.default_rng(2).random(n) < 0.4)
    return a / a.sum()


def assert_near(values, expected, dtype):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(values, expected, rtol=0, atol=ROUNDING[dtype] * scale)


def test_rows_and_diagonal(case, dtype):
    p, M, C = case
    assert_near(p.diagonal, np.diag(M) + 1.0 / C, dtype)
    rows = p.space(3)
    p.fill(np.array([7, 0, 149]), rows)
    assert_near(rows, M[[7, 0, 149]], dtype)
    matrix = np.full((160, 160), np.nan, dtype)
    p.gram(matrix)
    assert_near(matrix[:150, :150], M, dtype)


def test_a_matrix_that_grows_keeps_what_it_has(case, dtype):
    p, M, _ = case
    order = np.random.default_rng(3).permutation(150)
    matrix = np.full((150, 150), np.nan, dtype)
    p.part(order[:60]).gram(matrix)
    p.part(order).gram(matrix, 60)
    assert_near(matrix, M[np.ix_(order, order)], dtype)


def test_products(case, dtype):
    p, M, C = case
    a = random_point(150)
    expected = M @ a + a / C
    assert_near(p.products(a), expected, np.float64)
    outside = np.flatnonzero(a == 0.0)
    for part in (outside, outside[:7]):
        assert_near(p.working_products(a, part), expected[part], dtype)


def test_certified_from_rough_products(case, dtype):
    """Scores whose loss is 0 need not be exact; what alpha proves is."""
    p, M, C = case
    a = random_point(150)
    q = M @ a + a / C
    rough = q * (1.0 + np.random.default_rng(4).uniform(-1.0, 1.0, 150) * np.finfo(dtype).eps / 2)
    alpha = a / (a @ rough)
    (proof,) = p.certify(Candidate(a, rough, alpha))
    slack = np.maximum(0.0, 1.0 - M @ alpha)
    objective = 0.5 * alpha @ M @ alpha + 0.5 * np.sum(C * slack**2)
    bound = 0.5 / (a @ q)
    assert abs(proof.primal - objective) <= proof.excess <= 1e-9 * objective
    assert bound * (1.0 - 1e-9) <= proof.bound <= bound


def test_compiled_rows_are_those_of_the_problem(case, dtype):
    p, M, _ = case
    source = p.compiled()
    if source is None:
        pytest.skip("rows come from the problem")
    out, chosen = np.empty((5, 150), np.float32), np.array([3, 149, 0, 77, 20])
    lazy.fill(source, chosen, out)
    assert_near(out, M[chosen], dtype)


def test_rows_come_back_from_the_store(case):
    """Wrong ones would cost steps alone, since nothing is proved by them."""
    source = case[0].compiled()
    if source is None:
        pytest.skip("rows come from the problem")
    out, chosen = np.empty((2, 5, 150), np.float32), np.array([3, 149, 0, 77, 20])
    known = np.zeros(1 + source.points.max(), np.bool_)
    store = np.full((len(known), 90), np.nan, np.float32)
    source = source._replace(split=60, store=store, known=known)
    for rows in out:
        lazy.fill(source, chosen, rows)
    np.testing.assert_array_equal(out[1], out[0])
    assert_near(out[0], case[1][chosen], np.float32)
    assert known.sum() == 5


def test_promotion_to_double_precision(case):
    p, M, _ = case
    p.promote()
    rows = p.space(2)
    p.fill(np.array([1, 0]), rows)
    assert_near(rows, M[[1, 0]], np.float64)


# ---- the solver -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    X, y = make_classification(3000, 8, n_informative=5, flip_y=0.05, random_state=0)
    return X, np.where(y == 1, 1.0, -1.0)


def problem_of(many, dtype=np.float32):
    X, y = many
    data = KernelData(X, Kernel("rbf", gamma=0.05), dtype)
    return L2SVM(data, np.arange(len(y)), y, np.ones(len(y)))


def matrix_of(many):
    X, y = many
    return np.outer(y, y) * (rbf_kernel(X, gamma=0.05) + 1.0) + np.eye(len(y))


def solver_of(problem, size=50, tol=1e-4, **settings):
    return ActiveSetSolver(problem, size=size, tol=tol, **{"cache_bytes": 1 << 26} | settings)


@pytest.fixture(scope="module")
def best(many):
    return run(SwapSolver(problem_of(many), tol=1e-6), tol=1e-6, max_iter=1_000_000)


@pytest.mark.parametrize("algorithm", ["fw", "cvm", "mfw", "swap", "swap-2o"])
def test_every_algorithm(many, best, algorithm):
    tol = 2e-2 if algorithm == "fw" else 1e-4
    result = run(
        solver_of(problem_of(many), algorithm=algorithm, tol=tol), tol=tol, max_iter=1_000_000
    )
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best.primal and best.lower_bound <= result.primal
    assert result.primal == pytest.approx(best.primal, rel=tol)


@pytest.mark.matrix
@pytest.mark.parametrize("size", [20, 50, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bound_and_objective_of_every_state(many, best, size, dtype):
    """The bound is that of all points, though it comes from the active ones."""
    bound, primal = -np.inf, np.inf
    solver = solver_of(problem_of(many, dtype), size=size, tol=1e-6)
    for state in islice(solver.states(), 60):
        assert bound <= state.lower_bound <= best.primal * (1.0 + 1e-6)
        assert primal >= state.primal >= best.lower_bound * (1.0 - 1e-6)
        bound, primal = state.lower_bound, state.primal


@pytest.mark.matrix
@pytest.mark.parametrize("size", [20, 50])
@pytest.mark.parametrize("states", range(1, 12))
def test_confirmed_anywhere_the_certificate_is_that_of_all_points(many, size, states):
    """Also where the last look was at a sample: what was not looked at has a loss all the same."""
    solver = solver_of(problem_of(many), size=size, tol=1e-6)
    *_, state = islice(solver.states(), states)
    state = solver.confirm()
    K, alpha = matrix_of(many), state.point
    scores = K @ alpha - alpha
    objective = 0.5 * alpha @ scores + 0.5 * np.sum(np.maximum(0.0, 1.0 - scores) ** 2)
    assert state.primal == pytest.approx(objective, rel=1e-10)
    assert state.lower_bound <= state.primal


@pytest.mark.parametrize("cache_bytes", [1 << 26, 1 << 19, 1 << 12])
def test_a_matrix_that_does_not_fit(many, best, cache_bytes):
    solver = solver_of(problem_of(many), cache_bytes=cache_bytes)
    result = run(solver, tol=1e-4, max_iter=1_000_000)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(best.primal, rel=1e-4)


def test_start_at_the_solution(many, best):
    start = SimplexPoints(best.point / best.point.sum())
    result = run(solver_of(problem_of(many), start=start), tol=1e-4, max_iter=1_000_000)
    assert result.status is Status.CONVERGED and result.n_iter <= 64


def test_equal_seeds_equal_results(many):
    one, two, other = (
        run(solver_of(problem_of(many), seed=seed), tol=1e-3, max_iter=1_000_000)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one.point, two.point) and not np.array_equal(one.point, other.point)


def test_active_points_are_far_fewer_than_all(many):
    result = run(solver_of(problem_of(many)), tol=1e-4, max_iter=1_000_000)
    active = result.history["active"]
    assert (np.diff(active) >= 0).all()
    assert np.count_nonzero(result.point) <= active[-1] < 3000


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1.0])
def test_scores_from_before_the_promotion_are_confirmed_with_their_rounding(scale):
    """Scores in float32 do not say which losses are 0 as exactly as those in float64 do."""
    X, y = make_classification(200, 10, n_informative=5, flip_y=0.1, random_state=0)
    signs = np.where(y == 1, 1.0, -1.0)
    data = KernelData(X * scale, Kernel("linear"))
    problem = L2SVM(data, np.arange(200), signs, np.full(200, 1e6))
    solver = SwapSolver(problem)
    for _ in islice(solver.states(), 7):
        pass
    problem.promote()
    alpha = solver.a / solver.value
    (proof,) = problem.certify(Candidate(solver.a, solver.q, alpha))
    Z = (X * scale).astype(np.longdouble)
    coef = (alpha * signs).astype(np.longdouble)
    scores = Z @ (Z.T @ coef) + coef.sum()
    losses = np.sum(1e6 * np.maximum(0.0, 1.0 - signs * scores) ** 2)
    objective = 0.5 * (coef @ scores + losses)
    assert abs(proof.primal - objective) <= proof.excess <= 1e-5 * objective
