"""The reader of files with one token per line."""

import bz2
import codecs
import gzip
import lzma
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any

from sklearn_bundle.core.parameters import checked_parameters
from sklearn_bundle.core.values import plain, shown

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
