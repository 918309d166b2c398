"""The best labelings of chains and their marginals, from the scores of all tokens."""

import numpy as np

from sklearn_bundle.chain._compiled.features import most, score_of
from sklearn_bundle.chain._compiled.recursion import aligned, best_path, marginals, new_workspace
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.vector import WIDTH


@jit
def best_labels(K, scores, pairs, bars, starts, first, last, labels):
    """Viterbi's algorithm for the sequences from first to last; returns the first without any.

    ``scores`` has a row per token, ``pairs`` one per label; ``bars`` are those of recursion.py.
    """
    S, work = padded(K), new_workspace(most(starts), padded(K), bars)
    for i in range(first, last):
        start, T = starts[i], starts[i + 1] - starts[i]
        unary, path = scores[start * S : (start + T) * S], labels[start : start + T]
        if best_path(unary, pairs, T, K, S, work, path) == -np.inf:
            return i
    return last


@jit
def best_of_one(coef, places, T, values, matrix, intercept, start, end):
    """Viterbi's algorithm for one sequence of named attributes; returns the score.

    ``places`` holds the end of each token among the attributes that follow, which are rows of
    ``coef``, -1 for unknown ones; labels take the place of the ends. A single one of ``values`` is
    that of all. What is forbidden is -inf in ``matrix``, ``start`` and ``end``.
    """
    K, S, e = matrix.shape[0], padded(matrix.shape[0]), 0
    unary, pairs, bars = aligned(T * S), aligned(S * S), np.zeros((S + 2) * S)
    work = new_workspace(T, S, bars)
    for x in range(S * S):
        pairs[x] = 0.0
        bars[x] = matrix[x // S, x % S] if max(x // S, x % S) < K else -np.inf
    for k in range(S):
        bars[S * S + k] = start[k] if k < K else -np.inf
        bars[(S + 1) * S + k] = end[k] if k < K else -np.inf
    for t in range(T):
        for k in range(S):
            unary[t * S + k] = intercept[k] if k < K else 0.0
        while e < places[t]:
            row, value = places[T + e], values[min(e, values.shape[0] - 1)]
            if row >= 0:
                for k in range(K):
                    unary[t * S + k] += value * coef[row, k]
            e += 1
    return best_path(unary, pairs, T, K, S, work, places[:T])


@jit
def expectations(K, scores, pairs, bars, starts, first, last, labels, log_p, nodes):
    """Log-probabilities of labelings, and marginals of tokens.

    Returns the first sequence without an allowed labeling.
    """
    S, T = padded(K), most(starts)
    work, rows, edges = new_workspace(T, S, bars), aligned(T * S), aligned(S * S)
    for i in range(first, last):
        start, T = starts[i], starts[i + 1] - starts[i]
        unary = scores[start * S : (start + T) * S]
        log_z = marginals(unary, pairs, T, K, S, work, rows, edges)[0]
        if log_z == -np.inf:
            return i
        log_p[i] = min(score_of(labels, start, T, S, unary, pairs) - log_z, 0.0)
        for t in range(T):
            at = start + t
            for k in range(K):
                nodes[at, k] = rows[t * S + k]
            y = labels[at - 1] * S + labels[at] if t > 0 else S * S + labels[at]
            if bars[y] + (bars[(S + 1) * S + labels[at]] if t == T - 1 else 0.0) < 0.0:
                log_p[i] = -np.inf
    return last


@inner
def padded(n_labels):
    return (n_labels + WIDTH - 1) // WIDTH * WIDTH
