"""SwapSVC if kernel values cancel: the certificate is true, and lowered by the rounding."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import SwapSVC
from sklearn_bundle.kernel.values.kernel import KernelRows
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.contract.judge import judge


def with_a_column_of(size):
    """Three columns, of which one has the values 0, 1 and 2 times ``size``."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[:, 2] = size * rng.integers(0, 3, 60)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, 1, -1)


@pytest.mark.wide
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, 1e8, 1e12])
@pytest.mark.parametrize("solver", ["swap-2o", "decomposition"])
def test_a_large_column(size, tol, layout, solver):
    X, y = with_a_column_of(size)
    model = SwapSVC(C=1.0, gamma=0.5, tol=tol, solver=solver).fit(layout(X), y)
    assert model.status_ == "converged"
    judge(model, X, y)


@pytest.mark.parametrize("size", [1e3, 1e8])
def test_values_by_differences(size):
    """To the rounding of one value, where norms leave none of the digits."""
    X, _ = with_a_column_of(size)
    K = np.exp(-sum((x[:, None] - x) ** 2 for x in X.astype(np.longdouble).T) / 2)
    for data in (X, sp.csr_matrix(X)):
        rows = KernelRows(data, Kernel("rbf", 0.5), np.float64)
        off, allowed = np.abs(rows.gram() - K), rows.rounding(np.arange(60), np.arange(60))
        assert (off <= allowed[:, None]).all() and off.max() > 0.0 and allowed.max() <= 1e-14
        assert np.array_equal(np.diagonal(rows.gram()), np.ones(60))
