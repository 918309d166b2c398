"""BMRMClassifierCV and BMRMRegressorCV against searches and single fits."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNetCV
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, fbeta_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    BMRMRegressorCV,
    SwapSVCCV,
    bmrm_path,
    reg_lambda_max,
)

LAMBDAS = [1e-2, 1.0, 1e-1]
DESCENDING = [1.0, 1e-1, 1e-2]
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def scores_of(search, n_folds):
    return np.array([search.cv_results_[f"split{k}_test_score"] for k in range(n_folds)])


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "softmax"])
def test_scores_and_model_of_a_search(iris, loss, convert):
    X, y = convert(iris[0]), iris[1]
    ours = BMRMClassifierCV(loss, reg_lambdas=LAMBDAS, cv=FOLDS, tol=1e-8, max_iter=5000).fit(X, y)
    single = BMRMClassifier(loss, tol=1e-8, max_iter=5000)
    search = GridSearchCV(single, {"reg_lambda": DESCENDING}, cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(ours.scores_, scores_of(search, 3), atol=1e-12)
    np.testing.assert_array_equal(ours.mean_test_scores_, ours.scores_.mean(axis=0))
    assert ours.reg_lambda_ == search.best_params_["reg_lambda"]
    assert ours.reg_lambdas_.tolist() == DESCENDING
    best = single.set_params(reg_lambda=ours.reg_lambda_).fit(X, y)
    assert np.array_equal(best.coef_, ours.coef_) and np.array_equal(best.n_iter_, ours.n_iter_)
    threads = clone(ours).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(threads.scores_, ours.scores_)
    assert np.array_equal(threads.coef_, ours.coef_)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_search_against_theirs(regression, l1_ratio):
    X, y = regression
    values = reg_lambda_max(X, y, loss="squared_error") / l1_ratio * np.geomspace(1.0, 1e-2, 10)
    kind = {"regularizer": "elasticnet", "l1_ratio": l1_ratio, "tol": 1e-10}
    ours = BMRMRegressorCV(
        reg_lambdas=10, eps=1e-2, cv=KFold(4), scoring="neg_mean_squared_error", **kind
    ).fit(X, y)
    theirs = ElasticNetCV(l1_ratio=l1_ratio, alphas=values, cv=KFold(4), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.reg_lambdas_, theirs.alphas_, rtol=1e-12)
    np.testing.assert_allclose(ours.scores_, -theirs.mse_path_.T, rtol=1e-4)
    assert ours.reg_lambda_ == pytest.approx(theirs.alpha_, rel=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
@pytest.mark.filterwarnings("ignore:w is 0")
def test_default_scores_are_those_of_score(data, regression, loss, convert):
    X, y = data if loss == "log_loss" else regression
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    kind, single = BMRMRegressorCV, BMRMRegressor
    if loss == "log_loss":
        kind, single = BMRMClassifierCV, BMRMClassifier
    folds, common = list(KFold(3).split(X)), {"regularizer": "l1", "tol": 1e-9}
    ours = kind(loss, reg_lambdas=[0.1, 0.01], cv=folds, **common).fit(convert(X), y, weights)
    for (train, test), scores in zip(folds, ours.scores_, strict=True):
        for reg_lambda, score in zip([0.1, 0.01], scores, strict=True):
            one = single(loss, reg_lambda=reg_lambda, **common).fit(
                X[train], y[train], weights[train]
            )
            assert score == pytest.approx(one.score(X[test], y[test], weights[test]), abs=1e-4)


@pytest.mark.parametrize(
    ("parameters", "scoring"),
    [
        ({"loss": "quantile", "quantile": 0.8}, make_scorer(d2_pinball_score, alpha=0.8)),
        ({"loss": "absolute_error"}, "d2_absolute_error_score"),
        ({"loss": "poisson"}, make_scorer(d2_tweedie_score, power=1)),
        ({"loss": "roc_auc"}, "roc_auc"),
        ({"loss": "fbeta", "beta": 2.0}, make_scorer(fbeta_score, beta=2.0, pos_label=1)),
    ],
    ids=lambda case: case["loss"] if isinstance(case, dict) else "",
)
def test_a_loss_is_selected_by_the_score_that_it_trains(data, regression, parameters, scoring):
    measures = parameters["loss"] in ("roc_auc", "fbeta")
    X, y = (data[0], data[1] == data[1][0]) if measures else regression
    kind = BMRMClassifierCV if measures else BMRMRegressorCV
    common = parameters | {"reg_lambdas": LAMBDAS, "cv": 3, "tol": 1e-6}
    default, asked = (kind(**common, scoring=s).fit(X, y) for s in (None, scoring))
    np.testing.assert_allclose(default.scores_, asked.scores_, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
def test_scores_of_a_fold_with_one_target_value_or_row(regression):
    X, y = regression
    y = y.copy()
    y[:30] = 1.0
    folds, single = list(KFold(3).split(X)), (np.arange(1, len(y)), np.arange(1))
    for loss in ("squared_error", "poisson"):
        assert BMRMRegressorCV(loss, reg_lambdas=[0.1], cv=folds).fit(X, y).scores_[0, 0] == 0.0
    ours = BMRMRegressorCV(regularizer="l1", reg_lambdas=[0.1], cv=[single]).fit(X, y)
    assert np.isnan(ours.scores_).all()


def test_several_targets(regression):
    X, y = regression
    ours = BMRMRegressorCV(reg_lambdas=LAMBDAS, cv=3).fit(X, np.c_[y, X[:, 0]])
    assert ours.predict(X).shape == (90, 2) and ours.score(X, np.c_[y, X[:, 0]]) > 0.7


def test_a_weight_two_is_a_repeated_row_and_zero_a_missing_one(data):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    folds = list(FOLDS.split(X, y))
    common = {"reg_lambdas": LAMBDAS, "tol": 1e-9, "max_iter": 5000}
    ours = BMRMClassifierCV(cv=folds, **common).fit(X, y, weights)
    origin = np.repeat(np.arange(len(y)), weights.astype(int))
    repeated = [
        (np.flatnonzero(np.isin(origin, train)), np.flatnonzero(np.isin(origin, test)))
        for train, test in folds
    ]
    other = BMRMClassifierCV(cv=repeated, **common).fit(X[origin], y[origin])
    np.testing.assert_allclose(ours.scores_, other.scores_, atol=1e-12)
    assert ours.reg_lambda_ == other.reg_lambda_
    assert ours.objective_ == pytest.approx(other.objective_, rel=2e-9)


@pytest.mark.parametrize("rest", [1.0, 1.0 + 2.0**-52], ids=["equal", "but for rounding"])
def test_the_largest_of_the_best_values(data, rest):
    def score(model, X, y):
        return 1.0 if model.reg_lambda == 1.0 else rest

    model = BMRMClassifierCV(reg_lambdas=LAMBDAS, cv=3, scoring=score).fit(*data)
    assert model.reg_lambda_ == 1.0


def test_a_fold_with_one_class(data):
    X, y = data
    folds = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with pytest.raises(ValueError, match="needs samples of at least 2 classes"):
        BMRMClassifierCV(cv=folds).fit(X, y)


# ---- the final fit of a search ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BMRMClassifierCV, BMRMRegressorCV, "bmrm_path"])
def test_the_warning_has_the_name_and_the_line_of_the_caller(data, kind):
    few = {"reg_lambdas": [0.1], "max_iter": 1, "tol": 1e-12, "solver": "line-search"}
    name = kind if kind == "bmrm_path" else kind.__name__
    with pytest.warns(ConvergenceWarning, match=f"^{name} stopped") as caught:
        bmrm_path(*data, **few) if kind == "bmrm_path" else kind(cv=2, **few).fit(*data)
    (warning,) = caught
    assert warning.filename == __file__


@pytest.mark.parametrize("kind", [BMRMClassifierCV, SwapSVCCV])
def test_a_score_of_what_the_model_lacks_is_refused_before_any_fit(data, kind):
    search = kind(cv=2, scoring="neg_log_loss")
    said = (
        r"^scoring='neg_log_loss' needs predict_proba, which (BMRMClassifier with loss='hi|SwapSVC)"
    )
    with pytest.raises(ValueError, match=said):
        search.fit(*data)
    assert not hasattr(search, "scores_")
