"""The quadratic model of coordinate descent, by its optimality conditions."""

import numpy as np
import pytest

from sklearn_bundle.linear.solvers.lasso_matrix import Quadratic


def _model(n, d, ridge, low, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / n**0.5
    a = X.T @ rng.normal(size=n)
    return Quadratic(X.T @ X, np.full(d, 0.1) + 0.1 * rng.random(d), ridge, low), a


@pytest.mark.parametrize("low", [-np.inf, 0.0])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(("n", "d"), [(60, 20), (30, 25), (10, 40), (5, 1)])
def test_optimality_conditions_hold(n, d, ridge, low):
    model, a = _model(n, d, ridge, low, seed=n + d)
    v, slopes = np.zeros(d), a.copy()
    model.minimize(slopes, v, 10_000, 1e-9, n)
    np.testing.assert_allclose(slopes, a + model.matrix @ v, atol=1e-12)
    assert v.min() >= low
    of_v = a + model.matrix @ v + ridge * v
    used = v != 0.0
    np.testing.assert_allclose(of_v[used], -np.sign(v[used]) * model.limits[used], atol=1e-8)
    beyond = -of_v[~used] if low == 0.0 else np.abs(of_v[~used])
    assert np.all(beyond <= model.limits[~used] + 1e-8)


def test_repeated_columns():
    model, a = _model(50, 6, 0.0, -np.inf, seed=1)
    twice = Quadratic(np.tile(model.matrix, (2, 2)), np.tile(model.limits, 2), 0.0, -np.inf)
    v, slopes = np.zeros(12), np.tile(a, 2)
    twice.minimize(slopes, v, 10_000, 1e-9, 50)
    assert twice.violation(np.tile(a, 2) + twice.matrix @ v, v) <= 2e-9
