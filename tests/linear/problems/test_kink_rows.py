"""Small problems with one kink per row, solved at once: optima of another solver, plain shapes."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.linear.problems.kink_rows import is_small, takes_all_rows
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import Hinge
from tests import reference, reference_regression
from tests.contract.judge import judge

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

LOSSES = {"hinge": {}, "absolute_error": {}, "quantile": {"quantile": 0.8}}
SHAPES = ["plain", "one row", "one column", "constant", "one weight", "large", "copies", "csr"]


def case(shape, seed=0):
    """X, y in {-1, 1} and weights of a plain shape."""
    rng = np.random.default_rng(seed)
    n, d = {"one row": (1, 3), "one column": (60, 1)}.get(shape, (60, 5))
    X, weights = rng.normal(size=(n, d)), np.ones(n)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)
    if shape == "constant":
        X[:, 1] = 2.0
    elif shape == "large":
        X[:, 2] *= 1e8
    elif shape == "copies":
        X, y = np.tile(X[:6], (10, 1)), np.tile(y[:6], 10)
    elif shape == "one weight":
        weights[:] = 0.0
        weights[3] = 1.0
    return sp.csr_array(X) if shape == "csr" else X, y, weights


def fitted(loss, X, y, weights, **parameters):
    kind = BMRMClassifier if loss == "hinge" else BMRMRegressor
    return kind(loss, solver="newton", **LOSSES[loss], **parameters).fit(X, y, weights)


def optimum(loss, X, y, weights, reg_lambda, free):
    X, share = X.toarray() if sp.issparse(X) else X, weights / weights.sum()
    if loss == "hinge":
        return reference.optimum(loss, X, y, share, reg_lambda, free)
    return reference_regression.optimum(loss, X, y, share, reg_lambda, free, **LOSSES[loss])


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("reg_lambda", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("loss", LOSSES)
def test_optimum_of_another_solver_in_one_iteration(loss, reg_lambda, free):
    X, y, weights = case("plain")
    y = y if loss == "hinge" else y + np.random.default_rng(1).normal(size=len(y))
    for tol in (1e-2, 1e-8):
        model = fitted(loss, X, y, weights, reg_lambda=reg_lambda, fit_intercept=free, tol=tol)
        assert model.n_iter_ == 1 and model.status_ == "converged"
        best = optimum(loss, X, y, weights, reg_lambda, free)
        assert model.lower_bound_ <= best * (1 + 1e-8) <= model.objective_ * (1 + 2e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
def test_plainest_shapes(loss, shape):
    X, y, weights = case(shape)
    if shape in ("one row", "one weight") and loss == "hinge":
        with pytest.raises(ValueError, match="class"):
            fitted(loss, X, y, weights)
        return
    model = fitted(loss, X, y, weights, reg_lambda=1e-3, tol=1e-6)
    assert model.status_ == "converged"
    judge(model, X, y, weights)


def test_rows_and_columns_that_are_small_enough():
    def problem(n, d, free=True):
        return LinearProblem(
            rows_in_memory(np.ones((n, d))), np.ones(n), np.ones(n) / n, Hinge(), free
        )

    assert is_small(problem(569, 30)) and is_small(problem(1, 1)) and is_small(problem(64, 1))
    assert not is_small(problem(65, 1)) and is_small(problem(32, 1, False))
    assert not is_small(problem(33, 1, False)) and not is_small(problem(10_000, 400))
    # As many rows as are taken near their kinks anyway.
    assert takes_all_rows(problem(800, 100)) and not is_small(problem(800, 100))
    assert not takes_all_rows(problem(900, 100))


def test_where_it_fails_steps_go_on(monkeypatch):
    """A point that proves too little is only a first one."""
    X, y, weights = case("plain")
    name = "sklearn_bundle.linear.solvers.newton.solved_at_kinks"
    monkeypatch.setattr(name, lambda *given: None)
    model = fitted("hinge", X, y, weights, reg_lambda=1e-3)
    assert model.status_ == "converged" and model.n_iter_ > 1
    judge(model, X, y, weights)
