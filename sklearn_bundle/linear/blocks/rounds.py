"""Blocks of rows and their rounds: on the workers of a cluster, or in this process.

A round is one ordinary task for each thread of a worker that holds blocks. Blocks are futures: dask
computes them again if their worker dies, and a task runs elsewhere if it has to.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial, reduce
from operator import add
from time import monotonic
from typing import Any

from sklearn_bundle.core.contract import TimeLimit

# Seconds without any worker after which a fit gives up: one needs a few seconds to restart.
PATIENCE = 30.0
_CHECK_SECONDS = 1.0  # between checks of the workers
_CONFIRMED = 2.0  # times the longest round: what the last one may take after the time limit
_LARGE = (
    1 << 20
)  # bytes of arguments, and of an answer: then workers add theirs before they send it


class ClusterLost(RuntimeError):
    """No worker or no scheduler is left, so results will not arrive."""


class ClusterTimeout(TimeoutError):
    """The time limit of a fit passed while it waited for the cluster."""


def current_client() -> Any:
    """The client of ``dask.distributed`` that dask would use, or None."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


class Rounds:
    """Blocks where they are, and what all of them answer.

    Parameters
    ----------
    calls : list of Delayed
        One for each block.
    limit : TimeLimit
        Of all rounds; later :class:`ClusterTimeout` is raised.
    what : str
        What the calls do, for messages.
    """

    def __init__(self, calls: Sequence[Any], limit: TimeLimit, what: str):
        self.client, self.limit, self.n_rounds = current_client(), limit, 0
        self._longest = 0.0
        self._tasks: Any = None
        if self.client is None:
            from dask.base import compute

            self.blocks = list(compute(*calls))
        else:
            self.blocks = self.client.compute(list(calls))
            self._wait(self.blocks, what)

    def only(self, which: Sequence[int]) -> None:
        """Keep these blocks."""
        self.blocks, self._tasks = [self.blocks[k] for k in which], None

    def confirming(self) -> None:
        """Let the last round take a while after the time limit."""
        left, longest = self.limit.left, _CONFIRMED * self._longest
        if left is not None and left < longest:
            self.limit = TimeLimit(longest)

    def map(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """``task(block, *args)`` of each block in order, or sums if these are large."""
        self.n_rounds += 1
        if self.client is None:
            with ThreadPoolExecutor() as pool:
                return list(pool.map(lambda block: task(block, *args), self.blocks))
        began, call, sent = monotonic(), partial(_answers, task, args), []
        if sum(getattr(one, "nbytes", 0) for one in args) > _LARGE:  # to each worker once
            call, sent = partial(_answers, task), self.client.scatter([args], broadcast=True)
        self._tasks = self._tasks or self._placed()
        futures = [
            self.client.submit(
                *(call, *sent, [self.blocks[k] for k in numbers]),
                workers=[worker] if worker else None,
                allow_other_workers=bool(worker),
                pure=False,
            )
            for (worker, _), numbers in self._tasks
        ]
        found: Any = self._wait(futures, f"the round {task.__name__!r}")
        self._longest = max(self._longest, monotonic() - began)
        numbered = [
            (k, answer)
            for (_, numbers), (_, answers) in zip(self._tasks, found, strict=True)
            for k, answer in zip(numbers, answers, strict=False)  # one if they are added
        ]
        if any(
            place[0] != where for (place, _), (where, _) in zip(self._tasks, found, strict=True)
        ):
            self._tasks = None  # a worker is gone, or blocks were copied
        return [answer for _, answer in sorted(numbered, key=lambda pair: pair[0])]

    def total(self, task: Callable[..., Any], *args: Any) -> Any:
        """The sum of all answers, which depends on the blocks alone unless it is large."""
        return reduce(add, self.map(task, *args))

    def _placed(self) -> list[tuple[tuple[str, int], list[int]]]:
        """The numbers of the blocks of each task, by its worker and thread."""
        holders, threads = self.client.who_has(self.blocks), self.client.nthreads()
        held, places = defaultdict[str, int](int), defaultdict[tuple[str, int], list[int]](list)
        for k, block in enumerate(self.blocks):
            worker = min(holders.get(block.key) or [""], key=lambda name: held[name])
            places[worker, held[worker] % threads.get(worker, 1)].append(k)
            held[worker] += 1
        return list(places.items())

    def _wait(self, futures: list[Any], what: str) -> list[Any] | None:
        """The results, None of blocks; the tasks are canceled if these are not awaited."""
        from distributed import wait

        alone_since, is_done = monotonic(), False
        try:
            while not is_done:
                left = self.limit.left
                try:
                    wait(futures, timeout=_CHECK_SECONDS if left is None else min(left, 1.0) + 1e-3)
                    is_done = True
                except TimeoutError:
                    if self.limit.left == 0.0:
                        raise self._late(futures, what) from None
                    if self.client.status == "running" and self.client.nthreads():
                        alone_since = monotonic()
                    elif monotonic() - alone_since > PATIENCE:
                        raise ClusterLost(f"No worker has answered for {PATIENCE:g} s.") from None
            for future in futures if futures is self.blocks else ():
                if future.status == "error":
                    future.result()
            return None if futures is self.blocks else self.client.gather(futures)
        except CancelledError as error:
            raise ClusterLost(
                "The scheduler no longer has the blocks: it was restarted."
            ) from error
        except BaseException:
            self.client.cancel(futures)
            raise

    def _late(self, futures: list[Any], what: str) -> ClusterTimeout:
        done = sum(future.done() for future in futures)
        return ClusterTimeout(
            f"the time limit passed while the cluster was at {what}: {done} of {len(futures)} "
            "tasks were done"
        )


def _answers(task: Callable[..., Any], args: tuple, blocks: list[Any]) -> tuple[str, list[Any]]:
    """What blocks of one worker answer, with its address."""
    from distributed import get_worker

    answers = [task(block, *args) for block in blocks]
    if sys.getsizeof(answers[0]) > _LARGE:
        answers = [reduce(add, answers)]
    return get_worker().address, answers
