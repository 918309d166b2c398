"""Errors about what a user passed have no frames inside; all others keep them."""

import traceback

import numpy as np
import pytest

from sklearn_bundle import SDCACRF, BMRMClassifier, BMRMClassifierCV, BMRMRegressor, SwapSVC
from sklearn_bundle.core import tracebacks
from sklearn_bundle.losses import Hinge

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 2
MISSING = X.copy()
MISSING[3, 1] = np.nan


def functions_of(call):
    """Names of the functions in the traceback of an error, without that of the test."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][2:]


REFUSED = {
    "loss": lambda: BMRMClassifier("hing").fit(X, Y),
    "Poisson": lambda: BMRMRegressor("poisson").fit(X, X[:, 0]),
    "NaN": lambda: BMRMClassifier().fit(MISSING, Y),
    "NaN, search": lambda: BMRMClassifierCV().fit(MISSING, Y),
    "NaN, predict": lambda: SwapSVC().fit(X, Y).predict(MISSING),
    "not fitted": lambda: BMRMClassifier().predict(X),
    "score": lambda: BMRMClassifier().fit(X, Y).score(X, Y[:3]),
    "chains": lambda: SDCACRF().fit([[{"a": 1.0}]] * 3, [["x"]] * 2),
    "argument": lambda: BMRMClassifier(alpha=1.0),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_has_one_frame(call):
    assert functions_of(call) == ["call"]


def test_all_frames_are_there_on_request(monkeypatch):
    monkeypatch.setenv(tracebacks.VARIABLE, "full")
    assert "fit_certified" in functions_of(REFUSED["loss"])
    assert len(functions_of(REFUSED["NaN"])) > 8


class Own(Hinge):
    def value(self, f, y):
        raise ValueError("of one's own")

    def gradient(self, f, y):
        raise ValueError("of one's own")


def test_errors_of_a_users_code_keep_their_frames():
    names = functions_of(lambda: BMRMClassifier(Own()).fit(X, Y))
    assert names[0] == "call" and len(names) > 3


def test_errors_that_numpy_raises_inside_keep_their_frames(monkeypatch):
    def broken(*_):
        return np.zeros(2) + np.zeros(3)

    broken.__globals__["__name__"], before = "sklearn_bundle.broken", __name__
    try:
        monkeypatch.setattr("sklearn_bundle.linear.estimators._linear.fit_certified", broken)
        assert functions_of(lambda: BMRMClassifier().fit(X, Y))[-1] == "broken"
    finally:
        broken.__globals__["__name__"] = before
