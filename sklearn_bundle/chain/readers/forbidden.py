"""Transitions that labels forbid: given in pairs, or by a scheme of tags for spans."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain.readers.features import place
from sklearn_bundle.core.values import shown

# Letters of the first tag of a span and of those inside; then, if spans have to be ended, of the
# last one and of a single one.
SCHEMES = {"bio": "BI", "bioes": "BIES", "bilou": "BILU"}


def _allows(letters: str, before: Any, after: Any) -> bool:
    """Whether a label may follow another one; None is outside, at either end."""
    (last, kind_before), (own, kind) = _split(letters, before), _split(letters, after)
    if own in letters[1:3]:
        return last in "BI" and kind == kind_before
    return len(letters) == 2 or last not in "BI"


def _split(letters: str, label: Any) -> tuple[str, str]:
    """The letter of a label and its type; both are "O" outside."""
    if label is None or label == "O":
        return "O", "O"
    letter, dash, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if not (letter and dash and kind and letter in letters):
        tags = ", ".join(f"'{letter}-...'" for letter in letters)
        raise ValueError(f"they must be 'O', {tags}, got {shown(label)}")
    return letter, kind


def bars_of(forbidden: Any, classes: np.ndarray) -> NDArray[np.float64]:
    """What the parameter ``forbidden`` says of these labels.

    A row for each label before, one for the beginning and one for the end, with -inf where a label
    is forbidden and 0 elsewhere.
    """
    labels, K = classes.tolist(), len(classes)
    bars, index = np.zeros((K + 2, K)), {label: k for k, label in enumerate(labels)}
    for before, after in _pairs(() if forbidden is None else forbidden, labels):
        unknown = [label for label in (before, after) if label is not None and label not in index]
        if unknown:
            raise ValueError(
                f"forbidden names the label {shown(unknown[0])}, which y does not hold: its labels "
                f"are {shown(labels)}."
            )
        row = K if before is None else K + 1 if after is None else index[before]
        bars[row, index[before if after is None else after]] = -np.inf
    return bars


def _pairs(forbidden: Any, labels: list) -> Iterator[tuple[Any, Any]]:
    if not isinstance(forbidden, str):
        for pair in forbidden:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] is pair[1] is None:
                raise ValueError(
                    "forbidden must hold pairs (label, next label), with None for an end of the "
                    f"sequence, got {shown(pair)}."
                )
            yield pair[0], pair[1]
        return
    for before, after in product([None, *labels], repeat=2):
        try:
            if not _allows(SCHEMES[forbidden], before, after):
                yield before, after
        except ValueError as error:
            raise ValueError(f"forbidden={forbidden!r} needs such labels: {error}.") from None


def check_allowed(
    bars: NDArray[np.float64],
    labels: NDArray[np.int64],
    lengths: NDArray[np.int64],
    classes: Any,
    numbers: Any,
) -> None:
    """Refuse training sequences that use what is forbidden, by the caller's ``numbers``."""
    known, K, ends = classes.tolist(), len(classes), np.cumsum(lengths)
    before, at_end = np.append(K, labels[:-1]), np.zeros(len(labels))
    before[ends - lengths] = K
    at_end[ends - 1] = bars[K + 1, labels[ends - 1]]
    into = bars[before, labels]
    wrong = np.flatnonzero(into + at_end)
    if len(wrong):
        t, where = int(wrong[0]), "at the end"
        if into[t] < 0.0:
            where = "at the beginning" if before[t] == K else f"after {known[before[t]]!r}"
        raise ValueError(
            f"y holds the label {known[labels[t]]!r} {where} ({place(t, lengths, numbers)}), which "
            "forbidden excludes: correct the labels, or allow it."
        )
