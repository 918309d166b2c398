"""One recursion along a chain, for both semirings: sums of products, and largest sums.

Arrays of rows are flat; a row has one entry per label and is padded to ``S`` entries, a multiple of
the length of vectors. ``bars`` holds a matrix of labels and two rows, for the first and the last
position, that are added to scores: 0, or -inf where a label or a pair of labels is forbidden. It is
-inf in the padding, so that padded labels never count. Scores themselves are finite.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import add, copy
from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.elementary import exp
from sklearn_bundle.jit.vector import (
    WIDTH,
    larger,
    largest,
    load,
    splat,
    spread,
    store,
    total,
)

_LARGEST = 150.0  # scores up to this size need no shift: their exponentials do not underflow
_MATCHING = 1e-200  # a smaller product of both sums at a position has lost terms by underflow


class Workspace(NamedTuple):
    """Memory to work in: rows per position, a table and its transposed, a scale per position.

    ``on`` are the ways on from a label, without its own weight, which ``back`` includes.
    """

    bars: NDArray[np.float64]
    weights: NDArray[np.float64]
    ways: NDArray[np.float64]
    on: NDArray[np.float64]
    back: NDArray[np.float64]
    table: NDArray[np.float64]
    scales: NDArray[np.float64]


@inner
def aligned(size):
    """Memory in which no vector crosses a cache line, which would take twice the time."""
    memory = np.empty(size + WIDTH)
    first = (-memory.ctypes.data % (8 * WIDTH)) // 8
    return memory[first : first + size]


@inner
def new_workspace(T, S, bars):
    n = T * S
    rows = aligned(n), aligned(n), aligned(n), aligned(n)
    return Workspace(bars, rows[0], rows[1], rows[2], rows[3], aligned(2 * S * S), np.empty(T))


@inner
def largest_size(values, size):
    """The largest absolute value."""
    most = splat(0.0)
    for x in range(0, size, WIDTH):
        value = load(values, x)
        most = larger(larger(-1.0 * value, value), most)
    return largest(most)


@inner
def marginals(scores, pairs, T, K, S, work, nodes, edges):
    """Write marginals of positions and summed ones of pairs; log of the sum over all labelings.

    It comes with the tables of the pairs at each step and the distance between them, for
    :func:`pair_marginals`. Weights are exponentials, of scores less the largest of a position if
    some are large. Where a range of scores, or what forbidden pairs exclude, makes them underflow,
    they are taken relative to the best way on: see :func:`_of_wide_range`.
    """
    weights, table, shift = work.weights, work.table, 0.0
    for x in range(0, T * S, WIDTH):
        store(weights, x, load(scores, x))
    size = largest_size(scores, T * S)
    if not size <= _LARGEST:
        for t in range(T):
            highest = -np.inf
            for x in range(t * S, t * S + K):
                highest = max(highest, scores[x])
            shift += highest
            for x in range(t * S, t * S + S):
                weights[x] = scores[x] - highest if x < t * S + K else 0.0
        size = 0.5 * largest_size(weights, T * S)
    if max(size, largest_size(pairs, S * S)) <= _LARGEST:
        _close(weights, T, S, work.bars)
        _exponentials(weights, T * S)
        if T > 1:
            add(pairs, 0, 1.0, work.bars, 0, S * S, table)
            _exponentials(table, S * S)
            _transpose(table, S)
        log_z, least = _normalized(table, 0, T, K, S, work, nodes)
        if least >= _MATCHING:
            _sum_pairs(T, K, S, work, edges)
            return shift + log_z, table, 0
    return _of_wide_range(scores, pairs, T, K, S, work, nodes, edges)


@inner
def best_path(scores, pairs, T, K, S, work, path):
    """Write the labeling of the highest score to ``path``; returns the score."""
    ways, table = work.ways, work.table
    for x in range(0, T * S, WIDTH):
        store(work.weights, x, load(scores, x))
    _close(work.weights, T, S, work.bars)
    add(pairs, 0, 1.0, work.bars, 0, S * S, table)
    _run(1, work.weights, table, 0, T, K, S, work.on, ways, None)
    label = 0
    for k in range(K):
        if ways[(T - 1) * S + k] > ways[(T - 1) * S + label]:
            label = k
    highest = ways[(T - 1) * S + label]
    for t in range(T - 1, -1, -1):
        path[t] = label
        origin, top = 0, -np.inf
        for j in range(K if t > 0 else 0):
            value = ways[(t - 1) * S + j] + table[j * S + label]
            if value > top:
                origin, top = j, value
        label = origin
    return highest


@inner
def _close(weights, T, S, bars):
    """Forbid labels at both ends."""
    add(weights, 0, 1.0, bars, S * S, S, weights)
    add(weights, (T - 1) * S, 1.0, bars, (S + 1) * S, S, weights)


@inner
def _transpose(table, S):
    """Write the transposed table of labels behind it."""
    for j in range(S):
        for k in range(S):
            table[(S + k) * S + j] = table[j * S + k]


@inner
def _exponentials(values, size):
    for x in range(size):
        values[x] = exp(values[x])


@inner
def _run(forward, weights, table, stride, T, K, S, reached, out, scales):
    """Write to row t of ``out`` the total weight of all ways from one end up to each label there.

    ``reached`` is the same without the labels' own weights. Rows are relative to the sum of the one
    before, which goes to ``scales``; if these are None, rows are sums of the best ways instead.
    ``stride`` is the distance between tables if each step has its own.
    """
    inverse = 1.0
    for n in range(T):
        t = n if forward else T - 1 - n
        here, before = t * S, (t - 1 if forward else t + 1) * S
        first = (t - 1 if forward else t) * stride + (0 if forward else S * S)
        mass = splat(0.0)
        for c in range(0, S, WIDTH):
            own = load(weights, here + c)
            ways = splat(0.0 if scales is None else 1.0)
            if n > 0:
                ways = _combined(out, before, table, first + c, K, S, scales)
                ways = ways if scales is None else inverse * ways
            own = ways + own if scales is None else ways * own
            store(reached, here + c, ways)
            store(out, here + c, own)
            mass = own + mass
        if scales is not None:
            scales[t] = scale = total(mass)
            inverse = 1.0 / scale


@inner
def _combined(row, at, table, x, K, S, scales):
    """Eight entries of a row times a table: sums of products or, without scales, largest sums."""
    start = splat(-np.inf if scales is None else 0.0)
    even, odd = start, start  # two that do not wait for each other
    for k in range(0, K, 2):  # a row beyond K is zero, or forbidden
        one, first = spread(row, at + k), load(table, x + k * S)
        two, second = spread(row, at + k + 1), load(table, x + (k + 1) * S)
        if scales is None:
            even, odd = larger(one + first, even), larger(two + second, odd)
        else:
            even, odd = one * first + even, two * second + odd
    return larger(even, odd) if scales is None else even + odd


@inner
def _normalized(table, stride, T, K, S, work, nodes):
    """:func:`marginals` of positions, and the least product of both sums at one of them.

    ``back`` times ``ways`` of the position before, and the table, are then marginals of pairs.
    """
    weights, ways, on, back, scales = work.weights, work.ways, work.on, work.back, work.scales
    _run(1, weights, table, stride, T, K, S, on, ways, scales)
    log_z, product, least = 0.0, 1.0, np.inf
    for t in range(T):
        product *= scales[t]
        if not 1e-100 < product < 1e100:
            log_z, product = log_z + np.log(product), 1.0
    _run(0, weights, table, stride, T, K, S, on, back, scales)
    before = 1.0
    for t in range(T):
        mass, masses = splat(0.0), splat(0.0)
        for x in range(t * S, t * S + S, WIDTH):
            node = load(ways, x) * load(on, x)
            store(nodes, x, node)
            mass, masses = node + mass, load(ways, x) + masses
        of_all = total(mass)
        match = of_all / total(masses)
        least = match if not match >= least else least
        share, right = 1.0 / of_all, before / scales[t]
        for x in range(t * S, t * S + S, WIDTH):
            store(nodes, x, share * load(nodes, x))
            store(back, x, right * load(back, x))
        before = 1.0 / of_all
    return log_z + np.log(product), least


@inner
def _sum_pairs(T, K, S, work, edges):
    """Write summed marginals of pairs, of one table for all steps."""
    ways, back, table = work.ways, work.back, work.table
    for x in range(0, S * S, WIDTH):
        store(edges, x, splat(0.0))
    for j in range(0, K if T > 1 else 0, 2):  # two sums that do not wait for each other
        for c in range(0, S, WIDTH):
            one, two, x = splat(0.0), splat(0.0), j * S + c
            for t in range(1, T):
                right = load(back, t * S + c)
                one = spread(ways, (t - 1) * S + j) * right + one
                two = spread(ways, (t - 1) * S + j + 1) * right + two
            store(edges, x, one * load(table, x))
            store(edges, x + S, two * load(table, x + S))


@inner
def _of_wide_range(scores, pairs, T, K, S, work, nodes, edges):
    """The same for scores of any size: a table for each step, relative to the best way on.

    The best way has the weight one everywhere, so that nothing that counts underflows. Without an
    allowed labeling the log is -inf, and nothing is written.
    """
    best, rows, table = np.empty(T * S), np.zeros(S * S), work.table
    copy(scores, 0, T * S, work.weights, 0)
    _close(work.weights, T, S, work.bars)
    add(pairs, 0, 1.0, work.bars, 0, S * S, table)
    _transpose(table, S)
    _run(0, work.weights, table, 0, T, K, S, work.on, best, None)
    tables, stride = np.empty(max(T - 1, 1) * 2 * S * S), 2 * S * S
    for t in range(1, T):
        for j in range(K):
            on = -np.inf
            for k in range(K):
                rows[j * S + k] = table[j * S + k] + best[t * S + k]
                on = max(on, rows[j * S + k])
            for k in range(K):
                rows[j * S + k] = rows[j * S + k] - on if on > -np.inf else on
        own = tables[(t - 1) * stride :]
        add(rows, 0, 1.0, work.bars, 0, S * S, own)
        _exponentials(own, S * S)
        _transpose(own, S)
    highest = -np.inf
    for k in range(K):
        highest = max(highest, best[k])
    if highest == -np.inf:
        return highest, tables, stride
    for x in range(T * S):
        work.weights[x] = 1.0 if x >= S else exp(best[x] - highest)
    log_z, _ = _normalized(tables, stride, T, K, S, work, nodes)
    for x in range(S * S):
        edges[x] = 0.0
    for t in range(1, T):
        for j in range(K):
            way = spread(work.ways, (t - 1) * S + j)
            for c in range(0, S, WIDTH):
                right = load(tables, (t - 1) * stride + j * S + c) * load(work.back, t * S + c)
                store(edges, j * S + c, way * right + load(edges, j * S + c))
    return highest + log_z, tables, stride


@inner
def pair_marginals(T, K, S, work, table, stride, out, at):
    """After :func:`marginals`: write those of neighboring positions, a matrix each, to ``out``."""
    for t in range(1, T):
        for j in range(K):
            for k in range(K):
                right = table[(t - 1) * stride + j * S + k] * work.back[t * S + k]
                out[at] = work.ways[(t - 1) * S + j] * right
                at += 1
