"""Predictions and scores of collections: lazy arrays of dask, which nothing has computed yet."""

import warnings
from collections.abc import Callable
from functools import reduce, wraps
from operator import add
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.misread import is_collection, refuse_misread
from sklearn_bundle.linear.blocks.cutting import blocks_of, calls_of
from sklearn_bundle.linear.blocks.reading import Moments

Method = TypeVar("Method", bound=Callable)


def lazily(method: Method) -> Method:
    """A method of X that returns a lazy dask array if X is a dask collection."""

    @wraps(method)
    def either(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        return _lazy(lambda block: method(self, block, *args, **kwargs), self, X)

    return cast(Method, either)


def _lazy(call: Callable[[Any], np.ndarray], estimator: Any, X: Any) -> Any:
    from dask import array
    from dask.delayed import delayed

    check_is_fitted(estimator)
    blocks = blocks_of("X", X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a row of zeros without names
        like = call(np.zeros((1, estimator.n_features_in_)))
    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(blocks)

    def of_block(block: Any) -> np.ndarray:
        return call(block) if block.shape[0] else like[:0]

    task = delayed(of_block, pure=False)
    shaped = [
        array.from_delayed(task(block), (length, *like.shape[1:]), dtype=like.dtype)
        for block, length in zip(blocks, lengths, strict=True)
    ]
    return array.concatenate(shaped, allow_unknown_chunksizes=True)


def lazy_accuracy(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """The weighted share of right predictions, as a dask array of shape ()."""

    def sums(X: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
        weights = _checked_beside(X, y, sample_weight, dates=True)
        if not len(weights):
            return np.zeros(2)
        right = predict(X) == np.asarray(y).ravel()
        return np.array([weights @ right, weights.sum()])

    return _lazy_score(sums, lambda parts: np.divide(*np.sum(parts, axis=0)), X, y, sample_weight)


def lazy_r2(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """R^2 like scikit-learn's, the mean over several targets, as a dask array of shape ()."""

    def moments(X: Any, y: Any, sample_weight: Any = None) -> tuple[Moments, Any] | None:
        """Of the targets, and the weighted squares of their distances from the predictions."""
        weights = _checked_beside(X, y, sample_weight)
        if not weights.any():
            return None
        targets = np.asarray(y, dtype=np.float64)
        missed = targets - predict(X).reshape(targets.shape)
        return Moments.of(targets, weights), weights @ missed.reshape(len(missed), -1) ** 2

    def together(parts: list) -> np.float64:
        parts = [part for part in parts if part is not None]
        if not parts:
            return np.float64(np.nan)
        squares, missed = (reduce(add, column) for column in zip(*parts, strict=True))
        squares = squares.squares
        constant = np.where(missed > 0.0, 0.0, 1.0)  # as in scikit-learn
        scores = 1.0 - missed / np.where(squares > 0.0, squares, 1.0)
        return np.where(squares > 0.0, scores, constant).mean()

    return _lazy_score(moments, together, X, y, sample_weight)


def _checked_beside(X: Any, y: Any, weights: Any, *, dates: bool = False) -> NDArray[np.float64]:
    """The weights, if there are as many targets as rows."""
    refuse_misread("y", y, dates=dates)
    refuse_misread("sample_weight", weights)
    if len(y) != X.shape[0]:
        raise ValueError(f"A block of X has {X.shape[0]} rows, that of y has {len(y)}.")
    return np.ones(len(y)) if weights is None else np.asarray(weights)


def _lazy_score(of_block: Callable, together: Callable, X: Any, y: Any, weights: Any) -> Any:
    from dask import array
    from dask.delayed import delayed

    found = calls_of(of_block, X, y, weights)
    return array.from_delayed(delayed(together)(found), (), dtype=np.float64)
