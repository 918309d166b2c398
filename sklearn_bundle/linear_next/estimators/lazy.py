"""Predictions and scores of dask collections, of which ``blocks`` makes lazy ones.

Its modules are imported only where there is a collection.
"""

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
        from sklearn_bundle.linear_next import blocks

        return blocks.lazily(method)(self, X, *args, **kwargs)

    return cast(Method, either)


def lazy_score(name: str, predict: Callable, X: Any, y: Any, sample_weight: Any) -> Any:
    """The "accuracy" or the "r2" of predictions, as a dask array of shape ()."""
    from sklearn_bundle.linear_next import blocks

    score = {"accuracy": blocks.lazy_accuracy, "r2": blocks.lazy_r2}[name]
    return score(predict, X, y, sample_weight)
