"""Tokens as strings and dicts: CRFsuite's meaning."""

from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sequences import DICTS, STRINGS, Model, Y, train


@pytest.mark.parametrize(
    "X",
    [
        STRINGS,
        [[tuple(token) for token in sequence] for sequence in STRINGS],
        [[set(token) for token in sequence] for sequence in STRINGS],
        np.array([*STRINGS, None], dtype=object)[:2],
    ],
    ids=["lists", "tuples", "sets", "object array"],
)
def test_lists_of_strings(X):
    data = train(X)
    expected, names = [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 1, 0]], ["end", "t=x", "w=a", "w=b"]
    assert np.array_equal(data.X.toarray(), expected) and data.X.dtype == np.float32
    assert data.fitted["attribute_names_"].tolist() == names
    assert data.fitted["n_features_in_"] == len(names)
    assert all(type(name) is str for name in data.fitted["attribute_names_"])
    assert data.X.has_canonical_format and not data.plain


def test_dicts():
    data = train(DICTS)
    assert data.fitted["attribute_names_"].tolist() == ["n", "up", "w:a", "w:b"]
    expected = [[2, 0, 1, 0], [0, 1, 0, 1], [0.5, 0, 0, 0]]
    assert np.array_equal(data.X.toarray(), expected) and data.X.dtype == np.float64
    assert data.X.nnz == 5 and data.X.has_canonical_format


def attributes(X):
    """A dict of the non-zero attributes of every token."""
    data = train(X, [["A", "B"] * (len(X[0]) // 2)])
    names = data.fitted["attribute_names_"]
    return [
        {names[j]: v for j, v in zip(row.indices, row.data, strict=True)}
        for row in (data.X[[t]] for t in range(data.X.shape[0]))
    ]


TOKEN = {
    "number": 2,
    "float": -1.5,
    "half": Fraction(1, 2),
    "numpy": np.float32(0.5),
    "integer": np.int16(3),
    "true": True,
    "numpy_true": np.bool_(True),
    "false": False,
    "zero": 0.0,
    "string": "s",
    "empty": "",
    "colon": "a:b",
    "": "no name",
}
MEANT = {
    "number": 2.0,
    "float": -1.5,
    "half": 0.5,
    "numpy": 0.5,
    "integer": 3.0,
    "true": 1.0,
    "numpy_true": 1.0,
    "string:s": 1.0,
    "empty:": 1.0,
    "colon:a:b": 1.0,
    ":no name": 1.0,
}


def test_values_of_dicts_are_read_as_crfsuite_reads_them():
    assert attributes([[TOKEN, OrderedDict(a=1)]]) == [MEANT, {"a": 1.0}]
    pycrfsuite = pytest.importorskip("pycrfsuite")
    (item,) = pycrfsuite.ItemSequence([TOKEN]).items()
    assert {name: value for name, value in item.items() if value} == MEANT


def test_an_attribute_that_occurs_several_times_adds_up():
    # CRFsuite's own model is in test_repeated_attributes_in_crfsuite
    assert attributes([[["a", "b", "a"], ("a",)]]) == [{"a": 2.0, "b": 1.0}, {"a": 1.0}]
    assert attributes([[{"a": "x", "a:x": 3}, {}]]) == [{"a:x": 4.0}, {}]
    assert attributes([[{"a": "x", "a:x": -1, "b": 1}, {}]]) == [{"b": 1.0}, {}]


def crfsuite_weights(X, y, folder):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c2": 0.1, "feature.possible_states": True})
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    path = str(folder / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger.info().state_features


def test_repeated_attributes_in_crfsuite(tmp_path):
    y = [["A", "B", "A"], ["B", "A"]]
    repeated = [[["a", "a"], ["b"], ["c", "a"]], [["b", "b", "b"], {"a": "x", "a:x": 3}]]
    summed = [[{"a": 2}, {"b": 1}, {"c": 1, "a": 1}], [{"b": 3}, {"a:x": 4}]]
    assert crfsuite_weights(repeated, y, tmp_path) == crfsuite_weights(summed, y, tmp_path)


NAMES = st.text("abc", max_size=2)
VALUES = st.integers(-3, 3) | st.floats(-2, 2, width=32) | st.booleans() | NAMES


@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=2, max_size=2))
def test_any_dict_is_read_as_crfsuite_reads_it(tokens):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    items = pycrfsuite.ItemSequence(tokens).items()
    meant = [{name: value for name, value in item.items() if value} for item in items]
    tokens[0]["there is one"], meant[0]["there is one"] = 1, 1.0
    assert attributes([tokens]) == meant


def test_tokens_without_attributes_and_attributes_without_values():
    data = train([[[], ["a"]], [()]])
    assert np.array_equal(data.X.toarray(), [[0], [1], [0]])
    data = train([[{}, {"a": 1, "never": 0}], [{"b": False}]])
    assert np.array_equal(data.X.toarray(), [[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    assert data.X.nnz == 1 and data.fitted["attribute_names_"].tolist() == ["a", "b", "never"]


@pytest.mark.parametrize("form", ["strings", "dicts"])
def test_frequent_attributes(form):
    """ "often" is in 3 tokens, "rare" in 2 of weight 3 together, "zero" in none."""
    dicts = [[{"often": 1, "rare": 5, "zero": 0}, {"often": 2}], [{"often": 1, "rare": -1.5}]]
    X = dicts if form == "dicts" else [[[*token] for token in sequence] for sequence in dicts]
    weights = [1.0, 2.0]
    for least, weight, names in (
        (1, None, ["often", "rare"]),
        (3, None, ["often"]),
        (3, weights, ["often", "rare"]),
        (4, weights, ["often"]),
    ):
        data = Model().fit(X, Y, weight, min_frequency=least).data
        if least == 1 and form == "strings":
            names = [*names, "zero"]
        assert data.fitted["attribute_names_"].tolist() == names
        every = train(X, Y)
        columns = np.isin(every.fitted["attribute_names_"], names)
        assert np.array_equal(data.X.toarray(), every.X.toarray()[:, columns])
    with pytest.raises(ValueError, match="min_frequency=9 leaves none of 3 attributes"):
        Model().fit(X, Y, min_frequency=9)
