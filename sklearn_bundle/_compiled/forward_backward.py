"""Partition function and marginals of a chain, by the forward and backward recursions.

Arrays of rows are flat, as in chain.py: rows are padded to ``width``, and the padding of results is
zero.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled.elementary import exp
from sklearn_bundle._compiled.vector import (
    WIDTH,
    fma,
    load,
    plus,
    splat,
    spread,
    store,
    times,
    total,
    transpose,
)
from sklearn_bundle._jit import inlined, inner

_LARGEST = 150.0  # scores up to this size need no shift: nothing can underflow, see marginals()
_WIDEST = 300.0  # the same for their range in a row, once the largest is subtracted


class Room(NamedTuple):
    """Memory to work in.

    ``forward``, ``weighted`` and ``nodes`` have a row a position, ``table`` has two a label,
    ``pairs`` one, ``row`` is one, and ``scales`` has a number a position.
    """

    forward: NDArray[np.float64]
    weighted: NDArray[np.float64]
    table: NDArray[np.float64]
    row: NDArray[np.float64]
    scales: NDArray[np.float64]
    nodes: NDArray[np.float64]
    pairs: NDArray[np.float64]


@inner
def new_room(T, S):
    forward, weighted, nodes = np.empty(T * S), np.empty(T * S), np.empty(T * S)
    table, pairs = np.empty(2 * S * S), np.empty(S * S)
    return Room(forward, weighted, table, np.empty(S), np.empty(T), nodes, pairs)


@inner
def marginals(chains, scores, pairs, T, room, nodes, edges):
    """Log partition function; marginals of the positions, and sums of those of the pairs.

    Scaled probabilities. Scores of size 150 and less need no shift: with a range of 300 each in
    a position and in the transitions, the normalised forward values stay above exp(-600) / K, the
    backward values within exp(300) of one, and nothing underflows that is ever needed. Larger
    scores are shifted by the largest of the position; where the range is larger than 300 after
    that, or a transition is larger than 150, logarithms are used.
    """
    K, S = chains.n_labels, chains.width
    if T == 1:
        for k in range(S * S):
            edges[k] = 0.0
        return _softmax(scores, K, S, nodes)
    weighted, table = room.weighted, room.table
    shift = 0.0
    if _count_large(scores, T * S) == 0:
        for x in range(T * S):
            weighted[x] = scores[x]
    else:
        for t in range(T):
            highest, lowest = -np.inf, np.inf
            for k in range(t * S, t * S + K):
                highest, lowest = max(highest, scores[k]), min(lowest, scores[k])
            if not highest - lowest < _WIDEST:
                return _logarithmic(scores, pairs, T, K, S, room, nodes, edges)
            for k in range(K):
                weighted[t * S + k] = scores[t * S + k] - highest
            for k in range(K, S):
                weighted[t * S + k] = 0.0
            shift += highest
    if _count_large(pairs, S * S) > 0:
        return _logarithmic(scores, pairs, T, K, S, room, nodes, edges)
    for x in range(S * S):
        table[x] = exp(pairs[x])
    for j in range(K, S):
        for k in range(S):
            table[j * S + k] = table[k * S + j] = 0.0
    for j in range(0, S, WIDTH):
        for k in range(0, S, WIDTH):
            transpose(table, j * S + k, table, (S + k) * S + j, S)
    return shift + _scaled(K, S, T, room, nodes, edges)


@inner
def _count_large(values, size):
    count = 0
    for x in range(size):
        count += not abs(values[x]) <= _LARGEST
    return count


@inlined
def _scaled(K, S, T, room, nodes, edges):
    forward, weighted, row, scales = room.forward, room.weighted, room.row, room.scales
    table = room.table
    for x in range(T * S):
        weighted[x] = exp(weighted[x])
    for k in range(S):
        forward[k] = weighted[k] * (k < K)
    log_z, product = 0.0, 1.0
    for t in range(T):
        here, before = t * S, (t - 1) * S
        mass = splat(0.0)
        for c in range(0, S, WIDTH):
            if t > 0:
                sums = _combination(forward, before, table, c, K, S)
                sums = times(sums, load(weighted, here + c))
                store(forward, here + c, sums)
                mass = plus(sums, mass)
            else:
                mass = plus(load(forward, c), mass)
        scale = total(mass)
        scales[t] = inverse = 1.0 / scale
        for c in range(0, S, WIDTH):
            store(forward, here + c, times(splat(inverse), load(forward, here + c)))
        product *= scale
        if not 1e-100 < product < 1e100:
            log_z += np.log(product)
            product = 1.0
    for k in range(S):
        row[k] = 1.0
    for t in range(T - 1, -1, -1):
        here, inverse = t * S, splat(scales[t])
        for c in range(0, S, WIDTH):
            back = load(row, c)
            store(nodes, here + c, times(load(forward, here + c), back))
            store(weighted, here + c, times(load(weighted, here + c), times(inverse, back)))
        if t > 0:
            for c in range(0, S, WIDTH):
                store(row, c, _combination(weighted, here, table, S * S + c, K, S))
    for j in range(K):
        for c in range(0, S, WIDTH):
            sums = splat(0.0)
            for t in range(1, T):
                x = t * S
                sums = fma(spread(forward, x - S + j), load(weighted, x + c), sums)
            store(edges, j * S + c, times(sums, load(table, j * S + c)))
    for x in range(K * S, S * S):
        edges[x] = 0.0
    return log_z + np.log(product)


@inner
def pair_marginals(chains, scores, pairs, T, room, log_z, out):
    """After :func:`marginals`: the marginals of each two positions in sequence."""
    K, S = chains.n_labels, chains.width
    forward, weighted = room.forward, room.weighted
    if room.scales[0] > 0.0:
        for t in range(1, T):
            before, here, at = (t - 1) * S, t * S, (t - 1) * S * S
            for j in range(S):
                factor = splat(forward[before + j] * (j < K))
                for c in range(0, S, WIDTH):
                    joint = times(load(weighted, here + c), load(room.table, j * S + c))
                    store(out, at + j * S + c, times(factor, joint))
        return
    for t in range(1, T):
        for j in range(S):
            for k in range(S):
                x = t * S + k
                edge = forward[x - S - k + j] + pairs[j * S + k] + scores[x] + weighted[x]
                value = exp(min(edge - log_z, 0.0)) if j < K and k < K else 0.0
                out[((t - 1) * S + j) * S + k] = value


@inner
def _combination(factors, at, table, column, K, S):
    """Eight entries of factors' times table, in two sums, which do not wait for one another."""
    even, odd = splat(0.0), splat(0.0)
    for k in range(0, K, 2):  # a row more than K is zero
        even = fma(spread(factors, at + k), load(table, k * S + column), even)
        odd = fma(spread(factors, at + k + 1), load(table, (k + 1) * S + column), odd)
    return plus(even, odd)


@inlined
def _softmax(scores, K, S, out):
    highest, mass = -np.inf, 0.0
    for k in range(K):
        highest = max(highest, scores[k])
    for k in range(S):
        out[k] = exp(min(scores[k] - highest, 0.0)) * (k < K)  # finite in the padding too
        mass += out[k]
    for k in range(K):
        out[k] /= mass
    return highest + np.log(mass)


@inner
def _logarithmic(scores, pairs, T, K, S, room, nodes, edges):
    """The same from logarithms, for scores of any size; ``scales[0] = 0`` tells that it was."""
    forward, backward, row = room.forward, room.weighted, room.row
    room.scales[0] = log_z = 0.0
    for x in range(T * S):
        nodes[x] = forward[x] = backward[x] = 0.0
    for x in range(S * S):
        edges[x] = 0.0
    for step in range(T):
        here, back = step * S, (T - 1 - step) * S
        for k in range(K):
            if step == 0:
                forward[k] = scores[k]
                continue
            for j in range(K):
                row[j] = forward[here - S + j] + pairs[j * S + k]
            forward[here + k] = _log_sum(row, K) + scores[here + k]
            for j in range(K):
                row[j] = backward[back + S + j] + scores[back + S + j] + pairs[k * S + j]
            backward[back + k] = _log_sum(row, K)
    for k in range(K):
        row[k] = forward[(T - 1) * S + k]
    log_z = _log_sum(row, K)
    for x in range(T * S):
        k = x % S
        if k < K:
            nodes[x] = np.exp(min(forward[x] + backward[x] - log_z, 0.0))
            for j in range(K if x >= S else 0):
                edge = forward[x - k - S + j] + pairs[j * S + k] + scores[x] + backward[x]
                edges[j * S + k] += np.exp(min(edge - log_z, 0.0))
    return log_z


@inner
def _log_sum(values, K):
    highest, mass = -np.inf, 0.0
    for k in range(K):
        highest = max(highest, values[k])
    for k in range(K):
        mass += np.exp(values[k] - highest)
    return highest + np.log(mass)
