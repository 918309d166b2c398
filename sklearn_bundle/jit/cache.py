"""Folders of machine code: numba's own, and read-only folders that come before it.

numba uses the first writable folder: the one named by ``NUMBA_CACHE_DIR``, the package's own, or
the user's. It ignores a folder that was filled when an image was built and is read-only for the
user of the image.

Code for a type that is defined outside the package, such as a loss of a user's own, has files of
its own, named after the source of that type. In the common ones it would outlive an edit of this
source; and where this module is missing, no process could read them.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    NullCache,
    _CacheLocator,
)

_PACKAGE = __name__.split(".", maxsplit=1)[0]
_DIGITS = 16  # of a hash in a file's name: enough for two sources never to share one


def named_folder() -> str:
    """The folder that ``NUMBA_CACHE_DIR`` names, or an empty string."""
    return getattr(config, "CACHE_DIR", "")


class _Named(_CacheLocator):
    """Reads from the folder that ``NUMBA_CACHE_DIR`` names."""

    def __init__(self, function: Callable[..., Any], source: str):
        self._py_file = source  # numba needs it for its messages
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return os.path.join(named_folder(), self.get_suitable_cache_subpath(self._py_file))

    def get_source_stamp(self) -> bytes:
        return b""  # replaced by _stamped

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Named":
        return cls(py_func, py_file)


class _Beside(_Named):
    """Reads from the folder next to the source."""

    def get_cache_path(self) -> str:
        return str(Path(self._py_file).parent / "__pycache__")


class _NamedFiles(CompileResultCacheImpl):
    _locator_classes: ClassVar[list[type]] = [_Named]


class _FilesBeside(CompileResultCacheImpl):
    _locator_classes: ClassVar[list[type]] = [_Beside]


class _NamedFolder(FunctionCache):
    _impl_class = _NamedFiles


class _FolderBeside(FunctionCache):
    _impl_class = _FilesBeside


class _Layers(NullCache):
    """Machine code from one of several read-only folders, or from the writable one."""

    def __init__(self, read: list[FunctionCache], written: Any):
        self._read, self._written = read, written

    @property
    def cache_path(self) -> str | None:
        return self._written.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        for cache in self._read:
            try:
                found = cache.load_overload(sig, target_context)
            except OSError:  # files of another user
                continue
            if found is not None:
                return found
        return self._written.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._written.save_overload(sig, data)

    def flush(self) -> None:
        self._written.flush()


def _modules(kinds: Iterable[Any]) -> Iterator[str]:
    """The modules of the named tuples among types of numba, and of those within them."""
    for kind in kinds:
        if hasattr(kind, "instance_class"):
            yield kind.instance_class.__module__
        yield from _modules(getattr(kind, "types", ()))


class _StampedFile(IndexDataCacheFile):
    """Code of the sources with one stamp.

    Of an index numba reads the version first, and the rest only if it is the same: the rest of an
    index of other sources may name classes that no longer exist, and unpickling would fail.

    Code is kept with the sources and the signature that it is of. numba numbers the files of a
    function, and two processes that compile it at once may give one number to two signatures; what
    is not of this signature is compiled again.
    """

    # Not public in numba; tests/jit/test_jit.py fails if a release moves it.

    def __init__(self, folder: str, base: str, stamp: bytes):
        super().__init__(folder, base, stamp)
        self._version = f"{numba.__version__} {stamp.hex()}"
        self._parts = folder, base, stamp

    def load(self, key: Any) -> Any:
        file = self._file_of(key[0])
        found = None if file is None else IndexDataCacheFile.load(file, key)
        if found is None or found[:2] != (self._version, key):
            return None
        return found[2]

    def save(self, key: Any, data: Any) -> None:
        file = self._file_of(key[0])
        if file is not None:
            IndexDataCacheFile.save(file, key, (self._version, key, data))

    def _file_of(self, signature: Any) -> "_StampedFile | None":
        """This one, or that of sources outside the package; None if these are no files."""
        kinds = getattr(signature, "args", signature)
        outside = {name for name in _modules(kinds) if name.split(".")[0] != _PACKAGE}
        if not outside:
            return self
        digest = hashlib.sha256()
        for name in sorted(outside):
            path = getattr(sys.modules.get(name), "__file__", None)
            if name == "__main__" or path is None:
                return None
            digest.update(name.encode() + b"\0" + Path(path).read_bytes())
        folder, base, stamp = self._parts
        return _StampedFile(folder, f"{base}-{digest.hexdigest()[:_DIGITS]}", stamp)


def _stamped(cache: FunctionCache, stamp: bytes) -> FunctionCache:
    """The same cache, which holds only code of the sources with this stamp."""
    cache._cache_file = _StampedFile(cache._cache_path, cache._impl.filename_base, stamp)
    return cache


def enable_cache(compiled: Any, stamp: bytes) -> None:
    """Let a dispatcher find its machine code, and save it if a folder is writable.

    ``stamp`` identifies the sources of the code: code of other sources is not loaded.
    """
    try:
        compiled.enable_caching()
    except RuntimeError:  # no folder is writable
        pass
    else:
        _stamped(compiled._cache, stamp)
    if getattr(config, "CACHE_LOCATOR_CLASSES", ""):
        return  # the user has chosen numba's folders
    written = compiled._cache.cache_path
    read = []
    for kind in (_NamedFolder, _FolderBeside) if named_folder() else (_FolderBeside,):
        cache = _stamped(kind(compiled.py_func), stamp)
        if written is not None and os.path.abspath(cache.cache_path) == os.path.abspath(written):
            break
        if os.path.isdir(cache.cache_path):
            read.append(cache)
    if read:
        compiled._cache = _Layers(read, compiled._cache)
