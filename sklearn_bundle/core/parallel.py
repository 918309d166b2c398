"""Threads over row blocks, and the use of ``n_jobs``.

In linear models the blocks depend only on the data and their results are summed in a fixed order,
so the number of threads never changes a bit of the result.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from joblib import effective_n_jobs

_BLOCK_ENTRIES = 1 << 18  # stored entries: about 0.1 ms of work, ten times a thread's wake-up
_BLOCK_ROWS = 1 << 15  # of sums over vectors: from 20 us for a hinge to 300 us for a logarithm
_MAX_BLOCKS = 16  # more would help only with more than 16 threads, and each has a gradient
_COLUMN_SAMPLE = 4096  # entries; they give halves (or thirds) of the columns to about 2 %


def split_threads(n_jobs: int | None, n_subproblems: int) -> tuple[int, int]:
    """Threads over subproblems, and threads over the row blocks of each: one level at a time."""
    threads = effective_n_jobs(n_jobs)
    return (1, threads) if n_subproblems == 1 else (min(threads, n_subproblems), 1)


def row_blocks(n_entries: int, n_rows: int, n_columns: int) -> np.ndarray:
    """Boundaries of blocks of rows; few enough that summing their gradients stays cheap."""
    wanted = n_entries // max(_BLOCK_ENTRIES, n_columns)
    count = max(1, min(_MAX_BLOCKS, wanted, n_rows))
    return np.linspace(0, n_rows, count + 1).astype(np.int64)


def column_ranges(indices: np.ndarray, n_columns: int, n_ranges: int) -> np.ndarray:
    """Boundaries of ranges of columns with about the same number of entries each."""
    if not len(indices):
        return np.array([0, n_columns])
    sample = np.sort(indices[:: max(1, len(indices) // _COLUMN_SAMPLE)])
    inner = [int(sample[k * len(sample) // n_ranges]) for k in range(1, n_ranges)]
    return np.array([0, *inner, n_columns])


@lru_cache(maxsize=64)  # a line search of few rows spent a third of its time on it
def vector_blocks(n_rows: int) -> tuple[int, ...]:
    """Boundaries of blocks of rows for sums over vectors, which need more rows to be worth it."""
    count = max(1, min(_MAX_BLOCKS, n_rows // _BLOCK_ROWS))
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
