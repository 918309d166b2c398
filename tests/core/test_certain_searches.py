"""``refine``, and searches with ``certain=True``, against nearly exact optima."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressorCV,
    SwapSVC,
)
from tests.contract.fits import quiet


def data(n=120, d=4, seed=0, noise=1.0):
    """Rows with offsets and scales, and scores that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 3.0, d) + np.arange(d)
    f = (X - X.mean(axis=0)) @ (rng.normal(size=d) / X.std(axis=0))
    return X, f + noise * rng.normal(size=n)


X, F = data()
TEST = data(seed=1)[0]
LABELS, GRADES = (F > 0.3).astype(int), np.digitize(F, [-1.0, 1.0])


@pytest.mark.parametrize(
    "model",
    [BMRMClassifier(), BMRMClassifier(warm_start=True), SwapSVC(), BMRMClassifierCV(cv=3)],
    ids=str,
)
def test_refine(model):
    model.fit(X, LABELS)
    tol = model.tol
    assert model.refine(X, LABELS, TEST, LABELS, width=0.02) is model
    least, most = model.score_bounds(TEST, LABELS)
    assert most - least <= 0.02 and model.tol == tol


def test_refine_says_why_it_cannot(by_steps):
    model = BMRMClassifier(reg_lambda=1e-3, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="refine knows the optimum's score to"):
        quiet(model, X, LABELS).refine(X, LABELS, TEST, LABELS, width=1e-6)


SEARCHES = [
    *(BMRMClassifierCV(loss) for loss in ("log_loss", "hinge", "roc_auc", "softmax")),
    BMRMRegressorCV("squared_error"),
    BMRMRegressorCV("quantile", quantile=0.7),
]


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:.*chose reg_lambda")
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_searches_know_whether_their_choice_is_certain(search):
    y = F if isinstance(search, BMRMRegressorCV) else LABELS
    y = GRADES if search.loss == "softmax" else y
    search.set_params(reg_lambdas=[1e-3, 1e-2, 0.1, 1.0], cv=3)
    exact = quiet(clone(search).set_params(tol=1e-11, max_iter=5000), X, y)
    found = quiet(search.set_params(certain=True), X, y)
    assert found.test_score_bounds_.shape == (4, 3, 2)
    low, high = np.moveaxis(found.test_score_bounds_, 2, 0)
    slack = 1e-9
    assert (low - slack <= exact.scores_.T).all() and (high + slack >= exact.scores_.T).all()
    assert isinstance(found.best_is_certain_, bool)
    assert found.best_is_certain_ and found.reg_lambda_ == exact.reg_lambda_


@pytest.mark.filterwarnings("ignore:.*chose")
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_searches_hold_exact_scores_by_class_and_weight(loss):
    """With two problems of which each goes on by itself, strengths that follow C, and weights."""
    weights = np.random.default_rng(0).random(len(X)) + 0.5
    search = BMRMClassifierCV(loss, Cs=[0.01, 0.1, 1.0], cv=2)
    exact = quiet(clone(search).set_params(tol=1e-11, max_iter=5000), X, GRADES, weights)
    found = quiet(search.set_params(certain=True), X, GRADES, weights)
    low, high = np.moveaxis(found.test_score_bounds_, 2, 0)
    assert (low - 1e-12 <= exact.scores_.T).all() and (high + 1e-12 >= exact.scores_.T).all()
    assert found.best_is_certain_ and found.C_ == exact.C_


def test_equal_scores_are_certain():
    """Values that label all test rows alike are tied, and the first counts."""
    search = BMRMClassifierCV("log_loss", reg_lambdas=[10.0, 5.0, 2.0], certain=True, cv=3)
    found = quiet(search, 1e-3 * X, LABELS)
    assert len(set(found.mean_test_scores_)) == 1
    assert found.best_is_certain_ and found.reg_lambda_ == 10.0


def test_searches_that_cannot_be_certain():
    wrong = {"regularizer": "l1"}, {"scoring": "accuracy"}, {"loss": "fbeta"}
    for given in wrong:
        with pytest.raises(ValueError, match="certain=True needs bounds of scores"):
            BMRMClassifierCV(certain=True, **given).fit(X, LABELS)
