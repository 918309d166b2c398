"""Products and projections for steps on many blocks at once, over the outputs with weight."""

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.structured._compiled.outputs import gathered


@jit
def supported(outputs, blocks, slots, starts):
    """Write the slots with weight and where each block begins; returns the number of slots."""
    count = 0
    for b in range(blocks.shape[0]):
        i = blocks[b]
        starts[b] = count
        for slot in range(outputs.at[i], outputs.at[i] + outputs.count[i]):
            if outputs.q[slot] > 0.0:
                slots[count] = slot
                count += 1
    starts[blocks.shape[0]] = count
    return count


@jit
def scores_of(outputs, slots, w, out):
    """``loss - <w, psi>`` of each slot; returns the number of entries read."""
    read = 0
    for k in range(slots.shape[0]):
        slot = slots[k]
        begin, length = outputs.begin[slot], outputs.length[slot]
        product = gathered(outputs.indices, outputs.values, begin, length, w)
        out[k] = outputs.loss[slot] - product
        read += length
    return read


@jit
def combination(outputs, slots, amounts, out):
    """``out += sum_k amounts[k] psi_k``."""
    for k in range(slots.shape[0]):
        if amounts[k] != 0.0:
            first = outputs.begin[slots[k]]
            for e in range(first, first + outputs.length[slots[k]]):
                out[np.int64(outputs.indices[e])] += amounts[k] * outputs.values[e]


@jit
def tangent(values, starts):
    """Subtract the mean of the values, block by block."""
    for i in range(starts.shape[0] - 1):
        first, last = starts[i], starts[i + 1]
        if first < last:
            mean = 0.0
            for k in range(first, last):
                mean += values[k]
            mean /= last - first
            for k in range(first, last):
                values[k] -= mean


@jit
def onto_simplexes(values, starts):
    """Project the values onto the unit simplex, block by block."""
    most = 0
    for i in range(starts.shape[0] - 1):
        most = max(most, starts[i + 1] - starts[i])
    falling = np.empty(most)
    for i in range(starts.shape[0] - 1):
        first, last = starts[i], starts[i + 1]
        if first < last:
            _sort(falling, values, first, last)
            total, level = -1.0, 0.0
            for k in range(last - first):
                total += falling[k]
                if falling[k] * (k + 1) <= total:
                    break
                level = total / (k + 1)
            for k in range(first, last):
                values[k] = max(values[k] - level, 0.0)


@inner
def _sort(falling, values, first, last):
    """Write the values from first to last in falling order: blocks are small."""
    for k in range(last - first):
        value, at = values[first + k], k
        while at > 0 and falling[at - 1] < value:
            falling[at] = falling[at - 1]
            at -= 1
        falling[at] = value
