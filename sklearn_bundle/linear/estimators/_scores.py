"""Predictions and scores that are not those of one model in memory.

Of dask collections they are lazy; of the models of a path held-out rows are read once for many.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import reduce, wraps
from itertools import chain, islice
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.metrics import (
    d2_pinball_score,
    d2_tweedie_score,
    fbeta_score,
    make_scorer,
    roc_auc_score,
)
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.certainty import extreme_predictions
from sklearn_bundle.core.misread import is_collection, refuse_misread
from sklearn_bundle.core.validation import check_prediction_data
from sklearn_bundle.linear.estimators._block_reading import Moments
from sklearn_bundle.linear.losses import ROCAUC, AbsoluteError, FBeta, Loss, Poisson, Quantile
from sklearn_bundle.linear.rows._dask_rows import aligned, parts_of

_SCORES = 1 << 18  # per step of rows and models: 2 MB, which stay in cache
_FEWEST_MODELS = 16  # lower limit on models per step, since X must not be read too often
LossScorer = Callable[..., float]  # (model, X, y, sample_weight=None) -> score, larger is better
Method = TypeVar("Method", bound=Callable)


def lazily(method: Method) -> Method:
    """A method of X that returns a lazy dask array if X is a dask collection."""

    @wraps(method)
    def either(self: BaseEstimator, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        return _lazy(lambda block: method(self, block, *args, **kwargs), self, X)

    return cast(Method, either)


def _lazy(call: Callable[[Any], np.ndarray], estimator: BaseEstimator, X: Any) -> Any:
    from dask import array
    from dask.delayed import delayed

    check_is_fitted(estimator)
    parts = parts_of("X", X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a row of zeros without names
        like = call(np.zeros((1, estimator.n_features_in_)))
    lengths = parts.lengths or [np.nan] * len(parts.blocks)

    def of_block(block: Any) -> np.ndarray:
        return call(block) if block.shape[0] else like[:0]

    task = delayed(of_block, pure=False)
    return array.concatenate(
        [
            array.from_delayed(task(block), (length, *like.shape[1:]), dtype=like.dtype)
            for block, length in zip(parts.blocks, lengths, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def lazy_accuracy(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """The weighted share of right predictions, as a dask array of shape ()."""

    def sums(block: Any, labels: Any, weights: Any) -> NDArray[np.float64]:
        _check_beside(block, labels, weights, dates=True)
        if not block.shape[0]:
            return np.zeros(2)
        right = predict(block) == np.asarray(labels).ravel()
        weights = np.ones(len(right)) if weights is None else np.asarray(weights)
        return np.array([weights @ right, weights.sum()])

    return _lazy_score(sums, lambda parts: np.divide(*np.sum(parts, axis=0)), X, y, sample_weight)


def lazy_r2(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """R^2 like scikit-learn's, the mean over several targets, as a dask array of shape ()."""

    def moments(block: Any, targets: Any, weights: Any) -> tuple[Moments, Any] | None:
        """Of the targets, and the weighted squares of their distances from the predictions."""
        _check_beside(block, targets, weights)
        targets = np.asarray(targets, dtype=np.float64)
        weights = np.ones(block.shape[0]) if weights is None else np.asarray(weights)
        if not weights.any():
            return None
        missed = targets - predict(block).reshape(targets.shape)
        return Moments.of(targets, weights), weights @ missed.reshape(len(missed), -1) ** 2

    def together(parts: list) -> np.float64:
        parts = [part for part in parts if part is not None]
        if not parts:
            return np.float64(np.nan)
        of_targets, missed = zip(*parts, strict=True)
        squares, missed = reduce(Moments.merged_with, of_targets).squares, np.sum(missed, axis=0)
        constant = np.where(missed > 0.0, 0.0, 1.0)  # as in scikit-learn
        scores = 1.0 - missed / np.where(squares > 0.0, squares, 1.0)
        return np.where(squares > 0.0, scores, constant).mean()

    return _lazy_score(moments, together, X, y, sample_weight)


def _check_beside(block: Any, y: Any, weights: Any, *, dates: bool = False) -> None:
    refuse_misread("y", y, dates=dates)
    refuse_misread("sample_weight", weights)
    if len(y) != block.shape[0]:
        raise ValueError(f"A block of X has {block.shape[0]} rows, that of y has {len(y)}.")


def _lazy_score(of_block: Callable, together: Callable, X: Any, y: Any, weights: Any) -> Any:
    from dask import array
    from dask.delayed import delayed

    given = {"X": X, "y": y} | ({} if weights is None else {"sample_weight": weights})
    columns = list(aligned(given).blocks.values())
    if weights is None:
        columns.append([None] * len(columns[0]))
    task = delayed(of_block, pure=False)
    found = [task(*row) for row in zip(*columns, strict=True)]
    return array.from_delayed(delayed(together)(found), (), dtype=np.float64)


# ---- the models of a path ------------------------------------------------------------------------


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


def bounds_of_score(loss: Loss) -> Callable[..., tuple[float, float]] | None:
    """Bounds of the default score of a search; None if it has none."""
    make = _SCORERS.get(type(loss))
    if make is None:
        return lambda model, X, y, sample_weight=None: model.score_bounds(X, y, sample_weight)
    if isinstance(loss, FBeta):
        return None
    error = _ERRORS.get(type(loss))
    if error is None:
        return _auc_bounds
    score, measured = make(loss), error(loss)

    def bounds(model, X, y, sample_weight=None):
        target = np.asarray(y, dtype=np.float64)
        low, high = model.predict_bounds(X)
        ends = extreme_predictions(target.reshape(low.shape), low, high, measured)
        models = map(_Predicted, ends)
        least, most = (score(model, X, y, sample_weight=sample_weight) for model in models)
        return (least if np.isfinite(ends[0]).all() else -np.inf), most

    return bounds


class _Predicted(RegressorMixin, BaseEstimator):
    """A model of these predictions, for scorers."""

    def __init__(self, predictions: NDArray[np.float64]):
        self.predictions = predictions

    def predict(self, X: Any) -> NDArray[np.float64]:
        return np.nan_to_num(self.predictions)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _auc_bounds(
    model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[float, float]:
    """All positive scores at one end of their intervals, all negative ones at the other."""
    if len(model.classes_) > 2:
        return model.score_bounds(X, y, sample_weight)
    low, high = (np.nan_to_num(end) for end in model.decision_bounds(X))
    positive = np.asarray(y) == model.classes_[1]
    ends = np.where(positive, low, high), np.where(positive, high, low)
    least, most = (roc_auc_score(positive, end, sample_weight=sample_weight) for end in ends)
    return float(least), float(most)


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

# Errors of a prediction that grow on both sides of the target, for the scores above.
_ERRORS: dict[type[Loss], Callable[[Any], Callable[[Any, Any], Any]]] = {
    AbsoluteError: lambda _: lambda y, p: np.abs(y - p),
    Quantile: lambda loss: (
        lambda y, p: np.maximum(loss.quantile * (y - p), (loss.quantile - 1.0) * (y - p))
    ),
    Poisson: lambda _: lambda y, p: p - y * np.log(np.maximum(p, np.finfo(np.float64).tiny)),
}
