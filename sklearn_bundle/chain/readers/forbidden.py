"""Transitions that labels forbid: given in pairs, or by a scheme of tags for spans."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain.model import Bars
from sklearn_bundle.chain.readers.features import place
from sklearn_bundle.core.values import shown


class _Scheme(NamedTuple):
    """Letters that go on with a span, that begin one, and whether a span has to be ended."""

    inside: str
    first: str
    ended: bool

    def allows(self, before: Any, after: Any) -> bool:
        """Whether a label may follow another one; None is outside, at either end."""
        own, kind = self.split(after)
        last, kind_before = self.split(before)
        if own in self.inside:
            return last in "BI" and kind == kind_before
        return not (self.ended and last in "BI")

    def split(self, label: Any) -> tuple[str, str]:
        """The letter of a label and its type; both are "O" outside."""
        if label is None or label == "O":
            return "O", "O"
        letter, dash, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
        if not (letter and dash and kind and letter in self.inside + self.first):
            letters = ", ".join(f"'{letter}-...'" for letter in self.first + self.inside)
            raise ValueError(f"they must be 'O', {letters}, got {shown(label)}")
        return letter, kind


SCHEMES = {
    "bio": _Scheme("I", "B", False),
    "bioes": _Scheme("IE", "BS", True),
    "bilou": _Scheme("IL", "BU", True),
}


def bars_of(forbidden: Any, classes: np.ndarray, *, all_known: bool = True) -> Bars | None:
    """What the parameter ``forbidden`` says of these labels, None if it forbids nothing.

    Unless ``all_known``, pairs with other labels than these are left out: a part of the data may
    lack them.
    """
    if forbidden is None:
        return None
    labels, bars = classes.tolist(), Bars.none(len(classes))
    index = {label: k for k, label in enumerate(labels)}
    for before, after in _pairs(forbidden, labels):
        unknown = [label for label in (before, after) if label is not None and label not in index]
        if unknown and all_known:
            raise ValueError(
                f"forbidden names the label {shown(unknown[0])}, which y does not hold: its labels "
                f"are {shown(labels)}."
            )
        if unknown:
            continue
        if before is None:
            bars.start[index[after]] = -np.inf
        elif after is None:
            bars.end[index[before]] = -np.inf
        else:
            bars.transitions[index[before], index[after]] = -np.inf
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
            if not SCHEMES[forbidden].allows(before, after):
                yield before, after
        except ValueError as error:
            raise ValueError(f"forbidden={forbidden!r} needs such labels: {error}.") from None


def check_allowed(
    bars: Bars, labels: NDArray[np.int64], lengths: NDArray[np.int64], classes: Any, numbers: Any
) -> None:
    """Refuse training sequences that use what is forbidden, by the caller's ``numbers``."""
    t = bars.first_of(labels, lengths)
    if t is None:
        return
    ends = np.cumsum(lengths)
    known, is_first = classes.tolist(), t in ends - lengths
    before = "at the beginning" if is_first else f"after {known[labels[t - 1]]!r}"
    inner = bars.start[labels[t]] if is_first else bars.transitions[labels[t - 1], labels[t]]
    where = before if inner < 0.0 else "at the end"
    raise ValueError(
        f"y holds the label {known[labels[t]]!r} {where} ({place(t, lengths, numbers)}), which "
        "forbidden excludes: correct the labels, or allow it."
    )
