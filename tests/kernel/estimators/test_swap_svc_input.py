"""Wrong input to SwapSVC: reported before any work."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SwapSVC
from tests.contract.fits import quiet
from tests.contract.kernel_machines import (
    signs_of,
)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.0},
        {"C": -1.0},
        {"C": np.inf},
        {"C": np.nan},
        {"C": "1"},
        {"kernel": "laplacian"},
        {"kernel": None},
        {"gamma": 0.0},
        {"gamma": -1.0},
        {"gamma": np.nan},
        {"gamma": np.inf},
        {"gamma": "mean"},
        {"gamma": None},
        {"degree": -1},
        {"degree": 1.5},
        {"coef0": -1.0},
        {"coef0": np.nan},
        {"coef0": np.inf},
        {"solver": "smo"},
        {"tol": 0.0},
        {"tol": -1.0},
        {"max_iter": 0},
        {"max_iter": -1},
        {"max_iter": 1.5},
        {"max_time": 0.0},
        {"cache_size": 0.0},
        {"cache_size": -1},
        {"cache_size": np.inf},
        {"n_candidates": 0},
        {"n_candidates": 1.5},
        {"n_initial": 0},
        {"active_set": 0},
        {"active_set": 1},
        {"active_set": "all"},
        {"active_set": 20.0},
        {"class_weight": "even"},
        {"decision_function_shape": "ovx"},
        {"break_ties": "yes"},
        {"warm_start": None},
        {"n_jobs": 1.5},
        {"random_state": "seed"},
        {"verbose": -1},
    ],
    ids=str,
)
def test_bad_parameter_is_named(data, parameters):
    ((name, value),) = parameters.items()
    model = SwapSVC(**parameters)
    with pytest.raises(ValueError) as error:
        model.fit(*data)
    assert f"The '{name}' parameter of SwapSVC must be" in str(error.value)
    assert f"Got {value!r} instead" in str(error.value)
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "classes_")


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


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_not_fitted(data, method):
    with pytest.raises(NotFittedError):
        getattr(SwapSVC(), method)(data[0])


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


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda X, y: {"y": np.ones(len(y))}, "2 classes in y .* only one class: .*1.0"),
        (lambda X, y: {"y": np.eye(3, dtype=int)[y]}, "one label per sample.*multilabel"),
        (lambda X, y: {"y": y + 0.5}, "Unknown label type"),
        (lambda X, y: {"X": np.where(X[3, 3] == X, np.nan, X)}, "Input X contains NaN"),
        (lambda X, y: {"sample_weight": -np.ones(len(y))}, "Negative values.*sample_weight"),
        (lambda X, y: {"sample_weight": np.zeros(len(y))}, "at least one non-zero"),
        (lambda X, y: {"sample_weight": (y == 1).astype(float)}, "2 classes in y"),
        (lambda X, y: {"sample_weight": np.full(len(y), 1e308)}, "C"),
    ],
)
def test_bad_data(data, change, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        SwapSVC().fit(**({"X": X, "y": y} | change(X, y)))


@pytest.mark.wide
@pytest.mark.parametrize("n_initial", [2, 5])
def test_a_start_on_a_few_points_leaves_shared_values_alone(n_initial):
    """Rows of a part of a pair are shorter than those that the pairs share."""
    X, y = load_digits(return_X_y=True)
    model = SwapSVC(n_initial=n_initial, tol=1e-3, random_state=0).fit(X, y)
    plain = SwapSVC(tol=1e-3, solver="swap-2o").fit(X, y)
    assert_allclose(model.objective_, plain.objective_, rtol=2e-3)
    assert set(model.status_) == {"converged"}


@pytest.mark.parametrize("scale", [1e-4, 1e-2])
@pytest.mark.parametrize("active_set", [None, 50])
def test_small_kernel_values_beside_the_one_that_is_added(data, scale, active_set):
    """Rounding of k + 1 is that of 1; C is large, so that Q is small against it."""
    X, y = data[0][:, :2] * scale, signs_of(data[1])
    model = quiet(SwapSVC(1e6, kernel="linear", active_set=active_set, max_iter=5000), X, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    scores = X @ (X.T @ coef) + coef.sum()
    objective = 0.5 * coef @ scores + 0.5e6 * np.sum(np.maximum(0.0, 1.0 - y * scores) ** 2)
    assert model.objective_ == pytest.approx(objective, rel=1e-6)  # Q loses 1e-16/Q
