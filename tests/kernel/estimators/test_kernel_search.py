"""Searches over C and gamma with the losses of SVC and SVR: the tables of GridSearchCV."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.svm import SVC, SVR

from sklearn_bundle import SwapSVC, SwapSVCCV, SwapSVR, SwapSVRCV

pytestmark = pytest.mark.filterwarnings("ignore:.* chose ")

CS, GAMMAS = [0.3, 3.0, 30.0], [0.05, 0.5]
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def classes(n=90):
    """Two classes that overlap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0.0).astype(int)


def numbers(n=80):
    """In some folds all variables are at bounds: the intercept is in the middle of an interval."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n)


def grid_of(model, X, y, cv=FOLDS, **further):
    grid = {"C": CS, "gamma": GAMMAS} | further
    return GridSearchCV(model, {k: v for k, v in grid.items() if v is not None}, cv=cv).fit(X, y)


def assert_same_table(found, expected, atol):
    others = {"mean_score_time", "std_score_time"}
    assert list(found) == [key for key in expected if key not in others]
    for key in found:
        if key == "params":
            assert found[key] == expected[key]
        elif "time" not in key and not key.startswith("rank"):
            assert_allclose(found[key], expected[key], atol=atol)


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize(
    "cache_size, n_jobs", [(1000, None), (1000, 2), (1e-3, None)], ids=["one", "two", "no space"]
)
def test_hinge_has_the_table_of_svc(kernel, cache_size, n_jobs):
    X, y = classes()
    settings = {"kernel": kernel, "degree": 2, "coef0": 1.0} if kernel == "poly" else {}
    ours = SwapSVCCV(CS, gammas=GAMMAS, loss="hinge", tol=1e-6, cv=FOLDS, n_jobs=n_jobs, **settings)
    ours.set_params(cache_size=cache_size).fit(X, y)
    theirs = grid_of(SVC(tol=1e-8, **settings), X, y)
    assert_same_table(ours.cv_results_, theirs.cv_results_, 1e-12)
    assert ours.scores_.shape == (3, 3, 2) and ours.mean_test_scores_.shape == (3, 2)
    assert_array_equal(ours.scores_[1].ravel(), ours.cv_results_["split1_test_score"])
    assert {"C": ours.C_, "gamma": ours.gamma_} == theirs.best_params_
    assert_array_equal(ours.Cs_, CS)
    assert_array_equal(ours.gammas_, GAMMAS)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)
    assert ours.dual_gap_ <= 1e-6 * ours.objective_


@pytest.mark.matrix
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("cache_size", [1000, 1e-3], ids=["one matrix", "no space for it"])
def test_regression_has_the_table_of_a_grid_search(loss, cache_size):
    X, y = numbers()
    cv = KFold(3, shuffle=True, random_state=0)
    settings = {"gammas": GAMMAS, "epsilon": 0.1, "tol": 1e-6, "cache_size": cache_size}
    ours = SwapSVRCV(CS, loss=loss, cv=cv, **settings).fit(X, y)
    single = SwapSVR(loss=loss, epsilon=0.1, tol=1e-8)
    if loss == "epsilon_insensitive":
        single = SVR(epsilon=0.1, tol=1e-8)
    theirs = grid_of(single, X, y, cv)
    assert_same_table(ours.cv_results_, theirs.cv_results_, 2e-3)
    assert {"C": ours.C_, "gamma": ours.gamma_} == theirs.best_params_
    assert_allclose(ours.predict(X), theirs.predict(X), atol=5e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_one_gamma_is_the_search_without(loss):
    X, y = classes()
    settings = {"Cs": CS, "loss": loss, "tol": 1e-6, "cv": FOLDS}
    one = SwapSVCCV(gammas=[0.5], **settings).fit(X, y)
    plain = SwapSVCCV(gamma=0.5, **settings).fit(X, y)
    assert one.scores_.shape == (3, 3, 1) and plain.scores_.shape == (3, 3)
    assert_array_equal(one.scores_[:, :, 0], plain.scores_)
    assert (one.C_, one.gamma_) == (plain.C_, plain.gamma_) and not hasattr(plain, "gammas_")
    assert_allclose(one.decision_function(X), plain.decision_function(X), atol=5e-3)
    single = SVC(tol=1e-6, gamma=0.5) if loss == "hinge" else SwapSVC(tol=1e-6, gamma=0.5)
    assert_same_table(plain.cv_results_, grid_of(single, X, y, gamma=None).cv_results_, 1e-12)


def test_ties_go_to_the_smallest_C_and_then_the_smallest_gamma():
    X, y = classes()
    model = SwapSVCCV(CS, gammas=GAMMAS[::-1], cv=2, scoring=lambda model, X, y: 0.5).fit(X, y)
    assert (model.C_, model.gamma_) == (0.3, 0.05)
    best = {(3.0, 0.5), (30.0, 0.05)}
    seen = []

    def score(model, X, y):
        seen.append(model.C)
        return float((seen[-1], GAMMAS[(len(seen) - 1) // 3 % 2]) in best)

    model.set_params(scoring=score).fit(X, y)
    assert seen == CS * 4 and (model.C_, model.gamma_) == (3.0, 0.5)
