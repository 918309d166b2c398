"""Classes as outputs: the worst class of a row, with costs.

The parameters w are a row of d per class, one after the other. Sets of labels have such rows, too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import SUMS, inner, registered
from sklearn_bundle.structured._compiled import structures


class NodeRows(NamedTuple):
    """Rows of features, which the score of every node, a class or label, is a product with.

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
    """Rows with the numbers of their classes, and costs, a row per true class."""

    rows: NodeRows
    slack: bool
    labels: NDArray[np.int64]
    costs: NDArray[np.float64]


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
    return np.empty(outputs.rows.n_nodes)


@registered(structures.worst, ClassOutputs)
def _worst(outputs, i, w, scores, indices, values):
    rows, label = outputs.rows, outputs.labels[i]
    node_scores(rows, i, w, scores)
    best, at, broken = 0.0, label, False
    for k in range(rows.n_nodes):
        cost = outputs.costs[label, k]
        score = (cost if outputs.slack else 1.0) * (scores[k] - scores[label]) + cost
        broken |= score != score  # NaN, which no comparison sees
        higher = score > best
        best, at = score if higher else best, k if higher else at
    best = np.nan if broken else best
    if at == label:
        return 0, 0.0, best, best
    cost = outputs.costs[label, at]
    factor = cost if outputs.slack else 1.0
    lower, sign = min(label, at), 1.0 if label < at else -1.0
    count = append_row(rows, i, lower, sign * factor, 0, indices, values)
    count = append_row(rows, i, max(label, at), -sign * factor, count, indices, values)
    return count, cost, best, best
