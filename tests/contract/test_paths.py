"""Paths: at each value the optimum of a single fit, with objectives and bounds of its own."""

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from sklearn_bundle import BMRMClassifier, BMRMRegressor, bmrm_path
from tests.contract.cases import data
from tests.contract.judge import judge

TIGHT = {"tol": 1e-7, "max_iter": 10_000}
VALUES = [0.3, 0.1, 0.01]
LOSSES = {
    "hinge": lambda f, y: np.maximum(0.0, 1.0 - y * f),
    "log_loss": lambda f, y: np.logaddexp(0.0, -y * f),
    "squared_error": lambda f, y: 0.5 * (f - y) ** 2,
    "huber": None,
    "quantile": lambda f, y: np.where(f > y, 0.5 * (f - y), 0.5 * (y - f)),
}
OMEGAS = {
    "l2": lambda w: 0.5 * w @ w,
    "l1": lambda w: np.abs(w).sum(),
    "elasticnet": lambda w: 0.5 * np.abs(w).sum() + 0.25 * w @ w,
}


@pytest.mark.parametrize("omega", OMEGAS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_path_is_fits_one_by_one(loss, omega):
    is_class = loss in ("hinge", "log_loss")
    X, y, weights, _ = data("two, weighted" if is_class else "numbers, weighted")
    kind = {"loss": loss, "regularizer": omega, **TIGHT}
    path = bmrm_path(X, y, reg_lambdas=VALUES, sample_weight=weights, **kind)
    single = BMRMClassifier if is_class else BMRMRegressor
    s, target = weights / weights.sum(), 2.0 * y - 1.0 if is_class else y
    for k, value in enumerate(VALUES):
        one = single(reg_lambda=value, **kind).fit(X, y, weights)
        judge(one, X, y, weights)
        assert path.lower_bounds[k] <= one.objective_ * (1 + 1e-12)
        assert one.lower_bound_ <= path.objectives[k] * (1 + 1e-12)
        assert path.dual_gaps[k] == path.objectives[k] - path.lower_bounds[k]
        if LOSSES[loss] is not None:
            w, b = path.coefs[..., k].ravel(), path.intercepts[..., k].ravel()
            risk = s @ LOSSES[loss](X @ w + b, target) + value * OMEGAS[omega](w)
            assert path.objectives[k] == pytest.approx(risk, rel=1e-9)


def test_a_path_that_ends_early_has_true_bounds():
    X, y, weights, _ = data("numbers, weighted")
    for loss in ("squared_error", "quantile"):
        kind = {"loss": loss, "reg_lambdas": VALUES, "sample_weight": weights}
        with pytest.warns(UserWarning, match="."):
            path = bmrm_path(X, y, max_iter=1, tol=1e-12, solver="line-search", **kind)
        for k, value in enumerate(VALUES):
            one = BMRMRegressor(loss, reg_lambda=value, **TIGHT).fit(X, y, weights)
            assert path.lower_bounds[k] <= one.objective_
            assert one.lower_bound_ <= path.objectives[k]


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("tol", [1e-2, 1e-8])
def test_a_path_of_many_values_beside_scikit_learns_models(l1_ratio, tol):
    """So many that products of columns pay: their rounding and their bounds are of another kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) + 5.0 * np.eye(8)[1]
    y = X @ rng.normal(size=8) + rng.normal(size=300)
    omega = {"regularizer": "l1"} if l1_ratio == 1.0 else {"regularizer": "elasticnet"}
    path = bmrm_path(X, y, n_reg_lambdas=30, eps=1e-3, loss="squared_error", tol=tol, **omega)
    for k, value in enumerate(path.reg_lambdas):
        theirs = ElasticNet(value, l1_ratio=l1_ratio, tol=1e-14, max_iter=100_000).fit(X, y)
        points = (path.coefs[:, k], path.intercepts[k]), (theirs.coef_, theirs.intercept_)
        ours, best = (
            np.mean((X @ w + b - y) ** 2) / 2
            + value * (l1_ratio * np.abs(w).sum() + (1.0 - l1_ratio) * (w @ w) / 2)
            for w, b in points
        )
        assert path.objectives[k] == pytest.approx(ours, rel=1e-10)
        assert path.lower_bounds[k] <= best * (1 + 1e-12) and best <= ours * (1 + 1e-9)
