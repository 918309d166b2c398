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

    ``costs`` has a row per true label. ``levels`` is 0 with margin rescaling. With slack rescaling
    the costs are integers, and the loss of every sequence is below ``levels``.
    """

    levels: int
    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    chains: Chains


class Workspace(NamedTuple):
    """Memory to work in.

    ``unary`` and ``nodes`` have a row per position, ``best`` one per position and level; ``edges``
    is a matrix. ``path`` and ``wrong`` have a number per position. ``entries`` are those of a
    sequence that count. ``sums`` is a matrix that is zero between uses, ``touched`` lists places in
    it. ``rows`` are those of :func:`~.features.aggregate`.
    """

    recursion: recursion.Workspace
    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    best: NDArray[np.float64]
    rows: NDArray[np.float64]
    sums: NDArray[np.float64]
    path: NDArray[np.int64]
    wrong: NDArray[np.int64]
    entries: NDArray[np.int64]
    touched: NDArray[np.int64]


@registered(structures.new_work, ChainOutputs)
def _new_work(outputs):
    chains, T, S = outputs.chains, most(outputs.chains.tokens), outputs.chains.width
    nodes, best = recursion.aligned(T * S), np.empty(T * outputs.levels * S)
    rows, sums = np.empty((most(chains.blocks) + S + 3) * S), np.zeros(S * S)
    arrays = recursion.aligned(T * S), nodes, recursion.aligned(S * S), best, rows, sums
    path, wrong, entries = np.empty(T, np.int64), np.empty(T, np.int64), most(chains.entries) + 1
    numbers = path, wrong, np.empty(entries, np.int64), np.empty(2 * T, np.int64)
    return Workspace(recursion.new_workspace(T, S, chains.bars), *arrays, *numbers)


@registered(structures.worst, ChainOutputs)
def _worst(outputs, i, w, work, indices, values):
    loss = _find(outputs, i, w, work)
    factor = loss if outputs.levels > 0 else 1.0
    count = _features(outputs.chains, i, outputs.labels, factor, work, indices, values)
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
    _find(outputs, 0, w, work)
    for t in range(out.shape[0]):
        out[t] = work.path[t]


@inner
def _find(outputs, i, w, work):
    """Write the worst labeling to ``path``, and where it is wrong; returns its loss."""
    chains, labels, start = outputs.chains, outputs.labels, outputs.chains.tokens[i]
    T, pairs, S = chains.tokens[i + 1] - start, transitions(chains, w), chains.width
    scores(chains, i, w, work.unary)
    if outputs.levels > 0:
        _find_by_levels(outputs, start, T, pairs, work)
    else:
        for t in range(T):
            costs = labels[start + t] * S
            for k in range(S):
                work.unary[t * S + k] += outputs.costs[costs + k]
        recursion.best_path(work.unary, pairs, T, chains.n_labels, S, work.recursion, work.path)
    loss = 0.0
    for t in range(T):
        work.wrong[t] = work.path[t] != labels[start + t]
        loss += outputs.costs[labels[start + t] * S + work.path[t]]
    return loss


@inner
def _find_by_levels(outputs, start, T, pairs, work):
    """The same with slack rescaling, by the loss up to each position.

    ``best`` has a row per position and loss from 0: the best score among all labelings with this
    loss.
    """
    K, S, labels = outputs.chains.n_labels, outputs.chains.width, outputs.labels
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


@inner
def _features(chains, i, labels, factor, work, indices, values):
    """Factor times (features of the true labels minus those of the path); returns their number."""
    S, start, first = chains.width, chains.tokens[i], chains.blocks[i]
    T = chains.tokens[i + 1] - start
    path, sums, touched, entries = work.path, work.sums, work.touched, work.entries
    size = 0
    for e in range(chains.entries[i], chains.entries[i + 1]):
        entries[size] = e  # no branch: it would be mispredicted too often
        size += work.wrong[chains.places[e, 1]]
    out = indices, values, factor
    count = pending = at = 0
    slot = np.int64(-1)
    for x in range(size):
        e = entries[x]
        if chains.places[e, 0] != slot:
            count, pending = flush(sums, touched, pending, at, out, count), 0
            slot = np.int64(chains.places[e, 0])
            at = np.int64(chains.attributes[first + slot]) * S
        t = np.int64(chains.places[e, 1])
        value = chains.values[e * chains.step]
        pending = _exchange(sums, touched, pending, labels[start + t], path[t], value)
    count, pending = flush(sums, touched, pending, at, out, count), 0
    at = chains.n_attributes * S
    for t in range(1, T):
        if work.wrong[t - 1] + work.wrong[t] > 0:
            true = labels[start + t - 1] * S + labels[start + t]
            label = path[t - 1] * S + path[t]
            pending = _exchange(sums, touched, pending, true, label, 1.0)
    count, pending = flush(sums, touched, pending, at, out, count), 0
    at += S * S
    for bias in range(3 if chains.intercept else 0):  # at any position, the first and the last one
        for t in range(T):
            counts = bias == 0 or t == (0 if bias == 1 else T - 1)
            if counts and work.wrong[t] > 0:
                pending = _exchange(sums, touched, pending, labels[start + t], path[t], 1.0)
        count, pending = flush(sums, touched, pending, at + bias * S, out, count), 0
    return count


@inner
def _exchange(sums, touched, pending, true, label, value):
    sums[true] += value
    sums[label] -= value
    touched[pending], touched[pending + 1] = true, label
    return pending + 2


@inner
def flush(sums, touched, pending, at, out, count):
    """Write the nonzero sums as entries, in places from ``at``, and reset them to zero.

    A place that was touched twice is zero the second time. It is written nevertheless, since a
    branch would be mispredicted too often: the arrays must hold one more entry.
    """
    indices, values, factor = out
    for p in range(pending):
        value = sums[touched[p]]
        indices[count], values[count] = at + touched[p], factor * value
        sums[touched[p]] = 0.0
        count += value != 0.0
    return count
