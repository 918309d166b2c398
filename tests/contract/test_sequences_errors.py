"""What the CRF refuses, and the messages."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle import SDCACRF

FIRST, SECOND = [[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], [[4.0, 5.0, 0.0]]
ROWS = np.array(FIRST + SECOND)
Y = [["B", "A"], ["B"]]
STRINGS = [[["w=a", "t=x"], ["w=b"]], [["w=a", "end"]]]
DICTS = [[{"w": "a", "n": 2}, {"w": "b", "up": True}], [{"n": 0.5, "up": False}]]


def train(X, y=Y, sample_weight=None):
    return SDCACRF().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    "X, y, message",
    [
        ([], [], "Found no position in X"),
        ([[], STRINGS[1]], Y, "Sequence 0 of y must be a list of 0 labels"),
        ([FIRST, np.empty((0, 3))], Y, "Sequence 1 of y must be a list of 0 labels"),
        ([[], []], [[], []], "Found no position in X"),
        (STRINGS, None, "SDCACRF estimator requires y to be passed, but the target y is None"),
        (STRINGS, Y[:1], r"inconsistent numbers of samples: \[2, 1\]"),
        (STRINGS, [["A", "B"], ["A", "B"]], "Sequence 1 of y must be a list of 1 labels"),
        (STRINGS, ["AB", ["A"]], "Sequence 0 of y must be a list of . labels, .* got 'AB'"),
        (STRINGS, ["A", "B"], "Sequence 0 of y must be a list of . labels, .* got 'A'"),
        (STRINGS, [["A", "B"], {"A"}], "Sequence 1 of y must be a list of . labels, .* got {'A'}"),
        (STRINGS, [[1, 2], 3], "Sequence 1 of y must be a list of . labels, .* got 3"),
        (STRINGS, np.ones((2, 2, 2)), "Sequence 0 of y must be a list of 2 labels"),
        (STRINGS, [["A", "A"], ["A"]], "at least 2 classes in y .* only one class: 'A'"),
        (STRINGS, [["A", None], ["B"]], r"y holds None .* \(sequence 0, position 1\)"),
        (STRINGS, [[1, 2], [np.nan]], r"y holds nan .* \(sequence 1, position 0\)"),
        (STRINGS, [np.array([1, np.nan]), np.ones(1)], r"nan.* \(sequence 0, position 1\)"),
        (STRINGS, [["A", 1], ["A"]], r"not both: y holds 1 of type int \(sequence 0, position 1\)"),
        (STRINGS, [["A", ["B"]], ["A"]], r"y holds \['B'\] of type list \(sequence 0, pos"),
        (STRINGS, [[b"A", b"B"], [b"A"]], "Labels must be strings, or else whole numbers"),
        (STRINGS, [[0.5, 1.0], [2.0]], "whole numbers, .* y holds 0.5"),
        (STRINGS, [[np.inf, 1.0], [2.0]], "whole numbers, .* y holds inf"),
        (STRINGS, [[2**70, 1], [2]], "whole numbers, .* y holds 11805916"),
        ([["The", "cat"], ["sat"]], Y, r"Sequence 0 of X holds 'The' as a token\. A word is"),
        ([[["a"], "cat"], [["b"]]], Y, r"\(sequence 0, position 1\) holds 'cat' .* a word alone"),
        (["The cat", "sat"], Y, "Sequence 0 of X must be a list .* got 'The cat' of type str"),
        ([{"a": 1}, {"b": 1}], Y, r"Sequence 0 of X must be .* got \{'a': 1\}.* \[sequence\]"),
        (
            [*STRINGS[:1], DICTS[1]],
            Y,
            r"\(sequence 1, .* holds \{.* of type dict among lists of strings",
        ),
        ([STRINGS[0], SECOND], Y, r"\(sequence 1, position 0\) holds \[4\.0, 5\.0, 0\.0\]"),
        (
            [[{"a": 1}, ["b"]], [{}]],
            Y,
            r"\(sequence 0, position 1\) holds \['b'\] of type list among dicts",
        ),
        (
            [[["b"], {"a": 1}], [[]]],
            Y,
            r"\(sequence 0, position 1\) holds \{'a': 1\} .* among lists",
        ),
        ([[["a"], [1]], [["b"]]], Y, r"\(sequence 0, position 1\) holds \[1\]"),
        ([[["a", None], []], [[]]], Y, r"holds \['a', None\]"),
        ([[[1.0, 2.0], ["a", "b"]], [[1.0, 2.0]]], Y, "Sequence 0 of X is not a matrix"),
        ([[[1.0, 2.0], [1.0]], [[1.0, 2.0]]], Y, "Sequence 0 of X is not a matrix of numbers"),
        ([FIRST, [[1.0, {"a": 1}, 2.0]]], Y, "Sequence 1 of X is not a matrix of numbers"),
        ([[[[1.0]], [[2.0]]], [[[1.0]]]], Y, "list of strings|dimensions"),
        ([FIRST, [1.0]], Y, r"Sequence 1 of X has the shape \(1,\); .* shape \(T, d\)"),
        ([np.ones((2, 1, 1)), SECOND], Y, r"Sequence 0 of X has the shape \(2, 1, 1\)"),
        ([FIRST, [[1.0, 2.0]]], Y, r"Sequence 1 of X has the shape \(1, 2\); .* same d"),
        ([FIRST, [[1.0, np.nan, 2.0]]], Y, "Input X contains NaN"),
        ([FIRST, [[1.0, None, 2.0]]], Y, "Input X contains NaN"),
        ([FIRST, sp.csr_array([[np.inf, 0, 0]])], Y, "Input X contains infinity"),
        ([np.ones((2, 1)) * 1j, np.ones((1, 1))], Y, "Complex data not supported"),
        ([np.ones((2, 0)), np.ones((1, 0))], Y, r"0 feature\(s\)"),
        ([[{"a": np.nan}, {}], [{}]], Y, "Input X contains NaN"),
        ([[{"a": 1}, {"b": np.inf}], [{}]], Y, "Input X contains infinity"),
        ([[{"a": 1}, {"b": None}], [{}]], Y, r"\(sequence 0, position 1\) holds \{'b': None\}"),
        ([[{"a": ["b"]}, {}], [{}]], Y, r"holds \{'a': \['b'\]\}"),
        ([[{"a": 1j}, {}], [{}]], Y, r"holds \{.*1j\}"),
        ([[{1: 2}, {}], [{}]], Y, r"\(sequence 0, position 0\) holds \{1: 2\}"),
        ([[{"a": 10**400}, {}], [{}]], Y, "beyond the range of float64"),
        ([[[], []], [[]]], Y, "X holds no attribute: all its tokens are empty"),
        # a 2-D X
        ([[1, 2, 3], [4]], Y, "inhomogeneous"),
        (ROWS, np.eye(3, dtype=int), "1d array.* shape|inhomogeneous"),
        (ROWS, [["A", "B"], ["A"], ["B"]], "1d array.* shape|inhomogeneous"),
        (ROWS, ["A", "B"], "inconsistent numbers of samples"),
        (ROWS, ["A", "A", "A"], "at least 2 classes in y .* only one class: 'A'"),
        (ROWS, ["A", None, "B"], "y must hold values of one kind, got the types NoneType, str"),
        (ROWS, np.array([1, "a", 2], dtype=object), "one kind, got the types int, str"),
        (ROWS, [0.5, 1.0, 2.0], "Unknown label type: continuous"),
        ([1.0, 2.0, 3.0], [1, 2, 1], "Expected 2D array, got 1D array instead"),
        (np.empty((0, 2)), [], r"0 sample\(s\)"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_training_input(X, y, message):
    model = SDCACRF()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    "X, y, message",
    [
        ({"a": 1}, Y, "list of sequences, got a dict"),
        ("abc", Y, "list of sequences, got a str"),
        ([(token for token in STRINGS[0])], Y, "Sequence 0 of X must be .* of type generator"),
        ([STRINGS[0], {"a"}], Y, "Sequence 1 of X must be .* of type set"),
        (STRINGS, 3, "y must be a list with a sequence of labels .* got 3 of type int"),
        (STRINGS, "ab", "y must be a list with a sequence of labels"),
        (iter(STRINGS), Y, "got a list_iterator"),
    ],
)
def test_input_of_a_wrong_type(X, y, message):
    with pytest.raises(TypeError, match=message):
        SDCACRF().fit(X, y)


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
    X, y = [[{"a": 1}, {}], [{"a": 1}], [{"a": None}]], [["A", "B"], ["A"], ["B"]]
    with pytest.raises(ValueError, match="sequence 2, position 0"):
        train(X, y, [0, 1, 1])


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
    model = SDCACRF().fit(*FITTED[fitted])
    X = FITTED[given][0]
    if fitted == given or {fitted, given} == {"lists of strings", "dicts"}:
        model.predict(X)
        return
    meant = "a ndarray that is not a list of sequences" if given == "a 2-D X" else given
    with pytest.raises(
        ValueError, match=f"SDCACRF was fitted on .*{fitted}.*another kind: .*{meant}"
    ):
        model.predict(X)


def test_bad_prediction_input():
    arrays, strings, plain = (
        SDCACRF().fit(*FITTED[form]) for form in ("rows of numbers", "lists of strings", "a 2-D X")
    )
    assert plain.predict([]) == []
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        plain.predict(np.empty((0, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but SDCACRF is expecting 3 features"):
        plain.predict(ROWS[:, :2])
    with pytest.raises(ValueError, match="X has 2 features, but SDCACRF is expecting 3 features"):
        arrays.predict([ROWS[:, :2]])
    with pytest.raises(ValueError, match=r"Sequence 1 of X has the shape \(3, 2\)"):
        arrays.predict([ROWS, ROWS[:, :2]])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        arrays.predict([FIRST, [[1.0, 2.0, np.nan]]])
    with pytest.raises(ValueError, match=r"Write one sequence as \[X\]"):
        arrays.predict(FIRST)
    with pytest.raises(ValueError, match=r"holds 'w=a' as a token.*write \[X\]"):
        strings.predict(STRINGS[0])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        strings.predict([[{"end": np.nan, "unseen": np.nan}]])
