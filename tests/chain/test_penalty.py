"""The elastic net of chains: its bound by the conjugate's definition."""

import numpy as np
import pytest

from sklearn_bundle.chain.problem import ElasticPenalty


def _conjugate(penalty, v):
    """``max_w v'w - l1 ||w||_1 - ridge/2 ||w||^2``, each w_j on a fine grid, from below."""
    grid = np.linspace(-60.0, 60.0, 240_001)
    value = penalty.l1 * np.abs(grid) + 0.5 * penalty.ridge * grid**2
    return sum(float(np.max(x * grid - value)) for x in v)


@pytest.mark.parametrize("l1", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ridge", [0.1, 2.0])
@pytest.mark.parametrize("entropy", [0.5, 4.0])
def test_bound_is_the_scaled_dual_and_the_best_one(l1, ridge, entropy):
    v = np.array([1.9, -0.8, 0.2, 0.0, -2.5])
    penalty = ElasticPenalty(l1, ridge)
    bound, s, cost = penalty.bound(v, entropy)
    assert 0.0 <= s <= 1.0
    assert cost == 0.0
    assert bound == pytest.approx(s * entropy - _conjugate(penalty, s * v), abs=1e-6)
    scales = np.linspace(0.0, 1.0, 21) if l1 else [1.0]
    assert all(bound >= t * entropy - _conjugate(penalty, t * v) - 1e-6 for t in scales)
    off, s, cost = penalty.bound(v, entropy, error=0.1)
    longer = v * (1.0 + 0.1 / np.linalg.norm(v))
    assert off - cost <= s * entropy - _conjugate(penalty, s * longer) + 1e-6


def test_bound_without_ridge_is_feasible():
    v = np.array([1.9, -0.8, 2.5])
    bound, s, cost = ElasticPenalty(1.0, 0.0).bound(v, 2.0, error=1e-3)
    assert s * (2.5 + 1e-3) == pytest.approx(1.0)
    assert bound == pytest.approx(2.0 * s)
    assert cost == 0.0
