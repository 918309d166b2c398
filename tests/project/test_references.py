"""The references' optima against scikit-learn, and against neighboring points."""

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

from tests import reference_multiclass
from tests.reference_regression import drawn, objective, optimum, solution

COST = np.array([[0, 1, 2], [0.5, 0, 1], [2, 1, 0]])


def classified(n=45, d=3):
    rng = np.random.default_rng(15)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) + 1.5 * np.eye(3, d)[y] + 0.3
    return X, y, np.full(n, 1.0 / n)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_softmax_equals_logistic_regression(fit_intercept):
    X, y, weights = classified()
    lowest, W, _ = reference_multiclass.optimum(X, y, weights, 0.02, fit_intercept, kind="softmax")
    C = 1.0 / (len(y) * 0.02)
    peer = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=1000).fit(X, y)
    found = peer.coef_, peer.intercept_
    again = reference_multiclass.objective(X, y, weights, 0.02, *found, kind="softmax")
    assert lowest == pytest.approx(again, rel=1e-9)
    np.testing.assert_allclose(W, peer.coef_, atol=1e-4)


def test_hinge_of_classes_equals_crammer_singer():
    X, y, weights = classified()
    lowest, _, b = reference_multiclass.optimum(X, y, weights, 0.02, False)
    C = 1.0 / (len(y) * 0.02)
    parameters = {"C": C, "fit_intercept": False, "tol": 1e-8, "max_iter": 100000}
    peer = LinearSVC(multi_class="crammer_singer", **parameters).fit(X, y)
    again = reference_multiclass.objective(X, y, weights, 0.02, peer.coef_, b)
    assert lowest == pytest.approx(again, rel=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kind": "softmax"},
        {},
        {"cost": COST},
        {"cost": COST, "scaling": "slack"},
        {"ancestors": np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0]])},
    ],
)
def test_optimum_of_classes_has_no_better_neighbor(parameters, fit_intercept):
    X, y, weights = classified()
    lowest, W, b = reference_multiclass.optimum(X, y, weights, 0.02, fit_intercept, **parameters)
    rng = np.random.default_rng(16)
    for size in np.repeat([1e-4, 1e-2, 1.0], 10):
        moved = (
            W + size * rng.normal(size=W.shape),
            b + size * fit_intercept * rng.normal(size=len(b)),
        )
        assert (
            lowest
            <= reference_multiclass.objective(X, y, weights, 0.02, *moved, **parameters) + 1e-10
        )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("multivariate", [True, False])
def test_squared_error_equals_ridge(fit_intercept, multivariate):
    X, y, weights = drawn()
    y = np.c_[y, X[:, 0] - y] if multivariate else y
    name = "multivariate_squared_error" if multivariate else "squared_error"
    w, b, best = solution(name, X, y, weights, 0.1, fit_intercept)
    ridge = Ridge(0.1, fit_intercept=fit_intercept).fit(X, y, weights)
    np.testing.assert_allclose(w, ridge.coef_.T, atol=1e-7)
    np.testing.assert_allclose(b, ridge.intercept_, atol=1e-7)
    theirs = objective(name, X, y, weights, 0.1, ridge.coef_.T, ridge.intercept_)
    assert best == pytest.approx(theirs, rel=1e-9)


def test_poisson_and_huber_equal_scikit_learns_regressors():
    X, y, weights = drawn()
    counts = np.round(np.abs(y))
    poisson = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, counts, weights)
    theirs = objective("poisson", X, counts, weights, 0.1, poisson.coef_, poisson.intercept_)
    assert optimum("poisson", X, counts, weights, 0.1, True) == pytest.approx(theirs, rel=1e-8)
    # HuberRegressor fits a scale, sigma, too; at its sigma delta is epsilon * sigma
    huber = HuberRegressor(epsilon=1.5, alpha=1e-2, tol=1e-10, max_iter=1000)
    huber.fit(X, y, weights)
    delta, reg_lambda = 1.5 * huber.scale_, 1e-2 * huber.scale_
    best = optimum("huber", X, y, weights, reg_lambda, True, delta=delta)
    theirs = objective(
        "huber", X, y, weights, reg_lambda, huber.coef_, huber.intercept_, delta=delta
    )
    assert best == pytest.approx(theirs, rel=1e-7)
