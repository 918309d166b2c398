"""Segmentations of sequences: one recursion for the worst of them and for expectations over all.

Tokens, attributes and their values are those of the chains' features.py, with columns instead of
labels: one per label, and with boundaries one more for the first and one for the last token of a
segment. After the rows of the attributes, w has the *tail*, rows with an entry per label, padded to
``width``: one per label that a transition comes from, one per length, and two rows of biases, for
the first and for the last segment. All arrays of rows are flat.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains, most, scores
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.jit.elementary import exp
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.chain_oracle import flush

NOTHING, TAGS, LABELS, SEGMENTS = 0, 1, 2, 3  # what counts as a mistake
_CHANGES = 6  # most columns in which a token can differ: two labels, each in three places


class SegmentOutputs(NamedTuple):
    """Sequences and their true segments.

    ``labels`` has the label of each token, ``sizes`` the length of the segment that begins at it,
    or 0. ``limits`` has the largest length per label. The chains have ``n_labels`` columns, or
    three times as many with ``boundaries``.
    """

    n_labels: int
    width: int
    cost: int
    boundaries: bool
    limits: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    chains: Chains


class Workspace(NamedTuple):
    """Memory to work in.

    ``unary`` and ``nodes`` have a row of columns per position: scores, and expected counts. Rows of
    labels per position: ``gains``, what a token counts for, ``opening`` and ``closing``, what it
    adds as the first and the last of a segment, ``entered``, all ways to begin a segment, and
    ``begins``, their weight. ``reached`` and ``ends`` have one more row: the same for segments that
    end before it. ``ways`` has rows to add up, ``mass`` their sum; ``counts`` is like the tail,
    ``lengths`` a part of it. ``path`` has the labels of tokens, ``pieces`` the lengths of segments
    that begin at them, ``columns`` the first ``changed`` columns in which they differ. ``sums`` is
    a row that is zero between uses, ``touched`` lists places in it.
    """

    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    gains: NDArray[np.float64]
    opening: NDArray[np.float64]
    closing: NDArray[np.float64]
    entered: NDArray[np.float64]
    begins: NDArray[np.float64]
    reached: NDArray[np.float64]
    ends: NDArray[np.float64]
    ways: NDArray[np.float64]
    lengths: NDArray[np.float64]
    mass: NDArray[np.float64]
    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    touched: NDArray[np.int64]
    columns: NDArray[np.int64]
    path: NDArray[np.int64]
    pieces: NDArray[np.int64]
    changed: NDArray[np.int64]


@inner
def longest(limits):
    """The largest length of all labels."""
    most = 0
    for k in range(limits.shape[0]):
        most = max(most, limits[k])
    return most


@registered(structures.new_work, SegmentOutputs)
def _new_work(outputs):
    S, K, L, W = outputs.width, outputs.n_labels, longest(outputs.limits), outputs.chains.width
    T = most(outputs.chains.tokens)
    n, tail = T * S, (K + L + 2) * S
    rows = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    more = np.zeros(n + S), np.zeros(n + S), np.empty(max(L, K) * S), np.empty(L * S)
    sums = np.empty(S), np.empty(tail), np.zeros(W)
    places = np.empty(_CHANGES * T, np.int64), np.empty(_CHANGES * T, np.int64)
    numbers = np.empty(T, np.int64), np.empty(T, np.int64), np.empty(T, np.int64)
    return Workspace(np.empty(T * W), np.empty(T * W), *rows, *more, *sums, *places, *numbers)


@registered(structures.worst, SegmentOutputs)
def _worst(outputs, i, w, work, indices, values):
    chains, start = outputs.chains, outputs.chains.tokens[i]
    T, tail = chains.tokens[i + 1] - start, chains.n_attributes * chains.width
    _best_path(outputs, i, w, work)
    _count_columns(outputs, start, T, work)
    count = _attributes(outputs, i, work, indices, values)
    for x in range(work.counts.shape[0]):
        indices[count], values[count] = tail + x, -work.counts[x]
        count += work.counts[x] != 0.0
    return structures.with_score(count, _loss(outputs, start, T, work), w, indices, values)


@registered(structures.expect, SegmentOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    chains, W, start = outputs.chains, outputs.chains.width, outputs.chains.tokens[i]
    T, tail = chains.tokens[i + 1] - start, chains.n_attributes * W
    _set_scores(outputs, i, w, False, work)
    log_z = _forward(outputs, start, T, w[tail:], False, work)
    _backward(outputs, start, T, w[tail:], log_z, False, work)
    _count_columns(outputs, start, T, work)
    for x in range(work.counts.shape[0]):
        gradient[tail + x] += weight * work.counts[x]
    first = chains.blocks[i]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        row = np.int64(chains.places[e, 1]) * W
        target = np.int64(chains.attributes[first + chains.places[e, 0]]) * W
        value = weight * chains.values[e * chains.step]
        for c in range(W):
            gradient[target + c] += value * work.nodes[row + c]
    return max(log_z - _true_score(outputs, start, T, w[tail:], work), 0.0)


@jit
def best_segments(outputs, w, first, last, labels, sizes):
    """The segmentations with the highest scores, in the form of the true ones in ``outputs``.

    ``outputs`` has no costs, and the two arrays have an entry for each of its tokens.
    """
    work = structures.new_work(outputs)
    for i in range(first, last):
        _best_path(outputs, i, w, work)
        start = outputs.chains.tokens[i]
        for t in range(outputs.chains.tokens[i + 1] - start):
            labels[start + t], sizes[start + t] = work.path[t], work.pieces[t]


@inner
def _best_path(outputs, i, w, work):
    """The segmentation with the highest score plus loss, in ``path`` and ``pieces``."""
    start, tail = outputs.chains.tokens[i], outputs.chains.n_attributes * outputs.chains.width
    T, S = outputs.chains.tokens[i + 1] - start, outputs.width
    _set_scores(outputs, i, w, True, work)
    _forward(outputs, start, T, w[tail:], True, work)
    _backward(outputs, start, T, w[tail:], 0.0, True, work)
    begin = 0
    for t in range(T):
        work.pieces[t] = 0
        for k in range(outputs.n_labels):
            if work.begins[t * S + k] > 0.0:
                begin, work.path[t] = t, k
        work.path[t] = work.path[begin]
        work.pieces[begin] += 1


@inner
def _set_scores(outputs, i, w, costs, work):
    """Scores of tokens, with costs if asked for, and of lengths, -inf if they are not allowed."""
    chains, K, S, W = outputs.chains, outputs.n_labels, outputs.width, outputs.chains.width
    start, cost = chains.tokens[i], outputs.cost if costs else NOTHING
    scores(chains, i, w, work.unary)
    for t in range(chains.tokens[i + 1] - start):
        true, begins = outputs.labels[start + t], outputs.sizes[start + t] > 0
        for k in range(K):
            inside = first = 0.0
            if cost == TAGS:
                inside, first = 1.0 * (k != true or begins), 1.0 * (k != true or not begins)
            elif cost == LABELS:
                inside = first = 1.0 * (k != true)
            elif cost == SEGMENTS:
                first = 1.0
            x, column = t * S + k, t * W + k
            work.gains[x] = work.unary[column] + inside
            work.opening[x] = first - inside
            if outputs.boundaries:
                work.opening[x] += work.unary[column + K]
            work.closing[x] = work.unary[column + 2 * K] if outputs.boundaries else 0.0
    at = chains.n_attributes * W + K * S
    for x in range(work.lengths.shape[0]):
        allowed = x % S < K and x // S < outputs.limits[min(x % S, K - 1)]
        work.lengths[x] = w[at + x] if allowed else -np.inf


@inner
def _total(work, n, K, S, best, out, at):
    """The largest of each of the first K columns, or the logarithm of the sum of exponentials."""
    ways, mass = work.ways, work.mass
    for k in range(K):
        out[at + k], mass[k] = -np.inf, 0.0
    for x in range(0, n * S, S):
        for k in range(K):
            out[at + k] = max(out[at + k], ways[x + k])
    for x in range(0, 0 if best else n * S, S):
        for k in range(K):
            mass[k] += exp(ways[x + k] - out[at + k])
    for k in range(0 if best else K):
        out[at + k] += np.log(mass[k])


@inner
def _of_true(outputs, start, e):
    """Where ``entered`` has the true segment that ends at e, if it counts by itself; or -1."""
    s = e - 1
    while outputs.sizes[start + s] == 0:
        s -= 1
    if outputs.cost != SEGMENTS or outputs.sizes[start + s] != e - s:
        return -1
    return s * outputs.width + outputs.labels[start + s]


@inner
def _forward(outputs, start, T, tail, best, work):
    """Fill ``entered`` and ``reached``; returns the best score, or the log of the sum over all.

    A true segment reduces the number of wrong ones by 1 instead of adding 1.
    """
    K, S, L, ways = outputs.n_labels, outputs.width, longest(outputs.limits), work.ways
    for e in range(T + 1):
        here = e * S
        if e > 0:
            own = _of_true(outputs, start, e) if best else -1
            saved = work.entered[own]
            if own >= 0:
                work.entered[own] -= 2.0
            for k in range(K):
                work.reached[here + k] = 0.0  # the gains of the last n tokens
            for n in range(1, min(L, e) + 1):
                x, s = (n - 1) * S, here - n * S
                for k in range(K):
                    work.reached[here + k] += work.gains[s + k]
                    on = work.entered[s + k] + work.lengths[x + k]
                    ways[x + k] = work.reached[here + k] + on
            _total(work, min(L, e), K, S, best, work.reached, here)
            for k in range(K):
                work.reached[here + k] += work.closing[here - S + k]
            if own >= 0:
                work.entered[own] = saved
        if 0 < e < T:
            for j in range(K):
                for k in range(K):
                    ways[j * S + k] = work.reached[here + j] + tail[j * S + k]
            _total(work, K, K, S, best, work.entered, here)
        for k in range(K if e < T else 0):
            before = tail[(K + L) * S + k] if e == 0 else work.entered[here + k]
            work.entered[here + k] = before + work.opening[here + k]
    for k in range(K):
        ways[k * S] = work.reached[T * S + k] + tail[(K + L + 1) * S + k]
    _total(work, K, 1, S, best, work.ends, 0)
    return work.ends[0]


@inner
def _share(weight, ways, n, S, total, best):
    """Divide a weight among the first n entries of a column, one in a row: to the first best one,
    or in proportion to the exponentials, whose sum has the logarithm ``total``.
    """
    top = 0
    for x in range(n):
        if ways[x * S] > ways[top * S]:
            top = x
    for x in range(n):
        if best:
            ways[x * S] = weight * (x == top)
        else:
            ways[x * S] = weight * exp(min(ways[x * S] - total, 0.0))


@inner
def _backward(outputs, start, T, tail, log_z, best, work):
    """Fill ``begins``, ``ends`` and ``counts`` with the weights of segments, from the last one."""
    K, S, L, ways = outputs.n_labels, outputs.width, longest(outputs.limits), work.ways
    counts = work.counts
    counts[:] = 0.0
    work.begins[: T * S] = 0.0
    work.ends[: (T + 1) * S] = 0.0
    for k in range(K):
        ways[k * S] = work.reached[T * S + k] + tail[(K + L + 1) * S + k]
    _share(1.0, ways, K, S, log_z, best)
    for k in range(K):
        work.ends[T * S + k] = counts[(K + L + 1) * S + k] = ways[k * S]
    for e in range(T, 0, -1):
        own = _of_true(outputs, start, e) if best else -1
        for k in range(K):
            end = e * S + k
            if work.ends[end] <= 0.0:
                continue
            inside, most_tokens = 0.0, min(outputs.limits[k], e)
            for n in range(1, most_tokens + 1):
                s = end - n * S
                inside += work.gains[s]
                on = work.entered[s] - (2.0 if s == own else 0.0) + work.lengths[(n - 1) * S + k]
                ways[(n - 1) * S] = inside + on
            within = work.reached[end] - work.closing[end - S]
            _share(work.ends[end], ways, most_tokens, S, within, best)
            for n in range(1, most_tokens + 1):
                work.begins[end - n * S] += ways[(n - 1) * S]
                counts[(K + n - 1) * S + k] += ways[(n - 1) * S]
        for k in range(K):
            begin = (e - 1) * S + k
            if e == 1:
                counts[(K + L) * S + k] = work.begins[begin]
            elif work.begins[begin] > 0.0:
                for j in range(K):
                    ways[j * S] = work.reached[begin - k + j] + tail[j * S + k]
                total = work.entered[begin] - work.opening[begin]
                _share(work.begins[begin], ways, K, S, total, best)
                for j in range(K):
                    work.ends[begin - k + j] += ways[j * S]
                    counts[j * S + k] += ways[j * S]


@inner
def _count_columns(outputs, start, T, work):
    """Fill ``nodes`` with counts of columns less the true ones; subtract these from ``counts``."""
    K, S, W, L = outputs.n_labels, outputs.width, outputs.chains.width, longest(outputs.limits)
    nodes, counts, labels = work.nodes, work.counts, outputs.labels[start : start + T]
    sizes = outputs.sizes[start : start + T]
    nodes[: T * W] = 0.0
    for t in range(T):
        for k in range(K):
            x, column = t * S + k, t * W + k
            before = nodes[column - W] + 1.0 * (labels[t - 1] == k) if t > 0 else 0.0
            nodes[column] = before + work.begins[x] - (work.ends[x] if t > 0 else 0.0)
            if outputs.boundaries:
                nodes[column + K], nodes[column + 2 * K] = work.begins[x], work.ends[x + S]
        # One minus the share of the true label is that of the others, without cancellation.
        own = t * W + labels[t]
        nodes[own] = 0.0
        nodes[own] = -np.sum(nodes[t * W : t * W + K])
        if sizes[t] > 0:
            row = (K + L) * S if t == 0 else labels[t - 1] * S
            counts[row + labels[t]] -= 1.0
            counts[(K + sizes[t] - 1) * S + labels[t]] -= 1.0
            if outputs.boundaries:
                nodes[t * W + K + labels[t]] -= 1.0
        if outputs.boundaries and (t + 1 == T or sizes[t + 1] > 0):
            nodes[t * W + 2 * K + labels[t]] -= 1.0
    counts[(K + L + 1) * S + labels[T - 1]] -= 1.0


@inner
def _true_score(outputs, start, T, tail, work):
    K, S, L = outputs.n_labels, outputs.width, longest(outputs.limits)
    score = tail[(K + L + 1) * S + outputs.labels[start + T - 1]]
    for t in range(T):
        label, size = outputs.labels[start + t], outputs.sizes[start + t]
        score += work.gains[t * S + label]
        if size > 0:
            row = (K + L) * S if t == 0 else outputs.labels[start + t - 1] * S
            score += tail[row + label] + tail[(K + size - 1) * S + label]
            score += work.opening[t * S + label] + work.closing[(t + size - 1) * S + label]
    return score


@inner
def _loss(outputs, start, T, work):
    """The cost of the path."""
    loss = 0.0
    for t in range(T):
        label, size = outputs.labels[start + t], outputs.sizes[start + t]
        same = work.path[t] == label
        if outputs.cost == SEGMENTS:
            found = same and work.pieces[t] == size
            loss += ((work.pieces[t] > 0) + (size > 0)) * (not found)
        else:
            loss += not same or (outputs.cost == TAGS and (work.pieces[t] > 0) != (size > 0))
    return loss


@inner
def _attributes(outputs, i, work, indices, values):
    """Write the attributes of the tokens that differ; returns the number of entries."""
    chains, W, sums, touched = outputs.chains, outputs.chains.width, work.sums, work.touched
    columns, changed, out = work.columns, work.changed, (indices, values, -1.0)
    for t in range(chains.tokens[i + 1] - chains.tokens[i]):
        changed[t] = 0
        for c in range(W):
            if work.nodes[t * W + c] != 0.0:
                columns[t * _CHANGES + changed[t]] = c
                changed[t] += 1
    count = pending = at = 0
    slot = np.int64(-1)
    for e in range(chains.entries[i], chains.entries[i + 1]):
        t = np.int64(chains.places[e, 1])
        if changed[t] > 0:
            if chains.places[e, 0] != slot:
                count, pending = flush(sums, touched, pending, at, out, count), 0
                slot = np.int64(chains.places[e, 0])
                at = np.int64(chains.attributes[chains.blocks[i] + slot]) * W
            for x in range(t * _CHANGES, t * _CHANGES + changed[t]):
                value = chains.values[e * chains.step] * work.nodes[t * W + columns[x]]
                sums[columns[x]] += value
                touched[pending] = columns[x]
                pending += 1
    return flush(sums, touched, pending, at, out, count)
