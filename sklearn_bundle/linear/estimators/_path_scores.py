"""Default scores of the models of a path on held-out rows, which are read once for many models."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.validation import check_prediction_data
from sklearn_bundle.linear.estimators._bundle import BundleEstimator

_SCORES = 1 << 18  # per step of rows and models: 2 MB, which stay in cache
_FEWEST_MODELS = 16  # lower limit on models per step, since X must not be read too often


def default_scores(
    models: Iterable[BundleEstimator], X: Any, y: Any, weights: NDArray[np.float64] | None
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
    loss, labels = first._loss(), is_classifier(first)
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
