"""Data frames with a row per token -> sequences."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sklearn_bundle._values import shown


def sequences_from_frame(
    frame: Any,
    by: str | Sequence[str],
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> list[list[dict[str, Any]]] | tuple[list[list[dict[str, Any]]], list[list[Any]]]:
    """Sequences of dicts from a data frame with a row per token, for SDCACRF and StructuredSVM.

    Rows of equal values in `by` are a sequence, wherever they stand in the frame. Sequences are in
    the order of their first rows, and rows in that of the frame.

    Parameters
    ----------
    frame : pandas.DataFrame, or any with ``columns`` and ``frame[name]``
        A row per token.
    by : str or sequence of str
        What tells the sequences apart: a column, or several, such as those of the document and of
        the sentence.
    target : str, default=None
        Column of the labels.
    columns : sequence of str, default=None
        Columns of the attributes. None means all but `by` and `target`.

    Returns
    -------
    X : list of lists of dicts
        The values of each token by the names of the columns; those that are missing (None, NaN, NA)
        are left out.
    y : list of lists of labels
        Where there is a `target`.

    Raises
    ------
    ValueError
        For a column that is not there or stands there twice, for no column in `by`, for the
        `target` among `columns`, and for a missing value in `by`.
    TypeError
        If there are no columns with names, and for `by` or `columns` that are no sequences.

    See Also
    --------
    load_conll : Reads files with a token per line.

    Notes
    -----
    Where the rows of each sequence stand together, which ``frame.sort_values(by, kind="stable")``
    does, predictions come in the order of the rows:
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
        raise ValueError("by must name at least one column, got none: it tells sequences apart.")
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
    order, ends = _sequences([_values(frame, name) for name in groups], groups)
    cells = [[values[i] for i in order] for values in (_values(frame, name) for name in columns)]
    attributes = list(map(str, columns))
    tokens = [
        {name: value for name, value in zip(attributes, row, strict=True) if not _is_missing(value)}
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
    """A column as Python's own values, whatever its type."""
    return np.asarray(frame[name]).tolist()


def _sequences(columns: list[list], names: list[str]) -> tuple[list[int], list[int]]:
    """The rows, sequence by sequence, and where each of these ends in them."""
    for name, values in zip(names, columns, strict=True):
        if any(map(_is_missing, values)):
            row = next(i for i, value in enumerate(values) if _is_missing(value))
            raise ValueError(f"The column {name!r} has no value in row {row}: of which sequence?")
    rows: dict[tuple, list[int]] = {}
    for i, key in enumerate(zip(*columns, strict=True)):
        rows.setdefault(key, []).append(i)
    ends = np.cumsum([0, *map(len, rows.values())]).tolist()
    return [i for sequence in rows.values() for i in sequence], ends


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA answers neither yes nor no
        return True
