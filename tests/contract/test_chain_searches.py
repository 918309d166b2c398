"""crf_path and SDCACRFCV against single fits and a loop by hand."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from sklearn_bundle import SDCACRF, SDCACRFCV, crf_path
from sklearn_bundle.metrics import flat_f1_scorer, span_f1_scorer, token_accuracy_score
from tests.contract.chains import FORMS, WEIGHTS, named_chains, parts
from tests.contract.judge import judge

LAMBDAS = [0.02, 2.0, 0.2]
DESCENDING = [2.0, 0.2, 0.02]
FOLDS = KFold(3, shuffle=True, random_state=0)
TIGHT = {"tol": 1e-8, "random_state": 0, "max_iter": 2000}


@pytest.mark.parametrize("solver", ["auto", "exponentiated", "sdca", "lbfgs"])
def test_a_path_is_fits_one_by_one(solver):
    X, y = named_chains()
    settings = {"solver": solver, "tol": 1e-6, "random_state": 0, "max_iter": 1000}
    values, models = crf_path(X, y, reg_lambdas=LAMBDAS, sample_weight=WEIGHTS, **settings)
    assert values.tolist() == DESCENDING
    for reg_lambda, model in zip(DESCENDING, models, strict=True):
        assert model.reg_lambda == reg_lambda and model.status_ == "converged"
        judge(model, X, y, WEIGHTS)
        alone = SDCACRF(reg_lambda=reg_lambda, **settings).fit(X, y, WEIGHTS)
        assert alone.lower_bound_ <= model.objective_ and model.lower_bound_ <= alone.objective_
        # reg_lambda / 2 |w - w*|^2 is at most the gap, on both sides
        difference = [a - b for a, b in zip(parts(model), parts(alone), strict=True)]
        distance = sum(np.square(part).sum() for part in difference) ** 0.5
        gaps = model.dual_gap_**0.5 + alone.dual_gap_**0.5
        assert distance <= (2.0 / reg_lambda) ** 0.5 * gaps + 1e-12
        assert model.predict(X) == alone.predict(X)


def test_dual_variables_are_used_again():
    X, y = named_chains()
    values = np.geomspace(1.0, 1e-3, 6)
    settings = {"solver": "exponentiated", "random_state": 0, "max_iter": 1000}
    _, models = crf_path(X, y, reg_lambdas=values, **settings)
    alone = SDCACRF(reg_lambda=1e-3, **settings).fit(X, y)
    assert models[-1].n_iter_ < alone.n_iter_


def test_the_fields_of_a_path_are_those_of_its_models():
    X, y = named_chains()
    path = crf_path(X, y, reg_lambdas=LAMBDAS, random_state=0)
    reg_lambdas, models = path
    assert reg_lambdas is path.reg_lambdas and models is path.models and not hasattr(path, "coefs")
    for name in ("objective", "lower_bound", "dual_gap", "n_iter"):
        expected = [getattr(model, f"{name}_") for model in models]
        assert getattr(path, f"{name}s").tolist() == expected
    assert path.statuses.tolist() == [model.status_ for model in models]
    assert "3 values of reg_lambda from 2 to 0.02, 3 converged" in repr(path)


def by_hand(X, y, folds, score, weights=None, **settings):
    """Scores of a fit of its own for each fold and value."""
    scores = []
    for train, test in folds:
        weight = None if weights is None else weights[train]
        fits = [
            SDCACRF(reg_lambda=value, **TIGHT, **settings).fit(
                [X[i] for i in train], [y[i] for i in train], weight
            )
            for value in DESCENDING
        ]
        held_out = [X[i] for i in test], [y[i] for i in test]
        weight = {} if weights is None else {"sample_weight": weights[test]}
        scores.append([score(held_out[1], fit.predict(held_out[0]), **weight) for fit in fits])
    return np.array(scores)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_validation_is_a_loop_by_hand(form, weighted):
    X, y = named_chains()
    X, weights = FORMS[form](X), WEIGHTS if weighted else None
    model = SDCACRFCV(reg_lambdas=LAMBDAS, cv=FOLDS, **TIGHT).fit(X, y, weights)
    scores = by_hand(X, y, FOLDS.split(X), token_accuracy_score, weights)
    np.testing.assert_allclose(model.scores_, scores, rtol=1e-12)
    np.testing.assert_array_equal(model.mean_test_scores_, model.scores_.mean(axis=0))
    assert model.reg_lambda_ == DESCENDING[np.argmax(model.mean_test_scores_)]
    best = SDCACRF(reg_lambda=model.reg_lambda_, **TIGHT).fit(X, y, weights)
    np.testing.assert_array_equal(model.coef_, best.coef_)
    assert (model.dual_gap_, model.solver_) == (best.dual_gap_, best.solver_)


def test_labels_and_attributes_that_a_fold_lacks():
    X = [[["a"], ["b"]]] * 4 + [[["c"], ["b"]]] * 2
    y = [["A", "B"]] * 4 + [["C", "B"]] * 2
    folds = [(np.arange(4), np.arange(4, 6)), (np.arange(2, 6), np.arange(2))]
    model = SDCACRFCV(reg_lambdas=LAMBDAS, cv=folds, **TIGHT).fit(X, y)
    np.testing.assert_allclose(model.scores_, by_hand(X, y, folds, token_accuracy_score))
    assert model.classes_.tolist() == ["A", "B", "C"]
    with pytest.raises(ValueError, match="labels of 1 class"):
        SDCACRFCV(reg_lambdas=[1.0], cv=[([0], [1])]).fit([[["a"]]] * 2, [["A"], ["B"]])


def test_rare_attributes_are_counted_once():
    X, y = named_chains()
    X = [[{f"a{row[0]:.0f}": row[1], f"b{row[2]:.0f}": row[3]} for row in x] for x in X]
    model = SDCACRFCV(reg_lambdas=LAMBDAS, cv=FOLDS, min_frequency=9, **TIGHT).fit(X, y)
    names, n_all = set(model.attribute_names_), SDCACRF().fit(X, y).n_features_in_
    X = [[{name: value for name, value in t.items() if name in names} for t in x] for x in X]
    scores = by_hand(X, y, FOLDS.split(X), token_accuracy_score)
    np.testing.assert_allclose(model.scores_, scores, rtol=1e-12)
    assert len(names) < n_all


def test_scores():
    X, y = named_chains()
    for scoring, grid_scoring in (("span_f1", span_f1_scorer), ("flat_f1", flat_f1_scorer)):
        model = SDCACRFCV(reg_lambdas=LAMBDAS, cv=FOLDS, scoring=scoring, **TIGHT).fit(X, y)
        grid = GridSearchCV(
            SDCACRF(**TIGHT), {"reg_lambda": DESCENDING}, cv=FOLDS, scoring=grid_scoring
        ).fit(X, y)
        of_folds = [grid.cv_results_[f"split{k}_test_score"] for k in range(3)]
        np.testing.assert_allclose(model.scores_, of_folds, rtol=1e-12)
        assert model.reg_lambda_ == grid.best_params_["reg_lambda"]
    given = SDCACRFCV(
        reg_lambdas=[1.0], cv=FOLDS, scoring=lambda model, X, y: len(X) + 100.0 * (X[0] is not None)
    ).fit(X, y)
    assert given.scores_.ravel().tolist() == [110.0] * 3


def test_weight_zero_is_a_missing_sequence():
    X, y = named_chains()
    weights = np.where(np.arange(len(X)) % 5 == 0, 0.0, WEIGHTS)
    kept = np.flatnonzero(weights)
    X_kept, y_kept = [X[i] for i in kept], [y[i] for i in kept]
    for cv in (3, FOLDS):
        settings = {"reg_lambdas": LAMBDAS, "cv": cv, **TIGHT}
        model = SDCACRFCV(**settings).fit(X, y, weights)
        if cv is FOLDS:
            place = np.full(len(X), -1)
            place[kept] = np.arange(len(kept))
            folds = [[place[part] for part in fold] for fold in FOLDS.split(X)]
            settings["cv"] = [[part[part >= 0] for part in fold] for fold in folds]
        other = SDCACRFCV(**settings).fit(X_kept, y_kept, weights[kept])
        np.testing.assert_array_equal(model.scores_, other.scores_)


def test_a_matrix_is_chains_of_length_one():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    cv = StratifiedKFold(3)
    model = SDCACRFCV(reg_lambdas=LAMBDAS, cv=cv, scoring="accuracy", **TIGHT).fit(X, y)
    grid = GridSearchCV(SDCACRF(**TIGHT), {"reg_lambda": DESCENDING}, cv=cv.split(X, y)).fit(X, y)
    np.testing.assert_allclose(model.mean_test_scores_, grid.cv_results_["mean_test_score"])
    for column in (y[:, None], y[:, None].tolist(), pd.DataFrame(y)):
        with pytest.warns(DataConversionWarning):
            again = clone(model).fit(X, column)
        assert np.array_equal(again.scores_, model.scores_)


def test_threads_and_processes_agree():
    X, y = named_chains()
    model = SDCACRFCV(reg_lambdas=LAMBDAS, cv=3, random_state=0)
    scores = model.fit(X, y).scores_
    two = clone(model).set_params(n_jobs=2)
    np.testing.assert_array_equal(two.fit(X, y).scores_, scores)
    with joblib.parallel_config("loky", n_jobs=1):
        np.testing.assert_array_equal(clone(model).fit(X, y).scores_, scores)


def test_a_search_is_an_estimator():
    X, y = named_chains()
    X = FORMS["strings"](X)
    model = SDCACRFCV(random_state=0).set_params(reg_lambdas=3, cv=2, eps=1e-2)
    assert clone(model).get_params() == model.get_params()
    model.fit(X, y)
    np.testing.assert_allclose(model.reg_lambdas_, np.array([10.0, 1.0, 0.1]) / len(X))
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.predict(X) == model.predict(X)
    assert len(SDCACRFCV(cv=2, max_iter=1, tol=1.0).fit(X, y).reg_lambdas_) == 8


def test_a_miss_is_told():
    X, y = named_chains()
    with pytest.warns(ConvergenceWarning, match="crf_path stopped in 2 of 2"):
        crf_path(X, y, reg_lambdas=[0.1, 0.01], max_iter=1, tol=1e-9)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"reg_lambdas": [1.0, -1.0]}, "reg_lambdas must be .* or must hold positive"),
        ({"reg_lambdas": [1.0], "eps": 0.1}, "eps=0.1 is for a number of values"),
        ({"reg_lambda": 1.0}, "crf_path takes no reg_lambda"),
        ({"warm_start": True}, "crf_path takes no warm_start"),
    ],
)
def test_bad_values(parameters, message):
    X, y = named_chains()
    with pytest.raises(ValueError, match=message):
        crf_path(X, y, **parameters)
    if "reg_lambdas" in parameters:
        with pytest.raises(ValueError, match=message):
            SDCACRFCV(**parameters).fit(X, y)


@pytest.mark.parametrize("solver", ["exponentiated", "sdca", "lbfgs"])
def test_equal_values_and_values_far_apart(solver):
    """The next start is moved on by the last change, which may be none or across 15 decades."""
    X, y = named_chains()
    values = [1e10, 1.0, 1.0, 0.9, 1e-25]
    settings = {"solver": solver, "random_state": 0, "max_iter": 30, "tol": 1e-3}
    with pytest.warns(ConvergenceWarning):
        _, models = crf_path(X, y, reg_lambdas=values, **settings)
    assert [model.status_ for model in models[:4]] == ["converged"] * 4
    for model in models:
        judge(model, X, y)
