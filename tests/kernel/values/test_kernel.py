"""Kernel values against scikit-learn's, and gamma of distances."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel, resolve_gamma

N, N_NEW, D = 600, 37, 19  # more than two tiles of rows, none of them full at the end
SUBSET = np.random.default_rng(1).permutation(N)[:290]
KERNELS = {
    "rbf": (Kernel("rbf", gamma=0.05), lambda X, Z: rbf_kernel(X, Z, gamma=0.05)),
    "linear": (Kernel("linear"), linear_kernel),
    "poly": (
        Kernel("poly", gamma=0.1, degree=3, coef0=1.0),
        lambda X, Z: polynomial_kernel(X, Z, gamma=0.1, degree=3, coef0=1.0),
    ),
    "homogeneous": (
        Kernel("poly", gamma=0.1, degree=2, coef0=0.0),
        lambda X, Z: polynomial_kernel(X, Z, gamma=0.1, degree=2, coef0=0.0),
    ),
}
TOLERANCE = {np.float32: 5e-6, np.float64: 1e-14}  # of values of about 1, in roundings: about 40


def make(n, seed=0):
    """Columns from nearly empty to nearly full."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)) * (rng.random((n, D)) < np.linspace(0.05, 0.9, D))


def cross(rows, Z):
    """All values of new points with those of ``rows``."""
    return np.concatenate([block.copy() for block in rows.blocks(Z)])


def frozen(array):
    array.flags.writeable = False
    return array


def as_layout(X, layout, dtype):
    """Read-only data as estimators hand them on."""
    if layout == "dense":
        return frozen(np.ascontiguousarray(X, dtype))
    make_csr = sp.csr_array if layout == "csr_array" else sp.csr_matrix
    matrix = make_csr(X, dtype=dtype)
    if layout == "csr64":
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype("i8")
    for part in (matrix.data, matrix.indices, matrix.indptr):
        frozen(part)
    return matrix


@pytest.fixture(params=[np.float32, np.float64], ids=["work32", "work64"])
def dtype(request):
    return request.param


@pytest.fixture(params=["dense", "csr", "csr64", "csr_array"])
def layout(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64], ids=["data32", "data64"])
def data_dtype(request):
    return request.param


@pytest.fixture(params=KERNELS)
def case(request, layout, data_dtype, dtype):
    """Rows, new points, and the reference in float64 on the same, already rounded, data."""
    kernel, reference = KERNELS[request.param]
    X, Z = make(N).astype(data_dtype), make(N_NEW, seed=2).astype(data_dtype)
    rows = KernelRows(as_layout(X, layout, data_dtype), kernel, dtype)
    exact = [reference(A.astype(np.float64), X.astype(np.float64)) for A in (X, Z)]
    return rows, as_layout(Z, layout, data_dtype), *exact


def assert_values(values, expected, dtype):
    assert values.dtype == dtype and values.flags.c_contiguous
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(values, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.matrix
def test_values_are_those_of_scikit_learn(case, dtype):
    rows, Z, K, K_new = case
    out = np.full(N, np.nan, dtype)
    rows.block(np.array([7]), None, out[np.newaxis])
    assert_values(out, K[7], dtype)
    rows.block(np.array([7]), SUBSET, out[np.newaxis, :290])
    assert_values(out[:290], K[7, SUBSET], dtype)
    assert_values(rows.block(SUBSET), K[SUBSET], dtype)
    assert_values(rows.block(SUBSET[:70], SUBSET), K[np.ix_(SUBSET[:70], SUBSET)], dtype)
    assert_values(rows.gram(), K, dtype)
    assert_values(rows.take(SUBSET).gram(), K[np.ix_(SUBSET, SUBSET)], dtype)
    assert_values(cross(rows, Z), K_new, dtype)
    assert_values(cross(rows.take(SUBSET), Z), K_new[:, SUBSET], dtype)
    assert_values(rows.diagonal.astype(dtype), np.diagonal(K), dtype)
    # To the last bit: matrices are symmetric, and a row's value with itself is the diagonal.
    for G in (rows.gram(), rows.take(SUBSET).gram()):
        assert (G == G.T).all()
    diagonal, few, last = rows.diagonal.astype(dtype), SUBSET[:70], np.arange(70)
    assert (rows.block(few)[last, few] == diagonal[few]).all()
    assert (rows.block(few, SUBSET[::-1].copy())[last, 289 - last] == diagonal[few]).all()
    assert (np.diagonal(rows.gram()) == diagonal).all()


@pytest.mark.parametrize("data_dtype", [np.float32, np.float64])
def test_shifted_data_keep_float32_accurate(data_dtype):
    X = (make(N) + 1e4).astype(data_dtype)
    Z = (make(N_NEW, seed=2) + 1e4).astype(data_dtype)
    centered, new = X.astype(np.float64) - 1e4, Z.astype(np.float64) - 1e4
    rows = KernelRows(frozen(X), Kernel(gamma=0.05), np.float32)
    out = np.empty(N, np.float32)
    rows.block(np.array([3]), None, out[np.newaxis])
    K = rbf_kernel(centered, gamma=0.05)
    np.testing.assert_allclose(out, K[3], atol=1e-4)
    np.testing.assert_allclose(rows.gram(), K, atol=1e-4)
    np.testing.assert_allclose(cross(rows, Z), rbf_kernel(new, centered, gamma=0.05), atol=1e-4)


@pytest.mark.parametrize("disorder", ["unsorted", "duplicates"])
def test_csr_out_of_order(disorder, dtype):
    X = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 1.0]])
    if disorder == "unsorted":
        parts = [2.0, 1.0, 3.0, 1.0], [1, 0, 1, 2], [0, 2, 4]
    else:
        parts = [1.0, 1.0, 1.0, 3.0, 1.0], [0, 1, 1, 1, 2], [0, 3, 5]
    matrix = sp.csr_matrix(tuple(np.array(part) for part in parts), shape=(2, 3))
    before = matrix.indices.copy()
    expected = rbf_kernel(X, gamma=0.1)
    np.testing.assert_allclose(KernelRows(matrix, Kernel(gamma=0.1), dtype).gram(), expected, 1e-6)
    np.testing.assert_array_equal(matrix.indices, before)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_distance_gamma_is_one_over_the_mean_over_pairs(convert):
    X = make(90) + 3.0
    pairs = ((X[:, np.newaxis] - X[np.newaxis]) ** 2).sum(axis=2)
    assert resolve_gamma("distance", convert(X)) == pytest.approx(1.0 / pairs.mean(), 1e-12)


@pytest.mark.parametrize("kind", ["callable", "sparse callable", "precomputed"])
def test_given_values(kind, dtype):
    X, Z, kernel = make(90), make(9, seed=2), Kernel(linear_kernel)
    K, K_new, few = linear_kernel(X), linear_kernel(Z, X), np.array([80, 3, 50])
    if kind == "precomputed":
        X, Z, kernel = frozen(K.copy()), frozen(K_new.copy()), Kernel("precomputed")
    elif kind == "sparse callable":
        X, Z = sp.csr_matrix(X), sp.csr_matrix(Z)
    rows = KernelRows(X, kernel, dtype)
    assert_values(rows.gram(), K, dtype)
    assert_values(rows.take(few).gram(), K[np.ix_(few, few)], dtype)
    assert_values(rows.block(few, few[:2]), K[np.ix_(few, few[:2])], dtype)
    assert_values(cross(rows.take(few), Z), K_new[:, few], dtype)
    assert_values(rows.diagonal, np.diagonal(K), np.float64)
