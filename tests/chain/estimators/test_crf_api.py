"""SDCACRF on lists of sequences with scikit-learn's tools, as its common checks do on 2-D X."""

import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from sklearn_bundle import SDCACRF, metrics
from sklearn_bundle.chain.problem import ChainProblem
from tests.contract.callbacks import StopAt
from tests.contract.chains import (
    DUAL,
    FORMS,
    METHODS,
    SOLVERS,
    assert_true_certificate,
    named_chains,
)
from tests.contract.interrupts import interrupt
from tests.reference_chain import made


@pytest.fixture(scope="module")
def chains():
    return named_chains()


@pytest.fixture(scope="module", params=FORMS)
def formed(request, chains):
    return FORMS[request.param](chains[0]), chains[1]


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer of lists of sequences."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [2.0 * x for x in X]


# ---- searches ---------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("scoring", [None, metrics.span_f1_scorer])
def test_search_over_reg_lambda(formed, n_jobs, scoring):
    """With the default folds, which ask of what kind y is."""
    search = GridSearchCV(
        SDCACRF(random_state=0), {"reg_lambda": [0.1, 1.0]}, scoring=scoring, n_jobs=n_jobs
    ).fit(*formed)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.status_ == "converged"
    assert len(search.predict(formed[0])) == 30
    by_hand = [
        SDCACRF(random_state=0, reg_lambda=reg_lambda)
        .fit([formed[0][i] for i in train], [formed[1][i] for i in train])
        .score([formed[0][i] for i in test], [formed[1][i] for i in test])
        for reg_lambda in (0.1, 1.0)
        for train, test in KFold(5).split(formed[0])
    ]
    if scoring is None:
        means = np.reshape(by_hand, (2, 5)).mean(axis=1)
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], means)


def test_cross_validate_with_several_scorers(formed):
    scoring = {
        name: getattr(metrics, f"{name}_scorer")
        for name in ("token_accuracy", "sequence_accuracy", "span_f1", "span_recall")
    }
    model = SDCACRF(random_state=0)
    result = cross_validate(model, *formed, scoring=scoring, cv=3, return_estimator=True)
    assert all(np.isfinite(result[f"test_{name}"]).all() for name in scoring)
    plain = cross_val_score(model, *formed, cv=3)
    assert_array_equal(plain, result["test_token_accuracy"])


def test_folds_by_groups(formed):
    groups = np.arange(30) % 4
    scores = cross_val_score(SDCACRF(), *formed, cv=GroupKFold(4), groups=groups)
    assert len(scores) == 4


def test_search_in_a_pipeline(chains):
    pipeline = make_pipeline(Doubled(), SDCACRF(random_state=0))
    search = GridSearchCV(pipeline, {"sdcacrf__reg_lambda": [0.1, 1.0]}, cv=3).fit(*chains)
    model = SDCACRF(random_state=0, reg_lambda=search.best_params_["sdcacrf__reg_lambda"])
    model.fit([2.0 * x for x in chains[0]], chains[1])
    assert_array_equal(search.best_estimator_[-1].coef_, model.coef_)
    assert search.predict(chains[0]) == model.predict([2.0 * x for x in chains[0]])


def test_cross_val_predict_of_rows():
    """With lists of labels scikit-learn itself fails; of a matrix it takes the labels."""
    X, y = made(40, longest=1)
    X, y = np.concatenate(X), np.concatenate(y)
    assert cross_val_predict(SDCACRF(), X, y, cv=3).shape == (40,)


def test_weights_reach_fit_through_a_search(chains):
    weights = np.arange(30) % 4 + 1.0
    with config_context(enable_metadata_routing=True):
        model = SDCACRF(random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"reg_lambda": [0.1]}, cv=3)
        search.fit(*chains, sample_weight=weights)
    expected = SDCACRF(random_state=0, reg_lambda=0.1).fit(*chains, weights)
    assert_array_equal(search.best_estimator_.coef_, expected.coef_)


# ---- objects ----------------------------------------------------------------------------------


def test_clone_and_repr():
    model = SDCACRF(reg_lambda=0.1, solver="sdca", nonuniformity=1.0)
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "SDCACRF(nonuniformity=1.0, reg_lambda=0.1, solver='sdca')"
    assert model._repr_html_()


@pytest.mark.parametrize("warm_start", [False, True])
def test_pickle(formed, warm_start):
    model = SDCACRF(warm_start=warm_start, random_state=0).fit(*formed)
    copy = pickle.loads(pickle.dumps(model))
    assert "_warm" not in vars(copy) and hasattr(model, "_warm") == warm_start
    assert copy.predict(formed[0]) == model.predict(formed[0])
    assert_array_equal(copy.predict_log_proba(*formed), model.predict_log_proba(*formed))
    assert_array_equal(copy.fit(*formed).coef_, SDCACRF(random_state=0).fit(*formed).coef_)


def test_a_fit_forgets_the_one_before(chains):
    X, y = chains
    model = SDCACRF(random_state=0).fit(FORMS["dicts"](X), y)
    model.fit([x[:, :2] for x in X], y)
    fresh = SDCACRF(random_state=0).fit([x[:, :2] for x in X], y)
    assert set(vars(model)) == set(vars(fresh))
    assert model.n_features_in_ == 2
    assert model.predict([x[:, :2] for x in X]) == fresh.predict([x[:, :2] for x in X])


def test_the_callers_data_are_left_alone(chains):
    X, y = [x.copy() for x in chains[0]], [labels.copy() for labels in chains[1]]
    S = [sp.csr_matrix(x) for x in X]
    weights = np.arange(30.0)
    for solver in SOLVERS:
        for data in (X, S, FORMS["dicts"](X)):
            before = pickle.dumps((data, y, weights))
            model = SDCACRF(solver=solver, reg_lambda=0.1).fit(data, y, weights)
            model.score(data, y, weights)
            for method in METHODS:
                getattr(model, method)(data)
            assert pickle.dumps((data, y, weights)) == before


def test_read_only_input(chains):
    X, y = [x.copy() for x in chains[0]], [np.array(labels) for labels in chains[1]]
    for array in X + y:
        array.flags.writeable = False
    model = SDCACRF(random_state=0).fit(X, y)
    assert model.predict(X) == SDCACRF(random_state=0).fit(*chains).predict(X)


def test_verbose(chains, capsys):
    SDCACRF(verbose=1).fit(*chains)
    line = r"\[SDCACRF\] iteration 1: objective .*, lower bound .*, relative gap"
    assert re.search(line, capsys.readouterr().out)
    SDCACRF().fit(*chains)
    assert not capsys.readouterr().out


# ---- callbacks and Ctrl-C ---------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_stops_the_fit(chains, solver):
    pytest.importorskip("sklearn.callback")
    stop = StopAt(3)
    model = SDCACRF(solver=solver, tol=1e-12).set_callbacks(stop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who asked for it is not warned
        model.fit(*chains)
    assert model.status_ == "callback" and model.n_iter_ == 3
    assert stop.setups == stop.teardowns == 1
    assert stop.begun == stop.ended == 4  # three iterations and the fit
    assert_true_certificate(model, *chains)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scores_of_every_iteration(chains, solver):
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring=metrics.token_accuracy_scorer)
    model = SDCACRF(solver=solver, random_state=0).set_callbacks(monitor).fit(*chains)
    rows = monitor.get_logs().data
    scores = [row for row in rows if row["task_name"] == "iteration"]
    assert len(scores) == model.n_iter_
    final = next(row for row in rows if row["task_name"] == "fit")
    assert model.score(*chains) in final.values()
    assert_array_equal(model.coef_, SDCACRF(solver=solver, random_state=0).fit(*chains).coef_)


@pytest.mark.wide  # the README's command does not install rich
def test_progress_of_a_search(chains):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    search = GridSearchCV(SDCACRF(), {"reg_lambda": [1e-2, 1e-1]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None))
    assert search.fit(*chains).best_score_ > 0.4


@pytest.mark.parametrize(
    "solver, method, call",
    [
        *((solver, "epoch", call) for solver in DUAL for call in (2, 4)),
        *((solver, "gaps", 1) for solver in DUAL),
        *((solver, "weights_of", 2) for solver in DUAL),
        *(("lbfgs", "evaluate", call) for call in (4, 5, 8)),
        *(("auto", "evaluate", call) for call in (6, 9)),
    ],
)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_keeps_the_best_point(chains, solver, method, call, n_jobs, monkeypatch):
    interrupt(monkeypatch, call, (ChainProblem, method))
    model = SDCACRF(solver=solver, tol=1e-3, warm_start=True, n_jobs=n_jobs, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*chains)
    assert model.status_ == "interrupted" and not hasattr(model, "_warm")
    assert_true_certificate(model, *chains)
    assert len(model.predict(chains[0])) == 30


@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_before_there_is_a_point(chains, solver, monkeypatch):
    interrupt(monkeypatch, 1, (ChainProblem, "weights_of" if solver in DUAL else "evaluate"))
    model = SDCACRF(solver=solver)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*chains)
    with pytest.raises(NotFittedError):
        model.predict(chains[0])
