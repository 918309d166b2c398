"""Clocks, threads and medians of the contests of linear classifiers."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from _measure import Rung, quiet_single_thread
from threadpoolctl import threadpool_limits

ENOUGH = 30.0  # seconds in all, after which a fit is not repeated

Clock = Callable[[Callable[[], Any]], tuple[float, Any]]


def wall_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds on the wall clock during ``run()``, and what it returned."""
    gc.collect()
    start = time.perf_counter()
    value = run()
    return time.perf_counter() - start, value


@contextmanager
def quiet_threads(n_threads: int) -> Iterator[None]:
    """BLAS in one thread, OpenMP in ``n_threads``, and no warnings of fits that a ladder ends."""
    with quiet_single_thread(), threadpool_limits(n_threads, user_api="openmp"):
        yield


def time_rungs(
    fits: Sequence[tuple[Rung, Callable[[], Any]]],
    repeat: int,
    clock: Clock,
    enough: float = ENOUGH,
) -> None:
    """Set the medians of all rungs, whose fits take turns; a slow one has fewer of them, or none.

    Where a fit is not repeated its first run counts.
    """
    taken: list[list[float]] = [[] for _ in fits]
    for _ in range(repeat):
        for (rung, fit), seconds in zip(fits, taken, strict=True):
            if rung.first_seconds + sum(seconds) <= enough:
                seconds.append(clock(fit)[0])
    for (rung, _), seconds in zip(fits, taken, strict=True):
        rung.seconds = median(seconds or [rung.first_seconds])
