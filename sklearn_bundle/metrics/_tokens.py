"""Accuracy of tokens and of whole sequences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import make_scorer

from sklearn_bundle.metrics._label_sequences import check_label_sequences


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
    y_true, y_pred, weights = check_label_sequences(
        y_true, y_pred, sample_weight, single_labels=True
    )
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
    y_true, y_pred, weights = check_label_sequences(
        y_true, y_pred, sample_weight, single_labels=True
    )
    lengths = np.array([len(labels) for labels in y_true])
    return float(np.average(_agreements(y_true, y_pred) == lengths, weights=weights))


token_accuracy_scorer = make_scorer(token_accuracy_score)
sequence_accuracy_scorer = make_scorer(sequence_accuracy_score)


def _agreements(y_true: list[list[Any]], y_pred: list[list[Any]]) -> NDArray[np.int64]:
    """Number of right labels of each sequence."""
    pairs = zip(y_true, y_pred, strict=True)
    return np.array([sum(a == b for a, b in zip(t, p, strict=True)) for t, p in pairs])
