"""Algorithm 2 of Le Priol et al.: dual ascent on marginals, with an exact line search."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import (
    add_rows,
    aggregate,
    dot,
    less_truth,
    most,
    score_of,
    scores,
    shrink_rows,
    transitions,
)
from sklearn_bundle.chain._compiled.recursion import (
    largest_size,
    marginals,
    new_room,
    pair_marginals,
)
from sklearn_bundle.chain._compiled.visit import GAPS
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.elementary import log

_TINY = 1e-300  # the smallest probability whose logarithm is taken: it is finite
_ITERATIONS = 50  # of the line search; halvings alone would narrow [0, 1] to 1e-15


class Marginals(NamedTuple):
    """A dual point by marginals: a row per token, and a matrix per pair of neighboring tokens.

    Those of sequence i are matrices from number ``pairs_at[i]`` on.
    """

    pairs_at: NDArray[np.int64]
    nodes: NDArray[np.float64]
    pairs: NDArray[np.float64]


@jit
def visit_marginals(task, chains, labels, weights, blocks, parameters, order, memory, results, to):
    """As :func:`~.visit`, for blocks kept as marginals; ``memory[0]`` is the search's precision.

    In passes the block is the chain with the conditional distributions of the kept numbers, so that
    their rounding does no harm.
    """
    strength, w, raw, threshold = parameters
    losses, gaps, entropies, sizes, others = results
    K, S, T = chains.n_labels, chains.width, most(chains.tokens)
    room, rows = new_room(T, S, chains.bars), np.empty((most(chains.blocks) + S + 3) * S)
    unary, nodes, edges = np.empty(T * S), np.empty(T * S), np.empty(S * S)
    toward, pairs = np.empty((max(T - 1, 1), K, K)), transitions(chains, w)
    matrix = np.empty(S * S)
    for v in range(order.shape[0]):
        i = order[v]
        start, T = chains.tokens[i], chains.tokens[i + 1] - chains.tokens[i]
        size, at = T * S, blocks.pairs_at[i]
        scores(chains, i, w, unary)
        for x in range(S * S):
            matrix[x] = pairs[x]
        log_z, table, stride = marginals(unary, matrix, T, K, S, room, nodes, edges)
        if task == GAPS:
            losses[i] = max(log_z - score_of(labels, start, T, S, unary, matrix), 0.0)
            sizes[i] = T * (largest_size(unary, size) + largest_size(matrix, S * S))
            entropies[i] = _settled(blocks, start, at, T, K, S, nodes, edges)
            with_mu = dot(unary, nodes, size) + dot(matrix, edges, S * S)
            gaps[i] = max(log_z - with_mu - entropies[i], 0.0)
            others[i] = less_truth(labels, start, T, S, nodes, edges)
            aggregate(chains, i, nodes, edges, rows)
            add_rows(chains, i, -weights[i], rows, to)
            continue
        pair_marginals(T, K, S, room, table, stride, toward)
        with_w = dot(unary, nodes, size) + dot(matrix, edges, S * S)
        _subtract_kept(blocks, start, at, T, K, S, nodes, edges, toward)
        along = dot(unary, nodes, size) + dot(matrix, edges, S * S)
        n_rows, scale = aggregate(chains, i, nodes, edges, rows), weights[i] / strength
        bend = scale * dot(rows, rows, n_rows)
        step, entropy = _search(blocks, start, at, T, K, S, nodes, toward, along, bend, memory[0])
        gaps[i] = max(log_z - (with_w - along) - entropy, 0.0)
        if step > 0.0:
            add_rows(chains, i, -scale * step, rows, raw)
            if threshold > 0.0:
                shrink_rows(chains, i, threshold, raw, w)
            _move(blocks, start, at, T, K, S, step, nodes, toward)
    return order.shape[0]


@inner
def _settled(blocks, start, at, T, K, S, nodes, edges):
    """Write marginals of the chain that the kept numbers make; returns its entropy."""
    mass = entropy = 0.0
    for x in range(T * S):
        nodes[x] = 0.0
    for x in range(S * S):
        edges[x] = 0.0
    for k in range(K):
        mass += blocks.nodes[start, k]
    for k in range(K):
        nodes[k] = own = blocks.nodes[start, k] / mass
        entropy -= own * log(max(own, _TINY))
    for t in range(1, T):
        for j in range(K):
            row = blocks.pairs[at + t - 1, j]
            mass = 0.0
            for k in range(K):
                mass += row[k]
            share = nodes[(t - 1) * S + j] / max(mass, _TINY)
            for k in range(K):
                own = share * row[k]
                edges[j * S + k] += own
                nodes[t * S + k] += own
                entropy -= own * log(max(row[k] / max(mass, _TINY), _TINY))
    return entropy


@inner
def _subtract_kept(blocks, start, at, T, K, S, nodes, edges, toward):
    """Marginals at w become their difference to the kept ones."""
    for t in range(T):
        for k in range(K):
            nodes[t * S + k] -= blocks.nodes[start + t, k]
    for j in range(K):
        for k in range(K):
            edges[j * S + k] = 0.0
            for t in range(T - 1):
                toward[t, j, k] -= blocks.pairs[at + t, j, k]
                edges[j * S + k] += toward[t, j, k]


@inner
def _search(blocks, start, at, T, K, S, nodes, toward, along, bend, precision):
    """The step in [0, 1] with the largest gain, by Newton's method in a shrinking interval.

    It stops when Newton's next step is below ``precision``. Returns the step and the entropy at 0.
    """
    entropy, slope, _ = _entropy_along(blocks, start, at, T, K, S, 0.0, nodes, toward)
    slope += along
    if not slope > 0.0:
        return 0.0, entropy
    low, high, step, best, gain = 0.0, 1.0, min(1.0, slope / (slope + bend)), 0.0, 0.0
    for _ in range(_ITERATIONS):
        value, slope, curvature = _entropy_along(blocks, start, at, T, K, S, step, nodes, toward)
        value += step * (along - 0.5 * step * bend) - entropy
        slope, curvature = slope + along - step * bend, curvature - bend
        if value >= gain:
            best, gain = step, value
        if slope > 0.0:
            low = step
        else:
            high = step
        if low >= 1.0:
            break
        following = step - slope / curvature if curvature < 0.0 else 0.5 * (low + high)
        if not low < following < high:
            following = 1.0 if following >= 1.0 and high >= 1.0 else 0.5 * (low + high)
        if abs(following - step) <= precision:
            break
        step = following
    return best, entropy


@inner
def _entropy_along(blocks, start, at, T, K, S, step, nodes, toward):
    """Entropy (18) of ``mu + step (nu - mu)``, and its first two derivatives by ``step``."""
    value = slope = curvature = 0.0
    for t in range(max(T - 2, 1)):  # inner positions, or the only one
        sign, own = (1.0, t) if T == 1 else (-1.0, t + 1)
        for k in range(K if T != 2 else 0):
            d = nodes[own * S + k]
            m = max(blocks.nodes[start + own, k] + step * d, _TINY)
            value -= sign * m * log(m)
            slope -= sign * d * log(m)
            curvature -= sign * d * d / m if abs(d) > 1e-290 else 0.0
    for t in range(T - 1):
        for j in range(K):
            for k in range(K):
                d = toward[t, j, k]
                m = max(blocks.pairs[at + t, j, k] + step * d, _TINY)
                logarithm = log(m)
                value -= m * logarithm
                slope -= d * logarithm
                curvature -= d * d / m if abs(d) > 1e-290 else 0.0
    return value, slope, curvature


@inner
def _move(blocks, start, at, T, K, S, step, nodes, toward):
    for t in range(T):
        for k in range(K):
            moved = blocks.nodes[start + t, k] + step * nodes[t * S + k]
            blocks.nodes[start + t, k] = max(moved, 0.0)
    for t in range(T - 1):
        for j in range(K):
            for k in range(K):
                moved = blocks.pairs[at + t, j, k] + step * toward[t, j, k]
                blocks.pairs[at + t, j, k] = max(moved, 0.0)
