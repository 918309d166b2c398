"""What the methods for chain CRFs share: blocks of the dual, and passes over all sequences."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled.chain import add_features, score_of, scores, transitions
from sklearn_bundle._compiled.elementary import log
from sklearn_bundle._compiled.forward_backward import marginals, new_room
from sklearn_bundle._compiled.vector import WIDTH, fma, load, plus, splat, spread, store, total
from sklearn_bundle._jit import inlined, inner, jit

WEIGHTS, GAPS, GRADIENT = 0, 1, 2  # what a sweep is for
_TINY = 1e-300
_ROUNDING = 4e-16


class Blocks(NamedTuple):
    """A dual point: for each sequence a distribution of its labellings.

    Log-potentials: ``nodes`` has a row a token, ``pairs`` a matrix (width, width) a sequence of two
    tokens and more, at ``pairs_at[i]``. Marginals: ``nodes`` the same, ``pairs`` a matrix for each
    two tokens in sequence, of sequence i from ``pairs_at[i]`` on.
    """

    potentials: bool
    nodes: NDArray[np.float64] | NDArray[np.float32]
    pairs: NDArray[np.float64] | NDArray[np.float32]
    pairs_at: NDArray[np.int64]


@inner
def largest(bounds):
    """The largest difference of two neighbours."""
    most = 0
    for i in range(bounds.shape[0] - 1):
        most = max(most, bounds[i + 1] - bounds[i])
    return most


@inner
def dot(a, b, size):
    """``<a, b>`` of the first ``size`` numbers, a multiple of the vectors' length."""
    sums = splat(0.0)
    for x in range(0, size, WIDTH):
        sums = fma(load(a, x), load(b, x), sums)
    return total(sums)


@inner
def aggregate(chains, i, nodes, edges, out):
    """Rows of ``out``: the features of ``nodes`` and ``edges``; returns their squared norm.

    First a row for each attribute of sequence i, then all that is no attribute.
    """
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    size = (chains.blocks[i + 1] - chains.blocks[i]) * S
    for x in range(size):
        out[x] = 0.0
    for e in range(chains.entries[i], chains.entries[i + 1]):
        row = np.int64(chains.slots[e]) * S
        source = np.int64(chains.positions[e]) * S
        value = spread(chains.values, e)
        for c in range(0, S, WIDTH):
            store(out, row + c, fma(value, load(nodes, source + c), load(out, row + c)))
    if T > 1:
        for x in range(0, S * S, WIDTH):
            store(out, size + x, load(edges, x))
        size += S * S
    if chains.intercept:
        for c in range(0, S, WIDTH):
            row = splat(0.0)
            for t in range(T):
                row = plus(load(nodes, t * S + c), row)
            store(out, size + c, row)
            store(out, size + S + c, load(nodes, c))
            store(out, size + 2 * S + c, load(nodes, (T - 1) * S + c))
        size += 3 * S
    return dot(out, out, size)


@inner
def add_rows(chains, i, factor, rows, w):
    """``w += factor * rows``, the rows as :func:`aggregate` has them."""
    S = chains.width
    value = splat(factor)
    source = 0
    for u in range(chains.blocks[i], chains.blocks[i + 1]):
        at = np.int64(chains.attributes[u]) * S
        for c in range(0, S, WIDTH):
            store(w, at + c, fma(value, load(rows, source + c), load(w, at + c)))
        source += S
    rest = chains.n_attributes * S
    if chains.tokens[i + 1] - chains.tokens[i] > 1:
        for x in range(0, S * S, WIDTH):
            store(w, rest + x, fma(value, load(rows, source + x), load(w, rest + x)))
        source += S * S
    if chains.intercept:
        rest += S * S
        for x in range(0, 3 * S, WIDTH):
            store(w, rest + x, fma(value, load(rows, source + x), load(w, rest + x)))


@inlined
def read_block(chains, blocks, i, room, nodes, edges):
    """Marginals of block i, the sums of those of its pairs, and its entropy."""
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    size, at = T * S, chains.tokens[i] * S
    pairs_at = blocks.pairs_at[i] * S * S
    if not blocks.potentials:
        for x in range(size):
            nodes[x] = blocks.nodes[at + x]
        for x in range(S * S):
            edges[x] = 0.0
        for t in range(T - 1):
            for x in range(S * S):
                edges[x] += blocks.pairs[pairs_at + t * S * S + x]
        return _entropy(blocks, at, pairs_at, T, S)
    for x in range(size):
        room.nodes[x] = blocks.nodes[at + x]
    if T > 1:
        for x in range(S * S):
            room.pairs[x] = blocks.pairs[pairs_at + x]
    log_z = marginals(chains, room.nodes, room.pairs, T, room, nodes, edges)
    expected = dot(room.nodes, nodes, size)
    if T > 1:
        expected += dot(room.pairs, edges, S * S)
    return log_z - expected


@inlined
def _entropy(blocks, at, pairs_at, T, S):
    """Of the pairs, less that of the inner positions: (18)."""
    inner = 0.0
    for x in range(at + S * (T > 1), at + S * (T - 1 + (T == 1))):
        inner -= blocks.nodes[x] * log(max(blocks.nodes[x], _TINY))
    if T == 1:
        return inner
    pairs = 0.0
    for x in range(pairs_at, pairs_at + (T - 1) * S * S):
        pairs -= blocks.pairs[x] * log(max(blocks.pairs[x], _TINY))
    return pairs - inner


@inner
def _margin(nodes, edges, size, T, K, S):
    """How far rounding may have moved a difference of log Z and expected scores up to ``size``.

    Marginals from the logarithms of huge scores do not add up. What is missing tells their error.
    """
    missing = 0.0
    for t in range(T):
        mass = -1.0
        for k in range(K):
            mass += nodes[t * S + k]
        missing += abs(mass)
    for k in range(K if T > 1 else 0):
        before = after = 0.0
        for j in range(K):
            before += edges[j * S + k]
            after += edges[k * S + j]
        for t in range(T):
            before -= nodes[t * S + k] * (t > 0)
            after -= nodes[t * S + k] * (t < T - 1)
        missing += abs(before) + abs(after)
    return 2.0 * (missing + _ROUNDING * T) * size


@inner
def _largest_of(values, size):
    largest = 0.0
    for x in range(size):
        largest = max(largest, abs(values[x]))
    return largest


@jit
def sweep(
    purpose, chains, labels, weights, blocks, w, factor, first, last, values, gaps, margins, target
):
    """A pass over the sequences from first to last.

    WEIGHTS: ``values`` are the blocks' entropies, and ``target += factor * weights[i]`` times true
    less expected features. GAPS: ``values`` are -log p(y|x; w), ``gaps`` the blocks' gaps.
    GRADIENT: ``values`` are -log p(y|x; w), and ``target`` as for WEIGHTS with the expectation
    under w. ``margins`` bound what rounding takes from the entropies and expected scores.
    """
    S = chains.width
    T = largest(chains.tokens)
    room = new_room(T, S)
    nodes, edges, unary = np.empty(T * S), np.empty(S * S), np.empty(T * S)
    pairs = transitions(chains, w)
    for i in range(first, last):
        start = chains.tokens[i]
        T = chains.tokens[i + 1] - start
        log_z = 0.0
        if purpose != WEIGHTS:
            scores(chains, i, w, unary)
            log_z = marginals(chains, unary, pairs, T, room, nodes, edges)
            values[i] = max(log_z - score_of(labels, start, T, S, unary, pairs), 0.0)
            if purpose == GRADIENT:
                size = 50.0 + 2.0 * T * (_largest_of(unary, T * S) + _largest_of(pairs, S * S))
                margins[i] = _margin(nodes, edges, size, T, chains.n_labels, S)
        if purpose != GRADIENT:
            size = 50.0  # an entropy errs by less than its marginals times this
            if purpose == GAPS:
                size += T * (_largest_of(unary, T * S) + _largest_of(pairs, S * S))
            entropy = read_block(chains, blocks, i, room, nodes, edges)
            if blocks.potentials:
                size += T * _largest_of(room.nodes, T * S)
                size += T * _largest_of(room.pairs, S * S) * (T > 1)
            margins[i] = _margin(nodes, edges, size, T, chains.n_labels, S)
            if purpose == WEIGHTS:
                values[i] = entropy
            else:
                expected = dot(unary, nodes, T * S)
                if T > 1:
                    expected += dot(pairs, edges, S * S)
                gaps[i] = max(log_z - expected - entropy, 0.0)
        if purpose != GAPS:
            for t in range(T):
                nodes[t * S + labels[start + t]] -= 1.0
                if t > 0:
                    edges[labels[start + t - 1] * S + labels[start + t]] -= 1.0
            add_features(chains, i, -factor * weights[i], nodes, edges, target)
