"""Folders of machine code: numba's own, and those before it that can be read but not written.

numba takes the first folder that can be written: the one that ``NUMBA_CACHE_DIR`` names, the
package's own, the user's. It passes over a folder that was filled when an image was built, and that
the user of the image may only read.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator


class _Named(_CacheLocator):
    """Reads in the folder that ``NUMBA_CACHE_DIR`` names."""

    _stamp: ClassVar[bytes] = b""

    def __init__(self, function: Callable[..., Any], source: str):
        self._py_file = source  # numba asks for it in its messages
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return os.path.join(config.CACHE_DIR, self.get_suitable_cache_subpath(self._py_file))

    def get_source_stamp(self) -> bytes:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Named":
        return cls(py_func, py_file)


class _Beside(_Named):
    """Reads in the folder beside the source."""

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
    """Machine code from any of some folders that are read, else from the one that is written."""

    def __init__(self, read: list[FunctionCache], written: Any):
        self._read, self._written = read, written

    @property
    def cache_path(self) -> str | None:
        return self._written.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        for cache in self._read:
            try:
                found = cache.load_overload(sig, target_context)
            except OSError:  # files of somebody else's
                continue
            if found is not None:
                return found
        return self._written.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._written.save_overload(sig, data)

    def flush(self) -> None:
        self._written.flush()


def enable_cache(compiled: Any, stamp: bytes) -> None:
    """Let a dispatcher keep its machine code, where a folder can be written, and find it.

    ``stamp`` says which sources the code is of: that of others is not loaded.
    """
    try:
        compiled.enable_caching()
    except RuntimeError:  # no folder can be written
        pass
    else:
        # Not public in numba; tests/test_jit.py fails if a release moves it.
        compiled._cache._cache_file._source_stamp = stamp
    if getattr(config, "CACHE_LOCATOR_CLASSES", ""):
        return  # the user says where numba is to look
    written = compiled._cache.cache_path
    _Named._stamp = stamp
    read = []
    for kind in (_NamedFolder, _FolderBeside) if config.CACHE_DIR else (_FolderBeside,):
        cache = kind(compiled.py_func)
        if written is not None and os.path.abspath(cache.cache_path) == os.path.abspath(written):
            break
        if os.path.isdir(cache.cache_path):
            read.append(cache)
    if read:
        compiled._cache = _Layers(read, compiled._cache)
