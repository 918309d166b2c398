"""SwapSVC: where a fit ends, and what an active set must not change."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SwapSVC
from sklearn_bundle.kernel._compiled import lazy, swap
from sklearn_bundle.kernel.problems import l2svm
from tests.contract.fits import quiet
from tests.contract.interrupts import interrupt
from tests.contract.kernel_machines import (
    GAMMA,
    KERNELS,
    SOLVERS,
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


@pytest.mark.parametrize("max_iter", [100, 128, 1000])
def test_max_iter_counts_steps_with_an_active_set(many, max_iter):
    model = SwapSVC(gamma=GAMMA, active_set=20, max_iter=max_iter, tol=1e-8, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(*many)
    assert model.n_iter_ == max_iter


def test_a_class_of_one_point(many):
    X, _ = many
    y = np.zeros(len(X), dtype=int)
    y[7] = 1
    model = SwapSVC(gamma=GAMMA, active_set=20, tol=1e-3, random_state=0).fit(X, y)
    expected = clone(model).set_params(active_set=None).fit(X, y).objective_
    assert model.objective_ == pytest.approx(expected, rel=2e-3)


# ---- where it stops ---------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_a_miss_warns_once_and_says_what_to_change(classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    message = r"'max_iter' after 3 iterations at a relative duality gap of .*, above tol.*Increase"
    with pytest.warns(ConvergenceWarning, match=message) as record:
        model = SwapSVC(max_iter=3, tol=1e-9).fit(X, y)
    assert len(record) == 1 and (np.atleast_1d(model.n_iter_) == 3).all()
    assert record[0].filename == __file__


@pytest.mark.wide
@pytest.mark.parametrize("max_iter", [1, 31, 127, 128, 129, 300])
@pytest.mark.parametrize("solver", SOLVERS)
def test_max_iter_leaves_a_true_certificate(data, solver, max_iter):
    X, y = data
    model = SwapSVC(10.0, gamma=GAMMA, solver=solver, max_iter=max_iter, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert model.status_ == "max_iter" and model.n_iter_ == max_iter
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(200, 10.0))


@pytest.mark.parametrize("active_set", [None, 20])
def test_max_time_leaves_a_true_certificate(data, active_set):
    X, y = data
    model = SwapSVC(10.0, gamma=GAMMA, max_time=1e-9, tol=1e-12, active_set=active_set)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    assert model.status_ == "max_time"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(200, 10.0))


def test_a_tol_below_rounding_ends_at_the_optimum(data):
    X, y = data
    model = quiet(SwapSVC(gamma=GAMMA, tol=1e-300), X, y)
    assert model.status_ == ("converged" if model.dual_gap_ == 0.0 else "stalled")
    best = optimum(rbf_kernel(X, gamma=GAMMA), signs_of(y), np.ones(200))
    assert model.objective_ == pytest.approx(best, rel=1e-10)


STEPS = (lazy, "run"), (swap, "run")  # compiled: Ctrl-C while they run is seen after them


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("kernel", ["rbf", "csr"])
@pytest.mark.parametrize("call", [1, 2, 5])
def test_ctrl_c_keeps_the_best_point(many, kernel, call, monkeypatch):
    X, y = many
    data = sp.csr_matrix(X) if kernel == "csr" else X
    model = SwapSVC(10.0, gamma=GAMMA, tol=1e-5, active_set=None)
    clone(model).set_params(tol=0.5).fit(data, y)  # compiles, which what is patched cannot be
    interrupt(monkeypatch, call, *STEPS, after=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert model.status_ == "interrupted"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(600, 10.0))


@pytest.mark.matrix
@pytest.mark.parametrize("call", [1, 2, 5])
@pytest.mark.parametrize("method", ["working_products", "part", "gram", "primal_value"])
def test_ctrl_c_with_an_active_set(many, method, call, monkeypatch):
    X, y = many
    interrupt(monkeypatch, call, (l2svm.L2SVM, method))
    model = SwapSVC(10.0, gamma=GAMMA, tol=1e-5, active_set=50, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert_true_certificate(model, rbf_kernel(X, gamma=GAMMA), signs_of(y), np.full(600, 10.0))


@pytest.mark.wide
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_with_several_pairs(n_jobs, monkeypatch):
    X, y = load_digits(return_X_y=True)
    interrupt(monkeypatch, 7, *STEPS, after=True)
    model = SwapSVC(tol=1e-9, solver="swap-2o", n_jobs=n_jobs, warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert "interrupted" in model.status_ and len(model.status_) == 45
    assert np.isfinite(model.dual_gap_).all() and model.predict(X).shape == y.shape
    assert not hasattr(model, "_warm")
