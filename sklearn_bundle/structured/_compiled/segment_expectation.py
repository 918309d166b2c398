"""The conditional likelihood of true segmentations, by recursions over segments in logarithms.

The scores of the true segments are subtracted from all scores, position by position, so that the
numbers in the recursions are differences of scores of parts, which are small if the model is good.

Rounding errors: let M be the largest number in the recursions. A segment of n positions takes part
in n + 8 sums of such numbers, and in two logarithms of sums of at most L and K exponentials, whose
relative errors are below ``(L + 8) u`` and ``(K + 8) u``; what is subtracted at a position is a sum
of six scores. The forward and the backward recursion each take part once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import most, scores
from sklearn_bundle.chain._compiled.recursion import largest_size
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.jit.decorators import inner, registered
from sklearn_bundle.jit.elementary import exp
from sklearn_bundle.jit.vector import WIDTH, fma, load, splat, store
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.chain_oracle import envelope_of, errors_of_scores
from sklearn_bundle.structured._compiled.segment_oracle import (
    SegmentOutputs,
    allowed_lengths,
    count_structure,
    longest,
)


class ExpectationWorkspace(NamedTuple):
    """Memory to work in, and sizes of w.

    ``unary`` and ``nodes`` have a row of columns per position. Rows of labels: ``gains`` to
    ``stays`` have one per position, ``reached`` and ``left`` one more, ``lengths`` and ``ways`` one
    per length, ``inside`` to ``peaks`` a single one. ``begins`` and ``goes_on`` have the
    probabilities that a segment of a label begins at a position and that it covers it from before,
    ``ends`` and ``stays`` that it ends there and that it covers it and the next. ``sums`` is a row
    that is zero between uses, ``touched`` lists places in it. ``reach``, ``norms``, ``counts``,
    ``envelope`` and ``bias`` are those of chain_oracle.py.
    """

    unary: NDArray[np.float64]
    nodes: NDArray[np.float64]
    gains: NDArray[np.float64]
    entered: NDArray[np.float64]
    begun: NDArray[np.float64]
    begins: NDArray[np.float64]
    goes_on: NDArray[np.float64]
    ends: NDArray[np.float64]
    stays: NDArray[np.float64]
    reached: NDArray[np.float64]
    left: NDArray[np.float64]
    lengths: NDArray[np.float64]
    ways: NDArray[np.float64]
    inside: NDArray[np.float64]
    highest: NDArray[np.float64]
    mass: NDArray[np.float64]
    peaks: NDArray[np.float64]
    sums: NDArray[np.float64]
    touched: NDArray[np.int64]
    reach: NDArray[np.float64]
    norms: NDArray[np.float64]
    counts: NDArray[np.int64]
    envelope: NDArray[np.float64]
    bias: float


@registered(structures.new_expectation_work, SegmentOutputs)
def _new_work(outputs, w):
    chains, S, K, L = outputs.chains, outputs.width, outputs.n_labels, longest(outputs.limits)
    T, W = most(chains.tokens), chains.width
    n = T * S
    columns = np.empty(T * W), np.empty(T * W)
    rows = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    more = np.empty(n + S), np.empty(n + S), np.empty(L * S), np.empty(max(L, K) * S)
    single = np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    sums, touched = np.zeros((K + L + 2) * S), np.empty(2 * T + 2, np.int64)
    of_tokens = np.empty(T), np.empty(T), np.empty(T, np.int64)
    return ExpectationWorkspace(
        *columns, *rows, *more, *single, sums, touched, *of_tokens, envelope_of(chains, w), 0.0
    )


@registered(structures.expect, SegmentOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    chains, K, S = outputs.chains, outputs.n_labels, outputs.width
    L, start = longest(outputs.limits), chains.tokens[i]
    T = chains.tokens[i + 1] - start
    at = chains.n_attributes * chains.width
    tail, true = w[at:], (outputs.labels[start : start + T], outputs.sizes[start : start + T])
    scores(chains, i, w, work.unary)
    allowed_lengths(outputs, w, work.lengths)
    for k in range(S):
        work.peaks[k] = 0.0
    size = _less_true(outputs, T, true, tail, work)
    _recursion(outputs, T, tail, True, work.entered, work.reached, work)
    _recursion(outputs, T, tail, False, work.left, work.begun, work)
    log_z = _log_partition(outputs, T, tail, work)
    _marginals(outputs, T, log_z, tail, work)
    peak = largest_size(work.peaks, S) + largest_size(tail, (K + L + 2) * S)
    columns = 3.0 if outputs.boundaries else 1.0
    shift = columns * errors_of_scores(chains, i, T, work)
    shift += DOUBLE * (T * (64.0 * peak + 2.0 * (L + K) + 64.0) + 8.0 * size)
    moved = _wrong(outputs, T, true, work)
    count, _ = count_structure(outputs, T, true, -1.0, 0, tail, (0.0, 0.0), work)
    for x in range((K + L + 2) * S):
        gradient[at + x] += weight * work.sums[x]
        work.sums[x] = 0.0
    _add_attributes(chains, i, weight, work.nodes, gradient)
    # There are at most 2 T + 1 transitions, lengths and biases, both expected and true.
    return max(log_z, 0.0), shift, moved + 2.0 * count + 2.0 * T + 2.0


@inner
def _less_true(outputs, T, true, tail, work):
    """Fill ``gains``: scores of tokens minus all that true segments get at their positions.

    Returns the sum of the sizes of what was subtracted.
    """
    K, S, W, (labels, sizes) = outputs.n_labels, outputs.width, outputs.chains.width, true
    lengths, size = K * S, 0.0
    biases = lengths + longest(outputs.limits) * S
    for t in range(T):
        label, own = labels[t], work.unary[t * W + labels[t]]
        in_all = abs(own)
        first = last = end = 0.0
        if sizes[t] > 0:
            before = tail[biases + label] if t == 0 else tail[labels[t - 1] * S + label]
            length = tail[lengths + (sizes[t] - 1) * S + label]
            own += before + length
            in_all += abs(before) + abs(length)
            if outputs.boundaries:
                first = work.unary[t * W + K + label]
        if t + 1 == T:
            end = tail[biases + S + label]
        if outputs.boundaries and (t + 1 == T or sizes[t + 1] > 0):
            last = work.unary[t * W + 2 * K + label]
        for term in (first, last, end):
            own += term
            in_all += abs(term)
        size += in_all
        for k in range(K):
            work.gains[t * S + k] = work.unary[t * W + k] - own
    return size


@inner
def _log_sums(work, n, K, S, out, at):
    """Set ``out[at + k]`` to the logarithm of the sum of exponentials of column k of ``ways``."""
    highest, mass, ways, peaks = work.highest, work.mass, work.ways, work.peaks
    for k in range(K):
        highest[k], mass[k] = -np.inf, 0.0
    for x in range(0, n * S, S):
        for k in range(K):
            highest[k] = max(highest[k], ways[x + k])
    for x in range(0, n * S, S):
        for k in range(K):
            mass[k] += exp(ways[x + k] - highest[k])
    for k in range(K):
        out[at + k] = highest[k] + np.log(mass[k])
        peaks[k] = max(peaks[k], abs(out[at + k]))


@inner
def _add_column(work, column, K, out, at):
    """Add the scores of a boundary."""
    for k in range(K):
        out[at + k] += work.unary[column + k]
        work.peaks[k] = max(work.peaks[k], abs(out[at + k]))


@inner
def _recursion(outputs, T, tail, forward, entered, reached, work):
    """Fill ``entered`` and ``reached``: all ways from one end, into segments and through them.

    Forward, from the start: ``entered`` has all ways to the first token of a segment, with its
    score as the first one; ``reached`` all ways up to the end of a segment, with the score of its
    last token. Backward, from the end, it is the other way around: ``entered`` has all ways on from
    the end of a segment, with the score of its last token, and ``reached`` all ways on from the
    first token, with all scores of the segment.
    """
    K, S, W = outputs.n_labels, outputs.width, outputs.chains.width
    L, ways, inside, peaks = longest(outputs.limits), work.ways, work.inside, work.peaks
    biases = (K + L) * S + (0 if forward else S)
    opening, closing = (K, 2 * K) if forward else (2 * K, K)
    for p in range(T + 1):  # tokens passed
        here = (p if forward else T - p) * S
        if p > 0:
            most = min(L, p)
            for k in range(K):
                inside[k] = 0.0
            for n in range(1, most + 1):
                way = (n - 1) * S
                token = (p - n if forward else T - p + n - 1) * S
                before = token if forward else token + S
                for k in range(K):
                    inside[k] += work.gains[token + k]
                    ways[way + k] = inside[k] + (entered[before + k] + work.lengths[way + k])
                    if forward:
                        peaks[k] = max(peaks[k], abs(inside[k]))
            _log_sums(work, most, K, S, reached, here)
            if outputs.boundaries:
                _add_column(work, (p - 1 if forward else T - p) * W + closing, K, reached, here)
        if p < T:
            for k in range(K):
                entered[here + k] = tail[biases + k]
            if p > 0:
                for j in range(K):
                    for k in range(K):
                        pair = tail[j * S + k] if forward else tail[k * S + j]
                        ways[j * S + k] = reached[here + j] + pair
                _log_sums(work, K, K, S, entered, here)
            if outputs.boundaries:
                _add_column(work, (p if forward else T - 1 - p) * W + opening, K, entered, here)


@inner
def _log_partition(outputs, T, tail, work):
    K, S = outputs.n_labels, outputs.width
    last, ends = T * S, (K + longest(outputs.limits) + 1) * S
    top, mass = -np.inf, 0.0
    for k in range(K):
        top = max(top, work.reached[last + k] + tail[ends + k])
    for k in range(K):
        mass += np.exp(work.reached[last + k] + tail[ends + k] - top)
    return top + np.log(mass)


@inner
def _marginals(outputs, T, log_z, tail, work):
    """Add up probabilities of segments, in ``begins`` to ``stays`` and in ``sums``."""
    K, S, L = outputs.n_labels, outputs.width, longest(outputs.limits)
    lengths, ways, inside, mass = K * S, work.ways, work.inside, work.mass
    biases = (K + L) * S
    for x in range(T * S):
        work.begins[x] = work.goes_on[x] = work.ends[x] = work.stays[x] = 0.0
    for s in range(T):
        here, most = s * S, min(L, T - s)
        for k in range(K):
            inside[k], mass[k] = work.entered[here + k] - log_z, 0.0
        for x in range(0, most * S, S):
            for k in range(K):
                inside[k] += work.gains[here + x + k]
                on = work.left[here + x + S + k] + work.lengths[x + k]
                ways[x + k] = exp(min(inside[k] + on, 0.0))
        for x in range((most - 1) * S, -1, -S):
            for k in range(K):
                work.stays[here + x + k] += mass[k]
                work.ends[here + x + k] += ways[x + k]
                mass[k] += ways[x + k]
                work.sums[lengths + x + k] += ways[x + k]
                if x > 0:
                    work.goes_on[here + x + k] += mass[k]
        for k in range(K):
            work.begins[here + k] = mass[k]
        if s > 0:
            # The last position of a segment counts in reached and, before s, in left.
            for j in range(K):
                before = work.reached[here + j] - log_z
                for k in range(K):
                    pair = before + (tail[j * S + k] + work.begun[here + k])
                    work.sums[j * S + k] += exp(min(pair, 0.0))
    for k in range(K):
        work.sums[biases + k] = work.begins[k]
        work.sums[biases + S + k] = work.ends[(T - 1) * S + k]


@inner
def _wrong(outputs, T, true, work):
    """Fill ``nodes`` with expected minus true counts of the columns; returns their total size.

    One minus the probability of the truth is the sum of the others, without cancellation.
    """
    K, S, W, (labels, sizes) = outputs.n_labels, outputs.width, outputs.chains.width, true
    nodes, in_all = work.nodes, 0.0
    for t in range(T):
        label, row, at = labels[t], t * S, t * W
        for x in range(at, at + W):
            nodes[x] = 0.0
        wrong = 0.0
        for k in range(K):
            nodes[at + k] = work.begins[row + k] + work.goes_on[row + k]
            wrong += nodes[at + k] * (k != label)
        nodes[at + label] = -wrong
        if outputs.boundaries:
            last = t + 1 == T or sizes[t + 1] > 0
            column = at + K
            wrong += _against(work.begins, work.goes_on, row, K, label, sizes[t] > 0, nodes, column)
            column += K
            wrong += _against(work.ends, work.stays, row, K, label, last, nodes, column)
        in_all += 2.0 * wrong * work.norms[t]
    return in_all


@inner
def _against(is_so, is_not, row, K, label, truly, nodes, at):
    """Probabilities minus 1 for the true label, if it is ``truly`` so; returns their mass."""
    wrong = 0.0
    for k in range(K):
        nodes[at + k] = is_so[row + k]
        wrong += is_so[row + k]
    if truly:
        wrong = 0.0
        for k in range(K):
            wrong += is_not[row + k] + is_so[row + k] * (k != label)
        nodes[at + label] = -wrong
    return wrong


@inner
def _add_attributes(chains, i, weight, nodes, gradient):
    W, first = chains.width, chains.blocks[i]
    for e in range(chains.entries[i], chains.entries[i + 1]):
        source = np.int64(chains.places[e, 1]) * W
        target = np.int64(chains.attributes[first + chains.places[e, 0]]) * W
        value = splat(weight * chains.values[e * chains.step])
        for c in range(0, W, WIDTH):
            row = fma(value, load(nodes, source + c), load(gradient, target + c))
            store(gradient, target + c, row)
