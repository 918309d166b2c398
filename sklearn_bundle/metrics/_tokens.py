"""Scores of labels of tokens: accuracies, and those of scikit-learn by their names elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics

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


token_accuracy_scorer = metrics.make_scorer(token_accuracy_score)
sequence_accuracy_scorer = metrics.make_scorer(sequence_accuracy_score)


def _agreements(y_true: list[list[Any]], y_pred: list[list[Any]]) -> NDArray[np.int64]:
    """Number of right labels of each sequence."""
    pairs = zip(y_true, y_pred, strict=True)
    return np.array([sum(a == b for a, b in zip(t, p, strict=True)) for t, p in pairs])


# ---- scores of all tokens together, by scikit-learn ---------------------------------------------


def _flat(
    score: Callable,
    summary: str,
    example: str,
    *,
    params: str = "",
    returns: str = "score : float",
    **defaults: Any,
) -> Callable:
    """Make a score of label sequences from a score of labels, with other defaults."""

    def flat_score(
        y_true: Iterable[Any],
        y_pred: Iterable[Any],
        *,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> Any:
        """{summary}

        Applies :func:`sklearn.metrics.{name}` to the labels of all tokens.

        Parameters
        ----------
        y_true, y_pred : list of sequences of labels, or array-like of labels
            Single labels are sequences of length one.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, which counts for each of its tokens.
        **params : dict
            Further parameters of :func:`sklearn.metrics.{name}`{params}.

        Returns
        -------
        {returns}
            As :func:`sklearn.metrics.{name}` returns it.

        Raises
        ------
        ValueError, TypeError
            As for :func:`token_accuracy_score` and :func:`sklearn.metrics.{name}`.

        See Also
        --------
        sklearn.metrics.{name} : The same for single labels.
        span_f1_score : F1 of the spans that labels such as "B-NP" mark.

        Examples
        --------
        >>> from sklearn_bundle.metrics import flat_{name}
        >>> y_true, y_pred = [["NN", "VB", "NN"], ["NN"]], [["NN", "NN", "NN"], ["VB"]]
        {example}
        """
        y_true, y_pred, weights = check_label_sequences(
            y_true, y_pred, sample_weight, single_labels=True
        )
        if sample_weight is not None:
            params["sample_weight"] = np.repeat(weights, list(map(len, y_true)))
        flat = (list(chain.from_iterable(y)) for y in (y_true, y_pred))
        return score(*flat, **(defaults | params))

    name = score.__name__
    flat_score.__name__ = flat_score.__qualname__ = f"flat_{name}"
    text = flat_score.__doc__ or ""
    flat_score.__doc__ = text.format(
        summary=summary, name=name, example=example, params=params, returns=returns
    )
    return flat_score


_SEVERAL = ', such as `average`, by default "weighted" by the counts of the labels, and `labels`'

flat_accuracy_score = _flat(
    metrics.accuracy_score,
    "Fraction of the tokens whose label is right.",
    ">>> flat_accuracy_score(y_true, y_pred)\n        0.5",
)
flat_precision_score = _flat(
    metrics.precision_score,
    "Precision of the labels of tokens.",
    ">>> round(flat_precision_score(y_true, y_pred), 3)\n        0.5",
    params=_SEVERAL,
    average="weighted",
)
flat_recall_score = _flat(
    metrics.recall_score,
    "Recall of the labels of tokens.",
    '>>> flat_recall_score(y_true, y_pred, labels=["NN"], average="micro")\n'
    "        0.6666666666666666",
    params=_SEVERAL,
    average="weighted",
)
flat_f1_score = _flat(
    metrics.f1_score,
    "F1 of the labels of tokens.",
    ">>> flat_f1_score(y_true, y_pred)\n        0.5",
    params=_SEVERAL,
    average="weighted",
)
flat_fbeta_score = _flat(
    metrics.fbeta_score,
    "F-beta of the labels of tokens.",
    ">>> flat_fbeta_score(y_true, y_pred, beta=2.0)\n        0.5",
    params=f"{_SEVERAL}; `beta` is required",
    average="weighted",
)
flat_classification_report = _flat(
    metrics.classification_report,
    "Precision, recall and F1 of each label, as text or as a dict.",
    '>>> flat_classification_report(y_true, y_pred, output_dict=True)["NN"]["recall"]\n'
    "        0.6666666666666666",
    params=", such as `labels`, `digits` and `output_dict`",
    returns="report : str or dict",
)
flat_f1_scorer = metrics.make_scorer(flat_f1_score, zero_division=0.0)
