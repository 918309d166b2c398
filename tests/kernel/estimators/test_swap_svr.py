"""SwapSVR: the optimum in closed form and of the linear estimator; wrong input."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from sklearn_bundle import BMRMRegressor, SwapSVR
from tests.contract.fits import quiet

LINEAR, SQUARED = "epsilon_insensitive", "squared_epsilon_insensitive"


@cache
def diabetes(n=120):
    X, y = load_diabetes(return_X_y=True)
    return scale(X[:n]), scale(y[:n])


def test_without_a_tube_it_is_ridge_regression_with_a_free_intercept():
    """``(K + I/C) beta + b = y`` with the sum 0 of beta."""
    X, y = diabetes()
    K, n = rbf_kernel(X, gamma=0.05), len(y)
    system = np.block([[K + np.eye(n) / 3.0, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(system, np.append(y, 0.0))
    model = SwapSVR(3.0, loss=SQUARED, epsilon=0.0, gamma=0.05, tol=1e-12)
    quiet(model, X, y)
    assert_allclose(model.dual_coef_[0], found[:-1][model.support_], atol=1e-5)
    assert_allclose(model.intercept_, found[-1:], atol=1e-5)
    assert_allclose(model.predict(X), K @ found[:-1] + found[-1], atol=1e-5)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_a_linear_kernel_is_the_linear_estimator(loss):
    """BMRMRegressor has no penalty on its intercept either."""
    X, y = diabetes()
    peer = BMRMRegressor(loss=loss, epsilon=0.2, C=1.0, tol=1e-9).fit(X, y)
    model = SwapSVR(1.0, loss=loss, epsilon=0.2, kernel="linear", tol=1e-9).fit(X, y)
    assert_allclose(model.objective_, len(y) * peer.objective_, rtol=1e-8)  # of its mean
    assert_allclose(model.coef_[0], peer.coef_, atol=1e-3)


def test_no_objective_is_above_that_of_a_constant():
    """Of repeated points with values of 1e20, where rounding hides what their weights gain."""
    X = np.repeat([[3450.8, 0.0], [0.0, -4971.6]], 3, axis=0)
    y = np.array([-26, 9, 12, -1, 11, -13])
    model = SwapSVR(500.0, kernel="poly", gamma=0.5, loss=SQUARED, epsilon=0.0, max_iter=10)
    quiet(model, X, y)
    constant = 250.0 * np.sum(np.square(y - y.mean()))
    assert 0.0 <= model.lower_bound_ <= model.objective_ <= (1.0 + 1e-6) * constant


@pytest.mark.parametrize(
    "parameters, X, y, message",
    [
        ({"epsilon": -0.1}, None, None, "The 'epsilon' parameter of SwapSVR must be"),
        ({"kernel": "sigmoid"}, None, None, "kernel='sigmoid' is not positive definite"),
        ({"kernel": "precomputed"}, np.ones((4, 3)), np.ones(4), r"square.*\(4, 3\)"),
        ({"kernel": "precomputed"}, sp.eye(4).tocsr(), np.ones(4), "dense"),
        ({}, np.ones((4, 2)), np.ones((4, 2)), r"one number per sample.*\(4, 2\)"),
        ({"C": 1e200}, None, None, "C times the sample weights"),
    ],
    ids=str,
)
def test_wrong_input_is_named(parameters, X, y, message):
    X, y = diabetes() if X is None else (X, y)
    model = SwapSVR(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
