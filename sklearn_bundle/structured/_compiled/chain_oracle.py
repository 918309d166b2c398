"""The worst labeling of a chain by loss-augmented max-product, and its conditional likelihood.

Arrays of rows are flat, as in features.py and recursion.py of the chains.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import features, recursion
from sklearn_bundle.chain._compiled.features import Chains, most, scores, transitions
from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.jit.vector import WIDTH, larger, largest, load
from sklearn_bundle.structured._compiled import structures


class ChainOutputs(NamedTuple):
    """Chains and their true labels, with the cost of predicting each label for another.

    ``costs`` has a row per true label.
    """

    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    chains: Chains


class Workspace(NamedTuple):
    """Memory to work in.

    ``unary`` and ``nodes`` have a row per position, ``path`` a number; ``edges`` is a matrix.
    ``rows`` are those of :func:`~.features.aggregate`.
    """

    recursion: recursion.Workspace
    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    rows: NDArray[np.float64]
    path: NDArray[np.int64]


@registered(structures.new_work, ChainOutputs)
def _new_work(outputs):
    chains, T, S = outputs.chains, most(outputs.chains.tokens), outputs.chains.width
    rows, path = np.empty((most(chains.blocks) + S + 3) * S), np.empty(T, np.int64)
    arrays = recursion.aligned(T * S), recursion.aligned(T * S), recursion.aligned(S * S)
    return Workspace(recursion.new_workspace(T, S, chains.bars), *arrays, rows, path)


@registered(structures.worst, ChainOutputs)
def _worst(outputs, i, w, work, indices, values):
    chains, labels, start = outputs.chains, outputs.labels, outputs.chains.tokens[i]
    T, S = chains.tokens[i + 1] - start, chains.width
    scores(chains, i, w, work.unary)
    for t in range(T):
        features.add(work.unary, t * S, 1.0, outputs.costs, labels[start + t] * S, S, work.unary)
    pairs = transitions(chains, w)
    recursion.best_path(work.unary, pairs, T, chains.n_labels, S, work.recursion, work.path)
    loss, wrong = 0.0, 0
    for t in range(T):
        loss += outputs.costs[labels[start + t] * S + work.path[t]]
        wrong += labels[start + t] != work.path[t]
    if wrong == 0:
        return 0, 0.0, 0.0, 0.0
    _set_rows(outputs, i, work)
    count = append_rows(chains, i, work.rows, (S + 3) * S, 1.0, indices, values)
    return structures.with_score(count, loss, w, indices, values)


@registered(structures.expect, ChainOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    chains, labels, pairs = outputs.chains, outputs.labels, transitions(outputs.chains, w)
    K, S, start = chains.n_labels, chains.width, chains.tokens[i]
    T, at = chains.tokens[i + 1] - start, (chains.n_attributes + S + 3) * S
    scores(chains, i, w, work.unary)
    charge = w[at] if w.shape[0] > at else 0.0  # the weight of the loss as a further feature
    for x in range(T * S if charge != 0.0 else 0):
        work.unary[x] += charge * outputs.costs[labels[start + x // S] * S + x % S]
    of_pairs = work.recursion, work.nodes, work.edges
    log_z = recursion.marginals(work.unary, pairs, T, K, S, *of_pairs)[0]
    for x in range(T * S if w.shape[0] > at else 0):
        cost = outputs.costs[labels[start + x // S] * S + x % S]
        gradient[at] += weight * cost * work.nodes[x]
    features.subtract_truth(chains, i, labels, work.nodes, work.edges)
    features.aggregate(chains, i, work.nodes, work.edges, work.rows)
    features.add_rows(chains, i, weight, work.rows, gradient)
    return max(log_z - features.score_of(labels, start, T, S, work.unary, pairs), 0.0)


@inner
def _set_rows(outputs, i, work):
    """Fill ``rows`` with the features of the true labels minus those of the path."""
    chains, labels, start = outputs.chains, outputs.labels, outputs.chains.tokens[i]
    T, S, path, nodes = chains.tokens[i + 1] - start, chains.width, work.path, work.nodes
    edges = work.edges
    for x in range(T * S):
        nodes[x] = 0.0
    for x in range(S * S):
        edges[x] = 0.0
    for t in range(T):
        nodes[t * S + labels[start + t]] += 1.0
        nodes[t * S + path[t]] -= 1.0
        if t > 0:
            edges[labels[start + t - 1] * S + labels[start + t]] += 1.0
            edges[path[t - 1] * S + path[t]] -= 1.0
    features.aggregate(chains, i, nodes, edges, work.rows)


@inner
def place(chains, i, u, tail):
    """Where the attribute u of a sequence, or the tail after all of them, is in w; its size."""
    if u == chains.blocks[i + 1] - chains.blocks[i]:
        return np.int64(chains.n_attributes * chains.width), np.int64(tail)
    return np.int64(chains.attributes[chains.blocks[i] + u]) * chains.width, np.int64(chains.width)


@inner
def append_rows(chains, i, rows, tail, factor, indices, values):
    """Write the nonzero entries of factor times rows of a sequence and its tail; their number.

    A zero beside one is written nevertheless, since a branch would be mispredicted too often: the
    arrays must hold one more entry.
    """
    count = source = 0
    for u in range(chains.blocks[i + 1] - chains.blocks[i] + 1):
        at, size = place(chains, i, u, tail)
        for c in range(0, size, WIDTH):
            some = load(rows, source + c)
            used = largest(larger(some, -1.0 * some)) > 0.0
            for x in range(c, c + WIDTH if used else c):
                indices[count], values[count] = at + x, factor * rows[source + x]
                count += rows[source + x] != 0.0
        source += size
    return count
