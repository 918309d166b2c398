"""Multinomial logistic regression by Newton's method and L-BFGS: pieces, optima, hard data."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers import _class_descent
from sklearn_bundle.linear.solvers._class_curvature import (
    FullCurvature,
    GramCurvature,
    RoughHessians,
    hessian,
)
from sklearn_bundle.linear.solvers.linear_auto import linear_solver
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import Softmax
from sklearn_bundle.regularizers import L2
from tests.reference_multiclass import optimum

SOLVERS = "newton", "lbfgs"


def drawn(n=60, d=3, K=4, apart=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return rng.normal(size=(n, d)) + apart * rng.normal(size=(K, d))[y], y


def problem_of(X, y, weights, free=True):
    return LinearProblem(rows_in_memory(X), y, weights, Softmax(), free)


@pytest.fixture(scope="module")
def evaluated():
    """Data, weights, a point with its scores, and the derivatives there."""
    X, y = drawn()
    rng = np.random.default_rng(1)
    weights = rng.exponential(size=len(y))
    weights /= weights.sum()
    W, b = rng.normal(size=(4, 3)), rng.normal(size=4)
    scores, derivatives = W @ X.T + b[:, None], np.empty((4, len(y)))
    Softmax().along_classes(scores, scores, y, weights, 0.0, derivatives)
    return X, y, weights, W, b, scores, derivatives


# ---- pieces ------------------------------------------------------------------------------------


def test_risk_along_a_line_and_derivatives(evaluated):
    _, y, s, _, _, scores, _ = evaluated
    rng, out = np.random.default_rng(2), np.empty_like(scores)
    direction, own = 3.0 * rng.normal(size=scores.shape), (y, np.arange(len(y)))
    found = Softmax().along_classes(scores, direction, y, s, 0.5, out)
    moved = scores + 0.5 * direction
    P, labels = softmax(moved, axis=0), np.zeros_like(moved)
    labels[own] = 1.0
    mean = np.sum(P * direction, axis=0)
    expected = (
        s @ (logsumexp(moved, axis=0) - moved[own]),
        s @ (mean - direction[own]),
        s @ (np.sum(P * direction**2, axis=0) - mean**2),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(out, s * (P - labels), atol=1e-16)


def test_certain_probabilities_keep_their_digits():
    y, s = np.array([0, 1]), np.array([0.5, 0.5])
    scores, out = np.array([[60.0, 2000.0], [0.0, 0.0]]), np.empty((2, 2))
    risk, _, _ = Softmax().along_classes(scores, scores, y, s, 0.0, out)
    assert risk == 1000.0
    np.testing.assert_allclose(out[:, 0], 0.5 * np.exp(-60.0) * np.array([-1.0, 1.0]), rtol=1e-12)


def test_hessian_is_the_sum_over_rows(evaluated):
    X, y, s, _, _, scores, derivatives = evaluated
    P, extended = softmax(scores, axis=0).T, np.column_stack([X, np.ones(len(X))])
    H = sum(
        weight * np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
        for weight, p, x in zip(s, P, extended, strict=True)
    )
    found = hessian(problem_of(X, y, s), derivatives, len(X))
    np.testing.assert_allclose(np.tril(found), np.tril(H), atol=1e-15)


@pytest.mark.parametrize("kind", ["full", "gram"])
def test_curvatures_at_zero_are_the_hessian(kind):
    """At W = 0, with classes of the same size, the Kronecker product is the Hessian itself."""
    X, y = drawn()
    weights, rng = np.full(60, 1 / 60), np.random.default_rng(3)
    problem = problem_of(X, y, weights)
    scores, derivatives = np.zeros((4, 60)), np.empty((4, 60))
    Softmax().along_classes(scores, scores, y, weights, 0.0, derivatives)
    curvature = FullCurvature(0.1, 60) if kind == "full" else GramCurvature(problem, 0.1)
    curvature.refresh(problem, derivatives)
    W, b = rng.normal(size=(4, 3)), rng.normal(size=4)
    W, b = W - W.mean(axis=0), b - b.mean()  # as all gradients are
    extended = np.column_stack([X, np.ones(60)])
    gram = extended.T @ extended / 60
    H = np.kron(np.eye(4) / 4 - 1 / 16, gram) + 0.1 * np.diag(np.tile([1.0, 1.0, 1.0, 0.0], 4))
    product = H @ np.column_stack(curvature.solve(W, b)).ravel()
    np.testing.assert_allclose(product.reshape(4, 4), np.column_stack([W, b]), atol=1e-12)


@pytest.mark.parametrize("free", [True, False])
def test_a_plane_lies_below_the_risk(evaluated, free):
    """Also where the two are nearest; the probabilities that make the plane do not balance."""
    X, y, s, W, b, _, derivatives = evaluated
    own = np.arange(len(y)), y
    A, offset = problem_of(X, y, s, free).mixed_plane(derivatives, derivatives @ X)
    labels = np.eye(4)[y]

    def above(v):
        V, c = v[:12].reshape(4, 3), free * v[12:]
        scores = X @ V.T + c
        risk = s @ (logsumexp(scores, axis=1) - scores[own])
        G = s[:, None] * (softmax(scores, axis=1) - labels)
        return risk - np.sum(A * V) - offset, np.append(G.T @ X - A, free * G.sum(axis=0))

    nearest = minimize(above, np.append(W, b), jac=True, tol=1e-9)
    assert -1e-12 <= nearest.fun < 0.5  # balanced probabilities are no tangent


def test_the_probabilities_of_a_plane_balance(evaluated):
    """As told by a column of ones: its entries are sum_i s_i (P'_i - Y_i)."""
    X, y, s, _, _, _, derivatives = evaluated
    extended = np.column_stack([X, np.ones(len(y))])
    gradient = derivatives @ extended
    assert np.abs(gradient[:, -1]).max() > 0.1
    plane = problem_of(extended, y, s).mixed_plane(derivatives, gradient)
    assert np.abs(plane[0][:, -1]).max() < 1e-15


# ---- optima ------------------------------------------------------------------------------------


def cases():
    rng = np.random.default_rng(5)
    X, y = drawn(45, 3, 3, 0.5)
    lone = np.where(y == 2, 0, y)
    lone[7] = 2
    weights = rng.exponential(size=len(y)) ** 2
    thin = sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0).astype(np.float32))
    constant = np.column_stack([X, np.ones(len(y)), np.zeros(len(y))])
    return {
        "weighted": (X, y, weights),
        "csr, float32": (thin, y, None),
        "a class of one sample": (X, lone, weights),
        "two classes": (X, np.minimum(y, 1), None),
        "three samples": (X[:3], y[:3], None),
        "more features than samples": (*drawn(8, 20, 4), None),
        "constant columns": (constant, y, None),
        "separable": (*drawn(30, 3, 3, 30.0), None),
    }


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("fit_intercept", [True, pytest.param(False, marks=pytest.mark.wide)])
@pytest.mark.parametrize("case", cases())
def test_optimum_and_every_bound_against_clarabel(solver, fit_intercept, case):
    X, y, weights = cases()[case]
    dense = X.toarray().astype(float) if sp.issparse(X) else X
    s = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
    ours = BMRMClassifier(
        "softmax", solver=solver, reg_lambda=1e-3, tol=1e-9, fit_intercept=fit_intercept
    ).fit(X, y, weights)
    best = optimum(dense, y, s, 1e-3, fit_intercept, kind="softmax")[0]
    assert ours.status_ == "converged"
    assert (ours.history_["lower_bound"] <= best * (1 + 1e-8)).all()  # clarabel's accuracy
    assert ours.objective_ == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_state_claims_more_than_is_true(solver, fit_intercept):
    """The states themselves: what a history shows has been held against the end."""
    X, y, weights = cases()["weighted"]
    s = weights / weights.sum()
    best = optimum(X, y, s, 1e-3, fit_intercept, kind="softmax")[0]
    problem = LinearProblem(rows_in_memory(X), y, s, Softmax(), fit_intercept)
    task = Task(problem, 1e-3, L2(), 1e-9, 0.1, None)
    states = list(islice(linear_solver(solver, task, LinearStart()).states(), 60))
    bounds = np.array([state.lower_bound for state in states])
    assert (bounds <= best * (1 + 1e-8)).all() and (np.diff(bounds) > -1e-14).all()
    assert bounds[-1] == pytest.approx(best, rel=1e-7)
    last = states[-1]
    scores = X @ last.point.reshape(3, 3).T + last.intercept
    risk = s @ (logsumexp(scores, axis=1) - scores[np.arange(len(y)), y])
    assert last.primal == pytest.approx(risk + 5e-4 * np.sum(last.point**2), rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_coefficients_of_multinomial_logistic_regression(solver):
    X, y = drawn(400, 5, 4, 0.7)
    ours = BMRMClassifier("softmax", solver=solver, reg_lambda=1e-3, tol=1e-12).fit(X, y)
    peer = LogisticRegression(C=1 / (1e-3 * len(y)), solver="newton-cg", tol=1e-12, max_iter=1000)
    peer.fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_log_proba(X), peer.predict_log_proba(X), atol=1e-5)


# ---- hard data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_rare_classes_with_free_intercepts(solver):
    """Shares down to 1/800: line search took hundreds of iterations until the planes balanced."""
    X, y = drawn(800, 4, 5, 2.0)
    y = np.where(np.arange(800) % 160 < 5, y, 0)
    y[:1] = 1
    ours = BMRMClassifier("softmax", solver=solver, reg_lambda=1e-5).fit(X, y)
    assert ours.status_ == "converged" and ours.n_iter_ < 100


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (1e4 * drawn()[0], drawn()[1]),  # scores far beyond what exp takes
        (drawn()[0] * [1e-6, 1.0, 1e6], drawn()[1]),
        drawn(240, 3, 120),
    ],
    ids=["large", "scales", "120 classes"],
)
def test_hard_data_reach_tol(solver, X, y):
    ours = BMRMClassifier("softmax", solver=solver, reg_lambda=1e-4).fit(X, y)
    assert ours.status_ == "converged"


def test_certain_probabilities_and_hardly_any_regularization():
    """Curvatures of 1e-17 beside gradients of 1e-5: steps of 1e20 without a floor."""
    X = sp.random(100, 3000, 0.01, "csr", random_state=0, dtype=np.float32)
    y = np.arange(100) % 5
    ours = BMRMClassifier("softmax", solver="lbfgs", reg_lambda=1e-8).fit(X, y)
    assert ours.status_ == "converged"


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_do_not_change_a_bit(solver):
    X, y = drawn(30_000, 20, 3)  # three blocks of rows
    one, two = (
        BMRMClassifier("softmax", solver=solver, n_jobs=jobs, reg_lambda=1e-3).fit(X, y)
        for jobs in (1, 2)
    )
    assert np.array_equal(one.coef_, two.coef_) and one.lower_bound_ == two.lower_bound_


def test_the_next_value_of_a_path_starts_from_the_last_point():
    X, y = drawn(400, 5, 4, 0.7)
    warm = BMRMClassifier("softmax", solver="lbfgs", reg_lambda=1.1e-4, warm_start=True).fit(X, y)
    from_zero = BMRMClassifier("softmax", solver="lbfgs", reg_lambda=1e-4).fit(X, y)
    warm.set_params(reg_lambda=1e-4).fit(X, y)
    assert warm.n_iter_ < from_zero.n_iter_


@pytest.mark.parametrize(
    ("n", "d", "pairs"), [(1, 9, 10), (40, 400, 10), (360, 1, 30), (360, 5, 30), (2000, 5, 80)]
)
def test_more_than_ten_pairs_take_at_most_half_of_x(n, d, pairs, monkeypatch):
    memories = []
    monkeypatch.setattr(_class_descent, "Corrections", memories.append)
    X, y = np.random.default_rng(0).normal(size=(n, d)), np.arange(n) % 3
    problem = problem_of(X, y, np.full(n, 1.0 / n))
    start = np.zeros(problem.dimension), np.zeros(problem.n_outputs)
    _class_descent.ClassDescent(problem, 0.1, RoughHessians(problem, 0.1), start)
    assert memories == [pairs]
    assert pairs == 10 or 2 * pairs * problem.dimension <= n * d / 2
