"""Wrong input to SDCACRF: reported before any work, and nothing half-fitted is left behind."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.metrics import token_accuracy_score
from tests.contract.chains import FORMS, METHODS, SOLVERS, named_chains
from tests.contract.fits import quiet


@pytest.fixture(scope="module")
def chains():
    return named_chains()


@pytest.mark.parametrize(
    "parameters",
    [
        {"reg_lambda": 0.0},
        {"reg_lambda": -1e-3},
        {"reg_lambda": np.inf},
        {"reg_lambda": np.nan},
        {"reg_lambda": "1"},
        {"solver": "newton"},
        {"fit_intercept": "yes"},
        {"sampling": "random"},
        {"nonuniformity": -0.1},
        {"nonuniformity": 1.1},
        {"nonuniformity": np.nan},
        {"line_search_tol": 0.0},
        {"line_search_tol": np.inf},
        {"tol": 0.0},
        {"tol": -1.0},
        {"tol": np.nan},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"max_time": 0.0},
        {"max_time": -1.0},
        {"warm_start": None},
        {"n_jobs": 1.5},
        {"random_state": "seed"},
        {"verbose": -1},
    ],
    ids=str,
)
def test_bad_parameter_is_named(chains, parameters):
    ((name, value),) = parameters.items()
    model = SDCACRF(**parameters)
    with pytest.raises(ValueError) as error:
        model.fit(*chains)
    assert f"The '{name}' parameter of SDCACRF must be" in str(error.value)
    assert f"Got {value!r} instead" in str(error.value)
    assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")


BAD = {
    "no sequence": (lambda X, y: ([], []), "no sequence"),
    "unequal numbers": (lambda X, y: (X, y[:-1]), "30 in X, 29 in y"),
    "an empty sequence with labels": (
        lambda X, y: ([X[0][:0], *X[1:]], y),
        "Sequence 0 has 0 positions in X, but 1 labels",
    ),
    "only empty sequences": (
        lambda X, y: ([x[:0] for x in X], [[] for _ in X]),
        "all its 30 sequences are empty",
    ),
    "labels missing": (lambda X, y: (X, [*y[:4], ["O"], *y[5:]]), "Sequence 4 has 5 .* 1 labels"),
    "mixed kinds": (lambda X, y: ([FORMS["dicts"](X)[0], *X[1:]], y), "mixes kinds"),
    "NaN": (lambda X, y: ([*X[:2], np.full_like(X[2], np.nan), *X[3:]], y), "NaN.*equence 2"),
    "one label": (lambda X, y: (X, [["O"] * len(x) for x in X]), "2 classes in y.*'O'"),
    "no y": (lambda X, y: (X, None), "requires y"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("fitted", [False, True])
def test_bad_data_leave_a_model_as_it_was(chains, kind, fitted):
    change, message = BAD[kind]
    model = SDCACRF()
    if fitted:
        model.fit(FORMS["dicts"](chains[0]), chains[1])
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(*change(*chains))
    assert pickle.dumps(vars(model)) == before


@pytest.mark.parametrize("fail", ["data", "solver", "warning", "parameter"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_error_leaves_a_fitted_model_as_it_was(chains, solver, fail, monkeypatch):
    X, y = chains
    model = SDCACRF(solver=solver).fit(X, y)
    before, objective = model.predict_log_proba(X, y), model.objective_
    half = [x[:, :2] for x in X], y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if fail == "data":
            with pytest.raises(ValueError):
                model.fit(half[0], y[:-1])
        elif fail == "parameter":
            with pytest.raises(ValueError):
                model.set_params(max_iter=0).fit(*half)
        elif fail == "solver":
            monkeypatch.setattr(ChainProblem, "epoch", lambda *arguments: 1 // 0)
            monkeypatch.setattr(ChainProblem, "evaluate", lambda *arguments: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                model.fit(*half)
        else:
            with pytest.raises(ConvergenceWarning):
                model.set_params(tol=1e-14, max_iter=1).fit(*half)
    assert_array_equal(model.predict_log_proba(X, y), before)
    assert model.objective_ == objective and model.n_features_in_ == 4


def test_an_error_within_the_iterations(chains, monkeypatch):
    original, calls = ChainProblem.evaluate, []

    def failing(*arguments):
        calls.append(1)
        return 1 // 0 if len(calls) == 5 else original(*arguments)

    monkeypatch.setattr(ChainProblem, "evaluate", failing)
    model = SDCACRF(solver="lbfgs", tol=1e-12)
    with pytest.raises(ZeroDivisionError):
        model.fit(*chains)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("method", [*METHODS, "heaviest_features", "score"])
def test_not_fitted(chains, method):
    arguments = {"heaviest_features": (), "score": chains}.get(method, chains[:1])
    with pytest.raises(NotFittedError):
        getattr(SDCACRF(), method)(*arguments)


@pytest.mark.parametrize("method", METHODS)
def test_input_of_another_kind_at_prediction(chains, method):
    X, y = chains
    model = SDCACRF().fit(X, y)
    for other in (FORMS["dicts"](X), np.concatenate(X)):
        with pytest.raises(ValueError, match="of another kind"):
            getattr(model, method)(other)
    with pytest.raises(ValueError, match="expecting 4 features"):
        getattr(model, method)([x[:, :3] for x in X])


@pytest.mark.parametrize("method", ["score", "predict_log_proba"])
def test_labels_that_do_not_fit_to_X(chains, method):
    X, y = chains
    model = SDCACRF().fit(X, y)
    with pytest.raises(ValueError, match="Sequence 1 has 2 positions in X, but 1 labels"):
        getattr(model, method)(X, [y[0], ["O"], *y[2:]])


def test_labels_that_fit_has_not_seen(chains):
    X, y = chains
    model = SDCACRF().fit(X, y)
    other = [y[0], ["B-VP", "O"], *y[2:]]
    with pytest.raises(ValueError, match=r"label 'B-VP' \(sequence 1, position 0\)"):
        model.predict_log_proba(X, other)
    assert model.score(X, other) == token_accuracy_score(other, model.predict(X))


def test_it_is_no_classifier_by_its_tags():
    """Searches would ask for the type of y, and fail on lists of lists."""
    tags = SDCACRF().__sklearn_tags__()
    assert tags.estimator_type is None and tags.input_tags.sparse and tags.target_tags.required
    assert quiet(SDCACRF(max_iter=1), np.eye(3), [0, 1, 2]).n_features_in_ == 3
