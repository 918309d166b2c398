"""Tasks on blocks of rows that dask holds, and what a fit waits for; dask is imported if needed."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import CDLL
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import Any

import numpy as np

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.rows._dask_direct import Direct, evened, owning, with_rows

# Seconds without any worker or a reply from the scheduler after which a fit gives up. A worker
# needs a few seconds to restart; "distributed.comm.timeouts.connect" of dask's configuration is
# used if it is larger.
PATIENCE = 30.0
_CHECK_SECONDS = (
    1.0  # seconds between checks of the workers, and at most for what only a message needs
)
_CHECKS = 3  # of the scheduler that go unanswered before a fit gives up
_AT_LEAST = 0.01  # seconds to wait for answers that may be there already
_CONFIRMED = 2.0  # times the longest round: how long the last one may take after the time limit
_LARGE = 1 << 20  # bytes of an argument that is sent to each worker once, not with every task,
_SUMMED_THERE = 1 << 22  # and of a result that workers sum before it is sent


UNLIMITED = TimeLimit(None)


class ClusterLost(RuntimeError):
    """No worker or no scheduler is left, so results will not arrive."""


class ClusterTimeout(TimeoutError):
    """The time limit of a fit passed while it waited for the cluster."""


def added(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
    """The sums of two results."""
    return [a + b for a, b in zip(left, right, strict=True)]


def in_pairs(add: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """The sum of neighbors, then of neighboring sums: the order depends only on their number."""
    values = list(values)
    while len(values) > 1:
        odd = values[-1:] if len(values) % 2 else []
        values = [add(*pair) for pair in zip(values[::2], values[1::2], strict=False)] + odd
    return values[0]


def workers_of(
    calls: Sequence[Any],
    *,
    what: str,
    limit: TimeLimit = UNLIMITED,
    persisted: Sequence[Any] | None = None,
) -> "DaskWorkers":
    """Workers that keep the results of these delayed calls, one for each block.

    They belong to the current client of ``dask.distributed``, or to the threads or processes of
    dask's own scheduler if there is none. ``what`` is what the calls do, for messages;
    ``persisted`` is explained in :class:`ClusterWorkers`.
    """
    client = current_client()
    if client is None:
        return LocalWorkers(_computed_here(calls))
    return ClusterWorkers(client, client.compute(list(calls)), what, limit, persisted)


def _computed_here(calls: Sequence[Any]) -> list[Any]:
    """The results; after an error the calls run one by one, to name the block."""
    from dask.base import compute

    try:
        return list(compute(*calls))
    except Exception:
        for k, call in enumerate(calls):
            try:
                compute(call)
            except Exception as error:
                raise _in_block(error, k, len(calls)) from None
        raise


def _in_block(error: BaseException, k: int, n: int) -> BaseException:
    error.add_note(f"It came up in block {k} of {n}.")
    return error


def current_client() -> Any:
    """The client of ``dask.distributed`` that dask would use, or None."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def persisted_rows(client: Any, X: Any) -> list[Any] | None:
    """The futures of the blocks of an array that the client holds already, None if it does not.

    Nothing is known of other collections: data frames are converted, which takes a copy anyhow.
    """
    if getattr(X, "ndim", None) != 2 or not hasattr(X, "chunks") or X.numblocks[1] > 1:
        return None
    return futures_of(client, [row[0] for row in X.__dask_keys__()])


def futures_of(client: Any, keys: Sequence[Any]) -> list[Any] | None:
    """The futures of these keys, None if the client does not hold them all."""
    from distributed import Future

    return [Future(key, client) for key in keys] if set(keys) <= client.futures.keys() else None


def release_memory() -> None:
    """Give memory that is free back to the system, where dask would count it as in use.

    After reading some files with pyarrow, that was 180 MB for blocks of 47 MB; a worker that is
    paused because of it may never go on.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # for other systems than Linux with glibc
        CDLL("libc.so.6").malloc_trim(0)


class DaskWorkers(ABC):
    """Blocks on their workers, and tasks sent to them: see :class:`~.row_blocks.Workers`

    Attributes
    ----------
    n_blocks : int
    """

    def __init__(self, blocks: list[Any]):
        self._blocks = blocks
        self.n_blocks = len(blocks)

    @abstractmethod
    def only(self, which: Sequence[int]) -> "DaskWorkers":
        """Workers with only these blocks."""

    @abstractmethod
    def within(self, seconds: float | None) -> "DaskWorkers":
        """Workers of the same blocks, with a time limit of their own that starts now."""

    @abstractmethod
    def confirming(self) -> "DaskWorkers":
        """Workers for the last rounds, which may exceed the limit by what rounds have taken."""

    @abstractmethod
    def kept(
        self, task: Callable[..., Any], *args: Any, loads: Sequence[float] = ()
    ) -> "DaskWorkers":
        """Workers that keep ``task(block, *args)``; blocks of these loads are spread evenly.

        A block that moves to another worker takes its rows along (``block.owning(rows)``), and
        those that the caller has persisted stay where they are.
        """

    @abstractmethod
    def map(
        self, task: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """``task(block, *args)`` for each block, or ``task(block, each[k], *args)``, in order."""

    def total(
        self,
        task: Callable[..., list[np.ndarray]],
        *args: Any,
        answer_bytes: int = 0,
        each: Sequence[Any] | None = None,
    ) -> list[np.ndarray]:
        """The sums of these arrays, added in pairs; a result has about this many bytes."""
        return in_pairs(added, self.map(task, *args, each=each))


class LocalWorkers(DaskWorkers):
    """On dask's own scheduler, usually threads of this process, which holds the blocks.

    A round always ends, as a step of a fit in memory does, so there is no time limit.
    """

    def only(self, which):
        return LocalWorkers([self._blocks[k] for k in which])

    def within(self, seconds):
        return self

    def confirming(self):
        return self

    def kept(self, task, *args, loads=()):
        return LocalWorkers(self.map(task, *args))

    def map(self, task, *args, each=None):
        """The results, from one flat graph: a thousand delayed calls take dask seconds per round.

        A call without arguments hides the arguments from dask, which would look for keys in them.
        """
        from dask.base import compute_as_if_collection
        from dask.delayed import Delayed

        keys = [f"block-{k}" for k in range(self.n_blocks)]
        firsts = [(block,) for block in self._blocks]
        if each is not None:
            firsts = list(zip(self._blocks, each, strict=True))
        calls = [(partial(task, *first, *args),) for first in firsts]
        graph = dict(zip(keys, calls, strict=True))
        answers: Any = compute_as_if_collection(Delayed, graph, keys)
        return list(answers)


class ClusterWorkers(DaskWorkers):
    """On the workers of a client: blocks are futures, which are recomputed if they are lost.

    Workers keep only the blocks, so a fit continues after the loss of a worker, with the same bits.

    Parameters
    ----------
    client : distributed.Client
    blocks : list of Future
    what : str
        What computes them, for messages.
    limit : TimeLimit, default=UNLIMITED
        Of all rounds; a round that is not answered by then raises :class:`ClusterTimeout`.
    persisted : list of Future or None, default=None
        For each block the rows that the caller has persisted, or None. A block that does not have
        rows of its own gets them with ``block.with_rows(rows)`` before a task: nothing is stored
        twice.
    """

    def __init__(
        self,
        client: Any,
        blocks: list[Any],
        what: str,
        limit: TimeLimit = UNLIMITED,
        persisted: Sequence[Any] | None = None,
    ):
        super().__init__(blocks)
        self._client, self._what, self._limit = client, what, limit
        self._rows = [None] * len(blocks) if persisted is None else list(persisted)
        self._longest = 0.0  # seconds of a round
        self._is_direct = True  # whether rounds may go straight to the workers

    def only(self, which):
        blocks, rows = ([column[k] for k in which] for column in (self._blocks, self._rows))
        return self._copy(blocks, self._limit, rows)

    def within(self, seconds):
        return self._copy(self._blocks, TimeLimit(seconds), self._rows)

    def confirming(self):
        limit, longest = self._limit, _CONFIRMED * self._longest
        if limit.left is not None and limit.left < longest:
            limit = TimeLimit(longest)
        return self._copy(self._blocks, limit, self._rows)

    def kept(self, task, *args, loads=()):
        homes, moves = self._places(loads)
        blocks, rows = [], list(self._rows)
        if not (homes or moves):
            blocks: Any = self._by_tasks()._submit(task, args)
        for k, pair in enumerate(zip(self._blocks, rows, strict=True) if not blocks else ()):
            worker, first = (homes | moves).get(k), owning if k in moves else with_rows
            where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
            future = self._client.submit(first, *pair, task=task, args=args, pure=False, **where)
            blocks.append(future)
        rows = [None if k in moves else row for k, row in enumerate(rows)]
        kept = self._copy(blocks, self._limit, rows)
        kept._what = f"the round {_name(task)!r}"
        return kept

    def map(self, task, *args, each=None):
        return self._answers(self._submit(task, args, each), _name(task))

    def total(self, task, *args, answer_bytes=0, each=None):
        if answer_bytes < _SUMMED_THERE:
            return super().total(task, *args, each=each)
        futures: Any = self._by_tasks()._submit(task, args, each)
        summed = in_pairs(lambda a, b: self._client.submit(added, a, b, pure=False), futures)
        return self._results([summed], _name(task))[0]

    def _copy(self, blocks: list[Any], limit: TimeLimit, rows: list) -> "ClusterWorkers":
        copied = ClusterWorkers(self._client, blocks, self._what, limit, rows)
        copied._longest = self._longest
        return copied

    def _by_tasks(self) -> "ClusterWorkers":
        """Of the same blocks, whose results stay on the workers: futures, which are kept there."""
        copied = self._copy(self._blocks, self._limit, self._rows)
        copied._is_direct = False
        return copied

    def _submit(
        self, task: Callable[..., Any], args: tuple, each: Sequence[Any] | None = None
    ) -> "list[Any] | Direct":
        """A round of the workers that hold the blocks; tasks if much is sent or some have none."""
        sent = sum(array.nbytes for array in _arrays([args, each]))
        try:
            homes = self._homes() if self._is_direct and sent <= _LARGE else {}
        except _Late:
            raise self._late("finding the blocks", []) from None
        except (OSError, TimeoutError) as error:
            raise self._lost() from error
        if len(homes) < self.n_blocks:
            return self._tasks(task, args, each)
        firsts = [()] * self.n_blocks if each is None else [(one,) for one in each]
        return Direct(self._client, homes, firsts, task, args)

    def _homes(self) -> dict[int, tuple[str, list]]:
        """For blocks that are computed, by number, a worker that holds them, and the keys there."""
        columns = zip(self._blocks, self._rows, strict=True)
        futures = [[f for f in pair if f is not None] for pair in columns]
        every = [future for some in futures for future in some]
        held = _in_time(lambda: self._client.who_has(every), self._limit.left)
        homes = {}
        for k, some in enumerate(futures):
            both = set.intersection(*(set(held.get(future.key, ())) for future in some))
            if both:
                homes[k] = min(both), [future.key for future in some]
        return homes

    def _places(self, loads: Sequence[float]) -> tuple[dict[int, str], dict[int, str]]:
        """Workers of rows that must stay with their block, and new workers of blocks, by number."""
        if not len(loads):
            return {}, {}
        chosen = [b if r is None else r for b, r in zip(self._blocks, self._rows, strict=True)]
        try:
            held = _in_time(lambda: self._client.who_has(chosen), self._limit.left)
            threads = _in_time(self._client.nthreads, self._limit.left)
        except (_Late, OSError):
            return {}, {}
        homes = {k: min(held[f.key]) for k, f in enumerate(chosen) if held.get(f.key)}
        staying = {k: home for k, home in homes.items() if self._rows[k] is not None}
        return staying, evened(homes, loads, threads)

    def _tasks(
        self, task: Callable[..., Any], args: tuple, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """The futures of tasks, one for each block, which the scheduler sends where it likes."""
        client, limit = self._client, self._limit
        try:
            if sum(array.nbytes for array in _arrays(args)) > _LARGE:
                args = _in_time(
                    lambda: client.scatter([args], broadcast=True, hash=False)[0],
                    limit.left,
                )
            columns = self._blocks, self._rows, *([] if each is None else [each])
            return client.map(with_rows, *columns, task=task, args=args, pure=False)
        except _Late:
            raise self._late("sending the arguments", []) from None
        except (OSError, TimeoutError) as error:
            raise self._lost() from error

    def _answers(self, asked: "list[Any] | Direct", name: str) -> list[Any]:
        """The results; what a worker did not answer is asked again as tasks."""
        if not isinstance(asked, Direct):
            return self._results(asked, name)
        began = monotonic()
        try:
            found = _in_time(asked.answers, self._limit.left)
        except _Late:
            raise self._late(name, [None] * self.n_blocks) from None
        self._longest = max(self._longest, monotonic() - began)
        rest = [k for k in range(self.n_blocks) if k not in found]
        if rest:
            others = self.only(rest)
            futures = others._tasks(asked.task, asked.args, asked.each(rest))
            found |= zip(rest, others._results(futures, name, rest, self.n_blocks), strict=True)
        return [found[k] for k in range(self.n_blocks)]

    def _results(
        self, futures: list[Any], name: str, numbers: Sequence[int] = (), of: int = 0
    ) -> list[Any]:
        """Those of tasks, of all blocks or these of so many; after an error they are cancelled."""
        from concurrent.futures import CancelledError

        from distributed.scheduler import KilledWorker

        began, limit = monotonic(), self._limit
        try:
            self._wait(futures)
            for k, future in enumerate(futures):
                if future.status == "error":
                    error = future.exception()
                    if isinstance(error, KilledWorker):
                        raise error
                    raise _in_block(error, numbers[k] if numbers else k, of or self.n_blocks)
            left = limit.left
            seconds = None if left is None else max(left, _AT_LEAST)
            answers = _in_time(lambda: self._client.gather(futures), seconds)
            self._longest = max(self._longest, monotonic() - began)
            return answers
        except _Late:
            late = self._late(name, futures)
            self._cancel(futures)
            raise late from None
        except (OSError, CancelledError) as error:
            if self._is_served() and not isinstance(error, CancelledError):
                raise  # raised by a task, such as a missing file
            raise self._lost() from error
        except KilledWorker as error:
            raise ClusterLost(
                f"Workers died of the same task, one after the other: {error}. If they ran out of "
                "memory, smaller blocks of rows help."
            ) from error
        except BaseException:
            self._cancel(futures)
            raise

    def _wait(self, futures: list[Any]) -> None:
        """Until all are done, the time limit, or nobody serves them any more."""
        from distributed import wait

        patience, since, limit = self._patience(), monotonic(), self._limit
        while True:
            try:
                wait(futures, timeout=limit.at_most(_CHECK_SECONDS, _AT_LEAST))
                return
            except TimeoutError:
                if limit.left == 0.0:
                    raise _Late from None
                if self._is_served():
                    since = monotonic()
                elif monotonic() - since > patience:
                    raise self._lost() from None

    def _cancel(self, futures: list[Any]) -> None:
        with suppress(_Late, OSError):
            _in_time(lambda: self._client.cancel(futures), _CHECK_SECONDS)

    def _is_served(self) -> bool:
        """Whether there is a scheduler that answers, and a worker."""
        if self._client.status != "running":
            return False
        seconds = self._limit.at_most(self._patience() / _CHECKS, _AT_LEAST)
        try:
            return bool(_in_time(self._client.nthreads, seconds))
        except _Late:
            return False

    def _patience(self) -> float:
        import dask.config as config
        from dask.utils import parse_timedelta

        configured = config.get("distributed.comm.timeouts.connect", None)
        return PATIENCE if configured is None else max(PATIENCE, parse_timedelta(configured))

    def _lost(self) -> ClusterLost:
        return ClusterLost(
            f"The cluster at {shown(getattr(self._client.scheduler, 'address', None))} has had no "
            f"worker or no scheduler for {self._patience():g} s; the best point so far is on the "
            "estimator, if there was one."
        )

    def _late(self, name: str, futures: list[Any]) -> ClusterTimeout:
        """With what was waited for: the blocks, if they are not there yet, or answers."""
        what, waited = f"the round {name!r}", futures
        if not all(block.done() for block in self._blocks):
            what, waited = self._what, self._blocks
        done = sum(future is not None and future.done() for future in waited)
        return ClusterTimeout(
            f"the time limit passed while the cluster at "
            f"{shown(getattr(self._client.scheduler, 'address', None))} was at {what}: {done} of "
            f"{len(waited)} blocks were done{self._paused()}"
        )

    def _paused(self) -> str:
        """What is known of workers that have stopped, for a message."""
        try:
            workers = _in_time(self._client.scheduler_info, _CHECK_SECONDS)["workers"].values()
        except (_Late, OSError):
            return "; the scheduler does not answer"
        if not workers:
            return "; there is no worker"
        paused = sum(worker.get("status") == "paused" for worker in workers)
        if not paused:
            return ""
        return f"; {paused} of {len(workers)} workers are paused, since their memory is full"


class _Late(Exception):
    """A call did not return in time."""


def _in_time(call: Callable[[], Any], seconds: float | None) -> Any:
    """``call()``, which may never return, or :class:`_Late` after so many seconds."""
    if seconds is None:
        return call()
    ended, outcome = Event(), []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
        ended.set()

    Thread(target=run, daemon=True).start()
    if not ended.wait(seconds):
        raise _Late
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _name(task: Any) -> str:
    return getattr(task, "__name__", type(task).__name__).strip("_")


def _arrays(value: Any) -> list[np.ndarray]:
    """All arrays in nested lists and tuples."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, list | tuple):
        return [array for part in value for array in _arrays(part)]
    return []
