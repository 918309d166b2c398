"""Sequences of labels: checks of their shape, and the spans that they mark."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.values import shown
from sklearn_bundle.core.weights import check_sample_weight

# A scheme is the set of its tags; a tag means the same in all schemes.
_SCHEMES = {
    "IOB1": "IOB",
    "IOB2": "IOB",
    "IOE1": "IOE",
    "IOE2": "IOE",
    "BIOES": "BIOES",
    "IOBES": "BIOES",
    "brackets": "[].O",
}
# Tags outside of spans, those that always begin a span, and those that always end one.
OUTSIDE, _FIRST, _LAST = frozenset("O."), frozenset("BS[]"), frozenset("ES[]")


def check_label_sequences(
    y_true, y_pred, sample_weight, *, single_labels: bool
) -> tuple[list[list[Any]], list[list[Any]], NDArray[np.float64]]:
    """Lists of lists of labels, of equal lengths, and one weight per sequence.

    ``single_labels``: whether single labels are accepted as sequences of length one.
    """
    y_true, plain_true = _as_lists("y_true", y_true)
    y_pred, plain_pred = _as_lists("y_pred", y_pred)
    if not single_labels and (plain_true or plain_pred):
        raise ValueError(
            f"{'y_true' if plain_true else 'y_pred'} holds single labels, but spans are counted in "
            "sequences of labels. Put one sequence into a list: [y]."
        )
    if len(y_true) != len(y_pred):
        raise ValueError(f"y_true has {len(y_true)} sequences and y_pred {len(y_pred)}.")
    if not y_true:
        raise ValueError("There is no sequence in y_true.")
    if plain_true != plain_pred:
        single, other = ("y_true", "y_pred") if plain_true else ("y_pred", "y_true")
        raise ValueError(f"{single} holds single labels, {other} sequences of labels.")
    for i, (true, predicted) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(true) != len(predicted):
            raise ValueError(
                f"Sequence {i} has {len(true)} labels in y_true and {len(predicted)} in y_pred."
            )
    return y_true, y_pred, check_sample_weight(sample_weight, len(y_true))


def _as_lists(name: str, y) -> tuple[list[list[Any]], bool]:
    """Convert to a list of lists of labels; also return whether y held single labels."""
    if isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        raise TypeError(f"{name} must be a list of sequences of labels, got {shown(y)}.")
    items = y.tolist() if hasattr(y, "tolist") else list(y)
    single = [isinstance(item, str | bytes) or not hasattr(item, "__len__") for item in items]
    if all(single):
        return [[item] for item in items], bool(items)
    if any(single):
        i = single.index(True)
        raise ValueError(
            f"{name} mixes sequences of labels and labels: item {i} is {shown(items[i])}."
        )
    return [item.tolist() if hasattr(item, "tolist") else list(item) for item in items], False


class SpanFinder:
    """Labels of a sequence -> its spans (type, start, stop), as :func:`metrics.spans` says."""

    def __init__(self, scheme: str):
        if not isinstance(scheme, str) or scheme not in _SCHEMES:
            raise ValueError(f"scheme must be one of {list(_SCHEMES)}, got {shown(scheme)}.")
        self._scheme = scheme
        self._known: dict[str, tuple[str, str]] = {}  # few labels, many tokens

    def __call__(self, labels) -> list[tuple[str, int, int]]:
        found = []
        start, current = -1, ""  # the open span, from start on; -1 if none is open
        for i, label in enumerate(labels):
            if not isinstance(label, str) or label not in self._known:
                self._known[label] = self._tag_and_type(label, i)
            tag, kind = self._known[label]
            if start >= 0 and (tag in OUTSIDE or tag in _FIRST or kind != current):
                found.append((current, start, i))
                start = -1
            if start < 0 and tag not in OUTSIDE:
                start, current = i, kind
            if tag in _LAST:
                found.append((current, start, i + 1))
                start = -1
        if start >= 0:
            found.append((current, start, len(labels)))
        return found

    def _tag_and_type(self, label, position: int) -> tuple[str, str]:
        if not isinstance(label, str):
            raise TypeError(
                f"Spans are marked by strings such as 'B-NP', got the label {shown(label)} at "
                f"position {position} of a sequence."
            )
        tag, _, kind = label.partition("-")  # a type may contain hyphens
        if len(tag) != 1 or tag not in _SCHEMES[self._scheme]:
            raise ValueError(
                f"The label {shown(label)} at position {position} of a sequence is not in scheme "
                f"{self._scheme!r}: the tag before its first hyphen must be one of "
                f"{list(_SCHEMES[self._scheme])}. The schemes are {list(_SCHEMES)}."
            )
        return tag, kind
