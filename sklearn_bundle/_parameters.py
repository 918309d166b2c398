"""Parameters as users give them: checked by scikit-learn's constraints, in plain numbers."""

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from sklearn_bundle._values import plain, shown

_LARGEST_INT = np.iinfo(np.int64).max  # that compiled code takes


def checked_parameters(caller: str, allowed: dict[str, list], **given: Any) -> list[Any]:
    """The values in their order, numbers as Python's own; ValueError names what is wrong."""
    values = {name: plain(value) for name, value in given.items()}
    validate_parameter_constraints(allowed, values, caller)
    return [in_range(caller, name, allowed[name], value) for name, value in values.items()]


def in_range(caller: str, name: str, allowed: Iterable, value: Any) -> Any:
    """A float where fractions are allowed; an int if compiled code can take it; all else as is."""
    if not isinstance(value, Real):
        return value
    real = any(getattr(kind, "type", None) is Real for kind in allowed)
    try:
        if real:
            return float(value)
        if not isinstance(value, int) or abs(value) <= _LARGEST_INT:
            return value
    except OverflowError:
        pass
    raise ValueError(
        f"The {name!r} parameter of {caller} must be within the range of "
        f"{'float64' if real else 'int64'}. Got {shown(value)} instead."
    )
