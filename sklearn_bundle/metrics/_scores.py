"""Scores of label sequences: tokens, whole sequences, and spans counted like conlleval."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import (
    classification_report,
    f1_score,
    make_scorer,
    precision_recall_fscore_support,
)

from sklearn_bundle.core.parameters import Interval, checked_parameters
from sklearn_bundle.core.validation import check_sample_weight
from sklearn_bundle.core.values import shown
from sklearn_bundle.metrics._spans import spans

# As scikit-learn's, None for one number per type.
_AVERAGES = ("micro", "macro", "weighted", None)
_DIVISIONS = "warn", 0.0, 1.0  # or NaN
_ALLOWED = {"beta": [Interval(Real, 0, None, closed="left")]}


def token_accuracy_score(
    y_true: Iterable[Any], y_pred: Iterable[Any], *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of the tokens whose label is right.

    This is the accuracy that conlleval prints [1]_.

    Parameters
    ----------
    y_true, y_pred : array-like of labels, or list of sequences of labels
        Single labels are sequences of length one. A tuple is a sequence; it is a label only within
        a sequence.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, which counts for each of its tokens.

    Returns
    -------
    score : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        For no sequence or no token, sequences that differ in number or length, or weights that are
        negative, not finite or all zero.
    TypeError
        For a y_true or y_pred that is not a list or array.

    See Also
    --------
    sequence_accuracy_score : Accuracy of whole sequences.
    sklearn.metrics.accuracy_score : The same for single labels.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task: chunking.
       Proceedings of CoNLL-2000, 127-132; with the script conlleval.

    Examples
    --------
    >>> from sklearn_bundle.metrics import token_accuracy_score
    >>> token_accuracy_score([["B-NP", "I-NP", "O"], ["O"]], [["B-NP", "O", "O"], ["O"]])
    0.75
    """
    y_true, y_pred, weights = _checked(y_true, y_pred, sample_weight)
    lengths = np.array([len(labels) for labels in y_true])
    if not weights @ lengths:
        raise ValueError("There is no token (with a positive weight) in y_true.")
    return float(weights @ _agreements(y_true, y_pred) / (weights @ lengths))


def sequence_accuracy_score(
    y_true: Iterable[Any], y_pred: Iterable[Any], *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of the sequences whose labels are all right.

    Parameters
    ----------
    y_true, y_pred : array-like of labels, or list of sequences of labels
        As in :func:`token_accuracy_score`.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence.

    Returns
    -------
    score : float
        Between 0 and 1.

    Raises
    ------
    ValueError
        For no sequence, sequences that differ in number or length, or weights that are negative,
        not finite or all zero.
    TypeError
        For a y_true or y_pred that is not a list or array.

    See Also
    --------
    token_accuracy_score : Accuracy of single labels.
    sklearn.metrics.accuracy_score : Accuracy of labels outside of sequences.

    Examples
    --------
    >>> from sklearn_bundle.metrics import sequence_accuracy_score
    >>> sequence_accuracy_score([["B-NP", "I-NP", "O"], ["O"]], [["B-NP", "O", "O"], ["O"]])
    0.5
    """
    y_true, y_pred, weights = _checked(y_true, y_pred, sample_weight)
    lengths = np.array([len(labels) for labels in y_true])
    return float(np.average(_agreements(y_true, y_pred) == lengths, weights=weights))


def _agreements(y_true: list[list[Any]], y_pred: list[list[Any]]) -> NDArray[np.int64]:
    """Number of right labels of each sequence."""
    pairs = zip(y_true, y_pred, strict=True)
    return np.array([sum(a == b for a, b in zip(t, p, strict=True)) for t, p in pairs])


def _flat_f1(
    y_true: Iterable[Any], y_pred: Iterable[Any], *, sample_weight: ArrayLike | None = None
) -> float:
    """F1 of the labels of all tokens together, weighted by their frequency."""
    y_true, y_pred, weights = _checked(y_true, y_pred, sample_weight)
    flat = (list(chain.from_iterable(y)) for y in (y_true, y_pred))
    of_tokens = np.repeat(weights, [len(labels) for labels in y_true])
    return f1_score(*flat, average="weighted", sample_weight=of_tokens, zero_division=0.0)


def span_precision_recall_fscore_support(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str = "IOB2",
    strict: bool = False,
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
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "BILOU", "brackets"}, \
            default="IOB2"
        Tags of the labels, as in :func:`spans`.
    strict : bool, default=False
        Whether spans count only if they are written as in the scheme, as in :func:`spans`.
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
    (beta,) = checked_parameters("span_precision_recall_fscore_support", _ALLOWED, beta=beta)
    is_nan = isinstance(zero_division, Real) and zero_division != zero_division
    known = isinstance(zero_division, str | Real) and zero_division in _DIVISIONS
    if not (is_nan or known):
        raise ValueError(
            "The 'zero_division' parameter of span_precision_recall_fscore_support must be a float "
            f"among {{0.0, 1.0, nan}} or 'warn'. Got {shown(zero_division)} instead."
        )
    types, items, weights = _items(y_true, y_pred, scheme, strict, labels, sample_weight)
    if not types and average is None:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    scores = precision_recall_fscore_support(
        *items,
        beta=beta,
        labels=range(max(len(types), 1)),
        average=average,
        sample_weight=weights,
        zero_division=zero_division,
    )
    return scores[0], scores[1], scores[2], scores[3]


def _items(
    y_true: Any, y_pred: Any, scheme: str, strict: bool, labels: Any, sample_weight: Any
) -> tuple[list[str], Any, Any]:
    """Types; true and predicted places in them, of all spans; weights of the spans, or None.

    So scikit-learn divides and averages. A span that one side lacks has the last place there. One
    item of no type keeps the table from being empty.
    """
    types = None if labels is None else _strings(labels)
    y_true, y_pred, weights = _checked(y_true, y_pred, sample_weight, single_labels=False)
    counts = _counts(y_true, y_pred, weights, scheme, strict)
    if types is None:
        types = sorted({kind for pair in counts for kind in pair if kind is not None})
    none = max(len(types), 1)
    place = {kind: k for k, kind in enumerate(types)}
    table = [(place.get(a, none), place.get(b, none)) for a, b in counts]
    items, numbers = np.array([*table, (none, none)]).T, np.array([*counts.values(), 1.0])
    if sample_weight is None:
        return types, np.repeat(items, numbers.astype(np.int64), axis=1), None
    return types, items, numbers


def _strings(labels: Any) -> list[str]:
    """Types of span, as a list."""
    listed = isinstance(labels, Iterable) and not isinstance(labels, str | bytes | Mapping)
    named: list[Any] = list(labels) if listed else [None]
    if not all(isinstance(label, str) for label in named):
        raise ValueError(f"labels must be a sequence of strings or None, got {shown(labels)}.")
    return named


def _counts(
    y_true: list, y_pred: list, weights: NDArray[np.float64], scheme: str, strict: bool
) -> Counter:
    """Weighted numbers of spans by true and predicted type, None if missed or invented."""
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for true, predicted, weight in zip(y_true, y_pred, weights.tolist(), strict=True):
        expected, found = (set(spans(y, scheme, strict=strict)) for y in (true, predicted))
        for span in expected | found if weight else ():
            true_type, found_type = (span[0] if span in s else None for s in (expected, found))
            counts[true_type, found_type] += weight
    return counts


def span_f1_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str = "IOB2",
    strict: bool = False,
    labels: Sequence[str] | None = None,
    average: str | None = "micro",
    sample_weight: ArrayLike | None = None,
    zero_division: float | str = 0.0,
) -> Any:
    """F1 of the spans (FB1 in conlleval): harmonic mean of precision and recall.

    Counted like the script conlleval, which was published with [1]_.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        True and predicted labels.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "BILOU", "brackets"}, \
            default="IOB2"
        Tags of the labels, as in :func:`spans`.
    strict : bool, default=False
        Whether spans count only if they are written as in the scheme, as in :func:`spans`.
    labels : sequence of str, default=None
        Types of span that count; None means all that occur in y_true or y_pred, sorted.
    average : {"micro", "macro", "weighted"} or None, default="micro"
        As in :func:`span_precision_recall_fscore_support`.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, which counts for each of its spans.
    zero_division : {0.0, 1.0, np.nan, "warn"}, default=0.0
        Value of 0 / 0.

    Returns
    -------
    f1 : float, or ndarray of shape (n_types,)
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
    ``span_f1_scorer`` is a scorer for ``GridSearchCV(scoring=...)`` with the defaults; for
    other parameters use ``sklearn.metrics.make_scorer(span_f1_score, scheme="BIOES",
    average="macro")``.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz: Introduction to the CoNLL-2000 shared task:
       chunking. Proceedings of CoNLL-2000, 127-132; with the script conlleval.

    Examples
    --------
    >>> from sklearn_bundle.metrics import span_f1_score
    >>> span_f1_score([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "O", "O"]])
    0.6666666666666666
    """
    scores = span_precision_recall_fscore_support(
        y_true,
        y_pred,
        scheme=scheme,
        strict=strict,
        labels=labels,
        average=average,
        sample_weight=sample_weight,
        zero_division=zero_division,
    )
    return scores[2]


def span_classification_report(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str = "IOB2",
    strict: bool = False,
    labels: Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float | str = 0.0,
) -> Any:
    """Precision, recall, F1 and number of spans of each type, with their averages.

    The table is that of :func:`sklearn.metrics.classification_report`, with spans as its items.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
        True and predicted labels.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "IOBES", "BILOU", "brackets"}, \
            default="IOB2"
        Tags of the labels, as in :func:`spans`.
    strict : bool, default=False
        Whether spans count only if they are written as in the scheme, as in :func:`spans`.
    labels : sequence of str, default=None
        Types of span that count, in the order of the rows; None means all that occur in y_true or
        y_pred, sorted.
    sample_weight : array-like of shape (n_sequences,), default=None
        One weight per sequence, which counts for each of its spans.
    digits : int, default=2
        Decimals of the scores in the text.
    output_dict : bool, default=False
        Whether to return a dictionary in place of a text.
    zero_division : {0.0, 1.0, np.nan, "warn"}, default=0.0
        Value of 0 / 0.

    Returns
    -------
    report : str or dict
        A row per type, then the averages: "micro avg" counts over all types, like the overall
        result of conlleval; "macro avg" is the mean over the types; "weighted avg" weights them by
        their number of true spans. The dictionary has one of "precision", "recall", "f1-score" and
        "support" for each row.

    Raises
    ------
    ValueError, TypeError
        As for :func:`span_precision_recall_fscore_support`; also where no span occurs.

    See Also
    --------
    span_precision_recall_fscore_support : The same numbers as arrays.

    Examples
    --------
    >>> from sklearn_bundle.metrics import span_classification_report
    >>> y_true = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP"]]
    >>> y_pred = [["B-NP", "B-NP", "B-VP", "O"], ["I-NP"]]
    >>> print(span_classification_report(y_true, y_pred, strict=True))
                  precision    recall  f1-score   support
    <BLANKLINE>
              NP       0.00      0.00      0.00         2
              VP       1.00      1.00      1.00         1
    <BLANKLINE>
       micro avg       0.33      0.33      0.33         3
       macro avg       0.50      0.50      0.50         3
    weighted avg       0.33      0.33      0.33         3
    <BLANKLINE>
    """
    types, items, weights = _items(y_true, y_pred, scheme, strict, labels, sample_weight)
    if not types:
        raise ValueError("There is no span in y_true and y_pred, so there is nothing to report.")
    return classification_report(
        *items,
        labels=range(len(types)),
        target_names=types,
        sample_weight=weights,
        digits=digits,
        output_dict=output_dict,
        zero_division=zero_division,
    )


token_accuracy_scorer = make_scorer(token_accuracy_score)
sequence_accuracy_scorer = make_scorer(sequence_accuracy_score)
flat_f1_scorer = make_scorer(_flat_f1)
span_f1_scorer = make_scorer(span_f1_score)


# ---- the shape of y_true and y_pred -----------------------------------------------------------


def _checked(
    y_true: Any, y_pred: Any, sample_weight: Any, *, single_labels: bool = True
) -> tuple[list[list[Any]], list[list[Any]], NDArray[np.float64]]:
    """Lists of lists of labels, of equal lengths, and one weight per sequence.

    ``single_labels``: whether single labels are accepted as sequences of length one.
    """
    y_true, plain_true = _as_lists("y_true", y_true)
    y_pred, plain_pred = _as_lists("y_pred", y_pred)
    if plain_true != plain_pred or (plain_true and not single_labels):
        name, other = ("y_true", "y_pred") if plain_true else ("y_pred", "y_true")
        advice = f"{other} sequences of labels" if single_labels else "spans are of sequences"
        raise ValueError(
            f"{name} holds single labels, but {advice}. Put one sequence into a list: [y]."
        )
    if len(y_true) != len(y_pred):
        raise ValueError(f"y_true has {len(y_true)} sequences and y_pred {len(y_pred)}.")
    if not y_true:
        raise ValueError("There is no sequence in y_true.")
    for i, (true, predicted) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(true) != len(predicted):
            raise ValueError(
                f"Sequence {i} has {len(true)} labels in y_true and {len(predicted)} in y_pred."
            )
    return y_true, y_pred, check_sample_weight(sample_weight, len(y_true))


def _as_lists(name: str, y: Any) -> tuple[list[list[Any]], bool]:
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
