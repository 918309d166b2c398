"""What the CRF accepts: every form against matrices made by hand, CRFsuite's meaning, messages."""

import pickle
import warnings
from collections import Counter, OrderedDict
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from sklearn_bundle.estimators._sequences import (
    Sequences,
    check_labels,
    check_prediction_sequences,
    check_training_sequences,
    shaped,
)

FIRST, SECOND = [[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], [[4.0, 5.0, 0.0]]
ROWS = np.array(FIRST + SECOND)
Y = [["B", "A"], ["B"]]
STRINGS = [[["w=a", "t=x"], ["w=b"]], [["w=a", "end"]]]
DICTS = [[{"w": "a", "n": 2}, {"w": "b", "up": True}], [{"n": 0.5, "up": False}]]


class Model(BaseEstimator):
    """Checks as an estimator would; needs no labels for its fit to be tried on X alone."""

    def fit(self, X, y=Y, sample_weight=None):
        self.data = check_training_sequences(self, X, y, sample_weight)
        vars(self).update(self.data.fitted, classes_=self.data.classes)
        return self

    def __call__(self, X) -> Sequences:
        return check_prediction_sequences(self, X)


def train(X, y=Y, sample_weight=None):
    return Model().fit(X, y, sample_weight).data


class Colour(str, Enum):  # noqa: UP042 - a StrEnum is formatted as its value
    RED = "red"


# --- sequences of rows of numbers


def frames():
    pd = pytest.importorskip("pandas")
    return [pd.DataFrame(rows, columns=["a", "b", "c"]) for rows in (FIRST, SECOND)]


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


# --- tokens


@pytest.mark.parametrize(
    "X",
    [
        STRINGS,
        [[tuple(token) for token in sequence] for sequence in STRINGS],
        [[set(token) for token in sequence] for sequence in STRINGS],
        [[np.array(token) for token in sequence] for sequence in STRINGS],
        [np.array([["w=a", "t=x"], ["w=b", "w=b"]])[:, :1], STRINGS[1]],
        np.array([*STRINGS, None], dtype=object)[:2],
    ],
    ids=["lists", "tuples", "sets", "arrays", "array", "object array"],
)
def test_lists_of_strings(X):
    data = train(X)
    if isinstance(X[0], np.ndarray):
        expected, names = [[0, 1, 0], [0, 0, 1], [1, 1, 0]], ["end", "w=a", "w=b"]
    else:
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


def test_dicts_of_equal_lengths_in_an_array():
    X = np.array([[{"a": 1}, {"b": 2}], [{}, {"b": "c"}]], dtype=object)  # a 2-D one
    data = train(X, [["A", "B"], ["A", "B"]])
    assert data.lengths.tolist() == [2, 2]
    assert np.array_equal(data.X.toarray(), [[1, 0, 0], [0, 2, 0], [0, 0, 0], [0, 0, 1]])


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
    "enum": Colour.RED,
    "nested": {"string": "x", "deep": {"number": 2.0, "strings": ["p", "q"], "none": {}}},
    "strings": ["x", "y"],
    "set": {"z"},
    "nothing": [],
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
    "enum:red": 1.0,
    "nested:string:x": 1.0,
    "nested:deep:number": 2.0,
    "nested:deep:strings:p": 1.0,
    "nested:deep:strings:q": 1.0,
    "strings:x": 1.0,
    "strings:y": 1.0,
    "set:z": 1.0,
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
    assert attributes([[{"a": ["x", "x"], "a:x": 3}, {}]]) == [{"a:x": 5.0}, {}]
    assert attributes([[{"a": "x", "a:x": 3}, {}]]) == [{"a:x": 4.0}, {}]
    assert attributes([[{"a": {"x": 2}, "a:x": -2, "b": 1}, {}]]) == [{"b": 1.0}, {}]


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
VALUES = st.recursive(
    st.integers(-3, 3)
    | st.floats(-2, 2, width=32)
    | st.booleans()
    | NAMES
    | st.lists(NAMES, unique=True)
    | st.sets(NAMES),
    lambda values: st.dictionaries(NAMES, values, max_size=3),
    max_leaves=8,
)


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
        ([[Colour.RED, "a"], ["a"]], ["a", Colour.RED], object),
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
    with pytest.raises(ValueError, match="one label a row"):
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
    assert not hasattr(model, "attribute_names_") and not hasattr(model, "_vectorizer")


def test_input_is_left_as_it_was():
    X = [[Counter(a=1), {"b": {"c": ["d"]}}], [{}]]
    y, before = [["A", "B"], ["A"]], repr(X)
    model = Model().fit(X, y)
    model(X)
    assert repr(X) == before and y == [["A", "B"], ["A"]]


# --- errors


@pytest.mark.parametrize(
    "X, y, message",
    [
        ([], [], "Found no sequence in X"),
        ([[], STRINGS[1]], Y, "Sequence 0 of X is empty"),
        ([FIRST, np.empty((0, 3))], Y, "Sequence 1 of X is empty"),
        ([[], []], Y, "Sequence 0 of X is empty"),
        (STRINGS, None, "Model estimator requires y to be passed, but the target y is None"),
        (STRINGS, Y[:1], "inconsistent numbers of sequences: 2 in X, 1 in y"),
        (STRINGS, [["A", "B"], ["A", "B"]], "Sequence 1 has 1 positions in X, but 2 labels in y"),
        (STRINGS, ["AB", ["A"]], "Sequence 0 of y must be a list of labels, got 'AB'"),
        (STRINGS, ["A", "B"], "Sequence 0 of y must be a list of labels, got 'A'"),
        (STRINGS, [["A", "B"], {"A"}], "Sequence 1 of y must be a list of labels, got {'A'}"),
        (STRINGS, [[1, 2], 3], "Sequence 1 of y must be a list of labels, got 3"),
        (STRINGS, np.ones((2, 2, 2)), "Sequence 0 of y must be a list of labels"),
        (STRINGS, [["A", "A"], ["A"]], "at least 2 classes in y .* only one class: 'A'"),
        (STRINGS, [["A", None], ["B"]], r"NaN or None: None \(sequence 0, position 1\)"),
        (STRINGS, [[1, 2], [np.nan]], r"NaN or None: nan \(sequence 1, position 0\)"),
        (STRINGS, [np.array([1, np.nan]), np.ones(1)], r"nan.* \(sequence 0, position 1\)"),
        (STRINGS, [["A", 1], ["A"]], "sortable, but y holds labels of the types int, str"),
        (STRINGS, [["A", ["B"]], ["A"]], r"hashable, got \['B'\] of type list \(sequence 0, pos"),
        (STRINGS, [[("A", []), "B"], ["A"]], r"hashable, got \('A', \[\]\) of type tuple"),
        (STRINGS, [[0.5, 1.0], [2.0]], "Unknown label type: continuous. y holds 0.5"),
        (STRINGS, [[np.inf, 1.0], [2.0]], "Unknown label type: continuous. y holds inf"),
        ([["The", "cat"], ["sat"]], Y, r"Sequence 0 .* bare string 'The'.* write \['The'\] or \{"),
        (np.array([["a", "b"]]), Y[:1], "Sequence 0 .* bare string 'a'"),
        ([[["a"], "cat"], [["b"]]], Y, r"\(sequence 0, position 1\) holds the bare string 'cat'"),
        (["The cat", "sat"], Y, "Sequence 0 of X is a single str, 'The cat'"),
        ([{"a": 1}, {"b": 1}], Y, r"Sequence 0 of X is a single dict.* written \[sequence\]"),
        ([*STRINGS[:1], DICTS[1]], Y, "mixes kinds.*0 holds lists of strings, sequence 1 dicts"),
        ([STRINGS[0], SECOND], Y, "mixes kinds.* lists of strings, sequence 1 rows of numbers"),
        ([[{"a": 1}, ["b"]], [{}]], Y, r"mixes kinds.*\['b'\] of type list \(sequence 0, posi"),
        ([[["b"], {"a": 1}], [[]]], Y, r"mixes kinds.*\{'a': 1\} of type dict \(sequence 0, p"),
        ([[["a"], [1]], [["b"]]], Y, r"X holds 1 of type int in a list of strings \(sequence 0"),
        ([[["a", b"b"], []], [[]]], Y, r"X holds b'b' of type bytes .*\(sequence 0, position 0"),
        ([[["a", None], []], [[]]], Y, "X holds None of type NoneType in a list of strings"),
        ([[[1.0, 2.0], ["a", "b"]], [[1.0, 2.0]]], Y, "Sequence 0 of X mixes kinds"),
        ([[[1.0, 2.0], [1.0]], [[1.0, 2.0]]], Y, "Sequence 0 of X is not a matrix of numbers"),
        ([FIRST, [[1.0, {"a": 1}, 2.0]]], Y, "Sequence 1 of X is not a matrix of numbers"),
        ([[[[1.0]], [[2.0]]], [[[1.0]]]], Y, "list of strings|dimensions"),
        ([FIRST, [1.0, 2.0]], Y, r"Sequence 1 of X is one-dimensional.* shape \(T, d\)"),
        ([FIRST, np.ones(1)], Y, r"Sequence 1 of X is one-dimensional.* shape \(T, d\)"),
        ([np.ones((2, 1, 1)), FIRST], Y, r"Sequence 0 of X has 3 dimensions; .* shape \(T, d\)"),
        ([FIRST, [[1.0, 2.0]]], Y, "Sequence 1 of X has 2 features, sequence 0 has 3"),
        ([FIRST, [[1.0, np.nan, 2.0]]], Y, "X contains NaN: sequence 1, position 0, feature 1"),
        ([FIRST, [[1.0, None, 2.0]]], Y, "X contains NaN: sequence 1, position 0, feature 1"),
        ([FIRST, sp.csr_array([[np.inf, 0, 0]])], Y, "X contains infinity: sequence 1, position"),
        ([np.ones((2, 1)) * 1j, np.ones((1, 1))], Y, "Complex data not supported"),
        ([np.ones((2, 0)), np.ones((1, 0))], Y, r"0 feature\(s\)"),
        ([[{"a": np.nan}, {}], [{}]], Y, "X contains NaN: sequence 0, position 0, feature 'a'"),
        ([[{"a": 1}, {"b": np.inf}], [{}]], Y, "infinity: sequence 0, position 1, feature 'b'"),
        ([[{"a": 1}, {"b": None}], [{}]], Y, r"X \(sequence 0, position 1\).*'b' must be .*None"),
        ([[{"a": {"b": b"c"}}, {}], [{}]], Y, "'a:b' must be .* got b'c' of type bytes"),
        ([[{"a": ["b", 1]}, {}], [{}]], Y, r"'a' must be .* got \['b', 1\] of type list"),
        ([[{"a": np.ones(1)}, {}], [{}]], Y, "'a' must be .* of type ndarray"),
        ([[{"a": 1j}, {}], [{}]], Y, "'a' must be .* of type complex"),
        ([[{1: 2}, {}], [{}]], Y, r"\(sequence 0, position 0\): the key 1 of type int is not a"),
        ([[{"a": 10**400}, {}], [{}]], Y, "beyond the range of float64"),
        ([[{"a": {"b": 10**400}}, {}], [{}]], Y, r"X \(sequence 0, position 0\): int too large"),
        ([[[], []], [[]]], Y, "X holds no attribute: all its tokens are empty"),
        ([[{}, {"a": []}], [{}]], Y, "X holds no attribute: all its tokens are empty"),
        # a 2-D X
        ([[1, 2, 3], [4]], Y, r"one label a row.* multilabel y, or sequences.* \(T, 1\)"),
        (ROWS, np.eye(3, dtype=int), "one label a row.* multilabel y"),
        (ROWS, [["A", "B"], ["A"], ["B"]], "one label a row.* multilabel y"),
        (ROWS, ["A", "B"], "inconsistent numbers of samples"),
        (ROWS, None, "requires y to be passed, but the target y is None"),
        (ROWS, ["A", "A", "A"], "at least 2 classes in y .* only one class: 'A'"),
        (ROWS, ["A", None, "B"], r"NaN or None: None \(row 1\)"),
        (ROWS, np.array([1, "a", 2], dtype=object), "sortable, but y holds .* int, str"),
        (ROWS, [0.5, 1.0, 2.0], "Unknown label type: continuous"),
        (np.where(ROWS == 5, np.nan, ROWS), [1, 2, 1], "Input X contains NaN"),
        ([1.0, 2.0, 3.0], [1, 2, 1], "Expected 2D array, got 1D array instead"),
        (np.ones(3), [1, 2, 1], "Expected 2D array, got 1D array instead"),
        (np.empty((0, 2)), [], r"0 sample\(s\)"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_training_input(X, y, message):
    model = Model()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert set(vars(model)) <= {"n_features_in_", "feature_names_in_"}


@pytest.mark.parametrize(
    "X, y, message",
    [
        ((sequence for sequence in STRINGS), Y, "list of sequences, got a generator"),
        ({"a": 1}, Y, "list of sequences, got a dict"),
        ("abc", Y, "list of sequences, got a str"),
        ([(token for token in STRINGS[0])], Y, "Sequence 0 of X is a generator"),
        ([STRINGS[0], {"a"}], Y, "Sequence 1 of X is a set"),
        (STRINGS, 3, "y must be a list with a sequence of labels .* got 3 of type int"),
        (STRINGS, "ab", "y must be a list with a sequence of labels"),
        (STRINGS, iter(Y), "y must be a list with a sequence of labels"),
        (np.array([[1.0, {"a": 1}], [1.0, 2.0]], object), [1, 2], "must be a string or a real num"),
    ],
)
def test_input_of_a_wrong_type(X, y, message):
    with pytest.raises(TypeError, match=message):
        Model().fit(X, y)


def test_frames_must_agree():
    first, second = frames()
    with pytest.raises(ValueError, match=r"Sequence 1 .* columns \['a', 'b', 'z'\], sequence 0 "):
        train([first, second.rename(columns={"c": "z"})])
    with pytest.raises(ValueError, match=r"Sequence 1 .* columns \['c', 'b', 'a'\], sequence 0 "):
        train([first, second[["c", "b", "a"]]])
    with pytest.raises(ValueError, match="Sequence 0 of X: could not convert string to float"):
        train([first.astype(object).replace(3.0, "x"), second])


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1.0, -1.0], "Negative values in data passed to `sample_weight`"),
        ([0.0, 0.0], "at least one non-zero"),
        ([1.0, np.nan], "sample_weight contains NaN"),
        ([1.0], r"sample_weight.shape == \(1,\), expected \(2,\)"),
        ([[1.0], [2.0]], r"sample_weight.shape == \(2, 1\), expected \(2,\)"),
        ([0.0, 1.0], "at least 2 classes in y .*positive weight.* only one class: 'B'"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        train(STRINGS, Y, weights)


def test_places_are_the_callers_after_sequences_of_weight_zero():
    X, y = [[{"a": 1}, {}], [{"a": 1}], [{"a": np.nan}]], [["A", "B"], ["A"], ["B"]]
    with pytest.raises(ValueError, match="NaN: sequence 2, position 0, feature 'a'"):
        train(X, y, [0, 1, 1])
    with pytest.raises(ValueError, match="NaN: sequence 0, position 1, feature 0"):
        train([[[1.0], [np.nan]], [[1.0]], [[1.0]]], y, [0, 1, 1])


def test_corrupt_csr_is_refused():
    X = sp.csr_array(ROWS)
    X.indices[0] = 7  # compiled code would read past the end of the weights
    with pytest.raises(ValueError, match="must be < 3"):
        train(X, [1, 2, 1])


FITTED = {
    "a 2-D X": (ROWS, ["A", "B", "A"]),
    "rows of numbers": ([FIRST, SECOND], Y),
    "lists of strings": (STRINGS, Y),
    "dicts": (DICTS, Y),
}


@pytest.mark.parametrize("given", FITTED)
@pytest.mark.parametrize("fitted", FITTED)
def test_prediction_input_of_another_kind(fitted, given):
    model = Model().fit(*FITTED[fitted])
    X = FITTED[given][0]
    if fitted == given or {fitted, given} == {"lists of strings", "dicts"}:
        model(X)
        return
    meant = "a ndarray that is no list of sequences" if given == "a 2-D X" else given
    with pytest.raises(
        ValueError, match=f"Model was fitted on .*{fitted}.*another kind: .*{meant}"
    ):
        model(X)


def test_bad_prediction_input():
    arrays, strings, plain = (
        Model().fit(*FITTED[form]) for form in ("rows of numbers", "lists of strings", "a 2-D X")
    )
    for model in (arrays, strings, plain):
        with pytest.raises(ValueError, match="Found no sequence in X"):
            model([])
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        plain(np.empty((0, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but Model is expecting 3 features"):
        plain(ROWS[:, :2])
    with pytest.raises(ValueError, match="X has 2 features, but Model is expecting 3 features"):
        arrays([ROWS[:, :2]])
    with pytest.raises(ValueError, match="Sequence 1 of X has 2 features, sequence 0 has 3"):
        arrays([ROWS, ROWS[:, :2]])
    with pytest.raises(ValueError, match="X contains NaN: sequence 1, position 0, feature 2"):
        arrays([FIRST, [[1.0, 2.0, np.nan]]])
    with pytest.raises(ValueError, match=r"One sequence is written \[X\]"):
        arrays(FIRST)
    with pytest.raises(ValueError, match=r"bare string 'w=a'.*write \[X\]"):
        strings(STRINGS[0])
    with pytest.raises(ValueError, match="NaN: sequence 0, position 0, feature 'end'"):
        strings([[{"end": np.nan, "unseen": np.nan}]])
