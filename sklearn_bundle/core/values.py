"""Users' values: conversion to Python's own numbers, representation in messages, and warnings."""

import sys
import warnings
from decimal import Decimal
from inspect import currentframe
from numbers import Integral, Real
from os import sep
from pathlib import Path
from reprlib import Repr
from reprlib import repr as short
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

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


# The package itself, and scikit-learn, whose decorators are around methods.
_FOLDERS = Path(__file__).parents[1], *sklearn.__path__
_OURS = tuple(f"{folder}{sep}" for folder in _FOLDERS)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the nearest caller outside of the package."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


_short = Repr()  # six entries of a list, as fit into a line
_short.maxstring = _short.maxother = 200  # characters
_short.maxdict = _short.maxtuple = _short.maxlist


def plain(value: Any) -> Any:
    """A real number as the equal or nearest int or float; anything else unchanged.

    numpy's scalars pass their type on to results: a float32 would make a float32 certificate, and
    compiled code does not take fractions. The same applies within lists, tuples and dicts. A number
    beyond the range of float64 stays unchanged.
    """
    if value is None or type(value) in (str, bool, int, float):  # nearly all parameters
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real | Decimal):
        try:
            return float(value)
        except (OverflowError, ValueError):  # a large fraction, a signaling NaN
            return value
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(number) for key, number in value.items()}
    return value


def as_float(value: Any) -> Any:
    """A real number, including int, as a float; anything else, or beyond float64, unchanged."""
    value = plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return value
    return value


def is_between(value: Any, low: float, high: float) -> bool:
    """Whether it is a float, and strictly between these."""
    return isinstance(value, float) and low < value < high


def as_numbers(name: str, values: Any) -> NDArray[np.float64]:
    """An array of float64; ValueError names the first entry that is not a number."""
    refuse_misread(name, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = np.asarray([as_float(x) for x in array.flat]).reshape(array.shape)
        if array.dtype.kind in "fiub":
            return np.asarray(array, dtype=np.float64)
    except ValueError:  # ragged
        pass
    entries = np.asarray(values, dtype=object).flat
    odd = next((x for x in entries if not isinstance(as_float(x), float)), values)
    why = " Complex data not supported." if isinstance(odd, complex) else ""
    raise ValueError(f"{name} must hold numbers, got {shown(odd)}.{why}")


def shown(value: Any) -> str:
    """A value for a message: plain numbers (0.0, not np.float64(0.0)); only the start of lists."""
    if isinstance(value, np.ndarray):
        value = value[: _short.maxlist + 1].tolist() if value.ndim else value.item()
    value = plain(value)
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return _short.repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return f"an integer of {value.bit_length()} bits"


def mixed(values: Any) -> set[type]:
    """The types, if strings are mixed with others, which numpy converts or cannot sort."""
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":
        return set()
    if hasattr(values, "dtype"):
        values = np.asarray(values).ravel().tolist()
    elif not isinstance(values, list | tuple):
        return set()
    kinds = set(map(type, values))
    strings = {issubclass(kind, str) - issubclass(kind, bytes) for kind in kinds}
    return kinds if len(strings) > 1 else set()


def is_missing(value: Any) -> bool:
    """Whether it is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return True


def refuse_mixed(name: str, values: Any) -> None:
    """ValueError for strings mixed with other types."""
    kinds = mixed(values)
    if kinds:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"{name} must hold values of one kind, got the types {names}.")


def require_y(caller: str, y: Any) -> None:
    """Refuse a missing y in scikit-learn's words."""
    if y is None:
        raise ValueError(f"{caller} requires y to be passed, but the target y is None.")
