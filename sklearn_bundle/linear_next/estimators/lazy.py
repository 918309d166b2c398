"""Predictions and scores of dask collections, which ``blocks`` makes lazy; dask is not imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sklearn_bundle.core_next.misread import is_collection

Method = TypeVar("Method", bound=Callable)


def lazily(method: Method) -> Method:
    """A method of X that returns a lazy dask array if X is a dask collection."""

    @wraps(method)
    def either(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        from sklearn_bundle.linear_next.blocks import lazy

        return lazy.predicted(lambda block: method(self, block, *args, **kwargs), self, X)

    return cast(Method, either)


def lazy_accuracy(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """The weighted share of right predictions, as a dask array of shape ()."""
    from sklearn_bundle.linear_next.blocks import lazy

    return lazy.accuracy(predict, X, y, sample_weight)


def lazy_r2(predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """R^2 like scikit-learn's, the mean over several targets, as a dask array of shape ()."""
    from sklearn_bundle.linear_next.blocks import lazy

    return lazy.r2(predict, X, y, sample_weight)
