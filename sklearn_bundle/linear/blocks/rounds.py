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

# Bytes of arguments, and of an answer: then workers add theirs before they send it.
_LARGE = 1 << 20


class ClusterLost(RuntimeError):
    """The scheduler is gone or was restarted, so results will not arrive."""


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
    """

    def __init__(self, calls: Sequence[Any], limit: TimeLimit):
        self.client, self.limit, self.n_rounds = current_client(), limit, 0
        self._longest, self._held = 0.0, []  # futures of the last rounds
        if self.client is None:
            from dask.base import compute

            self.blocks = list(compute(*calls))
        else:
            self.blocks = self.client.compute(list(calls))

    def only(self, which: Sequence[int]) -> None:
        """Keep these blocks."""
        self.blocks = [self.blocks[k] for k in which]

    def confirming(self) -> None:
        """Let the last round take a while after the time limit."""
        # what the last round may take after the time limit
        left, longest = self.limit.left, 2.0 * self._longest
        if left is not None and left < longest:
            self.limit = TimeLimit(longest)

    def map(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """``task(block, *args)`` of each block in order, or sums if these are large."""
        self.n_rounds += 1
        if self.client is None:
            with ThreadPoolExecutor() as pool:
                return list(pool.map(lambda block: task(block, *args), self.blocks))
        began, call = monotonic(), partial(_answers, task, args)
        numbers = self._numbers()
        given = [[[self.blocks[k] for k in some] for some in numbers]]
        if sum(getattr(one, "nbytes", 0) for one in args) > _LARGE:  # to each worker once
            call = partial(_answers, task)
            given.insert(0, self.client.scatter([args], broadcast=True) * len(numbers))
        futures = self.client.map(call, *given, pure=False)
        self._held.append(futures)
        found = self._results(futures)
        self._longest = max(self._longest, monotonic() - began)
        numbered = [pair for pairs in map(zip, numbers, found) for pair in pairs]
        return [answer for _, answer in sorted(numbered, key=lambda pair: pair[0])]

    def total(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """The sums of all answers, which depend on the blocks alone unless they are large."""
        return sums(self.map(task, *args))

    def _numbers(self) -> list[list[int]]:
        """The numbers of the blocks of each task: of each block as long as it is not computed."""
        if self.n_rounds == 1:
            return [[k] for k in range(len(self.blocks))]
        # Blocks are looked up, and answers released, every 16 rounds: dask sends what follows
        # a release up to 10 ms later.
        if self.n_rounds % 16 == 2:
            self._held.clear()
            self._places = self._found()
        return self._places

    def _found(self) -> list[list[int]]:
        """Those that lie on the same worker, for each of its threads."""
        holders, threads = self.client.who_has(self.blocks), self.client.nthreads()
        held, places = defaultdict[str, int](int), defaultdict[tuple[str, int], list[int]](list)
        for k, block in enumerate(self.blocks):
            worker = min(holders.get(block.key) or [""], key=lambda name: held[name])
            places[worker, held[worker] % threads.get(worker, 1)].append(k)
            held[worker] += 1
        return list(places.values())

    def _results(self, futures: list[Any]) -> list[Any]:
        """What futures hold in the end; the tasks are canceled if that is not awaited."""
        from distributed import wait

        left = self.limit.left
        try:
            try:
                # a millisecond in any case: dask takes 0 for none
                wait(futures, timeout=None if left is None else left + 1e-3)
            except TimeoutError:
                done = sum(future.done() for future in futures)
                raise ClusterTimeout(
                    f"the time limit passed in round {self.n_rounds} on the cluster (round 1 reads "
                    f"and checks the blocks): {done} of {len(futures)} tasks were done"
                ) from None
            return self.client.gather(futures)
        except CancelledError as error:
            raise ClusterLost(
                "The scheduler no longer has the blocks: it was restarted."
            ) from error
        except BaseException:
            self.client.cancel(futures)
            raise


def _answers(task: Callable[..., Any], args: tuple, blocks: list[Any]) -> list[Any]:
    """What blocks of one worker answer; large answers are added."""
    answers = [task(block, *args) for block in blocks]
    is_large = isinstance(answers[0], list) and sum(one.nbytes for one in answers[0]) > _LARGE
    return [sums(answers)] if is_large else answers


def sums(answers: list[Any]) -> list[Any]:
    """Of answers that are lists of arrays."""
    return [reduce(add, column) for column in zip(*answers, strict=True)]
