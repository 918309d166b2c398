"""Dask collections where an estimator is given X and y."""

import sys
import warnings
from typing import Any


def is_collection(X: Any) -> bool:
    """Whether X is a dask collection or a list of delayed blocks."""
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    if isinstance(X, list | tuple):
        return len(X) > 0 and all(is_dask_collection(block) for block in X)
    return is_dask_collection(X)


def gathered(caller: str, *columns: Any, depth: int = 1) -> tuple:
    """The columns with dask collections computed in this process, which a warning says.

    It points ``depth`` calls above the function that calls this one.
    """
    found = [k for k, values in enumerate(columns) if is_collection(values)]
    if not found:
        return columns
    from dask.base import compute

    warnings.warn(
        f"{caller} works on rows in memory: it gathers the dask collection in this process. "
        "BMRMClassifier, BMRMRegressor and BMRMNoveltyDetector fit to rows where they are.",
        UserWarning,
        stacklevel=2 + depth,
    )
    values = dict(zip(found, compute(*(columns[k] for k in found)), strict=True))
    return tuple(values.get(k, column) for k, column in enumerate(columns))
