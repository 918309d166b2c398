"""Segments: oracle and expectations against enumeration; optima, chains, input."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Chain, Segments
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined
from sklearn_bundle.structured.models.examples import ListedExamples
from sklearn_bundle.structured.models.segment_layout import (
    TokenSegments,
    flat,
    split,
    taken_apart,
)
from tests import reference_segments as reference
from tests.contract.chains import FORMS
from tests.contract.judge import judge
from tests.reference_segments import drawn

COSTS = ["tags", "labels", "segments"]
LENGTHS = [1, 3, 5, 2, 4]
every_cost = pytest.mark.parametrize("cost", COSTS)
boundaries = pytest.mark.parametrize("boundaries", [True, False])
max_lengths = pytest.mark.parametrize("max_length", [None, 4])


def bound(model, X, y, K, dtype=np.float64):
    """Compiled examples of segmentations with numbers for labels."""
    labels = [k for segments in y for k, start, stop in segments for _ in range(start, stop)]
    sizes = [
        (stop - start) * (t == start)
        for segments in y
        for _, start, stop in segments
        for t in range(start, stop)
    ]
    tokens = TokenSegments(np.array(labels), np.array(sizes), np.arange(len(y)))
    rows = TokenRows(sp.csr_array(np.concatenate(X).astype(dtype)), np.array(list(map(len, X))), K)
    return model.examples(rows, tokens, "margin")


class Case:
    """A model with data, its parameters in both orders, and all segmentations."""

    def __init__(self, K=3, size=1.0, seed=0, max_length=None, lengths=LENGTHS, **parameters):
        self.model = Segments(max_length, **parameters)
        self.X, self.y = drawn(lengths, K, seed=seed)
        self.limits = reference.longest(self.y, K) if max_length is None else [max_length] * K
        self.settings = K, max(self.limits), self.model.boundaries
        given = self.limits, self.model.boundaries, self.model.cost
        self.outputs = reference.examples(self.X, self.y, *given)
        rng = np.random.default_rng(seed + 100)
        self.w = size * rng.normal(size=self.outputs[0].phi.shape[1])
        self.examples = bound(self.model, self.X, self.y, K)
        assert self.model.n_parameters(self.X, self.y) == len(self.w)

    def find(self):
        return self.examples.find(flat(split(self.w, *self.settings)), 0, len(self.X))

    def expect(self, weights):
        """What is expected, and the gradient in the order of w."""
        gradient = np.zeros(self.examples.n_parameters)
        w = flat(split(self.w, *self.settings))
        found = self.examples.expect(w, 0, len(self.X), weights, gradient)
        return found, joined(taken_apart(gradient, *self.settings))


def check_found(case):
    """All that is found: the best by enumeration; features, loss and score of one output."""
    found = case.find()
    assert (found.values != 0.0).all()
    for i, outputs in enumerate(case.outputs):
        psi = outputs.psi("margin")
        own = slice(*found.starts[i : i + 2])
        row = np.zeros(case.examples.n_parameters)
        row[found.indices[own]] = found.values[own]
        row = joined(taken_apart(row, *case.settings))
        assert found.scores[i] == pytest.approx((outputs.losses - psi @ case.w).max(), rel=1e-12)
        assert found.scores[i] == pytest.approx(found.losses[i] - case.w @ row, rel=1e-12)
        same = outputs.losses == found.losses[i]
        assert np.abs(psi[same] - row).max(axis=1).min() <= 1e-13
        indices = found.indices[own]
        assert len(indices) == len(set(indices.tolist())) < case.examples.longest[i]


# ---- the worst segmentation -------------------------------------------------------------------


@pytest.mark.matrix
@every_cost
@boundaries
@max_lengths
@pytest.mark.parametrize("K", [1, 2, 3])
def test_the_worst_segmentations_are_those_of_enumeration(cost, boundaries, max_length, K):
    check_found(Case(K, cost=cost, boundaries=boundaries, max_length=max_length))


@pytest.mark.wide
def test_the_worst_of_six_positions():
    check_found(Case(lengths=[6, 6], max_length=3))


@pytest.mark.matrix
@every_cost
@pytest.mark.parametrize("size", [0.0, 0.1, 30.0])
def test_with_parameters_of_any_size(cost, size):
    check_found(Case(size=size, seed=1, cost=cost))


@pytest.mark.parametrize("K", [8, 9])
def test_labels_that_fill_whole_vectors_or_more(K):
    check_found(Case(K, lengths=[3, 3, 3, 2, 2, 2], seed=2))


@pytest.mark.matrix
@every_cost
@pytest.mark.parametrize("seed", range(3))
def test_of_segmentations_that_tie_one_is_found(cost, seed):
    case = Case(seed=seed, cost=cost)
    case.w = np.round(case.w)
    case.X = [np.sign(x) for x in case.X]  # entries that cancel
    case.outputs = reference.examples(case.X, case.y, case.limits, True, cost)
    case.examples = bound(case.model, case.X, case.y, 3)
    check_found(case)


def test_the_true_segments_have_no_entries_and_a_score_of_zero():
    case = Case(lengths=[6])
    outputs = case.outputs[0]
    case.w = 1e4 * (outputs.phi[outputs.truth] - outputs.phi.mean(axis=0))
    assert (outputs.phi @ case.w).argmax() == outputs.truth
    found = case.find()
    assert len(found.values) == 0 and found.losses[0] == found.scores[0] == 0.0


def test_attributes_in_single_precision_and_any_part_of_the_examples():
    case = Case()
    w = flat(split(case.w, *case.settings))
    X = [x.astype(np.float32).astype(np.float64) for x in case.X]
    whole = bound(case.model, X, case.y, 3).find(w, 0, 5)
    part = bound(case.model, X, case.y, 3, np.float32).find(w, 2, 4)
    own = slice(whole.starts[2], whole.starts[4])
    assert_array_equal(part.indices, whole.indices[own])
    assert_array_equal(part.values, whole.values[own])
    assert_allclose(part.scores, whole.scores[2:4], rtol=1e-12)


@pytest.mark.matrix
@every_cost
@boundaries
@max_lengths
def test_the_plain_methods(cost, boundaries, max_length):
    case = Case(cost=cost, boundaries=boundaries, max_length=max_length, seed=3)
    model, w = case.model, case.w
    listed = ListedExamples(model, case.X, case.y, "margin")
    assert_allclose(listed.find(w, 0, 5).scores, case.find().scores, rtol=1e-12)
    for x, y, outputs in zip(case.X, case.y, case.outputs, strict=True):
        others = reference.segmentations(len(x), case.limits)
        phi = [model.joint_feature(x, other) for other in others]
        assert_allclose(phi, outputs.phi, rtol=1e-13, atol=1e-13)
        assert_array_equal([model.loss(y, other) for other in others], outputs.losses)
        assert outputs.losses.max() <= model.max_loss(y)
        assert model.inference(x, w) == others[int((outputs.phi @ w).argmax())]


# ---- expectations -----------------------------------------------------------------------------


@pytest.mark.matrix
@boundaries
@max_lengths
@pytest.mark.parametrize("size", [0.3, 3.0, 300.0])
def test_log_partition_and_expected_features_by_enumeration(boundaries, max_length, size):
    case = Case(size=size, seed=4, boundaries=boundaries, max_length=max_length)
    weights = np.array([0.5, 1.0, 2.0, 0.1, 0.7])
    found, gradient = case.expect(weights)
    shifts = found.shifts + case.examples.errors(flat(case.model._split(case.w)))
    expected = np.zeros(len(case.w), np.longdouble)
    for i, (x, outputs) in enumerate(zip(case.X, case.outputs, strict=True)):
        scores = outputs.phi.astype(np.longdouble) @ case.w
        powers = np.exp(scores - scores.max())
        log_z, p = scores.max() + np.log(powers.sum()), powers / powers.sum()
        loss = log_z - scores[outputs.truth]
        assert abs(found.losses[i] - loss) <= shifts[i] + 1e-15 * loss
        difference = p @ outputs.phi - outputs.phi[outputs.truth]
        expected += weights[i] * difference
        assert np.linalg.norm(difference) <= found.sizes[i] * (1.0 + 1e-12)
        plain = case.model.expected_features(x, case.w)
        assert plain[0] == pytest.approx(float(log_z), rel=1e-12)
        assert_allclose(plain[1], (p @ outputs.phi).astype(float), rtol=1e-9, atol=1e-11 * size)
    bounds = weights @ (np.expm1(2.0 * shifts) * found.sizes)
    assert np.linalg.norm(gradient - expected) <= bounds + 1e-15 * (weights @ found.sizes)


def test_nothing_is_expected_beyond_a_truth_that_is_certain():
    """Probabilities of other segments below rounding keep their digits in the gradient."""
    case = Case(lengths=[2, 1], K=2, seed=5)
    case.w = 60.0 * (case.outputs[0].phi[case.outputs[0].truth] - case.outputs[0].phi.mean(axis=0))
    scores = case.outputs[0].phi @ case.w
    others = np.delete(scores, case.outputs[0].truth) - scores[case.outputs[0].truth]
    assert others.max() < -37.0  # exp(-37) is below the rounding of 1
    _, gradient = case.expect(np.array([1.0, 0.0]))
    coef = split(gradient, *case.settings).coef
    psi = case.outputs[0].phi - case.outputs[0].phi[case.outputs[0].truth]
    expected = np.exp(scores - scores[case.outputs[0].truth]) @ psi
    assert_allclose(coef, split(expected, *case.settings).coef, rtol=1e-10, atol=1e-300)


# ---- optima -----------------------------------------------------------------------------------

NAMES = np.array(["A", "B", "C"])


def named(lengths=(1, 3, 4, 2, 4, 3), seed=0):
    X, y = drawn(lengths, 3, seed=seed)
    return X, [[(str(NAMES[k]), start, stop) for k, start, stop in segments] for segments in y]


@pytest.mark.matrix
@every_cost
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log"])
def test_the_certificate_against_enumeration(cost, loss):
    X, y = named()
    model = Segments(cost=cost, boundaries=cost != "labels")
    svm = StructuredSVM(model, reg_lambda=0.1, loss=loss, tol=1e-5, random_state=0)
    judge(svm.fit(X, y), X, y)


@pytest.mark.matrix
@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("fit", ["auto", "bundle"])
def test_segments_of_length_one_are_a_chain(loss, fit):
    X, y = drawn([1, 4, 6, 3], 3, longest=1)
    given = {"reg_lambda": 0.1, "loss": loss, "solver": fit, "tol": 1e-7, "random_state": 0}
    segments = StructuredSVM(Segments(max_length=1, boundaries=False), **given).fit(X, y)
    chain = StructuredSVM(Chain(), **given).fit(X, [[k for k, *_ in labels] for labels in y])
    assert segments.lower_bound_ <= chain.objective_ * (1.0 + 1e-12)
    assert chain.lower_bound_ <= segments.objective_ * (1.0 + 1e-12)
    distance = 2.0 * np.sqrt(2e-7 * chain.objective_ / 0.1)
    assert_allclose(segments.coef_, chain.coef_, atol=distance)
    assert_allclose(segments.lengths_[:, 0], chain.intercept_, atol=distance)
    assert_allclose(segments.start_, chain.start_, atol=distance)


def test_predictions_are_the_best_by_enumeration():
    X, y = named()
    svm = StructuredSVM("segments", random_state=0).fit(X, y)
    limits, classes = svm.model_.max_lengths_, svm.classes_.tolist()
    assert_array_equal(limits, reference.longest(
        [[(classes.index(k), *rest) for k, *rest in segments] for segments in y], 3
    ))  # fmt: skip
    others, _ = named(seed=1)
    losses = []
    for x, truth, found in zip(others, y, svm.predict(others), strict=True):
        outputs = reference.segmentations(len(x), limits)
        phi = np.array([reference.features(x, o, 3, max(limits), True) for o in outputs])
        best = outputs[int((phi @ svm.w_).argmax())]
        assert found == [(classes[k], start, stop) for k, start, stop in best]
        losses.append(reference.loss(truth, found, "tags"))
    assert svm.score(others, y) == pytest.approx(1.0 - sum(losses) / sum(map(len, X)))


# ---- input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_x_of_every_form_that_chains_take(form):
    X, y = drawn([1, 3, 6, 2], 3, d=4)
    X = [np.abs(x) > 0.3 for x in X] if form == "strings" else X
    X = [x.astype(float) for x in X]
    arrays = StructuredSVM("segments", random_state=0).fit(X, y)
    other = StructuredSVM("segments", random_state=0).fit(FORMS[form](X), y)
    assert other.objective_ == pytest.approx(arrays.objective_, rel=2e-3)
    assert other.predict(FORMS[form](X)) == arrays.predict(X)


def test_fitted_attributes_are_parts_of_w():
    X, y = named()
    svm = StructuredSVM("segments", random_state=0).fit(X, y)
    names = "coef_", "first_", "last_", "transitions_", "lengths_", "start_", "end_"
    parts = [getattr(svm, name) for name in names]
    assert_array_equal(np.concatenate([part.ravel() for part in parts]), svm.w_)
    assert [part.shape for part in parts] == [(3, 3)] * 4 + [(3, 3), (3,), (3,)]
    svm.set_params(model=Segments(boundaries=False)).fit(X, y)
    assert not {"first_", "last_"} & set(vars(svm))


def test_a_sequence_of_weight_zero_is_a_missing_one():
    X, y = named()
    weights = np.array([1.0, 1.0, 0.0, 2.0, 1.0, 1.0])
    rest = [0, 1, 3, 3, 4, 5]
    svm = StructuredSVM("segments", random_state=0)
    weighted = svm.fit(X, y, weights).objective_, svm.lower_bound_
    svm.fit([X[i] for i in rest], [y[i] for i in rest])
    assert svm.lower_bound_ <= weighted[0] and weighted[1] <= svm.objective_


def test_threads_do_not_change_a_bit():
    X, y = named((3, 4) * 30)
    one, two = (StructuredSVM("segments", random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.w_, two.w_)
    assert one.predict(X) == two.predict(X)


def test_a_warm_start_knows_segments_of_equal_labels_apart():
    X = drawn([4, 4], 2)[0]
    whole, halves = [("A", 0, 3), ("B", 3, 4)], [("A", 0, 2), ("A", 2, 3), ("B", 3, 4)]
    warm = StructuredSVM("segments", warm_start=True, random_state=0).fit(X, [whole] * 2)
    cold = StructuredSVM("segments", random_state=0).fit(X, [halves] * 2)
    assert_array_equal(warm.fit(X, [halves] * 2).w_, cold.w_)


def test_a_single_label_and_segments_of_equal_lengths():
    """Words without spaces: only where segments begin is to be found."""
    X = [np.eye(2)[[0, 1, 0, 1, 1]], np.eye(2)[[0, 0, 1, 0]]]
    y = [[("w", 0, 2), ("w", 2, 5)], [("w", 0, 1), ("w", 1, 3), ("w", 3, 4)]]
    svm = StructuredSVM("segments", reg_lambda=1e-3, random_state=0).fit(X, y)
    assert svm.predict(X) == y and svm.score(X, y) == 1.0


@pytest.mark.parametrize(
    "segments, message",
    [
        ([("A", 0, 1), ("B", 2, 3)], "leaves a gap before it: ('B', 2, 3) starts at 2, but must"),
        ([("A", 0, 2), ("B", 1, 3)], "overlaps the one before: ('B', 1, 3) starts at 1, but must"),
        ([("A", 0, 1), ("B", 1, 1), ("B", 1, 3)], "an empty segment, ('B', 1, 1)"),
        ([("A", 0, 1), ("B", 1, 2)], "Sequence 1 has 3 positions in X, but its segments in y end"),
        ([("A", 0, 1.5), ("B", 1, 3)], "start and stop integers, got ('A', 0, 1.5)"),
        (["A", "B", "A"], "must hold segments (label, start, stop)"),
        ("AAA", "Sequence 1 of y must be a list of segments"),
        ([(None, 0, 3)], "NaN or None"),
    ],
)
def test_segments_that_are_none(segments, message):
    X, y = named()
    with pytest.raises(ValueError, match=re.escape(message)):
        StructuredSVM("segments").fit(X, [y[0], segments, *y[2:]])


@pytest.mark.parametrize(
    "X, y, error, message",
    [
        (np.eye(2), ["A", "B"], ValueError, "X must be a list of sequences for a model of segm"),
        ([np.eye(2)], None, ValueError, "the target y is None"),
        ([np.eye(2)], "A", TypeError, "y must be a list with a list of segments"),
        ([np.eye(2)], [], ValueError, "inconsistent numbers of sequences: 1 in X, 0 in y"),
        ("AB", [[("A", 0, 2)]], TypeError, "a list of sequences, got a str"),
    ],
)
def test_data_that_are_none(X, y, error, message):
    with pytest.raises(error, match=message):
        StructuredSVM("segments").fit(X, y)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"max_length": 2}, "Sequence 4 of y has a segment of 3 positions, but max_length is 2"),
        ({"max_length": 0}, "max_length must be an integer of at least 1, or None, got 0"),
        ({"max_length": True}, "max_length must be an integer"),
        ({"cost": "words"}, "cost must be one of .* got 'words'"),
        ({"cost": ["tags"]}, "cost must be one of"),
    ],
)
def test_wrong_parameters(parameters, message):
    X = [np.eye(3)] * 5
    y = [[("A", 0, 2), ("A", 2, 3)]] * 4 + [[("A", 0, 3)]]
    weights = [1.0, 0.0, 1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match=message):
        StructuredSVM(Segments(**parameters)).fit(X, y, weights)


def test_slack_rescaling_is_refused():
    with pytest.raises(ValueError, match="scaling='slack' needs a method"):
        StructuredSVM("segments", scaling="slack").fit(*named())


def test_what_a_fitted_model_refuses():
    X, y = named()
    svm = StructuredSVM("segments", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"y holds the label 'D' \(sequence 0, position 0\)"):
        svm.score(X[:1], [[("D", 0, 1)]])
    with pytest.raises(ValueError, match="X must be a list of sequences"):
        svm.predict(np.eye(3))
    with pytest.raises(ValueError, match="2 features"):
        svm.predict([np.eye(2)])


def test_more_parameters_than_indices_can_tell():
    rows = TokenRows(sp.csr_array((1, 1 << 29), dtype=np.float64), np.array([1]), 8)
    one = np.ones(1, np.int64)
    with pytest.raises(ValueError, match=r"at most 2\^32 - 1 parameters"):
        Segments().examples(rows, TokenSegments(0 * one, one, 0 * one), "margin")
