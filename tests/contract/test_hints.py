"""Arguments that other libraries have: Python's TypeError, and a line that says what to write."""

import inspect
import pickle

import pytest

from sklearn_bundle import BMRMClassifier
from tests.contract.parameters import ESTIMATORS

NAMES = "alpha", "penalty", "nu", "c1", "c2", "probability", "C", "reg_lambda"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_arguments_of_other_libraries_are_answered_by_what_is_here(kind):
    own = inspect.signature(kind).parameters
    for name in NAMES:
        if name in own:
            continue
        with pytest.raises(TypeError) as error:
            kind(**{name: 1})
        start, _, advice = str(error.value).partition(" Write ")
        assert f"got an unexpected keyword argument '{name}'" in start
        if name in ("alpha", "nu", "c2", "C", "reg_lambda"):
            assert advice.partition(",")[0].rstrip(".") in own
    if "regularizer" in own:
        with pytest.raises(TypeError, match=r"Write regularizer\.$"):
            kind(penalty="l1")


def test_other_arguments_get_only_the_error_of_python():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'foo'$"):
        BMRMClassifier(foo=1)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'foo'$"):
        BMRMClassifier().fit([[0.0], [1.0]], [0, 1], foo=1)


class Mine(BMRMClassifier):
    """A subclass without a constructor, and one with."""


class WithOneMore(BMRMClassifier):
    def __init__(self, alpha=1.0, **further):
        super().__init__(**further)
        self.alpha = alpha


def test_subclasses_and_signatures_are_as_before():
    with pytest.raises(TypeError, match="Write reg_lambda"):
        Mine(alpha=1.0)
    assert WithOneMore(alpha=2.0, loss="hinge").alpha == 2.0
    assert list(inspect.signature(BMRMClassifier).parameters)[:3] == ["loss", "reg_lambda", "C"]
    assert "sample_weight" in inspect.signature(BMRMClassifier().fit).parameters
    assert pickle.loads(pickle.dumps(Mine())).loss == "hinge"
