"""Models in files of arrays and JSON, which later versions read and which run no code."""

from __future__ import annotations

import json
import platform
import re
import zipfile
from contextlib import nullcontext
from importlib import import_module
from inspect import isabstract, signature
from os import PathLike, fspath, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy
import sklearn
from numpy.lib import format as npy

import sklearn_bundle
from sklearn_bundle.chain.readers.features import places_of
from sklearn_bundle.core.saved_values import Parts, Reader, Writer, full_name
from sklearn_bundle.core.values import shown

__all__ = ["load", "save"]

# A later one is added when a reader of this one could not understand it: for a new class, too, and
# for a new parameter.
_FORMAT = 1
_MODEL = "model.json"
_NO_COMPRESSION = zipfile.ZIP_STORED  # so that a file needs no more memory than it is long
_TEXT = "utf-8", "surrogatepass"  # words are whatever their readers made of them
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest of a zip file: equal models make equal files

_ESTIMATORS = (
    *("BMRMClassifier", "BMRMClassifierCV", "BMRMNoveltyDetector", "BMRMRanker", "BMRMRegressor"),
    *("BMRMRegressorCV", "PragamSVC", "SDCACRF", "SDCACRFCV", "StructuredSVM"),
    *("SwapNoveltyDetector", "SwapSVC", "SwapSVCCV", "SwapSVR", "SwapSVRCV"),
)
# Public modules of what estimators hold, and the class that these derive from.
_PARTS = {"losses": "Loss", "regularizers": "Regularizer", "models": "StructuredModel"}
# Fitted attributes with an underscore in front, which the file leaves out.
_PRIVATE = ("regions", "scores", "offsets", "class_maps", "form")
_FITTED = re.compile(r"[A-Za-z]\w*_")
_INTERNAL = {"Kernel": "kernel_function", "KernelScores": "kernel_scores"}  # of kernel.values

File = str | PathLike[str] | BinaryIO


def save(estimator: Any, file: File) -> None:
    """Write an estimator to a file that this and later versions of the package can load.

    The file has the parameters, the fitted attributes and the certificate, as JSON and arrays.
    Use it to keep a model for longer than the versions that trained it, or to hand it to others.

    Parameters
    ----------
    estimator : estimator of this package
        Fitted or not. An instance of a class derived from it is refused.
    file : str, path-like or binary file
        Where to write; a file that is there is replaced once all is written. Any name will do.

    Raises
    ------
    TypeError
        If it is no estimator of this package, or holds anything but numbers, strings, arrays,
        lists, tuples and dicts of these, and objects of this package. Functions, random generators,
        data frames and losses of your own are refused by name, before anything is written.

    See Also
    --------
    load : Reads the file.
    sklearn_bundle.onnx.register : For predictions without Python.

    Notes
    -----
    Callbacks, metadata requests and what ``warm_start=True`` keeps for the next fit are left out.
    The same model gives the same bytes. The user guide describes the format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import sklearn_bundle
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_bundle import SwapSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SwapSVC(C=10.0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sklearn_bundle.save(model, Path(folder, "iris.zip"))
    ...     restored = sklearn_bundle.load(Path(folder, "iris.zip"))
    >>> bool((restored.decision_function(X) == model.decision_function(X)).all())
    True
    """
    name = _name_of(type(estimator))
    if name not in _ESTIMATORS:
        raise TypeError(
            f"save takes an estimator of this package, got one of {full_name(type(estimator))}. "
            "Save the steps of a pipeline one by one, or all of it with skops.io."
        )
    writer = Writer(_parts_of)
    document = {
        "format": _FORMAT,
        "written_by": {
            "sklearn_bundle": sklearn_bundle.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "model": writer.encoded(estimator, name),
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    if hasattr(file, "write"):
        _write(file, text, writer.arrays)
        return
    beside = Path(f"{fspath(file)}.part")  # pyright: ignore[reportArgumentType]
    try:
        _write(beside, text, writer.arrays)
        replace(beside, file)  # pyright: ignore[reportArgumentType]
    finally:
        beside.unlink(missing_ok=True)


def _write(file: Any, text: str, arrays: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w", _NO_COMPRESSION) as archive:
        archive.writestr(zipfile.ZipInfo(_MODEL, _DATE), text.encode(*_TEXT))
        for member, array in arrays.items():
            with archive.open(zipfile.ZipInfo(member, _DATE), "w", force_zip64=True) as out:
                npy.write_array(out, array, allow_pickle=False)


def load(file: File) -> Any:
    """Read an estimator that :func:`save` has written, with this or an earlier version.

    Nothing in the file is executed. Classes are those of this package, found by name.

    Parameters
    ----------
    file : str, path-like or binary file
        The file.

    Returns
    -------
    estimator : object
        With the parameters, the fitted attributes and the predictions of the one that was saved.

    Raises
    ------
    ValueError
        If the file was not written by :func:`save`, is damaged, or has a later format.
    OSError
        If the file cannot be opened.

    See Also
    --------
    save : Writes the file.

    Notes
    -----
    A parameter that did not exist when the file was written has its default. Shapes are compared
    where compiled code relies on them in chains and kernel machines; a file that was changed by
    hand may still hold numbers that make no sense.

    Examples
    --------
    >>> import io
    >>> import sklearn_bundle
    >>> from sklearn_bundle import BMRMRegressor
    >>> file = io.BytesIO()
    >>> sklearn_bundle.save(BMRMRegressor("huber", delta=2.0), file)
    >>> sklearn_bundle.load(file)
    BMRMRegressor(delta=2.0, loss='huber')
    """
    is_open = hasattr(file, "read")
    name = getattr(file, "name", "The file") if is_open else file
    with nullcontext(file) if is_open else open(file, "rb") as source:  # pyright: ignore
        try:
            with zipfile.ZipFile(source) as archive:
                return _read(archive)
        except _LaterFormat as error:
            raise ValueError(f"{name} cannot be read: {error}") from None
        except Exception as error:  # whatever the bytes made of zip, JSON, npy or our own classes
            reason = f"{error}" if isinstance(error, ValueError) else repr(error)
            raise ValueError(
                f"{name} was not written by sklearn_bundle.save, or it is damaged: {reason}"
            ) from error


class _LaterFormat(Exception):
    """The file is one of a later version of this package."""


def _read(archive: zipfile.ZipFile) -> Any:
    if any(member.compress_type != _NO_COMPRESSION for member in archive.infolist()):
        raise ValueError("its members are compressed")
    if _MODEL not in archive.namelist():
        raise ValueError(f"it has no {_MODEL}")
    document = json.loads(archive.read(_MODEL).decode(*_TEXT), parse_constant=_refuse)
    version, written_by = document["format"], document.get("written_by", {})
    if type(version) is not int or version < 1:
        raise ValueError(f"format {shown(version)}")
    if version > _FORMAT:
        raise _LaterFormat(
            f"it has format {version}, of sklearn_bundle "
            f"{written_by.get('sklearn_bundle', 'of a later version')}; this version, "
            f"{sklearn_bundle.__version__}, reads formats up to {_FORMAT}. Update the package."
        )
    estimator = Reader(archive, _made).decoded(document["model"])
    if _name_of(type(estimator)) not in _ESTIMATORS:
        raise ValueError(f"it holds {shown(estimator)} and no estimator")
    return estimator


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# ---- classes and their names -----------------------------------------------------------------


def _class_of(name: Any) -> type:
    """The class that a name in a file stands for."""
    if name in _ESTIMATORS:
        return getattr(sklearn_bundle, name)
    if name in _INTERNAL:
        return getattr(import_module(f"sklearn_bundle.kernel.values.{_INTERNAL[name]}"), name)
    module, _, own = name.partition(".")
    if module in _PARTS:
        public = import_module(f"sklearn_bundle.{module}")
        kind = getattr(public, own) if own in public.__all__ else None
        if isinstance(kind, type) and issubclass(kind, getattr(public, _PARTS[module])):
            return kind
    raise ValueError(f"it names the class {shown(name)}, which this version does not have")


def _name_of(kind: type) -> str | None:
    """Its name in files; None if it is not one of them."""
    own = kind.__name__
    if not kind.__module__.startswith("sklearn_bundle.") or isabstract(kind):
        return None
    for name in (own, *(f"{module}.{own}" for module in _PARTS)):
        try:
            found = _class_of(name)
        except ValueError:
            continue
        if found is kind:
            return name
    return None


def _parts_of(value: Any) -> Parts | None:
    """The name of an object's class, its parameters and its fitted attributes."""
    name = _name_of(type(value))
    if name is None:
        return None
    given = {own: getattr(value, own) for own in signature(type(value)).parameters}
    return name, {"parameters": given, "fitted": _fitted(value)}


def _fitted(value: Any) -> dict[str, Any]:
    kept = vars(value).items()
    fitted = {own: part for own, part in kept if own.endswith("_") and own[0] != "_"}
    return fitted | {own[1:]: part for own, part in kept if own[0] == "_" and own[1:] in _PRIVATE}


def _made(name: str, groups: dict[str, dict[str, Any]]) -> Any:
    """An object of its parts."""
    kind, given = _class_of(name), groups["parameters"]
    unknown = sorted(given.keys() - signature(kind).parameters.keys())
    if unknown:
        raise ValueError(f"{name} has no parameter {unknown[0]!r} in this version")
    made = kind(**given)
    for own, value in groups["fitted"].items():
        if own not in _PRIVATE and not _FITTED.fullmatch(own):
            raise ValueError(f"{own!r} is not the name of a fitted attribute")
        setattr(made, f"_{own}" if own in _PRIVATE else own, value)
    _complete(made)
    return made


def _complete(made: Any) -> None:
    """Make what the file leaves out, and compare the shapes that compiled code relies on."""
    own = vars(made)
    if type(made).__name__ == "KernelScores":
        counts, n = made.n_support, made.vectors.shape[0]
        _require("dual_coef", made.dual_coef, (len(counts) - 1 or 1, n))
        _require("intercept", made.intercept, (len(counts) * (len(counts) - 1) // 2 or 1,))
        if counts.sum() != n:
            raise ValueError(f"n_support adds up to {counts.sum()}, but vectors has {n} rows")
    if "_scores" in own:
        vectors, kernel = made._scores.vectors, made._scores.kernel.name
        if kernel == "precomputed":
            _require_within("support_", vectors, 0, made.n_features_in_ - 1)
        elif kernel in ("rbf", "linear", "poly"):
            _require("vectors", vectors, (vectors.shape[0], made.n_features_in_))
        else:
            raise ValueError(f"there is no kernel {shown(kernel)}")
        if "classes_" in own:
            _require("n_support", made._scores.n_support, (len(made.classes_),))
    if "attribute_names_" in own:
        made._vocabulary = places_of(made.attribute_names_)
    if "transitions_" in own:
        K, d = len(made.classes_), int(made.n_features_in_)
        shapes = {"coef_": (K, d), "first_": (K, d), "last_": (K, d), "transitions_": (K, K)}
        shapes |= dict.fromkeys(("intercept_", "start_", "end_"), (K,))
        for name in own.keys() & shapes:
            _require(name, own[name], shapes[name])
    if "lengths_" in own:
        K, lengths = len(made.classes_), made.model_.max_lengths_
        _require("max_lengths_", lengths, (K,))
        _require("lengths_", made.lengths_, (K, made.lengths_.shape[1]))
        _require_within("max_lengths_", lengths, 1, made.lengths_.shape[1])
    if "pairs_" in own:
        pairs, L, d = made.model_.edges_, int(made.model_.n_labels_), int(made.n_features_in_)
        _require("edges_", pairs, (len(pairs), 2))
        _require_within("edges_", pairs, 0, L - 1)
        _require("w_", made.w_, (L * (d + 1) + 4 * len(pairs),))


def _require(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}")


def _require_within(name: str, array: Any, low: int, high: int) -> None:
    if array.dtype.kind not in "iu" or not ((array >= low) & (array <= high)).all():
        raise ValueError(f"{name} must hold integers from {low} to {high}")
