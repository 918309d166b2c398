"""Sets of labels as outputs, along a forest over the labels: the worst set.

The parameters w are a row of d per label, a bias per label, and four numbers, one per combination
of states, for each edge of the forest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.class_oracle import NodeRows, append_row, node_scores


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
    found: NDArray[np.int64]


@registered(structures.new_work, MultilabelOutputs)
def _new_work(outputs):
    L = outputs.rows.n_nodes
    return Workspace(np.empty(L), np.empty((L, 2)), np.empty(L, np.int64))


@inner
def _place(outputs, v, state, other):
    """Where w has the score of a label's state ``other`` with its parent's ``state``."""
    pair = 2 * other + state if outputs.swapped[v] else 2 * state + other
    rows = outputs.rows
    return rows.n_nodes * (rows.n_features + 1) + 4 * outputs.above[v] + pair


@inner
def _find(outputs, i, w, work):
    """Write the best set to ``found``: messages from the leaves to the roots, and back."""
    up, truth, rows = work.up, outputs.truths[i], outputs.rows
    node_scores(rows, i, w, work.scores)
    for v in range(rows.n_nodes):
        up[v, 0] = outputs.cost * (truth[v] == 1)
        up[v, 1] = outputs.cost * (truth[v] == 0) + work.scores[v]
        up[v, 1] += outputs.bias * w[rows.n_nodes * rows.n_features + v]
    for r in range(rows.n_nodes - 1, -1, -1):
        v = outputs.order[r]
        parent = outputs.parents[v]
        for state in range(2 if parent >= 0 else 0):
            zero, one = w[_place(outputs, v, state, 0)], w[_place(outputs, v, state, 1)]
            up[parent, state] += max(up[v, 0] + zero, up[v, 1] + one)
    for v in outputs.order:
        zero, one = up[v, 0], up[v, 1]
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
