"""Sweeps of dual coordinate steps for the multiclass hinge: a distribution over classes per row.

Numbers per class are padded to whole vectors, k of them; the last ones have a cost of -1e300.
Vectors take half of the time of plain loops here, since all scores of a row stay in registers.
"""

from functools import partial

import numpy as np

from sklearn_bundle.jit.decorators import SUMS, inner, jit
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import (
    WIDTH,
    larger,
    largest,
    load_fast,
    prefetch,
    splat,
    store,
    total,
    where_above,
)
from sklearn_bundle.linear._compiled.dual import LEAD

NEVER = -1e300  # a score that is never the best one


@inner
def _scores(data, indices, start, end, first, k, W, out):
    """out = <x, W_c> for every class, W of shape (d, k): up to 32 classes at a time in registers.

    Without indices, entry p belongs to column ``p - first``.
    """
    dense = indices.shape[0] == 0
    c = 0
    while c < k:
        s0 = s1 = s2 = s3 = splat(0.0)
        if k - c >= 4 * WIDTH:
            for p in range(start, end):
                x = np.float64(data[p])
                at = np.intp(p - first if dense else indices[p]) * k + c
                s0 = load_fast(W, at) * x + s0
                s1 = load_fast(W, at + WIDTH) * x + s1
                s2 = load_fast(W, at + 2 * WIDTH) * x + s2
                s3 = load_fast(W, at + 3 * WIDTH) * x + s3
            store(out, c + WIDTH, s1)
            store(out, c + 2 * WIDTH, s2)
            store(out, c + 3 * WIDTH, s3)
        else:
            for p in range(start, end):
                at = np.intp(p - first if dense else indices[p]) * k + c
                s0 = load_fast(W, at) * np.float64(data[p]) + s0
        store(out, c, s0)
        c += 4 * WIDTH if k - c >= 4 * WIDTH else WIDTH


@partial(inner, **SUMS)
def _dot(W, at, data, start, width):
    """<w, x> of ``width`` numbers of W from ``at`` on."""
    result, of_class, row = 0.0, W[at : at + width], data[start : start + width]
    for j in range(width):
        result += of_class[j] * row[j]
    return result


@inner
def _threshold(r, k, height, theta):
    """The t with ``sum_c max(r_c - t, 0) = height`` from one that is not too large, and the count.

    Newton's method on a convex function: the count of positive terms falls until it stays.
    """
    one, before = splat(1.0), np.inf
    while True:
        sums = counts = splat(0.0)
        for c in range(0, k, WIDTH):
            x = load_fast(r, c)
            sums = sums + where_above(x, theta, x, 0.0)
            counts = counts + where_above(x, theta, one, 0.0)
        count = total(counts)
        if count >= before or count == 0.0:
            return theta, count
        better = (total(sums) - height) / count
        if not better > theta:
            return theta, count
        theta, before = better, count


@inner
def _shorten(scores, alpha, at, classes):
    """Drop classes without weight whose score is below those of all classes with weight."""
    size = classes.shape[0] - 1
    lowest = np.inf
    for e in range(classes[size]):
        c = classes[e]
        if alpha[at + c] > 0.0:
            lowest = min(lowest, scores[c])
    stay = 0
    for e in range(classes[size]):
        c = classes[e]
        classes[stay] = c
        stay += alpha[at + c] > 0.0 or scores[c] >= lowest
    classes[size] = stay


@jit
def sweep(
    stored, labels, costs, rows, active, size, order, alpha, listed, W, b, scale, pull, space, seed
):
    """One step for each of the first ``size`` rows of ``active``, in random order.

    ``rows`` holds weight and curvature of one row after the other. W, flat, is kept at
    ``scale sum_i s_i x_i (y_i - alpha_i)'``, of shape (d, k), or (K, d) if ``listed`` has rows.
    These hold the classes that a row's step considers, and last their number. Rows whose alpha is
    the best one leave ``active``. Returns how many stay, the rows' parts of the gap, and the gain
    of the dual.
    """
    data, indices, indptr, width = stored
    K, k = costs.shape
    flat, by_class = costs.reshape(-1), listed.shape[0] > 0
    scores, change = space[0], space[1]
    random = seed[0]
    for a in range(size):
        order[a] = active[a]
    for a in range(size - 1, 0, -1):
        random = exchanged(order, a, random)
    seed[0] = random
    zero, one = splat(0.0), splat(1.0)
    gap = gained = 0.0
    stay = 0
    for a in range(size):
        if a + LEAD < size:
            ahead = order[a + LEAD]
            start = np.intp(ahead * width if width > 0 else indptr[ahead])
            for c in range(0, k, WIDTH):
                prefetch(alpha, ahead * k + c)
            for line in range(4):
                prefetch(data, start + 8 * line)
        i = order[a]
        at, cost = i * k, labels[i] * k
        weight, curvature = rows[2 * i], rows[2 * i + 1]
        if width > 0:
            start, end = i * width, (i + 1) * width
        else:
            start, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
        if by_class:
            for c in range(k):
                scores[c] = NEVER
            for e in range(listed[i, K]):
                c = listed[i, e]
                scores[c] = _dot(W, c * width, data, start, width)
        else:
            _scores(data, indices, start, end, start, k, W, scores)
        tops, means = splat(-np.inf), zero
        for c in range(0, k, WIDTH):
            u = load_fast(scores, c) + load_fast(b, c) + load_fast(flat, cost + c)
            store(scores, c, u)
            tops = larger(u, tops)
            means = load_fast(alpha, at + c) * u + means
        top = largest(tops)
        part = top - total(means)
        if not part > 0.0:
            continue
        active[stay] = i
        stay += 1
        gap += weight * part
        if by_class:
            _shorten(scores, alpha, at, listed[i])
        # The best alpha is max(r - theta, 0) / curvature; the classes of the last alpha give a
        # theta that is not too large.
        sums = counts = zero
        for c in range(0, k, WIDTH):
            old = load_fast(alpha, at + c)
            r = curvature * old + (load_fast(scores, c) - top)
            store(scores, c, r)
            sums = sums + where_above(old, 0.0, r, 0.0)
            counts = counts + where_above(old, 0.0, one, 0.0)
        below = (total(sums) - curvature) / total(counts)
        theta, above = _threshold(scores, k, curvature, below)
        to_vertex = above == 0.0
        if to_vertex:  # a row of zeros, or nearly so: the best vertex
            best = 0
            for c in range(K):
                best = c if scores[c] > scores[best] else best
            for c in range(K):
                scores[c] = -part
            scores[best], theta, above = 0.0, -0.5 * part, 1.0
        inverse, rises = 1.0 / curvature, zero
        for c in range(0, k, WIDTH):
            old, r = load_fast(alpha, at + c), load_fast(scores, c)
            new = where_above(r, theta, one, 0.0)  # a vertex, exactly
            if above > 1.0:
                new = larger(0.0, r - theta) * inverse
            store(alpha, at + c, new)
            move = new - old
            gain = -curvature * (0.5 * move + old) + r
            rises = move * gain + rises
            move = move * -weight
            store(b, c, pull * move + load_fast(b, c))
            store(change, c, move * scale)
        gained += weight * (part if to_vertex else total(rises))
        if by_class:
            for h in range(K):
                if change[h] != 0.0:
                    row, of_class = data[start:end], W[h * width : (h + 1) * width]
                    for j in range(width):
                        of_class[j] += change[h] * row[j]
            continue
        for p in range(start, end):
            x = np.float64(data[p])
            place = np.intp(p - start if width > 0 else indices[p]) * k
            for c in range(0, k, WIDTH):
                store(W, place + c, load_fast(change, c) * x + load_fast(W, place + c))
    return stay, gap, gained
