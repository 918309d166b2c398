"""SwapSVC: the optimum and the certificate, however it is computed."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from sklearn_bundle import SwapSVC
from tests.contract.fits import quiet
from tests.contract.kernel_machines import (
    GAMMA,
    KERNELS,
    LAYOUTS,
    SOLVERS,
    assert_true_certificate,
    coefficients,
    full_matrix,
    optimum,
    signs_of,
)
from tests.reference_cones import by_clarabel, halflines

# Some parametrizations set gamma for kernels without one.
pytestmark = pytest.mark.filterwarnings("ignore:.* ignores ")

# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimum_of_the_one_class_machine(data, kernel, layout):
    if kernel == "precomputed" and layout.startswith("csr"):
        pytest.skip("a precomputed matrix is dense")
    parameters, values = KERNELS[kernel]
    X, y = LAYOUTS[layout](data[0]), signs_of(data[1])
    rounded = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    K = values(rounded, rounded)
    if kernel == "precomputed":
        X = K.astype(X.dtype)
        K = X.astype(np.float64)
    model = SwapSVC(tol=1e-7, **parameters).fit(X, data[1])
    best = optimum(K, y, np.ones(200))
    assert model.status_ == "converged"
    assert 0.0 <= model.dual_gap_ <= 1e-7 * model.objective_
    assert model.lower_bound_ <= best * (1.0 + 1e-9)  # LIBSVM ends about 1e-10 above
    assert model.objective_ == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_optimum_by_every_algorithm(data, solver, C, weighted):
    X, y = data[0], signs_of(data[1])
    weights = np.random.default_rng(0).integers(1, 5, 200) if weighted else np.ones(200)
    tol = 1e-2 if solver == "fw" else 1e-6
    model = SwapSVC(C, gamma=GAMMA, solver=solver, tol=tol).fit(X, data[1], weights)
    best = optimum(rbf_kernel(X, gamma=GAMMA), y, C * weights)
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-9)
    assert model.objective_ == pytest.approx(best, rel=tol)
    assert model.objective_ >= best * (1.0 - 1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_optimum_of_an_interior_point_solver(data, kernel, C):
    """As the dual QP: min 1/2 alpha' M alpha - sum alpha, alpha >= 0; its value is -objective."""
    parameters, values = KERNELS[kernel]
    X, y = data[0], signs_of(data[1])
    M = full_matrix(values(X, X), y, np.full(200, C))
    alpha = by_clarabel(M, -np.ones(200), -sp.identity(200), np.zeros(200), halflines(200))
    model = SwapSVC(C, tol=1e-9, **parameters).fit(X, data[1])
    assert model.objective_ == pytest.approx(alpha.sum() - 0.5 * alpha @ M @ alpha, rel=2e-9)
    # a relative gap g leaves ||alpha - alpha*||^2 <= 2 g J C, of which 1e-3 is the root
    assert_allclose(coefficients(model, y), alpha, atol=1e-3)


def test_two_points_in_closed_form():
    """Points at distance r: alpha = 2/(k(0) - k(r) + 1/C + ...) by symmetry, b = 0."""
    X, C = np.array([[0.0], [1.0]]), 2.0
    model = SwapSVC(C, gamma=1.0, tol=1e-12).fit(X, [0, 1])
    alpha = 1.0 / (1.0 - np.exp(-1.0) + 1.0 / C)
    assert_allclose(model.dual_coef_, [[-alpha, alpha]], rtol=1e-12)
    assert_allclose(model.intercept_, [0.0], atol=1e-12)
    assert model.objective_ == pytest.approx(alpha, rel=1e-12)


# ---- the certificate --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_certificate_after_many_steps(data, solver):
    """Rounding of the rows and of the running sums must not reach the certificate."""
    X, y = data[0], signs_of(data[1])
    model = quiet(SwapSVC(100.0, gamma=GAMMA, solver=solver, max_iter=5000), X, data[1])
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), y, np.full(200, 100.0))


def test_certificate_of_every_pair(data):
    X, y = load_iris(return_X_y=True)
    model = SwapSVC(gamma=GAMMA, tol=1e-6).fit(X, y)
    assert model.status_ == ["converged"] * 3 and len(model.history_) == 3
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        members = np.flatnonzero((y == i) | (y == j))
        K = rbf_kernel(X[members], gamma=GAMMA)
        best = optimum(K, np.where(y[members] == i, 1.0, -1.0), np.ones(len(members)))
        assert model.lower_bound_[k] <= best * (1.0 + 1e-9)
        assert model.objective_[k] == pytest.approx(best, rel=2e-6)
        assert 0.0 <= model.dual_gap_[k] <= 1e-6 * model.objective_[k]
        assert model.n_iter_[k] == model.history_[k]["iteration"][-1]


# ---- other ways to the same result ------------------------------------------------------------


def test_precomputed_is_rbf(data):
    X, y = data
    K = rbf_kernel(X, gamma=GAMMA)
    ours, given = (SwapSVC(kernel=k, gamma=GAMMA, tol=1e-8) for k in ("rbf", "precomputed"))
    ours.fit(X, y), given.fit(K, y)
    assert ours.objective_ == pytest.approx(given.objective_, rel=2e-8)
    assert_allclose(ours.decision_function(X), given.decision_function(K), atol=1e-2)
    assert (
        given.support_vectors_.shape == SVC(kernel="precomputed").fit(K, y).support_vectors_.shape
    )


@pytest.mark.matrix
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 20, 1000])
def test_few_cached_rows_give_the_same_result(data, rows, tol):
    X, y = data
    model = SwapSVC(gamma=GAMMA, tol=tol, cache_size=max(rows, 0.1) * 1e-3)
    model.fit(X, y)
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-9)
    assert model.objective_ == pytest.approx(best, rel=tol)


@pytest.mark.parametrize("parameters", [{}, {"solver": "swap"}, {"solver": "swap-2o"}], ids=str)
def test_other_ways_to_the_same_optimum(data, parameters):
    X, y = data
    model = SwapSVC(gamma=GAMMA, tol=1e-6, random_state=0, **parameters).fit(X, y)
    assert model.status_ == "converged"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.objective_ == pytest.approx(best, rel=2e-6)
    again = clone(model).fit(X, y)
    assert_array_equal(model.support_, again.support_)
    assert_array_equal(model.dual_coef_, again.dual_coef_)
