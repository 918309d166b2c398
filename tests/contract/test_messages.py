"""What messages about parameters, and about methods that are missing, tell users to do."""

import re
from importlib import import_module

import pytest

from sklearn_bundle import (
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressorCV,
    PragamSVC,
    SwapSVC,
    SwapSVCCV,
)
from tests.contract.parameters import ESTIMATORS

X, Y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]


@pytest.mark.parametrize(
    "model, number",
    [
        (BMRMClassifier("unknown"), 3),
        (BMRMRegressorCV("unknown"), 1),
        (BMRMRanker("unknown"), 1),
        (BMRMClassifier(regularizer="unknown"), 1),
        (BMRMNoveltyDetector(regularizer=3), 1),
    ],
    ids=repr,
)
def test_classes_are_named_as_users_import_them(model, number):
    with pytest.raises(ValueError, match=r"Got ('unknown'|3)") as caught:
        model.fit(X, Y)
    named = re.findall(r"'(sklearn_bundle[\w.]*)\.(\w+)'", str(caught.value))
    assert len(named) == number
    for module, name in named:
        assert name in import_module(module).__all__


@pytest.mark.parametrize("name, value", [("C", 0), ("C", float("inf")), ("reg_lambda", 0)])
def test_no_weight_at_all_gets_advice_from_every_estimator(name, value):
    having = [kind for kind in ESTIMATORS if name in kind().get_params()]
    assert len(having) >= 5
    for kind in having:
        with pytest.raises(
            ValueError, match=rf"'{name}' parameter .* use a \w+ .*value such as 1e"
        ):
            kind(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("kind", [SwapSVC, SwapSVCCV, PragamSVC, BMRMClassifier], ids=str)
@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_missing_probabilities_say_what_has_them(kind, method):
    assert not hasattr(kind(), method)
    with pytest.raises(AttributeError, match=rf"attribute '{method}'.*CalibratedClassifierCV"):
        getattr(kind(), method)


def test_other_missing_attributes_say_what_python_says():
    with pytest.raises(AttributeError, match=r"^'SwapSVC' object has no attribute 'coefs'$"):
        _ = SwapSVC().coefs
    with pytest.raises(AttributeError, match="'predict_grades'"):  # scikit-learn's
        BMRMRanker("ndcg").predict_grades(X)
