"""Weights that may not be negative, are not penalized, or are 0: optima against scipy's."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    bmrm_path,
    reg_lambda_max,
)
from sklearn_bundle.regularizers import L2, Nonnegative, Quadratic, WeightedL1

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)) + 0.3
F = X @ np.array([1.0, -2.0, 0.5, 0.0, -0.3, 2.0]) + 0.5 * RNG.normal(size=200)
Y = np.sign(F)
LOSSES = {
    "squared_error": lambda f: np.mean((f - F) ** 2) / 2,
    "quantile": lambda f: np.mean(np.abs(f - F)) / 2,
    "log_loss": lambda f: np.mean(np.logaddexp(0.0, -Y * f)),
    "squared_hinge": lambda f: np.mean(np.maximum(0.0, 1.0 - Y * f) ** 2) / 2,
    "hinge": lambda f: np.mean(np.maximum(0.0, 1.0 - Y * f)),
}
OMEGAS = {
    "l2": lambda w: w @ w / 2,
    "l1": lambda w: np.abs(w).sum(),
    "elasticnet": lambda w: np.abs(w).sum() / 2 + w @ w / 4,
}
WEIGHTS = np.array([0.0, 1.0, 1.0, 1.0, np.inf, 2.0])
FINITE = np.where(np.isinf(WEIGHTS), 0.0, WEIGHTS)


def fitted(loss, **kind):
    labels = loss not in ("squared_error", "quantile")
    model = (BMRMClassifier if labels else BMRMRegressor)(loss, reg_lambda=1e-2, tol=1e-6, **kind)
    return model.fit(X, Y if labels else F)


def best_near(model, loss, omega, low, high):
    """The least objective that scipy finds between bounds of w, from the fitted point on."""

    def objective(v):
        return LOSSES[loss](X @ v[:-1] + v[-1]) + 1e-2 * omega(v[:-1])

    start = np.r_[model.coef_.ravel(), np.ravel(model.intercept_)]
    assert (start[:-1] >= low).all() and (start[:-1] <= high).all()
    assert objective(start) == pytest.approx(model.objective_, rel=1e-10)
    method = "Powell" if loss in ("hinge", "quantile") else "L-BFGS-B"
    bounds = [*zip(np.maximum(low, -99.0), np.minimum(high, 99.0), strict=True), (-99.0, 99.0)]
    return minimize(objective, start, method=method, bounds=bounds, tol=1e-12).fun


@pytest.mark.parametrize("omega", OMEGAS)
@pytest.mark.parametrize("loss", LOSSES)
def test_positive(loss, omega):
    model = fitted(loss, regularizer=omega, positive=True)
    assert model.converged_ and (model.coef_ == 0.0).any()
    best = best_near(model, loss, OMEGAS[omega], np.zeros(6), np.full(6, np.inf))
    assert model.lower_bound_ <= best * (1 + 1e-12)
    assert model.objective_ <= best * (1 + 2e-6)


@pytest.mark.parametrize("kind", [WeightedL1, Quadratic])
@pytest.mark.parametrize("loss", LOSSES)
def test_features_without_a_penalty_and_without_a_weight(loss, kind):
    def omega(w):
        return FINITE @ np.abs(w) if kind is WeightedL1 else FINITE @ w**2 / 2

    model = fitted(loss, regularizer=kind(WEIGHTS))
    ends = np.where(np.isinf(WEIGHTS), 0.0, np.inf)
    assert model.converged_ and model.coef_.ravel()[4] == 0.0
    best = best_near(model, loss, omega, -ends, ends)
    assert model.lower_bound_ <= best * (1 + 1e-12)
    assert model.objective_ <= best * (1 + 2e-6)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("kind", [WeightedL1, Quadratic])
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_know_the_unit_of_features_without_a_penalty(loss, kind, size):
    """Where w is 0 but for these, the optimum is theirs alone, whatever their unit."""
    labels = loss not in ("squared_error", "quantile")
    scaled, y = np.c_[size * X[:, :2], X[:, 2:]], Y if labels else F
    alone = fitted(loss, regularizer=kind(np.array([0, 0, 1e6, 1e6, 1e6, 1e6])))
    model = (BMRMClassifier if labels else BMRMRegressor)(loss, reg_lambda=1e4, tol=1e-6)
    model.set_params(regularizer=kind(np.array([0.0, 0, 1, 1, 1, 1]))).fit(scaled, y)
    assert model.lower_bound_ <= alone.objective_ * (1 + 1e-6)
    assert model.converged_


def test_paths_and_searches():
    kind = {"regularizer": "l1", "positive": True}
    path = bmrm_path(X, F, loss="squared_error", n_reg_lambdas=5, **kind)
    assert path.coefs.min() == 0.0 and (path.coefs[:, 0] == 0.0).all() and path.coefs[:, 1].any()
    assert reg_lambda_max(X, -np.maximum(X[:, 0], 0.0), loss="squared_error", **kind) < 0.05
    assert BMRMRegressorCV(reg_lambdas=3, cv=3, **kind).fit(X, F).coef_.min() >= 0.0


def test_a_semidefinite_form():
    B = np.diag([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]) + 0.0
    B[:2, :2] = 1.0  # the difference of the first two is free too
    for loss in ("squared_error", "log_loss", "hinge"):
        model = fitted(loss, regularizer=Quadratic(B))
        best = best_near(
            model, loss, lambda w: w @ B @ w / 2, *np.full((2, 6), np.inf) * [[-1], [1]]
        )
        assert model.converged_ and model.lower_bound_ <= best * (1 + 1e-12)
        assert model.objective_ <= best * (1 + 2e-6)


@pytest.mark.parametrize(
    "kind, message",
    [
        ({"regularizer": Nonnegative(L2()), "positive": True}, "must be one of L2, Quad"),
        ({"regularizer": WeightedL1([0.0, 1, 1, 1, 1, 1]), "positive": True}, "a small one serves"),
        ({"regularizer": Quadratic(WEIGHTS), "solver": "line-search"}, "Use solver='auto'"),
        ({"loss": "softmax", "positive": True}, "positive=True is for losses of two classes"),
        ({"solver": "newton", "positive": True}, "positive=True; .* Use solver='auto'"),
    ],
)
def test_what_fits_no_solver_says_what_does(kind, message):
    with pytest.raises(ValueError, match=message):
        BMRMClassifier(**kind).fit(X, Y)


@pytest.mark.parametrize("as_rows", [np.asarray, sp.csr_matrix])
def test_excluded_features_of_all_classes_searches_and_paths(as_rows):
    labels, prices = (
        np.digitize(X[:, 0] + X[:, 4], [-0.5, 0.5]),
        np.r_[1.0, 1.0, 1.0, 1.0, np.inf, 2.0],
    )
    rest = [0, 1, 2, 3, 5]
    for kind in (WeightedL1, Quadratic):
        of_all, of_rest = kind(prices), kind(prices[rest])
        for loss in ("log_loss", "softmax"):
            kwargs = {"reg_lambda": 1e-2, "tol": 1e-8}
            all_, few = (
                BMRMClassifier(loss, regularizer=omega, **kwargs).fit(rows, labels)
                for omega, rows in ((of_all, as_rows(X)), (of_rest, as_rows(X[:, rest])))
            )
            assert not all_.coef_[:, 4].any()
            assert all_.coef_[:, rest] == pytest.approx(few.coef_, abs=1e-3)
            assert np.all(all_.lower_bound_ <= few.objective_)
            assert np.all(few.lower_bound_ <= all_.objective_)
        values = {"reg_lambdas": [1e-1, 1e-2], "loss": "squared_hinge"}
        path = bmrm_path(as_rows(X), Y, regularizer=of_all, **values)
        assert path.coefs.any() and not path.coefs[4].any()
        search = BMRMClassifierCV(regularizer=of_all, cv=3, **values).fit(as_rows(X), Y)
        assert search.coef_.any() and search.coef_[0, 4] == 0.0


def test_pragam_names_what_solves_its_problem():
    with pytest.warns(ConvergenceWarning, match="solves the same problem to any gap") as caught:
        PragamSVC(C=2.0, fit_intercept=False, max_iter=1).fit(X, Y)
    expression = str(caught[0].message).partition("BMRMClassifier(")[2].partition(")")[0]
    other = eval(f"BMRMClassifier({expression}, tol=1e-6)").fit(X, Y)
    ours = PragamSVC(C=2.0, fit_intercept=False, tol=1e-4).fit(X, Y)
    assert ours.lower_bound_ <= other.objective_ and other.lower_bound_ <= ours.objective_
