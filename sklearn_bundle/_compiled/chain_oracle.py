"""The worst labelling of a chain: max-product with the loss inside, and its difference of features.

Arrays of rows are flat, as in chain.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle._compiled import structures
from sklearn_bundle._compiled.chain import Chains, scores, transitions
from sklearn_bundle._compiled.chain_dual import largest
from sklearn_bundle._compiled.sums import added
from sklearn_bundle._compiled.vector import WIDTH, larger, load, plus, splat, spread, store
from sklearn_bundle._jit import inner, registered


class ChainOutputs(NamedTuple):
    """Chains and their true labels, with a cost for each label in place of another.

    ``costs`` has a row for each true label: minus infinity in the padding, which so wins nowhere.
    """

    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    chains: Chains


class Room(NamedTuple):
    """Memory to work in.

    ``unary`` and ``best`` have a row per position; ``sums`` is a matrix of zeros, ``touched`` are
    the places in it that are not.
    """

    unary: NDArray[np.float64]
    best: NDArray[np.float64]
    path: NDArray[np.int64]
    sums: NDArray[np.float64]
    touched: NDArray[np.int64]


@registered(structures.new_room, ChainOutputs)
def _new_room(outputs):
    S = outputs.chains.width
    T = largest(outputs.chains.tokens)
    size = T * S
    path, touched = np.empty(T, np.int64), np.empty(2 * T, np.int64)
    return Room(np.empty(size), np.empty(size), path, np.zeros(S * S), touched)


@registered(structures.worst, ChainOutputs)
def _worst(outputs, i, w, room, indices, values):
    chains, labels = outputs.chains, outputs.labels
    start = chains.tokens[i]
    T = chains.tokens[i + 1] - start
    pairs = transitions(chains, w)
    scores(chains, i, w, room.unary)
    _forward(outputs, start, T, pairs, room)
    _backward(chains.n_labels, chains.width, T, pairs, room)
    loss, score = _value(outputs, start, T, pairs, room)
    if score <= 0.0:
        return 0, 0.0, 0.0
    return _difference(chains, i, labels, room, indices, values), loss, score


@inner
def _forward(outputs, start, T, pairs, room):
    """Into ``best``: the highest score of all labellings up to a position, by its label there."""
    K, S, costs = outputs.chains.n_labels, outputs.chains.width, outputs.costs
    unary, best = room.unary, room.best
    for t in range(T):
        here, before = t * S, (t - 1) * S
        costs_at = outputs.labels[start + t] * S
        for c in range(0, S, WIDTH):
            own = plus(load(unary, here + c), load(costs, costs_at + c))
            if t > 0:
                highest = splat(-np.inf)
                for j in range(K):
                    reached = plus(spread(best, before + j), load(pairs, j * S + c))
                    highest = larger(reached, highest)
                own = plus(highest, own)
            store(best, here + c, own)


@inner
def _backward(K, S, T, pairs, room):
    """The best path: only for its labels it is asked again which label before them was best."""
    best, path = room.best, room.path
    label = 0
    for k in range(1, K):
        if best[(T - 1) * S + k] > best[(T - 1) * S + label]:
            label = k
    path[T - 1] = label
    for t in range(T - 1, 0, -1):
        before = (t - 1) * S
        highest, origin = best[before] + pairs[label], 0
        for j in range(1, K):
            value = best[before + j] + pairs[j * S + label]
            if value > highest:
                highest, origin = value, j
        path[t - 1] = label = origin


@inner
def _value(outputs, start, T, pairs, room):
    """Loss of the path, and that plus the difference of its score to that of the true labels."""
    S, costs, labels = outputs.chains.width, outputs.costs, outputs.labels
    unary, path = room.unary, room.path
    loss = score = carry = 0.0
    for t in range(T):
        true, label = labels[start + t], path[t]
        if label != true:
            cost = costs[true * S + label]
            loss += cost
            score, carry = added(score, carry, cost)
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
def _difference(chains, i, labels, room, indices, values):
    """Features of the true labels less those of the path; returns the number of entries."""
    S, start = chains.width, chains.tokens[i]
    T = chains.tokens[i + 1] - start
    path, sums, touched = room.path, room.sums, room.touched
    count = pending = 0
    first = chains.blocks[i]
    slot = np.uint32(0)
    for e in range(chains.entries[i], chains.entries[i + 1]):
        if chains.slots[e] != slot:
            at = np.int64(chains.attributes[first + slot]) * S
            count = _flush(sums, touched, pending, at, indices, values, count)
            pending, slot = 0, chains.slots[e]
        t = np.int64(chains.positions[e])
        true, label = labels[start + t], path[t]
        if true != label:
            pending = _exchange(sums, touched, pending, true, label, chains.values[e])
    if pending > 0:
        at = np.int64(chains.attributes[first + slot]) * S
        count = _flush(sums, touched, pending, at, indices, values, count)
    at, pending = chains.n_attributes * S, 0
    for t in range(1, T):
        true = labels[start + t - 1] * S + labels[start + t]
        label = path[t - 1] * S + path[t]
        if true != label:
            pending = _exchange(sums, touched, pending, true, label, 1.0)
    count = _flush(sums, touched, pending, at, indices, values, count)
    if chains.intercept:
        at, pending = at + S * S, 0
        for t in range(T):
            if labels[start + t] != path[t]:
                pending = _exchange(sums, touched, pending, labels[start + t], path[t], 1.0)
        count = _flush(sums, touched, pending, at, indices, values, count)
        for t in (0, T - 1):
            at += S
            if labels[start + t] != path[t]:
                pending = _exchange(sums, touched, 0, labels[start + t], path[t], 1.0)
                count = _flush(sums, touched, pending, at, indices, values, count)
    return count


@inner
def _exchange(sums, touched, pending, true, label, value):
    sums[true] += value
    sums[label] -= value
    touched[pending], touched[pending + 1] = true, label
    return pending + 2


@inner
def _flush(sums, touched, pending, at, indices, values, count):
    """The sums that are not zero as entries, in places from ``at``; they are zero afterwards."""
    for p in range(pending):
        value = sums[touched[p]]
        if value != 0.0:
            indices[count] = at + touched[p]
            values[count] = value
            sums[touched[p]] = 0.0
            count += 1
    return count
