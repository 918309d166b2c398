"""Users' values: conversion to Python's own numbers, and representation in messages."""

from decimal import Decimal
from numbers import Integral, Real
from reprlib import Repr
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.misread import refuse_misread

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
