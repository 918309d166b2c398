"""Partition function, marginals and losses of a chain, by the forward and backward recursions.

Arrays of rows are flat, as in chain.py: rows are padded to ``width``, and the padding of results
is zero.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import score_of
from sklearn_bundle.jit.decorators import inlined, inner
from sklearn_bundle.jit.elementary import exp, log, log1p_unit
from sklearn_bundle.jit.sums import added
from sklearn_bundle.jit.vector import (
    WIDTH,
    fma,
    load,
    plus,
    splat,
    spread,
    store,
    times,
    total,
    transpose,
)

_LARGEST = 150.0  # scores up to this size need no shift: nothing can underflow, see marginals()
_WIDEST = 300.0  # the same for their range in a row, once the largest is subtracted
# Positions after which the mass of the marginals is reset to one. In between it moves by the
# rounding of up to 16 steps; the cost of the division and the sum is spread over them.
STRIDE = 16
# Positions whose pairs are summed before they are added to the total: a sum over T positions has
# BLOCK + T / BLOCK roundings instead of T.
BLOCK = 128
_SMALL = 1.0  # nats: a smaller loss would be a small difference of large numbers


class Workspace(NamedTuple):
    """Memory to work in.

    ``forward``, ``weighted`` and ``nodes`` have one row per position, ``table`` has two per label,
    ``pairs`` has one per label, ``row`` is one row. ``scales`` has one number per position; the
    first is 0 after the recursion in logarithms.
    """

    forward: NDArray[np.float64]
    weighted: NDArray[np.float64]
    table: NDArray[np.float64]
    row: NDArray[np.float64]
    scales: NDArray[np.float64]
    nodes: NDArray[np.float64]
    pairs: NDArray[np.float64]


@inner
def new_work(T, S):
    forward, weighted, nodes = np.empty(T * S), np.empty(T * S), np.empty(T * S)
    table, pairs = np.empty(2 * S * S), np.empty(S * S)
    return Workspace(forward, weighted, table, np.empty(S), np.empty(T), nodes, pairs)


@inner
def marginals(chains, scores, pairs, T, work, nodes, edges):
    """Log partition function; marginals of the positions, and sums of those of the pairs.

    Probabilities are scaled. Scores of size 150 or less need no shift: with a range of 300 each in
    a position and in the transitions, the normalized forward values stay above exp(-600) / K, the
    backward values within exp(300) of one, and nothing that is needed underflows. Larger scores are
    shifted by the largest of the position. If the range is still larger than 300 after that, or a
    transition is larger than 150, logarithms are used.

    chain_rounding.py bounds the rounding error of the results by counting the operations here.
    Log Z is a compensated sum, since a sequence's log-probability is a small difference of it.
    """
    K, S = chains.n_labels, chains.width
    if T == 1:
        for k in range(S * S):
            edges[k] = 0.0
        return _softmax(scores, K, S, nodes)
    weighted, table = work.weighted, work.table
    shift = carry = 0.0
    if _count_large(scores, T * S) == 0:
        for x in range(T * S):
            weighted[x] = scores[x]
    else:
        for t in range(T):
            highest, lowest = -np.inf, np.inf
            for k in range(t * S, t * S + K):
                highest, lowest = max(highest, scores[k]), min(lowest, scores[k])
            if not highest - lowest < _WIDEST:
                return _logarithmic(scores, pairs, T, K, S, work, nodes, edges)
            for k in range(K):
                weighted[t * S + k] = scores[t * S + k] - highest
            for k in range(K, S):
                weighted[t * S + k] = 0.0
            shift, carry = added(shift, carry, highest)
    if _count_large(pairs, S * S) > 0:
        return _logarithmic(scores, pairs, T, K, S, work, nodes, edges)
    for x in range(S * S):
        table[x] = exp(pairs[x])
    for j in range(K, S):
        for k in range(S):
            table[j * S + k] = table[k * S + j] = 0.0
    for j in range(0, S, WIDTH):
        for k in range(0, S, WIDTH):
            transpose(table, j * S + k, table, (S + k) * S + j, S)
    return _scaled(K, S, T, shift, carry, work, nodes, edges)


@inner
def _count_large(values, size):
    count = 0
    for x in range(size):
        count += not abs(values[x]) <= _LARGEST
    return count


@inlined
def _scaled(K, S, T, log_z, carry, work, nodes, edges):
    forward, weighted, row, scales = work.forward, work.weighted, work.row, work.scales
    table = work.table
    for x in range(T * S):
        weighted[x] = exp(weighted[x])
    for k in range(S):
        forward[k] = weighted[k] * (k < K)
    product = 1.0
    for t in range(T):
        here, before = t * S, (t - 1) * S
        mass = splat(0.0)
        for c in range(0, S, WIDTH):
            if t > 0:
                sums = _combination(forward, before, table, c, K, S)
                sums = times(sums, load(weighted, here + c))
                store(forward, here + c, sums)
                mass = plus(sums, mass)
            else:
                mass = plus(load(forward, c), mass)
        scale = total(mass)
        scales[t] = inverse = 1.0 / scale
        for c in range(0, S, WIDTH):
            store(forward, here + c, times(splat(inverse), load(forward, here + c)))
        product *= scale
        if not 1e-100 < product < 1e100:
            log_z, carry = added(log_z, carry, np.log(product))
            product = 1.0
    for k in range(S):
        row[k] = 1.0
    for t in range(T - 1, -1, -1):
        here, inverse = t * S, splat(scales[t])
        if t % STRIDE == STRIDE - 1:
            mass = splat(0.0)
            for c in range(0, S, WIDTH):
                mass = fma(load(forward, here + c), load(row, c), mass)
            correction = splat(1.0 / total(mass))
            for c in range(0, S, WIDTH):
                store(row, c, times(correction, load(row, c)))
        for c in range(0, S, WIDTH):
            back = load(row, c)
            store(nodes, here + c, times(load(forward, here + c), back))
            store(weighted, here + c, times(load(weighted, here + c), times(inverse, back)))
        if t > 0:
            for c in range(0, S, WIDTH):
                store(row, c, _combination(weighted, here, table, S * S + c, K, S))
    for j in range(K):
        for c in range(0, S, WIDTH):
            sums = splat(0.0)
            for first in range(1, T, BLOCK):
                part = splat(0.0)
                for t in range(first, min(first + BLOCK, T)):
                    x = t * S
                    part = fma(spread(forward, x - S + j), load(weighted, x + c), part)
                sums = plus(part, sums)
            store(edges, j * S + c, times(sums, load(table, j * S + c)))
    for x in range(K * S, S * S):
        edges[x] = 0.0
    log_z, carry = added(log_z, carry, np.log(product))
    return log_z + carry


@inner
def pair_marginals(chains, scores, pairs, T, work, out):
    """After :func:`marginals`: the marginals of each pair of neighboring positions."""
    K, S = chains.n_labels, chains.width
    forward, weighted = work.forward, work.weighted
    if work.scales[0] > 0.0:
        for t in range(1, T):
            before, here, at = (t - 1) * S, t * S, (t - 1) * S * S
            for j in range(S):
                factor = splat(forward[before + j] * (j < K))
                for c in range(0, S, WIDTH):
                    joint = times(load(weighted, here + c), load(work.table, j * S + c))
                    store(out, at + j * S + c, times(factor, joint))
        return
    for x in range((T - 1) * S * S):
        out[x] = 0.0
    for t in range(1, T):
        _pairs_from_logarithms(scores, pairs, t, K, S, work, out, (t - 1) * S * S)


@inner
def _combination(factors, at, table, column, K, S):
    """Eight entries of (factors' table), in two sums that do not wait for each other."""
    even, odd = splat(0.0), splat(0.0)
    for k in range(0, K, 2):  # one row beyond K is zero
        even = fma(spread(factors, at + k), load(table, k * S + column), even)
        odd = fma(spread(factors, at + k + 1), load(table, (k + 1) * S + column), odd)
    return plus(even, odd)


@inlined
def _softmax(scores, K, S, out):
    highest, mass = -np.inf, 0.0
    for k in range(K):
        highest = max(highest, scores[k])
    for k in range(S):
        out[k] = exp(min(scores[k] - highest, 0.0)) * (k < K)  # finite in the padding too
        mass += out[k]
    for k in range(K):
        out[k] /= mass
    return highest + np.log(mass)


@inner
def _logarithmic(scores, pairs, T, K, S, work, nodes, edges):
    """The same from logarithms, for scores of any size.

    The largest number of each row is subtracted from it, so that the numbers and their rounding
    errors do not grow with T. ``scales[0] = 0`` marks this case.
    """
    forward, backward, row = work.forward, work.weighted, work.row
    log_z = carry = work.scales[0] = 0.0
    for x in range(T * S):
        nodes[x] = forward[x] = backward[x] = 0.0
    for x in range(S * S):
        edges[x] = 0.0
    for step in range(T):
        here, back = step * S, (T - 1 - step) * S
        for k in range(K):
            forward[here + k] = scores[here + k]
            if step == 0:
                continue
            for j in range(K):
                row[j] = forward[here - S + j] + pairs[j * S + k]
            forward[here + k] += _log_sum(row, K)
            for j in range(K):
                row[j] = backward[back + S + j] + scores[back + S + j] + pairs[k * S + j]
            backward[back + k] = _log_sum(row, K)
        log_z, carry = added(log_z, carry, _less_largest(forward, here, K))
        _less_largest(backward, back, K)
    for k in range(K):
        row[k] = forward[(T - 1) * S + k]
    log_z, carry = added(log_z, carry, _log_sum(row, K))
    part = S * S  # of the table: the pairs of a block of positions
    for x in range(2 * S * S):
        work.table[x] = 0.0
    for t in range(T):
        here = t * S
        mass = 0.0
        for k in range(K):
            row[k] = forward[here + k] + backward[here + k]
        _less_largest(row, 0, K)
        for k in range(K):
            nodes[here + k] = np.exp(row[k])
            mass += nodes[here + k]
        for k in range(K):
            nodes[here + k] /= mass
        if t > 0:
            _pairs_from_logarithms(scores, pairs, t, K, S, work, work.table, 0)
            for x in range(S * S):
                work.table[part + x] += work.table[x]
        if t % BLOCK == 0 or t == T - 1:
            for x in range(S * S):
                edges[x] += work.table[part + x]
                work.table[part + x] = 0.0
    return log_z + carry


@inner
def _pairs_from_logarithms(scores, pairs, t, K, S, work, out, at):
    """Marginals of the pairs at t - 1 and t into ``out[at:]``, which holds zeros; mass one."""
    here, highest = t * S, -np.inf
    for j in range(K):
        for k in range(K):
            x = here + k
            edge = work.forward[here - S + j] + pairs[j * S + k] + scores[x] + work.weighted[x]
            out[at + j * S + k] = edge
            highest = max(highest, edge)
    mass = 0.0
    for j in range(K):
        row_mass = 0.0
        for x in range(at + j * S, at + j * S + K):
            out[x] = np.exp(out[x] - highest)
            row_mass += out[x]
        mass += row_mass
    for j in range(K):
        for x in range(at + j * S, at + j * S + K):
            out[x] /= mass


@inner
def _less_largest(values, at, K):
    """Subtract the largest of the K numbers at ``at`` from all of them; returns it."""
    highest = -np.inf
    for k in range(at, at + K):
        highest = max(highest, values[k])
    for k in range(at, at + K):
        values[k] -= highest
    return highest


@inner
def _log_sum(values, K):
    highest, mass = -np.inf, 0.0
    for k in range(K):
        highest = max(highest, values[k])
    for k in range(K):
        mass += np.exp(values[k] - highest)
    return highest + np.log(mass)


@inner
def loss_of(labels, start, T, K, S, scores, pairs, log_z, work, nodes):
    """After ``marginals``: ``-log p(labels[start : start + T])``, however small it is.

    Log Z minus the score is a difference of numbers that grow with T. If it is small, it is instead
    computed to full precision as a sum of ``log(1 + odds of another label here, given the labels
    before)``.
    """
    loss = log_z - score_of(labels, start, T, S, scores, pairs)
    if not loss < _SMALL:
        return loss
    scaled = T > 1 and work.scales[0] > 0.0
    loss = carry = 0.0
    for t in range(T):
        at, label = t * S, labels[start + t]
        if t == 0:
            term = _log_of_odds(nodes, 0, nodes, 0, False, label, K)
        elif scaled:
            row = labels[start + t - 1] * S
            term = _log_of_odds(work.weighted, at, work.table, row, True, label, K)
        else:
            row = labels[start + t - 1] * S
            for k in range(K):
                work.row[k] = scores[at + k] + work.weighted[at + k] + pairs[row + k]
            term = _log_of_sum(work.row, label, K)
        loss, carry = added(loss, carry, term)
    return loss + carry


@inner
def _log_of_odds(values, at, factors, row, multiplied, label, K):
    """``log(sum / own)`` of the K products, where ``own`` is that of ``label``."""
    own = others = 0.0
    for k in range(K):
        value = values[at + k] * (factors[row + k] if multiplied else 1.0)
        if k == label:
            own = value
        else:
            others += value
    return _log1p(others / own)


@inner
def _log_of_sum(values, label, K):
    """``log(sum of exp) - own`` of the K values."""
    highest = -np.inf
    for k in range(K):
        if k != label:
            highest = max(highest, values[k] - values[label])
    others = 0.0
    shift = max(highest, 0.0)
    for k in range(K):
        if k != label:
            others += np.exp(values[k] - values[label] - shift)
    return _log1p(others) if shift == 0.0 else shift + log(others + np.exp(-shift))


@inner
def _log1p(odds):
    return log1p_unit(odds) if odds <= 1.0 else log(1.0 + odds)
