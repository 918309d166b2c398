"""Wrong input to SDCACRF: reported before any work, and nothing half-fitted is left behind."""

import numpy as np
import pytest

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.metrics import token_accuracy_score
from tests.contract.chains import FORMS, METHODS, named_chains
from tests.contract.fits import quiet


@pytest.fixture(scope="module")
def chains():
    return named_chains()


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
