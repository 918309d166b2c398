"""Sequences from data frames with one row per token."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sklearn_bundle.core.misread import columns_of_dates
from sklearn_bundle.core.values import is_missing, shown


def sequences_from_frame(
    frame: Any,
    by: str | Sequence[str],
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> list[list[dict[str, Any]]] | tuple[list[list[dict[str, Any]]], list[list[Any]]]:
    """Sequences of dicts from a data frame with one row per token, for SDCACRF and StructuredSVM.

    Rows with equal values in `by` form a sequence, wherever they are in the frame. Sequences are in
    the order of their first rows; rows keep the order of the frame.

    Parameters
    ----------
    frame : pandas.DataFrame, or any with ``columns`` and ``frame[name]``
        One row per token.
    by : str or sequence of str
        Column or columns that identify the sequences, such as those of the document and the
        sentence.
    target : str, default=None
        Column of the labels.
    columns : sequence of str, default=None
        Columns of the attributes. None means all except `by` and `target`.

    Returns
    -------
    X : list of lists of dicts
        The values of each token by column name; missing values (None, NaN, NA) are left out.
    y : list of lists of labels
        Only if there is a `target`.

    Raises
    ------
    ValueError
        For a column that is missing or duplicated, no column in `by`, the `target` among `columns`,
        a missing value in `by`, and dates or durations in `columns` or `target`.
    TypeError
        If the columns have no names, and for `by` or `columns` that are not sequences.

    See Also
    --------
    load_conll : Reads files with a token per line.

    Notes
    -----
    If the rows of each sequence are adjacent, for instance after ``frame.sort_values(by,
    kind="stable")``, predictions are in the order of the rows:
    ``frame["predicted"] = [label for labels in model.predict(X) for label in labels]``.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_bundle.datasets import sequences_from_frame
    >>> frame = pd.DataFrame(
    ...     {
    ...         "sentence": [1, 1, 2],
    ...         "word": ["He", "reckons", "Nice"],
    ...         "length": [2, 7, 4],
    ...         "tag": ["B-NP", "B-VP", "B-ADJP"],
    ...     }
    ... )
    >>> X, y = sequences_from_frame(frame, "sentence", "tag")
    >>> X[0]
    [{'word': 'He', 'length': 2}, {'word': 'reckons', 'length': 7}]
    >>> y
    [['B-NP', 'B-VP'], ['B-ADJP']]
    """
    if not hasattr(frame, "columns"):
        raise TypeError(
            f"frame must be a data frame with named columns, got a {type(frame).__name__}."
        )
    there = list(frame.columns)
    groups = _names([by] if isinstance(by, str) else by, "by", "a column's name or several")
    if not groups:
        raise ValueError("by must name at least one column, which identifies sequences; got none.")
    targets = [] if target is None else [target]
    if columns is None:
        columns = [name for name in there if name not in (*groups, *targets)]
    columns = _names(columns, "columns", "a sequence of names of columns")
    for name in (*groups, *targets, *columns):
        if (count := there.count(name)) != 1:
            found = f"are {count} columns" if count else "is no column"
            raise ValueError(f"There {found} {shown(name)} in the frame; it has {there}.")
    if targets and target in columns:
        raise ValueError(f"columns must not hold the target, {shown(target)}: it is the label.")
    odd = [name for name in columns_of_dates(frame) if name in (*columns, *targets)]
    if odd:
        raise ValueError(
            f"The columns {shown(odd)} hold dates or durations, which would become counts of "
            "nanoseconds: make strings or numbers of them first, or leave them out of columns."
        )
    order, ends = _sequences([_values(frame, name) for name in groups], groups)
    cells = [[values[i] for i in order] for values in (_values(frame, name) for name in columns)]
    attributes = list(map(str, columns))
    tokens = [
        {name: value for name, value in zip(attributes, row, strict=True) if not is_missing(value)}
        for row in (zip(*cells, strict=True) if cells else ((),) * len(order))
    ]
    X = [tokens[start:stop] for start, stop in pairwise(ends)]
    if target is None:
        return X
    labels = _values(frame, target)
    return X, [[labels[i] for i in order[start:stop]] for start, stop in pairwise(ends)]


def _names(value: Any, parameter: str, allowed: str) -> list:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{parameter} must be {allowed}, got {shown(value)}.")
    return list(value)


def _values(frame: Any, name: str) -> list:
    """A column of any type as Python objects."""
    return np.asarray(frame[name]).tolist()


def _sequences(columns: list[list], names: list[str]) -> tuple[list[int], list[int]]:
    """The rows, sequence by sequence, and the end of each sequence in them."""
    for name, values in zip(names, columns, strict=True):
        if any(map(is_missing, values)):
            row = next(i for i, value in enumerate(values) if is_missing(value))
            raise ValueError(f"The column {name!r} has no value in row {row}, but is in by.")
    rows: dict[tuple, list[int]] = {}
    for i, key in enumerate(zip(*columns, strict=True)):
        rows.setdefault(key, []).append(i)
    ends = np.cumsum([0, *map(len, rows.values())]).tolist()
    return [i for sequence in rows.values() for i in sequence], ends
