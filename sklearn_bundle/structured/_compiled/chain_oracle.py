"""The worst labeling of a chain by loss-augmented max-product, and its conditional likelihood.

Arrays of rows are flat, as in features.py and recursion.py of the chains.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import features, recursion
from sklearn_bundle.chain._compiled.features import Chains, most, scores, transitions
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.structured._compiled import structures


class ChainOutputs(NamedTuple):
    """Chains and their true labels, with the cost of predicting each label for another.

    ``costs`` has a row per true label. ``levels`` is 0.
    """

    levels: int
    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    chains: Chains


class LeveledOutputs(NamedTuple):
    """The same with slack rescaling: costs are integers, losses of sequences below ``levels``.

    It is a type of its own, so that others do not compile it.
    """

    levels: int
    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    chains: Chains


class Workspace(NamedTuple):
    """Memory to work in.

    ``unary`` and ``nodes`` have a row per position, ``best`` one per position and level; ``edges``
    is a matrix. ``path`` has a number per position. ``rows`` are those of
    :func:`~.features.aggregate`.
    """

    recursion: recursion.Workspace
    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    best: NDArray[np.float64]
    rows: NDArray[np.float64]
    path: NDArray[np.int64]


@registered(structures.new_work, LeveledOutputs)
@registered(structures.new_work, ChainOutputs)
def _new_work(outputs):
    chains, T, S = outputs.chains, most(outputs.chains.tokens), outputs.chains.width
    nodes, best = recursion.aligned(T * S), np.empty(T * outputs.levels * S)
    rows, path = np.empty((most(chains.blocks) + S + 3) * S), np.empty(T, np.int64)
    arrays = recursion.aligned(T * S), nodes, recursion.aligned(S * S), best, rows, path
    return Workspace(recursion.new_workspace(T, S, chains.bars), *arrays)


@registered(structures.worst, ChainOutputs)
def _worst(outputs, i, w, work, indices, values):
    chains, labels, start = outputs.chains, outputs.labels, outputs.chains.tokens[i]
    T, S = chains.tokens[i + 1] - start, chains.width
    scores(chains, i, w, work.unary)
    for t in range(T):
        costs = labels[start + t] * S
        for k in range(S):
            work.unary[t * S + k] += outputs.costs[costs + k]
    pairs = transitions(chains, w)
    recursion.best_path(work.unary, pairs, T, chains.n_labels, S, work.recursion, work.path)
    return _with_features(outputs, i, w, work, indices, values)


@inner
def _with_features(outputs, i, w, work, indices, values):
    """The result for the labeling in ``path``."""
    S, start, loss = outputs.chains.width, outputs.chains.tokens[i], 0.0
    for t in range(outputs.chains.tokens[i + 1] - start):
        loss += outputs.costs[outputs.labels[start + t] * S + work.path[t]]
    _set_rows(outputs, i, work)
    factor = loss if outputs.levels > 0 else 1.0
    given = outputs.chains, i, work.rows, (S + 3) * S
    count = append_rows(*given, factor, indices, values)
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
    features.less_truth(labels, start, T, S, work.nodes, work.edges)
    features.aggregate(chains, i, work.nodes, work.edges, work.rows)
    features.add_rows(chains, i, weight, work.rows, gradient)
    return max(log_z - features.score_of(labels, start, T, S, work.unary, pairs), 0.0)


@jit
def best_labels(outputs, w, out):
    """Write the worst labeling of the only sequence; without costs it is the best."""
    work = structures.new_work(outputs)
    most = work.rows.shape[0] + 1
    structures.worst(outputs, 0, w, work, np.empty(most, np.uint32), np.empty(most))
    for t in range(out.shape[0]):
        out[t] = work.path[t]


@registered(structures.worst, LeveledOutputs)
def _worst_by_levels(outputs, i, w, work, indices, values):
    """``best`` has a row per position and loss from 0: the best score of labelings with it."""
    chains, labels, pairs = outputs.chains, outputs.labels, transitions(outputs.chains, w)
    K, S, start = chains.n_labels, chains.width, chains.tokens[i]
    T = chains.tokens[i + 1] - start
    scores(chains, i, w, work.unary)
    unary, best, levels, path = work.unary, work.best, outputs.levels, work.path
    for x in range(T * levels * S):
        best[x] = -np.inf
    for t in range(T):
        for level in range(levels if t > 0 else 1):
            before = ((t - 1) * levels + level) * S
            for k in range(K):
                reached = 0.0 if t == 0 else -np.inf
                for j in range(K if t > 0 else 0):
                    reached = max(reached, best[before + j] + pairs[j * S + k])
                loss = level + np.int64(outputs.costs[labels[start + t] * S + k])
                if reached > -np.inf:
                    at = (t * levels + loss) * S + k
                    best[at] = max(best[at], reached + unary[t * S + k])
    truth = features.score_of(labels, start, T, S, unary, pairs)
    worst, level = 0.0, 0
    for loss in range(1, levels):
        for k in range(K):
            score = loss * (1.0 + (best[((T - 1) * levels + loss) * S + k] - truth))
            if score > worst:
                worst, level = score, loss
    for t in range(T - 1, -1, -1):
        row, label, highest = (t * levels + level) * S, labels[start + t], -np.inf
        for k in range(K if worst > 0.0 else 0):
            value = best[row + k] + (pairs[k * S + path[t + 1]] if t < T - 1 else 0.0)
            if value > highest:
                label, highest = k, value
        path[t] = label
        level -= np.int64(outputs.costs[labels[start + t] * S + label])
    return _with_features(outputs, i, w, work, indices, values)


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
    attribute = np.int64(chains.attributes[chains.blocks[i] + u])
    return attribute * chains.width, np.int64(chains.width)


@inner
def append_rows(chains, i, rows, tail, factor, indices, values):
    """Write the nonzero entries of factor times rows of a sequence and its tail; their number.

    A zero is written nevertheless, since a branch would be mispredicted too often: the arrays must
    hold one more entry.
    """
    count = source = 0
    for u in range(chains.blocks[i + 1] - chains.blocks[i] + 1):
        at, size = place(chains, i, u, tail)
        used = False
        for x in range(source, source + size):
            used |= rows[x] != 0.0
        for x in range(size if used else 0):
            indices[count], values[count] = at + x, factor * rows[source + x]
            count += rows[source + x] != 0.0
        source += size
    return count
