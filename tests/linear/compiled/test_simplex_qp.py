"""The inner problem against clarabel, and its certificate."""

import numpy as np
import pytest
from scipy.optimize import nnls

from sklearn_bundle.linear._compiled import simplex_qp
from tests.reference_cones import by_clarabel, halflines, zeros


def solve(Q, c, alpha=None, tolerance=0.0):
    n = len(c)
    alpha = np.eye(n)[0] if alpha is None else alpha
    gap, steps = simplex_qp.solve(
        Q, c, alpha, n, tolerance, 500, np.empty(n, dtype=np.int64), np.empty((n, n)),
        np.empty((3, n)),
    )  # fmt: skip
    return alpha, gap, steps


def optimum(Q, c):
    n = len(c)
    A, side = np.vstack([np.ones((1, n)), -np.eye(n)]), np.r_[1.0, np.zeros(n)]
    x = np.maximum(by_clarabel(Q, -c, A, side, zeros(1) + halflines(n), tol=1e-12), 0.0)
    x /= x.sum()
    return 0.5 * x @ Q @ x - c @ x


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n, d", [(2, 5), (10, 30), (40, 8), (120, 15)])
def test_against_clarabel(n, d, seed):
    """Singular where there are more planes than dimensions; lengths over four powers of ten."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, 0, size=(n, 1))
    Q, c = A @ A.T, rng.normal(size=n)
    alpha, gap, _ = solve(Q, c)
    value = 0.5 * alpha @ Q @ alpha - c @ alpha
    assert alpha.min() >= 0.0
    assert alpha.sum() == pytest.approx(1.0, abs=1e-14)
    assert gap <= 1e-12 * np.abs(c).max()
    assert value <= optimum(Q, c) + 1e-9
    assert value - gap <= optimum(Q, c) + 1e-12  # what the certificate claims


@pytest.mark.parametrize("size", [1.0, 1e4, 1e9])
def test_weights_of_long_planes_may_be_tiny(size):
    """Beside the plane 0 the sum does not bind: least squares with x >= 0, x = alpha size^2.

    At 1e9 every weight but that of the plane 0 is below 1e-16.
    """
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A, target = rng.normal(size=(8, 12)), 0.03 * rng.normal(size=12)
        x = nnls(A.T, target)[0]
        assert 0.0 < x.sum() < 1.0
        planes = size * np.vstack([np.zeros(12), A])
        alpha, _, _ = solve(planes @ planes.T, size * (planes @ target) / size**2)
        np.testing.assert_allclose(alpha[1:] * size**2, x, rtol=0.0, atol=1e-12)


def test_certificate_is_the_linear_one():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(30, 6))
    Q, c = A @ A.T, rng.normal(size=30)
    alpha, gap, _ = solve(Q, c, tolerance=1e-2)
    gradient = Q @ alpha - c
    assert gap == pytest.approx(alpha @ gradient - gradient.min(), abs=1e-12)


def test_warm_start_needs_no_step():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(30, 6))
    Q, c = A @ A.T, rng.normal(size=30)
    alpha, _, _ = solve(Q, c)
    assert solve(Q, c, alpha.copy(), tolerance=1e-10)[2] == 0


def test_equal_planes():
    alpha, gap, _ = solve(np.ones((6, 6)), np.ones(6))
    assert gap == 0.0
    assert alpha.sum() == 1.0
