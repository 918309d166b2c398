"""The number of threads of BLAS: limited while a fit runs, and restored after it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_inside: dict[object, int] = {}  # the threads that each caller requests
_before: list[int] = []  # threads of each library before the first of them


@contextmanager
def blas_threads(n_threads: int) -> Iterator[None]:
    """Inside, a product of matrices uses at most this many threads.

    Most libraries have one number for the process. Of all that are inside, in any thread, the
    smallest number counts, and the last one to leave restores what was there before the first.
    threadpoolctl alone would leave a single thread after fits that overlap, and since its version
    3.8 it ignores limits from other threads than the first.
    """
    of_threads, _ = _libraries()
    key = object()
    try:
        _enter(key, n_threads)
        with of_threads.limit(limits=n_threads):
            yield
    finally:
        try:
            _leave(key)
        except KeyboardInterrupt:
            _leave(key)
            raise


@cache
def _libraries() -> tuple[ThreadpoolController, list[Any]]:
    """Those with a number for each thread, and those with one for the process.

    They include scipy's BLAS, which compiled code calls.
    """
    import scipy.linalg.cython_blas  # noqa: F401

    blas = ThreadpoolController().select(user_api="blas")
    of_threads = blas.select(threading_layer="openmp")
    others = [one for one in blas.lib_controllers if one not in of_threads.lib_controllers]
    return of_threads, others


def _enter(key: object, n_threads: int) -> None:
    with _lock:
        if not _inside:
            _before[:] = [library.get_num_threads() for library in _libraries()[1]]
        _inside[key] = n_threads
        _set()


def _leave(key: object) -> None:
    with _lock:
        _inside.pop(key, None)
        _set()


def _set() -> None:
    for library, before in zip(_libraries()[1], _before, strict=False):  # before may be empty
        # Since threadpoolctl 3.8 only the first thread to set the number may set it again.
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        library.set_num_threads(min(_inside.values(), default=before))
        if release is not None:
            release(force=True)


def _after_fork() -> None:
    """The threads that were inside are not in the new process."""
    global _lock
    _lock = Lock()
    _inside.clear()
    _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
