"""Squared errors by their normal equations and by conjugate gradients, against closed forms."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from sklearn_bundle import BMRMRegressor, bmrm_path
from sklearn_bundle.core.contract import run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.normal_equations import NormalEquations
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.least_squares import LeastSquaresSolver
from sklearn_bundle.linear.solvers.solver import Task
from sklearn_bundle.losses import MultivariateSquaredError, SquaredError
from sklearn_bundle.regularizers import L2, Quadratic

SOLVERS = ["auto", "newton", "conjugate-gradient"]
M = np.array([[2.0, -1.0], [-1.0, 1.0]])


def reference(X, y, s, reg_lambda, free, *, B=None, M=None):
    """The optimum in extended precision: one linear system for all outputs."""
    X = np.asarray(X.todense() if sp.issparse(X) else X).astype(np.longdouble)
    Y = y.reshape(len(y), -1).astype(np.longdouble)
    d, k = X.shape[1], Y.shape[1]
    B = np.eye(d) if B is None else B
    M = np.eye(k) if M is None else M
    Z, T = (X - s @ X, Y - s @ Y) if free else (X, Y)
    H = np.kron(M, (Z.T * s) @ Z) + reg_lambda * np.kron(np.eye(k), B)
    right = (((Z.T * s) @ T) @ M).T.ravel()
    w = _solve(H, right)
    residual = T - Z @ w.reshape(k, d).T
    penalty = reg_lambda / 2 * (w @ np.kron(np.eye(k), B) @ w)
    return penalty + (s @ ((residual @ M) * residual).sum(axis=1)) / 2, w.reshape(k, d)


def _solve(H, right):
    """Gaussian elimination without pivots, for definite matrices of any precision."""
    H, x = H.astype(np.longdouble), right.astype(np.longdouble)
    for i in range(len(x)):
        share = H[i + 1 :, i] / H[i, i]
        H[i + 1 :] -= share[:, None] * H[i]
        x[i + 1 :] -= share * x[i]
    for i in reversed(range(len(x))):
        x[i] = (x[i] - H[i, i + 1 :] @ x[i + 1 :]) / H[i, i]
    return x


def problem(X, y, s=None, free=True, M=None):
    s = np.full(len(y), 1 / len(y)) if s is None else s
    loss = SquaredError() if y.ndim == 1 else MultivariateSquaredError(M)
    return LinearProblem(rows_in_memory(X), y, s, loss, free)


def solved(name, linear, reg_lambda, *, omega=None, tol=1e-9, max_iter=1000):
    omega = L2() if omega is None else omega
    omega = omega.bind(linear.n_features, linear.dimension)
    solver = LeastSquaresSolver(Task(linear, reg_lambda, omega, tol, solver=name))
    return run(solver, tol=tol, max_iter=max_iter)


def judge(result, best, size=0.0, tol=1e-8):
    """Converged, and no bound above the optimum; ``size`` is what y's squares are, for rounding."""
    assert result.status == "converged"
    assert (result.history["lower_bound"] <= best * (1 + 1e-10) + 1e-14 * size).all()
    assert (result.history["objective"] >= best * (1 - 1e-10) - 1e-14 * size).all()
    assert result.primal == pytest.approx(float(best), rel=tol, abs=1e-14 * size)


def drawn(n, d, kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0
    if kind == "sparse":
        X = sp.csr_array(X * (rng.random((n, d)) < 0.3))
    if kind == "float32":
        X = X.astype(np.float32)
    s = rng.random(n) ** 4
    return X, rng.normal(size=n) + 2.0, s / s.sum()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("shape", [(60, 8), (12, 40), (1, 3)], ids=str)
@pytest.mark.parametrize("free", [True, False])
def test_optimum(solver, kind, shape, free):
    X, y, s = drawn(*shape, kind)
    best, w = reference(X, y, s, 1e-3, free)
    result = solved(solver, problem(X, y, s, free), 1e-3)
    judge(result, best, float(s @ y**2))
    assert_allclose(result.point, w.ravel(), atol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(60, 5), (6, 20)], ids=str)
@pytest.mark.parametrize("form", [None, "diagonal", "dense", "sparse"])
@pytest.mark.parametrize("metric", [M, np.diag([1.0, 0.0]), None], ids=["M", "singular", "None"])
def test_several_outputs_and_quadratic_forms(solver, shape, form, metric):
    X, y, s = drawn(*shape, "dense")
    Y, d = np.c_[y, X[:, 0] - y], shape[1]
    B = {"diagonal": np.diag(np.arange(1.0, d + 1)), None: np.eye(d)}.get(form)
    B = np.eye(d) + np.diag(np.full(d - 1, 0.4), 1) if B is None else B
    B = (B + B.T) / 2
    given = {"diagonal": np.diag(B), "dense": B, "sparse": sp.csc_array(B), None: B}[form]
    best, w = reference(X, Y, s, 1e-2, True, B=B, M=metric)
    omega = None if form is None else Quadratic(given)
    result = solved(solver, problem(X, Y, s, True, metric), 1e-2, omega=omega)
    judge(result, best)
    assert_allclose(result.point, w.ravel(), atol=1e-3)


HARD = {
    "constant": lambda X: np.c_[X, np.full(len(X), 3.0), np.zeros(len(X))],
    "twice": lambda X: np.c_[X, X],
    "scales": lambda X: X * np.geomspace(1e-6, 1e6, X.shape[1]),
    "far": lambda X: X + 1e6,
    "small": lambda X: X * 1e-20,
    "wide far": lambda X: X[:6] + 1e5,
    "wide twice": lambda X: np.repeat(X[:4], 2, axis=0),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("reg_lambda", [1.0, 1e-6])
def test_hard_matrices(solver, name, reg_lambda):
    X = HARD[name](np.random.default_rng(1).normal(size=(50, 10)))
    y = np.random.default_rng(2).normal(size=len(X))
    s = np.full(len(X), 1 / len(X))
    best, _ = reference(X, y, s, reg_lambda, True)
    tol = 1e-5 if name == "wide far" and reg_lambda < 1.0 else 1e-6  # rounding hides 7e-6 there
    judge(solved(solver, problem(X, y), reg_lambda, tol=tol), best, 1.0, tol=tol)


def test_next_to_singular_goes_on_from_the_best_point():
    """reg_lambda is 1e-22 of the largest eigenvalue: no factor exists in doubles."""
    X = np.random.default_rng(3).normal(size=(20, 100)) + 1e5
    y = np.random.default_rng(4).normal(size=20)
    best, _ = reference(X, y, np.full(20, 0.05), 1e-12, True)
    result = solved("newton", problem(X, y), 1e-12)
    assert set(result.history["solver"]) == {"newton", "conjugate-gradient"}
    assert result.lower_bound <= best
    assert result.primal - result.excess == pytest.approx(float(best), rel=1e-6)


def test_overflowing_products_leave_the_start():
    X = np.random.default_rng(5).normal(size=(30, 4)) * 1e200
    result = solved("auto", problem(X, X[:, 0] / 1e200), 1.0)
    assert result.status == "stalled" and np.isfinite(result.point).all()
    assert result.lower_bound == 0.0


def test_squared_errors_that_overflow_are_refused():
    with pytest.raises(ValueError, match="scale y"):
        solved("auto", problem(np.eye(3), np.array([1e60, -1e60, 0.0])), 1.0)


def spread(n, d):
    """A matrix whose squared singular values are 1 to 1e-6."""
    rng = np.random.default_rng(6)
    left, right = (np.linalg.qr(rng.normal(size=(m, min(n, d))))[0] for m in (n, d))
    X = left * np.geomspace(1.0, 1e-3, min(n, d)) @ right.T * np.sqrt(n)
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def test_auto_factors_once_conjugate_gradients_have_cost_as_much():
    X, y = spread(450, 400)
    result = solved("auto", problem(X, y), 1e-7)
    at_work = result.history["solver"].tolist()
    assert at_work[0] == "conjugate-gradient" and at_work[-1] == "newton"
    few = at_work.count("newton")
    assert few <= 3
    passes = result.history["passes"][len(at_work) - few - 1]
    data = rows_in_memory(X), y, np.full(len(y), 1.0 / len(y))
    assert passes <= 2 * NormalEquations(*data, True, None, L2()).passes_to_factor


@pytest.mark.parametrize("solver", SOLVERS[1:])
def test_many_runs_take_the_steps_of_a_long_one(solver):
    X, y = spread(60, 20)
    long = solved(solver, problem(X, y), 1e-6, tol=1e-13, max_iter=8)
    parts = LeastSquaresSolver(Task(problem(X, y), 1e-6, tol=1e-13, solver=solver))
    for _ in range(len(long.history)):
        result = run(parts, tol=1e-13, max_iter=1)
        parts.detach()
        parts.attach(problem(X, y))
    # Several steps end at the same objective, up to its rounding, and any of them may be the best;
    # a product that BLAS sums in another order moves them by eps times the condition, 5e5.
    np.testing.assert_allclose(result.point, long.point, rtol=5e5 * np.finfo(float).eps)
    assert result.lower_bound == pytest.approx(long.lower_bound, rel=1e-14)


def test_residuals_between_make_the_better_bound():
    """No bound is above the optimum, none below that of the plane at the best point."""
    X, y = spread(200, 50)
    linear = problem(X, y)
    best, _ = reference(X, y, np.full(200, 0.005), 1e-4, True)
    solver = LeastSquaresSolver(
        Task(linear, 1e-4, tol=1e-6, omega=L2(), solver="conjugate-gradient")
    )
    single = []
    for state in solver.states():
        plane = linear.cut(linear.point(state.point))
        single.append(plane.offset - plane.gradient @ plane.gradient / 2e-4)
        assert single[-1] - 1e-12 <= state.lower_bound <= best + 1e-12
        if state.relative_gap <= 1e-6:
            break
    assert single[-2] < single[-1] and max(single) < state.lower_bound


def test_a_path_forms_its_matrix_once():
    X, y, _ = drawn(300, 6, "dense")
    model = BMRMRegressor(warm_start=True, reg_lambda=1.0).fit(X, y)
    first = model.history_["passes"][-1]
    model.set_params(reg_lambda=1e-3).fit(X, y)
    assert model.history_["passes"][-1] == first - 1  # no Gram matrix
    path = bmrm_path(X, y, loss="squared_error", reg_lambdas=[1.0, 1e-3])
    assert_allclose(path[1][:, 1], model.coef_, rtol=1e-12)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_products_of_the_rows(kind, centered):
    X, _, s = drawn(40, 7, kind)
    rows = rows_in_memory(X)
    Z = (X.toarray() if kind == "sparse" else X).astype(float)
    assert_allclose(rows.column_squares(s), s @ Z**2, rtol=1e-6)
    Z = Z - s @ Z if centered else Z
    assert_allclose(rows.gram(s, centered), (Z.T * s) @ Z, rtol=1e-6, atol=1e-6)
    if kind != "sparse":
        Z = np.sqrt(s)[:, None] * Z
        assert_allclose(rows.outer(s, centered), Z @ Z.T, rtol=1e-6, atol=1e-8)


def test_newton_of_wide_dense_data_needs_a_matrix_of_the_samples_alone():
    """More features than solver="newton" takes elsewhere."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 10_500)), rng.normal(size=20)
    ours = BMRMRegressor(reg_lambda=0.1, solver="newton", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, Ridge(alpha=2.0).fit(X, y).coef_, atol=1e-12)
    with pytest.raises(ValueError, match="n_samples x n_samples, at most 10000"):
        ours.fit(sp.csr_array(X), y)
