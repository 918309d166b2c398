"""Precision, recall and F of the spans that labels mark, counted like conlleval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import make_scorer, precision_recall_fscore_support

from sklearn_bundle.core.parameters import checked_parameters
from sklearn_bundle.core.sklearn_internals import Interval, Options, StrOptions
from sklearn_bundle.core.values import shown
from sklearn_bundle.metrics._label_sequences import SpanFinder, check_label_sequences

# As scikit-learn's, None for one number per type.
_AVERAGES = ("micro", "macro", "weighted", None)
_ALLOWED = {
    "beta": [Interval(Real, 0, None, closed="both")],
    "zero_division": [Options(Real, {0.0, 1.0}), "nan", StrOptions({"warn"})],
}


def spans(labels: Sequence[str], scheme: str = "IOB2") -> list[tuple[str, int, int]]:
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
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "brackets"}, default="IOB2"
        The allowed tags; any other tag is an error. Their meaning does not depend on the scheme, so
        IOB1 and IOB2 count alike:

        ======================  ====================================================
        "O", "."                outside
        "B"                     the first token of a span
        "I"                     inside, or the first after an outside tag or another type
        "E"                     the last token of a span
        "S", "[", "]"           a span of one token
        ======================  ====================================================

        IOB1 and IOB2 have the tags I, O and B; IOE1 and IOE2 have I, O and E; BIOES (or IOBES) has
        all five; "brackets" has O, ".", "[" and "]".

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
    """
    finder = SpanFinder(scheme)
    if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
        what = "one string: " if isinstance(labels, str) else ""
        raise TypeError(f"labels must be a sequence of strings, got {what}{shown(labels)}.")
    return finder(labels)


def span_precision_recall_fscore_support(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str = "IOB2",
    beta: float = 1.0,
    labels: Sequence[str] | None = None,
    average: str | None = "micro",
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = 0.0,
) -> tuple[Any, Any, Any, Any]:
    """Precision, recall, F-score and number of spans, counted like conlleval.

    A predicted span is right if a true one has the same type, start and end. Precision is the
    fraction of the predicted spans that are right, recall the fraction of the true spans that are
    found, and the F-score their (weighted) harmonic mean.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        True and predicted labels.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "brackets"}, default="IOB2"
        Tags of the labels, as in :func:`spans`.
    beta : float, default=1.0
        Weight of recall against precision in the F-score.
    labels : sequence of str, default=None
        Types of span that count, in the order of the result with ``average=None``; None means
        all that occur in y_true or y_pred, sorted.
    average : {"micro", "macro", "weighted"} or None, default="micro"
        "micro" counts over all types, like the overall result of conlleval; "macro" is the mean
        over the types; "weighted" weights them by their number of true spans; None gives an array
        with one entry per type.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, which counts for each of its spans.
    zero_division : {0.0, 1.0, np.nan, "warn"}, default=0.0
        Value of 0 / 0, as in :func:`sklearn.metrics.precision_recall_fscore_support`.

    Returns
    -------
    precision : float, or ndarray of shape (n_types,)
        Between 0 and 1; an array with ``average=None``.
    recall : float, or ndarray of shape (n_types,)
        Between 0 and 1.
    fscore : float, or ndarray of shape (n_types,)
        Between 0 and 1.
    support : None, or ndarray of shape (n_types,)
        True spans of each type, with ``average=None``.

    Raises
    ------
    ValueError
        For no sequence, sequences that differ in number or length, labels that do not belong to the
        scheme, weights that are negative, not finite or all zero, and invalid parameters.
    TypeError
        For labels that are not strings, and a y_true or y_pred that is not a list.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task: chunking.
       Proceedings of CoNLL-2000, 127-132; with the script conlleval.

    Examples
    --------
    >>> from sklearn_bundle.metrics import span_precision_recall_fscore_support
    >>> y_true = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP"]]
    >>> y_pred = [["B-NP", "B-NP", "B-VP", "O"], ["I-NP"]]
    >>> precision, recall, f1, _ = span_precision_recall_fscore_support(y_true, y_pred)
    >>> print(f"{precision:.3f} {recall:.3f} {f1:.3f}")
    0.500 0.667 0.571
    >>> span_precision_recall_fscore_support(y_true, y_pred, average=None)[3]  # NP, VP
    array([2, 1])
    """
    if not any(average is known or average == known for known in _AVERAGES):
        raise ValueError(f"average must be one of {_AVERAGES}, got {shown(average)}.")
    beta, zero_division = checked_parameters(
        "span_precision_recall_fscore_support", _ALLOWED, beta=beta, zero_division=zero_division
    )
    types = None if labels is None else _strings(labels)
    finder = SpanFinder(scheme)
    y_true, y_pred, weights = check_label_sequences(
        y_true, y_pred, sample_weight, single_labels=False
    )
    counts = _count(y_true, y_pred, weights, finder)
    if types is None:
        types = sorted({kind for kind, _ in counts})
    if not types and average is None:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)

    # scikit-learn divides and averages. A missed or invented span is paired with "none"; the row
    # (none, none) counts for no type and keeps the table from being empty.
    none = max(len(types), 1)
    true, predicted, number = [none], [none], [1.0]
    for k, kind in enumerate(types):
        for outcome, pair in (("right", (k, k)), ("missed", (k, none)), ("invented", (none, k))):
            true.append(pair[0])
            predicted.append(pair[1])
            number.append(counts[kind, outcome])
    *scores, support = precision_recall_fscore_support(
        true,
        predicted,
        beta=beta,
        labels=range(none),
        average=average,
        sample_weight=number,
        zero_division=zero_division,
    )
    if support is not None and sample_weight is None:
        support = np.rint(support).astype(np.int64)
    return *scores, support


def _one_score(position: int, name: str, summary: str, example: str) -> Callable:
    """Make a function of one of the scores."""

    def span_score(
        y_true: Iterable[Any],
        y_pred: Iterable[Any],
        *,
        scheme: str = "IOB2",
        labels: Sequence[str] | None = None,
        average: str | None = "micro",
        sample_weight: ArrayLike | None = None,
        zero_division: float | str = 0.0,
    ) -> Any:
        """{summary}

        Counted like the script conlleval, which was published with [1]_.

        Parameters
        ----------
        y_true, y_pred : list of sequences of str
            True and predicted labels.
        scheme : {{"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "brackets"}}, default="IOB2"
            Tags of the labels, as in :func:`spans`.
        labels : sequence of str, default=None
            Types of span that count; None means all that occur in y_true or y_pred, sorted.
        average : {{"micro", "macro", "weighted"}} or None, default="micro"
            As in :func:`span_precision_recall_fscore_support`.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, which counts for each of its spans.
        zero_division : {{0.0, 1.0, np.nan, "warn"}}, default=0.0
            Value of 0 / 0.

        Returns
        -------
        {name} : float, or ndarray of shape (n_types,)
            Between 0 and 1; an array with ``average=None``.

        Raises
        ------
        ValueError, TypeError
            As for :func:`span_precision_recall_fscore_support`.

        See Also
        --------
        span_precision_recall_fscore_support : All of them at once, with the definition.

        Notes
        -----
        ``span_{name}_scorer`` is a scorer for ``GridSearchCV(scoring=...)`` with the defaults; for
        other parameters use ``sklearn.metrics.make_scorer(span_{name}_score, scheme="BIOES",
        average="macro")``.

        References
        ----------
        .. [1] E. F. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task:
           chunking. Proceedings of CoNLL-2000, 127-132; with the script conlleval.

        Examples
        --------
        >>> from sklearn_bundle.metrics import span_{name}_score
        >>> span_{name}_score([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "O", "O"]])
        {example}
        """
        return span_precision_recall_fscore_support(
            y_true,
            y_pred,
            scheme=scheme,
            labels=labels,
            average=average,
            sample_weight=sample_weight,
            zero_division=zero_division,
        )[position]

    span_score.__name__ = span_score.__qualname__ = f"span_{name}_score"
    text = span_score.__doc__ or ""
    span_score.__doc__ = text.format(name=name, summary=summary, example=example)
    return span_score


span_precision_score = _one_score(
    0, "precision", "Fraction of the predicted spans that are right.", "1.0"
)
span_recall_score = _one_score(1, "recall", "Fraction of the true spans that are found.", "0.5")
span_f1_score = _one_score(
    2,
    "f1",
    "F1 of the spans (FB1 in conlleval): harmonic mean of precision and recall.",
    "0.6666666666666666",
)
span_precision_scorer = make_scorer(span_precision_score)
span_recall_scorer = make_scorer(span_recall_score)
span_f1_scorer = make_scorer(span_f1_score)


def _strings(labels: Any) -> list[str]:
    """Types of span, as a list."""
    sequence = not isinstance(labels, str | bytes | Mapping) and hasattr(labels, "__iter__")
    named: list[Any] = list(labels) if sequence else []
    if not sequence or not all(isinstance(label, str) for label in named):
        raise ValueError(f"labels must be a sequence of strings or None, got {shown(labels)}.")
    return named


def _count(
    y_true: list[list[Any]], y_pred: list[list[Any]], weights, finder: SpanFinder
) -> Counter:
    """(type, "right", "missed" or "invented") -> weighted count."""
    counts: Counter[Any] = Counter()
    for true, predicted, weight in zip(y_true, y_pred, weights.tolist(), strict=True):
        expected, found = set(finder(true)), set(finder(predicted))
        if weight:
            for outcome, group in (
                ("right", expected & found),
                ("missed", expected - found),
                ("invented", found - expected),
            ):
                for kind, _, _ in group:
                    counts[kind, outcome] += weight
    return counts
