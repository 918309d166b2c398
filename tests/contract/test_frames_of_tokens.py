"""Data frames with a row per token, against pandas' groupby."""

import numpy as np
import pandas as pd
import pytest

from sklearn_bundle import SDCACRF
from sklearn_bundle.datasets import sequences_from_frame


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    tokens = {"doc": rng.integers(0, 2, 30), "sentence": rng.integers(0, 3, 30)}
    tokens |= {"word": rng.choice(list("abc"), 30), "size": rng.normal(size=30)}
    return pd.DataFrame(tokens | {"tag": rng.choice(["A", "B"], 30)})


@pytest.mark.parametrize("by", ["sentence", ["doc", "sentence"]])
def test_sequences_are_groups(frame, by):
    X, y = sequences_from_frame(frame, by, "tag", columns=["word", "size"])
    groups = [rows for _, rows in frame.groupby(by, sort=False)]
    assert [rows[["word", "size"]].to_dict("records") for rows in groups] == X
    assert y == [rows["tag"].tolist() for rows in groups]
    assert (
        sequences_from_frame(frame.drop(columns="tag"), ["doc", "sentence"])
        == (sequences_from_frame(frame, ["doc", "sentence"], "tag")[0])
    )
    assert SDCACRF().fit(X, y).attribute_names_.tolist() == ["size", "word:a", "word:b", "word:c"]


def test_missing_values():
    words = pd.Series(["a", None, pd.NA, "b"], dtype="string")
    frame = pd.DataFrame({"s": list("1112"), "word": words, "n": [1.0, np.nan, 2.0, 3.0]})
    frame["kind"] = pd.Categorical(["x", None, "y", "x"])
    first = [{"word": "a", "n": 1.0, "kind": "x"}, {}, {"n": 2.0, "kind": "y"}]
    assert sequences_from_frame(frame, "s") == [first, [{"word": "b", "n": 3.0, "kind": "x"}]]
    assert sequences_from_frame(frame, "s", columns=[]) == [[{}] * 3, [{}]]
    with pytest.raises(ValueError, match="'word' has no value in row 1"):
        sequences_from_frame(frame, "word")


def test_what_is_no_frame(frame):
    with pytest.raises(TypeError, match="data frame with named columns, got a list"):
        sequences_from_frame([[1, 2]], "doc")


@pytest.mark.parametrize(
    ("by", "columns", "error", "message"),
    [
        ("document", None, ValueError, "is no column 'document' in the frame"),
        ([], None, ValueError, "by must name at least one column"),
        (3, None, TypeError, "by must be a column's name or several, got 3"),
        ("doc", "word", TypeError, "columns must be a sequence of names of columns, got 'word'"),
        ("doc", ["word", "tag"], ValueError, "must not hold the target, 'tag'"),
    ],
)
def test_columns_that_cannot_be_meant(frame, by, columns, error, message):
    with pytest.raises(error, match=message):
        sequences_from_frame(frame, by, "tag", columns=columns)


def test_two_columns_of_one_name(frame):
    with pytest.raises(ValueError, match="are 2 columns 'word' in the frame"):
        sequences_from_frame(pd.concat([frame, frame[["word"]]], axis=1), "doc", "tag")
