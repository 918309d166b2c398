"""Sets of labels as outputs, along a forest over the labels: the worst set, and expectations.

The parameters w are a row of d per label, a bias per label, and four numbers, one per combination
of states, for each edge of the forest. All scores are those of a set minus that of the true set.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.class_oracle import add_row, add_scaled_row, node_scores


class MultilabelOutputs(NamedTuple):
    """Rows with their labels, and the forest over the labels.

    ``order`` has each label after the one to which edge ``above[label]`` joins it, ``parents`` that
    label; -1 marks roots. ``swapped`` says whether an edge has the parent second. Rows are as in
    :class:`~.class_oracle.ClassOutputs`, with labels as nodes.
    """

    n_nodes: int
    n_features: int
    width: int
    bias: float  # 1, or 0 without biases
    cost: float  # of a wrong label
    truths: NDArray[np.int64]
    order: NDArray[np.int64]
    above: NDArray[np.int64]
    parents: NDArray[np.int64]
    swapped: NDArray[np.bool_]
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    data: NDArray[np.float64] | NDArray[np.float32]


class Workspace(NamedTuple):
    """Memory for the inference of one row; ``pair`` is by label, its parent's state, its own."""

    rows: NDArray[np.float64]  # <w_l, x> of the labels
    pair: NDArray[np.float64]  # scores of the edge above a label
    up: NDArray[np.float64]  # scores of a label's states, with all below it
    send: NDArray[np.float64]  # messages to the states of the label above
    shares: NDArray[np.float64]  # probabilities of states
    found: NDArray[np.int64]


@registered(structures.new_work, MultilabelOutputs)
def _new_work(outputs):
    L = outputs.n_nodes
    arrays = np.empty((L, 2, 2)), np.empty((L, 2)), np.empty((L, 2)), np.empty((L, 2))
    return Workspace(np.empty(L), *arrays, np.empty(L, np.int64))


@inner
def _place(outputs, v, state, other):
    """Where w has the score of a label's state ``other`` with its parent's ``state``."""
    pair = 2 * other + state if outputs.swapped[v] else 2 * state + other
    return outputs.n_nodes * (outputs.n_features + 1) + 4 * outputs.above[v] + pair


@inner
def _to_roots(outputs, i, w, cost, summed, work):
    """Messages from the leaves to the roots: maxima, or logarithms of sums of exponentials.

    Returns the sum over the roots.
    """
    up, send, truth, L, d = (
        work.up,
        work.send,
        outputs.truths[i],
        outputs.n_nodes,
        outputs.n_features,
    )
    node_scores(outputs, i, w[: L * d], work.rows)
    for v in range(L):
        score = work.rows[v] + outputs.bias * w[L * d + v]
        up[v, 0] = cost - score if truth[v] == 1 else 0.0
        up[v, 1] = 0.0 if truth[v] == 1 else cost + score
    in_all = 0.0
    for r in range(L - 1, -1, -1):
        v = outputs.order[r]
        parent = outputs.parents[v]
        if parent < 0:
            in_all += _sum(up[v, 0], up[v, 1], summed)
            continue
        own = w[_place(outputs, v, truth[parent], truth[v])]
        for state in range(2):
            for other in range(2):
                work.pair[v, state, other] = w[_place(outputs, v, state, other)] - own
            zero, one = up[v, 0] + work.pair[v, state, 0], up[v, 1] + work.pair[v, state, 1]
            send[v, state] = _sum(zero, one, summed)
            up[parent, state] += send[v, state]
    return in_all


@inner
def _sum(a, b, summed):
    """``log(exp a + exp b)``, or the larger one."""
    return max(a, b) + (np.log1p(np.exp(-abs(a - b))) if summed else 0.0)


@inner
def _find(outputs, i, w, work):
    """Write the best set to ``found``."""
    _to_roots(outputs, i, w, outputs.cost, False, work)
    for v in outputs.order:
        zero, one = work.up[v, 0], work.up[v, 1]
        if outputs.parents[v] >= 0:
            state = work.found[outputs.parents[v]]
            zero, one = zero + work.pair[v, state, 0], one + work.pair[v, state, 1]
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
    L, d, found, truth = outputs.n_nodes, outputs.n_features, work.found, outputs.truths[i]
    _find(outputs, i, w, work)
    count, loss = 0, 0.0
    for v in range(L):
        if found[v] != truth[v]:
            sign = 1.0 if truth[v] == 1 else -1.0
            loss += outputs.cost
            count = add_row(outputs, i, v, sign, count, indices, values)
            if outputs.bias != 0.0:
                indices[count], values[count] = L * d + v, sign
                count += 1
    for v in range(L):
        parent = outputs.parents[v]
        if parent >= 0 and (found[v] != truth[v] or found[parent] != truth[parent]):
            indices[count], values[count] = _place(outputs, v, truth[parent], truth[v]), 1.0
            indices[count + 1], values[count + 1] = (
                _place(outputs, v, found[parent], found[v]),
                -1.0,
            )
            count += 2
    return structures.with_score(count, loss, w, indices, values)


@registered(structures.expect, MultilabelOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    L, d, truth, shares = outputs.n_nodes, outputs.n_features, outputs.truths[i], work.shares
    log_z = _to_roots(outputs, i, w, 0.0, True, work)
    for v in outputs.order:
        up, parent = work.up, outputs.parents[v]
        if parent < 0:
            in_all = _sum(up[v, 0], up[v, 1], True)
            shares[v, 0], shares[v, 1] = np.exp(up[v, 0] - in_all), np.exp(up[v, 1] - in_all)
        else:
            shares[v, 0] = shares[v, 1] = wrong = 0.0
            for state in range(2):
                for other in range(2):
                    score = up[v, other] + work.pair[v, state, other]
                    share = shares[parent, state] * np.exp(score - work.send[v, state])
                    shares[v, other] += share
                    if state != truth[parent] or other != truth[v]:
                        wrong += share
                        gradient[_place(outputs, v, state, other)] += weight * share
            gradient[_place(outputs, v, truth[parent], truth[v])] -= weight * wrong
        # One minus the probability of the true state is that of the other, without cancellation.
        change = weight * (-shares[v, 0] if truth[v] == 1 else shares[v, 1])
        if change != 0.0:
            add_scaled_row(outputs, i, v, change, gradient)
            gradient[L * d + v] += outputs.bias * change
    return max(log_z, 0.0)
