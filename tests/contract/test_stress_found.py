"""Linear fits that random problems found wrong: bounds above optima, hangs, stalls, errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.regularizers import Quadratic, WeightedL1
from tests.contract.draws import draw, draw_plain, verdict
from tests.contract.fits import quiet


@pytest.mark.parametrize(
    "kind, loss, solver",
    [
        (WeightedL1, "squared_error", "auto"),
        (WeightedL1, "squared_error", "line-search"),
        (WeightedL1, "quantile", "auto"),
        (WeightedL1, "huber", "cutting-plane"),
        (Quadratic, "huber", "auto"),
        (Quadratic, "huber", "lbfgs"),
        (Quadratic, "quantile", "auto"),
    ],
)
def test_bounds_with_unpenalized_features_far_from_their_optimum(kind, loss, solver):
    """A plane that falls along such a feature has no minimum, however short the way so far."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X @ [1.0, 0.5, 0.2, 0.0, 0.3] + 0.1 * rng.normal(size=200)
    X[:, :2] *= 1e-3
    given = {"regularizer": kind([0.0, 0.0, 1.0, 1.0, 1.0]), "reg_lambda": 0.1, "solver": solver}
    best = quiet(BMRMRegressor(loss, tol=1e-4, **given), X, y)
    assert best.converged_
    for most in (1, 2, 3, 5, 8):
        early = quiet(BMRMRegressor(loss, max_iter=most, **given), X, y)
        assert early.lower_bound_ <= best.objective_ <= early.objective_ * (1 + 1e-4)


@pytest.mark.parametrize("seed, most", [(871000301, 30), (871001181, 30)])
def test_no_progress_that_rounding_takes_back(seed, most):
    """With a reg_lambda below the rounding of slopes, steps raised the bound for ever."""
    problem = draw(seed, "BMRMRegressor")
    assert quiet(problem.model, problem.X, problem.y, problem.weights).n_iter_ <= most


@pytest.mark.parametrize(
    "seed, name, plain, most",
    [
        (871000226, "BMRMClassifier", False, 50),  # repeated columns
        (871001000, "BMRMRegressor", False, 50),  # residuals of the inner problem that cancel
        (871000842, "BMRMClassifier", False, 300),  # an intercept where the loss is flat
        (872001402, "BMRMClassifier", True, 50),  # an intercept that no plane has
    ],
)
def test_converges(seed, name, plain, most):
    problem = (draw_plain if plain else draw)(seed, name)
    model = problem.model.fit(problem.X, problem.y, problem.weights, **problem.further)
    assert model.converged_ and np.max(model.n_iter_) <= most


@pytest.mark.parametrize("seed", [1029, 1031, 1032, 1034, 1000, 1019])
def test_data_that_a_plane_nearly_separates(seed):
    """A width that fell while a ridge shortened the steps, or ever new ridges, left large gaps."""
    rng, first = np.random.default_rng(seed), seed in (1000, 1019)
    n = rng.integers(*((500, 4000) if first else (1500, 3000)))
    d = rng.integers(*((30, 200) if first else (60, 180)))
    X = sp.csr_array((rng.random((n, d)) < 0.15).astype(float))
    i = (seed - 1019) % 3
    noise, reg_lambda = (0.1, 1e-7) if first else ([0.1, 0.02, 0.3][i], [1e-7, 1e-6, 1e-8][i])
    y = np.sign(X @ rng.normal(size=d) + noise * rng.normal(size=n))
    assert quiet(BMRMClassifier(reg_lambda=reg_lambda), X, y).converged_


@pytest.mark.parametrize("seed, estimator", [(884000323, "SwapSVC"), (883000271, None)])
def test_random_problems_that_had_a_false_certificate(seed, estimator):
    """A negative best scale where kernel values cancel; intercepts of softmax that drift as one."""
    found = verdict(draw(seed, estimator))
    assert not found.crashed and not found.faults
