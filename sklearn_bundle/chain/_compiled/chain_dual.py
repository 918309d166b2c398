"""What the methods for chain CRFs share: blocks of the dual, and passes over all sequences."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import add_features, scores, transitions
from sklearn_bundle.chain._compiled.chain_rounding import (
    ENTROPY,
    by_odds,
    defects,
    largest_of,
    less_truth,
    path_error,
    share,
    sum_of_largest,
    undecided,
)
from sklearn_bundle.chain._compiled.forward_backward import BLOCK, loss_of, marginals, new_work
from sklearn_bundle.jit.decorators import inlined, inner, jit, registered
from sklearn_bundle.jit.elementary import log
from sklearn_bundle.jit.sums import added
from sklearn_bundle.jit.vector import (
    WIDTH,
    fma,
    load,
    minus,
    plus,
    positive,
    splat,
    spread,
    store,
    total,
)

WEIGHTS, GAPS, GRADIENT = 0, 1, 2  # what a sweep is for
_TINY = 1e-300  # stands for a probability of 0 in a logarithm, which is then multiplied by 0
# Products that are summed before they are added to the total: 64 vectors and three sums of halves,
# the 67 roundings that chain_rounding.py counts.
_PIECE = 512


class Potentials(NamedTuple):
    """A dual point: for each sequence a distribution of its labelings, by log-potentials.

    ``nodes`` has one row per token, ``pairs`` one matrix (width, width) per sequence of at least
    two tokens, number ``pairs_at[i]``. What may be float32 comes last: numba 0.59 chooses among
    compiled versions by the types of the last fields.
    """

    pairs_at: NDArray[np.int64]
    nodes: NDArray[np.float64] | NDArray[np.float32]
    pairs: NDArray[np.float64] | NDArray[np.float32]


class Marginals(NamedTuple):
    """The same by marginals.

    ``pairs`` has one matrix per pair of neighboring tokens, those of sequence i from number
    ``pairs_at[i]`` on.
    """

    pairs_at: NDArray[np.int64]
    nodes: NDArray[np.float64]
    pairs: NDArray[np.float64]


Blocks = Potentials | Marginals


@inner
def largest(bounds):
    """The largest difference between neighboring numbers."""
    most = 0
    for i in range(bounds.shape[0] - 1):
        most = max(most, bounds[i + 1] - bounds[i])
    return most


@inner
def dot(a, b, size):
    """``<a, b>`` of the first ``size`` numbers, a multiple of the vectors' length.

    It is summed in pieces, with compensation: rounding does not grow with the size.
    """
    result = carry = 0.0
    for first in range(0, size, _PIECE):
        sums = splat(0.0)
        for x in range(first, min(first + _PIECE, size), WIDTH):
            sums = fma(load(a, x), load(b, x), sums)
        result, carry = added(result, carry, total(sums))
    return result + carry


@inner
def aggregate(chains, i, nodes, edges, out):
    """Write the features of ``nodes`` and ``edges`` to rows of ``out``; returns their squared norm.

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
        value = spread(chains.values, e * chains.step)
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


@inner
def shrink_rows(chains, i, threshold, raw, w):
    """Update the rows of w that :func:`add_rows` changes in ``raw``: entries move towards 0."""
    S = chains.width
    for u in range(chains.blocks[i], chains.blocks[i + 1]):
        at = np.int64(chains.attributes[u]) * S
        _shrink(threshold, raw, at, S, w)
    rest = chains.n_attributes * S
    if chains.tokens[i + 1] - chains.tokens[i] > 1:
        _shrink(threshold, raw, rest, S * S, w)
    if chains.intercept:
        _shrink(threshold, raw, rest + S * S, 3 * S, w)


@inner
def _shrink(threshold, raw, at, size, w):
    """``w = sign(raw) max(|raw| - threshold, 0)`` for the entries from ``at`` on."""
    limit, zero = splat(threshold), splat(0.0)
    for x in range(at, at + size, WIDTH):
        entry = load(raw, x)
        above, below = minus(entry, limit), minus(minus(zero, entry), limit)
        store(w, x, minus(positive(above), positive(below)))


def divergence(
    blocks, chains, i, log_z, unary, pairs, work, nodes, edges, sizes
) -> tuple[float, float, float, float, float]:
    """Write marginals mu of block i to ``nodes`` and ``edges``; its divergence from scores s.

    The divergence is ``log Z(s) - log Z(theta) - <s - theta, mu>``, with log-potentials theta of
    mu; with scores and ``log_z`` of zero it is minus the entropy. Returns it, a bound of its
    rounding error, and three numbers for that of the features: E of the block, which kept marginals
    do not have, and how far these move to be those of a chain, the sum over pairs and the worst
    mass.
    """
    raise NotImplementedError  # a name for compiled code: see the two kinds of blocks below


@registered(divergence, Potentials)
def _from_potentials(blocks, chains, i, log_z, unary, pairs, work, nodes, edges, sizes):
    K, S = chains.n_labels, chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    at, pairs_at = chains.tokens[i] * S, blocks.pairs_at[i] * S * S
    size, square = T * S, S * S * (T > 1)
    for x in range(size):
        work.nodes[x] = blocks.nodes[at + x]
    for x in range(square):
        work.pairs[x] = blocks.pairs[pairs_at + x]
    own = marginals(chains, work.nodes, work.pairs, T, work, nodes, edges)
    largest_pair = largest_of(work.pairs, square)
    error = path_error(T, K, sum_of_largest(work.nodes, T, S, sizes) + T * largest_pair, work)
    for x in range(size):
        work.nodes[x] = unary[x] - work.nodes[x]
    for x in range(square):
        work.pairs[x] = pairs[x] - work.pairs[x]
    expected = dot(work.nodes, nodes, size) + dot(work.pairs, edges, square)
    largest_pair = largest_of(work.pairs, square)
    in_all = sum_of_largest(work.nodes, T, S, sizes) + T * largest_pair
    for t in range(T):
        sizes[t] += 4.0 * largest_pair
    margin = 2.0 * error + by_odds(error) * undecided(nodes, sizes, 0, T, S)
    return log_z - own - expected, margin + share(T, K) * in_all, error, 0.0, 0.0


@registered(divergence, Marginals)
def _from_marginals(blocks, chains, i, log_z, unary, pairs, work, nodes, edges, sizes):
    K, S = chains.n_labels, chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    start, pairs_at = chains.tokens[i], blocks.pairs_at[i] * S * S
    size, square = T * S, S * S
    for x in range(size):
        nodes[x] = blocks.nodes[start * S + x]
    for x in range(square):
        edges[x] = 0.0
    for first in range(0, T - 1, BLOCK):
        for x in range(square):
            work.table[x] = 0.0
        for t in range(first, min(first + BLOCK, T - 1)):
            for x in range(square):
                work.table[x] += blocks.pairs[pairs_at + t * square + x]
        for x in range(square):
            edges[x] += work.table[x]
    entropy = _entropy(blocks, start * S, pairs_at, T, S)
    expected = dot(unary, nodes, size) + dot(pairs, edges, square * (T > 1))
    masses, rows, off = defects(nodes, blocks.pairs, pairs_at, T, K, S)
    moved = 2.0 * (rows + 2.0 * masses)
    largest, largest_pair = largest_of(unary, size), largest_of(pairs, square)
    in_all = sum_of_largest(unary, T, S, sizes) + T * largest_pair
    margin = masses * (largest + ENTROPY) + moved * (largest_pair + ENTROPY)
    margin += share(T, K) * (in_all + 4.0 * T)
    return log_z - expected - entropy, margin, 0.0, moved, off


@inlined
def _entropy(blocks, at, pairs_at, T, S):
    """Entropy of the pairs minus that of the inner positions: (18)."""
    sums = carry = 0.0
    if T == 1:
        return _entropy_of(blocks.nodes, at, S, S)
    for t in range(T - 1):
        pairs = _entropy_of(blocks.pairs, pairs_at + t * S * S, S * S, S)
        sums, carry = added(sums, carry, pairs)
        if t > 0:
            sums, carry = added(sums, carry, -_entropy_of(blocks.nodes, at + t * S, S, S))
    return sums + carry


@inner
def _entropy_of(values, at, size, S):
    """Entropy of ``values[at : at + size]``, row by row."""
    entropy = 0.0
    for first in range(at, at + size, S):
        row = 0.0
        for x in range(first, first + S):
            row -= values[x] * log(max(values[x], _TINY))
        entropy += row
    return entropy


@jit
def sweep(
    purpose, chains, labels, weights, blocks, w, factor, first, last, rounding, results, target
):
    """Make a pass over the sequences from first to last.

    WEIGHTS: ``values`` are the blocks' entropies, and ``target += factor * weights[i]`` times true
    minus expected features. GAPS: ``values`` are -log p(y|x; w), ``gaps`` the blocks' gaps.
    GRADIENT: ``values`` are -log p(y|x; w), and ``target`` changes as for WEIGHTS, with the
    expectation under w.

    ``results`` are the arrays values, gaps, margins and errors. Margins bound the rounding error of
    the values and, for GAPS, also of the difference of values and gaps; errors bound that of the
    features of the sequence. ``rounding`` holds bounds of the error of each sequence's scores, and
    norms and depth as for :func:`less_truth`.
    """
    K, S = chains.n_labels, chains.width
    values, gaps, margins, errors = results
    of_scores, norms, depth = rounding
    T = largest(chains.tokens)
    work = new_work(T, S)
    nodes, edges, unary, sizes = np.empty(T * S), np.empty(S * S), np.zeros(T * S), np.empty(T)
    pairs = np.zeros(S * S) if purpose == WEIGHTS else transitions(chains, w)
    largest_pair = largest_of(pairs, S * S)
    for i in range(first, last):
        start = chains.tokens[i]
        T = chains.tokens[i + 1] - start
        log_z = error = off = margins[i] = errors[i] = 0.0
        if purpose != WEIGHTS:
            scores(chains, i, w, unary)
            log_z = marginals(chains, unary, pairs, T, work, nodes, edges)
            loss = loss_of(labels, start, T, K, S, unary, pairs, log_z, work, nodes)
            in_all = sum_of_largest(unary, T, S, sizes) + T * largest_pair * (T > 1)
            error = path_error(T, K, in_all, work) + of_scores[i]
            values[i] = max(loss, 0.0)
            margins[i] = min(3.0 * error, by_odds(error) * values[i])
        if purpose != GRADIENT:
            margins[i] += 2.0 * error
            gap, margin, error, errors[i], off = divergence(
                blocks, chains, i, log_z, unary, pairs, work, nodes, edges, sizes
            )
            margins[i] += margin
            if purpose == WEIGHTS:
                values[i] = -gap
            else:
                gaps[i] = max(gap, 0.0)
        errors[i] += less_truth(nodes, labels, norms, start, T, K, S, error, off, depth)
        if purpose != GAPS:
            for t in range(1, T):
                edges[labels[start + t - 1] * S + labels[start + t]] -= 1.0
            add_features(chains, i, -factor * weights[i], nodes, edges, target)
