"""Checks of the targets of rankings: numbers, and query ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.values import as_numbers, is_missing, refuse_mixed, shown
from sklearn_bundle.linear.losses.base import Array

Indices = NDArray[np.int64]


def as_target(y: ArrayLike, n_samples: int) -> Array:
    """Finite numbers, one per sample."""
    y = as_numbers("y", y)
    if y.shape != (n_samples,):
        raise ValueError(f"y must have shape ({n_samples},), one number per sample, not {y.shape}.")
    wrong = np.flatnonzero(~np.isfinite(y))
    if len(wrong):
        raise ValueError(f"y must be finite, but y[{wrong[0]}] is {y[wrong[0]]:g}.")
    return y


def as_queries(group: ArrayLike | None, n_samples: int) -> Indices:
    """Number of each sample's query, 0, 1, ..."""
    if group is None:
        return np.zeros(n_samples, dtype=np.int64)
    return np.unique(as_group(group, n_samples), return_inverse=True)[1].astype(np.int64)


def as_group(group: ArrayLike, n_samples: int) -> np.ndarray:
    """Sortable query ids of one type, one per sample."""
    refuse_misread("group", group, dates=True)
    refuse_mixed("group", group)
    try:
        ids = np.asarray(group)
    except ValueError:  # ragged
        ids = np.empty(0)
    if ids.shape == (n_samples, 1):
        ids = ids[:, 0]
    if ids.shape != (n_samples,):
        raise ValueError(
            f"group must have shape ({n_samples},), one query id per sample, not {ids.shape}; got "
            f"{shown(group)}."
        )
    missing = ids != ids if ids.dtype != object else np.array([is_missing(one) for one in ids])
    if missing.any():
        i = int(np.argmax(missing))
        raise ValueError(f"group must have a query id for each sample, but has {ids[i]} for {i}.")
    try:
        np.sort(ids)
    except TypeError as error:
        raise ValueError(f"group must hold query ids that can be sorted: {error}.") from None
    return ids


def starts_of(sorted_or_not: Indices) -> Indices:
    """First place of each number 0, 1, ... in sorted order, and the end."""
    return np.r_[0, np.cumsum(np.bincount(sorted_or_not))].astype(np.int64)
