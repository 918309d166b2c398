"""scikit-learn's scores of the labels of all tokens, with the names of sklearn-crfsuite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import metrics

from sklearn_bundle.metrics._label_sequences import check_label_sequences

_DOC = """{summary}

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


def _flat(
    score: Callable, summary: str, example: str, *, params: str = "", returns: str = "score : float"
) -> Callable:
    """Make a score of label sequences from a score of labels."""

    def flat_score(
        y_true: Iterable[Any],
        y_pred: Iterable[Any],
        *,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> Any:
        y_true, y_pred, weights = check_label_sequences(
            y_true, y_pred, sample_weight, single_labels=True
        )
        if sample_weight is not None:
            params["sample_weight"] = np.repeat(weights, list(map(len, y_true)))
        flat = (list(chain.from_iterable(y)) for y in (y_true, y_pred))
        return score(*flat, **params)

    name = score.__name__
    flat_score.__name__ = flat_score.__qualname__ = f"flat_{name}"
    flat_score.__doc__ = _DOC.format(
        summary=summary, name=name, example=example, params=params, returns=returns
    )
    return flat_score


_SEVERAL = ", such as `average` (required with more than two labels) and `labels`"

flat_accuracy_score = _flat(
    metrics.accuracy_score,
    "Fraction of the tokens whose label is right.",
    ">>> flat_accuracy_score(y_true, y_pred)\n    0.5",
)
flat_precision_score = _flat(
    metrics.precision_score,
    "Precision of the labels of tokens.",
    '>>> round(flat_precision_score(y_true, y_pred, average="weighted"), 3)\n    0.5',
    params=_SEVERAL,
)
flat_recall_score = _flat(
    metrics.recall_score,
    "Recall of the labels of tokens.",
    '>>> flat_recall_score(y_true, y_pred, labels=["NN"], average="micro")\n    0.6666666666666666',
    params=_SEVERAL,
)
flat_f1_score = _flat(
    metrics.f1_score,
    "F1 of the labels of tokens.",
    '>>> flat_f1_score(y_true, y_pred, average="weighted")\n    0.5',
    params=_SEVERAL,
)
flat_fbeta_score = _flat(
    metrics.fbeta_score,
    "F-beta of the labels of tokens.",
    '>>> flat_fbeta_score(y_true, y_pred, beta=2.0, average="weighted")\n    0.5',
    params=", of which `beta` is required",
)
flat_classification_report = _flat(
    metrics.classification_report,
    "Precision, recall and F1 of each label, as text or as a dict.",
    '>>> flat_classification_report(y_true, y_pred, output_dict=True)["NN"]["recall"]\n'
    "    0.6666666666666666",
    params=", such as `labels`, `digits` and `output_dict`",
    returns="report : str or dict",
)
flat_f1_scorer = metrics.make_scorer(flat_f1_score, average="weighted", zero_division=0.0)
