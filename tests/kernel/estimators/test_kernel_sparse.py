"""Fitted attributes of kernel machines are sparse for sparse X, as those of SVC are."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle import SwapNoveltyDetector, SwapSVC, SwapSVCCV, SwapSVR, SwapSVRCV
from tests.contract.fits import quiet

MACHINES = [SwapSVC(), SwapSVR(), SwapNoveltyDetector(), SwapSVCCV(Cs=2), SwapSVRCV(Cs=2)]


def sparse_points(n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4)
    return X, np.arange(40) % n_classes


@pytest.mark.wide
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("model", MACHINES, ids=lambda model: type(model).__name__)
def test_sparse_attributes(model, kind, kernel):
    X, y = sparse_points()
    model.set_params(kernel=kernel, tol=1e-8)
    dense = quiet(model, X, y)
    scores = dense.predict(X)
    weights = dense.coef_ if kernel == "linear" else None
    assert isinstance(dense.dual_coef_, np.ndarray)
    sparse = quiet(model, kind(X), y)
    assert isinstance(sparse.dual_coef_, kind) and isinstance(sparse.support_vectors_, kind)
    assert sparse.dual_coef_.shape == (1, len(sparse.support_))
    assert_array_equal(sparse.support_vectors_.toarray(), X[sparse.support_])
    loaded = pickle.loads(pickle.dumps(sparse))
    assert isinstance(loaded.dual_coef_, kind)
    for data in (X, kind(X)):
        assert_array_equal(loaded.predict(data), sparse.predict(data))
    assert_allclose(sparse.predict(X), scores, atol=1e-3)
    if weights is not None:
        assert isinstance(sparse.coef_, kind)
        assert_allclose(sparse.coef_.toarray(), weights, atol=1e-3)


def test_no_support_vectors():
    """A target inside the tube leaves none."""
    X, _ = sparse_points()
    model = SwapSVR(epsilon=1.0).fit(sp.csr_matrix(X), np.zeros(40))
    assert sp.issparse(model.dual_coef_) and model.dual_coef_.shape == (1, 0)
    assert_array_equal(model.predict(X), np.zeros(40))
