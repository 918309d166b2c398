"""Collections of dask as delayed blocks of rows that are cut alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.blocks.rounds import Rounds

# Dask reads several files of a frame as one block if few of their columns are needed, of each frame
# so many: X and y of the same files would have other blocks.
_BLOCKS_AS_GIVEN = {"optimization.tune.active": False}


UNLIMITED = TimeLimit(None)


class Parts(NamedTuple):
    """Blocks of rows as dask's delayed objects, in order.

    ``lengths`` are their numbers of rows, None if unknown; ``fixed`` says that the caller cut them.
    """

    blocks: list[Any]
    lengths: tuple[int, ...] | None
    fixed: bool = False


def parts_of(name: str, X: Any) -> Parts:
    """The blocks of a collection; TypeError if it is none of rows."""
    import dask.config as config
    from dask.delayed import Delayed

    if isinstance(X, list | tuple):
        return Parts(list(X), None, fixed=True)
    if isinstance(X, Delayed):  # which pretends to have any method
        raise TypeError(f"{name} is one delayed object; pass a list of blocks of rows, [{name}].")
    if _is_frame(X):
        with config.set(_BLOCKS_AS_GIVEN):
            return Parts(X.to_delayed(), None)
    if hasattr(X, "chunks") and X.ndim in (1, 2):
        whole = X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X
        known = not np.isnan(whole.chunks[0]).any()
        return Parts(list(whole.to_delayed().ravel()), tuple(whole.chunks[0]) if known else None)
    raise TypeError(
        f"{name} must be a dask array of one or two dimensions, a dask data frame or a list of "
        f"delayed blocks, got {shown(X)}."
    )


def calls_of(
    task: Callable[..., Any], X: Any, y: Any, sample_weight: Any, limit: TimeLimit = UNLIMITED
) -> list[Any]:
    """A delayed ``task(X, y, sample_weight)`` for each block, as :func:`aligned` cuts these.

    Frames are read and given to the task in one step: they are never stored as they were read.
    """
    from dask.delayed import delayed

    given = {"X": X, "y": y, "sample_weight": sample_weight}
    given = {name: _existing(values) for name, values in given.items() if values is not None}
    if len(_alike(given)) == len(given):
        return _mapped(_Named(task, tuple(given)), list(given.values()))
    columns = aligned(X, y, sample_weight, limit)
    nothing = [None] * len(columns[0])
    rows = zip(*(nothing if column is None else column for column in columns), strict=True)
    return [delayed(task, pure=False)(*row) for row in rows]


def aligned(X: Any, y: Any, sample_weight: Any = None, limit: TimeLimit = UNLIMITED) -> list[Any]:
    """Delayed blocks of X, y and weights, which hold the same rows; None for what is not given.

    What has other blocks than X is cut where X is cut. Blocks that the caller has cut stay: as many
    as X has are taken for the same rows, which tasks check.

    Raises
    ------
    ValueError
        If the numbers of rows differ, or those of blocks that the caller has cut.
    """
    given = {"X": _existing(X), "y": _existing(y), "sample_weight": _existing(sample_weight)}
    frames = _alike(given)
    joint = _mapped(_together, list(frames.values())) if frames else []
    found: dict[str, Any] = {name: [row[k] for row in joint] for k, name in enumerate(frames)}
    parts = Parts(found["X"], None) if frames else parts_of("X", given["X"])
    found["X"], lengths = parts.blocks, parts.lengths
    for name, values in given.items():
        if name in found or values is None:
            continue
        other = parts_of(name, values) if is_collection(values) else None
        if other is not None and (other.fixed or parts.fixed):
            _refuse_other_blocks(name, other, parts)
            found[name] = other.blocks
            continue
        lengths = lengths or _counted(parts.blocks, limit)
        found[name] = _cut(name, values, other, lengths, limit)
    return [found.get(name) for name in given]


def _is_frame(values: Any) -> bool:
    """Whether it is a data frame or a series of dask; an index too."""
    from dask.delayed import Delayed

    if isinstance(values, list | tuple | Delayed) or not is_collection(values):
        return False
    return hasattr(values, "to_dask_array")


def _existing(values: Any) -> Any:
    """A frame with the blocks that it has, where it says that it has more.

    ``persist()`` of a frame that was read from some columns of parquet files joins neighboring
    blocks, but the frame that it returns has the old number of them, of which the last ones have no
    task (https://github.com/dask/dask/issues/12488).
    """
    if not _is_frame(values):
        return values
    import dask.dataframe as dd
    from dask.core import flatten

    graph = values.__dask_graph__()
    here = [key in graph for key in flatten(values.__dask_keys__())]
    if all(here):
        return values
    return dd.from_delayed(values.to_delayed()[: sum(here)])


def _alike(given: dict[str, Any]) -> dict[str, Any]:
    """The frames among these with the partitions of X; none if X is not one."""
    X = given["X"]
    if not _is_frame(X):
        return {}
    frames = {name: frame for name, frame in given.items() if _is_frame(frame)}
    return {name: frame for name, frame in frames.items() if frame.npartitions == X.npartitions}


def _mapped(task: Callable[..., Any], frames: list[Any]) -> list[Any]:
    """A delayed ``task(*partitions)`` for each partition, from one expression.

    What the frames have in common is read once, and whatever dask makes of it, they are cut alike.
    """
    import dask.config as config
    import dask.dataframe as dd

    options = {"enforce_metadata": False, "align_dataframes": False}
    with config.set(_BLOCKS_AS_GIVEN):
        return dd.map_partitions(task, *frames, meta=(None, object), **options).to_delayed()


def _together(*parts: Any) -> tuple:
    return parts


@dataclass(frozen=True)
class _Named:
    """The task of arguments with these names; dask takes no other one for it."""

    task: Callable[..., Any]
    names: tuple[str, ...]
    token: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, *parts: Any) -> Any:
        return self.task(**dict(zip(self.names, parts, strict=True)))


def _refuse_other_blocks(name: str, other: Parts, X: Parts) -> None:
    if len(other.blocks) != len(X.blocks):
        raise ValueError(
            f"{name} has {len(other.blocks)} blocks of rows, X has {len(X.blocks)}; they must be "
            "cut at the same rows."
        )


def _counted(blocks: Sequence[Any], limit: TimeLimit) -> tuple[int, ...]:
    """The numbers of rows of blocks."""
    from dask.delayed import delayed

    calls = [delayed(_count, pure=False)(block) for block in blocks]
    return tuple(Rounds(calls, limit, "counting rows").map(int))


def _count(block: Any) -> int:
    return int(block.shape[0]) if hasattr(block, "shape") else len(block)


def _cut(
    name: str, values: Any, parts: Parts | None, lengths: tuple[int, ...], limit: TimeLimit
) -> list[Any]:
    """Blocks of these lengths from an array in memory, or from the parts of a collection."""
    from dask import array
    from dask.delayed import delayed

    n = sum(lengths)
    if parts is None:
        values = np.asarray(values)
        if values.ndim == 0 or len(values) != n:
            raise ValueError(
                f"{name} must have an entry for each of the {n} rows of X, got shape "
                f"{values.shape}."
            )
        return [delayed(values[a:b]) for a, b in pairwise(np.cumsum([0, *lengths]))]
    there = parts.lengths or _counted(parts.blocks, limit)
    if sum(there) != n:
        raise ValueError(
            f"{name} has {sum(there)} rows in {len(there)} blocks, X has {n} rows in "
            f"{len(lengths)} blocks; they must have the same rows."
        )
    if parts.lengths is None:
        rows = [delayed(np.asarray)(block) for block in parts.blocks]
        values = array.concatenate(
            [
                array.from_delayed(row, (size, *values.shape[1:]), dtype=object)
                for row, size in zip(rows, there, strict=True)
            ]
        )
    return list(values.rechunk({0: lengths}).to_delayed().ravel())
