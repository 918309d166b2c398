"""Kernel values that are not symmetric, or not positive semidefinite, are errors that say where."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from sklearn_bundle import SwapNoveltyDetector, SwapSVC, SwapSVCCV, SwapSVR, SwapSVRCV
from sklearn_bundle.kernel.values import data as kernel_data
from sklearn_bundle.kernel.values.data import KernelData, some_points
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.contract.fits import quiet
from tests.contract.judge import judge

MACHINES = [
    SwapSVC(),
    SwapSVC(solver="decomposition"),
    SwapSVR(),
    SwapNoveltyDetector(),
    SwapSVCCV(Cs=2),
    SwapSVRCV(Cs=2),
]
SQUARED = [
    SwapSVC,
    partial(SwapSVR, loss="squared_epsilon_insensitive"),
    partial(SwapNoveltyDetector, nu=None),
]
NAMES = [f"{type(m).__name__}-{getattr(m, 'solver', '')}" for m in MACHINES]


def points(n=150):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def indefinite(X):
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    return {
        "sigmoid": np.tanh(X @ X.T / 5.0),
        "shifted": 3.0 - distance,
        "opposite": 2.0 * np.eye(len(X)) - rbf_kernel(X),
        "a little": rbf_kernel(X) - 1e-6 * np.eye(len(X)),  # K + 1 + I/C is definite
    }


def refused(model, X, y, match, sample_weight=None):
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    with pytest.raises(ValueError, match=match) as error:
        model.fit(X, y, **weights)
    assert not [name for name in vars(model) if name.endswith("_")]
    return str(error.value)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["sigmoid", "shifted", "opposite", "a little"])
@pytest.mark.parametrize("model", MACHINES, ids=NAMES)
def test_a_negative_eigenvalue_is_named(model, name):
    X, y = points()
    K = indefinite(X)[name]
    model.set_params(kernel="precomputed")
    message = refused(model, K, y, "'precomputed' is not positive semidefinite: .* eigenvalue -")
    named = float(message.split("eigenvalue ")[1].split(",")[0])
    assert_allclose(named, np.linalg.eigvalsh(K)[0], rtol=1e-5)


@pytest.mark.parametrize("model", MACHINES, ids=NAMES)
def test_two_entries_that_differ_are_named(model):
    X, y = points()
    K = rbf_kernel(X)
    K[3, 7] = 0.25
    model.set_params(kernel="precomputed")
    message = refused(model, K, y, r"'precomputed' is not symmetric: k\(x, z\) is ")
    assert "3 and 7" in message and "7 and 3" in message and "(row " in message
    assert "0.25 for " in message and f"{K[7, 3]} for " in message


@pytest.mark.parametrize("where", [(0, 599), (598, 597)])
def test_every_pair_is_compared(where):
    """Beyond the first tile of 512 rows too, and by the rows of the caller's matrix."""
    X, y = points(600)
    K, weights = rbf_kernel(X), np.ones(600)
    K[where] += 1e-9
    weights[100] = 0.0
    model = SwapSVC(kernel="precomputed")
    message = refused(model, K, y, "is not symmetric", weights)
    i, j = where
    assert f"(row {i}, column {j})" in message or f"(row {j}, column {i})" in message
    K[where] -= 1e-9 - 1e-14
    assert quiet(model, K, y).converged_


def rank_one(rng):
    x = rng.normal(size=40)
    return np.outer(x, x)


def far_from_the_origin(rng):
    X = 200.0 + rng.normal(size=(200, 2))
    squares = (X**2).sum(axis=1)
    return np.exp(-0.5 * (squares[:, None] + squares - 2.0 * (X @ X.T)))


MATRICES = {
    "rank one": rank_one,
    "one row": lambda rng: np.ones((1, 1)),
    "centered": lambda rng: KernelCenterer().fit_transform(rank_one(rng)),
    "a large power": lambda rng: (8.0 + rank_one(rng)) ** 7,
    "two triangles": lambda rng: np.dot(*(lambda X: (X, X.T.copy()))(rng.normal(size=(90, 700)))),
    "float32": lambda rng: rbf_kernel(rng.normal(size=(90, 2)).astype(np.float32), gamma=0.01),
    "far from the origin": far_from_the_origin,
}


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:The origin must not lie inside the data")
@pytest.mark.parametrize("nu", [None, 0.5, "labels"])
@pytest.mark.parametrize("name", MATRICES)
def test_rounding_is_allowed(nu, name):
    K = MATRICES[name](np.random.default_rng(0))
    y = np.arange(len(K)) % 2
    if len(K) > 1 or nu != "labels":
        model = SwapSVC() if nu == "labels" else SwapNoveltyDetector(nu=nu)
        model = quiet(model.set_params(kernel="precomputed"), K, y)
        least = -np.inf if nu == 0.5 else 0.0  # the objective of a one-class SVM is negative
        assert least <= model.lower_bound_ <= model.objective_ and model.lower_bound_ > -np.inf


@pytest.mark.wide
@pytest.mark.parametrize("kind", SQUARED)
def test_rounding_that_is_larger_than_1_over_C(kind):
    """In single precision K has an eigenvalue of -1e-6; K + I/C has to have none."""
    X, y = points()
    K = rbf_kernel(X[:, :2].astype(np.float32), gamma=0.01)
    assert K.dtype == np.float32
    least = np.linalg.eigvalsh(K.astype(float))[0]
    assert -1e-5 < least < -1e-7
    refused(kind(1e8, kernel="precomputed"), K, y, f"eigenvalue {least:.6g}, .*1/C of 1e-08")
    judge(quiet(kind(1e3, kernel="precomputed"), K, y), K, y)


def test_more_points_than_are_factored(monkeypatch):
    """Part of them shows the negative eigenvalue, or what the steps have found does."""
    monkeypatch.setattr(kernel_data, "_CHECKED", 100)
    X, y = points()
    K = np.tanh(X @ X.T / 5.0)
    message = refused(SwapSVC(kernel="precomputed"), K, y, "semidefinite")
    assert "100 of the 150 samples" in message
    K, coef = np.eye(150), np.zeros(150)
    i, j = np.setdiff1d(np.arange(150), some_points(150, 100))[:2]
    K[i, j] = K[j, i] = 1.5
    values = KernelData(K, Kernel("precomputed"))
    values.check()
    refused(SwapSVC(kernel="precomputed"), K, y, "between the samples has the eigenvalue -0.5")
    coef[i], coef[j] = 1.0, -1.0
    with pytest.raises(ValueError, match=r"eigenvalue -0\.5"):
        values.refuse_indefinite(np.arange(150), coef)
    K = np.eye(150) - 1.1 / 150  # fewer points than all have no negative eigenvalue
    with pytest.raises(ValueError, match=r"between the samples has the eigenvalue -0.1 or less"):
        KernelData(K, Kernel("precomputed")).refuse_indefinite(np.arange(150), np.ones(150))
