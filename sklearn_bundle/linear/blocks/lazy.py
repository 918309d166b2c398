"""Predictions and scores of collections: lazy arrays of dask, which nothing has computed yet."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import reduce, wraps
from operator import add
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sklearn_bundle.core.validation import check_sample_weight
from sklearn_bundle.core.values import is_collection
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

    def sums(X: Any, y: Any, weights: NDArray) -> NDArray[np.float64]:
        return np.array([weights @ (predict(X) == y.ravel()), weights.sum()])

    return _lazy_score(sums, lambda found: found[0] / found[1], X, y, sample_weight)


def lazy_r2(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """R^2 like scikit-learn's, the mean over several targets, as a dask array of shape ()."""

    def moments(X: Any, y: Any, weights: NDArray) -> Moments:
        """Of the targets, beside the squares of their distances from the predictions."""
        targets = y.astype(np.float64).reshape(len(y), -1)
        missed = weights @ (targets - predict(X).reshape(targets.shape)) ** 2
        return replace(Moments.of(targets, weights), missed=missed)

    def score(found: Moments) -> np.float64:
        squares, constant = found.squares, np.where(found.missed > 0.0, 0.0, 1.0)
        scores = 1.0 - found.missed / np.where(squares > 0.0, squares, 1.0)
        return np.where(squares > 0.0, scores, constant).mean()

    return _lazy_score(moments, score, X, y, sample_weight)


def _lazy_score(of_block: Callable, score: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """The score of the sum over blocks with a weight."""
    from dask import array
    from dask.delayed import delayed

    def checked(X: Any, y: Any, sample_weight: Any = None) -> Any:
        check_consistent_length(X, y)
        weights = check_sample_weight(sample_weight, len(y), all_zero=True)
        return of_block(X, np.asarray(y), weights) if weights.any() else None

    def together(parts: list) -> Any:
        found = [part for part in parts if part is not None]
        return score(reduce(add, found)) if found else np.float64(np.nan)

    calls = calls_of(checked, X, y, sample_weight)
    return array.from_delayed(delayed(together)(calls), (), dtype=np.float64)
