"""Wrong values, what a message has to show of them, and the data to try them on."""

import inspect
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import sklearn_bundle
from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    BMRMClassifierCV,
    BMRMRanker,
    BMRMRegressorCV,
    StructuredSVM,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)

ROWS = slice(0, 150, 3)  # of all three classes
TWO = slice(0, 100, 2)
GROUP = np.arange(50) % 3

WRONG = {
    "string": "wrong",
    "none": None,
    "nan": float("nan"),
    "infinity": float("inf"),
    "negative": -1,
    "negative float": -1.5,
    "huge": 10**400,
    "float64": np.float64(-2.5),
    "int64": np.int64(-3),
    "float32": np.float32("nan"),
    "list": [1.5, "a"],
    "numpy list": [np.float64(-0.5), "a"],
    "ragged": [[1], [2, 3]],
    "dict": {"a": "b"},
    "complex": 1j,
    "object": object(),
}
SHOWN = {  # as a message has to have them
    "string": "wrong",
    "none": "None",
    "nan": "nan",
    "infinity": "inf",
    "negative": "-1",
    "negative float": "-1.5",
    "float64": "-2.5",
    "int64": "-3",
    "float32": "nan",
}
OPTIONAL = "class_weight cost cv k max_time n_jobs"
OPTIONAL = {*OPTIONAL.split(), "eps", "gammas", "random_state", "reg_lambdas", "scoring"}


def assert_named(name, key, call):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    message = str(error.value)
    assert name in message and SHOWN.get(key, "") in message and "np." not in message, key


def taken(name, key):
    if key == "none":
        return name in OPTIONAL
    return name == "n_jobs" and key in ("negative", "int64")


CONTEXT = {  # in which a parameter is looked at
    "beta": {"loss": "fbeta"},
    "coef0": {"kernel": "poly"},
    "degree": {"kernel": "poly"},
    "delta": {"loss": "huber"},
    "epsilon": {"loss": "epsilon_insensitive"},
    "k": {"loss": "ndcg"},
    "l1_ratio": {"regularizer": "elasticnet"},
    "quantile": {"loss": "quantile"},
}
SEARCHES = {
    BMRMClassifierCV: {"reg_lambdas": [0.5], "cv": 2},
    BMRMRegressorCV: {"reg_lambdas": [0.5], "cv": 2},
    SwapSVCCV: {"Cs": [0.5], "cv": 2},
    SwapSVRCV: {"Cs": [0.5], "cv": 2},
    SDCACRFCV: {"reg_lambdas": [0.5], "cv": 2},
}
ESTIMATORS = [
    kind
    for kind in map(partial(getattr, sklearn_bundle), sklearn_bundle.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
]


def context(kind, name):
    without = StructuredSVM, SwapSVR, SwapSVRCV, SDCACRF, SDCACRFCV
    of_losses = {} if kind in without else CONTEXT.get(name, {})
    if name in ("coef0", "degree"):  # used with one kernel or solver alone
        of_losses = CONTEXT[name]
    parameters = SEARCHES.get(kind, {}) | of_losses
    if name == "Cs":
        parameters.pop("reg_lambdas", None)
    if name == "cost" and kind is not BMRMRanker:
        parameters["loss"] = "multiclass_hinge"
    return parameters


def fit(model, name):
    X, y = load_iris(return_X_y=True)
    rows = TWO if name == "beta" else ROWS
    return model.fit(X[rows], y[rows], **({"group": GROUP} if name == "k" else {}))
