"""Optima against independent solvers; a new loss gets a row in reference.py."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from sklearn_bundle import BMRMClassifier
from tests.reference import LOSSES, objective, optimum

ROWS = 150


@pytest.fixture(params=[None, "weights", "balanced"])
def weighting(request, cancer):
    """sample_weight, class_weight, and the normalized weights that they mean."""
    y = cancer[1][:ROWS]
    rng = np.random.default_rng(0)
    sample_weight = rng.integers(0, 4, size=ROWS).astype(float) if request.param else None
    s = np.ones(ROWS) if sample_weight is None else sample_weight
    if request.param == "balanced":
        s = s * np.where(y > 0, 1.0 / s[y > 0].sum(), 1.0 / s[y < 0].sum())
        return sample_weight, "balanced", s / s.sum()
    return sample_weight, None, s / s.sum()


@pytest.mark.matrix
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("reg_lambda", [1e-1, 1e-3])
def test_optimum_against_clarabel(cancer, weighting, loss, fit_intercept, reg_lambda):
    X, y = cancer[0][:ROWS], cancer[1][:ROWS]
    sample_weight, class_weight, weights = weighting
    model = BMRMClassifier(
        loss,
        reg_lambda=reg_lambda,
        tol=1e-9,
        max_iter=5000,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
    ).fit(X, y, sample_weight)
    best = optimum(loss, X, y, weights, reg_lambda, fit_intercept)
    ours = objective(loss, X, y, weights, reg_lambda, model.coef_[0], model.intercept_[0])
    assert ours == pytest.approx(model.objective_, rel=1e-12)
    # clarabel's own accuracy is about 1e-9 relative
    assert model.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-7) <= ours <= best * (1 + 1e-7)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_hinge_against_svc(cancer, C):
    """SVC's intercept is free too: the same objective, the same model."""
    X, y = cancer
    reg_lambda = 1 / (len(y) * C)
    ours = BMRMClassifier(reg_lambda=reg_lambda, tol=1e-9, max_iter=5000).fit(X, y)
    svc = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
    weights = np.full(len(y), 1 / len(y))
    theirs = objective("hinge", X, y, weights, reg_lambda, svc.coef_[0], svc.intercept_[0])
    assert ours.objective_ == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_allclose(ours.coef_, svc.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, svc.intercept_, atol=1e-3)


def test_log_loss_against_logistic_regression(cancer):
    X, y = cancer
    ours = BMRMClassifier("log_loss", reg_lambda=1e-3, tol=1e-10, max_iter=5000).fit(X, y)
    theirs = LogisticRegression(C=1 / (len(y) * 1e-3), tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_squared_hinge_against_liblinear(cancer):
    X, y = cancer
    ours = BMRMClassifier(
        "squared_hinge", reg_lambda=1e-3, tol=1e-10, max_iter=5000, fit_intercept=False
    ).fit(X, y)
    C = 1 / (2 * len(y) * 1e-3)
    theirs = LinearSVC(C=C, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
