"""What the CRF accepts: forms of data and labels that scikit-learn's checks do not cover."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.chain.readers.sequences import check_labels
from tests.sequences import DICTS, FIRST, ROWS, SECOND, STRINGS, Model, frames, train


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
    ],
    ids=str,
)
def test_labels_are_strings_or_whole_numbers(y, classes, dtype):
    model = Model().fit(STRINGS, y)
    data = model.data
    assert data.classes.dtype == dtype and data.classes.ndim == 1
    assert data.classes.tolist() == classes
    flat = [label for labels in y for label in labels]
    assert all(data.classes[k] == label for k, label in zip(data.labels, flat, strict=True))
    assert np.array_equal(check_labels(model, model(STRINGS), y), data.labels)


def test_check_labels():
    model = Model().fit(STRINGS)
    new = model([[["?"], ["w=a"], []]])
    assert check_labels(model, new, [np.array(["A", "B", "A"])]).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"'C' \(sequence 0, position 2\).*not fitted.*'A', 'B'"):
        check_labels(model, new, [["A", "B", "C"]])
    with pytest.raises(ValueError, match="Sequence 0 of y must be a list of 3 labels"):
        check_labels(model, new, [["A", "B"]])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[1, 2\]"):
        check_labels(model, new, [["A"], ["B"]])
    with pytest.raises(ValueError, match="requires y to be passed"):
        check_labels(model, new, None)
    with pytest.raises(ValueError, match=r"None \(sequence 0, position 1\)"):
        check_labels(model, new, [["A", None, "B"]])


def test_unseen_attributes_are_ignored_and_kinds_of_tokens_exchanged():
    strings, dicts = Model().fit(STRINGS), Model().fit(DICTS)
    assert np.array_equal(strings([[["w=b", "new"], []]]).X.toarray(), [[0, 0, 0, 1], [0] * 4])
    assert np.array_equal(strings([[{"w=b": 2, "t=x": "new"}]]).X.toarray(), [[0, 0, 0, 2]])
    assert np.array_equal(strings([[[]], [set()]]).X.toarray(), np.zeros((2, 4)))
    assert np.array_equal(dicts([[{"w": "b", "n": "new"}]]).X.toarray(), [[0, 0, 0, 1]])
    assert np.array_equal(dicts([[["w:b", "n", "n", "new"]]]).X.toarray(), [[2, 0, 0, 1]])
    assert np.array_equal(dicts([[[]]]).X.toarray(), np.zeros((1, 4)))


def test_nothing_is_left_of_an_earlier_fit():
    model = Model().fit(frames()).fit(STRINGS)
    assert not hasattr(model, "feature_names_in_")
    model.fit([FIRST, SECOND])
    assert not hasattr(model, "attribute_names_") and not hasattr(model, "_vocabulary")
