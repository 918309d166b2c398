"""Steps of dual coordinate ascent: what a formula registers for one row.

The dual of ``reg_lambda/2 ||w||^2 + sum_i s_i l(f_i)`` in alpha, one number per row, with
``w = X'(y alpha) / reg_lambda``; y_i is the direction of the row, for labels the label, so that
alpha_i is minus y_i s_i times a slope of the loss. A step maximizes the dual over one alpha_i.
"""

from functools import partial
from typing import Any

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, inner, jit_by_kind, registered
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import prefetch
from sklearn_bundle.linear._compiled.scores import conjugate


def direction(loss, target) -> Any:
    """The y_i of a row with this target."""
    return 1.0


registered(direction, None)(direction)  # of all formulas that register no other


def step(loss, target, margin, alpha, weight, curvature, high, low) -> Any:
    """The best alpha_i for ``margin = y_i f_i`` before the step, with what the step computes.

    ``curvature`` is that of the quadratic term in alpha_i. A row does not count if alpha_i is at a
    bound and its gradient points far enough outwards: its square over the curvature is above
    ``high`` at the lower bound, or above ``low`` at the upper one.

    Returns the new alpha_i, the projected gradient, the row's part of the duality gap before the
    step, and whether the row counts.
    """
    raise NotImplementedError  # its place is taken by what a loss registers


@inner
def gain(loss, target, margin, alpha, new, weight, curvature):
    """By how much the dual rises from alpha to new."""
    change, toward = new - alpha, direction(loss, target) / weight
    before = conjugate(loss, -toward * alpha, target, 0.0)
    after = conjugate(loss, -toward * new, target, 0.0)
    return weight * (before - after) - change * (margin + 0.5 * curvature * change)


@inner
def projected(left, right, alpha, least, most, curvature, high, low):
    """The projected gradient in [least, most], and whether the row counts.

    ``left`` and ``right`` are minus the derivatives of the dual on both sides of alpha. A row of
    zeros counts, but says nothing about the others.
    """
    if curvature == 0.0:
        return 0.0, True
    upward = right > 0.0 and right * right > high * curvature
    downward = left < 0.0 and left * left > low * curvature
    if alpha == least:
        return min(right, 0.0), not upward
    if alpha == most:
        return max(left, 0.0), not downward
    return min(right, 0.0) + max(left, 0.0), not (left < right and upward and downward)


@inner
def maximizer(ascent, bend, alpha, least, most):
    """Where ``ascent a - bend a^2/2`` is largest in [least, most]; alpha if that is everywhere."""
    if bend > 0.0:
        return min(max(ascent / bend, least), most)
    if ascent == 0.0:
        return alpha
    return most if ascent > 0.0 else least  # a row of zeros


# An epoch of dual coordinate steps over the rows, with shrinking (Hsieh et al., 2008). Each row has
# four numbers, one after the other: target, weight, curvature and alpha.

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
