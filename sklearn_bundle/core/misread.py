"""Data that numpy would read as something else: masked, with fields, dates; and those of dask."""

import sys
from reprlib import repr as short
from typing import Any

import numpy as np

from sklearn_bundle.core.callers import warn

# How the types of dates, times and durations begin, of columns of pandas, polars and pyarrow.
_NAMES_OF_DATES = "date", "time", "duration", "period"
_CONVERT = (
    "Convert dates and durations to numbers first, for instance to days: "
    "(x - x.min()) / np.timedelta64(1, 'D')."
)


def refuse_misread(name: str, values: Any, *, dates: bool = False) -> None:
    """ValueError for masked entries, an array with fields, and dates.

    numpy ignores the mask, reads rows with fields as one value, and dates as counts of days or
    nanoseconds. A masked array without a masked entry is an array. With ``dates``, dates pass: they
    may be labels and queries.
    """
    if isinstance(values, np.ndarray):
        if values.dtype.names:
            raise ValueError(
                f"{name} must be an array of plain values, got a structured array with the fields "
                f"{short(list(values.dtype.names))}. Convert it first, for instance with "
                "numpy.lib.recfunctions.structured_to_unstructured."
            )
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise ValueError(
                f"{name} must not be masked, got a masked array with "
                f"{np.ma.count_masked(values)} masked entries. Replace them, for instance with "
                "filled(), or leave those samples out."
            )
    if isinstance(values, list | tuple):
        for i, row in enumerate(values):
            if isinstance(row, np.ndarray):
                refuse_misread(f"{name}[{i}]", row, dates=dates)
    if dates:
        return
    columns = columns_of_dates(values)
    if columns:
        raise ValueError(
            f"{name} must hold numbers, but the columns {short(columns)} hold dates or durations. "
            f"{_CONVERT}"
        )
    if _holds_dates(values):
        kind = getattr(values, "dtype", type(values).__name__)
        raise ValueError(f"{name} must hold numbers, got dates or durations ({kind}). {_CONVERT}")


def columns_of_dates(frame: Any) -> list[Any]:
    """Names of the columns of a data frame that hold dates, times or durations."""
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        return []
    return [name for name, dtype in zip(frame.columns, frame.dtypes, strict=False) if _is_of(dtype)]


def _is_of(dtype: Any) -> bool:
    return str(dtype).casefold().startswith(_NAMES_OF_DATES)


def _holds_dates(values: Any) -> bool:
    """Of an array or a column by its type, among objects by theirs, of a list by its first row."""
    if isinstance(values, list | tuple):
        row = values[0] if values and isinstance(values[0], list | tuple) else values
        return any(isinstance(value, np.datetime64 | np.timedelta64) for value in row)
    if isinstance(values, np.ndarray):
        objects = values.dtype.kind == "O"
        return _holds_dates(values.ravel().tolist()) if objects else values.dtype.kind in "mM"
    dtype = getattr(values, "dtype", None)
    return dtype is not None and _is_of(dtype)


def is_collection(X: Any) -> bool:
    """Whether X is a dask collection or a list of delayed blocks."""
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    if isinstance(X, list | tuple):
        return len(X) > 0 and all(is_dask_collection(block) for block in X)
    return is_dask_collection(X)


def gathered(caller: str, *columns: Any) -> tuple:
    """The columns with dask collections computed in this process, which a warning says."""
    found = {k: values for k, values in enumerate(columns) if is_collection(values)}
    if not found:
        return columns
    from dask.base import compute

    warn(
        f"{caller} works on rows in memory: it gathers the dask collection in this process. "
        "BMRMClassifier and BMRMRegressor fit to rows where they are.",
        UserWarning,
    )
    values = dict(zip(found, compute(*found.values()), strict=True))
    return tuple(values.get(k, column) for k, column in enumerate(columns))
