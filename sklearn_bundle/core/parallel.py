"""Threads: over the problems of a fit, over row blocks, and BLAS's own; the use of ``n_jobs``.

In linear models the blocks depend only on the data and their results are summed in a fixed order,
so the number of threads never changes a bit of the result.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from threading import Event, Lock
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit

_MAX_BLOCKS = 16  # more would help only with more than 16 threads, and each has a gradient
_lock = Lock()  # of the two below
_inside: dict[object, int] = {}  # the threads that each caller requests
_before: list[int] = []  # threads of each library before the first of them


def split_threads(n_jobs: int | None, n_subproblems: int) -> tuple[int, int]:
    """Threads over subproblems, and threads over the row blocks of each: one level at a time."""
    threads = effective_n_jobs(n_jobs)
    return (1, threads) if n_subproblems == 1 else (min(threads, n_subproblems), 1)


# ---- the problems of a fit: one-versus-rest has one per class -----------------------------------


def solve_each(
    solve: Callable[[int, float | None], SolverResult],
    finish: Callable[[int, SolverResult], None],
    n_subproblems: int,
    n_threads: int,
    max_time: float | None,
    stop: Event,
) -> tuple[list[SolverResult], bool]:
    """``solve(k, seconds)``, then ``finish(k, result)``, for each subproblem.

    Returns the results and whether Ctrl-C ended them.

    The rest of ``max_time`` is shared equally by the remaining subproblems. After an interruption
    ``stop`` is set and each subproblem returns at its next iteration.
    """
    limit = TimeLimit(max_time)
    results: dict[int, SolverResult] = {}

    def task(k: int) -> None:
        share = limit.part(-(-(n_subproblems - k) // n_threads))
        results[k] = result = solve(k, share.left)
        if result.status is Status.INTERRUPTED:
            stop.set()
        finish(k, result)

    try:
        if n_threads == 1:
            for k in range(n_subproblems):
                task(k)
        else:
            _in_threads(task, n_subproblems, n_threads, stop)
    except KeyboardInterrupt:  # outside of an iteration
        stop.set()
    for k in range(n_subproblems):
        if k not in results:
            task(k)
    return [results[k] for k in range(n_subproblems)], stop.is_set()


def _in_threads(task: Callable[[int], None], n_tasks: int, n_threads: int, stop: Event) -> None:
    """Call ``task`` in threads; after an error or Ctrl-C the others end at their next iteration."""
    pool = ThreadPoolExecutor(n_threads)
    try:
        for future in [pool.submit(task, k) for k in range(n_tasks)]:
            future.result()
    except BaseException:
        stop.set()
        raise
    finally:
        _join(pool)


def _join(pool: ThreadPoolExecutor) -> None:
    """Wait for the threads in any case: they still write to what the caller will read."""
    try:
        pool.shutdown()
    except KeyboardInterrupt:
        _join(pool)
        raise


# ---- row blocks ----------------------------------------------------------------------------------


def row_blocks(n_entries: int, n_rows: int, n_columns: int) -> tuple[int, ...]:
    """Boundaries of blocks of rows; few enough that summing their gradients stays cheap."""
    # so many stored entries take about 0.1 ms, ten times a thread's wake-up
    wanted = n_entries // max(1 << 18, n_columns)
    return _blocks(n_rows, max(1, min(_MAX_BLOCKS, wanted, n_rows)))


def vector_blocks(n_rows: int) -> tuple[int, ...]:
    """Boundaries of blocks of rows for sums over vectors, which need more rows to be worth it."""
    # sums over 1 << 15 rows take from 20 us for a hinge to 300 us for a logarithm
    return _blocks(n_rows, max(1, min(_MAX_BLOCKS, n_rows // (1 << 15))))


@lru_cache(maxsize=64)  # a line search of few rows spent a third of its time on it
def _blocks(n_rows: int, count: int) -> tuple[int, ...]:
    return tuple(np.linspace(0, n_rows, count + 1).astype(np.int64).tolist())


class BlockRunner:
    """Calls a function for each block, in ``n_threads`` threads; a context manager."""

    def __init__(self, n_threads: int):
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def run(self, task: Callable[[int], Any], n_blocks: int) -> None:
        """``task(k)`` for every k below ``n_blocks``; returns when all have ended."""
        if self._pool is None or n_blocks == 1:
            for k in range(n_blocks):
                task(k)
        else:
            list(self._pool.map(task, range(n_blocks)))

    def __enter__(self) -> "BlockRunner":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()


# ---- BLAS: limited while a fit runs, and restored after it ---------------------------------------


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
        _set_threads()


def _leave(key: object) -> None:
    with _lock:
        _inside.pop(key, None)
        _set_threads()


def _set_threads() -> None:
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
