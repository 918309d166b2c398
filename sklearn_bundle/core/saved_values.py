"""Values of models as JSON and arrays, and back: nothing in a file is executed."""

import math
import re
from collections.abc import Callable
from itertools import chain, count
from typing import Any
from zipfile import ZipFile

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from sklearn_bundle.core.values import plain, shown

_LONGEST = 60  # letters of a member's name: most file systems take 255, if it is unpacked
_NUMBERS = "biufSUVmM"  # kinds of arrays in npy files
_LARGEST = 8  # bytes of a float that every machine has: longdouble differs
_SCALAR = re.compile(r"[<>=|]?[biufU]\d+")
_MEMBER = re.compile(r"arrays/\w+\.npy")

Parts = tuple[str, dict[str, dict[str, Any]]]


class Writer:
    """Values as JSON; arrays apart, by the names of their members in the file.

    Parameters
    ----------
    parts_of : callable
        For an object: the name of its class in files, and its parts by group and name; None if it
        is not one of those that a file can hold.
    """

    def __init__(self, parts_of: Callable[[Any], Parts | None]) -> None:
        self._parts_of = parts_of
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}  # by id: an array that two attributes share is kept once

    def encoded(self, value: Any, place: str) -> Any:
        """``place`` is where the value stands, for messages and for the names of arrays."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return [self.encoded(entry, place) for entry in value]
        if type(value) is tuple:
            return {"tuple": [self.encoded(entry, place) for entry in value]}
        if type(value) is dict:
            items = value.items()
            pairs = [[self.encoded(k, place), self.encoded(v, f"{place}.{k}")] for k, v in items]
            return {"dict": pairs}
        if isinstance(value, np.generic) and value.dtype.kind in "biufU" and _is_portable(value):
            return {"scalar": value.dtype.str, "value": self.encoded(value.item(), place)}
        if isinstance(value, np.ma.MaskedArray):
            parts = {"masked": value.data, "mask": value.mask, "fill_value": value.fill_value}
            return {name: self.encoded(part, f"{place}.{name}") for name, part in parts.items()}
        if isinstance(value, np.ndarray):
            return self._array(np.asarray(value), place)
        if sp.issparse(value):
            return self._sparse(value, place)
        found = self._parts_of(value)
        if found is not None:
            name, groups = found
            return {"object": name} | {
                group: {own: self.encoded(part, f"{place}.{own}") for own, part in parts.items()}
                for group, parts in groups.items()
            }
        number = plain(value)  # a fraction, say
        if type(number) not in (bool, int, float):
            raise cannot_save(value, place)
        return self.encoded(number, place)

    def _array(self, array: np.ndarray, place: str) -> Any:
        if array.dtype.hasobject:
            entries = [self.encoded(entry, place) for entry in array.ravel().tolist()]
            return {"objects": entries, "shape": list(array.shape)}
        if array.dtype.kind not in _NUMBERS or not _is_portable(array):
            raise cannot_save(array, place, f" of dtype {array.dtype}")
        name = self._names.get(id(array))
        if name is None:
            stem = re.sub(r"[^0-9A-Za-z]+", "_", place.partition(".")[2])[:_LONGEST]
            names = (f"arrays/{stem}{end}.npy" for end in chain([""], map("_{}".format, count(2))))
            name = next(name for name in names if name not in self.arrays)
            self._names[id(array)], self.arrays[name] = name, array
        return {"array": name}

    def _sparse(self, matrix: Any, place: str) -> Any:
        rows = matrix.tocsr()
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        return {
            "sparse": matrix.format,
            "is_array": isinstance(matrix, sp.sparray),
            "shape": list(matrix.shape),
            **{name: self._array(part, f"{place}.{name}") for name, part in parts.items()},
        }


def _is_portable(value: Any) -> bool:
    return value.dtype.kind != "f" or value.dtype.itemsize <= _LARGEST


def cannot_save(value: Any, place: str, further: str = "") -> TypeError:
    kind = full_name(type(value))
    code = " The code of a function cannot be saved." if callable(value) else ""
    return TypeError(
        f"{place} cannot be saved: it is an instance of {kind}{further}, and a file holds numbers, "
        f"strings, arrays and objects of this package.{code} Set it to one of these, or use pickle "
        "or skops."
    )


class Reader:
    """Values from JSON, and from the arrays of a file.

    Parameters
    ----------
    archive : ZipFile
        The file.
    made : callable
        Makes an object of the name of its class, and of its parts by group and name.
    """

    def __init__(
        self, archive: ZipFile, made: Callable[[str, dict[str, dict[str, Any]]], Any]
    ) -> None:
        self._archive, self._made = archive, made
        self._arrays: dict[str, np.ndarray] = {}
        self._kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "float": lambda of: float(of["float"]),
            "tuple": lambda of: tuple(map(self.decoded, of["tuple"])),
            "dict": lambda of: {self.decoded(k): self.decoded(v) for k, v in of["dict"]},
            "scalar": self._scalar,
            "masked": self._masked,
            "array": lambda of: self._array(of["array"]),
            "objects": self._objects,
            "sparse": self._sparse,
            "object": self._object,
        }

    def decoded(self, value: Any) -> Any:
        if type(value) is list:
            return [self.decoded(entry) for entry in value]
        if type(value) is not dict:
            return value
        kind = next(iter(value), None)
        if kind not in self._kinds:
            raise ValueError(f"it has a value of the unknown kind {shown(kind)}")
        return self._kinds[kind](value)

    def _array(self, name: str) -> np.ndarray:
        if not _MEMBER.fullmatch(name):
            raise ValueError(f"{shown(name)} is not the name of an array")
        if name not in self._arrays:
            with self._archive.open(name) as member:
                array = npy.read_array(member, allow_pickle=False)
                if member.read(1):  # this also compares the checksum
                    raise ValueError(f"{name} is longer than its array")
            native = array.dtype.newbyteorder("=")
            self._arrays[name] = array.astype(native, copy=False)
        return self._arrays[name]

    def _scalar(self, of: dict[str, Any]) -> Any:
        if not _SCALAR.fullmatch(of["scalar"]):
            raise ValueError(f"{shown(of['scalar'])} is not a type of numbers")
        return np.dtype(of["scalar"]).type(self.decoded(of["value"]))

    def _masked(self, of: dict[str, Any]) -> Any:
        data, mask, fill_value = (
            self.decoded(of[part]) for part in ("masked", "mask", "fill_value")
        )
        return np.ma.MaskedArray(data, mask, fill_value=fill_value)

    def _objects(self, of: dict[str, Any]) -> np.ndarray:
        array = np.empty(len(of["objects"]), dtype=object)
        for k, entry in enumerate(of["objects"]):
            array[k] = self.decoded(entry)
        return array.reshape([int(size) for size in of["shape"]])

    def _sparse(self, of: dict[str, Any]) -> Any:
        parts = tuple(self.decoded(of[part]) for part in ("data", "indices", "indptr"))
        rows = (sp.csr_array if of["is_array"] else sp.csr_matrix)(parts, shape=tuple(of["shape"]))
        rows.check_format(full_check=True)
        return rows.asformat(of["sparse"])

    def _object(self, of: dict[str, Any]) -> Any:
        groups = {group: parts for group, parts in of.items() if group != "object"}
        return self._made(
            of["object"],
            {
                group: {own: self.decoded(part) for own, part in parts.items()}
                for group, parts in groups.items()
            },
        )


def full_name(kind: type) -> str:
    """The name of a class with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"
