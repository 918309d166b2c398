"""Linear chains: their layout, scores and expected features.

A row has one entry per label and is padded with zeros to ``width``, a multiple of the length of
vectors. The parameters w are rows: one per attribute, one per label that a transition comes from
(``width`` of them), and three rows of biases: for a label at any position, at the first one and at
the last one. All arrays of rows are flat.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.sums import added
from sklearn_bundle.jit.vector import WIDTH, fma, load, plus, prefetch, splat, spread, store

# Parameters (1 MB) that stay in a processor's own cache. If there are more, those of a sequence are
# prefetched all at once, since waiting for one after the other takes longer.
_CACHED = 1 << 17


class Chains(NamedTuple):
    """Sequences of tokens with attributes; each sequence lists its attributes once.

    Sequence i has the tokens ``tokens[i]:tokens[i + 1]``, the attributes ``attributes[blocks[i]:
    blocks[i + 1]]`` and the entries ``entries[i]:entries[i + 1]``, sorted by attributes: entry e is
    the value ``values[e * step]`` of its attribute number ``places[e, 0]`` at its token
    ``places[e, 1]``. These numbers have 16 bits if no sequence has more entries or tokens. The step
    is 0 if all values are the same, as they are for attributes that are names: there is one then.
    """

    n_labels: int
    width: int
    n_attributes: int
    intercept: bool
    step: int
    tokens: NDArray[np.int64]
    blocks: NDArray[np.int64]
    attributes: NDArray[np.uint32]
    entries: NDArray[np.int64]
    places: NDArray[np.uint16 | np.uint32]
    values: NDArray[np.float64] | NDArray[np.float32]


@jit
def by_attribute(tokens, indptr, indices, values, number, places, attributes):
    """Sort the entries of each sequence by attributes; returns ``blocks`` as in :class:`Chains`.

    ``indptr``, ``indices`` and ``values`` are those of CSR. ``places`` may be the memory of
    ``indices``; ``values`` are sorted where they are. ``attributes`` has room for as many as there
    are entries, and ``number`` holds -1 for each attribute.
    """
    most = 0
    for i in range(tokens.shape[0] - 1):
        most = max(most, indptr[tokens[i + 1]] - indptr[tokens[i]])
    slots, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    given = np.empty(most, values.dtype)
    blocks = np.zeros(tokens.shape[0], np.int64)
    for i in range(tokens.shape[0] - 1):
        start = count = blocks[i]
        first, last = indptr[tokens[i]], indptr[tokens[i + 1]]
        for e in range(first, last):
            a = indices[e]
            if number[a] < start:
                ends[count - start] = 0
                attributes[count] = a
                number[a] = count
                count += 1
            slots[e - first], given[e - first] = number[a] - start, values[e]
            ends[slots[e - first]] += 1
        at = first
        for u in range(count - start):
            at += ends[u]
            ends[u] = at - ends[u]
        for t in range(tokens[i], tokens[i + 1]):
            for e in range(indptr[t] - first, indptr[t + 1] - first):
                at = ends[slots[e]]
                places[at, 0], places[at, 1], values[at] = slots[e], t - tokens[i], given[e]
                ends[slots[e]] += 1
        blocks[i + 1] = count
    return blocks


@inner
def transitions(chains, w):
    """The part of w for pairs of labels."""
    at = chains.n_attributes * chains.width
    return w[at : at + chains.width * chains.width]


@inner
def scores(chains, i, w, out):
    """Scores of each position and label of sequence i, without transitions."""
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    bias = (chains.n_attributes + S) * S
    for c in range(0, S, WIDTH):
        start = load(w, bias + c) if chains.intercept else splat(0.0)
        for t in range(T):
            store(out, t * S + c, start)
        if chains.intercept:
            store(out, c, plus(load(w, bias + S + c), start))
            last = (T - 1) * S + c
            store(out, last, plus(load(w, bias + 2 * S + c), load(out, last)))
    first = chains.blocks[i]
    if bias > _CACHED:
        for u in range(first, chains.blocks[i + 1]):
            row = np.int64(chains.attributes[u]) * S
            for c in range(0, S, WIDTH):
                prefetch(w, row + c)
            prefetch(w, row + S - 1)  # rows need not begin at a cache line
    for e in range(chains.entries[i], chains.entries[i + 1]):
        source = np.int64(chains.attributes[first + chains.places[e, 0]]) * S
        target = np.int64(chains.places[e, 1]) * S
        value = spread(chains.values, e * chains.step)
        for c in range(0, S, WIDTH):
            store(out, target + c, fma(value, load(w, source + c), load(out, target + c)))


@inner
def score_of(labels, start, T, S, scores, pairs):
    """Score of the labeling ``labels[start : start + T]``."""
    score = carry = 0.0
    for t in range(T):
        score, carry = added(score, carry, scores[t * S + labels[start + t]])
        if t > 0:
            pair = pairs[labels[start + t - 1] * S + labels[start + t]]
            score, carry = added(score, carry, pair)
    return score + carry


@inner
def add_features(chains, i, factor, nodes, edges, w):
    """``w += factor * (features expected by nodes and edges)``."""
    S = chains.width
    first = chains.blocks[i]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        source = np.int64(chains.places[e, 1]) * S
        target = np.int64(chains.attributes[first + chains.places[e, 0]]) * S
        value = splat(factor * chains.values[e * chains.step])
        for c in range(0, S, WIDTH):
            store(w, target + c, fma(value, load(nodes, source + c), load(w, target + c)))
    T = chains.tokens[i + 1] - chains.tokens[i]
    at = chains.n_attributes * S
    value = splat(factor)
    if T > 1:
        for x in range(0, S * S, WIDTH):
            store(w, at + x, fma(value, load(edges, x), load(w, at + x)))
    if chains.intercept:
        at += S * S
        for c in range(0, S, WIDTH):
            bias = splat(0.0)
            for t in range(T):
                bias = plus(load(nodes, t * S + c), bias)
            store(w, at + c, fma(value, bias, load(w, at + c)))
            store(w, at + S + c, fma(value, load(nodes, c), load(w, at + S + c)))
            last = load(nodes, (T - 1) * S + c)
            store(w, at + 2 * S + c, fma(value, last, load(w, at + 2 * S + c)))
