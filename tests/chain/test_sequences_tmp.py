"""What the CRF accepts: every form against matrices made by hand."""

import pickle
import warnings
from collections import Counter
from enum import Enum

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.chain.readers.sequences import (
    check_labels,
    shaped,
)
from tests.sequences import DICTS, FIRST, ROWS, SECOND, STRINGS, Model, Y, frames, train


class Color(str, Enum):  # noqa: UP042 - a StrEnum is formatted as its value
    RED = "red"


# --- sequences of rows of numbers

ARRAYS = {
    "lists": lambda: [FIRST, SECOND],
    "tuples": lambda: (tuple(map(tuple, FIRST)), tuple(map(tuple, SECOND))),
    "arrays": lambda: [np.array(FIRST), np.array(SECOND)],
    "float32": lambda: [np.array(FIRST, np.float32), np.array(SECOND, np.float32)],
    "float32 and 64": lambda: [np.array(FIRST, np.float32), np.array(SECOND)],
    "integers": lambda: [np.array(FIRST, int), np.array(SECOND, np.int8)],
    "fortran": lambda: [np.asfortranarray(FIRST), np.array(SECOND)],
    "objects": lambda: [np.array(FIRST, object), np.array(SECOND, object)],
    "rows": lambda: [list(np.array(FIRST)), list(np.array(SECOND))],
    "csr": lambda: [sp.csr_array(FIRST), sp.csr_matrix(SECOND)],
    "csc and dense": lambda: [sp.csc_matrix(FIRST), np.array(SECOND)],
    "dok and lil": lambda: [sp.dok_array(FIRST), sp.lil_matrix(SECOND)],
    "frames": frames,
    "frame and array": lambda: [frames()[0], np.array(SECOND)],
    "object array": lambda: np.array([FIRST, SECOND], dtype=object),
    "series": lambda: pytest.importorskip("pandas").Series([np.array(FIRST), SECOND], [7, 3]),
}


@pytest.mark.parametrize("form", ARRAYS)
def test_sequences_of_rows_of_numbers(form):
    data = train(ARRAYS[form]())
    assert np.array_equal(data.X.toarray(), ROWS)
    assert data.X.dtype == (np.float32 if form == "float32" else np.float64)
    assert data.lengths.tolist() == [2, 1] and data.starts.tolist() == [0, 2, 3]
    assert data.lengths.dtype == data.starts.dtype == np.int64
    assert not data.plain and data.fitted["n_features_in_"] == 3
    assert data.labels.tolist() == [1, 0, 1] and data.labels.dtype == np.intp
    assert data.classes.tolist() == ["A", "B"] and data.classes.dtype == "<U1"
    assert data.weights.tolist() == [0.5, 0.5] and data.total == 2.0
    assert data.kept.tolist() == [0, 1]


def test_a_3d_array_is_a_list_of_its_matrices():
    X = np.arange(12.0).reshape(2, 2, 3)
    data = train(X, [["A", "B"], ["B", "A"]])
    assert np.array_equal(data.X.toarray(), X.reshape(4, 3)) and data.lengths.tolist() == [2, 2]


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_is_made_canonical_in_a_copy(index):
    X = sp.csr_array(  # unsorted, a duplicate, a zero
        (
            np.array([3.0, 1.0, 1.0, 0.0]),
            np.array([2, 0, 0, 1], dtype=index),
            np.array([0, 3, 4], dtype=index),
        ),
        shape=(2, 3),
    )
    before = [a.copy() for a in (X.data, X.indices, X.indptr)]
    for data in (train(X, ["A", "B"]), train([X], [["A", "B"]])):
        assert np.array_equal(data.X.toarray(), [[2.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
        assert data.X.nnz == 2 and data.X.has_canonical_format
        assert data.X.indices.dtype == data.X.indptr.dtype
        assert data.X.indices.dtype in (np.int32, index)  # old versions of scipy stack in int32
    for array, copy in zip((X.data, X.indices, X.indptr), before, strict=True):
        assert np.array_equal(array, copy)


def test_csr_that_is_canonical_is_not_copied():
    X = sp.csr_array(ROWS)
    assert np.shares_memory(train(X, ["A", "B", "A"]).X.data, X.data)


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.csc_array])
def test_read_only_input(make):
    X = [make(FIRST), make(SECOND)]
    y = [np.array(labels) for labels in Y]
    weights = np.array([1.0, 2.0])
    arrays = [a for m in X for a in ((m.data, m.indices, m.indptr) if sp.issparse(m) else (m,))]
    for array in [*arrays, *y, weights]:
        array.flags.writeable = False
    data = train(X, y, weights)
    assert np.array_equal(data.X.toarray(), ROWS)
    assert np.allclose(data.weights, [1 / 3, 2 / 3], rtol=1e-15) and data.total == 3.0


def test_feature_names_of_frames():
    model = Model().fit(frames())
    assert model.data.fitted["feature_names_in_"].tolist() == ["a", "b", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model(frames()).X.toarray(), ROWS)
    with pytest.raises(ValueError, match="feature names should match"):
        model([frame.rename(columns={"c": "z"}) for frame in frames()])
    with pytest.warns(UserWarning, match="valid feature names"):
        model([FIRST])


# --- a 2-D X


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        ROWS.tolist(),
        ROWS.astype(object),
        list(ROWS),
        sp.csr_matrix(ROWS),
        sp.coo_array(ROWS),
        sp.dok_matrix(ROWS),
        ROWS.astype(np.float32),
    ],
    ids=lambda X: type(X).__name__,
)
@pytest.mark.parametrize("y", [["B", "A", "B"], np.array(["B", "A", "B"], object)], ids=type)
def test_a_matrix_is_chains_of_length_one(X, y):
    data = train(X, y)
    assert data.plain and data.lengths.tolist() == [1, 1, 1]
    assert isinstance(data.X, sp.csr_array) and np.array_equal(data.X.toarray(), ROWS)
    assert data.X.dtype == (np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)
    assert data.classes.tolist() == ["A", "B"] and data.labels.tolist() == [1, 0, 1]
    assert data.weights.shape == (3,)


def test_a_frame_is_chains_of_length_one():
    pd = pytest.importorskip("pandas")
    data = train(pd.concat(frames()), pd.Series(["B", "A", "B"], [5, 5, 5]))
    assert data.plain and np.array_equal(data.X.toarray(), ROWS)
    assert data.fitted["feature_names_in_"].tolist() == ["a", "b", "c"]


# --- labels


@pytest.mark.parametrize(
    "y, classes, dtype",
    [
        ([["b", "a"], ["b"]], ["a", "b"], "<U1"),
        ((("b", "a"), ["b"]), ["a", "b"], "<U1"),
        (np.array([["b", "a"], ["b"]], dtype=object), ["a", "b"], "<U1"),
        ([np.array(["b", "a"]), np.array(["long"])], ["a", "b", "long"], "<U4"),
        ([[np.str_("b"), "a"], ["b"]], ["a", "b"], "<U1"),
        ([[10, 9], [10]], [9, 10], np.int64),
        ([[np.int32(10), 9], [10]], [9, 10], np.int64),
        ([np.array([10, 9], np.int32), np.array([10], np.int32)], [9, 10], np.int32),
        ([[2, 1.0], [2]], [1.0, 2.0], np.float64),
        ([[True, False], [True]], [False, True], bool),
        ([[b"b", b"a"], [b"b"]], [b"a", b"b"], "S1"),
        ([[("b", 1), ("a", 2)], [("b", 1)]], [("a", 2), ("b", 1)], object),
        ([[("b", 1), ("a",)], [("b", 1)]], [("a",), ("b", 1)], object),
        ([[2**70, 1], [1]], [1, 2**70], object),
        ([["a\0", "a"], ["a"]], ["a", "a\0"], object),  # the same in a numpy array of strings
        ([[Color.RED, "a"], ["a"]], ["a", Color.RED], object),
        ([[np.datetime64("2020"), np.datetime64("2019")], [np.datetime64("2020")]], None, object),
    ],
    ids=str,
)
def test_labels_of_any_sortable_kind(y, classes, dtype):
    model = Model().fit(STRINGS, y)
    data = model.data
    assert data.classes.dtype == dtype and data.classes.ndim == 1
    assert classes is None or data.classes.tolist() == classes
    flat = [label for labels in y for label in labels]
    assert all(data.classes[k] == label for k, label in zip(data.labels, flat, strict=True))
    assert np.array_equal(check_labels(model, model(STRINGS), y), data.labels)


def test_labels_in_a_2d_array_and_in_series():
    pd = pytest.importorskip("pandas")
    X = np.ones((2, 2, 1))
    for y in (np.array([[1, 0], [0, 0]]), pd.Series([[1, 0], [0, 0]], ["a", "b"])):
        assert train(X, y).labels.tolist() == [1, 0, 0, 0]
    y = [pd.Series(["B", "A"], [9, 9]), pd.Series(["B"])]
    assert train([FIRST, SECOND], y).labels.tolist() == [1, 0, 1]


def test_check_labels():
    model = Model().fit(STRINGS)
    new = model([[["?"], ["w=a"], []]])
    assert check_labels(model, new, [np.array(["A", "B", "A"])]).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"'C' \(sequence 0, position 2\).*not fitted.*'A', 'B'"):
        check_labels(model, new, [["A", "B", "C"]])
    with pytest.raises(ValueError, match="Sequence 0 has 3 positions in X, but 2 labels in y"):
        check_labels(model, new, [["A", "B"]])
    with pytest.raises(ValueError, match="1 in X, 2 in y"):
        check_labels(model, new, [["A"], ["B"]])
    with pytest.raises(ValueError, match="requires y to be passed"):
        check_labels(model, new, None)
    with pytest.raises(ValueError, match=r"None \(sequence 0, position 1\)"):
        check_labels(model, new, [["A", None, ["B"]]])


def test_check_labels_of_a_matrix():
    model = Model().fit(ROWS, [2, 1, 2])
    assert check_labels(model, model(ROWS[:2]), [2.0, 1.0]).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"label 3 \(row 1\)"):
        check_labels(model, model(ROWS), np.array([1, 3, 2]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        check_labels(model, model(ROWS), [1, 2])
    with pytest.raises(ValueError, match="one label per row"):
        check_labels(model, model(ROWS), [[1, 2], [1, 2], [1, 2]])


# --- weights


def test_sequences_of_weight_zero_are_as_if_missing():
    X = [[["only here"]], *STRINGS, [["nor this"], []]]
    y = [["C"], *Y, ["A", "D"]]
    data, expected = train(X, y, [0.0, 1.0, 3.0, 0.0]), train(STRINGS, Y, [1.0, 3.0])
    assert np.array_equal(data.X.toarray(), expected.X.toarray())
    assert data.fitted["attribute_names_"].tolist() == expected.fitted["attribute_names_"].tolist()
    assert data.classes.tolist() == ["A", "B"] and data.labels.tolist() == [1, 0, 1]
    assert data.weights.tolist() == [0.25, 0.75] and data.total == 4.0
    assert data.kept.tolist() == [1, 2] and data.lengths.tolist() == [2, 1]
    arrays = train([SECOND, FIRST, SECOND], [["C"], *Y], [0, 2, 2])
    assert np.array_equal(arrays.X.toarray(), ROWS) and arrays.X.has_canonical_format


def test_large_weights_do_not_overflow():
    data = train(STRINGS, Y, [1e308, 1e308])
    assert data.weights.tolist() == [0.5, 0.5] and data.total == np.inf
    assert train(STRINGS, Y, [1e308, 1e-308]).kept.tolist() == [0]


# --- prediction


@pytest.mark.parametrize("form", ["lists", "arrays", "csr", "float32"])
def test_prediction_of_arrays_takes_all_their_forms(form):
    model = Model().fit([FIRST, SECOND])
    sequences = model(ARRAYS[form]())
    assert np.array_equal(sequences.X.toarray(), ROWS)
    assert sequences.lengths.tolist() == [2, 1] and not sequences.plain


def test_unseen_attributes_are_ignored_and_kinds_of_tokens_exchanged():
    strings, dicts = Model().fit(STRINGS), Model().fit(DICTS)
    assert np.array_equal(strings([[["w=b", "new"], []]]).X.toarray(), [[0, 0, 0, 1], [0] * 4])
    assert np.array_equal(strings([[{"w=b": 2, "t=x": "new"}]]).X.toarray(), [[0, 0, 0, 2]])
    assert np.array_equal(strings([[[]], [set()]]).X.toarray(), np.zeros((2, 4)))
    assert np.array_equal(dicts([[{"w": "b", "n": {"new": 1}}]]).X.toarray(), [[0, 0, 0, 1]])
    assert np.array_equal(dicts([[["w:b", "n", "n", "new"]]]).X.toarray(), [[2, 0, 0, 1]])
    assert np.array_equal(dicts([[[]]]).X.toarray(), np.zeros((1, 4)))


@pytest.mark.parametrize("X", [STRINGS, DICTS, [FIRST, SECOND]], ids=["strings", "dicts", "arrays"])
def test_fitted_attributes_can_be_pickled(X):
    model = Model().fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again(X).X.toarray(), model.data.X.toarray())


def test_shaped():
    values = np.arange(6.0).reshape(3, 2)
    split = shaped(values, train(STRINGS))
    assert [part.tolist() for part in split] == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    assert shaped(values, train(ROWS, [1, 2, 1])) is values


def test_nothing_is_left_of_an_earlier_fit():
    model = Model().fit(frames()).fit(STRINGS)
    assert not hasattr(model, "feature_names_in_")
    model.fit([FIRST, SECOND])
    assert not hasattr(model, "attribute_names_") and not hasattr(model, "_vocabulary")


def test_input_is_left_as_it_was():
    X = [[Counter(a=1), {"b": {"c": ["d"]}}], [{}]]
    y, before = [["A", "B"], ["A"]], repr(X)
    model = Model().fit(X, y)
    model(X)
    assert repr(X) == before and y == [["A", "B"], ["A"]]
