"""Conversions between labels of tokens with tags and segments that cover a sequence."""

from collections.abc import Sequence

from sklearn_bundle.core.values import shown
from sklearn_bundle.metrics._label_sequences import OUTSIDE
from sklearn_bundle.metrics._spans import spans


def segments(labels: Sequence[str], scheme: str = "IOB2") -> list[tuple[str, int, int]]:
    """Segments that cover a sequence: the spans that its labels mark, and tokens between them.

    :class:`~sklearn_bundle.models.Segments` learns from them. Each token outside of spans is a
    segment of its own, with its label, as in [1]_.

    Parameters
    ----------
    labels : sequence of str
        Labels of one sequence.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "brackets"}, default="IOB2"
        Tags of the labels, as in :func:`spans`.

    Returns
    -------
    segments : list of tuples (label, start, stop)
        In order, each starting where the previous one ends; the tokens are ``labels[start:stop]``.
        The label of a span is its type.

    Raises
    ------
    ValueError
        For an unknown scheme, for a label that does not belong to the scheme, and for a type of
        span with the name of the label of tokens outside.
    TypeError
        For a label that is not a string.

    See Also
    --------
    segment_tags : The inverse.
    spans : Only the spans.

    References
    ----------
    .. [1] S. Sarawagi, W. W. Cohen: Semi-Markov conditional random fields for information
       extraction. Advances in Neural Information Processing Systems 17, 2004; section 2.

    Examples
    --------
    >>> from sklearn_bundle.metrics import segments
    >>> segments(["B-NP", "I-NP", "O", "O", "B-VP"])
    [('NP', 0, 2), ('O', 2, 3), ('O', 3, 4), ('VP', 4, 5)]
    """
    found: list[tuple[str, int, int]] = []
    end = 0
    for kind, start, stop in [*spans(labels, scheme), ("", len(labels), len(labels))]:
        if kind in OUTSIDE:
            raise ValueError(
                f"A type of span must not be called {kind!r}, which is the label of tokens outside."
            )
        found += [(labels[t], t, t + 1) for t in range(end, start)]
        found.append((kind, start, stop))
        end = stop
    return found[:-1]


def segment_tags(segments: Sequence[tuple[str, int, int]]) -> list[str]:
    """IOB2 labels of the tokens of segments, the inverse of :func:`segments`.

    Parameters
    ----------
    segments : sequence of tuples (label, start, stop)
        Segments that cover a sequence, as :class:`~sklearn_bundle.models.Segments` predicts them.

    Returns
    -------
    labels : list of str
        "B-" and the label at the first token of a segment, "I-" and the label at the others; if the
        label is "O" or ".", only the label, for all tokens of the segment.

    Raises
    ------
    ValueError
        If a segment does not start where the previous one ends (the first one at 0).
    TypeError
        For a label that is not a string.

    See Also
    --------
    segments : Makes segments from labels.
    span_f1_score : Compares the spans of two labelings.

    Examples
    --------
    >>> from sklearn_bundle.metrics import segment_tags
    >>> segment_tags([("NP", 0, 2), ("O", 2, 3), ("O", 3, 4), ("VP", 4, 5)])
    ['B-NP', 'I-NP', 'O', 'O', 'B-VP']
    """
    labels: list[str] = []
    for label, start, stop in segments:
        if not isinstance(label, str):
            raise TypeError(f"Labels of segments must be strings, got {shown(label)}.")
        if start != len(labels) or stop <= start:
            raise ValueError(
                f"segments must follow one another from 0 on, got {shown((label, start, stop))} "
                f"where one must start at {len(labels)}."
            )
        labels += _tags(label, stop - start)
    return labels


def _tags(label: str, length: int) -> list[str]:
    if label in OUTSIDE:
        return [label] * length
    kind = f"-{label}" if label else ""
    return [f"B{kind}"] + [f"I{kind}"] * (length - 1)
