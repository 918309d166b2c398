"""The main features in a few lines; CI also runs it on the oldest supported versions."""

import importlib.util
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    SwapSVC,
)
from sklearn_bundle.losses import BINARY_LOSSES
from sklearn_bundle.metrics import token_accuracy_scorer
from tests.contract.callbacks import StopAt

PIPELINES = [
    *(
        BMRMClassifier(loss, solver=solver, reg_lambda=1e-2)
        for loss in BINARY_LOSSES
        for solver in ("line-search", "cutting-plane")
    ),
    *(PragamSVC(reg_lambda=1e-1, lipschitz=lipschitz) for lipschitz in ("adaptive", 100.0)),
    *(
        SwapSVC(0.1, kernel=kernel, solver=solver)
        for kernel in ("rbf", "linear", "poly")
        for solver in ("cvm", "mfw", "swap", "swap-2o", "decomposition")
    ),
]


@pytest.mark.parametrize("model", PIPELINES, ids=str)
def test_fit_in_a_pipeline(model):
    X, y = load_breast_cancer(return_X_y=True)
    steps = make_pipeline(StandardScaler(), model).fit(X, y)
    fitted = pickle.loads(pickle.dumps(steps))[-1]
    assert fitted.status_ == "converged"
    assert 0.0 <= fitted.dual_gap_ <= fitted.tol * fitted.objective_
    assert fitted.dual_gap_ == fitted.objective_ - fitted.lower_bound_
    assert steps.score(X, y) > (0.85 if getattr(model, "kernel", "") == "poly" else 0.95)


def test_swap_on_several_classes():
    X, y = load_iris(return_X_y=True)
    model = SwapSVC(n_jobs=2).fit(X, y)
    assert (model.dual_gap_ <= model.tol * model.objective_).all()
    assert model.decision_function(X).shape == (150, 3) and model.score(X, y) > 0.95


@pytest.mark.parametrize("form", ["arrays", "dicts", "strings"])
@pytest.mark.parametrize("solver", ["auto", "exponentiated", "sdca", "lbfgs"])
def test_chains(solver, form):
    """Words of letters, each a noisy vector; a vowel follows a consonant."""
    rng = np.random.default_rng(0)
    words = [list(word) for word in ["banana", "potato", "tomato", "papaya", "to", "a"] * 5]
    letters = sorted({letter for word in words for letter in word})
    X = [np.eye(len(letters))[[letters.index(a) for a in word]] for word in words]
    X = [x * (rng.random(x.shape) < 0.8) for x in X]
    if form == "dicts":
        X = [[{f"x{k}": v for k, v in enumerate(row.tolist())} for row in x] for x in X]
    elif form == "strings":
        X = [[[f"x{k}" for k in np.flatnonzero(row)] for row in x] for x in X]
    y = [["vowel" if letter in "aou" else "consonant" for letter in word] for word in words]
    model = GridSearchCV(
        SDCACRF(solver=solver, random_state=0),
        {"reg_lambda": [0.05, 0.1]},
        scoring=token_accuracy_scorer,
        cv=2,
    ).fit(X, y)
    fitted = pickle.loads(pickle.dumps(model)).best_estimator_
    assert fitted.status_ == "converged"
    assert fitted.converged_ and 0.0 <= fitted.dual_gap_ <= fitted.tol * fitted.objective_
    assert fitted.dual_gap_ == fitted.objective_ - fitted.lower_bound_
    assert fitted.score(X, y) > 0.95
    assert fitted.predict_log_proba(X[:1], fitted.predict(X[:1])) <= 0.0
    assert fitted.predict_marginals(X[:1])[0].shape == (6, 2)


@pytest.mark.parametrize("regularizer", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize(
    "estimator",
    [
        BMRMClassifier("softmax"),
        BMRMClassifier("roc_auc"),
        BMRMRegressor("quantile"),
        BMRMRanker(),
        BMRMClassifierCV(reg_lambdas=[1e-2, 1e-1], cv=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_bundle_family(estimator, regularizer):
    X, y = load_iris(return_X_y=True)
    model = clone(estimator).set_params(regularizer=regularizer).fit(X, y)
    assert set(np.atleast_1d(model.status_)) == {"converged"}
    assert np.all(model.dual_gap_ <= 1e-3 * model.objective_)
    assert len(model.predict(X)) == len(y)


def test_callbacks_are_called_where_scikit_learn_has_them():
    """From 1.9 on: at the fit, its three classes and their iterations; accepted before."""
    X, y = load_iris(return_X_y=True)
    counting = StopAt(10**9)
    model = BMRMClassifier(reg_lambda=1.0).set_callbacks(counting).fit(X, y)
    has_callbacks = importlib.util.find_spec("sklearn.callback") is not None
    expected = (1 + 3 + model.n_iter_.sum()) * has_callbacks
    assert counting.begun == counting.ended == expected
    assert model.status_ == ["converged"] * 3
