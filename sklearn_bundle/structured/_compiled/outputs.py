"""Outputs that an oracle found for each block, kept with their weights in the dual.

A block is an example. An output y enters risk and dual as a sparse vector psi, the difference
between the features of the true output and its own, and as a loss. Nothing else of it is kept
(section 3.3 of Yu and Rousu). The first output of a block is the true one, of zeros. Blocks have
room for as many outputs as they need: a block that grows moves to the end of the pools.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import SUMS, inner, jit

SLOTS, PRODUCTS, ENTRIES, LONGEST, MOST = 0, 1, 2, 3, 4  # places in ``used``
_MULTIPLIER = np.uint32(2654435769)  # 2^32 over the golden ratio: spreads indices over a table
BYTES_PER_ENTRY = 12  # an index and a value
_DENSE = 1 << 15  # entries of a vector that is kept dense: 256 KB stay in the cache


class Outputs(NamedTuple):
    """Blocks of outputs in pools.

    Block i has ``count[i]`` outputs in the slots from ``at[i]``, room for ``capacity[i]``, and the
    products of their psi from ``gram_at[i]``, ``capacity[i]`` to a row. ``limit[i]`` is the number
    it may keep. The output of a slot has the weight q, the entries ``begin`` to ``begin + length``,
    and ``idle``, the number of visits for which q has been 0.

    ``used`` holds how much of the pools of slots, products and entries is in use, the length of the
    longest psi, and the capacity of the largest block.
    """

    at: NDArray[np.int64]
    gram_at: NDArray[np.int64]
    capacity: NDArray[np.int64]
    count: NDArray[np.int64]
    limit: NDArray[np.int64]
    q: NDArray[np.float64]
    loss: NDArray[np.float64]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    idle: NDArray[np.int64]
    gram: NDArray[np.float64]
    indices: NDArray[np.uint32]
    values: NDArray[np.float64]
    used: NDArray[np.int64]
    budget: int  # entries up to which a block that is full may grow


class Table(NamedTuple):
    """A sparse vector to take products with: as a hash table, or dense if it has few entries."""

    keys: NDArray[np.int64]
    values: NDArray[np.float64]
    dense: NDArray[np.float64]


@inner
def new_table(length, dimension):
    """Memory for vectors of up to ``length`` entries."""
    size = 16
    while size < 2 * length:
        size *= 2
    dense = np.zeros(dimension if dimension <= _DENSE else 0)
    return Table(np.full(size, -1, np.int64), np.empty(size), dense)


@partial(inner, **SUMS)
def gathered(indices, values, begin, length, w):
    """The product of a sparse vector with a dense one."""
    result = 0.0
    for e in range(begin, begin + length):
        result += values[e] * w[np.int64(indices[e])]
    return result


@inner
def score_of(outputs, slot, w):
    """``loss - <w, psi>`` of an output."""
    begin, length = outputs.begin[slot], outputs.length[slot]
    return outputs.loss[slot] - gathered(outputs.indices, outputs.values, begin, length, w)


@inner
def add_psi(outputs, slot, amount, w):
    """``w += amount * psi``."""
    for e in range(outputs.begin[slot], outputs.begin[slot] + outputs.length[slot]):
        w[np.int64(outputs.indices[e])] += amount * outputs.values[e]


@inner
def _first_place(index, mask):
    """The first place to look for an index: its high bits, since strides are powers of two."""
    product = np.uint32(index) * _MULTIPLIER
    return np.int64(product ^ (product >> np.uint32(16))) & mask


@inner
def _place(table, index):
    """The place of an index in the table, or the free place where it would go."""
    mask = table.keys.shape[0] - 1
    place = _first_place(index, mask)
    while table.keys[place] != -1 and table.keys[place] != index:
        place = (place + 1) & mask
    return place


@inner
def _spread(table, indices, values, begin, length):
    if table.dense.shape[0] > 0:
        for e in range(begin, begin + length):
            table.dense[np.int64(indices[e])] = values[e]
        return
    for e in range(begin, begin + length):
        place = _place(table, np.int64(indices[e]))
        table.keys[place] = indices[e]
        table.values[place] = values[e]


@inner
def _clear(table, indices, begin, length):
    """Remove the entries: all from each first place up to a free one, so that none is left."""
    if table.dense.shape[0] > 0:
        for e in range(begin, begin + length):
            table.dense[np.int64(indices[e])] = 0.0
        return
    mask = table.keys.shape[0] - 1
    for e in range(begin, begin + length):
        place = _first_place(indices[e], mask)
        while table.keys[place] != -1:
            table.keys[place] = -1
            place = (place + 1) & mask


@inner
def _product(table, outputs, slot):
    if table.dense.shape[0] > 0:
        begin, length = outputs.begin[slot], outputs.length[slot]
        return gathered(outputs.indices, outputs.values, begin, length, table.dense)
    product = 0.0
    for e in range(outputs.begin[slot], outputs.begin[slot] + outputs.length[slot]):
        place = _place(table, np.int64(outputs.indices[e]))
        if table.keys[place] != -1:
            product += table.values[place] * outputs.values[e]
    return product


@inner
def _are_equal(outputs, slot, indices, values):
    """Whether a slot has these entries, in this order."""
    begin = outputs.begin[slot]
    for e in range(outputs.length[slot]):
        same = outputs.indices[begin + e] == indices[e] and outputs.values[begin + e] == values[e]
        if not same:
            return False
    return True


@inner
def enough(outputs, longest):
    """Whether the pools have room for another output, of up to ``longest`` entries."""
    used = outputs.used
    most = max(used[LONGEST], longest)
    capacity = 2 * used[MOST]  # of the largest block, once it has moved
    return (
        used[ENTRIES] + 3 * most <= outputs.indices.shape[0]
        and used[SLOTS] + capacity <= outputs.q.shape[0]
        and used[PRODUCTS] + capacity * capacity <= outputs.gram.shape[0]
    )


@inner
def insert(outputs, i, indices, values, length, loss, table):
    """Keep an output of block i, with weight 0 if it is new; returns the number of its slot.

    The pools must have :func:`enough` room.
    """
    first = outputs.at[i]
    for slot in range(first, first + outputs.count[i]):
        same = outputs.length[slot] == length and outputs.loss[slot] == loss
        if same and _are_equal(outputs, slot, indices, values):
            return slot
    k = _free_slot(outputs, i, table)
    slot = outputs.at[i] + k
    begin = outputs.used[ENTRIES]
    outputs.used[ENTRIES] = begin + length
    outputs.used[LONGEST] = max(outputs.used[LONGEST], length)
    squared = 0.0
    for e in range(length):
        outputs.indices[begin + e] = indices[e]
        outputs.values[begin + e] = values[e]
        squared += values[e] * values[e]
    outputs.q[slot], outputs.loss[slot], outputs.idle[slot] = 0.0, loss, 0
    outputs.begin[slot], outputs.length[slot] = begin, length
    capacity, gram_at = outputs.capacity[i], outputs.gram_at[i]
    _spread(table, indices, values, 0, length)
    for other in range(outputs.count[i]):
        value = squared if other == k else _product(table, outputs, outputs.at[i] + other)
        outputs.gram[gram_at + k * capacity + other] = value
        outputs.gram[gram_at + other * capacity + k] = value
    _clear(table, indices, 0, length)
    return slot


@inner
def _free_slot(outputs, i, table):
    """The place of a new output in its block: a further one, or one that is freed for it."""
    count, first = outputs.count[i], outputs.at[i]
    if count == outputs.limit[i]:
        idle = -1
        for k in range(1, count):  # the true output stays
            longer = idle < 0 or outputs.idle[first + k] > outputs.idle[first + idle]
            if outputs.q[first + k] == 0.0 and longer:
                idle = k
        if idle >= 0:
            return idle
        if outputs.used[ENTRIES] > outputs.budget:
            return _merged(outputs, i, table)
        outputs.limit[i] = 2 * count
    if count == outputs.capacity[i]:
        _move(outputs, i)
    outputs.count[i] = count + 1
    return count


@inner
def _copy(outputs, source, target):
    """Copy an output, without its products, to another slot."""
    outputs.q[target], outputs.loss[target] = outputs.q[source], outputs.loss[source]
    outputs.begin[target], outputs.length[target] = outputs.begin[source], outputs.length[source]
    outputs.idle[target] = outputs.idle[source]


@inner
def _move(outputs, i):
    """Move a block to the end of the pools, with twice the capacity."""
    capacity, count = outputs.capacity[i], outputs.count[i]
    wide = min(2 * capacity, outputs.limit[i])
    source, target = outputs.at[i], outputs.used[SLOTS]
    from_gram, to_gram = outputs.gram_at[i], outputs.used[PRODUCTS]
    for k in range(count):
        _copy(outputs, source + k, target + k)
        for other in range(count):
            value = outputs.gram[from_gram + k * capacity + other]
            outputs.gram[to_gram + k * wide + other] = value
    outputs.at[i], outputs.gram_at[i], outputs.capacity[i] = target, to_gram, wide
    outputs.used[SLOTS] += wide
    outputs.used[PRODUCTS] += wide * wide
    outputs.used[MOST] = max(outputs.used[MOST], wide)


@inner
def _merged(outputs, i, table):
    """Merge the two outputs of least weight into their weighted mean; returns the free place.

    The dual point does not change: its psi and its loss are sums over outputs. It may no longer
    move between the two outputs (the current point of Yu and Rousu, footnote 1).
    """
    first, count = outputs.at[i], outputs.count[i]
    a, b = -1, -1
    for k in range(1, count):  # two at least, see n_cached_outputs
        if a < 0 or outputs.q[first + k] < outputs.q[first + a]:
            a, b = k, a
        elif b < 0 or outputs.q[first + k] < outputs.q[first + b]:
            b = k
    weight = outputs.q[first + a] + outputs.q[first + b]
    of_a, of_b = outputs.q[first + a] / weight, outputs.q[first + b] / weight
    _combine(outputs, first + a, first + b, of_a, of_b, table)
    capacity, gram_at = outputs.capacity[i], outputs.gram_at[i]
    gram = outputs.gram
    own = (
        of_a * of_a * gram[gram_at + a * capacity + a]
        + of_b * of_b * gram[gram_at + b * capacity + b]
    )
    own += 2.0 * of_a * of_b * gram[gram_at + a * capacity + b]
    for k in range(count):
        value = of_a * gram[gram_at + a * capacity + k] + of_b * gram[gram_at + b * capacity + k]
        gram[gram_at + a * capacity + k] = gram[gram_at + k * capacity + a] = value
    gram[gram_at + a * capacity + a] = own
    outputs.q[first + a] = weight
    return b


@inner
def _combine(outputs, a, b, of_a, of_b, table):
    """Replace slot a by ``of_a`` times itself plus ``of_b`` times slot b."""
    begin = at = outputs.used[ENTRIES]
    indices, values = outputs.indices, outputs.values
    for e in range(outputs.begin[a], outputs.begin[a] + outputs.length[a]):
        indices[at], values[at] = indices[e], of_a * values[e]
        at += 1
    table = Table(table.keys, table.values, table.dense[:0])
    _spread(table, indices, values, begin, at - begin)
    for e in range(outputs.begin[b], outputs.begin[b] + outputs.length[b]):
        place = _place(table, np.int64(indices[e]))
        if table.keys[place] == -1:
            indices[at], values[at] = indices[e], of_b * values[e]
            at += 1
        else:
            table.values[place] += of_b * values[e]
    for e in range(begin, begin + outputs.length[a]):
        values[e] = table.values[_place(table, np.int64(indices[e]))]
    _clear(table, indices, begin, outputs.length[a])
    outputs.begin[a], outputs.length[a] = begin, at - begin
    outputs.loss[a] = of_a * outputs.loss[a] + of_b * outputs.loss[b]
    outputs.used[ENTRIES] = at
    outputs.used[LONGEST] = max(outputs.used[LONGEST], at - begin)


@jit
def tidy(outputs, fresh_begin, fresh_indices, fresh_values):
    """Copy the entries in use to fresh pools, in the order of blocks; returns their number.

    ``outputs`` does not change, so that an interruption loses nothing.
    """
    at = 0
    for i in range(outputs.at.shape[0]):
        for slot in range(outputs.at[i], outputs.at[i] + outputs.count[i]):
            begin = outputs.begin[slot]
            for e in range(outputs.length[slot]):
                fresh_indices[at + e] = outputs.indices[begin + e]
                fresh_values[at + e] = outputs.values[begin + e]
            fresh_begin[slot] = at
            at += outputs.length[slot]
    return at


@inner
def forget(outputs, i, patience):
    """Drop the outputs of block i that have been idle for more visits than ``patience``."""
    first, capacity, gram_at = outputs.at[i], outputs.capacity[i], outputs.gram_at[i]
    k = 1
    while k < outputs.count[i]:
        if outputs.q[first + k] == 0.0 and outputs.idle[first + k] > patience:
            last = outputs.count[i] - 1
            if k < last:
                _copy(outputs, first + last, first + k)
                for other in range(last):
                    value = outputs.gram[gram_at + last * capacity + other]
                    if other == k:
                        value = outputs.gram[gram_at + last * capacity + last]
                    outputs.gram[gram_at + k * capacity + other] = value
                    outputs.gram[gram_at + other * capacity + k] = value
            outputs.count[i] = last
        else:
            k += 1
