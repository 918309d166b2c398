"""Folds of cross-validation, and scores of models on their test parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.metrics import brier_score_loss, check_scoring
from sklearn.model_selection import check_cv

from sklearn_bundle.core.validation import num_samples, rows_of
from sklearn_bundle.core.values import as_float, shown

# Scorers whose metric takes ``labels``, and fails without them where a test part lacks a class.
_LABELED = ["neg_log_loss", "d2_log_loss_score", "d2_brier_score", "top_k_accuracy"]
if "labels" in signature(brier_score_loss).parameters:  # since scikit-learn 1.7
    _LABELED.append("neg_brier_score")
# Parts of the names of scikit-learn's scorers that need probabilities.
_OF_PROBABILITIES = "log_loss", "brier", "_ovr", "_ovo"
# What a classifier says of a class that it has not seen, as in cross_val_predict.
_LEAST = float(np.finfo(float).min)
_UNSEEN = {"predict_proba": 0.0, "predict_log_proba": _LEAST, "decision_function": _LEAST}

Fold = tuple[np.ndarray, np.ndarray]  # training rows, test rows


def folds_among(
    cv: Any, X: Any, y: Any, kept: np.ndarray, classifier: bool, metadata: dict[str, Any]
) -> list[Fold]:
    """Training and test part of every fold, as numbers of kept rows.

    None and an integer split only the kept rows. The caller's own splitters get all rows, and the
    metadata.
    """
    n = num_samples(X)
    if cv is None or isinstance(cv, Integral):
        if len(kept) < n:
            X, y = (rows_of(array, kept) for array in (X, y))
        return splits(cv, X, y, classifier)
    place = np.full(n, -1)
    place[kept] = np.arange(len(kept))
    folds = splits(cv, X, y, classifier, **metadata)
    places = [[place[np.arange(n)[part]] for part in fold] for fold in folds]
    return [(train[train >= 0], test[test >= 0]) for train, test in places]


def splits(
    cv: Any, X: Any, y: Any, classifier: bool, **metadata: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of each fold, from scikit-learn's reading of ``cv``.

    The metadata are for its ``split``. With None, classifiers have fewer than five folds if no
    class has five rows, where scikit-learn gives up.
    """
    # 5 folds by default, as in scikit-learn
    n_folds = _largest_class(y, 5) if cv is None and classifier else cv
    folds = check_cv(n_folds, y, classifier=classifier)
    if (
        cv is None
        or isinstance(cv, Integral)
        or (hasattr(cv, "split") and not isinstance(cv, str | bytes))
    ):
        return list(folds.split(X, y, **metadata))
    try:
        pairs = [
            (np.asarray(train), np.asarray(test)) for train, test in folds.split(X, y, **metadata)
        ]
    except (TypeError, ValueError):
        pairs = []
    if not pairs or any(part.dtype.kind not in "iub" for pair in pairs for part in pair):
        raise ValueError(
            "cv must be a number of folds, a generator of them, or an iterable of pairs (training "
            f"rows, test rows), got {shown(cv)}."
        )
    n = num_samples(X)
    for part in (part for pair in pairs for part in pair):
        if not _are_rows(part, n):
            raise ValueError(
                f"The folds of cv must be numbers of the {n} rows of X, from 0 to {n - 1}, or "
                f"masks of {n} entries, got {shown(part)}."
            )
    return pairs


def _largest_class(y: Any, most: int) -> int:
    """The number of rows in the largest class, from 2 to ``most``."""
    counts = np.unique(np.asarray(y), return_counts=True)[1]
    return max(2, min(most, int(counts.max(initial=0))))


def _are_rows(part: np.ndarray, n: int) -> bool:
    """Whether these are numbers of some of n rows, or a mask of all."""
    if part.dtype.kind == "b":
        return part.shape == (n,)
    return part.ndim == 1 and part.size > 0 and -n <= part.min() <= part.max() < n


def checked_scorer(estimator: Any, scoring: Any) -> Any:
    """scikit-learn's scorer, if the estimator has the probabilities that its name asks for."""
    scorer = check_scoring(estimator, scoring)
    named = isinstance(scoring, str) and any(part in scoring for part in _OF_PROBABILITIES)
    if named and not hasattr(estimator, "predict_proba"):
        loss = getattr(estimator, "loss", None)
        of_loss = "" if loss is None else f" with loss={shown(loss)}"
        raise ValueError(
            f"scoring={shown(scoring)} needs predict_proba, which {type(estimator).__name__}"
            f"{of_loss} does not have."
        )
    return scorer


def score_of(
    scorer: Callable[..., Any],
    scoring: Any,
    classes: NDArray[Any] | None,
    model: Any,
    X: Any,
    y: Any,
    weights: NDArray | None,
) -> float:
    """The score of a model on a test part, of all classes even where a part lacks some.

    Weights count unless ``scoring`` is a callable.
    """
    given = {} if weights is None or callable(scoring) else {"sample_weight": weights}
    if classes is not None and len(model.classes_) < len(classes):
        model = _OfAllClasses(model, classes)
    if scoring not in _LABELED:
        return checked_score(scorer(model, X, y, **given))
    with config_context(enable_metadata_routing=True):  # a scorer takes ``labels`` only then
        return checked_score(scorer(model, X, y, labels=classes, **given))


def checked_score(score: Any) -> float:
    """The result of a scorer, as a number."""
    number = as_float(score.item() if isinstance(score, np.ndarray) and score.size == 1 else score)
    if not isinstance(number, float):
        raise ValueError(f"scoring must return a number, got {shown(score)}.")
    return number


class _OfAllClasses:
    """A fitted classifier with columns also for the classes that its training part lacks."""

    def __init__(self, model: Any, classes: NDArray[Any]) -> None:
        self._model, self.classes_ = model, classes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._model, name)
        if name not in _UNSEEN:
            return method
        return wraps(method)(lambda X: self._columns(method(X), _UNSEEN[name]))

    def _columns(self, known: NDArray, unseen: float) -> NDArray[np.float64]:
        columns = np.full((len(known), len(self.classes_)), unseen)
        two = np.column_stack([-known, known]) if known.ndim == 1 else known
        columns[:, np.searchsorted(self.classes_, self._model.classes_)] = two
        return columns
