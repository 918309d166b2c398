"""SwapSVRCV: the same scores and model as a search that fits every fold by itself."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import scale

from sklearn_bundle import SwapSVR, SwapSVRCV

# Some parametrizations set gamma for kernels without one.
pytestmark = pytest.mark.filterwarnings("ignore:.* ignores ")

CS = [0.01, 0.1, 10.0]
GAMMA = 0.05
FOLDS = KFold(3, shuffle=True, random_state=0)


@cache
def diabetes(n=120):
    X, y = load_diabetes(return_X_y=True)
    return scale(X[:n]), scale(y[:n])


def search(X, y, **parameters):
    """GridSearchCV over SwapSVR with the same folds."""
    grid = GridSearchCV(SwapSVR(**parameters), {"C": CS}, cv=FOLDS).fit(X, y)
    return grid, np.array([grid.cv_results_[f"split{k}_test_score"] for k in range(3)])


def waves(n=1000):
    """Of many points with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)


@pytest.mark.wide
@pytest.mark.parametrize(
    "kernel",
    ["rbf", "linear", lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA)],
    ids=["rbf", "linear", "callable"],
)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
def test_scores_and_model_of_a_search(kernel, convert):
    X, y = diabetes()
    settings = {"kernel": kernel, "gamma": GAMMA, "epsilon": 0.2, "tol": 1e-9}
    if callable(kernel) and convert is sp.csr_matrix:
        settings["kernel"] = lambda X, Z: (X @ Z.T).tocsr()
    X = convert(X)
    model = SwapSVRCV(CS, cv=FOLDS, **settings).fit(X, y)
    grid, scores = search(X, y, **settings)
    assert_allclose(model.scores_, scores, atol=1e-5)
    assert_array_equal(model.mean_test_scores_, model.scores_.mean(axis=0))
    assert model.C_ == grid.best_params_["C"] == CS[np.argmax(model.mean_test_scores_)]
    assert_allclose(model.predict(X), grid.predict(X), atol=1e-5)
    assert model.converged_ and model.dual_gap_ <= 1e-9 * model.objective_


@pytest.mark.wide
@pytest.mark.parametrize("cache_size", [1000, 1], ids=["kept values", "no space for them"])
def test_many_points_have_the_scores_of_a_search(cache_size):
    """Each C starts from the last one."""
    X, y = waves()
    settings = {"gamma": 0.3, "tol": 1e-5, "cache_size": cache_size, "random_state": 0}
    model = SwapSVRCV(CS, cv=FOLDS, **settings).fit(X, y)
    _, scores = search(X, y, **settings)
    # a gap of 1e-5 J leaves sqrt(2e-5 J) of freedom in the function, on average far less
    assert_allclose(model.scores_, scores, atol=1e-3)


@pytest.mark.wide
@pytest.mark.parametrize("tol", [1e-2, 1e-10])
def test_precomputed_and_callable_kernels_are_the_same_search(tol):
    X, y = diabetes()
    K = rbf_kernel(X, gamma=GAMMA)

    def kernel(X, Z):
        return rbf_kernel(X, Z, gamma=GAMMA)

    model = SwapSVRCV(CS, cv=FOLDS, gamma=GAMMA, tol=tol).fit(X, y)
    given = SwapSVRCV(CS, cv=FOLDS, kernel="precomputed", tol=tol).fit(K, y)
    called = SwapSVRCV(CS, cv=FOLDS, kernel=kernel, tol=tol).fit(X, y)
    for other, points in ((given, K), (called, X)):
        assert other.C_ == model.C_
        if tol == 1e-10:  # at 1e-2 rounding of values decides which steps are the last
            assert_allclose(other.scores_, model.scores_, atol=1e-5)
            assert_allclose(other.predict(points), model.predict(X), atol=1e-5)


def test_a_kernel_on_strings():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("ab"), 2 + k % 4)) for k in range(40)]
    y = np.array([word.count("a") for word in X], dtype=float)
    count = np.vectorize(lambda word: float(word.count("a")))
    model = SwapSVRCV([0.1, 10.0], kernel=lambda X, Z: np.outer(count(X), count(Z))).fit(X, y)
    assert model.C_ == 10.0 and model.scores_.min() > 0.5
    assert_allclose(model.predict(X), y, atol=0.3)


def test_a_callable_score_sees_the_model_of_each_value():
    X, y = diabetes()
    seen = []

    def score(model, Z, y):
        seen.append(model.C)
        return -float(np.mean((y - model.predict(Z)) ** 2))

    model = SwapSVRCV(CS, cv=2, scoring=score).fit(X, y)
    assert seen == CS * 2 and model.scores_.max() < 0.0
