"""On the benchmark data, where SKLEARN_BUNDLE_DATA names its folder."""

import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier, PragamSVC

pytestmark = pytest.mark.realdata


def test_grid_search_on_a9a(tasks):
    X, y = tasks.linear("a9a")
    pipeline = make_pipeline(StandardScaler(with_mean=False), BMRMClassifier())
    grid = {"bmrmclassifier__reg_lambda": [1e-4, 1e-2]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(X, y)
    # LinearSVC and LogisticRegression reach 0.847 on these folds
    assert search.best_score_ > 0.84
    best = search.best_estimator_[-1]
    assert best.dual_gap_ <= 1e-3 * best.objective_


@pytest.mark.parametrize("name, reg_lambda", [("a9a", 1e-4), ("covtype2", 1e-3), ("w8a", 1e-4)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gap_of_1e_8(tasks, name, reg_lambda, fit_intercept):
    X, y = tasks.linear(name)
    model = BMRMClassifier(
        reg_lambda=reg_lambda, tol=1e-8, max_iter=5000, fit_intercept=fit_intercept
    ).fit(X, y)
    assert model.status_ == "converged"
    assert 0.0 <= model.dual_gap_ <= 1e-8 * model.objective_


@pytest.mark.parametrize("name", ["a9a", "ijcnn1", "covtype2"])
def test_pragam_and_bmrm_agree(tasks, name):
    X, y = tasks.linear(name)
    ours = PragamSVC(reg_lambda=1e-3).fit(X, y)
    other = BMRMClassifier(reg_lambda=1e-3).fit(X, y)
    assert ours.status_ == other.status_ == "converged"
    assert ours.lower_bound_ <= other.objective_ and other.lower_bound_ <= ours.objective_
