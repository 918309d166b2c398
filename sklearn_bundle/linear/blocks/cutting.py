"""Collections of dask as delayed blocks of rows that are cut alike."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sklearn_bundle.core.values import is_collection, shown

# Dask reads several files of a frame as one block if few of their columns are needed, of each frame
# so many: X and y of the same files would have other blocks.
_BLOCKS_AS_GIVEN = {"optimization.tune.active": False}


def calls_of(task: Callable[..., Any], X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """A delayed ``task(X, y, sample_weight)`` for each block, as :func:`aligned` cuts these."""
    from dask.delayed import delayed

    columns = aligned(X, y, sample_weight)
    nothing = [None] * len(columns[0])
    rows = zip(*(nothing if column is None else column for column in columns), strict=True)
    return [delayed(task, pure=False)(*row) for row in rows]


def aligned(X: Any, y: Any, sample_weight: Any = None) -> list[Any]:
    """Delayed blocks of X, y and weights, which hold the same rows; None for what is not given.

    Frames with the same number of partitions are cut alike, and lists as they are. Of the rest,
    what has other blocks than X is cut where X is cut.

    Raises
    ------
    ValueError
        If the numbers of rows differ, or those of blocks in lists.
    """
    given = {"X": X, "y": y, "sample_weight": sample_weight}
    given = {name: values for name, values in given.items() if values is not None}
    if all(_is_frame(values) for values in given.values()):
        given = {name: _existing(values) for name, values in given.items()}
        if len({values.npartitions for values in given.values()}) == 1:
            return _columns(given, _joint(list(given.values())))
    if any(isinstance(values, list | tuple) and is_collection(values) for values in given.values()):
        return _columns(given, [blocks_of(name, values) for name, values in given.items()])
    return _columns(given, [blocks_of("X", X), *_cut(given)])


def blocks_of(name: str, values: Any) -> list[Any]:
    """The delayed blocks of a collection; TypeError if it is none of rows."""
    import dask.config as config

    if isinstance(values, list | tuple):
        return list(values)
    if _is_frame(values):
        with config.set(_BLOCKS_AS_GIVEN):
            return _existing(values).to_delayed()
    return list(_array(name, values).to_delayed().ravel())


def _columns(given: dict[str, Any], columns: list[list[Any]]) -> list[Any]:
    """These blocks in the order of :func:`aligned`."""
    found = dict(zip(given, columns, strict=True))
    for name, blocks in found.items():
        if len(blocks) != len(found["X"]):
            raise ValueError(
                f"{name} has {len(blocks)} blocks of rows, X has {len(found['X'])}; they must be "
                "cut at the same rows."
            )
    return [found.get(name) for name in ("X", "y", "sample_weight")]


def _is_frame(values: Any) -> bool:
    """Whether it is a data frame or a series of dask; an index too."""
    from dask.delayed import Delayed  # which pretends to have any method

    if isinstance(values, list | tuple | Delayed) or not is_collection(values):
        return False
    return hasattr(values, "to_dask_array")


def _existing(values: Any) -> Any:
    """A frame with the blocks that it has, where it says that it has more.

    ``persist()`` of a frame that was read from some columns of parquet files joins neighboring
    blocks, but the frame that it returns has the old number of them, of which the last ones have no
    task (https://github.com/dask/dask/issues/12488).
    """
    import dask.dataframe as dd
    from dask.core import flatten

    graph = values.__dask_graph__()
    here = [key in graph for key in flatten(values.__dask_keys__())]
    return values if all(here) else dd.from_delayed(values.to_delayed()[: sum(here)])


def _joint(frames: list[Any]) -> list[list[Any]]:
    """The partitions of each frame, from one expression.

    What the frames have in common is read once, and whatever dask makes of it, they are cut alike.
    """
    import dask.config as config
    import dask.dataframe as dd

    options = {"enforce_metadata": False, "align_dataframes": False}
    with config.set(_BLOCKS_AS_GIVEN):
        rows = dd.map_partitions(_together, *frames, meta=(None, object), **options).to_delayed()
    return [[row[k] for row in rows] for k in range(len(frames))]


def _together(*parts: Any) -> tuple:
    return parts


def _array(name: str, values: Any) -> Any:
    """The values as a dask array in chunks of whole rows."""
    import dask.config as config
    from dask import array
    from dask.delayed import Delayed

    if isinstance(values, Delayed):
        raise TypeError(f"{name} is one delayed object; pass a list of blocks of rows, [{name}].")
    if not is_collection(values):
        values = np.asarray(values)
        return array.from_array(values, chunks=values.shape)  # type: ignore[arg-type]
    if _is_frame(values):
        with config.set(_BLOCKS_AS_GIVEN):
            return _existing(values).to_dask_array(lengths=True)
    if not hasattr(values, "chunks") or values.ndim not in (1, 2):
        raise TypeError(
            f"{name} must be a dask array of one or two dimensions, a dask data frame or a list of "
            f"delayed blocks, got {shown(values)}."
        )
    return values.rechunk({1: -1}) if values.ndim == 2 and values.numblocks[1] > 1 else values


def _cut(given: dict[str, Any]) -> Iterator[list[Any]]:
    """The blocks of all but X, cut where X is cut; unknown numbers of rows are counted."""
    arrays = {name: _array(name, values) for name, values in given.items()}
    if len(arrays) > 1:
        for name, values in arrays.items():
            if np.isnan(values.shape[:1]).any():
                arrays[name] = values.compute_chunk_sizes()
    X = arrays.pop("X")
    for name, values in arrays.items():
        if values.shape[:1] != X.shape[:1]:
            raise ValueError(
                f"{name} must have an entry for each of the {X.shape[0]} rows of X, got shape "
                f"{values.shape}."
            )
        yield list(values.rechunk({0: X.chunks[0]}).to_delayed().ravel())
