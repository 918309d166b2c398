"""The worst segmentation of a sequence, by max-product, and its difference of features.

Tokens, attributes and their values are those of chain.py, with columns instead of labels: one per
label, and with boundaries one more for the first and one for the last token of a segment. After the
rows of the attributes, w has rows with an entry per label, padded to ``width``: one per label that
a transition comes from, one per length, and two rows of biases, for the first and for the last
segment. All arrays of rows are flat.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains, most, scores
from sklearn_bundle.chain._compiled.recursion import aligned
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.jit.sums import added
from sklearn_bundle.jit.vector import WIDTH, larger, load, plus, splat, spread, store
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

    ``unary`` has a row of columns per position; ``gains``, ``entered`` and ``reached`` have a row
    of labels per position, the last one more, and ``lengths`` one per length. ``path``, ``pieces``
    and ``counts`` have a number per position: the label, the length of the segment that begins
    there or 0, and the number of changes; ``columns`` and ``signs`` have the changes. ``sums`` is a
    row that is zero between uses, ``touched`` lists places in it. ``entries`` are those of a
    sequence that count.
    """

    unary: NDArray[np.float64]
    gains: NDArray[np.float64]
    entered: NDArray[np.float64]
    reached: NDArray[np.float64]
    lengths: NDArray[np.float64]
    path: NDArray[np.int64]
    pieces: NDArray[np.int64]
    counts: NDArray[np.int64]
    columns: NDArray[np.int64]
    signs: NDArray[np.float64]
    sums: NDArray[np.float64]
    touched: NDArray[np.int64]
    entries: NDArray[np.int64]


@inner
def longest(limits):
    """The largest length of all labels."""
    most = 0
    for k in range(limits.shape[0]):
        most = max(most, limits[k])
    return most


@registered(structures.new_work, SegmentOutputs)
def _new_work(outputs):
    chains, S, L = outputs.chains, outputs.width, longest(outputs.limits)
    T = most(chains.tokens)
    rows = aligned(T * chains.width), aligned(T * S), aligned(T * S), aligned((T + 1) * S)
    numbers = np.empty(T, np.int64), np.empty(T, np.int64), np.empty(T, np.int64)
    changes = np.empty(_CHANGES * T, np.int64), np.empty(_CHANGES * T)
    sums = np.zeros(max(chains.width, (outputs.n_labels + L + 2) * S))
    touched = np.empty(_CHANGES * T + 4, np.int64)
    entries = np.empty(most(chains.entries) + 1, np.int64)
    return Workspace(*rows, aligned(L * S), *numbers, *changes, sums, touched, entries)


@registered(structures.worst, SegmentOutputs)
def _worst(outputs, i, w, work, indices, values):
    chains, start = outputs.chains, outputs.chains.tokens[i]
    T = chains.tokens[i + 1] - start
    _best_path(outputs, i, w, work)
    loss = _loss(outputs, start, T, work)
    margin = _changes(outputs, start, T, work)
    pending, margin = _structure(outputs, start, T, w, margin, work)
    if loss + margin <= 0.0:
        for p in range(pending):
            work.sums[work.touched[p]] = 0.0
        return 0, 0.0, 0.0, 0.0
    out = indices, values, 1.0
    count = flush(work.sums, work.touched, pending, chains.n_attributes * chains.width, out, 0)
    score = loss + margin
    return _attributes(outputs, i, work, out, count), loss, score, score


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


# ---- the best path ----------------------------------------------------------------------------


@inner
def _best_path(outputs, i, w, work):
    """Write the segmentation with the highest score plus loss to ``path`` and ``pieces``."""
    chains, S, K = outputs.chains, outputs.width, outputs.n_labels
    start = chains.tokens[i]
    T = chains.tokens[i + 1] - start
    at = chains.n_attributes * chains.width
    pairs, L = w[at : at + K * S], longest(outputs.limits)
    biases = w[at + (K + L) * S : at + (K + L + 2) * S]
    scores(chains, i, w, work.unary)
    allowed_lengths(outputs, w, work.lengths)
    _with_costs(outputs, start, T, work)
    for e in range(1, T + 1):
        _enter(e - 1, K, S, pairs, biases, work)
        saved, own = _without_the_true(outputs, start, e, work)
        _extend(e, min(L, e), S, work)
        if own >= 0:
            work.entered[own] = saved
        if outputs.boundaries:
            last = (e - 1) * chains.width + 2 * K
            for k in range(K):
                work.reached[e * S + k] += work.unary[last + k]
    label = 0
    for k in range(1, K):
        if (
            work.reached[T * S + k] + biases[S + k]
            > work.reached[T * S + label] + biases[S + label]
        ):
            label = k
    _trace(outputs, start, T, label, pairs, work)


@inner
def allowed_lengths(outputs, w, out):
    """The weights of lengths, minus infinity if a label does not allow that length."""
    K, S, chains = outputs.n_labels, outputs.width, outputs.chains
    at = chains.n_attributes * chains.width + K * S
    for x in range(longest(outputs.limits) * S):
        allowed = x % S < K and x // S < outputs.limits[min(x % S, K - 1)]
        out[x] = w[at + x] if allowed else -np.inf


@inner
def _with_costs(outputs, start, T, work):
    """Scores with costs: of a token in a segment, and what changes for its first token.

    ``gains`` has what each token of a segment counts for, ``entered`` what its first token adds.
    """
    K, S, W = outputs.n_labels, outputs.width, outputs.chains.width
    for t in range(T):
        true, begins = outputs.labels[start + t], outputs.sizes[start + t] > 0
        for k in range(K):
            inside = opening = 0.0
            if outputs.cost == TAGS:
                inside, opening = 1.0 * (k != true or begins), 1.0 * (k != true or not begins)
            elif outputs.cost == LABELS:
                inside = opening = 1.0 * (k != true)
            elif outputs.cost == SEGMENTS:
                opening = 1.0
            first = work.unary[t * W + K + k] if outputs.boundaries else 0.0
            work.gains[t * S + k] = work.unary[t * W + k] + inside
            work.entered[t * S + k] = first + (opening - inside)
        for k in range(K, S):
            work.gains[t * S + k] = work.entered[t * S + k] = 0.0


@inner
def _enter(s, K, S, pairs, biases, work):
    """Add to ``entered`` at s the best score of what may come before a segment there."""
    for c in range(0, S, WIDTH):
        highest = load(biases, c)
        if s > 0:
            highest = splat(-np.inf)
            for j in range(K):
                value = plus(spread(work.reached, s * S + j), load(pairs, j * S + c))
                highest = larger(value, highest)
        store(work.entered, s * S + c, plus(highest, load(work.entered, s * S + c)))


@inner
def _without_the_true(outputs, start, e, work):
    """If the cost counts segments, a true one ending at e reduces it by 1 instead of adding 1.

    Returns the old value of the changed place of ``entered``, and the place or -1.
    """
    if outputs.cost != SEGMENTS:
        return 0.0, -1
    length = _true_length(outputs, start, e)
    if length == 0:
        return 0.0, -1
    own = (e - length) * outputs.width + outputs.labels[start + e - 1]
    saved = work.entered[own]
    work.entered[own] -= 2.0
    return saved, own


@inner
def _true_length(outputs, start, e):
    """The length of the true segment that ends at e, or 0."""
    s = e - 1
    while outputs.sizes[start + s] == 0:
        s -= 1
    return e - s if outputs.sizes[start + s] == e - s else 0


@inner
def _extend(e, most, S, work):
    """Write to ``reached`` at e the best score of the segmentations up to e, per last label."""
    for c in range(0, S, WIDTH):
        inside, highest = splat(0.0), splat(-np.inf)
        for n in range(1, most + 1):
            at = (e - n) * S + c
            inside = plus(load(work.gains, at), inside)
            ends = plus(load(work.entered, at), load(work.lengths, (n - 1) * S + c))
            highest = larger(plus(inside, ends), highest)
        store(work.reached, e * S + c, highest)


@inner
def _trace(outputs, start, T, label, pairs, work):
    """The best path, from the last segment to the first."""
    K, S = outputs.n_labels, outputs.width
    e = T
    while e > 0:
        true = _true_length(outputs, start, e) if outputs.cost == SEGMENTS else 0
        length, highest, inside = 1, -np.inf, 0.0
        for n in range(1, min(outputs.limits[label], e) + 1):
            at = (e - n) * S + label
            inside += work.gains[at]
            value = inside + (work.entered[at] + work.lengths[(n - 1) * S + label])
            if n == true and label == outputs.labels[start + e - 1]:
                value -= 2.0
            if value > highest:
                length, highest = n, value
        for t in range(e - length, e):
            work.path[t], work.pieces[t] = label, 0
        e -= length
        work.pieces[e] = length
        before, highest = 0, -np.inf
        for j in range(K):
            value = work.reached[e * S + j] + pairs[j * S + label] if e > 0 else 0.0
            if value > highest:
                before, highest = j, value
        label = before


# ---- the path compared with the true one ------------------------------------------------------


@inner
def _loss(outputs, start, T, work):
    """The cost of the path."""
    loss = 0.0
    for t in range(T):
        true, size, label, piece = (
            outputs.labels[start + t],
            outputs.sizes[start + t],
            work.path[t],
            work.pieces[t],
        )
        if outputs.cost == SEGMENTS:
            found = label == true and piece == size
            loss += ((piece > 0) + (size > 0)) * (not found)
        else:
            wrong = outputs.cost == TAGS and (piece > 0) != (size > 0)
            loss += wrong or label != true
    return loss


@inner
def _changes(outputs, start, T, work):
    """List the columns in which tokens differ; returns the difference of the scores."""
    K, W = outputs.n_labels, outputs.chains.width
    score = carry = 0.0
    for t in range(T):
        count, true, label = 0, outputs.labels[start + t], work.path[t]
        if label != true:
            count = _change(work, t, _change(work, t, 0, true, 1.0), label, -1.0)
        if outputs.boundaries:
            first = outputs.sizes[start + t] > 0, work.pieces[t] > 0
            end = t + 1 == T
            last = end or outputs.sizes[start + t + 1] > 0, end or work.pieces[t + 1] > 0
            for column, (truly, found) in ((K, first), (2 * K, last)):
                if truly and not (found and label == true):
                    count = _change(work, t, count, column + true, 1.0)
                if found and not (truly and label == true):
                    count = _change(work, t, count, column + label, -1.0)
        work.counts[t] = count
        for x in range(t * _CHANGES, t * _CHANGES + count):
            term = -work.signs[x] * work.unary[t * W + work.columns[x]]
            score, carry = added(score, carry, term)
    return score + carry


@inner
def _change(work, t, count, column, sign):
    work.columns[t * _CHANGES + count], work.signs[t * _CHANGES + count] = column, sign
    return count + 1


@inner
def _structure(outputs, start, T, w, score, work):
    """Add transitions, lengths and biases to ``sums``: the true ones minus those of the path.

    Returns the number of places touched, and the difference of all scores.
    """
    chains = outputs.chains
    tail, sums = w[chains.n_attributes * chains.width :], (score, 0.0)
    true = outputs.labels[start : start + T], outputs.sizes[start : start + T]
    count, sums = count_structure(outputs, T, true, 1.0, 0, tail, sums, work)
    count, sums = count_structure(
        outputs, T, (work.path, work.pieces), -1.0, count, tail, sums, work
    )
    return count, sums[0] + sums[1]


@inner
def count_structure(outputs, T, segments, sign, count, tail, sums, work):
    """Add a sign for each transition, length and bias of a segmentation."""
    labels, sizes = segments
    S, score, carry = outputs.width, *sums
    lengths = outputs.n_labels * S
    biases = lengths + longest(outputs.limits) * S
    t = 0
    while t <= T:
        places = biases + S + labels[T - 1], -1
        if t < T:
            before = biases if t == 0 else labels[t - 1] * S
            places = before + labels[t], lengths + (sizes[t] - 1) * S + labels[t]
        for x in places:
            if x >= 0:
                work.sums[x] += sign
                work.touched[count] = x
                count += 1
                score, carry = added(score, carry, -sign * tail[x])
        t += sizes[t] if t < T else 1
    return count, (score, carry)


@inner
def _attributes(outputs, i, work, out, count):
    """Append the attributes of the tokens that differ; returns the number of entries."""
    chains, sums, touched, entries = outputs.chains, work.sums, work.touched, work.entries
    first, size = chains.blocks[i], 0
    for e in range(chains.entries[i], chains.entries[i + 1]):
        entries[size] = e  # no branch: it would be mispredicted too often
        size += work.counts[chains.places[e, 1]] > 0
    pending = at = 0
    slot = np.int64(-1)
    for x in range(size):
        e = entries[x]
        if chains.places[e, 0] != slot:
            count, pending = flush(sums, touched, pending, at, out, count), 0
            slot = np.int64(chains.places[e, 0])
            at = np.int64(chains.attributes[first + slot]) * chains.width
        changes = np.int64(chains.places[e, 1]) * _CHANGES
        for c in range(changes, changes + work.counts[chains.places[e, 1]]):
            sums[work.columns[c]] += work.signs[c] * chains.values[e * chains.step]
            touched[pending] = work.columns[c]
            pending += 1
    return flush(sums, touched, pending, at, out, count)
