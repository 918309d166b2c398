"""Data sets of OpenML."""

import importlib.util
import os
from numbers import Integral, Real
from urllib.error import URLError

from sklearn import datasets

from sklearn_bundle.core.parameters import checked_parameters
from sklearn_bundle.core.sklearn_internals import Interval, StrOptions

# Where messages send users without the data.
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_OPENML = {
    "name": [str],
    "version": [Interval(Integral, 1, None, closed="left"), StrOptions({"active"})],
    "target_column": [str, list, None],
    "data_home": [str, os.PathLike, None],
    "as_frame": ["boolean"],
    "n_retries": [Interval(Integral, 1, None, closed="left")],
    "delay": [Interval(Real, 0, None, closed="neither")],
}


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
    """Download a data set from OpenML, or read it from disk if it was downloaded before.

    It calls scikit-learn's :func:`~sklearn.datasets.fetch_openml`, and adds instructions to the
    error without a network.

    Parameters
    ----------
    name : str
        Name of the set.
    version : int or "active", default="active"
        Version of the set. Sets of the same name may differ a lot, so give a number.
    target_column : str, list of str or None, default="default-target"
        Columns that become y; by default OpenML's target.
    data_home : str or path-like, default=None
        Folder for downloaded files; None means ``sklearn.datasets.get_data_home()``.
    as_frame : bool, default=False
        Whether to return data frames, which needs pandas. If False, X is an array in which symbols
        are numbered.
    n_retries : int, default=3
        Number of retries after a network error, at least 1.
    delay : float, default=1.0
        Seconds between retries.

    Returns
    -------
    X : ndarray, CSR matrix or data frame of shape (n_samples, n_features)
        Features.
    y : ndarray or Series of shape (n_samples,), or data frame
        Targets; labels are strings.

    Raises
    ------
    ConnectionError
        If OpenML cannot be reached; the message says how to get the data by hand, and the cause is
        the original error.
    ValueError
        If OpenML has no such set.

    See Also
    --------
    load_svmlight : A file that is already here.

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
            # "auto" needs pandas, even for arrays
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
            f"https://www.openml.org/search?type=data&q={name}, and read the file with "
            f"load_svmlight."
        ) from error
