"""Linear chains: their layout, scores and expected features.

A row has one entry per label and is padded with zeros to ``width``, a multiple of the length of
vectors. The parameters w are rows: one per attribute, one per label that a transition comes from
(``width`` of them), and three rows of biases: for a label at any position, at the first one and at
the last one. All arrays of rows are flat.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner
from sklearn_bundle.jit.vector import WIDTH, larger, load, splat, store, total


class Chains(NamedTuple):
    """Sequences of tokens with attributes; each sequence lists its attributes once.

    Sequence i has the tokens ``tokens[i]:tokens[i + 1]``, the attributes ``attributes[blocks[i]:
    blocks[i + 1]]`` and the entries ``entries[i]:entries[i + 1]``, sorted by attributes: entry e is
    the value ``values[e * step]`` of its attribute number ``places[e, 0]`` at its token
    ``places[e, 1]``. These numbers have 16 bits if no sequence has more entries or tokens. The step
    is 0 if all values are the same, as they are for attributes that are names: there is one then.
    ``bars`` are those of recursion.py.
    """

    n_labels: int
    width: int
    n_attributes: int
    intercept: bool
    step: int
    bars: NDArray[np.float64]
    tokens: NDArray[np.int64]
    blocks: NDArray[np.int64]
    attributes: NDArray[np.uint32]
    entries: NDArray[np.int64]
    places: NDArray[np.uint16 | np.uint32]
    values: NDArray[np.float64] | NDArray[np.float32]


@inner
def most(bounds):
    """The largest difference between neighboring numbers."""
    result = 0
    for i in range(bounds.shape[0] - 1):
        result = max(result, bounds[i + 1] - bounds[i])
    return result


@inner
def dot(a, b, size):
    """``<a, b>`` of the first ``size`` numbers, a multiple of the vectors' length."""
    sums = splat(0.0)
    for x in range(0, size, WIDTH):
        sums = load(a, x) * load(b, x) + sums
    return total(sums)


@inner
def copy(source, first, size, out, at):
    """Write numbers of ``source`` from the first on to ``out[at:]``."""
    for x in range(0, size, WIDTH):
        store(out, at + x, load(source, first + x))


@inner
def add(a, at, factor, b, first, size, out):
    """Write ``a[at:] + factor * b[first:]`` to ``out[at:]``."""
    for x in range(0, size, WIDTH):
        store(out, at + x, factor * load(b, first + x) + load(a, at + x))


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
            store(out, c, load(w, bias + S + c) + start)
            last = (T - 1) * S + c
            store(out, last, load(w, bias + 2 * S + c) + load(out, last))
    first = chains.blocks[i]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        source = np.int64(chains.attributes[first + chains.places[e, 0]]) * S
        target = np.int64(chains.places[e, 1]) * S
        value = np.float64(chains.values[e * chains.step])
        for c in range(0, S, WIDTH):
            store(out, target + c, value * load(w, source + c) + load(out, target + c))


@inner
def score_of(labels, start, T, S, scores, pairs):
    """Score of the labeling ``labels[start : start + T]``."""
    score = 0.0
    for t in range(T):
        score += scores[t * S + labels[start + t]]
        if t > 0:
            score += pairs[labels[start + t - 1] * S + labels[start + t]]
    return score


@inner
def aggregate(chains, i, nodes, edges, out):
    """Write the features of ``nodes`` and ``edges`` to rows of ``out``; returns their number.

    First come the rows of the attributes of sequence i, then all other rows.
    """
    S = chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    size = (chains.blocks[i + 1] - chains.blocks[i]) * S
    for x in range(size):
        out[x] = 0.0
    for e in range(chains.entries[i], chains.entries[i + 1]):
        row = np.int64(chains.places[e, 0]) * S
        source = np.int64(chains.places[e, 1]) * S
        value = np.float64(chains.values[e * chains.step])
        for c in range(0, S, WIDTH):
            store(out, row + c, value * load(nodes, source + c) + load(out, row + c))
    copy(edges, 0, S * S, out, size)
    size += S * S
    biased = 1.0 if chains.intercept else 0.0
    for c in range(0, S, WIDTH):
        row = splat(0.0)
        for t in range(T):
            row = biased * load(nodes, t * S + c) + row
        last = load(nodes, (T - 1) * S + c)
        store(out, size + c, row)
        store(out, size + S + c, biased * load(nodes, c))
        store(out, size + 2 * S + c, biased * last)
    return size + 3 * S


@inner
def add_rows(chains, i, factor, rows, w):
    """``w += factor * rows``, the rows as :func:`aggregate` has them."""
    S, source = chains.width, 0
    for u in range(chains.blocks[i], chains.blocks[i + 1]):
        at = np.int64(chains.attributes[u]) * S
        for c in range(0, S, WIDTH):
            store(w, at + c, factor * load(rows, source + c) + load(w, at + c))
        source += S
    add(w, chains.n_attributes * S, factor, rows, source, S * S + 3 * S, w)


@inner
def subtract_truth(chains, i, labels, nodes, edges):
    """Marginals less those of the true labels; the probability of others, summed over tokens."""
    S, start, others = chains.width, chains.tokens[i], 0.0
    for t in range(chains.tokens[i + 1] - start):
        x = t * S + labels[start + t]
        nodes[x] -= 1.0
        others -= nodes[x]
        if t > 0:
            edges[labels[start + t - 1] * S + labels[start + t]] -= 1.0
    return others


@inner
def shrink_rows(chains, i, threshold, raw, w):
    """Update the rows of w that :func:`add_rows` changes in ``raw``: entries move towards 0."""
    S, n = chains.width, chains.blocks[i + 1] - chains.blocks[i]
    for u in range(n + 1):
        at, size = chains.n_attributes * S, S * S + 3 * S
        if u < n:
            at, size = np.int64(chains.attributes[chains.blocks[i] + u]) * S, S
        for x in range(at, at + size, WIDTH):
            entry = load(raw, x)
            store(w, x, larger(0.0, entry - threshold) - larger(0.0, -1.0 * entry - threshold))
