"""Scores of label sequences: against conlleval's rules, published numbers and scikit-learn."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from sklearn_bundle.metrics import (
    sequence_accuracy_score,
    span_classification_report,
    span_f1_score,
    span_precision_recall_fscore_support,
    spans,
    token_accuracy_score,
)

ALPHABETS = {
    "IOB1": "IOB",
    "IOB2": "IOB",
    "IOE1": "IOE",
    "IOE2": "IOE",
    "BIOES": "BIOES",
    "IOBES": "BIOES",
    "BILOU": "BILOU",
    "brackets": "[].O",
}
# The same tags by other letters.
SAME = str.maketrans("LU", "ES")
# The transitions (previous tag, tag) of one type at which conlleval ends and begins a chunk, in
# the version of 2004, and those that its versions for IOBES add.
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"} | {
    *("BS", "IS", "ES", "EB", "SE", "SI", "SO", "SS", "SB")
}
BEGINS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"} | {
    *("SB", "EB", "BS", "IS", "OS", "SS", "ES", "SI", "SE")
}


def conlleval(y_true, y_pred):
    """conlleval's counts of true, found and right chunks by type: one pass over the tokens."""

    def ends(previous, tag, previous_type, kind):
        changed = previous not in "O." and previous_type != kind
        return previous + tag in ENDS or changed or previous in "[]"

    def begins(previous, tag, previous_type, kind):
        changed = tag not in "O." and previous_type != kind
        return previous + tag in BEGINS or changed or tag in "[]"

    true, found, right = Counter(), Counter(), Counter()
    last = (("O", ""), ("O", ""))
    inside = False
    lines = []
    for gold, guess in zip(y_true, y_pred, strict=True):
        lines += [*zip(gold, guess, strict=True), ("O", "O")]  # an empty line is outside
    for labels in lines:
        parts = (label.partition("-")[::2] for label in labels)
        now = tuple((tag.translate(SAME), kind) for tag, kind in parts)
        end, begin = (
            [rule(last[k][0], now[k][0], last[k][1], now[k][1]) for k in (0, 1)]
            for rule in (ends, begins)
        )
        if inside and all(end):
            right[last[0][1]] += 1
        inside = inside and not any(end)
        if all(begin) and now[0][1] == now[1][1]:
            inside = True
        true[now[0][1]] += begin[0]
        found[now[1][1]] += begin[1]
        last = now
    return +true, +found, +right


@st.composite
def corpora(draw, scheme=None):
    """A scheme and a few true and predicted sequences of its labels, well-formed or not."""
    scheme = scheme or draw(st.sampled_from(sorted(ALPHABETS)))
    kinds = draw(st.sampled_from([["NP"], ["NP", "VP"], ["NP", "", "B-X"]]))
    labels = ["O"] + [
        f"{tag}-{kind}" if kind else tag
        for tag in ALPHABETS[scheme]
        for kind in kinds
        if tag not in "O."
    ]
    if scheme == "brackets":
        labels.append(".")
    pairs = st.tuples(st.sampled_from(labels), st.sampled_from(labels))
    some = st.one_of(pairs, st.sampled_from(labels).map(lambda label: (label, label)))
    corpus = draw(st.lists(st.lists(some, max_size=12), min_size=1, max_size=4))
    return scheme, *([[pair[k] for pair in sequence] for sequence in corpus] for k in (0, 1))


@settings(deadline=None, max_examples=50)
@given(corpora())
def test_counts_of_conlleval(corpus):
    scheme, y_true, y_pred = corpus
    true, found, right = conlleval(y_true, y_pred)
    kinds = sorted(true | found)
    precision, recall, f1, support = span_precision_recall_fscore_support(
        y_true, y_pred, scheme=scheme, average=None
    )
    assert [len(values) for values in (precision, recall, f1, support)] == [len(kinds)] * 4
    assert support.tolist() == [true[kind] for kind in kinds]
    np.testing.assert_allclose(precision, [right[k] / max(found[k], 1) for k in kinds])
    np.testing.assert_allclose(recall, [right[k] / max(true[k], 1) for k in kinds])
    overall = span_precision_recall_fscore_support(y_true, y_pred, scheme=scheme)
    n_true, n_found, n_right = (sum(counts.values()) for counts in (true, found, right))
    f1 = 2 * n_right / max(n_true + n_found, 1)  # the harmonic mean of the two ratios
    np.testing.assert_allclose(
        overall[:3], [n_right / max(n_found, 1), n_right / max(n_true, 1), f1]
    )
    assert overall[3] is None


@pytest.mark.parametrize(
    "scheme, labels, expected",
    [
        ("BIOES", "B-A B-A E-A I-A S-A", [("A", 0, 1), ("A", 1, 3), ("A", 3, 4), ("A", 4, 5)]),
        ("brackets", "[-A . . ]-A ]-B O", [("A", 0, 1), ("A", 3, 4), ("B", 4, 5)]),
        ("IOB2", "B I O I", [("", 0, 2), ("", 3, 4)]),
        ("IOB2", "B-a-b I-a-b I-a", [("a-b", 0, 2), ("a", 2, 3)]),
        ("IOB2", "", []),
    ],
)
def test_spans_by_hand(scheme, labels, expected):
    labels = labels.split()
    assert spans(labels, scheme) == expected
    assert spans(np.array(labels, dtype=str), scheme) == expected


@settings(deadline=None, max_examples=40)
@given(corpora("IOB2"), st.data())
def test_a_weight_two_is_a_repeated_sequence_and_zero_a_missing_one(corpus, data):
    _, y_true, y_pred = corpus
    weights = data.draw(
        st.lists(st.integers(0, 3), min_size=len(y_true), max_size=len(y_true)).filter(any)
    )
    origin = np.repeat(np.arange(len(y_true)), weights)
    repeated = [[y[i] for i in origin] for y in (y_true, y_pred)]
    for average in ("micro", "macro", "weighted", None):
        ours = span_precision_recall_fscore_support(
            y_true, y_pred, average=average, sample_weight=weights
        )
        other = span_precision_recall_fscore_support(*repeated, average=average)
        for one, two in zip(ours, other, strict=True):
            if two is not None:
                np.testing.assert_allclose(one, two, rtol=1e-12)
    score = sequence_accuracy_score
    assert score(y_true, y_pred, sample_weight=weights) == pytest.approx(score(*repeated))
    if any(repeated[0]):
        score = token_accuracy_score
        assert score(y_true, y_pred, sample_weight=weights) == pytest.approx(score(*repeated))


@settings(deadline=None, max_examples=40)
@given(corpora("IOB2"), st.sampled_from([0.0, 1.0, np.nan]))
def test_averages_are_those_of_scikit_learn(corpus, zero_division):
    """On spans as items of a classification: those of each side that the other side lacks."""
    _, y_true, y_pred = corpus
    true, predicted = [], []
    for gold, guess in zip(y_true, y_pred, strict=True):
        gold, guess = (
            {(start, stop): kind for kind, start, stop in spans(y)} for y in (gold, guess)
        )
        for place in gold | guess:
            true.append(gold.get(place, "none"))
            predicted.append(guess.get(place, "none"))
    kinds = sorted({*true, *predicted} - {"none"})
    if not kinds:
        return
    for average in ("micro", "macro", "weighted", None):
        settings = {"average": average, "zero_division": zero_division, "beta": 2.0}
        ours = span_precision_recall_fscore_support(y_true, y_pred, **settings)
        theirs = precision_recall_fscore_support(true, predicted, labels=kinds, **settings)
        np.testing.assert_allclose(ours[:3], theirs[:3], rtol=1e-12)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@pytest.mark.parametrize("zero_division", [0.0, 1.0, np.nan])
def test_no_span_at_all(average, zero_division):
    settings = {"average": average, "zero_division": zero_division}
    scores = span_precision_recall_fscore_support([["O"], []], [["O"], []], **settings)
    np.testing.assert_array_equal(scores[:3], [zero_division] * 3)
    none = span_precision_recall_fscore_support([["O"]], [["O"]], average=None)
    assert [values.shape for values in none] == [(0,)] * 4


def test_tables_of_seqeval():
    """Those of its README, and what its version 1.2.2 counts with mode="strict"."""
    y_true = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    y_pred = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    assert (
        span_classification_report(y_true, y_pred)
        == """\
              precision    recall  f1-score   support

        MISC       0.00      0.00      0.00         1
         PER       1.00      1.00      1.00         1

   micro avg       0.50      0.50      0.50         2
   macro avg       0.50      0.50      0.50         2
weighted avg       0.50      0.50      0.50         2
"""
    )
    loose = [["B-NP", "I-NP", "O"]], [["I-NP", "I-NP", "O"]]
    assert span_f1_score(*loose) == 1.0
    assert span_f1_score(*loose, strict=True) == 0.0
    rows = "BILUO LUOBL BLULB UILBL", "BLUBO IUOBL BLUUB UILOO"
    y = [[["O" if t == "O" else t + "-X" for t in row] for row in text.split()] for text in rows]
    strict = span_precision_recall_fscore_support(*y, scheme="BILOU", strict=True, average=None)
    np.testing.assert_allclose(np.ravel(strict), [0.625, 0.625, 0.625, 8], rtol=1e-12)


@pytest.mark.parametrize(
    "scheme, labels, expected",
    [  # as seqeval 1.2.2 finds them in its strict mode
        ("IOB2", "O I-A B-A I-A I-B B-B", [("A", 2, 4), ("B", 5, 6)]),
        ("IOE2", "I-A E-A E-A I-B I-A E-A I-A", [("A", 0, 2), ("A", 2, 3), ("A", 4, 6)]),
        ("IOBES", "B-A I-A B-A E-A I-B E-B S-A B-A", [("A", 2, 4), ("A", 6, 7)]),
        ("BILOU", "U-A L-A B-A I-A L-A B-B L-A B-A U-A", [("A", 0, 1), ("A", 2, 5), ("A", 8, 9)]),
        ("IOB1", "I-A B-A I-A O B-A I-B I-B", [("A", 0, 1), ("A", 1, 3), ("B", 5, 7)]),
        ("IOE1", "I-A E-A I-A O E-A I-B I-B", [("A", 0, 2), ("A", 2, 3), ("B", 5, 7)]),
    ],
)
def test_strict_spans_are_written_as_the_scheme_says(scheme, labels, expected):
    assert spans(labels.split(), scheme, strict=True) == expected


def test_only_the_types_asked_for_in_their_order():
    y = [["B-NP", "I-NP", "B-VP", "B-PP"]], [["B-NP", "I-NP", "B-VP", "O"]]
    score = span_precision_recall_fscore_support
    assert score(*y, labels=["PP", "NP", "X"], average=None)[1].tolist() == [0.0, 1.0, 0.0]
    assert score(*y, labels=["PP", "NP"])[1] == 0.5 and score(*y)[:2] == (1.0, 2 / 3)


@settings(deadline=None, max_examples=40)
@given(corpora(), st.booleans(), st.booleans())
def test_a_report_has_the_scores_of_each_type(corpus, strict, weighted):
    scheme, y_true, y_pred = corpus
    values = {"scheme": scheme, "strict": strict}
    if weighted:
        values["sample_weight"] = np.arange(1.0, len(y_true) + 1.0)
    scores = span_precision_recall_fscore_support(y_true, y_pred, average=None, **values)
    if not len(scores[3]):
        with pytest.raises(ValueError, match="no span"):
            span_classification_report(y_true, y_pred, **values)
        return
    report = span_classification_report(y_true, y_pred, output_dict=True, **values)
    of_types = np.array([list(row.values()) for row in report.values()])[:-3].T
    np.testing.assert_allclose(of_types, scores, rtol=1e-12)
    for average in ("micro", "macro", "weighted"):
        expected = span_precision_recall_fscore_support(y_true, y_pred, average=average, **values)
        found = list(report[f"{average} avg"].values())[:3]
        np.testing.assert_allclose(found, expected[:3], rtol=1e-12)


@pytest.mark.parametrize("score", [token_accuracy_score, sequence_accuracy_score])
@pytest.mark.parametrize("convert", [list, np.array, pd.Series], ids=["list", "array", "series"])
@pytest.mark.parametrize("labels", [[0, 1, 2, 1, 0], ["a", "b", "b", "a", "c"]])
def test_single_labels_are_sequences_of_length_one(score, convert, labels):
    y_true, y_pred = convert(labels), convert(labels[::-1])
    weights = [1.0, 2.0, 0.5, 0.0, 3.0]
    assert score(y_true, y_pred) == accuracy_score(y_true, y_pred)
    expected = accuracy_score(y_true, y_pred, sample_weight=weights)
    assert score(y_true, y_pred, sample_weight=weights) == pytest.approx(expected, rel=1e-15)


def test_labels_of_any_kind():
    for y in ([["a", ("b", 1)], [None]], [(1.5, 2.5), (3.5,)], np.array([[1, 2], [3, 4]])):
        assert token_accuracy_score(y, y) == sequence_accuracy_score(y, y) == 1.0
    arrays = [np.array([0, 1]), np.array([1])]
    assert token_accuracy_score(pd.Series(arrays), [[0, 0], (1,)]) == 2 / 3


SCORES = [
    token_accuracy_score,
    sequence_accuracy_score,
    span_precision_recall_fscore_support,
    span_f1_score,
]
ONE, TWO = [["O"]], [["O"], ["O"]]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    "y_true, y_pred, weights, message",
    [
        (ONE, TWO, None, "y_true has 1 sequences and y_pred 2"),
        ([["O"], ["O", "O"]], TWO, None, "Sequence 1 has 2 labels in y_true and 1 in y_pred"),
        ([], [], None, "There is no sequence in y_true"),
        (ONE, ["O"], None, "y_pred holds single labels"),
        ("B-NP O", ONE, None, "y_true must be a list of sequences of labels"),
        (TWO, TWO, [1.0], r"sample_weight.shape == \(1,\), expected \(2,\)"),
        (TWO, TWO, [1.0, -1.0], "Negative values in data passed to `sample_weight`"),
        (TWO, TWO, [0.0, 0.0], "at least one non-zero"),
    ],
)
def test_what_is_wrong_is_named(score, y_true, y_pred, weights, message):
    with pytest.raises((ValueError, TypeError), match=message):
        score(y_true, y_pred, sample_weight=weights)


@pytest.mark.parametrize(
    "labels, scheme, error, message",
    [
        (["O", 3], "IOB2", TypeError, "the label 3 at position 1 of a sequence"),
        ("B-NP", "IOB2", TypeError, "got one string: 'B-NP'"),
        (["O", "S-NP"], "IOB2", ValueError, "'S-NP' at position 1 .* not in scheme 'IOB2'.*BIOES"),
        (["BI-NP"], "IOB2", ValueError, "'BI-NP' at position 0"),
        (["O"], "iob", ValueError, "scheme must be one of .*'IOB2'.* got 'iob'"),
    ],
)
def test_labels_that_mark_no_spans(labels, scheme, error, message):
    with pytest.raises(error, match=message):
        spans(labels, scheme)
    if not isinstance(labels, str):
        with pytest.raises(error, match=message):
            span_f1_score([labels], [labels], scheme=scheme)


def test_what_single_scores_refuse():
    y = [["B-NP"]]
    with pytest.raises(ValueError, match="no token"):
        token_accuracy_score([[], ["O"]], [[], ["O"]], sample_weight=[1, 0])
    with pytest.raises(ValueError, match=r"y_true holds single labels, .* into a list: \[y\]"):
        span_f1_score(["B-NP", "O"], ["B-NP", "O"])
    for average in ("samples", "binary", 1):
        with pytest.raises(ValueError, match=r"average must be one of .*'micro'"):
            span_f1_score(y, y, average=average)
    with pytest.raises(ValueError, match="'zero_division' parameter"):
        span_f1_score(y, y, zero_division=2)
