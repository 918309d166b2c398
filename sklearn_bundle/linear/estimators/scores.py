"""Scores of a search: of many models at once, and those that losses are for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import (
    d2_pinball_score,
    d2_tweedie_score,
    fbeta_score,
    make_scorer,
    roc_auc_score,
)
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.validation import check_prediction_data
from sklearn_bundle.linear.estimators.fitting import loss_of
from sklearn_bundle.linear.losses import ROCAUC, AbsoluteError, FBeta, Loss, Poisson, Quantile

LossScorer = Callable[..., float]  # (model, X, y, sample_weight=None) -> score, larger is better


def default_scores(
    models: Iterable[Any], X: Any, y: Any, weights: NDArray[np.float64] | None
) -> Iterator[float]:
    """The results of ``score`` of each model: R^2 or the accuracy.

    For several targets, and targets for which scikit-learn's formulas have exceptions, it calls
    ``score`` of each model.
    """
    y, data = np.asarray(y), None
    held_out = weights if weights is not None else np.ones(len(y))
    for model in models:
        if data is None:
            data, labels = check_prediction_data(model, X), is_classifier(model)
            denominator = _denominator(y, held_out, labels)
        if not denominator > 0.0:
            yield model.score(X, y, weights)
            continue
        scores = safe_sparse_dot(data, model.coef_.T, dense_output=True) + model.intercept_
        if labels:
            several = scores.shape[1] > 1
            best = scores.argmax(axis=1) if several else (scores[:, 0] > 0.0).astype(np.intp)
            yield float(held_out @ (model.classes_[best] == y)) / denominator
        else:
            errors = y - loss_of(model).mean(scores)
            yield 1.0 - float((held_out * errors) @ errors) / denominator


def _denominator(y: NDArray, weights: NDArray[np.float64], labels: bool) -> float:
    """Denominator of the accuracy or of R^2; 0 if undefined."""
    total = float(weights.sum())
    if y.ndim != 1 or not total > 0.0:
        return 0.0
    if labels:
        return total
    apart = y - float(weights @ y) / total
    return float((weights * apart) @ apart)


def loss_scorer(loss: Loss) -> LossScorer | None:
    """The default score of a search; None means the estimator's own ``score``."""
    make = _SCORERS.get(type(loss))
    return None if make is None else make(loss)


def _deviance(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """D^2, in the mean over the targets; 0 where all counts are equal, as with R^2."""
    means = np.maximum(model.predict(X), np.finfo(np.float64).tiny)  # exp(f) may round to 0
    counts = np.asarray(y, dtype=np.float64)
    columns = zip(counts.reshape(len(counts), -1).T, means.reshape(len(means), -1).T, strict=True)
    given = {"sample_weight": sample_weight, "power": 1}
    scores = [d2_tweedie_score(y, m, **given) if np.ptp(y) > 0.0 else 0.0 for y, m in columns]
    return float(np.mean(scores))


def _of_two(score: Callable[..., float]) -> LossScorer:
    """This score of two classes, and the accuracy of more."""

    def scorer(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        of_classes = score if len(model.classes_) == 2 else type(model).score
        return of_classes(model, X, y, sample_weight)

    return scorer


def _fbeta(loss: FBeta) -> LossScorer:
    given = {"beta": loss.beta, "zero_division": 0.0}

    def score(model: Any, X: Any, y: ArrayLike, w: ArrayLike | None) -> float:
        labels = {"pos_label": model.classes_[1], "sample_weight": w}
        return fbeta_score(y, model.predict(X), **given, **labels)

    return _of_two(score)


def _auc(model: Any, X: Any, y: ArrayLike, w: ArrayLike | None) -> float:
    positive = np.asarray(y) == model.classes_[1]
    return roc_auc_score(positive, model.decision_function(X), sample_weight=w)


_SCORERS: dict[type[Loss], Callable[[Any], LossScorer]] = {
    AbsoluteError: lambda _: make_scorer(d2_pinball_score, alpha=0.5),
    Quantile: lambda loss: make_scorer(d2_pinball_score, alpha=loss.quantile),
    Poisson: lambda _: _deviance,
    FBeta: _fbeta,
    ROCAUC: lambda _: _of_two(_auc),
}
