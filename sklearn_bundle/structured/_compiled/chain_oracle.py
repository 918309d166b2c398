"""The worst labeling of a chain by loss-augmented max-product, and its conditional likelihood.

Arrays of rows are flat, as in chain.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import features, recursion
from sklearn_bundle.chain._compiled.features import Chains, most, scores, transitions
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.jit.sums import added
from sklearn_bundle.jit.vector import WIDTH, larger, load, plus, splat, spread, store
from sklearn_bundle.structured._compiled import structures

_FEW = 48.0  # roundings of a step of both recursions, beside those of sums over labels
_BIASES = 3  # per token: for its label at any, the first and the last position
_OTHERS = 8.0  # bounds the norms of a token's pairs and biases, as of a few more features


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

    ``unary`` and ``reached`` have a row per position; so does ``best``, with slack rescaling one
    per position and level. ``path`` and ``wrong`` have a number per position. ``entries`` are
    those of a sequence that count. ``sums`` is a matrix that is zero between uses, ``touched``
    lists places in it.
    """

    unary: NDArray[np.float64]
    reached: NDArray[np.float64]
    best: NDArray[np.float64]
    path: NDArray[np.int64]
    wrong: NDArray[np.int64]
    entries: NDArray[np.int64]
    sums: NDArray[np.float64]
    touched: NDArray[np.int64]


@registered(structures.new_work, ChainOutputs)
def _new_work(outputs):
    chains, levels = outputs.chains, max(outputs.levels, 1)
    T, S = most(chains.tokens), chains.width
    rows = recursion.aligned(T * S), recursion.aligned(T * S), recursion.aligned(T * levels * S)
    entries = np.empty(most(chains.entries) + 1, np.int64)
    sums, touched = np.zeros(S * S), np.empty(2 * T, np.int64)
    return Workspace(*rows, np.empty(T, np.int64), np.empty(T, np.int64), entries, sums, touched)


@registered(structures.worst, ChainOutputs)
def _worst(outputs, i, w, work, indices, values):
    loss, score = _find(outputs, i, w, work)
    if score <= 0.0:
        return 0, 0.0, 0.0, 0.0
    factor = loss if outputs.levels > 0 else 1.0
    count = _features(outputs.chains, i, outputs.labels, factor, work, indices, values)
    return count, loss, score, score


@inner
def _find(outputs, i, w, work):
    """Write the worst labeling to ``path``; returns its loss and its score."""
    chains, start = outputs.chains, outputs.chains.tokens[i]
    T, pairs = chains.tokens[i + 1] - start, transitions(chains, w)
    scores(chains, i, w, work.unary)
    if outputs.levels > 0:
        _find_by_levels(outputs, start, T, pairs, work)
        loss, difference = _compared(outputs, start, T, pairs, work)
        return loss, loss * (1.0 + difference)
    _forward(outputs, start, T, pairs, work)
    _backward(chains.n_labels, chains.width, T, pairs, work)
    loss, difference = _compared(outputs, start, T, pairs, work)
    return loss, loss + difference


@jit
def best_labels(outputs, w, out):
    """Write the worst labeling of the only sequence; without costs it is the best."""
    work = structures.new_work(outputs)
    _find(outputs, 0, w, work)
    for t in range(out.shape[0]):
        out[t] = work.path[t]


@inner
def _step(best, before, pairs, K, S, reached, here):
    """Write the best score of all paths from row ``before`` to each label to row ``reached``."""
    for c in range(0, S, WIDTH):
        highest = splat(-np.inf)
        for j in range(K):
            value = plus(spread(best, before + j), load(pairs, j * S + c))
            highest = larger(value, highest)
        store(reached, here + c, highest)


@inner
def _forward(outputs, start, T, pairs, work):
    """Write to ``best`` the highest score of the labelings up to each position, per label there."""
    K, S = outputs.chains.n_labels, outputs.chains.width
    for t in range(T):
        here, costs = t * S, outputs.labels[start + t] * S
        if t > 0:
            _step(work.best, here - S, pairs, K, S, work.reached, here)
        for c in range(0, S, WIDTH):
            own = plus(load(work.unary, here + c), load(outputs.costs, costs + c))
            if t > 0:
                own = plus(load(work.reached, here + c), own)
            store(work.best, here + c, own)


@inner
def _backward(K, S, T, pairs, work):
    """The best path: the best predecessor is looked up only for the labels on it."""
    best, path = work.best, work.path
    label = 0
    for k in range(1, K):
        if best[(T - 1) * S + k] > best[(T - 1) * S + label]:
            label = k
    path[T - 1] = label
    for t in range(T - 1, 0, -1):
        highest, origin = work.reached[t * S + label], 0
        while origin < K - 1 and best[(t - 1) * S + origin] + pairs[origin * S + label] != highest:
            origin += 1
        path[t - 1] = label = origin


@inner
def _find_by_levels(outputs, start, T, pairs, work):
    """The same with slack rescaling, also per loss up to a position, and the path of the worst.

    ``best`` has a row per position and loss from 0. No cost is added: what counts for each loss is
    the best difference of scores among all labelings with this loss.
    """
    K, S, labels = outputs.chains.n_labels, outputs.chains.width, outputs.labels
    unary, best, levels = work.unary, work.best, outputs.levels
    truth = carry = 0.0
    most = 0
    for t in range(T):
        true = labels[start + t]
        before, row, costs = most, t * levels * S, true * S
        highest = 0.0
        for k in range(K):
            highest = max(highest, outputs.costs[costs + k])
        most += np.int64(highest)
        for x in range(row, row + (most + 1) * S):
            best[x] = -np.inf
        for level in range(before + 1):
            if t > 0:
                _step(best, row + (level - levels) * S, pairs, K, S, work.reached, 0)
            for k in range(K):
                reached = work.reached[k] if t > 0 else 0.0
                at = row + (level + np.int64(outputs.costs[costs + k])) * S + k
                best[at] = reached + unary[t * S + k]
        truth, carry = added(truth, carry, unary[t * S + true])
        if t > 0:
            truth, carry = added(truth, carry, pairs[labels[start + t - 1] * S + true])
    worst, chosen = 0.0, 0
    for level in range(1, most + 1):
        highest, row = -np.inf, ((T - 1) * levels + level) * S
        for k in range(K):
            highest = max(highest, best[row + k])
        score = level * (1.0 + (highest - (truth + carry)))
        if score > worst:
            worst, chosen = score, level
    if chosen == 0:
        for t in range(T):
            work.path[t] = labels[start + t]
        return
    level, path = chosen, work.path
    for t in range(T - 1, -1, -1):
        row, label, highest = (t * levels + level) * S, 0, -np.inf
        for k in range(K):
            value = best[row + k] + (pairs[k * S + path[t + 1]] if t < T - 1 else 0.0)
            if value > highest:
                label, highest = k, value
        path[t] = label
        level -= np.int64(outputs.costs[labels[start + t] * S + label])


@inner
def _compared(outputs, start, T, pairs, work):
    """Loss of the path, and its score minus that of the true labels."""
    S, costs, labels = outputs.chains.width, outputs.costs, outputs.labels
    unary, path = work.unary, work.path
    loss = score = carry = 0.0
    for t in range(T):
        true, label = labels[start + t], path[t]
        work.wrong[t] = label != true
        if label != true:
            loss += costs[true * S + label]
            score, carry = added(score, carry, unary[t * S + label])
            score, carry = added(score, carry, -unary[t * S + true])
        if t > 0:
            true += labels[start + t - 1] * S
            label += path[t - 1] * S
            if label != true:
                score, carry = added(score, carry, pairs[label])
                score, carry = added(score, carry, -pairs[true])
    return loss, score + carry


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
    if chains.intercept:
        at += S * S
        for t in range(T):
            if work.wrong[t] > 0:
                pending = _exchange(sums, touched, pending, labels[start + t], path[t], 1.0)
        count = flush(sums, touched, pending, at, out, count)
        for t in (0, T - 1):
            at += S
            if work.wrong[t] > 0:
                pending = _exchange(sums, touched, 0, labels[start + t], path[t], 1.0)
                count = flush(sums, touched, pending, at, out, count)
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
    branch would be mispredicted too often: there must be room for one more entry.
    """
    indices, values, factor = out
    for p in range(pending):
        value = sums[touched[p]]
        indices[count], values[count] = at + touched[p], factor * value
        sums[touched[p]] = 0.0
        count += value != 0.0
    return count


# ---- the likelihood of the true labels -----------------------------------------------------------


class ExpectationWorkspace(NamedTuple):
    """Memory to work in, and sizes of w.

    ``unary`` and ``nodes`` have a row per position, ``edges`` is a matrix. ``rows``, ``reach``,
    ``norms`` and ``counts`` have a number per position. ``envelope`` has the largest weight of each
    attribute, ``bias`` is the largest of all biases of a position, ``pair`` that of a pair.
    """

    recursion: recursion.Workspace
    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    edges: NDArray[np.float64]
    rows: NDArray[np.float64]
    reach: NDArray[np.float64]
    norms: NDArray[np.float64]
    counts: NDArray[np.int64]
    envelope: NDArray[np.float64]
    bias: float
    pair: float


@registered(structures.new_expectation_work, ChainOutputs)
def _new_expectation_work(outputs, w):
    chains, S = outputs.chains, outputs.chains.width
    T, bias, first = most(chains.tokens), 0.0, (chains.n_attributes + S) * S
    for x in range(first, first + _BIASES * S, S):
        bias += recursion.largest_size(w[x : x + S], S)
    pair = recursion.largest_size(transitions(chains, w), S * S)
    rows = np.empty((most(chains.blocks) + S + 3) * S)
    arrays = np.empty(T * S), np.empty(T * S), np.empty(S * S), rows
    of_tokens = np.empty(T), np.empty(T), np.empty(T, np.int64)
    space, sizes = recursion.new_workspace(T, S, chains.bars), (envelope_of(chains, w), bias, pair)
    return ExpectationWorkspace(space, *arrays, *of_tokens, *sizes)


@registered(structures.expect, ChainOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    chains, labels = outputs.chains, outputs.labels
    K, S, start = chains.n_labels, chains.width, chains.tokens[i]
    T = chains.tokens[i + 1] - start
    unary, nodes, edges, pairs = work.unary, work.nodes, work.edges, transitions(chains, w)
    scores(chains, i, w, unary)
    log_z = recursion.marginals(unary, pairs, T, K, S, work.recursion, nodes, edges)[0]
    loss = log_z - features.score_of(labels, start, T, S, unary, pairs)
    sizes = T * (recursion.largest_size(unary, T * S) + work.pair)
    shift = DOUBLE * T * (2.0 * K + _FEW) + DOUBLE * (T + 4.0) * sizes
    shift += errors_of_scores(chains, i, T, work)
    size = float(T)  # of pairs, including the one subtracted for the true pair
    for t in range(T):
        # One minus the marginal of the true label is the sum of the others, without cancellation.
        own, wrong = t * S + labels[start + t], 0.0
        for x in range(t * S, t * S + K):
            wrong += nodes[x] * (x != own)
        nodes[own] = -wrong
        size += 4.0 * wrong * work.norms[t]
        if t > 0:
            edges[labels[start + t - 1] * S + labels[start + t]] -= 1.0
    features.aggregate(chains, i, nodes, edges, work.rows)
    features.add_rows(chains, i, weight, work.rows, gradient)
    return max(loss, 0.0), shift, size


@inner
def envelope_of(chains, w):
    """The largest weight of each attribute."""
    envelope, W = np.empty(chains.n_attributes), chains.width
    for a in range(envelope.shape[0]):
        envelope[a] = recursion.largest_size(w[a * W : a * W + W], W)
    return envelope


@inner
def errors_of_scores(chains, i, T, work):
    """Bounds of the errors of a sequence's scores, summed over its tokens; fills ``norms``.

    A sum of m products has an error of ``(m + 4) u`` times the sum of their absolute values.
    """
    reach, norms, counts = work.reach, work.norms, work.counts
    for t in range(T):
        reach[t], norms[t], counts[t] = work.bias, 0.0, _BIASES + 4
    first = chains.blocks[i]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        t, value = chains.places[e, 1], np.float64(chains.values[e * chains.step])
        reach[t] += abs(value) * work.envelope[chains.attributes[first + chains.places[e, 0]]]
        norms[t] += value * value
        counts[t] += 1
    errors = 0.0
    for t in range(T):
        errors += DOUBLE * counts[t] * reach[t]
        norms[t] = np.sqrt(norms[t]) + _OTHERS
    return errors
