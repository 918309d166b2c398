"""L-BFGS for smooth losses of one score: optima, every bound, hard data."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.linear_model import PoissonRegressor

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.linear_auto import linear_solver
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import Exponential, Poisson
from sklearn_bundle.regularizers import L2

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

LAMBDA = 1e-2


def huber(f, y):
    r = np.abs(f - y)
    return np.where(r <= 1.0, 0.5 * r**2, r - 0.5), np.clip(f - y, -1.0, 1.0)


def tube(f, y):
    r = np.maximum(np.abs(f - y) - 0.1, 0.0)
    return 0.5 * r**2, np.sign(f - y) * r


# Value and derivative of each loss in the score, in plain numpy.
LOSSES = {
    "poisson": lambda f, y: (np.exp(f) - y * f + xlogy(y, y) - y, np.exp(f) - y),
    "huber": huber,
    "squared_epsilon_insensitive": tube,
    "log_loss": lambda f, y: (np.logaddexp(0.0, -y * f), -y / (1.0 + np.exp(y * f))),
    "squared_hinge": lambda f, y: (
        0.5 * np.maximum(1.0 - y * f, 0.0) ** 2,
        -y * np.maximum(1.0 - y * f, 0.0),
    ),
    "exponential": lambda f, y: (np.exp(-y * f), -y * np.exp(-y * f)),
}
BINARY = "log_loss", "squared_hinge", "exponential"


def drawn(loss, n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] - 0.5 * X[:, 1] + 0.5 * rng.normal(size=n)
    if loss in BINARY:
        return X, np.where(f > 0.3, 1.0, -1.0)
    return X, np.floor(np.exp(f + 0.5)) if loss == "poisson" else f


def model(loss, **parameters):
    kind = BMRMClassifier if loss in BINARY else BMRMRegressor
    own = {"huber": {"delta": 1.0}, "squared_epsilon_insensitive": {"epsilon": 0.1}}.get(loss, {})
    given = {"reg_lambda": LAMBDA, "solver": "lbfgs", "tol": 1e-9} | own
    return kind(loss, **(given | parameters))


def reference(loss, X, y, s, free):
    """The optimum by SciPy."""

    def objective(v):
        value, slope = LOSSES[loss](X @ v[:-1] + free * v[-1], y)
        gradient = np.append(X.T @ (s * slope) + LAMBDA * v[:-1], free * (s @ slope))
        return s @ value + 0.5 * LAMBDA * v[:-1] @ v[:-1], gradient

    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 5000, "maxcor": 30}
    start = np.zeros(X.shape[1] + 1)
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize("shape", [(60, 4), (12, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_optimum_and_every_bound_against_scipy(loss, free, shape):
    X, y = drawn(loss, *shape)
    weights = np.random.default_rng(1).exponential(size=len(y)) ** 2
    best = reference(loss, X, y, weights / weights.sum(), free)
    A = sp.csr_array(X) if loss in BINARY else X
    ours = model(loss, fit_intercept=free).fit(A, y, weights)
    assert ours.status_ == "converged" and set(ours.history_["solver"]) == {"lbfgs"}
    assert (ours.history_["lower_bound"] <= best * (1 + 1e-9)).all()
    assert ours.objective_ == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("loss", [Poisson(), Exponential()], ids=["poisson", "exponential"])
def test_states_are_true_and_runs_of_one_step_are_those_of_a_long_one(loss):
    name = type(loss).__name__.lower()
    X, y = drawn(name)
    s = np.full(len(y), 1 / len(y))
    best = reference(name, X, y, s, True)
    problem = LinearProblem(rows_in_memory(X), y, s, loss, True)
    task = Task(problem, LAMBDA, L2(), 1e-9, 0.1, None)
    states = list(islice(linear_solver("lbfgs", task, LinearStart()).states(), 15))
    assert all(state.lower_bound <= best * (1 + 1e-9) for state in states)
    assert states[-1].primal == pytest.approx(best, rel=1e-6)
    again = linear_solver("lbfgs", task, LinearStart())
    for state in states:
        one = next(again.states())
        assert (one.primal, one.lower_bound) == (state.primal, state.lower_bound)
        again.detach()
        again.attach(LinearProblem(rows_in_memory(X), y, s, loss, True))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_poisson_of_wide_data_equals_poisson_regressor(n_jobs):
    """More features than any Hessian is computed for; "auto" takes L-BFGS by itself."""
    X, y = drawn("poisson", 40, 2500)
    X = X.astype(np.float32)
    ours = model("poisson", solver="auto", n_jobs=n_jobs).fit(X, y)
    Q, R = np.linalg.qr(X.T.astype(float))  # w is in the span of the 40 rows: the peer looks there
    peer = PoissonRegressor(alpha=LAMBDA, solver="newton-cholesky", tol=1e-12).fit(R.T, y)
    assert ours.status_ == "converged" and set(ours.history_["solver"]) == {"lbfgs"}
    np.testing.assert_allclose(ours.coef_, Q @ peer.coef_, atol=1e-5)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (1e4 * drawn("poisson")[0], drawn("poisson")[1]),
        (drawn("poisson")[0] * [1e-6, 1.0, 1e3, 0.0], drawn("poisson")[1]),
        (np.ones((1, 3)), np.ones(1)),
        (drawn("poisson")[0] + 100.0, drawn("poisson")[1]),
    ],
    ids=["large", "scales", "one sample", "far away"],
)
def test_hard_data_reach_tol(X, y):
    assert model("poisson", tol=1e-3).fit(X, y).status_ == "converged"


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs", "line-search"])
@pytest.mark.parametrize("value", [0.1, 3.0, 7.3e5])
def test_targets_that_are_all_the_same_are_done_at_once(solver, value):
    """What the best intercept leaves of the loss, about 1e-32, is rounding of the scores."""
    X, _ = drawn("poisson", 300, 10)
    weights = np.random.default_rng(2).exponential(size=300)
    ours = model("poisson", solver=solver).fit(X, np.full(300, value), weights)
    assert (ours.n_iter_, ours.objective_, ours.lower_bound_) == (1, 0.0, 0.0)
    assert not ours.coef_.any()


def test_unevenly_curved_rows_do_not_stop_newton():
    """Hessians of drawn rows may miss the few rows that bend; then steps come to nothing."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 5)) * rng.exponential(size=(6000, 1)) ** 2
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0.0, 1.0, -1.0)
    ours = model("exponential", solver="newton", reg_lambda=1e-6, tol=1e-6).fit(X, y)
    assert ours.status_ == "converged" and set(ours.history_["solver"]) == {"newton"}
