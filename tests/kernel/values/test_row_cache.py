"""Rows of kernel values that are kept: those used least recently give way."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle.kernel.values.kernel import KernelRows, RowCache
from sklearn_bundle.kernel.values.kernel_function import Kernel

N = 12
X = np.random.default_rng(0).normal(size=(N, 3))


def cache(rows, least=3, dtype=np.float64):
    source = KernelRows(X.astype(dtype), Kernel("rbf", 0.5), dtype)
    return RowCache(source, rows * N * np.dtype(dtype).itemsize, least)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [3, 5, 7, N])
def test_rows_are_those_asked_for(rows, dtype):
    """However often places change hands; a row that is there is not computed."""
    kept, rng = cache(rows, dtype=dtype), np.random.default_rng(rows)
    K, known = rbf_kernel(X, gamma=0.5), []
    close = 1e-6 if dtype == np.float32 else 1e-14
    for _ in range(200):
        chosen = np.sort(rng.choice(N, rng.integers(1, 4), replace=False))
        before, missing = kept.n_computed, [i for i in chosen if i not in known]
        values = kept.values[kept.slots(chosen)]
        np.testing.assert_allclose(values, K[chosen], atol=close)
        assert kept.n_computed - before == len(missing)
        # In order of use; those used together may leave in any order.
        known = [i for i in known if i not in chosen] + list(chosen)
        known = [i for i in known if kept.places[i] >= 0]
        assert len(known) <= rows
    assert kept.values.shape == (rows, N)
    if rows == N:
        assert kept.n_computed == N


@pytest.mark.parametrize("n_bytes", [-1e6, 0.0, 1.0])
def test_less_memory_than_a_row(n_bytes):
    """Those that are used together are there together all the same."""
    source = KernelRows(X, Kernel("rbf", 0.5), np.float64)
    kept = RowCache(source, n_bytes, 4)
    assert kept.values.shape == (4, N)
    for chosen in ([0, 1, 2, 3], [3, 4, 5, 6], [0, 5, 7, 11]):
        slots = kept.slots(np.array(chosen))
        assert len(set(slots)) == 4
        assert_array_equal(kept.values[slots].argmax(axis=1), chosen)  # k(x, x) = 1
    assert RowCache(source, n_bytes, 100).n_rows == N
