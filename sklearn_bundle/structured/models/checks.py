"""Checks of arrays that models get: their shapes, and the first entry that is wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.values import as_numbers


def finite_array(name: str, values: Any, *shape: int | str) -> NDArray[np.float64]:
    """A C-ordered array of finite numbers; a word in its shape stands for any size.

    Raises
    ------
    ValueError
        For anything else; the message has the name, as those of the other checks have.
    """
    array = np.asarray(as_numbers(name, values), order="C")
    right = tuple(k if isinstance(n, str) else n for n, k in zip(shape, array.shape, strict=False))
    if array.shape != right or array.ndim != len(shape):
        sizes = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise ValueError(f"{name} must have the shape {sizes}, but has {array.shape}.")
    refuse(name, "be finite", array, ~np.isfinite(array))
    return array


def whole_numbers(name: str, values: Any, n: int, *shape: int | str) -> NDArray[np.int64]:
    """An array of whole numbers from 0 to n - 1."""
    numbers = finite_array(name, values, *shape)
    wrong = (numbers < 0) | (numbers >= n) | (numbers != np.floor(numbers))
    refuse(name, f"hold whole numbers from 0 to {n - 1}", numbers, wrong)
    return numbers.astype(np.int64)


def refuse(name: str, right: str, values: np.ndarray, wrong: NDArray[np.bool_]) -> None:
    """ValueError for the first entry that is wrong, if there is one."""
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(f"{name} must {right}, but the entry at {at} is {values[at]:g}.")
