"""Reader of svmlight files, and files that may be compressed."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from numbers import Integral
from reprlib import repr as short
from typing import Any

from sklearn import datasets

from sklearn_bundle.core.parameters import checked_parameters
from sklearn_bundle.core.sklearn_internals import Interval, StrOptions
from sklearn_bundle.core.values import shown

_CHUNK = 1 << 22  # bytes that are parsed at a time to find a line
# Suffix of a name -> function that opens a file compressed this way.
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_UNREADABLE = ValueError, OverflowError, IndexError  # of scikit-learn's parser
_SVMLIGHT = {
    "n_features": [Interval(Integral, 1, None, closed="left"), None],
    "query_id": ["boolean"],
    "zero_based": ["boolean", StrOptions({"auto"})],
}


def load_svmlight(
    paths: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    n_features: int | None = None,
    query_id: bool = False,
    zero_based: bool | str = "auto",
) -> tuple:
    """Read files in the format of SVMlight and LIBSVM, such as a training and a test set.

    It calls scikit-learn's :func:`~sklearn.datasets.load_svmlight_files`, which cannot read .xz.

    Parameters
    ----------
    paths : str, path-like or sequence of them
        One file, or several with the same features: all get as many columns as the widest. A name
        that ends in .gz, .bz2 or .xz is a compressed file.
    n_features : int, default=None
        Number of columns; None means the largest index in any of the files.
    query_id : bool, default=False
        Whether to also return the numbers after ``qid:``.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has the index 0. "auto" means 1 if no file has an index 0.

    Returns
    -------
    X : CSR matrix of shape (n_samples, n_features)
        Features, float64, with sorted indices.
    y : ndarray of shape (n_samples,)
        Labels or targets as in the file, float64.
    qid : ndarray of shape (n_samples,)
        Numbers of the queries, int64. Only with `query_id`.

        With several files, one tuple holds the arrays of all files in turn.

    Raises
    ------
    OSError
        For a file that cannot be read.
    ValueError
        For text in another format and indices that do not ascend, with the file and the line; for
        an index beyond `n_features`, and an empty sequence.
    TypeError
        If `paths` is not a path or a sequence of them, for example an open file.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_bundle.datasets import load_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "three.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("+1 1:0.5 3:2\\n-1 2:1\\n+1 1:4\\n")
    ...     X, y = load_svmlight(path)
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ],
           [4. , 0. , 0. ]])
    >>> y
    array([ 1., -1.,  1.])
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not isinstance(paths, Sequence) or any(
        not isinstance(path, str | os.PathLike) for path in paths
    ):
        raise TypeError(
            f"paths must be a str, a path-like object or a sequence of them, got {shown(paths)}."
        )
    if not paths:
        raise ValueError(f"paths must have at least one file, got {shown(paths)}.")
    n_features, query_id, zero_based = checked_parameters(
        "load_svmlight", _SVMLIGHT, n_features=n_features, query_id=query_id, zero_based=zero_based
    )
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(opener(path)(path, "rb")) for path in paths]
            return tuple(
                datasets.load_svmlight_files(
                    files, n_features=n_features, query_id=query_id, zero_based=zero_based
                )
            )
    except _UNREADABLE:
        for path in paths:
            based = {"zero_based": bool(zero_based), "query_id": query_id}
            for _ in svmlight_chunks(path, _CHUNK, **based):
                pass  # raises an error that names the line
        raise


def opener(path: str | os.PathLike) -> Callable[..., Any]:
    """The function that opens the file, by its extension."""
    return _OPENERS.get(os.path.splitext(path)[1].lower(), open)


def svmlight_chunks(path: str | os.PathLike, size: int, **options: Any) -> Iterator[tuple]:
    """What scikit-learn reads of a file, ``size`` bytes at a time; errors name file and line."""

    def read(text: bytes) -> tuple:
        return datasets.load_svmlight_file(BytesIO(text), **options)

    before = 0
    with opener(path)(path, "rb") as file:
        while text := file.read(size):
            text += file.readline()
            try:
                found = read(text)
            except _UNREADABLE:
                k, line, reason = _first_unreadable(text.splitlines(keepends=True), read)
                raise ValueError(
                    f"Line {before + k + 1} of {os.fspath(path)!r} cannot be read, {reason}: "
                    f"{short(line)}. A line is a label, then index:value with ascending indices."
                ) from None
            yield found
            before += text.count(b"\n")


def _first_unreadable(lines: list[bytes], read: Callable[[bytes], Any]) -> tuple[int, str, str]:
    """The number of the first line that cannot be read, the line, and the parser's message."""
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        if _failure(lines[low:middle], read) is None:
            low = middle
        else:
            high = middle
    line = lines[low].decode(errors="replace").rstrip()
    return low, line, str(_failure([lines[low]], read)).rstrip(".")


def _failure(lines: list[bytes], read: Callable[[bytes], Any]) -> Exception | None:
    try:
        read(b"".join(lines))
    except _UNREADABLE as error:
        return error
    return None
