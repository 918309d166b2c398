"""Sums over the rows of a matrix in memory, against those of plain numpy with more digits."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory


def _shaped(shape, rng):
    n, d = {"one row": (1, 9), "one column": (301, 1), "many rows": (301, 17)}.get(shape, (40, 9))
    X = rng.standard_normal((n, d))
    if shape == "constant column":
        X[:, 0] = 0.1
    if shape == "column of 1e8":
        X[:, 0] *= 1e8
    if shape == "column around 1e8":
        X[:, 0] += 1e8
    weights = rng.random(n) + 0.1
    if shape == "one weight":
        weights[1:] = 0.0
    return X, weights / weights.sum(), rng.standard_normal(n)


SHAPES = ["one row", "one column", "many rows", "constant column", "column of 1e8"]
SHAPES += ["column around 1e8", "one weight"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_moments(shape, centered, dtype):
    X, weights, y = _shaped(shape, np.random.default_rng(0))
    X = X.astype(dtype)
    with rows_in_memory(X) as rows:
        H, q = rows.moments(weights, y, centered)
        mean = rows.mean(weights)
        of_two = rows.mean(np.full(len(y), 2.0 / len(y)))  # not those of the moments
    eps = np.finfo(float).eps
    assert_allclose(mean, weights @ X, rtol=0.0, atol=8.0 * eps * np.abs(X).max())
    assert_allclose(
        of_two, 2.0 * X.mean(axis=0, dtype=float), rtol=0.0, atol=8.0 * eps * np.abs(X).max()
    )
    Z, z = X.astype(np.longdouble), y.astype(np.longdouble)
    if centered:
        total = weights.astype(np.longdouble).sum()  # 1, but for rounding
        Z, z = Z - weights @ Z / total, z - weights @ z / total
    # relative to the sizes of columns: centered ones after they were centered
    sizes = np.sqrt((weights[:, None] * Z * Z).sum(axis=0)).astype(np.float64)
    least = 1e-14 * np.abs(X).max(axis=0)  # what rounding leaves of a column that is constant
    sizes = np.maximum(sizes, least)
    size_y = max(float(np.sqrt(weights @ (z * z))), 1e-14)
    expected = (Z.T * weights @ Z).astype(np.float64)
    assert_allclose(
        H / np.outer(sizes, sizes), expected / np.outer(sizes, sizes), rtol=0.0, atol=1e-9
    )
    assert_allclose(
        q / (sizes * size_y), (Z.T @ (weights * z)) / (sizes * size_y), rtol=0.0, atol=1e-9
    )


@pytest.mark.parametrize("far", [0.0, 1e8])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (4_000, 9)])
def test_around_a_center_rows_keep_their_digits(shape, far):
    rng = np.random.default_rng(2)
    X, w = far + rng.normal(size=shape), rng.normal(size=(1, shape[1]))
    center = X.mean(axis=0)
    with rows_in_memory(X) as rows:
        scores, squares = rows.around(center, w), rows.distances(center)
    Z = X - center
    assert_allclose(scores, Z @ w.T, rtol=1e-12, atol=1e-13)
    assert_allclose(squares, (Z * Z).sum(axis=1), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("shape", SHAPES)
def test_column_scale(shape, kind):
    X, _, _ = _shaped(shape, np.random.default_rng(1))
    X[:, -1] *= len(X) > 1 or X.shape[1] == 1
    with rows_in_memory(kind(X)) as rows:
        scale = rows.column_scale()
    sums = np.abs(X).sum(axis=0)
    expected = np.divide((X * X).sum(axis=0), sums, out=np.zeros(len(sums)), where=sums > 0.0)
    assert_allclose(scale, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("shape", SHAPES)
def test_mean_square(shape, kind):
    X, weights, _ = _shaped(shape, np.random.default_rng(1))
    equal = np.full(len(X), 1.0 / len(X))
    with rows_in_memory(kind(X)) as rows:
        found = [rows.mean_square(s) for s in (weights, equal)]
    expected = [s @ (X * X).sum(axis=1) for s in (weights, equal)]
    assert_allclose(found, expected, rtol=1e-12)


def test_a_sparse_fit_copies_no_entries(monkeypatch):
    """In vectors of doubles the ten entries per row are 15; blocks keep no vector of columns."""
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ROWS", 2000)  # as on 40 times the rows
    rng, n, d = np.random.default_rng(9), 40_000, 1600
    X = sp.csr_array((rng.normal(size=10 * n), rng.integers(0, d, 10 * n), np.arange(n + 1) * 10))
    X.sum_duplicates()
    y = X @ rng.normal(size=d) + rng.normal(size=n) > 0.0
    model = BMRMClassifier("squared_hinge", reg_lambda=1e-5).fit(X, y)  # compiles
    tracemalloc.start()
    try:
        assert model.fit(X, y).converged_
        peak = tracemalloc.get_traced_memory()[1] / (8 * n)
    finally:
        tracemalloc.stop()
    assert peak < 13.0  # with copies of the entries 18
