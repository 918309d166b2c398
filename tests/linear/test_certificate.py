"""The certificate of any point and any proof: nothing is off by more than it says."""

from itertools import product

import numpy as np
import pytest

from sklearn_bundle.linear import rows
from sklearn_bundle.linear.certificate import Proof, certify
from sklearn_bundle.linear.losses import Hinge
from sklearn_bundle.linear.regularizers import ElasticNet, Quadratic
from sklearn_bundle.linear.score_risk import ScoreRisk
from tests.reference_programme import LONG

Y, S = np.repeat([1.0, -1.0], 20), np.full(40, 1 / 40)


def risk_of(X, fit_intercept=False):
    return ScoreRisk(rows.rows_of(X), Y, S, Hinge(), fit_intercept)


@pytest.mark.parametrize("of_w, of_g", [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_rounding_of_sums_that_cancel(ratio, of_w, of_g):
    """Rows that are alike have opposite derivatives, columns opposite weights; in long double."""
    omega = ElasticNet(ratio).bind(6, 6)
    for seed, (lam, first) in product(range(10), [(1e-12, 1e-9), (1e-3, 1.0)]):
        rng, l1, ridge = np.random.default_rng(seed), LONG(lam) * ratio, LONG(lam) * (1 - ratio)
        X, a = 2.0**20 + np.round(4.0 * rng.normal(size=(20, 6))), rng.random(20)
        X, a[0] = np.r_[X, X + (a == a[0])[:, None]], first
        half = of_w * 1e-3 * rng.normal(size=3)
        w, g = np.r_[half, -half * (1 + 1e-9)], -of_g * S * Y * np.r_[a, a]
        found = certify(risk_of(X), omega, lam, w, 0.0, Proof(g), moving=False)
        losses = np.maximum(1 - Y * (X.astype(LONG) @ w), 0)
        primal = losses.mean() + l1 * np.abs(w).sum() + ridge * (w @ w) / 2
        assert abs(found.objective - primal) <= found.rounding.of_objective
        v, offset = -(g.astype(LONG) @ X), -(g.astype(LONG) @ Y)
        beyond, most = np.maximum(np.abs(v) - l1, 0), np.abs(v).max()
        dual = offset - beyond @ beyond / (2 * ridge) if ridge else offset * l1 / max(most, l1)
        assert found.bound - found.rounding.of_bound <= dual
        if ridge:  # of all that the ball between both points may hold
            lowest = np.sign(v) * beyond / ridge
            square = (primal - dual) / ridge - (w - lowest) @ (w - lowest) / 4
            apart = (found.ball.center - (w + lowest) / 2).astype(float)
            assert np.linalg.norm(apart) + np.sqrt(max(square, 0)) <= found.ball.radius


def test_planes_that_are_not_flat():
    """A slope in b costs what the best b may make of it; in weights without a penalty, all."""
    rng = np.random.default_rng(0)
    X, w, g = rng.normal(size=(40, 3)), rng.normal(size=3), -S * Y * rng.random(40)
    omega, free = (Quadratic(B).bind(3, 3) for B in ([1.0, 2.0, 3.0], [0.0, 2.0, 3.0]))
    tilted = Proof(plane=risk_of(X).proved(Proof(g))._replace(balance=np.array([g.sum()])))
    found = certify(risk_of(X, True), omega, 1.0, w, 5.0, tilted, moving=False)
    dual = -g @ Y - (g @ X) ** 2 @ [1 / 2, 1 / 4, 1 / 6]
    assert found.bound <= dual - 2.0 * abs(g.sum()) * 5.0
    assert certify(risk_of(X), free, 1.0, w, 0.0, Proof(g), moving=False).bound == -np.inf
