"""An epoch of dual coordinate steps over the rows, with shrinking (Hsieh et al., 2008).

Each row has four numbers, one after the other: target, weight, curvature and alpha.
"""

from functools import partial

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, jit_by_kind
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import prefetch
from sklearn_bundle.linear._compiled.dual import direction, gain, step

TARGET, WEIGHT, CURVATURE, ALPHA = 0, 1, 2, 3  # places of a row's numbers
STRIDE = 4  # numbers per row: half of a cache line
LEAD = 4  # rows between the prefetch of a row's first lines and its use: the time of a miss


@partial(jit_by_kind, **SUMS)
def epoch(loss, stored, rows, active, size, order, w, scale, limits, b, pull, seed):
    """One step for each of the first ``size`` rows of ``active``, in random order.

    ``w`` is kept at ``scale X'(y alpha)``, and b moves by ``pull`` times the change of y alpha.
    Rows that do not count leave ``active``, see ``dual.step``. Returns how many stay, the largest
    squared gradients over the curvature of both signs, the rows' parts of the gap, the gain of the
    dual, and b.
    """
    data, indices, indptr, width = stored
    high, low = limits
    random = seed[0]
    for a in range(size):
        order[a] = active[a]
    largest = smallest = gap = gained = 0.0
    for a in range(size - 1, -LEAD - 1, -1):
        if a > 0:  # shuffle, some places ahead of the steps
            random = exchanged(order, a, random)
        if a >= 0:
            i = order[a]
            prefetch(rows, np.uint64(STRIDE * i))
            start = np.uint64(i * width) if width > 0 else indptr[i]
            # 6 cache lines of indices, and twice as many of data, that are prefetched: 96 entries
            for line in range(6):
                if width == 0:
                    prefetch(indices, start + np.uint64(16 * line))
                prefetch(data, start + np.uint64(16 * line))
                prefetch(data, start + np.uint64(16 * line + 8))
        if a + LEAD >= size:
            continue
        i = order[a + LEAD]
        at = STRIDE * i
        target, alpha = rows[at + TARGET], rows[at + ALPHA]
        y, score = direction(loss, target), 0.0
        if width > 0:
            row = data[i * width : (i + 1) * width]
            for j in range(width):
                score += row[j] * w[j]
        else:
            for p in range(indptr[i], indptr[i + 1]):
                score += data[p] * w[indices[p]]
        margin, weight, curvature = y * (score + b), rows[at + WEIGHT], rows[at + CURVATURE]
        new, projected, part, counts = step(
            loss, target, margin, alpha, weight, curvature, high, low
        )
        gap += part
        if not counts:
            order[a + LEAD] = -1
            continue
        square = projected * projected
        if projected > 0.0 and square > largest * curvature:
            largest = square / curvature
        elif projected < 0.0 and square > smallest * curvature:
            smallest = square / curvature
        if new == alpha:
            continue
        rows[at + ALPHA] = new
        gained += gain(loss, target, margin, alpha, new, weight, curvature)
        change = y * (new - alpha)
        b += pull * change
        change *= scale
        if width > 0:
            row = data[i * width : (i + 1) * width]
            for j in range(width):
                w[j] += change * row[j]
        else:
            for p in range(indptr[i], indptr[i + 1]):
                w[indices[p]] += change * data[p]
    seed[0] = random
    stay = 0
    for a in range(size):
        if order[a] >= 0:
            active[stay] = order[a]
            stay += 1
    return stay, largest, smallest, gap, gained, b
