"""Coordinate descent for L1 and elastic net: optima, bounds, zeros, hard data."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as TheirElasticNet
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, BMRMRegressor, reg_lambda_max
from sklearn_bundle.core.contract import run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.coordinate_descent import CoordinateDescentSolver
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import LogLoss
from sklearn_bundle.regularizers import L1, ElasticNet, WeightedL1
from tests.contract.judge import judge

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

BINARY = "log_loss", "squared_hinge", "exponential"
LOSSES = *BINARY, "squared_error", "huber", "poisson", "squared_epsilon_insensitive"
TIGHT = {"tol": 1e-10, "max_iter": 200}


def drawn(loss, n=60, d=9, seed=0):
    """Correlated columns, one twice, one constant, one of zeros; targets of three of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)) / np.sqrt(d))
    f = X[:, 0] - 0.5 * X[:, 1] + 0.3 * X[:, 2] + 0.5 * rng.normal(size=n)
    X = np.c_[X, X[:, 0], np.full(n, 2.0), np.zeros(n)]
    if loss in BINARY:
        return X, np.where(f > 0.3, 1.0, -1.0)
    return X, np.floor(np.exp(f + 0.5)) if loss == "poisson" else f


def model(loss, **parameters):
    kind = BMRMClassifier if loss in BINARY else BMRMRegressor
    return kind(loss, **{"regularizer": "l1", "reg_lambda": 0.02} | parameters)


def largest(X, y):
    """The least reg_lambda of squared errors at which w = 0."""
    return np.abs(X.T @ (y - y.mean())).max() / len(y)


# ---- optima ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "omega", ["l1", ElasticNet(0.6), WeightedL1(np.linspace(0.5, 3.0, 12))], ids=str
)
@pytest.mark.parametrize("free", [True, False])
def test_optimum_against_clarabel(loss, omega, free):
    X, y = drawn(loss)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    ours = model(loss, regularizer=omega, fit_intercept=free, **TIGHT).fit(X, y, weights)
    (best,) = judge(ours, X, y, weights)
    assert ours.status_ == "converged"
    assert ours.history_["solver"][-1] == "coordinate-descent"
    assert ours.objective_ <= best.value * (1.0 + 1e-9) + best.error


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.01])
def test_lasso(scale):
    X, y = drawn("squared_error", 80, 20)
    reg_lambda = scale * largest(X, y)
    ours = model("squared_error", reg_lambda=reg_lambda, **TIGHT).fit(X, y)
    theirs = Lasso(alpha=reg_lambda, tol=1e-14, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-6)


def test_elastic_net():
    X, y = drawn("squared_error", 40, 70)
    omega = ElasticNet(l1_ratio=0.3)
    ours = model("squared_error", regularizer=omega, **TIGHT).fit(X, y)
    theirs = TheirElasticNet(alpha=0.02, l1_ratio=0.3, tol=1e-14, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_liblinear():
    X, y = drawn("log_loss", 100, 20)
    C = 1.0 / (100 * 0.02)
    form = {"fit_intercept": False, "tol": 1e-10, "max_iter": 100_000}
    parameters = {"fit_intercept": False} | TIGHT
    ours = model("log_loss", **parameters).fit(X, y)
    theirs = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", **form).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    ours = model("squared_hinge", **parameters).fit(X, y)
    theirs = LinearSVC(penalty="l1", C=C / 2.0, dual=False, **form).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("free", [True, False])
def test_optimality_conditions(loss, free):
    """Gradients of the nonzeros are at the limit, the others are below; zeros are exact."""
    X, y = drawn(loss, 50, 200)
    ours = model(loss, fit_intercept=free, **TIGHT).fit(X, y)
    f = X @ ours.coef_.ravel() + ours.intercept_
    slopes = f - y if loss == "squared_error" else -y / (1.0 + np.exp(y * f))
    gradient, w = X.T @ slopes / len(y), ours.coef_.ravel()
    assert 0 < np.count_nonzero(w) <= 50
    np.testing.assert_allclose(gradient[w != 0.0], -0.02 * np.sign(w[w != 0.0]), atol=1e-7)
    assert np.abs(gradient[w == 0.0]).max() <= 0.02 + 1e-7


# ---- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("omega", ["l1", ElasticNet(0.6)], ids=str)
def test_every_bound_is_below_the_optimum(loss, omega):
    X, y = drawn(loss, 40, 300)
    ours = model(loss, regularizer=omega, reg_lambda=2e-3, **TIGHT).fit(X, y)
    history = ours.history_
    assert len(history) > 2
    assert (history["lower_bound"] <= ours.objective_).all()
    assert (history["objective"] >= ours.lower_bound_).all()


def test_a_kept_proof_is_not_forgotten():
    """From w = 0 again, the bound of the solution holds from the first state on, and confirmed."""
    X, y = drawn("log_loss")
    problem = LinearProblem(rows_in_memory(X), y, np.full(len(y), 1 / len(y)), LogLoss(), True)
    solved = CoordinateDescentSolver(Task(problem, 0.02, tol=1e-10, omega=L1()))
    result = run(solved, tol=1e-10, max_iter=200)
    dual_certificate = solved.kept((result.point, result.intercept)).dual_certificate
    for reg_lambda in (0.02, 0.021):  # at another one it is not used
        again = CoordinateDescentSolver(
            Task(problem, reg_lambda, tol=1e-10, omega=L1()),
            LinearStart(dual_certificate=dual_certificate),
        )
        bounds = [next(again.states()).lower_bound, again.confirm().lower_bound]
        kept = reg_lambda == 0.02
        # Far from the optimum more is taken off for rounding.
        assert [b == pytest.approx(result.lower_bound, rel=1e-6) for b in bounds] == [kept, kept]
        assert again.confirm().primal > 1.05 * result.primal


def test_above_the_largest_reg_lambda():
    X, y = drawn("squared_error")
    ours = model("squared_error", reg_lambda=1.001 * largest(X, y), tol=1e-12).fit(X, y)
    assert not ours.coef_.any() and ours.n_iter_ == 1
    assert ours.intercept_ == pytest.approx(y.mean())
    below = model("squared_error", reg_lambda=0.999 * largest(X, y), tol=1e-12).fit(X, y)
    assert below.coef_.any()


@pytest.mark.parametrize("seed", [100, 118, 126])
def test_at_the_largest_reg_lambda_of_weights(seed):
    """Rounding of ``reg_lambda t`` must not push the dual point out of the conjugate's domain."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=20)
    omega = WeightedL1(rng.uniform(0.1, 3.0, 5))
    reg_lambda = reg_lambda_max(X, y, loss="squared_error", regularizer=omega)
    ours = model("squared_error", regularizer=omega, reg_lambda=reg_lambda, tol=1e-6).fit(X, y)
    assert ours.status_ == "converged" and not ours.coef_.any()


@pytest.mark.parametrize("value", [1.0, 1e6 + 0.1])
def test_targets_of_one_value(value):
    """The optimum is 0: rounding makes the bound a number such as 1e-76, which is above."""
    X, _ = drawn("squared_error", n=442)
    ours = model("squared_error").fit(X, np.full(len(X), value))
    assert ours.converged_ and ours.lower_bound_ <= ours.objective_ <= 1e-18 * value**2
    assert not ours.coef_.any() and ours.intercept_ == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("regularizer", ["l1", "elasticnet"])
def test_targets_within_the_tube(regularizer):
    """Rounding at an end of the intercepts that cost nothing is hidden; no feature is wanted."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 15)), 200.0 + rng.normal(size=20)
    m = BMRMRegressor("squared_epsilon_insensitive", epsilon=20.3, regularizer=regularizer)
    m.set_params(solver="coordinate-descent", reg_lambda=0.04).fit(X, y)
    assert m.n_iter_ <= 20 and m.lower_bound_ == 0.0 and m.objective_ <= 1e-13
    assert not m.coef_.any() and np.abs(m.intercept_ - y).max() <= 20.3 * (1.0 + 1e-12)


def test_risks_that_overflow():
    X, y = drawn("squared_error")
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="The loss is not finite at"):
        model("squared_error").fit(X, 1e160 * y)


# ---- data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared_error", "squared_hinge"])
@pytest.mark.parametrize("kind", [sp.csr_array, np.asarray], ids=["csr", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kinds_of_data(loss, kind, dtype):
    X, y = drawn(loss, 70, 150)
    X = (X * (np.abs(X) > 0.5)).astype(dtype)
    expected = model(loss, **TIGHT).fit(X.astype(np.float64), y)
    ours = model(loss, **TIGHT).fit(kind(X), y)
    assert ours.objective_ == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_columns_without_a_matrix(monkeypatch, loss):
    """Long working sets take epochs over columns, dense or not."""
    X, y = drawn(loss, 60, 200)
    expected = model(loss, **TIGHT).fit(X, y)
    monkeypatch.setattr("sklearn_bundle.linear.solvers._working_set.MOST_FEATURES", 0)
    for data in (X, sp.csr_array(X)):
        ours = model(loss, **TIGHT | {"max_iter": 1000}).fit(data, y)
        assert ours.objective_ == pytest.approx(expected.objective_, rel=1e-8)


def sparse_drawn(loss, reg_lambda):
    """5 % of the entries, of columns that are more and less frequent; the model for them."""
    X, y = drawn(loss, 120, 400)
    chances = np.random.default_rng(1).uniform(size=X.shape) * np.linspace(0.3, 3.0, X.shape[1])
    X[chances > 0.1] = 0.0
    return X, y, model(loss, **TIGHT | {"reg_lambda": reg_lambda, "max_iter": 2000})


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "squared_error"])
@pytest.mark.parametrize("reg_lambda", [1e-2, pytest.param(1e-4, marks=pytest.mark.wide)])
def test_sweeps_over_sparse_columns(loss, reg_lambda):
    """They reach the optimum of working sets, and every bound of theirs is below it."""
    X, y, estimator = sparse_drawn(loss, reg_lambda)
    expected = clone(estimator).fit(X, y)
    ours = estimator.fit(sp.csr_array(X), y)
    assert ours.objective_ == pytest.approx(expected.objective_, rel=1e-8)
    assert (ours.history_["lower_bound"] <= expected.objective_).all()


@pytest.mark.parametrize("columns", ["some", "all"])
def test_columns_of_the_sweeps(monkeypatch, columns):
    """The first step's features alone, and all where more are wanted."""
    X, y, estimator = sparse_drawn("log_loss", 1e-3)
    few = 1 if columns == "some" else X.size
    monkeypatch.setattr("sklearn_bundle.linear.solvers._working_set._FEW", few)
    ours = clone(estimator).fit(sp.csr_array(X), y)
    monkeypatch.undo()
    np.testing.assert_array_equal(ours.coef_, estimator.fit(sp.csr_array(X), y).coef_)


def test_sweeps_over_nothing():
    """No feature violates its condition at w = 0."""
    X, y, _ = sparse_drawn("log_loss", 1.0)
    ours = model("log_loss", reg_lambda=10.0, **TIGHT).fit(sp.csr_array(X), y)
    assert not ours.coef_.any()
    X[:, 0] = 0.0
    ours = model("squared_hinge", reg_lambda=1e-9, **TIGHT).fit(sp.csr_array(0.0 * X), y)
    assert not ours.coef_.any() and ours.converged_


def test_sweeps_go_on():
    """Runs of one iteration each take the steps of one long run."""
    X, y, estimator = sparse_drawn("log_loss", 1e-3)
    X = sp.csr_array(X)
    whole = clone(estimator).fit(X, y)
    parts = estimator.set_params(max_iter=1, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(whole.n_iter_):
            parts.fit(X, y)
    assert parts.converged_
    assert parts.objective_ == pytest.approx(whole.objective_, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales(loss, scale):
    X, y = drawn(loss)
    ours = model(loss, reg_lambda=0.02 * scale, tol=1e-8).fit(scale * X, y)
    expected = model(loss, tol=1e-8).fit(X, y)
    assert ours.objective_ == pytest.approx(expected.objective_, rel=1e-7)


def test_one_sample_and_one_feature():
    ours = model("squared_error").fit([[1.0, 2.0]], [3.0])
    assert not ours.coef_.any() and ours.status_ == "converged"
    X, y = drawn("squared_error")
    assert model("squared_error", **TIGHT).fit(X[:, :1], y).status_ == "converged"


def test_separable_classes():
    X, _ = drawn("log_loss")
    ours = model("log_loss", reg_lambda=1e-4, **TIGHT).fit(X, np.where(X[:, 0] > 0.0, 1.0, -1.0))
    assert ours.status_ == "converged"
    assert ours.score(X, np.where(X[:, 0] > 0.0, 1.0, -1.0)) == 1.0
