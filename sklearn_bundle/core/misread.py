"""Data that numpy would read as something else: masked, with fields, dates, codes; of dask."""

import sys
from collections.abc import Iterable
from itertools import chain
from reprlib import repr as short
from typing import Any

import numpy as np

from sklearn_bundle.core.callers import warn

_DATES = np.datetime64, np.timedelta64
# How the types of dates, times and durations begin, of columns of pandas, polars and pyarrow.
_NAMES_OF_DATES = "date", "time", "duration", "period"
_NAMES_OF_CATEGORIES = "categor", "enum", "dictionary"
_ENCODE = (
    "Encode them first, for instance in a pipeline: ColumnTransformer([('codes', OneHotEncoder(), "
    "columns)], remainder='passthrough')."
)
_CONVERT = (
    "Convert dates and durations to numbers first, for instance to days: "
    "(x - x.min()) / np.timedelta64(1, 'D')."
)


def refuse_misread(name: str, values: Any, *, dates: bool = False) -> None:
    """ValueError for masked entries, an array with fields, dates and columns of categories.

    numpy ignores the mask, reads dates as counts of days or nanoseconds, rows with fields as one
    value, and numbers that name categories as amounts. A masked array without a masked entry is an
    array. With ``dates``, dates and categories pass: they may be labels and queries.
    """
    if hasattr(type(values), "collect") and hasattr(type(values), "lazy"):
        raise ValueError(f"{name} is a LazyFrame, which holds no rows yet: pass its collect().")
    if isinstance(values, list | tuple):
        _refuse_in_list(name, values, dates)
        return
    if hasattr(values, "columns"):
        if dates:
            return
        for begins, kind, advice in (
            (_NAMES_OF_DATES, "dates or durations", _CONVERT),
            (_NAMES_OF_CATEGORIES, "categories", _ENCODE),
        ):
            odd = _columns_of(values, begins)
            if odd:
                raise ValueError(
                    f"{name} must hold numbers, but the columns {short(odd)} hold {kind}. {advice}"
                )
        return
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "V":
        raise ValueError(
            f"{name} must be an array of plain values, got a structured array with the fields "
            f"{short(list(dtype.names or ()))}. Convert it first, for instance with "
            "numpy.lib.recfunctions.structured_to_unstructured."
        )
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} must not be masked, got a masked array with {np.ma.count_masked(values)} "
            "masked entries. Replace them, for instance with filled(), or leave those samples out."
        )
    if not dates and _holds_dates(values, dtype):
        raise ValueError(f"{name} must hold numbers, got dates or durations ({dtype}). {_CONVERT}")


def columns_of_dates(frame: Any) -> list[Any]:
    """Names of the columns of a data frame that hold dates, times or durations."""
    return _columns_of(frame, _NAMES_OF_DATES)


def _columns_of(frame: Any, begins: tuple[str, ...]) -> list[Any]:
    """Names of the columns whose type has a name that begins so."""
    types = getattr(frame, "dtypes", None)
    if types is None:
        return []
    pairs = zip(frame.columns, types, strict=False)
    return [name for name, dtype in pairs if str(dtype).casefold().startswith(begins)]


def _is_of_dates(dtype: Any) -> bool:
    return str(dtype).casefold().startswith(_NAMES_OF_DATES)


def _holds_dates(values: Any, dtype: Any) -> bool:
    if dtype is None:
        return isinstance(values, _DATES)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return dtype.kind in "mM"
    if isinstance(values, np.ndarray):  # float() takes numpy's dates among objects
        return _are_dates(map(type, values.ravel().tolist()))
    return _is_of_dates(dtype)


def _are_dates(kinds: Iterable[type]) -> bool:
    return any(issubclass(kind, _DATES) for kind in set(kinds))


def _refuse_in_list(name: str, values: list | tuple, dates: bool) -> None:
    """The same for the rows of a list, and for the entries of its rows."""
    kinds = set(map(type, values))
    if any(issubclass(kind, np.ndarray) for kind in kinds):
        for i, row in enumerate(values):
            if isinstance(row, np.ndarray):
                refuse_misread(f"{name}[{i}]", row, dates=dates)
    rows = [kind for kind in kinds if issubclass(kind, list | tuple)]
    if rows:
        nested = (row for row in values if isinstance(row, list | tuple))
        kinds |= set(map(type, chain.from_iterable(nested)))
    if not dates and _are_dates(kinds):
        raise ValueError(f"{name} must hold numbers, got dates or durations. {_CONVERT}")


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
    found = [k for k, values in enumerate(columns) if is_collection(values)]
    if not found:
        return columns
    from dask.base import compute

    warn(
        f"{caller} works on rows in memory: it gathers the dask collection in this process. "
        "BMRMClassifier, BMRMRegressor and BMRMNoveltyDetector fit to rows where they are.",
        UserWarning,
    )
    values = dict(zip(found, compute(*(columns[k] for k in found)), strict=True))
    return tuple(values.get(k, column) for k, column in enumerate(columns))
