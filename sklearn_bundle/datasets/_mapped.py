"""Row blocks on disk as memory-mapped arrays, for data larger than memory."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.parameters import checked_parameters
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.sparse import well_formed
from sklearn_bundle.core.values import shown
from sklearn_bundle.datasets._svmlight import svmlight_chunks

_CHUNK = 1 << 22  # bytes of text or array per step: few calls, little memory
_ALLOWED = {
    "folder": [str, os.PathLike],
    "n_features": [Interval(Integral, 1, None, closed="left"), None],
    "zero_based": ["boolean"],
}
_CSR = ("data", "indices", "indptr")  # file names: scipy's names of the arrays
_INT32 = np.iinfo(np.int32).max  # maximum of entries of CSR with int32 row starts

Block = str | os.PathLike | tuple[Any, Any]


def save_mapped(
    folder: str | os.PathLike,
    blocks: Block | Iterable[Block],
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    zero_based: bool = False,
) -> None:
    """Write blocks of rows one after the other to a folder, for :func:`open_mapped`.

    The blocks are read once. Memory holds a few MB of a text or an array, a whole ``.npz`` file,
    and y.

    Parameters
    ----------
    folder : str or path-like
        Folder to create; it must not exist yet.
    blocks : file name, or iterable of blocks
        A block is the name of a file that holds X and y, or a pair (X, y) each of which is an array
        or the name of a file. Files with both: ``.npz`` of ``numpy.savez(file, X=X, y=y)``; any
        other extension is a text in the svmlight format, compressed if it ends in .gz, .bz2 or .xz.
        Files with either X or y: ``.npy``, or ``.npz`` of ``scipy.sparse.save_npz``. All X must be
        dense, or all sparse.
    n_features : int, default=None
        Number of columns of X. By default the number in the arrays, or the largest index in the
        texts.
    dtype : {float64, float32}, default=float64
        Type of X on disk. With float32 each pass of a fit reads half as many bytes of a dense X,
        and two thirds as many of a sparse X; sums are in float64 with both.
    zero_based : bool, default=False
        Whether the indices of svmlight files start at 0 instead of 1. This is not guessed, which
        would need a pass over the whole file.

    Raises
    ------
    ValueError
        For blocks that differ in the number of features or in kind, a y that differs from X in
        length, and no rows at all. `folder` is then removed.
    FileExistsError
        If `folder` exists.

    See Also
    --------
    open_mapped : Opens the folder.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from sklearn_bundle.datasets import open_mapped, save_mapped
    >>> def blocks():
    ...     for k in range(3):  # rows that are never in memory together
    ...         yield np.full((2, 4), float(k)), np.array([0, 1])
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     save_mapped(os.path.join(parent, "data"), blocks(), dtype=np.float32)
    ...     X, y = open_mapped(os.path.join(parent, "data"))
    ...     print(X.shape, X.dtype, y)
    ...     del X
    (6, 4) float32 [0 1 0 1 0 1]
    """
    _, n_features, zero_based = checked_parameters(
        "save_mapped", _ALLOWED, folder=folder, n_features=n_features, zero_based=zero_based
    )
    try:
        kind = None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        kind = None
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype={kind or shown(dtype)} must be float32 or float64.")
    if isinstance(blocks, str | os.PathLike):
        blocks = [blocks]
    if isinstance(blocks, Mapping | bytes) or not isinstance(blocks, Iterable):
        raise TypeError(f"blocks must be a file or an iterable of blocks, got {shown(blocks)}.")
    os.makedirs(folder)
    try:
        with _Writer(Path(folder), kind, n_features) as writer:
            for number, block in enumerate(blocks, start=1):
                for X, y, is_text in _chunks(block, kind, zero_based):
                    writer.append(X, y, is_text, f"block {number}")
            writer.finish()
    except BaseException:
        shutil.rmtree(folder)
        raise


def open_mapped(folder: str | os.PathLike) -> tuple[np.memmap | sp.csr_matrix, np.ndarray]:
    """X and y from a folder that :func:`save_mapped` wrote; X stays on disk.

    The arrays of X are read-only memory maps. The operating system reads them as a fit passes over
    the rows, caches what fits, and drops it if memory is short. The linear estimators of this
    package do not copy X, except for samples of weight zero and the folds of cross-validation.

    In addition to X, a fit of two classes needs at most 20 numbers of 8 bytes per sample, including
    y and the weights. `BMRMClassifier` and its family add 8 bytes per feature for each plane (one
    per iteration, unless `bundle_size` is smaller) and for each of up to 16 blocks of rows.
    Newton's method, which is for few features, adds up to 32 MB for a sample of the rows, and a few
    matrices of 8 bytes times the square of the number of features.

    Parameters
    ----------
    folder : str or path-like
        The folder given to :func:`save_mapped`.

    Returns
    -------
    X : memmap or csr_matrix of shape (n_samples, n_features)
        A C-ordered array, or CSR with sorted indices whose three arrays are maps.
    y : ndarray of shape (n_samples,)
        Targets, in memory.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If :func:`save_mapped` did not write it, or did not finish.

    See Also
    --------
    save_mapped : Writes such a folder.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import dump_svmlight_file, load_iris
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.datasets import open_mapped, save_mapped
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     names = [os.path.join(parent, name) for name in ("first.txt", "second.txt")]
    ...     dump_svmlight_file(X[:75], y[:75], names[0], zero_based=False)
    ...     dump_svmlight_file(X[75:], y[75:], names[1], zero_based=False)
    ...     folder = os.path.join(parent, "iris")
    ...     save_mapped(folder, names)
    ...     model = BMRMClassifier(reg_lambda=1e-2).fit(*open_mapped(folder))
    >>> model.coef_.shape
    (3, 4)
    """
    checked_parameters("open_mapped", _ALLOWED, folder=folder)
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    if not (path / "shape.npy").exists():
        raise ValueError(f"{str(folder)!r} was not written by save_mapped, or not to its end.")
    y = np.load(path / "y.npy")
    if (path / "X.npy").exists():
        return np.load(path / "X.npy", mmap_mode="r"), y
    maps = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in _CSR}
    # The constructor would read all indices, and might copy them to another type.
    X = sp.csr_matrix(tuple(np.load(path / "shape.npy")), dtype=maps["data"].dtype)
    for name, array in maps.items():
        setattr(X, name, np.asarray(array))
    X.has_canonical_format = True
    return X, y


class _GrowingArray:
    """A ``.npy`` file to which rows are appended."""

    def __init__(self, path: Path, dtype: np.dtype, row: tuple[int, ...] = ()):
        self.file = open(path, "wb")  # noqa: SIM115 - the writer closes it
        self._dtype = dtype
        self._shape = (0, *row)
        self._write_header()

    def append(self, array: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(array, self._dtype).tobytes())
        self._shape = (self._shape[0] + len(array), *self._shape[1:])

    def finish(self) -> None:
        """Write the header again; numpy pads it, so its length stays the same."""
        self.file.seek(0)
        self._write_header()
        self.file.close()

    def _write_header(self) -> None:
        header = np.lib.format.header_data_from_array_1_0(np.empty(0, self._dtype))
        np.lib.format.write_array_header_1_0(self.file, header | {"shape": self._shape})


class _Writer:
    """The arrays of one folder. The shape is written last and marks it as complete."""

    def __init__(self, folder: Path, dtype: np.dtype, n_features: int | None):
        self._folder = folder
        self._dtype = dtype
        self._n_features = n_features
        self._width = 0
        self._n_entries = 0
        self._targets: list[np.ndarray] = []
        self._files: dict[str, _GrowingArray] = {}

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *exception: object) -> None:
        for array in self._files.values():
            array.file.close()

    def append(self, X: Any, y: np.ndarray, is_text: bool, name: str) -> None:
        """Append the rows of a block; a text is as wide as the largest index so far."""
        self._check(X, is_text, name)
        if not self._files:
            self._open_files(X)
        self._targets.append(y)
        if "X" in self._files:
            self._files["X"].append(X)
            return
        self._files["data"].append(X.data)
        self._files["indices"].append(X.indices)
        self._files["indptr"].append(X.indptr[1:] + np.int64(self._n_entries))
        self._n_entries += len(X.data)

    def finish(self) -> None:
        if not self._targets:
            raise ValueError("There are no rows in the blocks.")
        for array in self._files.values():
            array.finish()
        if "indptr" in self._files:  # scipy needs one type for both
            if self._n_entries > _INT32:
                self._convert("indices", np.int64)
            else:
                self._convert("indptr", np.int32)
        y = np.concatenate(self._targets)
        width = self._width if self._n_features is None else self._n_features
        np.save(self._path("y"), y)
        np.save(self._path("shape"), np.array([len(y), width]))

    def _check(self, X: Any, is_text: bool, name: str) -> None:
        if self._files and sp.issparse(X) == ("X" in self._files):
            kinds = ("sparse", "dense") if sp.issparse(X) else ("dense", "sparse")
            raise ValueError(f"X of {name} is {kinds[0]}, but {kinds[1]} in the blocks before.")
        width, known = X.shape[1], self._n_features
        if known is None and not is_text:
            known = max(width, self._width)
        if known is not None and width != known and not (is_text and width < known):
            raise ValueError(f"X of {name} has {width} features, but {known} are expected.")
        if width > _INT32:
            raise ValueError(f"X of {name} has {width} features; at most {_INT32} can be stored.")
        self._n_features, self._width = known, max(self._width, width)

    def _open_files(self, X: Any) -> None:
        if not sp.issparse(X):
            self._files["X"] = _GrowingArray(self._path("X"), self._dtype, X.shape[1:])
            return
        for name, dtype in zip(_CSR, (self._dtype, np.int32, np.int64), strict=True):
            self._files[name] = _GrowingArray(self._path(name), np.dtype(dtype))
        self._files["indptr"].append(np.zeros(1))

    def _convert(self, name: str, dtype: type) -> None:
        """Rewrite one of the arrays with another type of integers."""
        path, old = self._path(name), self._folder / "old.npy"
        os.replace(path, old)
        array, converted = np.load(old, mmap_mode="r"), _GrowingArray(path, np.dtype(dtype))
        for start in range(0, len(array), _CHUNK):
            converted.append(array[start : start + _CHUNK])
        converted.finish()
        del array  # Windows cannot remove a mapped file
        os.remove(old)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npy"


def _chunks(block: Block, dtype: np.dtype, zero_based: bool) -> Iterator[tuple]:
    """Yield (X, y, whether it is a text) for a few rows at a time."""
    if not isinstance(block, str | os.PathLike):
        if not (isinstance(block, tuple | list) and len(block) == 2):
            raise ValueError(
                "Each of blocks must be a file, or a pair (X, y) of arrays or files; got "
                f"{type(block).__name__}. A single pair is blocks=[(X, y)]."
            )
        yield from _slices(*(_array(part) for part in block))
        return
    extension = os.path.splitext(block)[1].lower()
    if extension == ".npy":
        raise ValueError(f"{str(block)!r} holds one array: give a pair (X, y), each with a file.")
    if extension == ".npz":
        with np.load(block) as arrays:
            if not {"X", "y"} <= set(arrays.files):
                raise ValueError(
                    f"{str(block)!r} has no arrays X and y: for a sparse matrix that scipy saved, "
                    "give a pair (X, y), each with a file."
                )
            yield from _slices(arrays["X"], arrays["y"])
        return
    for X, y in svmlight_chunks(block, _CHUNK, dtype=dtype, zero_based=zero_based):
        yield X, y, True


def _array(part: Any) -> Any:
    if not isinstance(part, str | os.PathLike):
        return part if sp.issparse(part) else np.asanyarray(part)  # with a mask, to refuse it
    is_sparse = os.path.splitext(part)[1].lower() == ".npz"
    try:
        return sp.load_npz(part) if is_sparse else np.load(part, mmap_mode="r")
    except ValueError as error:
        raise ValueError(
            f"X and y of a pair must be arrays, or files of numpy (.npy) or of sparse arrays "
            f"(.npz); {os.fspath(part)!r} cannot be read: {error}"
        ) from None


def _slices(X: Any, y: np.ndarray) -> Iterator[tuple]:
    refuse_misread("X", X)
    refuse_misread("y", y, dates=True)
    if X.dtype.kind not in "fiubO":
        raise ValueError(f"X must hold real numbers, got the type {X.dtype}.")
    y = np.asarray(y)
    if X.ndim != 2 or y.shape[:1] != X.shape[:1]:
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape} do not match.")
    if y.dtype.hasobject:
        raise ValueError("y holds Python objects: use numbers, or strings of a numpy type.")
    if sp.issparse(X):
        X = well_formed(X, "X").tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        yield X, y, False
        return
    n_rows = max(1, _CHUNK // max(1, X.dtype.itemsize * X.shape[1]))
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        yield np.asarray(X[rows]), y[rows], False
