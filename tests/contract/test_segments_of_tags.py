"""Segments from labels with tags, and back."""

import numpy as np
import pytest

from sklearn_bundle.metrics import segment_tags, segments, spans


def test_segments_cover_the_sequence_with_spans_and_single_tokens():
    labels = ["O", "B-NP", "I-NP", "I-NP", "B-NP", "O", "O", "I-VP"]
    found = segments(labels)
    assert [s for s in found if s[0] != "O"] == spans(labels)
    assert [t for _, *ends in found for t in range(*ends)] == list(range(len(labels)))
    assert all(stop == start + 1 for kind, start, stop in found if kind == "O")


@pytest.mark.parametrize("seed", range(5))
def test_tags_of_segments_mark_the_same_spans(seed):
    labels = np.random.default_rng(seed).choice(["O", "B-a", "I-a", "B-b", "I-b"], 40).tolist()
    assert spans(segment_tags(segments(labels))) == spans(labels)


def test_segments_of_tags_of_segments():
    given = [("a", 0, 3), ("a", 3, 4), ("O", 4, 5), (".", 5, 6), ("", 6, 8), ("b-c", 8, 9)]
    assert segments(segment_tags(given)[:5]) == given[:3]
    assert segment_tags(given)[4:] == ["O", ".", "B", "I", "B-b-c"]


def test_other_schemes():
    assert segments(["S-a", "B-a", "E-a", "O"], "BIOES") == [("a", 0, 1), ("a", 1, 3), ("O", 3, 4)]
    assert segments([]) == []


def test_a_type_that_is_called_outside():
    with pytest.raises(ValueError, match="A type of span must not be called 'O'"):
        segments(["B-O"])


@pytest.mark.parametrize("given", [[("a", 1, 2)], [("a", 0, 2), ("b", 1, 3)], [("a", 0, 0)]])
def test_segments_that_do_not_follow_one_another(given):
    with pytest.raises(ValueError, match="segments must follow one another from 0 on"):
        segment_tags(given)


def test_labels_that_are_no_strings():
    with pytest.raises(TypeError, match="Labels of segments must be strings, got 1"):
        segment_tags([(1, 0, 2)])
