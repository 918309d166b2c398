"""Workers that keep blocks of rows and answer rounds of tasks: in general, and in this process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np


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


def in_block(error: BaseException, k: int, n: int) -> BaseException:
    error.add_note(f"It came up in block {k} of {n}.")
    return error


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
