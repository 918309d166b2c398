"""Dask collections as blocks of rows, and tasks on them; dask is imported only if one is given."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from sklearn_bundle._values import shown

# Seconds without any worker or a reply from the scheduler after which a fit gives up. A worker
# needs a few seconds to restart; "distributed.comm.timeouts.connect" of dask's configuration is
# used if it is larger.
PATIENCE = 30.0
_LOOKED = 1.0  # seconds between checks of the workers
_LARGE = 1 << 20  # bytes of an argument that is sent to each worker once, not with every task,
_SUMMED_THERE = 1 << 22  # and of a result that workers sum before it is sent


class ClusterLost(RuntimeError):
    """No worker or no scheduler is left, so results will not arrive."""


class Parts(NamedTuple):
    """Blocks of rows as dask's delayed objects, in order.

    ``lengths`` are their numbers of rows, None if unknown; ``names`` are the column names of a data
    frame, else None.
    """

    blocks: list[Any]
    lengths: tuple[int, ...] | None
    names: list | None


def is_collection(X: Any) -> bool:
    """Whether X is a dask collection or a list of delayed blocks."""
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    if isinstance(X, list | tuple):
        return len(X) > 0 and all(is_dask_collection(block) for block in X)
    return is_dask_collection(X)


def parts_of(name: str, X: Any) -> Parts:
    """The blocks of a collection.

    Raises
    ------
    TypeError
        If it is not an array, a data frame or a list of delayed blocks.
    """
    from dask.delayed import Delayed

    if isinstance(X, list | tuple):
        return Parts(list(X), None, None)
    if isinstance(X, Delayed):  # which pretends to have any method
        raise TypeError(f"{name} is one delayed object; pass a list of blocks of rows, [{name}].")
    if hasattr(X, "to_dask_array"):  # frames and series; indices too
        names = list(X.columns) if hasattr(X, "columns") else None
        return Parts(list(X.to_delayed()), None, names)
    if hasattr(X, "chunks") and X.ndim in (1, 2):
        whole = X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X
        lengths = None if np.isnan(whole.chunks[0]).any() else tuple(whole.chunks[0])
        return Parts(list(whole.to_delayed().ravel()), lengths, None)
    raise TypeError(
        f"{name} must be a dask array of one or two dimensions, a dask data frame or a list of "
        f"delayed blocks, got {shown(X)}."
    )


def beside(name: str, values: Any, X: Parts) -> Parts:
    """Blocks of ``values`` that match those of X.

    Raises
    ------
    ValueError
        If their number differs.
    """
    from dask.delayed import Delayed, delayed

    if is_collection(values):
        if isinstance(values, Delayed):
            return parts_of(name, values)  # which says what is wrong
        chunked = X.lengths is not None and hasattr(values, "rechunk")
        if chunked and not np.isnan(values.chunks[0]).any() and len(values) == sum(X.lengths):
            values = values.rechunk({0: X.lengths})
        parts = parts_of(name, values)
        if len(parts.blocks) != len(X.blocks):
            raise ValueError(
                f"{name} has {len(parts.blocks)} blocks of rows, X has {len(X.blocks)}; they must "
                "be cut at the same rows."
            )
        return parts
    values = np.asarray(values)
    if X.lengths is None:
        raise ValueError(
            f"{name} is an array in memory, but the numbers of rows of X's blocks are not known: "
            f"pass {name} in the same blocks as X, or call X.compute_chunk_sizes() before (for a "
            "data frame, X.to_dask_array(lengths=True))."
        )
    if values.ndim == 0 or len(values) != sum(X.lengths):
        raise ValueError(
            f"{name} must have an entry for each of the {sum(X.lengths)} rows of X, got shape "
            f"{values.shape}."
        )
    bounds = np.cumsum([0, *X.lengths])
    pieces = [values[start:stop] for start, stop in pairwise(bounds)]
    return Parts([delayed(piece) for piece in pieces], X.lengths, None)


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


def workers_of(task: Callable[..., Any], *columns: Sequence[Any]) -> "DaskWorkers":
    """Workers that keep ``task(k, *row k of the columns)`` for every k.

    They belong to the current client of ``dask.distributed``, or to the threads or processes of
    dask's own scheduler if there is none.
    """
    client = None
    if "distributed" in sys.modules:
        from distributed import default_client

        try:
            client = default_client()
        except ValueError:
            client = None
    rows = list(zip(range(len(columns[0])), *columns, strict=True))
    if client is None:
        from dask.base import compute
        from dask.delayed import delayed

        return LocalWorkers(list(compute(*(delayed(task, pure=False)(*row) for row in rows))))
    futures = [
        client.compute(list(column)) if _are_delayed(column) else list(column) for column in columns
    ]
    return ClusterWorkers(client, client.map(task, range(len(columns[0])), *futures, pure=False))


def _are_delayed(column: Sequence[Any]) -> bool:
    from dask.base import is_dask_collection

    return all(is_dask_collection(part) for part in column)


class DaskWorkers:
    """Blocks on their workers, and tasks sent to them: see :class:`~.row_blocks.Workers`

    Attributes
    ----------
    n_blocks : int
    """

    def __init__(self, blocks: list[Any]):
        self._blocks = blocks
        self.n_blocks = len(blocks)

    def only(self, which: Sequence[int]) -> "DaskWorkers":
        """Workers with only these blocks."""
        raise NotImplementedError

    def kept(self, task: Callable[..., Any], *args: Any) -> "DaskWorkers":
        """Workers that keep ``task(block, *args)``."""
        raise NotImplementedError

    def ask(
        self, task: Callable[..., Any], *args: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """``task(block, *args)`` for each block, or ``task(block, each[k], *args)``, in order."""
        raise NotImplementedError

    def total(
        self,
        task: Callable[..., list[np.ndarray]],
        *args: Any,
        answer_bytes: int = 0,
        each: Sequence[Any] | None = None,
    ) -> list[np.ndarray]:
        """The sums of these arrays, added in pairs; a result has about this many bytes."""
        return in_pairs(added, self.ask(task, *args, each=each))


class LocalWorkers(DaskWorkers):
    """On dask's own scheduler, usually threads of this process, which holds the blocks."""

    def only(self, which):
        return LocalWorkers([self._blocks[k] for k in which])

    def kept(self, task, *args):
        return LocalWorkers(self.ask(task, *args))

    def ask(self, task, *args, each=None):
        """As one flat graph: dask takes seconds per round to walk through a thousand delayed calls.

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
        return list(compute_as_if_collection(Delayed, graph, keys))


class ClusterWorkers(DaskWorkers):
    """On the workers of a client: blocks are futures, which are recomputed if they are lost.

    Workers keep only the blocks, so a fit continues after the loss of a worker, with the same bits.
    """

    def __init__(self, client: Any, blocks: list[Any]):
        super().__init__(blocks)
        self._client = client

    def only(self, which):
        return ClusterWorkers(self._client, [self._blocks[k] for k in which])

    def kept(self, task, *args):
        return ClusterWorkers(self._client, self._submit(task, args))

    def ask(self, task, *args, each=None):
        return self._answers(self._submit(task, args, each))

    def total(self, task, *args, answer_bytes=0, each=None):
        futures = self._submit(task, args, each)
        if answer_bytes < _SUMMED_THERE:
            return in_pairs(added, self._answers(futures))
        summed = in_pairs(lambda a, b: self._client.submit(added, a, b, pure=False), futures)
        return self._answers([summed])[0]

    def _submit(
        self, task: Callable[..., Any], args: tuple, each: Sequence[Any] | None = None
    ) -> list[Any]:
        client = self._client
        try:
            if sum(array.nbytes for array in _arrays(args)) > _LARGE:
                args = client.scatter([args], broadcast=True, hash=False)[0]
            if each is None:
                return client.map(_with, self._blocks, task=task, args=args, pure=False)
            return client.map(_with_each, self._blocks, each, task=task, args=args, pure=False)
        except (OSError, TimeoutError) as error:
            raise self._lost() from error

    def _answers(self, futures: list[Any]) -> list[Any]:
        """Their results; they are cancelled if nothing waits for them."""
        from concurrent.futures import CancelledError

        from distributed import wait
        from distributed.scheduler import KilledWorker

        patience, since = self._patience(), monotonic()
        try:
            while True:
                try:
                    wait(futures, timeout=_LOOKED)
                    break
                except TimeoutError:
                    if self._is_served():
                        since = monotonic()
                    elif monotonic() - since > patience:
                        raise self._lost() from None
            for k, future in enumerate(futures):
                if future.status == "error":
                    error = future.exception()
                    if not isinstance(error, KilledWorker):
                        error.add_note(f"It came up in block {k} of {len(futures)}.")
                    raise error
            return self._client.gather(futures)
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
            self._client.cancel(futures)
            raise

    def _is_served(self) -> bool:
        """Whether there is a scheduler, and a worker."""
        if self._client.status != "running":
            return False
        return bool(self._client.nthreads())

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


def _with(block: Any, task: Callable[..., Any], args: tuple) -> Any:
    return task(block, *args)


def _with_each(block: Any, first: Any, task: Callable[..., Any], args: tuple) -> Any:
    return task(block, first, *args)


def _arrays(value: Any) -> list[np.ndarray]:
    """All arrays in nested lists and tuples."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, list | tuple):
        return [array for part in value for array in _arrays(part)]
    return []
