"""Scores of a search: of many models at once, and those that losses are for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
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
from sklearn_bundle.linear.estimators.formulation import loss_of
from sklearn_bundle.linear.losses import ROCAUC, AbsoluteError, FBeta, Loss, Poisson, Quantile

_SCORES = 1 << 18  # per step of rows and models: 2 MB, which stay in cache
_FEWEST_MODELS = 16  # lower limit on models per step, since X must not be read too often
LossScorer = Callable[..., float]  # (model, X, y, sample_weight=None) -> score, larger is better


def default_scores(
    models: Iterable[Any], X: Any, y: Any, weights: NDArray[np.float64] | None
) -> Iterator[float]:
    """The results of ``score`` of each model: R^2 or the accuracy.

    For several targets, and targets for which scikit-learn's formulas have exceptions, it calls
    ``score`` of each model.
    """
    models = iter(models)
    first = next(models, None)
    if first is None:
        return
    y = np.asarray(y)
    held_out = weights if weights is not None else np.ones(len(y))
    loss, labels = loss_of(first), is_classifier(first)
    denominator = _denominator(y, held_out, labels)
    data = check_prediction_data(first, X)
    n_outputs = np.size(first.intercept_)
    fewest = -(-_FEWEST_MODELS // n_outputs)
    width = max(_SCORES // max(len(y) * n_outputs, 1), fewest)
    models = chain([first], models)
    while part := list(islice(models, width)):
        if not denominator > 0.0 or (n_outputs != 1 and not labels):
            yield from (model.score(X, y, weights) for model in part)
            continue
        coefs = np.concatenate([model.coef_.reshape(n_outputs, -1) for model in part])
        products = np.ascontiguousarray(safe_sparse_dot(data, coefs.T, dense_output=True).T)
        for model, scores in zip(part, np.split(products, len(part)), strict=True):
            scores += np.reshape(model.intercept_, (n_outputs, 1))
            if labels:
                best = scores.argmax(axis=0) if n_outputs > 1 else (scores[0] > 0.0).astype(np.intp)
                hits = model.classes_[best] == y
                yield float(held_out @ hits) / denominator
            else:
                errors = y - loss.mean(scores[0])
                yield 1.0 - float((held_out * errors) @ errors) / denominator


def _denominator(y: NDArray, weights: NDArray[np.float64], labels: bool) -> float:
    """Denominator of the accuracy or of R^2; 0 if undefined."""
    total = float(weights.sum())
    if y.ndim != 1 or not total > 0.0:
        return 0.0
    if labels:
        return total
    if len(y) < 2:
        return 0.0
    apart = y - float(weights @ y) / total
    return float((weights * apart) @ apart)


def loss_scorer(loss: Loss) -> LossScorer | None:
    """The default score of a search; None means the estimator's own ``score``."""
    make = _SCORERS.get(type(loss))
    return None if make is None else make(loss)


def _deviance(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean over the targets; exp(f) may round to 0, where the deviance is undefined."""
    means = np.maximum(model.predict(X), np.finfo(np.float64).tiny)
    counts = np.asarray(y, dtype=np.float64)
    targets = zip(counts.reshape(len(counts), -1).T, means.reshape(len(means), -1).T, strict=True)
    return float(np.mean([_d2_of_counts(t, p, sample_weight) for t, p in targets]))


def _d2_of_counts(counts: NDArray, means: NDArray, weights: ArrayLike | None) -> float:
    """0 if all counts are equal, as with R^2: there is no deviance to explain."""
    if np.ptp(counts) == 0.0:
        return 0.0
    return d2_tweedie_score(counts, means, sample_weight=weights, power=1)


def _fbeta(beta: float) -> LossScorer:
    def score(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        if len(model.classes_) > 2:
            return model.score(X, y, sample_weight)
        return fbeta_score(
            y,
            model.predict(X),
            beta=beta,
            pos_label=model.classes_[1],
            sample_weight=sample_weight,
            zero_division=0.0,
        )

    return score


def _auc(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    if len(model.classes_) > 2:
        return model.score(X, y, sample_weight)
    positive = np.asarray(y) == model.classes_[1]
    return roc_auc_score(positive, model.decision_function(X), sample_weight=sample_weight)


_SCORERS: dict[type[Loss], Callable[[Any], LossScorer]] = {
    AbsoluteError: lambda _: make_scorer(d2_pinball_score, alpha=0.5),
    Quantile: lambda loss: make_scorer(d2_pinball_score, alpha=loss.quantile),
    Poisson: lambda _: _deviance,
    FBeta: lambda loss: _fbeta(loss.beta),
    ROCAUC: lambda _: _auc,
}
