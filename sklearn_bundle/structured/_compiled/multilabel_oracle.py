"""Sets of labels as outputs, along a forest over the labels: the worst set, and expectations.

The parameters w are a row of d per label, a bias per label, and four numbers, one per combination
of states, for each edge of the forest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.class_oracle import (
    NodeRows,
    add_row,
    append_row,
    node_scores,
)


class MultilabelOutputs(NamedTuple):
    """Rows with their labels, and the forest over the labels, which are nodes.

    ``order`` has each label after the one to which edge ``above[label]`` joins it, ``parents`` that
    label; -1 marks roots. ``swapped`` says whether an edge has the parent second.
    """

    rows: NodeRows
    bias: float  # 1, or 0 without biases
    cost: float  # of a wrong label
    truths: NDArray[np.int64]
    order: NDArray[np.int64]
    above: NDArray[np.int64]
    parents: NDArray[np.int64]
    swapped: NDArray[np.bool_]


class Workspace(NamedTuple):
    """Memory for the inference of one row."""

    scores: NDArray[np.float64]  # <w_l, x> of the labels
    up: NDArray[np.float64]  # of a label's states, with all below it
    send: NDArray[np.float64]  # messages to the states of the label above
    shares: NDArray[np.float64]  # probabilities of states
    found: NDArray[np.int64]


@registered(structures.new_work, MultilabelOutputs)
def _new_work(outputs):
    L = outputs.rows.n_nodes
    states = np.empty((L, 2)), np.empty((L, 2)), np.empty((L, 2))
    return Workspace(np.empty(L), *states, np.empty(L, np.int64))


@inner
def _place(outputs, v, state, other):
    """Where w has the score of a label's state ``other`` with its parent's ``state``."""
    pair = 2 * other + state if outputs.swapped[v] else 2 * state + other
    rows = outputs.rows
    return rows.n_nodes * (rows.n_features + 1) + 4 * outputs.above[v] + pair


@inner
def _sum(a, b, summed):
    """``log(exp a + exp b)``, or the larger one."""
    return max(a, b) + (np.log1p(np.exp(-abs(a - b))) if summed else 0.0)


@inner
def _to_roots(outputs, i, w, cost, summed, work):
    """Messages from the leaves to the roots: maxima, or logarithms of sums of exponentials.

    Returns the sum over the roots, and the score of the true set.
    """
    up, truth, rows, total, score = work.up, outputs.truths[i], outputs.rows, 0.0, 0.0
    node_scores(rows, i, w, work.scores)
    for v in range(rows.n_nodes):
        up[v, 0] = cost * (truth[v] == 1)
        up[v, 1] = cost * (truth[v] == 0) + work.scores[v]
        up[v, 1] += outputs.bias * w[rows.n_nodes * rows.n_features + v]
        score += up[v, truth[v]]
    for r in range(rows.n_nodes - 1, -1, -1):
        v = outputs.order[r]
        parent = outputs.parents[v]
        if parent < 0:
            total += _sum(up[v, 0], up[v, 1], summed)
            continue
        score += w[_place(outputs, v, truth[parent], truth[v])]
        for state in range(2):
            zero, one = w[_place(outputs, v, state, 0)], w[_place(outputs, v, state, 1)]
            work.send[v, state] = _sum(up[v, 0] + zero, up[v, 1] + one, summed)
            up[parent, state] += work.send[v, state]
    return total, score


@inner
def _find(outputs, i, w, work):
    """Write the best set to ``found``."""
    _to_roots(outputs, i, w, outputs.cost, False, work)
    for v in outputs.order:
        zero, one = work.up[v, 0], work.up[v, 1]
        if outputs.parents[v] >= 0:
            state = work.found[outputs.parents[v]]
            zero += w[_place(outputs, v, state, 0)]
            one += w[_place(outputs, v, state, 1)]
        work.found[v] = one > zero


@jit
def best_sets(outputs, w, out):
    """Write the best sets of all rows to the rows of ``out``."""
    work = structures.new_work(outputs)
    for i in range(outputs.truths.shape[0]):
        _find(outputs, i, w, work)
        out[i] = work.found


@registered(structures.worst, MultilabelOutputs)
def _worst(outputs, i, w, work, indices, values):
    rows, found, truth = outputs.rows, work.found, outputs.truths[i]
    _find(outputs, i, w, work)
    count, loss = 0, 0.0
    for v in range(rows.n_nodes):
        sign = np.float64(truth[v] - found[v])
        loss += outputs.cost * abs(sign)
        if sign != 0.0:
            count = append_row(rows, i, v, sign, count, indices, values)
            indices[count], values[count] = rows.n_nodes * rows.n_features + v, sign
            count += outputs.bias != 0.0
        parent = outputs.parents[v]
        if parent >= 0 and (sign != 0.0 or found[parent] != truth[parent]):
            indices[count], values[count] = _place(outputs, v, truth[parent], truth[v]), 1.0
            indices[count + 1] = _place(outputs, v, found[parent], found[v])
            values[count + 1] = -1.0
            count += 2
    return structures.with_score(count, loss, w, indices, values)


@registered(structures.expect, MultilabelOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    rows, up, truth, shares = outputs.rows, work.up, outputs.truths[i], work.shares
    total, score = _to_roots(outputs, i, w, 0.0, True, work)
    for v in outputs.order:
        parent = outputs.parents[v]
        if parent < 0:
            in_all = _sum(up[v, 0], up[v, 1], True)
            shares[v, 0], shares[v, 1] = np.exp(up[v, 0] - in_all), np.exp(up[v, 1] - in_all)
        else:
            shares[v, 0] = shares[v, 1] = 0.0
            for state in range(2):
                for other in range(2):
                    place = _place(outputs, v, state, other)
                    share = np.exp(up[v, other] + w[place] - work.send[v, state])
                    share *= shares[parent, state]
                    shares[v, other] += share
                    gradient[place] += weight * share
            gradient[_place(outputs, v, truth[parent], truth[v])] -= weight
        change = weight * (shares[v, 1] - truth[v])
        add_row(rows, i, v, change, gradient)
        gradient[rows.n_nodes * rows.n_features + v] += outputs.bias * change
    return max(total - score, 0.0)
