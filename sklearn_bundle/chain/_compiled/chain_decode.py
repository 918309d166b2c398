"""The best labelings of a chain, and the probability of a labeling."""

import numpy as np

from sklearn_bundle.chain._compiled.chain import scores, transitions
from sklearn_bundle.chain._compiled.chain_dual import largest
from sklearn_bundle.chain._compiled.forward_backward import (
    loss_of,
    marginals,
    new_work,
    pair_marginals,
)
from sklearn_bundle.jit.decorators import inner, jit


@jit
def best_labels(chains, w, first, last, labels):
    """Viterbi's algorithm: the most probable labeling of the sequences from first to last."""
    K, S = chains.n_labels, chains.width
    T = largest(chains.tokens)
    unary, best, before = np.empty(T * S), np.empty(K), np.empty(K)
    origin = np.empty((T, K), np.int32)
    pairs = transitions(chains, w)
    for i in range(first, last):
        start = chains.tokens[i]
        T = chains.tokens[i + 1] - start
        scores(chains, i, w, unary)
        for k in range(K):
            best[k] = unary[k]
        for t in range(1, T):
            for k in range(K):
                before[k] = best[k]
                best[k] = -np.inf
                origin[t, k] = 0
            for j in range(K):
                for k in range(K):
                    value = before[j] + pairs[j * S + k]
                    if value > best[k]:
                        best[k] = value
                        origin[t, k] = j
            for k in range(K):
                best[k] += unary[t * S + k]
        label = 0
        for k in range(K):
            if best[k] > best[label]:
                label = k
        for t in range(T - 1, -1, -1):
            labels[start + t] = label
            label = origin[t, label]


@jit
def several_best(chains, w, i, n_best, labels, values):
    """The ``n_best`` most probable labelings of sequence i, best first, and their scores.

    ``labels`` has one row per labeling. Returns their number, which may be less than ``n_best``.
    """
    K, S = chains.n_labels, chains.width
    T = chains.tokens[i + 1] - chains.tokens[i]
    unary = np.empty(T * S)
    scores(chains, i, w, unary)
    pairs = transitions(chains, w)
    best = np.full((T, K, n_best), -np.inf)  # the best paths to each label, in descending order
    origin = np.zeros((T, K, n_best), np.int64)  # label and rank there of the position before
    for k in range(K):
        best[0, k, 0] = unary[k]
    for t in range(1, T):
        for k in range(K):
            for j in range(K):
                for rank in range(n_best):
                    value = best[t - 1, j, rank] + pairs[j * S + k] + unary[t * S + k]
                    if not _insert(best[t, k], origin[t, k], value, j * n_best + rank):
                        break
    ends = np.full(n_best, -np.inf)
    end_origin = np.zeros(n_best, np.int64)
    for k in range(K):
        for rank in range(n_best):
            if not _insert(ends, end_origin, best[T - 1, k, rank], k * n_best + rank):
                break
    count = 0
    for path in range(n_best):
        if ends[path] == -np.inf:
            break
        count += 1
        values[path] = ends[path]
        at = end_origin[path]
        for t in range(T - 1, -1, -1):
            labels[path, t] = at // n_best
            at = origin[t, at // n_best, at % n_best]
    return count


@inner
def _insert(values, origins, value, origin):
    """Insert a value into a descending list, if it belongs there."""
    rank = values.shape[0]
    while rank > 0 and values[rank - 1] < value:
        rank -= 1
    if rank == values.shape[0]:
        return False
    for r in range(values.shape[0] - 1, rank, -1):
        values[r] = values[r - 1]
        origins[r] = origins[r - 1]
    values[rank] = value
    origins[rank] = origin
    return True


@jit
def label_scores(chains, w, first, last, labels, out):
    """``log p(labels|x; w)`` of the sequences from first to last."""
    S = chains.width
    T = largest(chains.tokens)
    work = new_work(T, S)
    unary, nodes, edges = np.empty(T * S), np.empty(T * S), np.empty(S * S)
    pairs = transitions(chains, w)
    for i in range(first, last):
        start = chains.tokens[i]
        T = chains.tokens[i + 1] - start
        scores(chains, i, w, unary)
        log_z = marginals(chains, unary, pairs, T, work, nodes, edges)
        out[i] = -loss_of(labels, start, T, chains.n_labels, S, unary, pairs, log_z, work, nodes)


@jit
def label_marginals(chains, w, first, last, nodes, pairs, pairs_at):
    """Marginals of all tokens and, unless ``pairs`` is empty, of all pairs in sequence."""
    K, S = chains.n_labels, chains.width
    T = largest(chains.tokens)
    work = new_work(T, S)
    unary, rows, edges = np.empty(T * S), np.empty(T * S), np.empty(S * S)
    joint = np.empty((T - 1) * S * S if pairs.shape[0] > 0 else 0)
    matrix = transitions(chains, w)
    for i in range(first, last):
        start = chains.tokens[i]
        T = chains.tokens[i + 1] - start
        scores(chains, i, w, unary)
        marginals(chains, unary, matrix, T, work, rows, edges)
        for t in range(T):
            for k in range(K):
                nodes[start + t, k] = rows[t * S + k]
        if pairs.shape[0] > 0 and T > 1:
            pair_marginals(chains, unary, matrix, T, work, joint)
            for t in range(T - 1):
                for j in range(K):
                    for k in range(K):
                        pairs[pairs_at[i] + t, j, k] = joint[(t * S + j) * S + k]
