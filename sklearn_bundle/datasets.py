"""Readers of data files, and data that stay on disk."""

import importlib.util
import os
from collections.abc import Sequence
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from urllib.error import URLError

from sklearn import datasets
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_bundle._conll import load_conll
from sklearn_bundle._files import opener
from sklearn_bundle._mapped import open_mapped, save_mapped
from sklearn_bundle._parameters import checked_parameters
from sklearn_bundle._values import shown

__all__ = [
    "fetch_openml",
    "load_conll",
    "load_dataset",
    "load_svmlight",
    "open_mapped",
    "save_mapped",
]

_FOLDER = "SKLEARN_BUNDLE_DATA"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_SVMLIGHT = {
    "n_features": [Interval(Integral, 1, None, closed="left"), None],
    "query_id": ["boolean"],
    "zero_based": ["boolean", StrOptions({"auto"})],
}
_DATASET = {"name": [str], "folder": [str, os.PathLike, None]}
_OPENML = {
    "name": [str],
    "version": [Interval(Integral, 1, None, closed="left"), StrOptions({"active"})],
    "target_column": [str, list, None],
    "data_home": [str, os.PathLike, None],
    "as_frame": ["boolean"],
    "n_retries": [Interval(Integral, 1, None, closed="left")],
    "delay": [Interval(Real, 0, None, closed="neither")],
}
_SUFFIXES = [text + packed for text in ("", ".txt") for packed in ("", ".gz", ".bz2", ".xz")]


def load_svmlight(
    paths: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    n_features: int | None = None,
    query_id: bool = False,
    zero_based: bool | str = "auto",
) -> tuple:
    """Read files in the format of SVMlight and LIBSVM, such as a training and a test set.

    scikit-learn's :func:`~sklearn.datasets.load_svmlight_files`, which does the work, does not read
    .xz.

    Parameters
    ----------
    paths : str, path-like or sequence of them
        One file, or several that share their features: all get as many columns as the widest. A
        name that ends in .gz, .bz2 or .xz is of a compressed file.
    n_features : int, default=None
        Number of columns; None takes the largest index in any of the files.
    query_id : bool, default=False
        Whether to return the numbers after ``qid:`` too.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has the index 0. "auto" takes 1 for the first if no file has a 0.

    Returns
    -------
    X : CSR matrix of shape (n_samples, n_features)
        Features, float64, with sorted indices.
    y : ndarray of shape (n_samples,)
        Labels or targets as they stand in the file, float64.
    qid : ndarray of shape (n_samples,)
        Numbers of the queries, int64. Only with `query_id`.

        With several files: the same for the next one, all in one tuple.

    Raises
    ------
    OSError
        For a file that cannot be read.
    ValueError
        For text in another format, indices that do not ascend, an index beyond `n_features`, and an
        empty sequence.
    TypeError
        If `paths` is neither a path nor a sequence of them, such as an open file.

    See Also
    --------
    load_dataset : A set by its name.

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
        "load_svmlight",
        _SVMLIGHT,
        n_features=n_features,
        query_id=query_id,
        zero_based=zero_based,
    )
    with ExitStack() as stack:
        files = [stack.enter_context(opener(path)(path, "rb")) for path in paths]
        return tuple(
            datasets.load_svmlight_files(
                files, n_features=n_features, query_id=query_id, zero_based=zero_based
            )
        )


def load_dataset(name: str, folder: str | os.PathLike | None = None) -> tuple | None:
    """A data set from a folder of yours, or None if no folder is given.

    Examples use it to run on a real set where there is one, and on something else everywhere; so a
    folder that only the environment names need not have every set.

    Parameters
    ----------
    name : str
        Name of the set, such as "a9a".
    folder : str or path-like, default=None
        The folder. None means that of the environment variable SKLEARN_BUNDLE_DATA.

    Returns
    -------
    None or tuple of (X, y) or (X, y, X_test, y_test)
        None if `folder` is None and SKLEARN_BUNDLE_DATA is not set or empty, or names a folder
        without the set; an example then takes other data. From the first of these that is there:

        * A file ``name`` or ``name.txt`` in the format of SVMlight, plain or compressed (.gz, .bz2,
          .xz), as the LIBSVM page has them [1]_, read by :func:`load_svmlight`. A file ``name.t``,
          so compressed or not, is the test set.
        * ``name.npz`` with a ``load.py`` beside it. Its function ``load(name)`` is called and reads
          the set: a folder with a load.py runs code.

    Raises
    ------
    FileNotFoundError
        If `folder` has none of them, with their names in the message; and if there is no such
        folder, be it from `folder` or from SKLEARN_BUNDLE_DATA.
    NotADirectoryError
        If there is a file in place of the folder.

    See Also
    --------
    load_svmlight : Files with any name.

    References
    ----------
    .. [1] https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import dump_svmlight_file, load_iris
    >>> from sklearn_bundle.datasets import load_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dump_svmlight_file(*load_iris(return_X_y=True), os.path.join(folder, "iris.txt"))
    ...     X, y = load_dataset("iris", folder)
    >>> X.shape, y.shape
    ((150, 4), (150,))
    """
    checked_parameters("load_dataset", _DATASET, name=name, folder=folder)
    given = folder is not None
    folder = folder if given else os.environ.get(_FOLDER, "")
    if not given and not folder:
        return None
    if not os.path.isdir(folder):
        error = NotADirectoryError if os.path.exists(folder) else FileNotFoundError
        source = "The parameter folder" if given else f"The environment variable {_FOLDER}"
        raise error(f"{source} must be an existing folder, got {os.fspath(folder)!r}.")
    folder = Path(folder)
    train, test = (_first(folder, stem) for stem in (name, f"{name}.t"))
    if train is not None:
        return load_svmlight([train] if test is None else [train, test])
    packed, reader = folder / f"{name}.npz", folder / "load.py"
    if packed.is_file() and reader.is_file():
        return _module(reader).load(name)
    if not given:
        return None
    raise FileNotFoundError(
        f"There is no data set {name!r} in {str(folder)!r}: it has neither a file in svmlight's "
        f"format called {', '.join(name + suffix for suffix in _SUFFIXES)} nor {packed.name} with "
        f"load.py beside it. Many sets can be downloaded by hand from {_LIBSVM}."
    )


def _first(folder: Path, stem: str) -> Path | None:
    """The first of the files that a set may be in."""
    paths = [folder / f"{stem}{suffix}" for suffix in _SUFFIXES]
    return next((path for path in paths if path.is_file()), None)


def _module(path: Path) -> ModuleType:
    """The module in a file, which need not lie on the path of imports."""
    spec = importlib.util.spec_from_file_location(f"_{_FOLDER.lower()}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fetch_openml(
    name: str,
    *,
    version: int | str = "active",
    target_column: str | list[str] | None = "default-target",
    data_home: str | os.PathLike | None = None,
    as_frame: bool = False,
    n_retries: int = 3,
    delay: float = 1.0,
) -> tuple:
    """Download a data set from OpenML, or read it from disk if that was done before.

    scikit-learn's :func:`~sklearn.datasets.fetch_openml`, which does the work, leaves you with
    "urlopen error" where there is no network.

    Parameters
    ----------
    name : str
        Name of the set.
    version : int or "active", default="active"
        Version of the set; sets of one name may differ much, so give a number.
    target_column : str, list of str or None, default="default-target"
        Columns that become y; by default what OpenML has as the target.
    data_home : str or path-like, default=None
        Folder that keeps what was downloaded; None means ``sklearn.datasets.get_data_home()``.
    as_frame : bool, default=False
        Whether to return data frames, for which pandas has to be installed. If not, X is an array
        and symbols in it are numbered.
    n_retries : int, default=3
        How often to try again after an error of the network, at least once.
    delay : float, default=1.0
        Seconds between two trials.

    Returns
    -------
    X : ndarray, CSR matrix or data frame of shape (n_samples, n_features)
        Features.
    y : ndarray or Series of shape (n_samples,), or data frame
        Targets; labels are strings.

    Raises
    ------
    ConnectionError
        If OpenML cannot be reached, with what to do by hand; its cause is the original error.
    ValueError
        If OpenML has no such set.

    See Also
    --------
    load_dataset : A set from a folder of yours.

    Examples
    --------
    >>> from sklearn_bundle.datasets import fetch_openml
    >>> X, y = fetch_openml("phoneme", version=1)  # doctest: +SKIP
    """
    version, n_retries, delay, *_ = checked_parameters(
        "fetch_openml",
        _OPENML,
        version=version,
        n_retries=n_retries,
        delay=delay,
        name=name,
        target_column=target_column,
        data_home=data_home,
        as_frame=as_frame,
    )
    home = datasets.get_data_home(data_home)
    try:
        return datasets.fetch_openml(
            name,
            version=version,
            target_column=target_column,
            data_home=home,
            as_frame=as_frame,
            # "auto" takes pandas, even for arrays
            parser="auto" if importlib.util.find_spec("pandas") else "liac-arff",
            return_X_y=True,
            n_retries=n_retries,
            delay=delay,
        )
    except (URLError, TimeoutError, ConnectionError) as error:
        raise ConnectionError(
            f"The data set {name!r} could not be downloaded from OpenML ({error}). Without a "
            f"network, either make the same call on a machine that has one and copy its folder "
            f"{os.path.join(home, 'openml')!r} to the same place here; or download the set by hand "
            f"from {_LIBSVM} or, saved in svmlight's format, from "
            f"https://www.openml.org/search?type=data&q={name}, put it into a folder as {name}.txt,"
            f" set the environment variable {_FOLDER} to the folder, and call "
            f"load_dataset({name!r})."
        ) from error
