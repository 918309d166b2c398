"""Sparse matrices: inconsistent ones, of which compiled code would read out of bounds; lengths."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import is_outlier_detector
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from sklearn_bundle import SDCACRF, SDCACRFCV, BMRMClassifier, StructuredSVM, bmrm_path
from sklearn_bundle.core.validation import squared_lengths, well_formed
from sklearn_bundle.regularizers import Quadratic
from tests.contract.parameters import ESTIMATORS, SEARCHES

# A process that reads out of bounds may live on: the fault has to be far away to end it.
FAR = 2**30
CHAINS = SDCACRFCV, StructuredSVM


def matrix(kind, index_type=np.int32):
    """Iris, all of its 600 entries stored."""
    X = kind(load_iris().data)
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
    return X


def set_entry(name, place, value):
    def change(X):
        getattr(X, name)[place] = value

    return change


def shorten(name):
    def change(X):
        setattr(X, name, getattr(X, name)[:-1])

    return change


FAULTS = {
    "negative": set_entry("indices", 7, -1),
    "too large": set_entry("indices", 7, FAR),
    "beyond the end": set_entry("indptr", -1, FAR),
    "falling": set_entry("indptr", 1, FAR),
    "not from 0": set_entry("indptr", 0, 1),
    "negative start": set_entry("indptr", 1, -FAR),
    "short indptr": shorten("indptr"),
    "short indices": shorten("indices"),
    "short data": shorten("data"),
}


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array])
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named(kind, index_type, fault):
    X, change = matrix(kind, index_type), FAULTS[fault]
    assert np.shares_memory(well_formed(X, "X").data, X.data)
    change(X)
    with pytest.raises(ValueError, match=f"^X is a malformed {X.format.upper()} matrix: "):
        well_formed(X, "X")


@pytest.mark.parametrize("part", ["row", "col"])
def test_coo_and_bsr_are_looked_at_before_scipy_converts_them(part):
    X = sp.coo_matrix(load_iris().data)
    getattr(X, part)[3] = FAR
    with pytest.raises(ValueError, match=rf"malformed COO matrix: .*{FAR}"):
        well_formed(X, "X")
    X = sp.bsr_array(load_iris().data, blocksize=(2, 2))
    X.indices[3] = 2  # of two columns of blocks
    with pytest.raises(ValueError, match=r"malformed BSR matrix: "):
        well_formed(X, "X")


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_what_scipy_allows_is_taken(kind):
    """No entries at all, entries twice, in any order, and room behind the last."""
    assert well_formed(kind((3, 2)), "X").shape == (3, 2)
    X = sp.csr_matrix(([1.0, 2.0, 3.0], [1, 0, 0], [0, 0, 3]), shape=(2, 2))
    assert (well_formed(X, "X") != X).nnz == 0
    X = X.asformat(kind((3, 2)).format)
    if X.format != "coo":
        X.indices, X.data = np.r_[X.indices, FAR], np.r_[X.data, 7.0]
        taken = well_formed(X, "X")
        assert sorted(taken.data) == [1.0, 2.0, 3.0] and len(X.data) == 4
        assert np.shares_memory(taken.data, X.data)


@pytest.mark.wide
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("estimator", [k for k in ESTIMATORS if k not in CHAINS])
def test_every_estimator_looks_before_it_works(estimator, kind):
    y = load_iris().target
    bad = matrix(kind)
    bad.indices[7] = FAR
    model = estimator(**SEARCHES.get(estimator, {}))
    with pytest.raises(ValueError, match="X is a malformed"):
        model.fit(bad, y)
    with pytest.raises(NotFittedError):
        model.predict(load_iris().data)
    model.fit(matrix(kind), y)
    for method in ("predict", "decision_function", "score_samples", "predict_marginals"):
        if hasattr(model, method):
            with pytest.raises(ValueError, match="X is a malformed"):
                getattr(model, method)(bad)
    if not is_outlier_detector(model):
        with pytest.raises(ValueError, match="X is a malformed"):
            model.score(bad, y)


def test_functions_and_parameters_look_as_well():
    X, y = matrix(sp.csr_array), load_iris().target
    X.indices[7] = FAR
    with pytest.raises(ValueError, match="X is a malformed"):
        bmrm_path(X, y)
    with pytest.raises(ValueError, match="Sequence 1 of X is a malformed"):
        SDCACRF().fit([matrix(sp.csr_array), X], [y, y])
    B = sp.csr_array(np.eye(4))
    B.indices[2] = FAR
    with pytest.raises(ValueError, match="B is a malformed"):
        BMRMClassifier(regularizer=Quadratic(B)).fit(load_iris().data, y)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 1), (1, 40), (40_000, 3)])
def test_squared_lengths_are_doubles_whatever_the_rows(shape, kind):
    """Rows are squared some thousands at a time; the last of them may be few."""
    X = np.random.default_rng(3).integers(-3, 4, shape).astype(np.float32) + np.float32(0.1)
    X[::3] = 0.0
    expected = (X.astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_lengths(kind(X)), expected, rtol=1e-15)
