"""Workers for delayed blocks, and the client that they belong to; dask is imported if needed."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from ctypes import CDLL
from typing import Any

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.linear.rows._dask_cluster import ClusterWorkers
from sklearn_bundle.linear.rows._dask_waiting import UNLIMITED
from sklearn_bundle.linear.rows._dask_workers import DaskWorkers, LocalWorkers, in_block


def workers_of(
    calls: Sequence[Any],
    *,
    what: str,
    limit: TimeLimit = UNLIMITED,
    persisted: Sequence[Any] | None = None,
) -> DaskWorkers:
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
                raise in_block(error, k, len(calls)) from None
        raise


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
