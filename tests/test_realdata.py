"""Tests on the benchmark data, if SKLEARN_BUNDLE_DATA names its folder."""

import pytest

from sklearn_bundle import SDCACRF, BMRMClassifier
from sklearn_bundle.metrics import token_accuracy_score
from tests.contract.judge import judge

pytestmark = pytest.mark.realdata


@pytest.mark.parametrize("name, reg_lambda", [("a9a", 1e-4), ("covtype2", 1e-3), ("w8a", 1e-4)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gap_of_1e_8(tasks, name, reg_lambda, fit_intercept):
    X, y = tasks.linear(name)
    model = BMRMClassifier(
        reg_lambda=reg_lambda, tol=1e-8, max_iter=5000, fit_intercept=fit_intercept
    ).fit(X, y)
    assert model.status_ == "converged"
    assert 0.0 <= model.dual_gap_ <= 1e-8 * model.objective_


SOLVERS = ["auto", "exponentiated", "sdca", "lbfgs"]


def attributes(sentence):
    """Words and tags of a token and of its neighbors."""
    return [
        [
            f"{column}[{k}]={sentence[t + k][place]}"
            for k in (-1, 0, 1)
            if 0 <= t + k < len(sentence)
            for place, column in enumerate(("word", "tag"))
        ]
        for t in range(len(sentence))
    ]


@pytest.fixture(scope="module", params=["ocr", "conll2000"])
def labeled(request, tasks):
    """Some hundred sequences to learn from, and some to predict."""
    if request.param == "ocr":
        return [part[::15] for part in tasks.sequences("ocr")]
    parts = tasks.load_sequences("conll2000")
    (X, y), (X_test, y_test) = ((X[:300], y[:300]) for X, y in (parts["train"], parts["test"]))
    return [attributes(s) for s in X], y, [attributes(s) for s in X_test], y_test


@pytest.mark.wide
def test_solvers_for_chains_agree(labeled):
    """No bound is above an objective, and the labels are nearly the same."""
    X, y, X_test, y_test = labeled
    models = [SDCACRF(solver=s, tol=1e-4, max_iter=500, random_state=0).fit(X, y) for s in SOLVERS]
    for model in models:
        assert model.status_ == "converged"
        assert 0.0 <= model.dual_gap_ <= 1e-3 * model.objective_
    lowest = min(model.objective_ for model in models)
    assert max(model.lower_bound_ for model in models) <= lowest
    scores = [token_accuracy_score(y_test, model.predict(X_test)) for model in models]
    assert min(scores) > 0.7 and max(scores) - min(scores) < 0.01


@pytest.mark.parametrize("solver", SOLVERS)
def test_certificate_on_letters(tasks, solver):
    X, y = (part[:100] for part in tasks.sequences("ocr")[:2])
    judge(SDCACRF(solver=solver, max_iter=500).fit(X, y), X, y)
