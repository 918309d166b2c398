"""The outputs that a solver keeps for each example, and the dual point that they form."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.structured._compiled.outputs import (
    BYTES_PER_ENTRY,
    ENTRIES,
    LONGEST,
    MOST,
    PRODUCTS,
    SLOTS,
    Outputs,
    tidy,
)

_FIRST_ROOM = 4  # slots: most blocks need two or three outputs
_LIMIT = 48  # outputs of a block until memory decides: CoNLL-2000 does not reach 1e-3 with 16
_MEMORY = 1 << 30  # bytes of entries up to which full blocks get twice the capacity
_OF_SLOTS = "q", "loss", "length", "key", "idle"  # in addition to where the entries begin
_GROWTH = 1.5  # of a pool that is full


class OutputCache:
    """Outputs by blocks, with their weights.

    Parameters
    ----------
    n_blocks : int
    n_cached_outputs : int or None
        Outputs that a block may keep in addition to the true one, at least 2; None is 48, and more
        while there is memory.
    squared : bool
        Whether the weights of a block have a free sum: true outputs then begin without weight.
    """

    def __init__(self, n_blocks: int, n_cached_outputs: int | None, squared: bool = False):
        limit = 1 + (_LIMIT if n_cached_outputs is None else n_cached_outputs)
        capacity = min(_FIRST_ROOM, limit)
        n, blocks = n_blocks * capacity, np.arange(n_blocks, dtype=np.int64)
        self.outputs = Outputs(
            at=blocks * capacity,
            gram_at=blocks * capacity * capacity,
            capacity=np.full(n_blocks, capacity, np.int64),
            count=np.ones(n_blocks, np.int64),
            limit=np.full(n_blocks, limit, np.int64),
            q=np.zeros(n),  # except the true outputs, below
            loss=np.zeros(n),
            begin=np.zeros(n, np.int64),
            length=np.zeros(n, np.int64),
            key=np.zeros(n, np.uint64),
            idle=np.zeros(n, np.int64),
            gram=np.zeros(n * capacity),
            indices=np.empty(0, np.uint32),
            values=np.empty(0),
            used=np.array([n, n * capacity, 0, 0, capacity], np.int64),
            budget=0 if n_cached_outputs is not None else _MEMORY // BYTES_PER_ENTRY,
        )
        if not squared:
            self.outputs.q[self.outputs.at] = 1.0

    def make_room(self, longest: int) -> None:
        """Make room for more outputs of up to ``longest`` entries: tidy or enlarge the pools."""
        o = self.outputs
        most, capacity = max(longest, int(o.used[LONGEST])), 2 * int(o.used[MOST])
        live = int(o.length[slots_of(o, np.arange(len(o.at)))[0]].sum())
        wanted = max(int(_GROWTH * live), live + 4 * most + 1024)
        indices, values = np.empty(wanted, np.uint32), np.empty(wanted)
        slots = _grown(len(o.q), int(o.used[SLOTS]) + capacity)
        products = _grown(len(o.gram), int(o.used[PRODUCTS]) + capacity * capacity)
        fresh = {name: _resized(getattr(o, name), slots) for name in _OF_SLOTS}
        fresh["begin"] = np.zeros(slots, np.int64)
        fresh["gram"] = _resized(o.gram, products)
        fresh["used"] = o.used.copy()
        fresh["used"][ENTRIES] = tidy(o, fresh["begin"], indices, values)
        self.outputs = o._replace(indices=indices, values=values, **fresh)


def slots_of(o: Outputs, blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slots of these blocks' outputs, and the place in ``blocks`` of each one's block."""
    counts = o.count[blocks]
    owner = np.repeat(np.arange(len(blocks)), counts)
    first = o.at[blocks] - (np.cumsum(counts) - counts)
    return first[owner] + np.arange(len(owner)), owner


def _grown(size: int, needed: int) -> int:
    return size if size >= needed else max(needed, int(_GROWTH * size))


def _resized(array: np.ndarray, size: int) -> np.ndarray:
    if len(array) >= size:
        return array
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
