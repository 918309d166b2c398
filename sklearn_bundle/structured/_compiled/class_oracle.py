"""Classes as outputs: the worst class of a row, with costs and with weights shared by classes.

The score of a class is the sum of the scores of its nodes: only the class itself, or the class and
its ancestors in a hierarchy. The parameters w are a row of d per node, one after the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import SUMS, inner, registered
from sklearn_bundle.structured._compiled import structures


class NodeRows(NamedTuple):
    """Rows of features, which the score of every node is a product with.

    They are dense, of ``width`` entries each, with ``indices`` and ``indptr`` empty; or CSR with
    width 0 and no index twice in a row.
    """

    n_nodes: int
    n_features: int
    width: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    data: NDArray[np.float64] | NDArray[np.float32]


class ClassOutputs(NamedTuple):
    """Rows with the numbers of their classes, and what classes are made of.

    Class k has the nodes ``nodes[starts[k]:starts[k + 1]]``. ``costs`` has one row per class, or
    one row of ones for all.
    """

    rows: NodeRows
    slack: bool
    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    starts: NDArray[np.int64]
    nodes: NDArray[np.int64]


@inner
def _ends(rows, i):
    """Where the entries of a row begin and end."""
    if rows.width > 0:
        return i * rows.n_features, (i + 1) * rows.n_features
    return rows.indptr[i], rows.indptr[i + 1]


@inner
def _column(rows, i, e):
    """The column of an entry of row i."""
    return e - i * rows.n_features if rows.width > 0 else np.int64(rows.indices[e])


def _node_scores(rows, i, w, out):
    """The product of a row with that of each node."""
    (first, last), d = _ends(rows, i), rows.n_features
    row = rows.data[first:last]
    for v in range(rows.n_nodes):
        score, weights = 0.0, w[v * d : (v + 1) * d]
        for e in range(rows.width):
            score += row[e] * weights[e]
        out[v] = score
    for e in range(first, first if rows.width > 0 else last):
        value, at = np.float64(rows.data[e]), np.int64(rows.indices[e])
        for v in range(rows.n_nodes):  # sums that do not wait for each other
            out[v] += value * w[v * d + at]


node_scores = inner(_node_scores, **SUMS)


@inner
def add_row(rows, i, node, factor, gradient):
    """Add ``factor * x_i`` to the row of a node in ``gradient``."""
    first, last = _ends(rows, i)
    row, d = rows.data[first:last], rows.n_features
    target = gradient[node * d : (node + 1) * d]
    for e in range(rows.width):
        target[e] += factor * row[e]
    for e in range(0 if rows.width > 0 else row.shape[0]):
        target[np.int64(rows.indices[first + e])] += factor * row[e]


@inner
def append_row(rows, i, node, factor, count, indices, values):
    """Append the entries of ``factor * x_i`` in the row of a node; returns their number.

    A zero is written, and then overwritten: a branch would be mispredicted.
    """
    first, last = _ends(rows, i)
    for e in range(first, last):
        indices[count] = np.uint64(node * rows.n_features + _column(rows, i, e))
        values[count] = factor * rows.data[e]
        count += rows.data[e] != 0.0
    return count


@registered(structures.new_work, ClassOutputs)
def _new_work(outputs):
    return np.empty(outputs.rows.n_nodes), np.empty(outputs.starts.shape[0] - 1)


@inner
def _class_scores(outputs, i, w, work):
    """Scores of the classes, in the second part of the memory."""
    of_nodes, scores = work
    node_scores(outputs.rows, i, w, of_nodes)
    for k in range(scores.shape[0]):
        scores[k] = 0.0
        for j in range(outputs.starts[k], outputs.starts[k + 1]):
            scores[k] += of_nodes[outputs.nodes[j]]
    return scores


@inner
def _add(outputs, k, amount, of_nodes):
    """Add an amount for each node of a class."""
    for j in range(outputs.starts[k], outputs.starts[k + 1]):
        of_nodes[outputs.nodes[j]] += amount


@registered(structures.worst, ClassOutputs)
def _worst(outputs, i, w, work, indices, values):
    scores, of_nodes, label = _class_scores(outputs, i, w, work), work[0], outputs.labels[i]
    costs = outputs.costs[min(label, outputs.costs.shape[0] - 1)]
    best, at, broken = 0.0, label, False
    for k in range(scores.shape[0]):
        cost = costs[k] * (k != label)
        score = (cost if outputs.slack else 1.0) * (scores[k] - scores[label]) + cost
        broken |= score != score  # NaN, which no comparison sees
        higher = score > best
        best, at = score if higher else best, k if higher else at
    best = np.nan if broken else best
    if at == label:
        return 0, 0.0, best, best
    of_nodes[:] = 0.0
    factor = costs[at] if outputs.slack else 1.0
    _add(outputs, label, factor, of_nodes)
    _add(outputs, at, -factor, of_nodes)
    count = 0
    for v in range(of_nodes.shape[0]):
        if of_nodes[v] != 0.0:
            count = append_row(outputs.rows, i, v, of_nodes[v], count, indices, values)
    return count, costs[at], best, best


@registered(structures.expect, ClassOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    scores, of_nodes, label = _class_scores(outputs, i, w, work), work[0], outputs.labels[i]
    top, own, mass = np.max(scores), scores[label], 0.0
    for k in range(scores.shape[0]):
        scores[k] = np.exp(scores[k] - top)
        mass += scores[k]
    of_nodes[:] = 0.0
    for k in range(scores.shape[0]):
        _add(outputs, k, scores[k] / mass - (k == label), of_nodes)
    for v in range(of_nodes.shape[0]):
        if of_nodes[v] != 0.0:
            add_row(outputs.rows, i, v, weight * of_nodes[v], gradient)
    return max((top - own) + np.log(mass), 0.0)
