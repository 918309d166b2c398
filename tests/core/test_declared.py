"""The fitted attributes that type checkers see are those that a fit leaves."""

from typing import get_args

import numpy as np
import pytest
from sklearn.base import is_outlier_detector, is_regressor

from sklearn_bundle import SDCACRF, SDCACRFCV, StructuredSVM
from sklearn_bundle.core.contract import Status, StatusName
from tests.contract.parameters import ESTIMATORS, SEARCHES

X = np.random.default_rng(0).normal(size=(30, 2)) + 3.0
Y = np.arange(30) % 2
WORDS = [[{"a": 1.0}, {"b": 1.0}]] * 6


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fitted_attributes_are_declared(kind):
    model = kind(**SEARCHES.get(kind, {}), tol=0.5)
    data = (X, None) if is_outlier_detector(model) else (X, X[:, 0] if is_regressor(model) else Y)
    if kind in (SDCACRF, SDCACRFCV):
        data = WORDS, [[0, 1]] * 6
    elif kind is StructuredSVM:
        model.set_params(model="multiclass")
    declared = set().union(*(vars(kind).get("__annotations__", {}) for kind in type(model).__mro__))
    assert not {name for name in vars(model) if name.endswith("_")}
    model.fit(*data)
    fitted = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")}
    assert {"objective_", "status_"} <= fitted
    assert fitted <= declared


def test_names_of_status_are_those_of_the_enumeration():
    assert get_args(StatusName) == tuple(Status)
