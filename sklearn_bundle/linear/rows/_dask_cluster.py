"""Workers of a client of ``dask.distributed``: rounds that they answer, and what they do not."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.linear.rows._dask_direct import Direct, evened, owning, with_rows
from sklearn_bundle.linear.rows._dask_waiting import (
    UNLIMITED,
    Call,
    ClusterLost,
    ClusterTimeout,
    Late,
    Waiting,
)
from sklearn_bundle.linear.rows._dask_workers import DaskWorkers, added, in_block, in_pairs

_CONFIRMED = 2.0  # times the longest round: how long the last one may take after the time limit
_LARGE = 1 << 20  # bytes of an argument that is sent to each worker once, not with every task,
_SUMMED_THERE = 1 << 22  # and of a result that workers sum before it is sent


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
        self._client, self._what = client, what
        self._waiting = Waiting(client, limit)
        self._rows = [None] * len(blocks) if persisted is None else list(persisted)
        self._longest = 0.0  # seconds of a round

    def only(self, which):
        blocks, rows = ([column[k] for k in which] for column in (self._blocks, self._rows))
        return self._copy(blocks, self._waiting.limit, rows)

    def within(self, seconds):
        return self._copy(self._blocks, TimeLimit(seconds), self._rows)

    def confirming(self):
        limit, longest = self._waiting.limit, _CONFIRMED * self._longest
        if limit.left is not None and limit.left < longest:
            limit = TimeLimit(longest)
        return self._copy(self._blocks, limit, self._rows)

    def kept(self, task, *args, loads=()):
        homes, moves = self._places(loads)
        blocks, rows = [], list(self._rows)
        if not (homes or moves):
            blocks: Any = self._submit(task, args, stay=True)
        for k, pair in enumerate(zip(self._blocks, rows, strict=True) if not blocks else ()):
            worker, first = (homes | moves).get(k), owning if k in moves else with_rows
            where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
            future = self._client.submit(first, *pair, task=task, args=args, pure=False, **where)
            blocks.append(future)
        rows = [None if k in moves else row for k, row in enumerate(rows)]
        kept = self._copy(blocks, self._waiting.limit, rows)
        kept._what = f"the round {_name(task)!r}"
        return kept

    def map(self, task, *args, each=None):
        return self._answers(self._submit(task, args, each), _name(task))

    def total(self, task, *args, answer_bytes=0, each=None):
        if answer_bytes < _SUMMED_THERE:
            return super().total(task, *args, each=each)
        futures: Any = self._submit(task, args, each, stay=True)
        summed = in_pairs(lambda a, b: self._client.submit(added, a, b, pure=False), futures)
        return self._results([summed], _name(task))[0]

    def _copy(self, blocks: list[Any], limit: TimeLimit, rows: list) -> "ClusterWorkers":
        copied = ClusterWorkers(self._client, blocks, self._what, limit, rows)
        copied._longest = self._longest
        return copied

    def _submit(
        self,
        task: Callable[..., Any],
        args: tuple,
        each: Sequence[Any] | None = None,
        *,
        stay: bool = False,
    ) -> "list[Any] | Direct":
        """A round of the workers that hold the blocks; tasks if much is sent or some have none.

        Results that ``stay`` on the workers are those of tasks. Other rounds begin when the blocks
        are there: a message per worker costs less than a task for each block.
        """
        sent = sum(array.nbytes for array in _arrays([args, each]))
        homes = {} if stay or sent > _LARGE or not self._are_computed(task) else self._homes()
        if len(homes) < self.n_blocks:
            return self._tasks(task, args, each)
        firsts = [()] * self.n_blocks if each is None else [(one,) for one in each]
        return Direct(self._client, homes, firsts, task, args, uuid4().hex)

    def _are_computed(self, task: Callable[..., Any]) -> bool:
        """Wait for the blocks; False if one is lost or canceled meanwhile: tasks tell what then."""
        from concurrent.futures import CancelledError

        if all(block.done() for block in self._blocks):
            return True
        began = monotonic()
        try:
            self._waiting.wait(lambda seconds: self._is_one_lost() or _done(self._blocks, seconds))
        except Late:
            raise self._late(_name(task), [None] * self.n_blocks) from None
        except CancelledError:
            return False
        self._longest = max(self._longest, monotonic() - began)
        return not self._is_one_lost()

    def _is_one_lost(self) -> bool:
        """Whether a block that was there is gone; it may never come back."""
        return any(block.status == "lost" for block in self._blocks)

    def _homes(self) -> dict[int, tuple[str, list]]:
        """For blocks that are computed, by number, a worker that holds them, and the keys there."""
        columns = zip(self._blocks, self._rows, strict=True)
        futures = [[f for f in pair if f is not None] for pair in columns]
        held = self._who_has([future for some in futures for future in some])
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
        held = self._who_has(chosen)
        threads = self._waiting.try_briefly(self._client.nthreads) or {}
        homes = {k: min(held[f.key]) for k, f in enumerate(chosen) if held.get(f.key)}
        staying = {k: home for k, home in homes.items() if self._rows[k] is not None}
        return staying, evened(homes, loads, threads)

    def _who_has(self, futures: Sequence[Any]) -> dict[Any, Any]:
        try:
            return self._waiting.asked(lambda: self._client.who_has(futures))
        except Late:
            raise self._late("finding the blocks", []) from None

    def _tasks(
        self, task: Callable[..., Any], args: tuple, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """The futures of tasks, one for each block, which the scheduler sends where it likes."""
        if any(block.cancelled() for block in self._blocks):
            raise self._waiting.dropped()
        try:
            if sum(array.nbytes for array in _arrays(args)) > _LARGE:
                large, client = args, self._client
                args = self._waiting.asked(
                    lambda: client.scatter([large], broadcast=True, hash=False)[0]
                )
            columns = self._blocks, self._rows, *([] if each is None else [each])
            return self._client.map(with_rows, *columns, task=task, args=args, pure=False)
        except Late:
            raise self._late("sending the arguments", []) from None
        except OSError as error:
            raise self._waiting.lost() from error

    def _answers(self, asked: "list[Any] | Direct", name: str) -> list[Any]:
        """The results; what a worker did not answer is asked again as tasks."""
        if not isinstance(asked, Direct):
            return self._results(asked, name)
        found = self._direct(asked, name)
        rest = [k for k in range(self.n_blocks) if k not in found]
        if rest:
            others = self.only(rest)
            futures = others._tasks(asked.task, asked.args, asked.each(rest))
            found |= zip(rest, others._results(futures, name, rest, self.n_blocks), strict=True)
        return [found[k] for k in range(self.n_blocks)]

    def _direct(self, asked: Direct, name: str) -> dict[int, Any]:
        """Answers by number, none if one of the workers is lost; what waits there is given up."""
        began, call, is_answered = monotonic(), Call(asked.answers), False
        try:
            is_answered = self._waiting.wait(call.ends_in, asked.workers)
        except Late:
            raise self._late(name, [None] * self.n_blocks) from None
        finally:
            if not is_answered:
                self._waiting.try_briefly(asked.give_up)
        if not is_answered:
            return {}
        self._longest = max(self._longest, monotonic() - began)
        return call.result()

    def _results(
        self, futures: list[Any], name: str, numbers: Sequence[int] = (), of: int = 0
    ) -> list[Any]:
        """Those of tasks, of all blocks or these of so many; after an error they are cancelled."""
        from concurrent.futures import CancelledError

        from distributed.scheduler import KilledWorker

        began, waiting = monotonic(), self._waiting
        try:
            waiting.wait(lambda seconds: _done(futures, seconds))
            for k, future in enumerate(futures):
                if future.status == "error":
                    error = future.exception()
                    if isinstance(error, KilledWorker):
                        raise error
                    raise in_block(error, numbers[k] if numbers else k, of or self.n_blocks)
            gathered = Call(lambda: self._client.gather(futures))
            waiting.wait(gathered.ends_in)
            self._longest = max(self._longest, monotonic() - began)
            return gathered.result()
        except Late:
            late = self._late(name, futures)
            self._cancel(futures)
            raise late from None
        except CancelledError as error:
            raise waiting.dropped() from error
        except OSError as error:
            if waiting.is_served():
                raise  # raised by a task, such as a missing file
            raise waiting.lost() from error
        except KilledWorker as error:
            raise ClusterLost(
                f"Workers died of the same task, one after the other: {error}. If they ran out of "
                "memory, smaller blocks of rows help."
            ) from error
        except BaseException:
            self._cancel(futures)
            raise

    def _cancel(self, futures: list[Any]) -> None:
        self._waiting.try_briefly(lambda: self._client.cancel(futures))

    def _late(self, name: str, futures: list[Any]) -> ClusterTimeout:
        """With what was waited for: the blocks, if they are not there yet, or answers."""
        if all(block.done() for block in self._blocks):
            return self._waiting.late(f"the round {name!r}", futures)
        return self._waiting.late(self._what, self._blocks)


def _done(futures: list[Any], seconds: float) -> bool:
    """Whether all are done after so many seconds."""
    from distributed import wait

    try:
        wait(futures, timeout=seconds)
    except TimeoutError:
        return False
    return True


def _name(task: Any) -> str:
    return getattr(task, "__name__", type(task).__name__).strip("_")


def _arrays(value: Any) -> list[np.ndarray]:
    """All arrays in nested lists and tuples."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, list | tuple):
        return [array for part in value for array in _arrays(part)]
    return []
