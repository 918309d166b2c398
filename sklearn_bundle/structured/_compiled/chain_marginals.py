"""Passes over the marginals of chains: projections of all, and their expected features.

Marginals are flat: sequence i has its edges from ``places[i]`` on, laid out as in
clique_projection.py. ``unary``, ``nodes`` and ``charges`` have a row per token, ``pairs`` one per
label that a transition comes from.
"""

import numpy as np

from sklearn_bundle.chain._compiled.features import add_rows, aggregate, most, scores
from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.sums import added
from sklearn_bundle.jit.vector import WIDTH, fma, load, minus, plus, splat, store, total
from sklearn_bundle.structured._compiled import clique_projection


@inner
def _shape(tokens, i, K):
    """The numbers of tokens of sequence i, of its edges (at least one), and of their rows."""
    T = tokens[i + 1] - tokens[i]
    return T, max(T - 1, 1), (K if T > 1 else 1)


@jit
def add_scores(chains, w, first, last, out):
    """Add the scores of all tokens of the sequences from first to last to ``out``."""
    S = chains.width
    own = np.empty(most(chains.tokens) * S)
    for i in range(first, last):
        scores(chains, i, w, own)
        start = chains.tokens[i] * S
        for x in range((chains.tokens[i + 1] - chains.tokens[i]) * S):
            out[start + x] += own[x]


@jit
def project(tokens, places, center, unary, pairs, step, K, S, precision, first, last, nu, out):
    """Write the marginals nearest to ``center + step * (scores of the edges)``, repaired, to out.

    ``nu`` has a row per token and one more per sequence: the starting point divided by the step, or
    NaN if unknown; it becomes that of the result. Returns steps and passes of the projections, and
    the largest defect before the repair.
    """
    n_edges = max(most(tokens) - 1, 1)
    work = clique_projection.new_work(n_edges, K, S)
    m = np.empty(n_edges * K * S)
    steps = passes = 0
    largest_defect = 0.0
    for i in range(first, last):
        T, n_edges, rows = _shape(tokens, i, K)
        size = n_edges * rows * S
        _ascend(tokens[i], T, n_edges, rows, S, center, places[i], unary, pairs, step, m)
        arguments = m, n_edges, rows, K, S
        at, height = (tokens[i] + i) * S, (n_edges + 1) * S
        if nu[at] == nu[at]:
            for x in range(height):
                work.nu[x] = step * nu[at + x]
        else:
            clique_projection.start(*arguments, work)
        own_steps, own_passes, defect = clique_projection.solve(*arguments, precision, work)
        clique_projection.repair(work.point, n_edges, rows, K, S)
        out[places[i] : places[i] + size] = work.point[:size]
        for x in range(height):
            nu[at + x] = work.nu[x] / step
        steps, passes = steps + own_steps, passes + own_passes
        largest_defect = max(largest_defect, defect)
    return steps, passes, largest_defect


@inner
def _ascend(start, T, n_edges, rows, S, center, place, unary, pairs, step, m):
    """``m = center + step * (scores of the edges)``; a label's score counts for the edge to it."""
    factor = splat(step)
    for t in range(n_edges):
        here = (start + min(t + 1, T - 1)) * S
        for i in range(rows):
            at = (t * rows + i) * S
            before = splat(unary[start * S + i] if t == 0 and T > 1 else 0.0)
            for c in range(0, S, WIDTH):
                score = plus(load(unary, here + c), before)
                if T > 1:
                    score = plus(score, load(pairs, i * S + c))
                store(m, at + c, fma(factor, score, load(center, place + at + c)))


@jit
def repair(tokens, places, K, S, first, last, u):
    """Turn the points of each sequence into marginals, in place."""
    for i in range(first, last):
        _, n_edges, rows = _shape(tokens, i, K)
        own = u[places[i] : places[i] + n_edges * rows * S]
        clique_projection.repair(own, n_edges, rows, K, S)


@jit
def truth(tokens, places, labels, K, S, u):
    """Put all weight on the true labels: 1 for each edge between them."""
    for i in range(tokens.shape[0] - 1):
        T, n_edges, rows = _shape(tokens, i, K)
        for t in range(n_edges):
            left = labels[tokens[i] + t] if T > 1 else 0
            right = labels[tokens[i] + min(t + 1, T - 1)]
            u[places[i] + (t * rows + left) * S + right] = 1.0


@jit
def differences(tokens, places, labels, weights, charges, u, K, S, first, last, nodes, pairs):
    """Weighted true labels minus marginals, per token and summed over transitions; weighted loss.

    ``charges`` are the losses of each token's labels. Sums are compensated: rounding does not grow
    with the number of sequences.
    """
    loss = carry = 0.0
    own = np.empty(K * S)
    for i in range(first, last):
        start, weight = tokens[i], weights[i]
        T, n_edges, rows = _shape(tokens, i, K)
        for x in range(start * S, (start + T) * S):
            nodes[x] = 0.0
        for x in range(K * S):
            own[x] = 0.0
        for t in range(n_edges):
            _add_edge(u, places[i] + t * rows * S, rows, S, start + t, T > 1, t == 0, nodes, own)
        charged = splat(0.0)
        for t in range(T):
            for c in range((start + t) * S, (start + t + 1) * S, WIDTH):
                charged = fma(load(charges, c), load(nodes, c), charged)
                store(nodes, c, minus(splat(0.0), load(nodes, c)))
            nodes[(start + t) * S + labels[start + t]] += 1.0
            for c in range((start + t) * S, (start + t + 1) * S):
                nodes[c] *= weight
            if t > 0:
                own[labels[start + t - 1] * S + labels[start + t]] -= 1.0
        loss, carry = added(loss, carry, weight * total(charged))
        if T > 1:
            factor = splat(-weight)
            for x in range(0, K * S, WIDTH):
                store(pairs, x, fma(factor, load(own, x), load(pairs, x)))
    return loss + carry


@inner
def _add_edge(u, place, rows, S, token, several, is_first, nodes, pairs):
    """Add an edge's marginals to its second token, of the first to both, and to ``pairs``."""
    here = (token + 1 if several else token) * S
    for i in range(rows):
        row = splat(0.0)
        for c in range(0, S, WIDTH):
            entry = load(u, place + i * S + c)
            store(nodes, here + c, plus(load(nodes, here + c), entry))
            row = plus(row, entry)
            if several:
                store(pairs, i * S + c, plus(load(pairs, i * S + c), entry))
        if several and is_first:
            nodes[token * S + i] = total(row)


@jit
def combine(chains, nodes, pairs, first, last, w):
    """Add the features of rows of tokens, and once those of pairs, to ``w``."""
    S = chains.width
    none, own = np.zeros(S * S), np.empty(most(chains.tokens) * S)
    rows = np.empty((most(chains.blocks) + S + 3) * S)
    for i in range(first, last):
        start, size = chains.tokens[i] * S, (chains.tokens[i + 1] - chains.tokens[i]) * S
        for x in range(size):
            own[x] = nodes[start + x]
        aggregate(chains, i, own, none, rows)
        add_rows(chains, i, 1.0, rows, w)
    at = chains.n_attributes * S
    for x in range(chains.n_labels * S):
        w[at + x] += pairs[x]


@jit
def squared_distance(places, weights, u, v):
    """``sum_i s_i ||u_i - v_i||^2``, over the edges of sequence i."""
    result = carry = 0.0
    for i in range(weights.shape[0]):
        sums = splat(0.0)
        for x in range(places[i], places[i + 1], WIDTH):
            change = minus(load(u, x), load(v, x))
            sums = fma(change, change, sums)
        result, carry = added(result, carry, weights[i] * total(sums))
    return result + carry
