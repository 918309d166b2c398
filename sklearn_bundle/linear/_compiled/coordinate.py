"""An epoch of dual coordinate steps over the rows, with shrinking.

The dual of ``reg_lambda/2 ||w||^2 + sum_i s_i l(f_i)`` in alpha, one number per row, with
``w = X'(y alpha) / reg_lambda`` kept up to date; y_i is the row's direction, for labels the label.
A step maximizes the dual over one alpha_i and depends on the loss. The epoch is compiled once for
each type of named tuple that represents a loss. The functions that the loss registers for this type
(:func:`~.decorators.registered`) replace those without a body here.

An intercept is one more coordinate of w, drawn towards a center, with the weight ``1 / pull``.
"""

from typing import Any

import numpy as np

from sklearn_bundle.jit.decorators import fallback, inner, jit
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import WIDTH, fma, load, plus, prefetch, splat, total
from sklearn_bundle.linear._compiled.scores import conjugate

TARGET, WEIGHT, CURVATURE, ALPHA = 0, 1, 2, 3  # positions of a row's numbers
_STRIDE = 4  # numbers per row: half of a cache line

_LEAD = 4  # blocks between the prefetch of a row's first lines and its use: the time of a miss
_LINES = 6  # cache lines of indices, and twice as many of data, that are prefetched: 96 entries
_AHEAD = 64  # entries between the prefetch of a number of w and its use


@fallback
def direction(loss, target) -> Any:
    """The y_i of a row with this target: alpha_i is minus y_i times the loss's derivative."""
    return 1.0


def step(loss, target, margin, alpha, weight, curvature, high, low) -> Any:
    """The best alpha_i for ``margin = y_i f_i`` before the step, with what the step computes.

    ``curvature`` is that of the quadratic term in alpha_i. A row does not count if alpha_i is at a
    bound and its gradient points far enough outwards: its square over the curvature is above
    ``high`` at the lower bound, or above ``low`` at the upper one.

    Returns the new alpha_i, the projected gradient, the row's part of the duality gap before the
    step, and whether the row counts.
    """
    raise NotImplementedError  # a name for compiled code: what a loss registers stands here


@fallback
def gain(loss, target, margin, alpha, new, weight, curvature) -> Any:
    """Two numbers whose difference, first minus second, is the dual's gain from alpha to new."""
    change, toward = new - alpha, direction(loss, target) / weight
    before = conjugate(loss, -toward * alpha, target, 0.0)
    after = conjugate(loss, -toward * new, target, 0.0)
    return weight * (before - after), change * (margin + 0.5 * curvature * change)


@inner
def _csr_dot(data, indices, start, end, last, w):
    """<x, w>; with ``last`` > 0 the numbers of w are prefetched some entries ahead.

    ``last`` is the last position from which an existing index can be read ahead.
    """
    k = start
    s0 = s1 = s2 = s3 = 0.0
    far = min(end, last)
    while k + np.uint64(4) <= far:
        prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD)]))
        prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD + 1)]))
        prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD + 2)]))
        prefetch(w, np.uint64(indices[k + np.uint64(_AHEAD + 3)]))
        s0 += data[k] * w[indices[k]]
        s1 += data[k + np.uint64(1)] * w[indices[k + np.uint64(1)]]
        s2 += data[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
        s3 += data[k + np.uint64(3)] * w[indices[k + np.uint64(3)]]
        k += np.uint64(4)
    while k + np.uint64(4) <= end:
        s0 += data[k] * w[indices[k]]
        s1 += data[k + np.uint64(1)] * w[indices[k + np.uint64(1)]]
        s2 += data[k + np.uint64(2)] * w[indices[k + np.uint64(2)]]
        s3 += data[k + np.uint64(3)] * w[indices[k + np.uint64(3)]]
        k += np.uint64(4)
    while k < end:
        s0 += data[k] * w[indices[k]]
        k += np.uint64(1)
    return (s0 + s1) + (s2 + s3)


@inner
def _dense_dot(data, start, width, w):
    a, b = splat(0.0), splat(0.0)
    whole = width - width % (2 * WIDTH)
    for j in range(0, whole, 2 * WIDTH):
        a = fma(load(data, start + j), load(w, j), a)
        b = fma(load(data, start + j + WIDTH), load(w, j + WIDTH), b)
    result = total(plus(a, b))
    for j in range(whole, width):
        result += data[start + j] * w[j]
    return result


@jit
def epoch(
    data,
    indices,
    indptr,
    width,
    rows,
    active,
    size,
    block,
    order,
    far,
    loss,
    w,
    scale,
    high,
    low,
    intercept,
    pull,
    seed,
):
    """One step for each of the first ``size`` rows of ``active``, in blocks in random order.

    ``data`` holds the rows one after the other, of ``width`` entries each; with ``width`` 0 they
    are those of CSR. ``rows`` holds target, weight, curvature and alpha of one row after the other;
    w changes by ``scale x`` times the change of y alpha, and the intercept by ``pull`` times it.
    A row leaves ``active``, whose order is kept, if the square of its gradient at a bound, over its
    curvature, is larger than ``high``, or ``low`` at the upper bound. ``far`` says that w does not
    fit into a near cache.

    Returns the number of rows that stay, the largest such squares of both signs, the sum of the
    rows' parts of the duality gap when they were visited, the dual's gain, and the intercept.
    """
    random = seed[0]
    n_blocks = (size + block - 1) // block
    for a in range(n_blocks):
        order[a] = a
    last = np.uint64(0)
    if far and data.shape[0] > _AHEAD + 4:
        last = np.uint64(data.shape[0] - _AHEAD - 4)
    largest = smallest = 0.0
    gap = gained = 0.0
    for a in range(n_blocks - 1, -_LEAD - 1, -1):
        if a > 0:  # shuffle, some places ahead of the steps
            random = exchanged(order, a, random)
        if a >= 0:
            i = active[order[a] * block]
            prefetch(rows, np.uint64(_STRIDE * i))
            start = np.uint64(i * width) if width > 0 else indptr[i]
            for line in range(_LINES):
                if width == 0:
                    prefetch(indices, start + np.uint64(16 * line))
                prefetch(data, start + np.uint64(16 * line))
                prefetch(data, start + np.uint64(16 * line + 8))
        if a + _LEAD >= n_blocks:
            continue
        first = order[a + _LEAD] * block
        for k in range(first, min(first + block, size)):
            i = active[k]
            at = _STRIDE * i
            target, alpha = rows[at + TARGET], rows[at + ALPHA]
            y = direction(loss, target)
            if width > 0:
                score = _dense_dot(data, i * width, width, w)
            else:
                score = _csr_dot(data, indices, indptr[i], indptr[i + 1], last, w)
            margin = y * (score + intercept)
            weight, curvature = rows[at + WEIGHT], rows[at + CURVATURE]
            new, projected, part, counts = step(
                loss, target, margin, alpha, weight, curvature, high, low
            )
            gap += part
            if not counts:
                active[k] = -1
                continue
            square = projected * projected
            if projected > 0.0 and square > largest * curvature:
                largest = square / curvature
            elif projected < 0.0 and square > smallest * curvature:
                smallest = square / curvature
            if new == alpha:
                continue
            rows[at + ALPHA] = new
            change = new - alpha
            rise, fall = gain(loss, target, margin, alpha, new, weight, curvature)
            gained += rise
            gained -= fall
            change *= y
            intercept += pull * change
            change *= scale
            if width > 0:
                start = i * width
                for j in range(width):
                    w[j] += change * data[start + j]
            else:
                for p in range(indptr[i], indptr[i + 1]):
                    w[indices[p]] += change * data[p]
    seed[0] = random
    stay = 0
    for k in range(size):
        if active[k] >= 0:
            active[stay] = active[k]
            stay += 1
    return stay, largest, smallest, gap, gained, intercept


@jit
def follow(rows, newest, mean):
    """Update a running mean of alpha, with the weight ``newest`` for the last one."""
    for i in range(mean.shape[0]):
        mean[i] += newest * (rows[_STRIDE * i + ALPHA] - mean[i])


@jit
def keep_active(loss, margins, rows, high, low, active):
    """Write the rows that an epoch with these limits would keep, given all margins.

    Returns their number.
    """
    size = 0
    for i in range(margins.shape[0]):
        at = _STRIDE * i
        target, alpha = rows[at + TARGET], rows[at + ALPHA]
        weight, curvature = rows[at + WEIGHT], rows[at + CURVATURE]
        active[size] = i
        size += step(loss, target, margins[i], alpha, weight, curvature, high, low)[3]
    return size
