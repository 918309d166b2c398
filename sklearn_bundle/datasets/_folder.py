"""Benchmark data out of a folder."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

from sklearn_bundle._parameters import checked_parameters
from sklearn_bundle.datasets._svmlight import load_svmlight

_FOLDER = "SKLEARN_BUNDLE_DATA"  # the environment variable that names the folder
# Where messages send users without the data.
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_DATASET = {"name": [str], "folder": [str, os.PathLike, None]}
# Of files in the format of SVMlight, as the LIBSVM page has them or unpacked.
_SUFFIXES = [text + packed for text in ("", ".txt") for packed in ("", ".gz", ".bz2", ".xz")]


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
        folder, from `folder` or from SKLEARN_BUNDLE_DATA.
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
