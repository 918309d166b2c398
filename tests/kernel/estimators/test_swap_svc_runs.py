"""SwapSVC: where a fit ends, and what an active set must not change."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SwapSVC
from tests.contract.fits import quiet
from tests.contract.kernel_machines import (
    GAMMA,
    KERNELS,
    assert_true_certificate,
    optimum,
    signs_of,
)

# Some parametrizations set gamma for kernels without one.
pytestmark = pytest.mark.filterwarnings("ignore:.* ignores ")

# ---- the growing active set -------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    return make_classification(600, 8, n_informative=5, flip_y=0.05, random_state=0)


@pytest.fixture(scope="module")
def without_active_set(many):
    model = SwapSVC(gamma=GAMMA, tol=1e-4, active_set=None).fit(*many)
    return model.objective_


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("size, cache_size", [(2, 1000), (40, 1000), (400, 1000), (400, 0.5)])
@pytest.mark.parametrize("kernel", ["rbf", "csr", "precomputed", "callable"])
def test_active_set_reaches_the_same_objective(many, without_active_set, kernel, size, cache_size):
    X, y = many
    model = SwapSVC(gamma=GAMMA, tol=1e-4, active_set=size, random_state=0, cache_size=cache_size)
    if kernel == "csr":
        X = sp.csr_matrix(X)
    elif kernel == "precomputed":
        X = rbf_kernel(X, gamma=GAMMA)
        model.set_params(kernel=kernel)
    elif kernel == "callable":
        model.set_params(kernel=KERNELS["callable"][0]["kernel"])
    model.fit(X, y)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(without_active_set, rel=1e-4)
    active = model.history_["active"]
    assert (np.diff(active) >= 0).all() and len(model.support_) <= active[-1]


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("size", [20, 50, 200])
@pytest.mark.parametrize("max_iter", [1, 50, 100, 300, 700])
def test_active_set_stopped_early_has_a_true_certificate(many, size, max_iter):
    """Also where the last look was at a sample of the points."""
    X, y = many
    model = SwapSVC(gamma=GAMMA, active_set=size, max_iter=max_iter, tol=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(len(y)))


def test_a_class_of_one_point(many):
    X, _ = many
    y = np.zeros(len(X), dtype=int)
    y[7] = 1
    model = SwapSVC(gamma=GAMMA, active_set=20, tol=1e-3, random_state=0).fit(X, y)
    expected = clone(model).set_params(active_set=None).fit(X, y).objective_
    assert model.objective_ == pytest.approx(expected, rel=2e-3)


# ---- where it stops ---------------------------------------------------------------------------


def test_a_tol_below_rounding_ends_at_the_optimum(data):
    X, y = data
    model = quiet(SwapSVC(gamma=GAMMA, tol=1e-300), X, y)
    assert model.status_ == ("converged" if model.dual_gap_ == 0.0 else "stalled")
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.objective_ == pytest.approx(best, rel=1e-10)
