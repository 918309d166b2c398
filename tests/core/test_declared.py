"""The fitted attributes that type checkers see are those that a fit leaves."""

from typing import get_args

import numpy as np
import pytest

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVR,
    SwapSVRCV,
)
from sklearn_bundle.core.contract import Status, StatusName

X = np.random.default_rng(0).normal(size=(30, 2)) + 3.0
Y = np.arange(30) % 2
WORDS = [[{"a": 1.0}, {"b": 1.0}]] * 3

FITS = [
    (SDCACRF(reg_lambda=1.0), WORDS, [[0, 1]] * 3),
    (BMRMClassifierCV(reg_lambdas=[1.0, 2.0], cv=2), X, Y),
    (BMRMNoveltyDetector(reg_lambda=1.0), X, None),
    (BMRMRanker(reg_lambda=1.0), X, Y),
    (BMRMRegressor(reg_lambda=1.0), X, X[:, 0]),
    (PragamSVC(reg_lambda=1.0), X, Y),
    (StructuredSVM("multiclass", reg_lambda=1.0), X, Y),
    (SwapNoveltyDetector(), X, None),
    (SwapSVC(), X, Y),
    (SwapSVR(), X, X[:, 0]),
    (SwapSVRCV([1.0], cv=2), X, X[:, 0]),
]


@pytest.mark.parametrize("model, data, target", FITS, ids=lambda v: type(v).__name__)
def test_fitted_attributes_are_declared(model, data, target):
    declared = set().union(*(vars(kind).get("__annotations__", {}) for kind in type(model).__mro__))
    assert not {name for name in vars(model) if name.endswith("_")}
    model.fit(data, target)
    fitted = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")}
    assert {"objective_", "status_"} <= fitted
    assert fitted <= declared


def test_names_of_status_are_those_of_the_enumeration():
    assert get_args(StatusName) == tuple(Status)
