"""Coefficients have the precision of X, and the certificate is that of what is stored."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
)
from tests.contract.judge import judge

X, Y = load_iris(return_X_y=True)
X = scale(X).astype(np.float32)[::2]
Y = Y[::2]
TWO = Y > 0
MODELS = [
    (BMRMClassifier("hinge"), Y),
    (BMRMClassifier("log_loss", tol=1e-6), TWO),
    (BMRMClassifier("squared_hinge", regularizer="l1", reg_lambda=1e-3), TWO),
    (BMRMClassifier("softmax", reg_lambda=1e-2), Y),
    (BMRMClassifier("softmax", reg_lambda=1e-2), TWO),
    (BMRMClassifier("multiclass_hinge", fit_intercept=False), TWO),
    (BMRMRegressor(), X[:, 0] + TWO),
    (BMRMRegressor("absolute_error"), np.c_[X[:, 0] + TWO, 3.0 * X[:, 1]]),
    (BMRMRanker(), Y),
    (PragamSVC(reg_lambda=1e-2), Y),
]


@pytest.mark.wide
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("model, y", MODELS, ids=lambda x: str(x)[:40])
def test_coefficients_are_of_the_type_of_X(model, y, layout):
    model.fit(layout(X), y)
    assert model.coef_.dtype == np.float32 and model.converged_
    assert np.asarray(getattr(model, "objective_", 1.0)).dtype == np.float64
    judge(model, X.astype(np.float64), y)
    sums = X.astype(np.float64) @ np.atleast_2d(model.coef_).T.astype(np.float64)
    sums = sums + getattr(model, "intercept_", 0.0)
    scores = model.decision_function if hasattr(model, "decision_function") else model.predict
    scores = np.reshape(scores(layout(X)), sums.shape)
    np.testing.assert_allclose(scores, sums, atol=1e-5 * np.abs(sums).max())
    model.fit(layout(X.astype(np.float64)), y)
    assert model.coef_.dtype == np.float64


def test_types_are_those_of_logistic_regression():
    theirs = LogisticRegression().fit(X, Y)
    ours = BMRMClassifier("softmax", reg_lambda=1e-2).fit(X, Y)
    assert ours.coef_.dtype == theirs.coef_.dtype == np.float32
    assert ours.intercept_.dtype == theirs.intercept_.dtype == np.float32
    search = BMRMClassifierCV("softmax", reg_lambdas=[1e-2, 1e-3], cv=3).fit(X, Y)
    assert search.coef_.dtype == np.float32
    judge(search, X.astype(np.float64), Y)


def test_where_rounding_would_miss_tol_all_digits_are_kept():
    model = BMRMClassifier("hinge", reg_lambda=1e-2, tol=1e-10).fit(X, TWO)
    assert model.coef_.dtype == np.float64 and model.converged_
    judge(model, X.astype(np.float64), TWO)


def test_boundaries_of_novelty_need_all_digits():
    shifted = X + np.float32(5.0)
    model = BMRMNoveltyDetector(nu=0.2, tol=1e-6).fit(shifted)
    assert model.coef_.dtype == np.float64
    assert (model.predict(shifted) == -1).mean() <= 0.2


def test_a_refit_of_what_is_kept_is_the_same():
    model = BMRMClassifier("log_loss", reg_lambda=1e-2, warm_start=True).fit(X, TWO)
    coef, objective = model.coef_, model.objective_
    model.fit(X, TWO)
    assert np.array_equal(model.coef_, coef) and model.objective_ == objective
    assert model.coef_.dtype == np.float32
    judge(model.set_params(tol=1e-7).fit(X, TWO), X.astype(np.float64), TWO)


def test_sparsify_and_densify_keep_the_type():
    model = BMRMClassifier("log_loss", regularizer="l1", reg_lambda=1e-2).fit(X, Y)
    dense = model.coef_
    assert model.sparsify().coef_.dtype == np.float32
    assert np.array_equal(model.densify().coef_, dense)


def test_weights_that_rounding_moves_off_the_simplex_keep_all_digits():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(60, 200)).astype(np.float32)
    model = BMRMRegressor(regularizer="entropy_simplex", reg_lambda=0.1, fit_intercept=False)
    with np.errstate(invalid="ignore"):  # of an objective of inf, which the next lines would see
        model.fit(wide, wide @ rng.dirichlet(np.ones(200)))
    assert model.coef_.dtype == np.float64 and model.converged_
    assert np.isfinite(model.objective_) and abs(model.coef_.sum() - 1.0) < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_a_fit_that_just_converged_has_still_converged_when_rounded(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    double = BMRMClassifier("log_loss", solver="line-search").fit(X.astype(np.float64), y)
    model = BMRMClassifier("log_loss", solver="line-search", tol=double.relative_gap_).fit(X, y)
    assert not model.converged_ or model.relative_gap_ <= model.tol
