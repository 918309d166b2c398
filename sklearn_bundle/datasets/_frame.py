"""Readers of sequences: CoNLL files, and data frames."""

import bz2
import codecs
import gzip
import lzma
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from sklearn_bundle.core.parameters import checked_parameters
from sklearn_bundle.core.values import columns_of_dates, is_missing, plain, shown

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DOCSTART = "-DOCSTART-"  # first column of the first line of a document, in CoNLL-2003
_ALLOWED = {
    "target": [Integral],
    "separator": [str, None],
    "comment": [str, None],
    "keep": [callable, None],
    "encoding": [str],
}
_BLANKS = " \t\r\n"  # only these: str.split() would also split at no-break spaces


def load_conll(
    path_or_file: str | os.PathLike | Iterable[str] | Iterable[bytes],
    *,
    columns: Sequence[int] | None = None,
    target: int = -1,
    separator: str | None = None,
    comment: str | None = None,
    keep: Callable[[list[str]], Any] | None = None,
    encoding: str = "utf-8",
) -> tuple[list[list[tuple[str, ...]]], list[list[str]]]:
    """Read sentences from a file with one token per line, in columns, as in CoNLL's shared tasks.

    An empty line ends a sentence. A line whose first column is ``-DOCSTART-`` also ends it, and
    belongs to no sentence.

    Parameters
    ----------
    path_or_file : str, path-like or file
        A name that ends in .gz, .bz2 or .xz is a compressed file. Any iterable of lines, str or
        bytes, can replace a file.
    columns : sequence of int, default=None
        Columns of the tuple of a token, from 0; negative numbers count from the end. None means all
        except `target`.
    target : int, default=-1
        Column of the tag, by default the last.
    separator : str, default=None
        Separator of columns; None means one or more spaces and tabs.
    comment : str, default=None
        Lines that start with it are skipped: "#" in CoNLL-U. By default no lines are skipped, since
        "#" is a word in CoNLL-2000.
    keep : callable, default=None
        Takes the columns of a line, a list of str, and returns whether it is a token. In CoNLL-U
        ``lambda fields: fields[0].isdigit()`` skips multiword tokens and empty nodes.
    encoding : str, default="utf-8"
        Encoding of the file. A mark of the byte order at its start is left out.

    Returns
    -------
    sentences : list of lists of tuples of str
        The columns of each token.
    tags : list of lists of str
        The tag of each token.

    Raises
    ------
    ValueError
        For a line with a different number of columns than the first, for a missing column, and for
        bytes that are not of this encoding; the message has the number of the line.

    See Also
    --------
    sklearn_bundle.metrics.span_f1_score : Score of such labels.

    Examples
    --------
    >>> from sklearn_bundle.datasets import load_conll
    >>> lines = ["He PRP B-NP", "reckons VBZ B-VP", "", "Nice JJ B-ADJP"]
    >>> sentences, tags = load_conll(lines)
    >>> sentences
    [[('He', 'PRP'), ('reckons', 'VBZ')], [('Nice', 'JJ')]]
    >>> tags
    [['B-NP', 'B-VP'], ['B-ADJP']]
    """
    given = {"target": target, "separator": separator, "comment": comment, "keep": keep}
    checked_parameters("load_conll", _ALLOWED, **given, encoding=encoding)
    wanted = None if columns is None else _integers(columns)
    chosen: list[int] = []
    sentences: list[list[tuple[str, ...]]] = [[]]
    tags: list[list[str]] = [[]]
    n_columns = 0
    for number, text in enumerate(_texts(path_or_file, encoding), start=1):
        if comment is not None and text.startswith(comment):
            continue
        fields = _split(text, separator)
        if not fields or fields[0] == _DOCSTART:
            if sentences[-1]:
                sentences.append([])
                tags.append([])
            continue
        if keep is not None and not keep(fields):
            continue
        if not n_columns:
            n_columns = len(fields)
            chosen = _columns(wanted, target, n_columns, number)
        elif len(fields) != n_columns:
            raise ValueError(
                f"Line {number} has {len(fields)} columns, but those before have {n_columns}: "
                f"{text!r}."
            )
        sentences[-1].append(tuple([fields[k] for k in chosen]))
        tags[-1].append(fields[target])
    if not sentences[-1]:
        del sentences[-1], tags[-1]
    return sentences, tags


def _integers(columns: Any) -> list[int]:
    numbers: list[Any] = plain(list(columns)) if isinstance(columns, Iterable) else [None]
    if isinstance(columns, str) or any(type(number) is not int for number in numbers):
        raise ValueError(f"columns must be a list of integers, got {shown(columns)}.")
    return numbers


def _columns(wanted: list[int] | None, target: int, n_columns: int, number: int) -> list[int]:
    """Those of a token's tuple, by default all but the target."""
    for k in (target, *(wanted or ())):
        if not -n_columns <= k < n_columns:
            raise ValueError(f"There is no column {k}: line {number} has {n_columns} columns.")
    return [k for k in range(n_columns) if k != target % n_columns] if wanted is None else wanted


def _texts(path_or_file: Any, encoding: str) -> Iterator[str]:
    """The lines as text, without their ends and without a mark of the byte order."""
    number = 0
    with _opened(path_or_file, encoding) as lines:
        try:
            for number, text in enumerate(map(_decoder(encoding), lines), start=1):
                yield (text.removeprefix("\ufeff") if number == 1 else text).rstrip("\r\n")
        except UnicodeDecodeError as error:  # of a byte that may be several lines behind
            number += 1 + error.object[: error.start].count(b"\n")
            of_file = f" of {path_or_file!s}" if isinstance(path_or_file, str | os.PathLike) else ""
            raise ValueError(
                f"Line {number}{of_file} is not {error.encoding}: {error.reason}, "
                f"0x{error.object[error.start]:02x}. Give the encoding of the file, such as "
                "encoding='latin-1'."
            ) from None


def _opened(path_or_file: Any, encoding: str) -> Any:
    """A context manager of the lines; a file that the caller opened stays open."""
    if isinstance(path_or_file, str | os.PathLike):
        opener: Any = _OPENERS.get(os.path.splitext(path_or_file)[1].lower(), open)
        return opener(path_or_file, "rt", encoding=encoding)
    if isinstance(path_or_file, Mapping | bytes) or not isinstance(path_or_file, Iterable):
        raise TypeError(
            "path_or_file must be a path, a file or an iterable of lines, got "
            f"{shown(path_or_file)}."
        )
    return nullcontext(path_or_file)


def _decoder(encoding: str) -> Callable[[Any], str]:
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ValueError(f"encoding must be one that Python knows, got {encoding!r}.") from None

    def decoded(line: Any) -> str:
        if not isinstance(line, str | bytes):
            raise TypeError(f"path_or_file must hold lines of text, got {shown(line)}.")
        return line.decode(encoding) if isinstance(line, bytes) else line

    return decoded


def _split(text: str, separator: str | None) -> list[str]:
    if not text.strip(_BLANKS):
        return []
    return re.split("[ \t]+", text.strip(_BLANKS)) if separator is None else text.split(separator)


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
