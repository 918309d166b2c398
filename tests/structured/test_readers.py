"""Readers: what fits of sequences, segments, classes and sets of labels give, and refuse."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.metrics import hamming_loss, mutual_info_score
from sklearn.svm import LinearSVC

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Chain, Multiclass, Multilabel
from sklearn_bundle.structured.models.chain_structure import TokenRows
from sklearn_bundle.structured.models.classes import Rows
from sklearn_bundle.structured.models.multilabel import WeightedRows
from tests import reference_segments as reference
from tests.contract.chains import FORMS
from tests.structured.test_models import rows

# ---- segments ----------------------------------------------------------------------------------


def named(lengths=(1, 3, 4, 2, 4, 3), seed=0, d=3):
    X, y = reference.drawn(lengths, 3, d=d, seed=seed)
    return X, [[("ABC"[k], start, stop) for k, start, stop in segments] for segments in y]


def test_predicted_segments_and_attributes():
    X, y = named()
    svm = StructuredSVM("segments", random_state=0).fit(X, y)
    names = "coef_", "first_", "last_", "transitions_", "lengths_", "start_", "end_"
    parts = [getattr(svm, name) for name in names]
    assert_array_equal(np.concatenate([part.ravel() for part in parts]), svm.w_)
    assert [part.shape for part in parts] == [(3, 3)] * 4 + [(3, 3), (3,), (3,)]
    limits, classes = svm.model_.max_lengths_.tolist(), svm.classes_.tolist()
    numbers = [[(classes.index(k), *rest) for k, *rest in segments] for segments in y]
    assert limits == reference.longest(numbers, 3)
    others, losses = named(seed=1)[0], []
    for x, truth, found in zip(others, y, svm.predict(others), strict=True):
        outputs = reference.segmentations(len(x), limits)
        phi = np.array([reference.features(x, o, 3, max(limits)) for o in outputs])
        best = outputs[int((phi @ svm.w_).argmax())]
        assert found == [(classes[k], start, stop) for k, start, stop in best]
        losses.append(reference.loss(truth, found))
    assert svm.score(others, y) == pytest.approx(1.0 - sum(losses) / sum(map(len, X)))


@pytest.mark.parametrize("form", FORMS)
def test_segments_of_every_form_that_chains_take(form):
    X, y = named(d=4)
    X = [np.abs(x) > 0.3 for x in X] if form == "strings" else X
    X = [x.astype(float) for x in X]
    arrays = StructuredSVM("segments", random_state=0).fit(X, y)
    other = StructuredSVM("segments", random_state=0).fit(FORMS[form](X), y)
    assert other.objective_ == pytest.approx(arrays.objective_, rel=2e-3)
    assert other.predict(FORMS[form](X)) == arrays.predict(X)


def test_a_warm_start_knows_segments_of_equal_labels_apart():
    X = named([4, 4])[0]
    whole, halves = [("A", 0, 3), ("B", 3, 4)], [("A", 0, 2), ("A", 2, 3), ("B", 3, 4)]
    warm = StructuredSVM("segments", warm_start=True, random_state=0).fit(X, [whole] * 2)
    cold = StructuredSVM("segments", random_state=0).fit(X, [halves] * 2)
    assert_array_equal(warm.fit(X, [halves] * 2).w_, cold.w_)


# ---- sets of labels and classes ------------------------------------------------------------------


def sets(n=9, n_labels=4):
    """Sets that depend on rows and on each other."""
    X, rng = rows(n, 3)
    Y = (X @ rng.normal(size=(3, n_labels)) + rng.normal(size=(n, n_labels)) > 0.0).astype(int)
    Y[:, 1] |= Y[:, 0]
    return X, Y


def test_the_tree_of_most_mutual_information():
    _, Y = sets(60, 6)
    model = Multilabel()
    model.examples(WeightedRows(np.ones((60, 1)), np.full(60, 1 / 60)), Y, "margin")
    shared = np.array([[mutual_info_score(a, b) for a in Y.T] for b in Y.T])
    inside, edges = {0}, []
    while len(inside) < 6:  # Prim's algorithm
        rest = [v for v in range(6) if v not in inside]
        a, b = max(((u, v) for u in inside for v in rest), key=lambda pair: shared[pair])
        inside.add(b)
        edges.append(sorted((a, b)))
    assert sorted(edges) == model.edges_.tolist()
    four = WeightedRows(np.ones((4, 1)), np.full(4, 0.25))
    model.examples(four, np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), "margin")
    assert model.edges_.shape == (0, 2)  # independent labels have no edge


def test_a_tree_of_weighted_rows_is_that_of_repeated_ones():
    X, Y = sets(30, 6)
    weights = np.random.default_rng(0).integers(0, 4, 30)
    settings = {"reg_lambda": 0.1, "random_state": 0}
    weighted = StructuredSVM("multilabel", **settings).fit(X, Y, weights)
    repeated = StructuredSVM("multilabel", **settings)
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    assert_array_equal(weighted.model_.edges_, repeated.model_.edges_)
    larger = max(weighted.lower_bound_, repeated.lower_bound_)
    assert larger <= min(weighted.objective_, repeated.objective_)


def test_without_pairs_it_is_a_linear_machine_per_label():
    X, Y = sets(40)
    model, settings = Multilabel(None, fit_intercept=False), {"tol": 1e-8, "random_state": 0}
    svm = StructuredSVM(model, reg_lambda=0.1, **settings).fit(X, Y)
    peer = LinearSVC(loss="hinge", C=1 / (0.1 * 40), fit_intercept=False, tol=1e-8, max_iter=10**6)
    for k, row in enumerate(svm.coef_):
        np.testing.assert_allclose(row, peer.fit(X, Y[:, k]).coef_[0], atol=1e-3)


def test_attributes_prediction_and_score_of_sets():
    X, Y = sets(30)
    frame, indicators = pd.DataFrame(X, columns=["a", "b", "c"]), sp.csr_array(Y)
    svm = StructuredSVM("multilabel", random_state=0).fit(frame, indicators)
    assert svm.feature_names_in_.tolist() == ["a", "b", "c"] and svm.n_features_in_ == 3
    assert svm.coef_.shape == (4, 3) and svm.intercept_.shape == (4,)
    assert svm.pairs_.shape == (len(svm.model_.edges_), 2, 2)
    assert_array_equal(svm.w_, np.r_[svm.coef_.ravel(), svm.intercept_, svm.pairs_.ravel()])
    found, weights = svm.predict(frame), np.arange(30.0)
    assert found.dtype == np.int64 and found.shape == Y.shape
    expected = 1.0 - hamming_loss(Y, found, sample_weight=weights)
    assert svm.score(frame, indicators, weights) == pytest.approx(expected)
    assert_array_equal(svm.predict(frame[::-1]), found[::-1])


def test_a_class_whose_mistakes_cost_nothing():
    model = Multiclass(cost=[[0, 0], [1, 0]])
    model.examples(Rows(np.eye(2), 2), [0, 1], "margin")
    assert model.max_loss(0) == 1.0  # the score divides by it


# ---- what is refused -----------------------------------------------------------------------------

X_SEGMENTS, Y_SEGMENTS = named()
X_SETS, Y_SETS = sets()
ONES = 1.0 - np.eye(3)
FOLLOWS = "must be a list of segments (label, start, stop) that follow one another"
IRIS = np.eye(5)[:, :3], [0, 1, 2, 1, 0]
TOKENS = [np.eye(3)], [[0, 1, 2]]


def second(segments):
    return X_SEGMENTS, [Y_SEGMENTS[0], segments, *Y_SEGMENTS[2:]]


def fit(model, X, y, **settings):
    return lambda: StructuredSVM(model, **settings).fit(X, y)


def wide(model, *y):
    """Of 2^32 parameters or more."""
    token = TokenRows(sp.csr_array((1, 1 << 29), dtype=np.float64), np.array([1]), 8)
    return lambda: model.examples(token, *y, "margin")


REFUSED = {
    "a gap": (fit("segments", *second([("A", 0, 1), ("B", 2, 3)])), "segment must start at 1"),
    "no integer": (fit("segments", *second([("A", 0, 1.5)])), "got ('A', 0, 1.5)"),
    "no triple": (fit("segments", *second(["A", "B", "A"])), FOLLOWS),
    "too short": (fit("segments", *second([("A", 0, 2)])), "Sequence 1 of y has segments up to 2"),
    "too long": (fit("segments", *second([("A", 0, 10**12)])), "up to 1000000000000, but sequence"),
    "no label": (fit("segments", *second([(None, 0, 3)])), "y holds None"),
    "one sequence": (fit("segments", np.eye(2), ["A", "B"]), FOLLOWS),
    "no segments": (fit("segments", X_SEGMENTS, None), "the target y is None"),
    "more X than y": (fit("segments", [np.eye(2)], []), "inconsistent numbers of samples"),
    "slack of segments": (
        fit("segments", X_SEGMENTS, Y_SEGMENTS, scaling="slack"),
        "scaling='slack' needs a method",
    ),
    "edges": (fit(Multilabel("full"), X_SETS, Y_SETS), "edges must be 'tree', None or a list of"),
    "a cycle": (fit(Multilabel([(0, 1), (1, 2), (2, 0)]), X_SETS, Y_SETS), "have no cycle"),
    "triples": (fit(Multilabel([(0, 1, 2)]), X_SETS, Y_SETS), "the shape (m, 2), but has (1, 3)"),
    "a fifth label": (
        fit(Multilabel([(0, 1), (1, 4)]), X_SETS, Y_SETS),
        "whole numbers from 0 to 3",
    ),
    "a loop": (fit(Multilabel([(2, 2)]), X_SETS, Y_SETS), "two different labels"),
    "a vector": (fit("multilabel", X_SETS, Y_SETS[:, 0]), "y must be an indicator matrix of shape"),
    "half": (fit("multilabel", X_SETS, 0.5 * Y_SETS), "has 0.5 in column 0"),
    "few sets": (fit("multilabel", X_SETS, Y_SETS[:5]), "inconsistent numbers of samples"),
    "NaN": (fit("multilabel", X_SETS, np.nan * Y_SETS), "Input y contains NaN"),
    "a small cost": (fit(Multiclass(cost=ONES[:2]), *IRIS), "for each of the 3 classes"),
    "a negative cost": (fit(Multiclass(cost=-ONES), *IRIS), "at least 0, but cost[0, 1] is -1.0"),
    "a diagonal": (fit(Multiclass(cost=ONES + 1.0), *IRIS), "cost must be 0 on its diag"),
    "a chain's cost": (fit(Chain(cost=ONES[:2]), *TOKENS), "for each of the 3 classes"),
    "numbers of labels": (
        lambda: Multiclass().examples(Rows(np.eye(3), 2), [0, 1, 2], "margin"),
        "y must hold 3 numbers of labels, from 0 to 1",
    ),
    "a wide chain": (wide(Chain(), np.array([0])), "at most 2^32 - 1 parameters"),
    "wide classes": (
        lambda: Multiclass().examples(Rows(sp.csr_array((3, 1 << 31)), 2), [0, 1, 0], "margin"),
        "at most 2^32 - 1 parameters, but 2 rows of 2147483648",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call()


def test_what_fitted_models_refuse():
    svm = StructuredSVM("segments", random_state=0).fit(X_SEGMENTS, Y_SEGMENTS)
    with pytest.raises(ValueError, match=r"y holds the label 'D' \(sequence 0, position 0\)"):
        svm.score(X_SEGMENTS[:1], [[("D", 0, 1)]])
    with pytest.raises(ValueError, match="not a list of sequences"):
        svm.predict(np.eye(3))
    with pytest.raises(ValueError, match="2 features"):
        svm.predict([np.eye(2)])
    svm = StructuredSVM("multilabel", random_state=0).fit(X_SETS, Y_SETS)
    with pytest.raises(ValueError, match="X has 2 features, but StructuredSVM is expecting 3"):
        svm.predict(X_SETS[:, :2])
    with pytest.raises(ValueError, match=r"y must have shape \(9, 4\), .* got \(9, 3\)"):
        svm.score(X_SETS, Y_SETS[:, :3])
    with pytest.raises(ValueError, match="contains NaN"):
        svm.predict(np.nan * X_SETS)
