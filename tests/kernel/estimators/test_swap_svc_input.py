"""Wrong input to SwapSVC: reported before any work."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SwapSVC
from tests.contract.fits import quiet
from tests.contract.kernel_machines import (
    signs_of,
)


def test_sigmoid_is_refused(data):
    with pytest.raises(ValueError, match="kernel='sigmoid' is not positive definite"):
        SwapSVC(kernel="sigmoid").fit(*data)


def test_ties_of_pairs_cannot_be_broken():
    with pytest.raises(ValueError, match="break_ties=True needs decision_function_shape='ovr'"):
        SwapSVC(break_ties=True, decision_function_shape="ovo").fit(*load_iris(return_X_y=True))


@pytest.mark.parametrize(
    "convert, message",
    [
        (lambda K: K[:, :50], r"square.*\(200, 50\)"),
        (lambda K: sp.csr_matrix(K), "dense"),
        (lambda K: np.where(np.eye(200) > 0, np.nan, K), "NaN"),
        (lambda K: np.where(np.eye(200) > 0, np.inf, K), "infinity"),
        (lambda K: K[0], "2D array"),
    ],
)
def test_bad_precomputed_matrix(data, convert, message):
    model = SwapSVC(kernel="precomputed")
    with pytest.raises(ValueError, match=message):
        model.fit(convert(rbf_kernel(data[0])), data[1])
    assert not hasattr(model, "classes_")


def test_a_sparse_precomputed_matrix_at_prediction(data):
    K = rbf_kernel(data[0])
    model = SwapSVC(kernel="precomputed").fit(K, data[1])
    with pytest.raises((ValueError, TypeError), match=r"[Ss]parse|dense"):
        model.predict(sp.csr_matrix(K))


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_other_columns_at_prediction(data, kernel, method):
    X = rbf_kernel(data[0]) if kernel == "precomputed" else data[0]
    model = SwapSVC(kernel=kernel).fit(X, data[1])
    d = X.shape[1]
    with pytest.raises(ValueError, match=f"X has {d - 1} features, .* expecting {d} features"):
        getattr(model, method)(X[:, :-1])
    with pytest.raises(ValueError, match="NaN"):
        getattr(model, method)(np.full((2, d), np.nan))


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda X, Z: np.ones(len(X)), r"shape \(.*,\).*expected shape"),
        (lambda X, Z: np.ones((len(Z) + 1, len(X))), "expected shape"),
        (lambda X, Z: np.full((len(X), len(Z)), np.nan), "NaN or infinity"),
        (lambda X, Z: np.full((len(X), len(Z)), np.inf), "NaN or infinity"),
        (lambda X, Z: None, "expected shape"),
    ],
)
def test_bad_callable(data, function, message):
    model = SwapSVC(kernel=function)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "classes_")


def test_an_error_of_the_callable_comes_through(data):
    def failing(X, Z):
        raise RuntimeError("a user's kernel failed")

    model = SwapSVC().fit(*data)
    before = model.decision_function(data[0])
    with pytest.raises(RuntimeError, match="a user's kernel failed"):
        model.set_params(kernel=failing).fit(*data)
    assert_array_equal(model.decision_function(data[0]), before)


@pytest.mark.parametrize("scale", [1e-4, 1e-2])
def test_small_kernel_values_beside_the_one_that_is_added(data, scale):
    """Rounding of k + 1 is that of 1; C is large, so that Q is small against it."""
    X, y = data[0][:, :2] * scale, signs_of(data[1])
    model = quiet(SwapSVC(1e6, kernel="linear", max_iter=5000), X, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    scores = X @ (X.T @ coef) + coef.sum()
    objective = 0.5 * coef @ scores + 0.5e6 * np.sum(np.maximum(0.0, 1.0 - y * scores) ** 2)
    assert model.objective_ == pytest.approx(objective, rel=1e-6)  # Q loses 1e-16/Q
