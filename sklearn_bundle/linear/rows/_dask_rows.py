"""Dask collections as blocks of rows that are cut alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.rows._dask import current_client, futures_of, workers_of
from sklearn_bundle.linear.rows._dask_waiting import UNLIMITED

# Dask-expr reads several files of a data frame as one block if few of their columns are needed, of
# each data frame so many. dask has the option since 2025.12; before, `aligned` cuts blocks again.
_BLOCKS_AS_GIVEN = {"optimization.tune.active": False}


class Parts(NamedTuple):
    """Blocks of rows as dask's delayed objects, in order.

    ``lengths`` are their numbers of rows, None if unknown; ``names`` are the column names of a data
    frame, else None. ``fixed`` says that the caller has cut the blocks.
    """

    blocks: list[Any]
    lengths: tuple[int, ...] | None
    names: list | None
    fixed: bool = False


class Aligned(NamedTuple):
    """Blocks of several collections that are cut alike: by name, with the column names of X."""

    blocks: dict[str, list[Any]]
    names: list | None


def parts_of(name: str, X: Any) -> Parts:
    """The blocks of a collection.

    Raises
    ------
    TypeError
        If it is not an array, a data frame or a list of delayed blocks.
    """
    import dask.config as config
    from dask.delayed import Delayed

    if isinstance(X, list | tuple):
        return Parts(list(X), None, None, fixed=True)
    if isinstance(X, Delayed):  # which pretends to have any method
        raise TypeError(f"{name} is one delayed object; pass a list of blocks of rows, [{name}].")
    if _is_frame(X):
        with config.set(_BLOCKS_AS_GIVEN):
            return Parts(_existing(name, X, X.to_delayed()), None, _names_of(X))
    if hasattr(X, "chunks") and X.ndim in (1, 2):
        whole = X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X
        blocks = list(whole.to_delayed().ravel())
        if np.isnan(whole.chunks[0]).any():
            return Parts(_existing(name, whole, blocks), None, None)
        return Parts(blocks, tuple(whole.chunks[0]), None)
    raise TypeError(
        f"{name} must be a dask array of one or two dimensions, a dask data frame or a list of "
        f"delayed blocks, got {shown(X)}."
    )


def calls_of(
    task: Callable[..., Any], columns: dict[str, Any], limit: TimeLimit = UNLIMITED
) -> tuple[list[Any], list | None]:
    """A delayed ``task(X, y, sample_weight)`` for each block, and the column names of X.

    If the client holds all blocks already these are futures.

    If all columns are data frames, a block is read and given to the task in one step, and is never
    stored as it was read. The calls have names of their own: results of other fits are not used.
    ``columns``, ``limit`` and errors are explained in :func:`aligned`.
    """
    from dask.delayed import delayed

    frames, once = _alike(columns), _Once(task, tuple(columns))
    if len(frames) == len(columns):
        return _mapped(once, frames), _names_of(columns["X"])
    found = aligned(columns, limit)
    blocks, client = list(found.blocks.values()), current_client()
    if client is not None:  # a delayed call takes 10 ms, as long as it runs
        keys = ([getattr(block, "key", None) for block in column] for column in blocks)
        held = [futures_of(client, column) for column in keys]
        if all(held):
            return client.map(once, *held, pure=False), found.names
    calls = [delayed(once, pure=False)(*row) for row in zip(*blocks, strict=True)]
    return calls, found.names


def aligned(columns: dict[str, Any], limit: TimeLimit = UNLIMITED) -> Aligned:
    """The blocks of X and of the others, which hold the same rows.

    Data frames are read together. What has other blocks than X is cut again at the rows where X is
    cut; if numbers of rows are not known, they are counted first. Blocks that the caller has cut
    stay as they are, and as many blocks as X has are taken for the same rows: tasks check that.

    Parameters
    ----------
    columns : dict
        "X", a collection, and "y" and "sample_weight", collections or arrays in memory; each of
        these two may be missing.
    limit : TimeLimit, default=UNLIMITED
        For counting rows on a cluster.

    Raises
    ------
    ValueError
        If the numbers of rows differ, or those of blocks that the caller has cut.
    """
    frames = _alike(columns)
    rows = _mapped(_together, frames) if len(frames) > 1 else []
    joint = {name: [row[k] for row in rows] for k, name in enumerate(frames) if rows}
    X = columns["X"]
    parts = Parts(joint["X"], None, _names_of(X)) if joint else parts_of("X", X)
    found = {"X": parts.blocks} | joint
    lengths = parts.lengths
    for name, values in columns.items():
        if name in found:
            continue
        if is_collection(values):
            other = parts_of(name, _cut_like(values, lengths))
            if len(other.blocks) == len(parts.blocks):
                found[name] = other.blocks
                continue
            _refuse_other_blocks(name, other, parts)
            there, pieces = other.lengths or _counted(other.blocks, limit), other.blocks
        else:
            values = np.asarray(values)
            there, pieces = None, values
        lengths = lengths or _counted(parts.blocks, limit)
        found[name] = _cut_again(name, pieces, there, lengths)
    return Aligned({name: found[name] for name in columns}, parts.names)


# ---- data frames -------------------------------------------------------------------------------


def _is_frame(values: Any) -> bool:
    """Whether it is a data frame or a series of dask; an index too."""
    from dask.delayed import Delayed

    if isinstance(values, list | tuple | Delayed) or not is_collection(values):
        return False
    return hasattr(values, "to_dask_array")


def _names_of(X: Any) -> list | None:
    return list(X.columns) if hasattr(X, "columns") else None


def _alike(columns: dict[str, Any]) -> dict[str, Any]:
    """The data frames among these with the partitions of X; none if X is not one."""
    X = columns["X"]
    if not _is_frame(X):
        return {}
    frames = {name: frame for name, frame in columns.items() if _is_frame(frame)}
    alike = {name: f for name, f in frames.items() if f.npartitions == X.npartitions}
    return alike if all(all(_computable(frame)) for frame in alike.values()) else {}


def _mapped(task: Callable[..., Any], frames: dict[str, Any]) -> list[Any]:
    """A delayed ``task(*partitions)`` for each partition, from one expression.

    What the frames have in common is read once, and whatever dask makes of it, they are cut alike.
    """
    import dask.config as config
    import dask.dataframe as dd

    with config.set(_BLOCKS_AS_GIVEN):
        return dd.map_partitions(
            task,
            *frames.values(),
            meta=(None, object),
            enforce_metadata=False,
            align_dataframes=False,
        ).to_delayed()


def _together(*parts: Any) -> tuple:
    return parts


@dataclass(frozen=True)
class _Once:
    """A task whose arguments have names; dask takes no other one for it."""

    task: Callable[..., Any]
    names: tuple[str, ...]
    token: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, *parts: Any) -> Any:
        return self.task(**dict(zip(self.names, parts, strict=True)))


def _needs(graph: Any) -> dict[Any, set]:
    """The keys that each task of a graph needs, in the graph or not."""
    from dask.core import get_dependencies

    return {
        key: set(getattr(task, "dependencies", None) or get_dependencies(graph, key))
        for key, task in graph.items()
    }


def _computable(X: Any) -> list[bool]:
    """For each block of a collection whether its graph has all tasks that lead to it."""
    from dask.core import flatten

    graph = dict(X.__dask_graph__())
    needs = _needs(graph)
    gone = {key for key, needed in needs.items() if not needed <= graph.keys()}
    size = -1
    while len(gone) > size:
        size = len(gone)
        gone |= {key for key, needed in needs.items() if needed & gone} if gone else set()
    return [key in graph and key not in gone for key in flatten(X.__dask_keys__())]


def _existing(name: str, X: Any, blocks: list[Any]) -> list[Any]:
    """The blocks that a collection has, where it says that it has more.

    ``persist()`` of a frame that was read from some columns of parquet files joins neighboring
    blocks, but the frame that it returns has the old number of them, of which the last ones have
    no task (https://github.com/dask/dask/issues/12488).

    Raises
    ------
    ValueError
        If others than the last ones are missing.
    """
    here = _computable(X)
    if all(here):
        return blocks
    n = sum(here)
    if not n or not all(here[:n]) or len(blocks) != len(here):
        raise ValueError(
            f"{name} has {len(here)} blocks, but block {here.index(False)} cannot be computed: "
            "dask has lost its task. Persist the data frame before you select columns."
        )
    return blocks[:n]


# ---- other blocks ------------------------------------------------------------------------------


def _cut_like(values: Any, lengths: tuple[int, ...] | None) -> Any:
    """An array with the blocks of X, if both numbers of rows are known and equal."""
    from dask.delayed import Delayed

    if lengths is None or isinstance(values, list | tuple | Delayed):
        return values
    if not hasattr(values, "rechunk") or np.isnan(values.chunks[0]).any():
        return values
    return values.rechunk({0: lengths}) if len(values) == sum(lengths) else values


def _refuse_other_blocks(name: str, other: Parts, X: Parts) -> None:
    if other.fixed or X.fixed:
        raise ValueError(
            f"{name} has {len(other.blocks)} blocks of rows, X has {len(X.blocks)}; they must be "
            "cut at the same rows."
        )


def _counted(blocks: list[Any], limit: TimeLimit) -> tuple[int, ...]:
    """The numbers of rows of blocks."""
    from dask.delayed import delayed

    calls = [delayed(_count, pure=False)(block) for block in blocks]
    return tuple(workers_of(calls, what="counting rows", limit=limit).map(_itself))


def _count(block: Any) -> int:
    return int(block.shape[0]) if hasattr(block, "shape") else len(block)


def _itself(value: Any) -> Any:
    return value


def _cut_again(
    name: str, values: Any, there: tuple[int, ...] | None, lengths: tuple[int, ...]
) -> list[Any]:
    """Blocks of these lengths from an array, or from delayed blocks of the lengths ``there``."""
    from dask.delayed import delayed

    n = sum(lengths)
    if there is None:
        if values.ndim == 0 or len(values) != n:
            raise ValueError(
                f"{name} must have an entry for each of the {n} rows of X, got shape "
                f"{values.shape}."
            )
        return [delayed(values[a:b]) for a, b in pairwise(np.cumsum([0, *lengths]))]
    if sum(there) != n:
        raise ValueError(
            f"{name} has {sum(there)} rows in {len(there)} blocks, X has {n} rows in "
            f"{len(lengths)} blocks; they must have the same rows."
        )
    join, starts = delayed(_joined, pure=False), np.cumsum([0, *there]).tolist()
    found = []
    for start, stop in pairwise(np.cumsum([0, *lengths]).tolist()):
        places = [
            k for k, size in enumerate(there) if starts[k] < stop and starts[k] + size > start
        ]
        places = places or [0]  # no rows, but of the right type
        cuts = [(max(start - starts[k], 0), max(stop - starts[k], 0)) for k in places]
        found.append(join([values[k] for k in places], cuts))
    return found


def _joined(blocks: Sequence[Any], cuts: Sequence[tuple[int, int]]) -> np.ndarray:
    """The rows from a to b of each block, one after the other."""
    pieces = [np.asarray(block)[a:b] for block, (a, b) in zip(blocks, cuts, strict=True)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
