"""C beside reg_lambda: the sum of losses in place of their mean, as LIBLINEAR has it."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    bmrm_path,
)
from tests.contract.judge import judge

TIGHT = {"tol": 1e-7, "max_iter": 20000}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[::3, :6], y[::3]


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}], ids=str)
def test_it_is_that_of_linear_svc(data, class_weight):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    kind = {"C": 0.1, "fit_intercept": False, "class_weight": class_weight}
    theirs = LinearSVC(loss="hinge", tol=1e-9, max_iter=10**6, random_state=0, **kind)
    theirs.fit(X, y, sample_weight=weights)
    for ours in (BMRMClassifier(**kind, **TIGHT), PragamSVC(**kind, **TIGHT)):
        ours.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        judge(ours, X, y, sample_weight=weights)
        if class_weight is None:
            assert ours.reg_lambda_ == pytest.approx(1.0 / (0.1 * weights.sum()), rel=1e-12)


@pytest.mark.parametrize("kind", [BMRMClassifier, BMRMRegressor, PragamSVC])
def test_both_are_an_error(kind, data):
    with pytest.raises(ValueError, match=r"^reg_lambda=0.1 and C=2.0 are both.*other one at None"):
        kind(reg_lambda=0.1, C=2).fit(*data)
    with pytest.raises(
        ValueError, match=r"^reg_lambda must .* got 0.0, the inverse of .* \(times C\)"
    ):
        kind(C=1e308).fit(*data)


@pytest.mark.parametrize("kind", [BMRMClassifierCV, BMRMRegressorCV])
def test_both_kinds_of_values_are_an_error(kind, data):
    for other in ({"reg_lambdas": [0.1]}, {"eps": 0.1}):
        with pytest.raises(ValueError, match=f"^{next(iter(other))}=.*Cs=.*set one of them"):
            kind(Cs=[1.0], **other).fit(*data)
    with pytest.raises(ValueError, match=r"^Cs must be .* got \[0"):
        kind(Cs=[0.0, 1.0]).fit(*data)


def test_a_path_takes_none(data):
    with pytest.raises(ValueError, match=r"^bmrm_path takes no C"):
        bmrm_path(*data, C=1.0)


@pytest.mark.parametrize(
    "single, search",
    [(BMRMClassifier(), BMRMClassifierCV), (BMRMRegressor("huber"), BMRMRegressorCV)],
    ids=["classifier", "regressor"],
)
def test_a_search_is_a_grid_search_over_it(data, single, search):
    X, y = data
    weights = np.random.default_rng(1).uniform(0.1, 2.0, len(y))
    Cs = [1.0, 0.01, 0.1]
    loss = {"loss": single.loss, "tol": 1e-6}
    ours = search(Cs=Cs, cv=3, **loss).fit(X, y, sample_weight=weights)
    grid = GridSearchCV(single.set_params(tol=1e-6), {"C": sorted(Cs)}, cv=3).fit(X, y)
    scores = search(Cs=Cs, cv=3, **loss).fit(X, y).mean_test_scores_
    np.testing.assert_allclose(scores, grid.cv_results_["mean_test_score"], atol=1e-3)
    assert list(ours.Cs_) == sorted(Cs) and ours.C_ in Cs
    assert ours.reg_lambda_ == pytest.approx(1.0 / (ours.C_ * weights.sum()), rel=1e-12)
    assert search(Cs=2, cv=3).fit(X, y).Cs_.tolist() == [1e-3, 1e3]
