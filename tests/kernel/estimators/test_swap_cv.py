"""SwapSVCCV: the same scores and model as a search that fits every fold separately."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from sklearn_bundle import SwapSVC, SwapSVCCV

CS = [0.1, 1.0, 10.0]
GAMMA = 0.1
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def search(X, y, **parameters):
    """GridSearchCV over SwapSVC with the same folds."""
    model = SwapSVC(gamma=GAMMA, tol=1e-8, **parameters)
    return GridSearchCV(model, {"C": CS}, cv=FOLDS).fit(X, y)


def scores_of(grid):
    return np.array([grid.cv_results_[f"split{k}_test_score"] for k in range(3)])


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("cache_size", [1000, 1e-3], ids=["one matrix", "no space for it"])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_and_model_of_a_search(cache_size, convert, classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes, 1:3], y[y < classes]
    X = convert(X)
    model = SwapSVCCV(CS, cv=FOLDS, gamma=GAMMA, tol=1e-8, cache_size=cache_size).fit(X, y)
    grid = search(X, y)
    np.testing.assert_allclose(model.scores_, scores_of(grid), atol=1e-12)
    np.testing.assert_array_equal(model.mean_test_scores_, model.scores_.mean(axis=0))
    assert model.C_ == grid.best_params_["C"] == CS[np.argmax(model.mean_test_scores_)]
    best = SwapSVC(model.C_, gamma=GAMMA, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), best.decision_function(X), atol=1e-4)
    assert np.all(model.dual_gap_ <= 1e-8 * model.objective_)


def test_three_classes_at_the_default_tol_have_the_choice_of_a_search():
    """Within tol models differ, here by one sample of a fold: each starts from the last C."""
    X, y = load_iris(return_X_y=True)
    model = SwapSVCCV(CS, cv=FOLDS, gamma=GAMMA).fit(X, y)
    grid = GridSearchCV(SwapSVC(gamma=GAMMA, random_state=0), {"C": CS}, cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(model.scores_, scores_of(grid), atol=1.0 / 50)
    means = dict(zip(CS, grid.cv_results_["mean_test_score"], strict=True))
    assert means[model.C_] == pytest.approx(grid.best_score_)


def test_precomputed_matrix(data):
    X, y = data
    K = rbf_kernel(X, gamma=GAMMA)
    given = SwapSVCCV(CS, cv=FOLDS, kernel="precomputed", tol=1e-8).fit(K, y)
    model = SwapSVCCV(CS, cv=FOLDS, gamma=GAMMA, tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(given.scores_, model.scores_)
    assert np.array_equal(given.predict(K), model.predict(X))


def test_other_scores(data):
    X, y = data
    model = SwapSVCCV(CS, cv=FOLDS, gamma=GAMMA, tol=1e-8, scoring="roc_auc").fit(X, y)
    grid = GridSearchCV(SwapSVC(gamma=GAMMA, tol=1e-8), {"C": CS}, cv=FOLDS, scoring="roc_auc")
    np.testing.assert_allclose(model.scores_, scores_of(grid.fit(X, y)), atol=1e-4)


def test_number_of_values(data):
    model = SwapSVCCV(3, cv=3).fit(*data)
    np.testing.assert_allclose(model.Cs_, [1e-3, 1.0, 1e3])
    assert model.scores_.shape == (3, 3)
    assert clone(model).get_params()["Cs"] == 3


def test_a_class_that_is_missing_in_a_fold(data):
    X, y = data
    folds = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with pytest.raises(ValueError, match=r"The class .*1.* has no sample in the training part"):
        SwapSVCCV(CS, cv=folds).fit(X, y)


def test_scores_that_differ_by_rounding_are_equal(data):
    scores = iter(
        [0.3, 0.1 + 0.2, 0.1 + 0.2] * 3
    )  # each fold has the values of C in ascending order
    model = SwapSVCCV(CS, cv=3, scoring=lambda model, X, y: next(scores)).fit(*data)
    assert model.mean_test_scores_[0] < model.mean_test_scores_[1] and model.C_ == 0.1
