"""The way of one sentence of named attributes: the labels, and the errors, of batches."""

import numpy as np
import pytest

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.estimators import _labeling

X = [
    [{"w": "a", "n": 2.5, "up": True}, {"w": "b", "n": 1}, {}],
    [{"w": "c", "n": 0.5}, {"w": "a"}],
    [{"w": "b"}],
]
Y = [["A", "B", "B"], ["C", "A"], ["B"]]
STRINGS = [[["w=a", "up", "up"], ["w=b"], []], [["w=c"], ["w=a"]], [["w=b"]]]
SENTENCES = [
    *X,
    *STRINGS,
    [{"w": "new", "n": 7}, {"other": "x"}],
    [["n", "w:a"], ["?"]],
    [{}],
    [[]],
    [("w=a",), {"up"}],
    [],
]


@pytest.mark.parametrize("given", [X, STRINGS], ids=["dicts", "strings"])
def test_labels_are_those_of_a_batch(given):
    model = SDCACRF(reg_lambda=0.01, random_state=0).fit(given, Y)
    for edited in (False, True):
        if edited:
            model.transitions_[0, 1] = model.start_[2] = model.end_[0] = -np.inf
        for sentence in SENTENCES:
            if len({*map(type, sentence)}) > 1:
                continue
            assert model.predict([sentence]) == model.predict([sentence, sentence])[:1]
    model.sparsify()
    assert model.predict(given[:1]) == model.predict(given)[:1]


@pytest.mark.parametrize(
    "sentence, message",
    [
        ([{"n": np.nan}], "Input X contains NaN"),
        ([["a", 1]], r"holds \['a', 1\]"),
        ([["a"], {"b": 1}], "holds {'b': 1} of type dict among lists"),
        (["a"], "holds 'a' as a token"),
        ([{1: "a"}], "holds {1: 'a'}"),
        ([{"a": None}], "holds {'a': None}"),
    ],
)
def test_errors_are_those_of_a_batch(sentence, message):
    with pytest.raises(ValueError, match=message):
        SDCACRF(random_state=0).fit(X, Y).predict([sentence])


def test_which_sentences_take_it(monkeypatch):
    model = SDCACRF(random_state=0).fit(X, Y)
    monkeypatch.setattr(_labeling, "bound_chain", None)
    assert model.predict(X[:1]) == [["A", "B", "B"]]
    with pytest.raises(TypeError):
        model.predict(X)
