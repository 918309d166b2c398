"""Numbers as users give them -> Python's own, and as messages show them."""

from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A real number as int or float, of its value or the nearest to it; all else as it is.

    numpy's scalars carry their type into what is computed with them: a float32 would make a
    certificate of float32, and a fraction is no number to compiled code. A number that is beyond
    the range of float64 stays as it is.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real | Decimal):
        try:
            return float(value)
        except (OverflowError, ValueError):  # a large fraction, a signalling NaN
            return value
    return value


def is_number(value: Any) -> bool:
    """Whether :func:`plain` has made an int or a float of it."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A value for a message, numbers plainly: 0.0, not np.float64(0.0)."""
    if isinstance(value, list | tuple):
        inside = ", ".join(map(shown, value))
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    value = plain(value)
    try:
        return repr(value)
    except ValueError:  # Python writes out no integer of thousands of digits
        return f"an integer of {value.bit_length()} bits"
