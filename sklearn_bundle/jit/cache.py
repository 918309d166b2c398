"""Folders of machine code: numba's own, and read-only folders that come before it.

numba uses the first writable folder: the one named by ``NUMBA_CACHE_DIR``, the package's own, or
the user's. It ignores a folder that was filled when an image was built and is read-only for the
user of the image.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator


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


def _stamped(cache: FunctionCache, stamp: bytes) -> FunctionCache:
    """The same cache, which holds only code of the sources with this stamp.

    Of an index numba reads the version first, and the rest only if it is the same: the rest of an
    index of other sources may name classes that no longer exist, and unpickling would fail.
    """
    # Not public in numba; tests/jit/test_jit.py fails if a release moves it.
    file: Any = cache._cache_file
    file._source_stamp, file._version = stamp, f"{numba.__version__} {stamp.hex()}"
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
