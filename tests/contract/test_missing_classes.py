"""Searches whose folds lack a class, with scores of probabilities and of the order of classes."""

import numpy as np
import pytest
from sklearn import metrics

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV, SwapSVC, SwapSVCCV

CLASSES = np.array(["a", "b", "c"])
VALUES = [0.1, 0.01]
METRICS = {
    "neg_log_loss": lambda y, p: -metrics.log_loss(y, p, labels=CLASSES),
    # Not by brier_score_loss, which has labels only since scikit-learn 1.7.
    "neg_brier_score": lambda y, p: -np.mean(np.sum((p - (y[:, None] == CLASSES)) ** 2, axis=1)),
    "d2_log_loss_score": lambda y, p: metrics.d2_log_loss_score(y, p, labels=CLASSES),
    "top_k_accuracy": lambda y, p: metrics.top_k_accuracy_score(y, p, labels=CLASSES),
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.repeat(CLASSES, 30)
    return rng.normal(size=(90, 4)) + (y[:, None] == CLASSES) @ np.eye(3, 4), y


def folds(y):
    """One training part lacks the last class, and one test part."""
    rows = np.arange(len(y))
    held_out = (rows % 3 == 0) | (y == "c"), (rows % 3 == 1) & (y != "c")
    return [(rows[~test], rows[test]) for test in held_out]


def score(scoring, X, y, train, test, **parameters):
    model = BMRMClassifier(**parameters).fit(X[train], y[train])
    found = np.zeros((len(test), 3))
    found[:, np.searchsorted(CLASSES, model.classes_)] = model.predict_proba(X[test])
    return METRICS[scoring](y[test], found)


@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
@pytest.mark.parametrize("scoring", METRICS)
def test_scores_are_those_of_a_loop_over_folds(data, loss, scoring):
    X, y = data
    given = {"loss": loss, "tol": 1e-8}
    expected = [
        [score(scoring, X, y, *fold, reg_lambda=value, **given) for value in VALUES]
        for fold in folds(y)
    ]
    search = BMRMClassifierCV(reg_lambdas=VALUES, cv=folds(y), scoring=scoring, **given).fit(X, y)
    # The optima differ by sqrt(2 tol J / reg_lambda), 1e-3 at most.
    np.testing.assert_allclose(search.scores_, expected, rtol=1e-3)
    assert search.reg_lambda_ == VALUES[np.argmax(np.mean(expected, axis=0))]


def test_a_scorer_of_ones_own_gets_all_columns(data):
    X, y = data
    shapes = set()

    def scoring(model, X, y):
        shapes.add((model.predict_proba(X).shape[1], len(model.classes_)))
        return model.score(X, y)

    BMRMClassifierCV("softmax", reg_lambdas=VALUES, cv=folds(y), scoring=scoring).fit(X, y)
    assert shapes == {(3, 3)}


def test_a_test_part_of_a_kernel_search_may_lack_a_class(data):
    X, y = data
    train, test = folds(y)[1]
    search = SwapSVCCV([1.0], cv=[(train, test)], scoring="top_k_accuracy", gamma=0.1).fit(X, y)
    scores = SwapSVC(1.0, gamma=0.1).fit(X[train], y[train]).decision_function(X[test])
    assert search.scores_ == metrics.top_k_accuracy_score(y[test], scores, labels=CLASSES)
