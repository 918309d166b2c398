"""Scores of classes, their hinge loss of a row, and sweeps of dual coordinate steps over rows.

A row has a distribution over the classes. The dual is that of
``reg_lambda/2 ||W||^2 + sum_i s_i max_k (f_ik - f_iy + Delta(y_i, k))`` in alpha, whose rows are on
the simplex, with ``W = X'S(Y - alpha) / reg_lambda`` kept up to date, Y the indicators
of the labels. A step maximizes the dual over one row of alpha. An intercept per class is one more
feature, drawn towards a center, with the weight ``1 / pull``.

Numbers per class are padded to whole vectors: k of them, the last ones with a cost of -1e300.
"""

import math

import numpy as np

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.sampling import exchanged
from sklearn_bundle.jit.vector import (
    WIDTH,
    fma,
    larger,
    largest,
    load,
    minus,
    plus,
    positive,
    prefetch,
    splat,
    spread,
    store,
    times,
    total,
    where_below,
)

_NEVER = -1e300  # a score that is never the best one
_LEAD = 4  # rows between the prefetch of a row's first lines and its use: the time of a miss


@inner
def _scores(data, indices, start, end, first, k, W, out):
    """out = <x, W_k> for every class, for a row that has the entries from start to end.

    W is the matrix of shape (d, k), row after row. Without indices, entry p belongs to column
    ``p - first``. Up to 32 classes at a time stay in registers.
    """
    dense = indices.shape[0] == 0
    c = 0
    while c < k:
        s0 = s1 = s2 = s3 = splat(0.0)
        if k - c >= 4 * WIDTH:
            for p in range(start, end):
                x = spread(data, p)
                at = np.intp(p - first if dense else indices[p]) * k + c
                s0 = fma(load(W, at), x, s0)
                s1 = fma(load(W, at + WIDTH), x, s1)
                s2 = fma(load(W, at + 2 * WIDTH), x, s2)
                s3 = fma(load(W, at + 3 * WIDTH), x, s3)
            store(out, c + 2 * WIDTH, s2)
            store(out, c + 3 * WIDTH, s3)
            store(out, c + WIDTH, s1)
            store(out, c, s0)
            c += 4 * WIDTH
        elif k - c >= 2 * WIDTH:
            for p in range(start, end):
                x = spread(data, p)
                at = np.intp(p - first if dense else indices[p]) * k + c
                s0 = fma(load(W, at), x, s0)
                s1 = fma(load(W, at + WIDTH), x, s1)
            store(out, c + WIDTH, s1)
            store(out, c, s0)
            c += 2 * WIDTH
        else:
            for p in range(start, end):
                at = np.intp(p - first if dense else indices[p]) * k + c
                s0 = fma(load(W, at), spread(data, p), s0)
            store(out, c, s0)
            c += WIDTH


@jit
def filled(data, n, width, starts, blocks):
    """List the vectors of each dense row that are not all zeros, one row after the other.

    Entries after the last whole vector belong to none; row i has those from ``starts[i]`` on.
    """
    size = 0
    for i in range(n):
        starts[i] = size
        for h in range(width // WIDTH):
            at = i * width + h * WIDTH
            some = False
            for j in range(at, at + WIDTH):
                some |= data[j] != 0.0
            blocks[size] = h
            size += some
    starts[n] = size


@inner
def _dot(W, at, data, start, width, blocks, first, last):
    """<w, x> of ``width`` numbers of W from ``at`` on; x is zero outside these blocks."""
    s0 = s1 = s2 = s3 = splat(0.0)
    long = last - (last - first) % 4
    for e in range(first, long, 4):
        h0, h1 = np.intp(blocks[e]) * WIDTH, np.intp(blocks[e + 1]) * WIDTH
        h2, h3 = np.intp(blocks[e + 2]) * WIDTH, np.intp(blocks[e + 3]) * WIDTH
        s0 = fma(load(W, at + h0), load(data, start + h0), s0)
        s1 = fma(load(W, at + h1), load(data, start + h1), s1)
        s2 = fma(load(W, at + h2), load(data, start + h2), s2)
        s3 = fma(load(W, at + h3), load(data, start + h3), s3)
    for e in range(long, last):
        h0 = np.intp(blocks[e]) * WIDTH
        s0 = fma(load(W, at + h0), load(data, start + h0), s0)
    result = total(plus(plus(s0, s1), plus(s2, s3)))
    for j in range(width - width % WIDTH, width):
        result += W[at + j] * data[start + j]
    return result


@inner
def _add(factor, data, start, width, blocks, first, last, W, at):
    """Add ``factor x`` to ``width`` numbers of W from ``at`` on."""
    times_x = splat(factor)
    for e in range(first, last):
        h = np.intp(blocks[e]) * WIDTH
        store(W, at + h, fma(times_x, load(data, start + h), load(W, at + h)))
    for j in range(width - width % WIDTH, width):
        W[at + j] += factor * data[start + j]


@inner
def _threshold(r, k, height, theta):
    """The t with ``sum_k max(r_k - t, 0) = height``, and how many terms are positive.

    Newton's method from a theta below t: the sum is convex, so every step ends below t, and the set
    of positive terms only shrinks.
    """
    one, count = splat(1.0), np.inf
    while True:
        sums = counts = splat(0.0)
        limit = splat(theta)
        for c in range(0, k, WIDTH):
            x = load(r, c)
            sums = plus(sums, where_below(limit, x, x))
            counts = plus(counts, where_below(limit, x, one))
        above = total(counts)
        if above >= count or above == 0.0:
            return theta, above
        better = (total(sums) - height) / above
        if not better > theta:
            return theta, above
        theta, count = better, above


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
    data,
    indices,
    indptr,
    width,
    labels,
    costs,
    rows,
    active,
    size,
    order,
    alpha,
    listed,
    starts,
    blocks,
    W,
    intercepts,
    scale,
    pull,
    space,
    seed,
):
    """One step for each of the first ``size`` rows of ``active``, in random order.

    ``data`` holds the rows one after the other, of ``width`` entries each; with ``width`` 0 they
    are those of CSR. ``rows`` holds weight and curvature of one row after the other. A row whose
    alpha is already the best one leaves ``active``; LIBLINEAR does the same. W is of shape (d, k),
    or (K, d) if ``listed`` has rows. These hold the classes that a row's step considers, and last
    their number: a class without weight whose score is below those of all classes with weight
    leaves the list. ``starts`` and ``blocks`` are then those of :func:`filled`.

    Returns the number of rows that stay, the sum of the rows' parts of the duality gap when they
    were visited, and the gain of the dual.
    """
    K, k = costs.shape
    flat = costs.reshape(-1)
    by_class = listed.shape[0] > 0
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
        if a + _LEAD < size:
            i = order[a + _LEAD]
            for c in range(0, k, WIDTH):
                prefetch(alpha, i * k + c)
            prefetch(rows, 2 * i)
            prefetch(labels, i)
            start = np.intp(i * width if width > 0 else indptr[i])
            if by_class:
                for e in range(starts[i], starts[i + 1]):
                    prefetch(data, start + np.intp(blocks[e]) * WIDTH)
            else:
                prefetch(data, start)
                prefetch(data, start + WIDTH)
        i = order[a]
        at, cost = i * k, labels[i] * k
        weight, curvature = rows[2 * i], rows[2 * i + 1]
        if width > 0:
            start, end = i * width, (i + 1) * width
        else:
            start, end = np.intp(indptr[i]), np.intp(indptr[i + 1])
        if by_class:
            for c in range(k):
                scores[c] = _NEVER
            for e in range(listed[i, K]):
                c = listed[i, e]
                x = (data, start, width, blocks, starts[i], starts[i + 1])
                scores[c] = _dot(W, c * width, *x)
        else:
            _scores(data, indices, start, end, start, k, W, scores)
        tops, means = splat(-np.inf), zero
        for c in range(0, k, WIDTH):
            u = plus(plus(load(scores, c), load(intercepts, c)), load(flat, cost + c))
            store(scores, c, u)
            tops = larger(u, tops)
            means = fma(load(alpha, at + c), u, means)
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
            old = load(alpha, at + c)
            r = fma(splat(curvature), old, minus(load(scores, c), splat(top)))
            store(scores, c, r)
            sums = plus(sums, where_below(zero, old, r))
            counts = plus(counts, where_below(zero, old, one))
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
        limit, inverse, rises = splat(theta), splat(1.0 / curvature), zero
        for c in range(0, k, WIDTH):
            old, r = load(alpha, at + c), load(scores, c)
            new = where_below(limit, r, one)  # exactly a vertex, so that it is recognized as one
            if above > 1.0:
                new = times(positive(minus(r, limit)), inverse)
            store(alpha, at + c, new)
            move = minus(new, old)
            rise = fma(splat(-curvature), fma(splat(0.5), move, old), r)
            rises = fma(move, rise, rises)
            move = times(move, splat(-weight))
            store(intercepts, c, fma(splat(pull), move, load(intercepts, c)))
            store(change, c, times(move, splat(scale)))
        gained += weight * (part if to_vertex else total(rises))
        if by_class:
            for h in range(K):
                if change[h] != 0.0:
                    x = (data, start, width, blocks, starts[i], starts[i + 1])
                    _add(change[h], *x, W, h * width)
        else:
            for p in range(start, end):
                x = spread(data, p)
                place = np.intp(p - start if width > 0 else indices[p]) * k
                for c in range(0, k, WIDTH):
                    number = fma(load(change, c), x, load(W, place + c))
                    store(W, place + c, number)
    return stay, gap, gained


@jit
def follow(rows, alpha, k, newest, mean, stamps, stamp):
    """Update the running mean of these rows of alpha, with the weight ``newest`` for the last."""
    share = splat(newest)
    for i in rows:
        stamps[i] = stamp
        for c in range(i * k, (i + 1) * k, WIDTH):
            old = load(mean, c)
            store(mean, c, fma(share, minus(load(alpha, c), old), old))


@jit
def catch_up(alpha, k, mean, stamps, stamp):
    """The same for rows that have not changed since their stamps, for every update they missed.

    Stamps are logarithms of the share that is left of the first mean.
    """
    for i in range(stamps.shape[0]):
        if stamps[i] == stamp:
            continue
        left = splat(math.exp(stamp - stamps[i]))
        stamps[i] = stamp
        for c in range(i * k, (i + 1) * k, WIDTH):
            now = load(alpha, c)
            store(mean, c, fma(left, minus(load(mean, c), now), now))


@jit
def class_scores(scores, starts, nodes, out):
    """The sum of its nodes' scores for each class, row by row."""
    for i in range(scores.shape[0]):
        for k in range(starts.shape[0] - 1):
            total = 0.0
            for j in range(starts[k], starts[k + 1]):
                total += scores[i, nodes[j]]
            out[i, k] = total


@jit
def highest(scores, row, label, costs, slack):
    """Loss of a row, and the class k that attains it: the label itself if the loss is zero.

    ``costs`` has a row per class, or one row of ones for all. The loss is NaN if a score is. NaN is
    tracked separately, since the comparison of a class waits for that of the class before.
    """
    c = min(label, costs.shape[0] - 1)
    own = scores[row, label]
    best = 0.0
    at = label
    broken = False
    for k in range(scores.shape[1]):
        cost = costs[c, k] * (k != label)
        gamma = cost if slack else 1.0
        v = gamma * (scores[row, k] - own) + cost
        higher = v > best
        broken |= v != v
        best = v if higher else best
        at = k if higher else at
    return (np.nan if broken else best), at
