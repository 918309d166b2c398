"""Sets of labels as outputs: the worst set for a row, and expectations over all of them.

Few labels are handled by a table of all sets, more along a forest over the labels. The parameters w
are a row of d per label, a bias per label, and four numbers, one per combination of states, for
each pair that is scored. All scores are those of a set minus that of the true set.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.class_oracle import (
    add_row,
    add_scaled_row,
    envelope_of,
    node_scores,
    row_sizes,
)


class MultilabelOutputs(NamedTuple):
    """Rows with their labels, and the forest over the labels.

    ``order`` has each label of a forest after the one to which edge ``above[label]`` joins it; -1
    marks roots. Rows are as in :class:`~.class_oracle.ClassOutputs`, with
    labels as nodes.
    """

    n_nodes: int
    n_features: int
    width: int
    listed: bool  # whether there is a table of all sets
    slack: bool
    bias: float  # 1, or 0 without biases
    cost: float  # of a wrong label
    truths: NDArray[np.int64]
    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    order: NDArray[np.int64]
    above: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    data: NDArray[np.float64] | NDArray[np.float32]


class Workspace(NamedTuple):
    """Memory for the inference of one row."""

    rows: NDArray[np.float64]  # <w_l, x> of the labels
    node: NDArray[np.float64]  # scores of states of labels
    pair: NDArray[np.float64]  # of pairs of states, for each edge
    found: NDArray[np.int64]
    up: NDArray[np.float64]  # scores of a label's states, with all below it in the forest
    send: NDArray[np.float64]  # messages to the states of the label above
    table: NDArray[np.float64]  # scores of all sets; bit l of a number is label l
    added: NDArray[np.float64]  # what a label adds to each set of the labels before it
    between: NDArray[np.float64]  # scores of pairs by label, earlier label, and their states
    ones: NDArray[np.int64]  # the number of bits set in a number
    shares: NDArray[np.float64]  # probabilities of states
    together: NDArray[np.float64]  # probabilities of pairs of states


@registered(structures.new_work, MultilabelOutputs)
def _new_work(outputs):
    L, E = outputs.n_nodes, outputs.tails.shape[0]
    size = 1 << L if outputs.listed else 1
    ones = np.zeros(size, np.int64)
    for c in range(size):
        ones[c] = ones[c >> 1] + (c & 1)
    return Workspace(
        np.empty(L),
        np.empty((L, 2)),
        np.empty((E, 2, 2)),
        np.empty(L, np.int64),
        np.empty((L, 2)),
        np.empty((L, 2)),
        np.empty(size),
        np.empty(size),
        np.zeros((L, L, 2, 2) if outputs.listed else (1, 1, 2, 2)),
        ones,
        np.empty((L, 2)),
        np.empty((E, 2, 2)),
    )


@inner
def _set_scores(outputs, i, w, work):
    L, d = outputs.n_nodes, outputs.n_features
    node_scores(outputs, i, w[: L * d], work.rows)
    truth = outputs.truths[i]
    for v in range(L):
        score = work.rows[v] + outputs.bias * w[L * d + v]
        work.node[v, 0] = -score if truth[v] == 1 else 0.0
        work.node[v, 1] = 0.0 if truth[v] == 1 else score
    for a in range(outputs.tails.shape[0]):
        at = L * d + L + 4 * a
        own = w[at + 2 * truth[outputs.tails[a]] + truth[outputs.heads[a]]]
        for s in range(2):
            for t in range(2):
                work.pair[a, s, t] = w[at + 2 * s + t] - own


@inner
def _fill_table(outputs, work):
    """Fill in the scores of all sets; each label adds to every set of the labels before it."""
    table, added, between = work.table, work.added, work.between
    between[:] = 0.0
    for a in range(outputs.tails.shape[0]):
        tail, head = outputs.tails[a], outputs.heads[a]
        for s in range(2):
            for t in range(2):
                if tail > head:
                    between[tail, head, s, t] += work.pair[a, s, t]
                else:
                    between[head, tail, t, s] += work.pair[a, s, t]
    table[0] = 0.0
    for v in range(outputs.n_nodes):
        for state in range(1, -1, -1):
            added[0] = work.node[v, state]
            for u in range(v):
                off, on = between[v, u, state, 0], between[v, u, state, 1]
                for c in range(1 << u):
                    added[c + (1 << u)] = added[c] + on
                    added[c] += off
            for c in range(1 << v):
                table[c + (state << v)] = table[c] + added[c]


@inner
def _code(outputs, i):
    """The number of the true set."""
    code = 0
    for v in range(outputs.n_nodes):
        code += outputs.truths[i, v] << v
    return code


@inner
def _best_of_all(outputs, i, work):
    """The number of the best set; among equals the true one, then the first."""
    _fill_table(outputs, work)
    code = _code(outputs, i)
    best, at = 0.0, code
    for c in range(work.table.shape[0]):
        loss = outputs.cost * work.ones[c ^ code]
        value = loss * (1.0 + work.table[c]) if outputs.slack else loss + work.table[c]
        if value > best:
            best, at = value, c
    for v in range(outputs.n_nodes):
        work.found[v] = (at >> v) & 1


@inner
def _best_in_forest(outputs, i, work):
    """Max-product, from the leaves to the roots and back."""
    up, order, above = work.up, outputs.order, outputs.above
    for v in range(outputs.n_nodes):
        for state in range(2):
            wrong = outputs.truths[i, v] != state
            up[v, state] = work.node[v, state] + outputs.cost * wrong
    _to_roots(outputs, work, False)
    for r in range(outputs.n_nodes):
        v, a = order[r], above[order[r]]
        zero, one = up[v, 0], up[v, 1]
        if a >= 0:
            parent = outputs.tails[a] + outputs.heads[a] - v
            zero += _of_pair(outputs, work, a, parent, work.found[parent], 0)
            one += _of_pair(outputs, work, a, parent, work.found[parent], 1)
        work.found[v] = one > zero


@inner
def _to_roots(outputs, work, summed):
    """Messages from the leaves to the roots: maxima, or logarithms of sums of exponentials.

    ``up`` has the scores of states before. Returns the sum over the roots, if ``summed``.
    """
    up, send, order, above = work.up, work.send, outputs.order, outputs.above
    in_all = 0.0
    for r in range(outputs.n_nodes - 1, -1, -1):
        v, a = order[r], above[order[r]]
        if a >= 0:
            parent = outputs.tails[a] + outputs.heads[a] - v
            for state in range(2):
                zero = up[v, 0] + _of_pair(outputs, work, a, parent, state, 0)
                one = up[v, 1] + _of_pair(outputs, work, a, parent, state, 1)
                send[v, state] = _log_sum(zero, one) if summed else max(zero, one)
                up[parent, state] += send[v, state]
        elif summed:
            in_all += _log_sum(up[v, 0], up[v, 1])
    return in_all


@inner
def _log_sum(a, b):
    """``log(exp a + exp b)``."""
    return max(a, b) + np.log1p(np.exp(-abs(a - b)))


@inner
def _of_pair(outputs, work, a, parent, state, other):
    """The score of an edge, given the states of the label above and of the one below."""
    if outputs.tails[a] == parent:
        return work.pair[a, state, other]
    return work.pair[a, other, state]


@inner
def _find(outputs, i, w, work):
    """Write the best set to ``work.found``; returns its loss and its score without the loss."""
    _set_scores(outputs, i, w, work)
    if outputs.listed:
        _best_of_all(outputs, i, work)
    else:
        _best_in_forest(outputs, i, work)
    found = work.found
    loss = score = 0.0
    for v in range(outputs.n_nodes):
        loss += outputs.cost * (found[v] != outputs.truths[i, v])
        score += work.node[v, found[v]]
    for a in range(outputs.tails.shape[0]):
        score += work.pair[a, found[outputs.tails[a]], found[outputs.heads[a]]]
    return loss, score


@jit
def best_sets(outputs, w, out):
    """Write the best sets of all rows to the rows of ``out``."""
    work = structures.new_work(outputs)
    for i in range(outputs.truths.shape[0]):
        _find(outputs, i, w, work)
        out[i] = work.found


@registered(structures.worst, MultilabelOutputs)
def _worst(outputs, i, w, work, indices, values):
    L, d = outputs.n_nodes, outputs.n_features
    loss, score = _find(outputs, i, w, work)
    found, truth = work.found, outputs.truths[i]
    factor = loss if outputs.slack else 1.0
    count = 0
    for v in range(L):
        if found[v] != truth[v]:
            sign = factor if truth[v] == 1 else -factor
            count = add_row(outputs, i, v, sign, count, indices, values)
            if outputs.bias != 0.0:
                indices[count], values[count] = L * d + v, sign
                count += 1
    for a in range(outputs.tails.shape[0]):
        tail, head = outputs.tails[a], outputs.heads[a]
        own, other = 2 * truth[tail] + truth[head], 2 * found[tail] + found[head]
        if own != other:
            at = L * d + L + 4 * a
            indices[count], values[count] = at + own, factor
            indices[count + 1], values[count + 1] = at + other, -factor
            count += 2
    value = loss * (1.0 + score) if outputs.slack else loss + score
    return count, loss, value, value


# ---- expectations -----------------------------------------------------------------------------


@registered(structures.new_expectation_work, MultilabelOutputs)
def _new_expectation_work(outputs, w):
    return structures.new_work(outputs), envelope_of(outputs, w)


@inner
def _sum_of_all(outputs, i, work):
    """Log of the sum over all sets, and probabilities of wrong states and pairs of states."""
    _fill_table(outputs, work)
    table, code = work.table, _code(outputs, i)
    top = others = 0.0
    for c in range(table.shape[0]):
        top = max(top, table[c])
    own = np.exp(-top)
    for c in range(table.shape[0]):
        table[c] = np.exp(table[c] - top) if c != code else 0.0
        others += table[c]
    total = others + own
    for c in range(table.shape[0]):
        share = table[c] / total
        for v in range(outputs.n_nodes):
            work.shares[v, (c >> v) & 1] += share
        for a in range(outputs.tails.shape[0]):
            s, t = (c >> outputs.tails[a]) & 1, (c >> outputs.heads[a]) & 1
            work.together[a, s, t] += share
    return np.log1p(others) if top == 0.0 else top + np.log(total)


@inner
def _sum_in_forest(outputs, work):
    """The same by sum-product, and probabilities of the true states too."""
    up, send, shares = work.up, work.send, work.shares
    order, above = outputs.order, outputs.above
    for v in range(outputs.n_nodes):
        up[v, 0], up[v, 1] = work.node[v, 0], work.node[v, 1]
    log_z = _to_roots(outputs, work, True)
    for r in range(outputs.n_nodes):
        v, a = order[r], above[order[r]]
        if a < 0:
            in_all = _log_sum(up[v, 0], up[v, 1])
            for state in range(2):
                shares[v, state] = np.exp(up[v, state] - in_all)
            continue
        parent = outputs.tails[a] + outputs.heads[a] - v
        for state in range(2):
            for other in range(2):
                score = up[v, other] + _of_pair(outputs, work, a, parent, state, other)
                share = shares[parent, state] * np.exp(score - send[v, state])
                shares[v, other] += share
                if outputs.tails[a] == parent:
                    work.together[a, state, other] = share
                else:
                    work.together[a, other, state] = share
    return log_z


@registered(structures.expect, MultilabelOutputs)
def _expect(outputs, i, w, memory, weight, gradient):
    L, d, E = outputs.n_nodes, outputs.n_features, outputs.tails.shape[0]
    truth, (work, envelope) = outputs.truths[i], memory
    _set_scores(outputs, i, w, work)
    work.shares[:] = 0.0
    work.together[:] = 0.0
    log_z = _sum_of_all(outputs, i, work) if outputs.listed else _sum_in_forest(outputs, work)
    terms, squares, reach = row_sizes(outputs, i, envelope, 1.0)
    largest, size = 0.0, 0.0
    for v in range(L):
        # One minus the probability of the true state is that of the other, without cancellation.
        wrong = work.shares[v, 1 - truth[v]]
        largest += max(abs(work.node[v, 0]), abs(work.node[v, 1])) + abs(w[L * d + v])
        size += wrong * np.sqrt(squares)
        change = weight * (wrong if truth[v] == 0 else -wrong)
        if change != 0.0:
            add_scaled_row(outputs, i, v, change, gradient)
            gradient[L * d + v] += outputs.bias * change
    for a in range(E):
        at, highest, wrong = L * d + L + 4 * a, 0.0, 0.0
        own = 2 * truth[outputs.tails[a]] + truth[outputs.heads[a]]
        for s in range(2):
            for t in range(2):
                highest = max(highest, abs(work.pair[a, s, t]), abs(w[at + 2 * s + t]))
                if 2 * s + t != own:
                    wrong += work.together[a, s, t]
                    gradient[at + 2 * s + t] += weight * work.together[a, s, t]
        gradient[at + own] -= weight * wrong
        largest += 2.0 * highest
        size += 2.0 * wrong
    roundings = L * (terms + 4.0) * reach + (L + E + 8.0) * (largest + L) + 16.0
    roundings += work.table.shape[0]
    return max(log_z, 0.0), DOUBLE * roundings, 2.0 * size
