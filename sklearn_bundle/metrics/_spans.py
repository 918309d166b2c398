"""Spans and segments that the labels of a sequence mark."""

import re
from collections.abc import Sequence

from sklearn_bundle.core.values import shown

# A scheme is the set of its tags; a tag means the same in all schemes.
_SCHEMES = {
    "IOB1": "IOB",
    "IOB2": "IOB",
    "IOE1": "IOE",
    "IOE2": "IOE",
    "BIOES": "BIOES",
    "IOBES": "BIOES",
    "BILOU": "BILOU",
    "brackets": "[].O",
}
# Tags outside of spans, those that always begin a span, and those that always end one.
_OUTSIDE, _FIRST, _LAST = frozenset("O."), frozenset("BSU[]"), frozenset("ESLU[]")
# The tags by which a scheme writes a span. ">" and "<" stand for a neighbor of the same type that
# the span follows or is followed by: IOB1 has B, and IOE1 E, only between two such spans.
_WRITTEN = {
    "IOB1": ">BI*<?|I+<?",
    "IOB2": ">?BI*<?",
    "IOE1": ">?I*E<|>?I+",
    "IOE2": ">?I*E<?",
    "BIOES": ">?(S|BI*E)<?",
    "IOBES": ">?(S|BI*E)<?",
    "BILOU": ">?(U|BI*L)<?",
    "brackets": ".*",
}


def spans(
    labels: Sequence[str], scheme: str = "IOB2", *, strict: bool = False
) -> list[tuple[str, int, int]]:
    """Spans that the labels of one sequence mark, by the rules of conlleval.

    A label is a tag, and a type after the first hyphen: "B-NP" begins a noun phrase. Tags may
    follow each other in any order, since a model may predict any. A span also begins at an inside
    tag after an outside tag or after a span of another type. It ends where a span of another type
    begins, at an outside tag and at the end of the sequence. These are the rules of the script
    conlleval, which was published with [1]_.

    Parameters
    ----------
    labels : sequence of str
        Labels of one sequence.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "BILOU", "brackets"}, \
            default="IOB2"
        The allowed tags; any other tag is an error. Their meaning does not depend on the scheme, so
        IOB1 and IOB2 count alike:

        ======================  ====================================================
        "O", "."                outside
        "B"                     the first token of a span
        "I"                     inside, or the first after an outside tag or another type
        "E", "L"                the last token of a span
        "S", "U", "[", "]"      a span of one token
        ======================  ====================================================

        IOB1 and IOB2 have the tags I, O and B; IOE1 and IOE2 have I, O and E; BIOES (or IOBES) has
        all five; BILOU has L for E and U for S; "brackets" has O, ".", "[" and "]".
    strict : bool, default=False
        Whether spans count only if their tags are those by which the scheme writes them: B, then I
        in IOB2; S, or B, I and E in BIOES. Others are left out, as in seqeval's strict mode.

    Returns
    -------
    spans : list of tuples (type, start, stop)
        In order; the tokens are ``labels[start:stop]``.

    Raises
    ------
    ValueError
        For an unknown scheme and for a label that does not belong to the scheme.
    TypeError
        For a label that is not a string.

    See Also
    --------
    span_precision_recall_fscore_support : Compares the spans of two labelings.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task: chunking.
       Proceedings of CoNLL-2000, 127-132; with the script conlleval.

    Examples
    --------
    >>> from sklearn_bundle.metrics import spans
    >>> spans(["B-NP", "I-NP", "O", "I-NP", "I-VP", "B-VP"])
    [('NP', 0, 2), ('NP', 3, 4), ('VP', 4, 5), ('VP', 5, 6)]
    >>> spans(["B-NP", "I-NP", "O", "I-NP", "I-VP", "B-VP"], strict=True)
    [('NP', 0, 2), ('VP', 5, 6)]
    """
    if not isinstance(scheme, str) or scheme not in _SCHEMES:
        raise ValueError(f"scheme must be one of {list(_SCHEMES)}, got {shown(scheme)}.")
    if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
        what = "one string: " if isinstance(labels, str) else ""
        raise TypeError(f"labels must be a sequence of strings, got {what}{shown(labels)}.")
    found: list[tuple[str, int, int]] = []
    start, current = -1, ""  # the open span, from start on; -1 if none is open
    for i, label in enumerate(labels):
        tag, kind = _tag_and_type(label, scheme, i)
        if start >= 0 and (tag in _OUTSIDE or tag in _FIRST or kind != current):
            found.append((current, start, i))
            start = -1
        if start < 0 and tag not in _OUTSIDE:
            start, current = i, kind
        if tag in _LAST:
            found.append((current, start, i + 1))
            start = -1
    if start >= 0:
        found.append((current, start, len(labels)))
    return _written_so(found, labels, _WRITTEN[scheme]) if strict else found


def _written_so(
    found: list[tuple[str, int, int]], labels: Sequence[str], pattern: str
) -> list[tuple[str, int, int]]:
    """The spans whose tags, with the marks of neighbors of the same type, match the pattern."""
    ends = {(kind, stop) for kind, _, stop in found}
    starts = {(kind, start) for kind, start, _ in found}
    kept = []
    for kind, start, stop in found:
        tags = "".join(label[0] for label in labels[start:stop])
        before, after = ">" * ((kind, start) in ends), "<" * ((kind, stop) in starts)
        if re.fullmatch(pattern, before + tags + after):
            kept.append((kind, start, stop))
    return kept


def _tag_and_type(label: str, scheme: str, position: int) -> tuple[str, str]:
    if not isinstance(label, str):
        raise TypeError(
            f"Spans are marked by strings such as 'B-NP', got the label {shown(label)} at "
            f"position {position} of a sequence."
        )
    tag, _, kind = label.partition("-")  # a type may contain hyphens
    if len(tag) != 1 or tag not in _SCHEMES[scheme]:
        raise ValueError(
            f"The label {shown(label)} at position {position} of a sequence is not in scheme "
            f"{scheme!r}: the tag before its first hyphen must be one of "
            f"{list(_SCHEMES[scheme])}. The schemes are {list(_SCHEMES)}."
        )
    return tag, kind


def segments(labels: Sequence[str], scheme: str = "IOB2") -> list[tuple[str, int, int]]:
    """Segments that cover a sequence: the spans that its labels mark, and tokens between them.

    :class:`~sklearn_bundle.models.Segments` learns from them. Each token outside of spans is a
    segment of its own, with its label, as in [1]_.

    Parameters
    ----------
    labels : sequence of str
        Labels of one sequence.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "BILOU", "brackets"}, \
            default="IOB2"
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
        if kind in _OUTSIDE:
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
        kind = f"-{label}" if label else ""
        inside = [label if label in _OUTSIDE else f"I{kind}"] * (stop - start)
        labels += inside if label in _OUTSIDE else [f"B{kind}", *inside[1:]]
    return labels
