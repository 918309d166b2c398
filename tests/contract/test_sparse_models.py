"""L1 and the elastic net in the estimators: selection, sparse coef_, the largest value."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    reg_lambda_max,
)
from sklearn_bundle.regularizers import L1, ElasticNet, WeightedL1


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X, y / 100.0


# ---- selection of features -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "regularizer", ["l1", L1(), WeightedL1(np.linspace(0.5, 2.0, 30)), ElasticNet(1.0)]
)
@pytest.mark.parametrize("loss, reg_lambda", [("log_loss", 0.036), ("squared_hinge", 0.01)])
def test_selection_keeps_what_is_not_zero(cancer, regularizer, loss, reg_lambda):
    model = BMRMClassifier(loss, regularizer=regularizer, reg_lambda=reg_lambda, tol=1e-6)
    selector = SelectFromModel(model).fit(*cancer)
    assert selector.threshold_ == 1e-5
    kept = selector.estimator_.coef_[0] != 0.0
    assert np.array_equal(selector.get_support(), kept) and 0 < kept.sum() < 20


@pytest.mark.parametrize(
    "parameters, name",
    [
        ({}, "l2"),
        ({"regularizer": "quadratic"}, "quadratic"),  # which fit refuses
        ({"regularizer": "elasticnet"}, "elasticnet"),
        ({"regularizer": ElasticNet(0.3)}, "elasticnet"),
        ({"regularizer": "elasticnet", "l1_ratio": 1.0}, "l1"),
    ],
)
def test_penalty_of_other_regularizers(parameters, name):
    assert BMRMRegressor(**parameters).penalty == name


def test_penalty_is_no_parameter():
    model = BMRMClassifierCV(regularizer="l1")
    assert model.penalty == clone(model).penalty == "l1" and "penalty" not in model.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'penalty'"):
        model.set_params(penalty="l2")
    with pytest.raises(AttributeError):
        model.penalty = "l2"


# ---- sparse coefficients -------------------------------------------------------------------------


MODELS = {
    "classifier": BMRMClassifier("log_loss", regularizer="l1", reg_lambda=0.02),
    "search": BMRMClassifierCV("log_loss", regularizer="l1", reg_lambdas=[0.02], cv=2),
    "regressor": BMRMRegressor(regularizer="l1", reg_lambda=0.02),
    "targets": BMRMRegressor("huber", regularizer="l1", reg_lambda=0.02),
    "ranker": BMRMRanker(regularizer="l1", reg_lambda=0.02),
    "novelty": BMRMNoveltyDetector(),
    "pragam": PragamSVC(reg_lambda=0.1),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_sparse_coefficients_predict_alike(name, convert):
    X, y = load_iris(return_X_y=True)
    X, y = convert(X[::3]), np.column_stack([y, -y])[::3] if name == "targets" else y[::3]
    model = clone(MODELS[name]).fit(X, y)
    coef, before = model.coef_, model.predict(X)
    assert model.sparsify() is model and model.sparsify() is model
    assert sp.issparse(model.coef_) and model.coef_.format == "csr"
    assert model.coef_.shape == np.atleast_2d(coef).shape
    assert model.coef_.nnz == np.count_nonzero(coef)
    for copy in (model, pickle.loads(pickle.dumps(model))):
        after = copy.predict(X)
        assert after.shape == before.shape
        np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)
    assert model.densify() is model and np.array_equal(model.densify().coef_, coef)
    again = model.sparsify().fit(X, y).coef_
    assert again.shape == coef.shape and np.array_equal(again, coef)
    for change in (clone(model).sparsify, clone(model).densify):
        with pytest.raises(NotFittedError):
            change()


def test_sparse_coefficients_and_a_warm_start(diabetes):
    model = BMRMRegressor(regularizer="l1", reg_lambda=0.01, warm_start=True).fit(*diabetes)
    coef = model.coef_
    model.sparsify().fit(*diabetes)
    assert model.n_iter_ == 1 and np.array_equal(model.coef_, coef)


# ---- the solver ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, message",
    [
        (
            BMRMClassifier(regularizer="l1", solver="coordinate-descent"),
            "^solver='coordinate-descent' does not take loss='hinge' with regularizer='l1'",
        ),
        (
            BMRMRegressor(solver="coordinate-descent", regularizer="elasticnet", l1_ratio=0.0),
            "loss='squared_error' with regularizer='elasticnet'; .* Use solver='auto'",
        ),
        (BMRMRanker(solver="coordinate-descent"), "'solver' parameter of BMRMRanker"),
    ],
)
def test_coordinate_descent_where_it_does_not_go(cancer, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*cancer)


# ---- the largest value ---------------------------------------------------------------------------


def mean_of(weights, values):
    return np.average(values, weights=weights, axis=0)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_largest_value_of_squared_errors(diabetes, fit_intercept, l1_ratio):
    X, y = diabetes
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    residuals = y - fit_intercept * mean_of(weights, y)
    expected = np.abs(mean_of(weights, X * residuals[:, None])).max() / l1_ratio
    kind = {"regularizer": "elasticnet", "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    largest = reg_lambda_max(X, y, loss="squared_error", sample_weight=weights, **kind)
    assert type(largest) is float and largest == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "loss", ["log_loss", "squared_hinge", "softmax", "huber", "poisson", "quantile"]
)
@pytest.mark.filterwarnings("ignore:w is 0")
def test_all_weights_are_zero_from_the_largest_value_on(diabetes, loss):
    X, y = diabetes
    X = X + 0.05  # centered features would make the intercept of no account
    classify = loss in ("log_loss", "squared_hinge", "softmax")
    y = np.digitize(y, [1.0, 2.0]) if classify else y
    kind = BMRMClassifier if classify else BMRMRegressor
    settings = {"loss": loss, "regularizer": "l1", "tol": 1e-8}
    largest = reg_lambda_max(X, y, loss=loss)
    for reg_lambda in (1.01 * largest, 1e3 * largest):
        model = kind(reg_lambda=reg_lambda, **settings).fit(X, y)
        assert not model.coef_.any() and np.all(np.asarray(model.status_) == "converged")
    assert kind(reg_lambda=0.99 * largest, **settings).fit(X, y).coef_.any()


def test_largest_value_that_overflows(diabetes):
    X, y = diabetes
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="The loss is not finite at"):
        reg_lambda_max(1e200 * X, 1e150 * y, loss="squared_error")


def test_largest_value_with_weights_of_features(cancer):
    X, y = cancer
    factors = np.linspace(0.5, 2.0, 30)
    plain = reg_lambda_max(X / factors, y, loss="log_loss", class_weight="balanced")
    weighted = {"regularizer": WeightedL1(factors), "class_weight": "balanced"}
    assert reg_lambda_max(X, y, loss="log_loss", **weighted) == pytest.approx(plain, rel=1e-12)


@pytest.mark.filterwarnings("ignore:w is 0")
def test_from_the_largest_value_on_with_a_kink(cancer):
    """Classes of different weight: the hinge's g is not unique."""
    kind = {"loss": "hinge", "regularizer": "l1", "tol": 1e-8}
    model = BMRMClassifier(reg_lambda=reg_lambda_max(*cancer, loss="hinge"), **kind).fit(*cancer)
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(2.0 * min(np.mean(cancer[1]), np.mean(1 - cancer[1])))


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"loss": "multiclass_hinge"}, "^reg_lambda_max is not known for loss='multiclass_hinge'"),
        (
            {"regularizer": "elasticnet", "l1_ratio": 0.0},
            "^reg_lambda_max is for .*got regularizer='elasticnet', l1_ratio=0",
        ),
        ({"regularizer": "l2"}, "^reg_lambda_max is for regularizer='l1'.*got regularizer='l2'"),
        ({"loss": "ordinal"}, "^loss must be a str among .*, got 'ordinal'"),
        ({"reg_lambda": 1.0}, "^reg_lambda_max takes no reg_lambda"),
        ({"loss": "fbeta", "sample_weight": [1.0] * 569}, "takes no weights"),
    ],
)
def test_largest_value_refuses(cancer, parameters, message):
    with pytest.raises(ValueError, match=message):
        reg_lambda_max(*cancer, **parameters)
