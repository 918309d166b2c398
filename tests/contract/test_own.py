"""A user's own loss, regularizer, kernel, model, callback and scorer, in pipelines and searches."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapSVC,
)
from sklearn_bundle.models import Multiclass
from tests.contract.cases import data
from tests.contract.judge import judge
from tests.contract.user_losses import ElasticNetPenalty, Expectile, SmoothHinge, SquaredMargins
from tests.contract.user_models import Ranking, ranked_items

X, Y, WEIGHTS, _ = data("two, weighted")
TARGET, THREE = data("numbers").y, data("three").y


def test_a_loss_against_scipy():
    """With the regularizer of a user's own, too."""
    s = WEIGHTS / WEIGHTS.sum()

    def risk(v):
        return s @ Expectile().value(X @ v[:-1] + v[-1], TARGET)

    model = BMRMRegressor(Expectile(), reg_lambda=0.1, tol=1e-8).fit(X, TARGET, WEIGHTS)
    best = minimize(lambda v: risk(v) + 0.05 * v[:-1] @ v[:-1], np.zeros(5), tol=1e-10).fun
    assert model.converged_ and model.lower_bound_ <= best * (1 + 1e-12)
    assert best <= model.objective_ * (1 + 1e-7)
    model.set_params(regularizer=ElasticNetPenalty(0.5), tol=1e-6).fit(X, TARGET, WEIGHTS)
    w, b = model.coef_, model.intercept_
    value = risk(np.r_[w, b]) + 0.1 * np.sum(0.5 * w**2 + 0.5 * np.abs(w))
    assert model.objective_ == pytest.approx(value, rel=1e-10)
    assert model.converged_


def test_a_loss_of_several_classes():
    model = BMRMClassifier(SquaredMargins(), reg_lambda=0.1, tol=1e-6).fit(X, THREE)
    scores = X @ model.coef_.T + model.intercept_
    risk = np.mean(SquaredMargins().value(scores, THREE))
    assert model.objective_ == pytest.approx(risk + 0.05 * np.sum(model.coef_**2), rel=1e-10)
    assert model.converged_ and pickle.loads(pickle.dumps(model)).predict(X).shape == THREE.shape


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_model_of_structures(loss):
    rows, orders = ranked_items()
    model = StructuredSVM(Ranking(), reg_lambda=0.1, loss=loss, tol=1e-6, random_state=0)
    judge(model.fit(rows, orders), rows, orders)
    right = [np.array_equal(a, b) for a, b in zip(model.predict(rows), orders, strict=True)]
    assert np.mean(right) > 0.5


def test_scorers_searches_and_pipelines():
    pinball = make_scorer(mean_pinball_loss, alpha=0.9, greater_is_better=False)
    steps = make_pipeline(StandardScaler(), BMRMRegressor("quantile", quantile=0.9))
    grid = {"bmrmregressor__reg_lambda": [1e-3, 1e-1]}
    search = GridSearchCV(steps, grid, scoring=pinball, cv=3).fit(X, TARGET)
    assert search.best_score_ <= 0.0 and search.best_estimator_[-1].converged_
    grid = {"loss": [SmoothHinge(), "hinge", "log_loss"], "C": [0.1, 1.0]}
    search = GridSearchCV(BMRMClassifier(), grid, cv=2, error_score="raise").fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    grid = {"model__cost": [None, 2.0 * (1.0 - np.eye(3))]}
    GridSearchCV(StructuredSVM(Multiclass()), grid, cv=2, error_score="raise").fit(X, THREE)


def test_weights_are_routed():
    model = BMRMClassifier(reg_lambda=0.1, tol=1e-6)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        params = {"sample_weight": WEIGHTS}
        weighted = cross_validate(model, X, Y, cv=2, params=params)["test_score"]
    plain = cross_val_score(clone(model), X, Y, cv=2)
    assert np.isfinite(weighted).all() and weighted.shape == plain.shape


@pytest.mark.parametrize(
    "model", [BMRMClassifier(), PragamSVC(reg_lambda=0.1), SwapSVC(), BMRMClassifierCV(cv=2)]
)
def test_wrappers_of_scikit_learn(model):
    assert CalibratedClassifierCV(model, cv=2).fit(X, Y).predict_proba(X).min() >= 0.0
    assert BaggingClassifier(model, n_estimators=2).fit(X, Y).score(X, Y) > 0.5
    assert OneVsRestClassifier(model).fit(X, THREE).predict(X).shape == THREE.shape
