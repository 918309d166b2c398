"""What all searches share: groups, cv_results_, the time limit, the warning about the choice."""

import warnings
from time import perf_counter

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, cross_validate
from sklearn.utils.estimator_checks import check_sparsify_coefficients

from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    BMRMRegressorCV,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)
from sklearn_bundle.metrics import token_accuracy_scorer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 3))
Y = (X[:, 0] + RNG.normal(size=48) > 0.0).astype(int)
TARGET = X[:, 0] + RNG.normal(size=48)
SENTENCES = [[{"a": float(x)} for x in row] for row in X]
LABELS = [[int(x > 0.2) for x in row] for row in X]
GROUPS = np.repeat(np.arange(8), 6)
VALUES, TIGHT = [1.0, 0.1, 0.01], {"tol": 1e-6}

# The search, its data, and the estimator with its scorer for GridSearchCV.
SEARCHES = {
    "BMRMClassifierCV": (BMRMClassifierCV, (X, Y), BMRMClassifier("squared_hinge", **TIGHT), None),
    "BMRMRegressorCV": (BMRMRegressorCV, (X, TARGET), BMRMRegressor(**TIGHT), None),
    "SwapSVCCV": (SwapSVCCV, (X, Y), SwapSVC(gamma=0.5, **TIGHT), None),
    "SwapSVRCV": (SwapSVRCV, (X, TARGET), SwapSVR(gamma=0.5, **TIGHT), None),
    "SDCACRFCV": (SDCACRFCV, (SENTENCES, LABELS), SDCACRF(**TIGHT), token_accuracy_scorer),
}


def search(kind, **parameters):
    """The search, and the name of what it chooses."""
    name = "C" if kind in (SwapSVCCV, SwapSVRCV) else "reg_lambda"
    if kind is SDCACRFCV:
        parameters["random_state"] = 0
    if kind is BMRMClassifierCV:
        parameters["loss"] = "squared_hinge"
    if name == "C":
        parameters["gamma"] = 0.5  # "scale" is that of all data in a search
    return kind(**{f"{name}s": VALUES} | TIGHT | parameters), name


@pytest.mark.parametrize("kind, data, single, scorer", SEARCHES.values(), ids=SEARCHES)
def test_groups_and_results_are_those_of_grid_search(kind, data, single, scorer):
    cv = GroupKFold(3)
    ours, name = search(kind, cv=cv)
    ours.fit(*data, groups=GROUPS)
    values = getattr(ours, f"{name}s_").tolist()
    theirs = GridSearchCV(single, {name: values}, cv=cv, scoring=scorer)
    theirs.fit(*data, groups=GROUPS)
    found, expected = ours.cv_results_, theirs.cv_results_
    others = {"mean_score_time", "std_score_time"}
    assert list(found) == [key for key in expected if key not in others]
    for key in found:
        if key == "params" or key.startswith("rank"):
            assert list(found[key]) == list(expected[key])
        elif "time" not in key:
            np.testing.assert_allclose(found[key], expected[key], atol=1e-3)
    kept = found[f"param_{name}"]
    assert isinstance(kept, np.ma.MaskedArray) and kept.mask.shape == (3,) and not kept.mask.any()
    assert found["rank_test_score"].dtype == expected["rank_test_score"].dtype
    assert (found["mean_fit_time"] > 0.0).all()
    np.testing.assert_array_equal(found["mean_test_score"], ours.mean_test_scores_)
    assert found["params"][found["rank_test_score"].argmin()] == {name: getattr(ours, f"{name}_")}
    with sklearn.config_context(enable_metadata_routing=True):
        again = search(kind, cv=cv)[0].fit(*data, groups=GROUPS)
    np.testing.assert_array_equal(again.scores_, ours.scores_)


def test_groups_pass_through_an_outer_search():
    inner = search(BMRMClassifierCV, cv=GroupKFold(2))[0]
    weights = np.ones(len(Y))
    with sklearn.config_context(enable_metadata_routing=True):
        inner.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        metadata = {"groups": GROUPS, "sample_weight": weights}
        outer = cross_validate(inner, X, Y, cv=GroupKFold(2), params=metadata)
        assert np.isfinite(outer["test_score"]).all()


@pytest.mark.parametrize("kind", [BMRMClassifierCV, SwapSVCCV])
def test_groups_go_with_rows_of_weight_zero(kind):
    weights = np.ones(len(Y))
    weights[[3, 17, 40]] = 0.0
    kept, cv = weights > 0.0, LeaveOneGroupOut()
    ours = search(kind, cv=cv)[0].fit(X, Y, weights, groups=GROUPS)
    fewer = search(kind, cv=cv)[0].fit(X[kept], Y[kept], groups=GROUPS[kept])
    np.testing.assert_allclose(ours.scores_, fewer.scores_, atol=1e-12)


@pytest.mark.parametrize("kind, data, single, scorer", SEARCHES.values(), ids=SEARCHES)
def test_wrong_metadata_of_fit(kind, data, single, scorer):
    model = search(kind, cv=GroupKFold(3))[0]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'queries'.*groups"):
        model.fit(*data, queries=GROUPS)
    with pytest.raises(ValueError, match="groups"):
        model.fit(*data)
    for cv in (2, GroupKFold(3)):
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[48, 5\]"):
            search(kind, cv=cv)[0].fit(*data, groups=GROUPS[:5])
    routing = sklearn.config_context(enable_metadata_routing=True)
    with routing, pytest.raises(TypeError, match="queries"):
        model.fit(*data, queries=GROUPS)
    assert not hasattr(model, "cv_results_")


def test_default_folds_of_few_rows_in_a_class():
    check_sparsify_coefficients("BMRMClassifierCV", BMRMClassifierCV())
    few = BMRMClassifierCV(reg_lambdas=[1.0]).fit(X[:8, :1], [0, 0, 0, 0, 1, 1, 1, 1])
    assert len(few.scores_) == 4
    assert len(BMRMClassifierCV(reg_lambdas=[1.0]).fit(X, Y).scores_) == 5
    with pytest.raises(ValueError, match="n_splits=2 cannot be greater"):
        BMRMClassifierCV().fit(X[:3], [0, 1, 2])


def test_a_choice_at_an_end_warns():
    ours = BMRMRegressorCV(reg_lambdas=[1.0, 0.1, 0.01], cv=3)
    message = r"chose reg_lambda=0.01, the smallest of the 3 values tried: a smaller one"
    with pytest.warns(UserWarning, match=message):
        ours.fit(X, 3.0 * X[:, 0])
    noise = np.random.default_rng(1).normal(size=48)
    with pytest.warns(UserWarning, match=r"chose C=.*the smallest of the 7 .*Cs that go on below"):
        SwapSVRCV(cv=3).fit(X, noise)
    # All weights are 0 at the largest value: more regularization changes nothing.
    sparse = BMRMRegressorCV(regularizer="l1", reg_lambdas=5, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparse.fit(X, noise)
    assert sparse.reg_lambda_ == sparse.reg_lambdas_[0] and not sparse.coef_.any()


def test_the_time_limit_holds_for_the_whole_search():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    y = (X[:, 0] + rng.normal(size=3000) > 0.0).astype(int)
    BMRMClassifierCV("fbeta", cv=2, reg_lambdas=2).fit(X[:100], y[:100])  # compiled
    ours, start = BMRMClassifierCV("fbeta", max_time=1.0, tol=1e-6), perf_counter()
    with pytest.warns(UserWarning, match=r"max_time=1 ended the search .* values of reg_lambda"):
        ours.fit(X, y)
    assert perf_counter() - start < 20.0  # 50 fits of a second each, one limit for each, take 50
    assert ours.lower_bound_ <= ours.objective_
