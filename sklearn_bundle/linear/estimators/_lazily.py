"""Lazy predictions and scores of dask collections."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.misread import is_collection, refuse_misread
from sklearn_bundle.linear.rows._dask_rows import aligned, parts_of

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

    def moments(block: Any, targets: Any, weights: Any) -> NDArray[np.float64]:
        """Sums of weights, means, and sums of squares around the means and the predictions."""
        _check_beside(block, targets, weights)
        targets = np.asarray(targets, dtype=np.float64)
        if not block.shape[0]:
            return np.zeros((4, targets.shape[1] if targets.ndim == 2 else 1))
        targets = targets.reshape(block.shape[0], -1)
        weights = np.ones(block.shape[0]) if weights is None else np.asarray(weights)
        missed = targets - predict(block).reshape(targets.shape)
        total = np.full(targets.shape[1], weights.sum())
        means = weights @ targets / np.maximum(total, np.finfo(np.float64).tiny)
        return np.array([total, means, weights @ (targets - means) ** 2, weights @ missed**2])

    def together(parts: list) -> np.float64:
        totals, means, squares, missed = np.array(parts).transpose(1, 0, 2)
        center = (totals * means).sum(axis=0) / totals.sum(axis=0)
        squares = (squares + totals * (means - center) ** 2).sum(axis=0)
        missed = missed.sum(axis=0)
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
