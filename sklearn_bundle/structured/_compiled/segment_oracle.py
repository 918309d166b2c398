"""Segmentations of sequences: one recursion for the worst of them and for expectations over all.

Tokens, attributes and their values are those of the chains' features.py, with columns instead of
labels: one per label, one for it at the first token of a segment, and one at the last token of a
segment. After the rows of the attributes, w has the *tail*, rows with an entry per label, padded to
``width``: one per label that a transition comes from, one per length, and two rows of biases, for
the first and for the last segment. All arrays of rows are flat.

A segment with the label k is *entered* at its first token s and *reached* at its end e, the token
after its last one. Both directions run over ``ways``, a table with a row per way to get there: a
row per length to reach e, and a row per label before to enter s.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains, most, scores
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.jit.elementary import exp
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.chain_oracle import append_rows, place


class SegmentOutputs(NamedTuple):
    """Sequences and their true segments.

    ``labels`` has the label of each token, ``sizes`` the length of the segment whose last token it
    is, or 0. ``limits`` has the largest length per label, and ``longest`` is the largest of these.
    The chains have three columns per label.
    """

    n_labels: int
    longest: int
    width: int
    cost: float  # of a wrong token
    limits: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    chains: Chains


class Workspace(NamedTuple):
    """Memory to work in.

    ``gains`` and ``nodes`` have a row of columns per position: scores with costs, and counts less
    true ones. ``entered`` has a row of labels per position, the total of all ways to enter a
    segment there, and ``begins`` the weight of segments that do. ``reached`` and ``ends`` have one
    more row: the same for segments that end before it. ``rows`` holds features: those of the
    sequence's attributes, then those of the tail. ``labels`` and ``sizes`` are the best segments,
    in the form of the true ones; ``changed`` is 0 for tokens whose row of ``nodes`` is zero.
    """

    gains: NDArray[np.float64]
    nodes: NDArray[np.float64]
    entered: NDArray[np.float64]
    begins: NDArray[np.float64]
    reached: NDArray[np.float64]
    ends: NDArray[np.float64]
    ways: NDArray[np.float64]
    row: NDArray[np.float64]
    lengths: NDArray[np.float64]
    rows: NDArray[np.float64]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    changed: NDArray[np.int64]


@registered(structures.new_work, SegmentOutputs)
def _new_work(outputs):
    S, L, W = outputs.width, outputs.longest, outputs.chains.width
    T, tail = most(outputs.chains.tokens), (outputs.n_labels + L + 2) * S
    n, ways = (T + 1) * S, np.empty(max(L, outputs.n_labels) * S)
    places = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    tables = ways, np.empty(S), np.empty(L * S), np.empty(most(outputs.chains.blocks) * W + tail)
    numbers = np.empty(T, np.int64), np.empty(T, np.int64), np.empty(T, np.int64)
    return Workspace(np.empty(T * W), np.zeros(T * W), *places, *tables, *numbers)


@registered(structures.worst, SegmentOutputs)
def _worst(outputs, i, w, work, indices, values):
    loss = _find(outputs, i, w, work)
    _set_rows(outputs, i, w, work)
    tail = (outputs.n_labels + outputs.longest + 2) * outputs.width
    count = append_rows(outputs.chains, i, work.rows, tail, -1.0, indices, values)
    return structures.with_score(count, loss, w, indices, values)


@registered(structures.expect, SegmentOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    log_z = _run(outputs, i, w, False, work)
    score, source = _set_rows(outputs, i, w, work), 0
    tail = (outputs.n_labels + outputs.longest + 2) * outputs.width
    for u in range(outputs.chains.blocks[i + 1] - outputs.chains.blocks[i] + 1):
        at, size = place(outputs.chains, i, u, tail)
        for x in range(size):
            gradient[at + x] += weight * work.rows[source + x]
        source += size
    return max(log_z - score, 0.0)


@jit
def best_segments(outputs, w, first, last, labels, sizes):
    """The segmentations with the highest scores, in the form of the true ones in ``outputs``.

    ``outputs`` has no costs, and the two arrays have an entry for each of its tokens.
    """
    work = structures.new_work(outputs)
    for i in range(first, last):
        _find(outputs, i, w, work)
        start = outputs.chains.tokens[i]
        for t in range(outputs.chains.tokens[i + 1] - start):
            labels[start + t], sizes[start + t] = work.labels[t], work.sizes[t]


@inner
def _find(outputs, i, w, work):
    """Write the segments of the highest score plus loss; returns their loss."""
    K, S, start = outputs.n_labels, outputs.width, outputs.chains.tokens[i]
    _run(outputs, i, w, True, work)
    loss, begin, label, begins = 0.0, 0, 0, True
    for t in range(outputs.chains.tokens[i + 1] - start):
        for k in range(K):
            if work.begins[t * S + k] > 0.0:
                begin, label = t, k
        size = t + 1 - begin if work.ends[(t + 1) * S + label] > 0.0 else 0
        work.labels[t], work.sizes[t] = label, size
        loss += _cost(outputs, start + t, begins, label, begin == t)
        begins = outputs.sizes[start + t] > 0
    return loss


@inner
def _run(outputs, i, w, best, work):
    """Both directions; returns the best score plus loss, or the log of the sum over all ways."""
    chains = outputs.chains
    start, tail = chains.tokens[i], w[chains.n_attributes * chains.width :]
    T, size = chains.tokens[i + 1] - start, (chains.blocks[i + 1] - chains.blocks[i]) * chains.width
    scores(chains, i, w, work.gains)
    if best and outputs.cost > 0.0:
        _add_costs(outputs, start, T, work)
    for n in range(outputs.longest):
        for k in range(outputs.n_labels):
            score = tail[(outputs.n_labels + n) * outputs.width + k]
            work.lengths[n * outputs.width + k] = score if n < outputs.limits[k] else -np.inf
    total = _forward(outputs, T, tail, best, work)
    _backward(outputs, T, tail, best, total, work, work.rows[size:])
    return total


@inner
def _add_costs(outputs, start, T, work):
    """Add costs of tokens to the scores of the columns of all tokens, and of first ones."""
    K = outputs.n_labels
    for t in range(T):
        begins = t == 0 or outputs.sizes[start + t - 1] > 0
        for k in range(K):
            x, inside = t * outputs.chains.width + k, _cost(outputs, start + t, begins, k, False)
            work.gains[x] += inside
            work.gains[x + K] += _cost(outputs, start + t, begins, k, True) - inside


@inner
def _cost(outputs, at, begins, label, first):
    """Of a label for the token ``at``, where a true segment begins or not, as ``first`` or not."""
    return outputs.cost * (label != outputs.labels[at] or begins != first)


@inner
def _forward(outputs, T, tail, best, work):
    """Fill ``entered`` and ``reached``; returns the total of all ways to the end."""
    K, S, L = outputs.n_labels, outputs.width, outputs.longest
    for e in range(T + 1):
        if e > 0:
            n = _ways_to_reach(outputs, e, min(e, L), 0, K, work)
            _total(work.ways, n, S, K, best, work.reached, e * S, work.row)
        if e < T:
            n = _ways_to_enter(outputs, e, tail, 0, K, work)
            _total(work.ways, n, S, K, best, work.entered, e * S, work.row)
    for k in range(K):
        work.ways[k * S] = work.reached[T * S + k] + tail[(K + L + 1) * S + k]
    _total(work.ways, K, S, 1, best, work.ends, 0, work.row)
    return work.ends[0]


@inner
def _backward(outputs, T, tail, best, total, work, counts):
    """Fill ``begins``, ``ends`` and the tail's ``counts``: a weight is divided among the ways."""
    K, S, L, ways = outputs.n_labels, outputs.width, outputs.longest, work.ways
    for x in range((K + L + 2) * S):
        counts[x] = 0.0
    for x in range(T * S):
        work.begins[x] = work.ends[x] = 0.0
    _share(ways, K, S, 0, 1.0, total, best)
    for k in range(K):
        work.ends[T * S + k] = counts[(K + L + 1) * S + k] = ways[k * S]
    for s in range(T - 1, -1, -1):
        for k in range(K):
            end = (s + 1) * S + k
            if work.ends[end] > 0.0:
                n = min(outputs.limits[k], s + 1)
                _ways_to_reach(outputs, s + 1, n, k, k + 1, work)
                _share(ways, n, S, k, work.ends[end], work.reached[end], best)
                for m in range(n):
                    work.begins[(s - m) * S + k] += ways[m * S + k]
                    counts[(K + m) * S + k] += ways[m * S + k]
        for k in range(K):
            begin = s * S + k
            if s == 0:
                counts[(K + L) * S + k] = work.begins[begin]
            elif work.begins[begin] > 0.0:
                n = _ways_to_enter(outputs, s, tail, k, k + 1, work)
                _share(ways, n, S, k, work.begins[begin], work.entered[begin], best)
                for j in range(n):
                    work.ends[s * S + j] += ways[j * S + k]
                    counts[j * S + k] += ways[j * S + k]


@inner
def _ways_to_reach(outputs, e, count, first, last, work):
    """Rows of ``ways`` for lengths up to ``count`` of a segment that ends at e, of some labels."""
    S, W, ways, inside = outputs.width, outputs.chains.width, work.ways, work.row
    for k in range(first, last):
        inside[k] = work.gains[(e - 1) * W + 2 * outputs.n_labels + k]
    for n in range(count):
        s = e - 1 - n
        for k in range(first, last):
            inside[k] += work.gains[s * W + k]
            ways[n * S + k] = inside[k] + (work.entered[s * S + k] + work.lengths[n * S + k])
    return count


@inner
def _ways_to_enter(outputs, s, tail, first, last, work):
    """Rows of ``ways`` for the labels before a segment that begins at s, of some labels."""
    K, S, gains = outputs.n_labels, outputs.width, s * outputs.chains.width + outputs.n_labels
    count, at = (1, (K + outputs.longest) * S) if s == 0 else (K, 0)
    for j in range(count):
        before = work.reached[s * S + j] if s > 0 else 0.0
        for k in range(first, last):
            work.ways[j * S + k] = before + (tail[at + j * S + k] + work.gains[gains + k])
    return count


@inner
def _total(ways, count, S, K, best, out, at, mass):
    """The largest of each of the first K columns, or the logarithm of the sum of exponentials."""
    for k in range(K):
        out[at + k], mass[k] = -np.inf, 0.0
    for x in range(0, count * S, S):
        for k in range(K):
            out[at + k] = max(out[at + k], ways[x + k])
    for x in range(0, 0 if best else count * S, S):
        for k in range(K):
            mass[k] += exp(ways[x + k] - out[at + k])
    for k in range(0 if best else K):
        out[at + k] += np.log(mass[k])


@inner
def _share(ways, count, S, k, weight, total, best):
    """Divide a weight among a column of ways: to the first best one, or by the exponentials."""
    top = k
    for x in range(k, count * S, S):
        if ways[x] > ways[top]:
            top = x
    for x in range(k, count * S, S):
        if best:
            ways[x] = weight * (x == top)
        else:
            ways[x] = weight * exp(min(ways[x] - total, 0.0))


@inner
def _set_rows(outputs, i, w, work):
    """Subtract the true segments from the weights, and fill ``rows``; returns the true score."""
    chains, K, S, W = outputs.chains, outputs.n_labels, outputs.width, outputs.chains.width
    start, size = chains.tokens[i], (chains.blocks[i + 1] - chains.blocks[i]) * W
    T, L, tail = chains.tokens[i + 1] - start, outputs.longest, w[chains.n_attributes * W :]
    labels, counts, nodes = outputs.labels[start : start + T], work.rows[size:], work.nodes
    last = (K + L + 1) * S + labels[T - 1]
    counts[last] -= 1.0
    score = tail[last]
    for t in range(T):
        k, n = labels[t], outputs.sizes[start + t]
        score += work.gains[t * W + k]
        if n > 0:
            s, length = t + 1 - n, (K + n - 1) * S + k
            before = ((K + L) * S if s == 0 else labels[s - 1] * S) + k
            score += work.gains[s * W + K + k] + work.gains[t * W + 2 * K + k]
            score += tail[before] + tail[length]
            counts[before] -= 1.0
            counts[length] -= 1.0
            work.begins[s * S + k] -= 1.0
            work.ends[(t + 1) * S + k] -= 1.0
    for t in range(T):
        work.changed[t] = 0
        for k in range(K):
            x, column = t * S + k, t * W + k
            begins, ends = work.begins[x], work.ends[x + S]
            nodes[column] = begins + (nodes[column - W] - work.ends[x] if t > 0 else 0.0)
            nodes[column + K], nodes[column + 2 * K] = begins, ends
            work.changed[t] += nodes[column] != 0.0 or begins != 0.0 or ends != 0.0
    for x in range(size):
        work.rows[x] = 0.0
    for e in range(chains.entries[i], chains.entries[i + 1]):
        row, t = np.int64(chains.places[e, 0]) * W, np.int64(chains.places[e, 1])
        for c in range(W if work.changed[t] > 0 else 0):
            work.rows[row + c] += chains.values[e * chains.step] * nodes[t * W + c]
    return score
