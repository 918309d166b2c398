"""A round that is sent straight to the workers which hold the blocks: one message to each.

Dask's scheduler takes milliseconds for a task, as long as the task of a block often takes itself,
and a round has a task for each block. A worker that no longer holds a block, fails or dies does not
answer for it, and the caller asks again with tasks, of which the scheduler takes care.
"""

from asyncio import Semaphore, gather, get_running_loop
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

# On a worker: the rounds that it is at, with its address, since a process may have several workers.
_rounds: set[tuple[str, str]] = set()
_SHORTER = 0.9  # of the longest wait: what a block must save to be moved, which takes time too


class Direct(NamedTuple):
    """A task for blocks on workers.

    ``homes`` has for the number of a block its worker, and its keys there: its own, and that of its
    rows if the caller has persisted them. ``firsts`` has arguments of each block, ``args`` those of
    all. ``name`` is that of this round alone.
    """

    client: Any
    homes: dict[int, tuple[str, list]]
    firsts: Sequence[tuple]
    task: Callable[..., Any]
    args: tuple
    name: str

    @property
    def workers(self) -> set[str]:
        """Addresses."""
        return {worker for worker, _ in self.homes.values()}

    def answers(self) -> dict[int, Any]:
        """The answers by number; those of some blocks may be missing."""
        wanted: dict[str, list] = {}
        for k, (worker, keys) in self.homes.items():
            wanted.setdefault(worker, []).append((k, keys, self.firsts[k]))
        found = self._run(_answer, self.name, wanted, self.task, self.args)
        return {k: answer for part in found for k, answer in part}

    def give_up(self) -> None:
        """Tell the workers not to begin with further blocks."""
        self._run(_give_up, self.name)

    def _run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """What workers return; those that fail or cannot be reached are left out."""
        try:
            found = self.client.run(function, *args, workers=list(self.workers), on_error="ignore")
        except OSError:  # the scheduler is gone, or comes back
            return []
        return list(found.values())

    def each(self, numbers: Sequence[int]) -> list[Any] | None:
        """The arguments of these blocks, None if they have none of their own."""
        firsts = [self.firsts[k] for k in numbers]
        return [first for (first,) in firsts] if all(firsts) else None


def with_rows(block: Any, rows: Any, *first: Any, task: Callable[..., Any], args: tuple) -> Any:
    """``task(block, *first, *args)``, of a block that gets its rows if it has none."""
    return task(block if rows is None else block.with_rows(rows), *first, *args)


def owning(block: Any, rows: Any, *, task: Callable[..., Any], args: tuple) -> Any:
    """``task(block, *args)``, of a block that keeps the rows if it has none."""
    return task(block if rows is None else block.owning(rows), *args)


def evened(
    homes: dict[int, str], loads: Sequence[float], threads: dict[str, int]
) -> dict[int, str]:
    """Workers of blocks that move, by number, until no move makes the longest wait shorter."""
    held: dict[str, list[int]] = {worker: [] for worker in threads}
    for k, worker in homes.items():
        held.get(worker, []).append(k)
    moves = {}
    while held:
        waits = {w: sum(loads[k] for k in ks) / threads[w] for w, ks in held.items()}
        full, free = max(waits, key=waits.__getitem__), min(waits, key=waits.__getitem__)
        most = _SHORTER * waits[full]
        fit = [k for k in held[full] if loads[k] and waits[free] + loads[k] / threads[free] < most]
        if not fit:
            break
        moved = max(fit, key=loads.__getitem__)
        held[full].remove(moved)
        held[free].append(moved)
        moves[moved] = free
    return moves


async def _answer(
    name: str,
    wanted: dict[str, list],
    task: Callable[..., Any],
    args: tuple,
    dask_worker: Any = None,
) -> list[tuple[int, Any]]:
    """On a worker: numbers and answers of blocks that it holds, computed in its own threads."""
    loop, pool = get_running_loop(), dask_worker.executors["default"]
    turns, found = Semaphore(dask_worker.state.nthreads), []
    address = dask_worker.contact_address

    async def answer(k: int, keys: list, first: tuple) -> None:
        async with turns:  # one by one, since what dask has put on disk comes back to memory
            if (name, address) in _rounds and all(key in dask_worker.data for key in keys):
                block, rows = dask_worker.data[keys[0]], None
                if len(keys) > 1:
                    rows = dask_worker.data[keys[1]]
                call = partial(with_rows, block, rows, *first, task=task, args=args)
                found.append((k, await loop.run_in_executor(pool, call)))

    _rounds.add((name, address))
    try:
        await gather(*(answer(*one) for one in wanted[address]))
    finally:
        _rounds.discard((name, address))
    return found


def _give_up(name: str, dask_worker: Any = None) -> None:
    _rounds.discard((name, dask_worker.contact_address))
