"""The problems of a fit, one after the other or in threads: one-versus-rest has one per class."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.values import shown
from sklearn_bundle.jit.announce import seconds_compiled

_NAME = 24  # characters of a class that lines and bars show


def binary_targets(labels: NDArray[np.integer], n_classes: int) -> list[NDArray[np.float64]]:
    """Targets in {-1, +1}: one vector for two classes (the second is +1), else one per class."""
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(labels == k, 1.0, -1.0) for k in positives]


def names_of(classes: NDArray) -> list[str]:
    """The classes as they are called in lines and bars."""
    names = map(shown, classes)
    return [f"{name[: _NAME - 4]}...{name[-1]}" if len(name) > _NAME else name for name in names]


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
    start, compiled = perf_counter(), seconds_compiled()
    results: dict[int, SolverResult] = {}

    def task(k: int) -> None:
        seconds = None
        if max_time is not None:
            spent = perf_counter() - start - (seconds_compiled() - compiled)
            left = max(0.0, max_time - spent)
            seconds = left / -(-(n_subproblems - k) // n_threads)
        results[k] = result = solve(k, seconds)
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
