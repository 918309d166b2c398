"""Classes as outputs: the worst class of a row, with costs and with weights shared by classes.

The score of a class is the sum of the scores of its nodes: only the class itself, or the class and
its ancestors in a hierarchy. The parameters w are a row of d per node, one after the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.linear._compiled.rows import dense_scores
from sklearn_bundle.structured._compiled import structures


class ClassOutputs(NamedTuple):
    """Rows with the numbers of their classes, and what classes are made of.

    Class k has the nodes ``nodes[starts[k]:starts[k + 1]]``, which ascend. ``costs`` has one row
    per class, or one row of ones for all. Rows are dense, of ``width`` entries each, with
    ``indices`` and ``indptr`` empty; or CSR with width 0 and no index twice in a row.
    """

    n_nodes: int
    n_features: int
    width: int
    slack: bool
    labels: NDArray[np.int64]
    costs: NDArray[np.float64]
    starts: NDArray[np.int64]
    nodes: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    data: NDArray[np.float64] | NDArray[np.float32]


@jit
def class_scores(scores, starts, nodes, out):
    """The sum of its nodes' scores for each class, row by row."""
    for i in range(scores.shape[0]):
        for k in range(starts.shape[0] - 1):
            total = 0.0
            for j in range(starts[k], starts[k + 1]):
                total += scores[i, nodes[j]]
            out[i, k] = total


@jit
def highest(scores, row, label, costs, slack):
    """Loss of a row, and the class k that attains it: the label itself if the loss is zero.

    ``costs`` has a row per class, or one row of ones for all. The loss is NaN if a score is. NaN is
    tracked separately, since the comparison of a class waits for that of the class before.
    """
    c = min(label, costs.shape[0] - 1)
    own = scores[row, label]
    best = 0.0
    at = label
    broken = False
    for k in range(scores.shape[1]):
        cost = costs[c, k] * (k != label)
        gamma = cost if slack else 1.0
        v = gamma * (scores[row, k] - own) + cost
        higher = v > best
        broken |= v != v
        best = v if higher else best
        at = k if higher else at
    return (np.nan if broken else best), at


@inner
def _sparse_scores(data, indices, first, last, w, d, out):
    """The scores of all nodes, four at a time, so that their sums do not wait for each other."""
    head = out.shape[0] - out.shape[0] % 4
    width = np.uint64(d)
    for v in range(0, head, 4):
        base = np.uint64(v * d)
        s0 = s1 = s2 = s3 = 0.0
        for e in range(first, last):
            x, j = np.float64(data[e]), base + np.uint64(indices[e])
            s0 += x * w[j]
            s1 += x * w[j + width]
            s2 += x * w[j + width + width]
            s3 += x * w[j + width + width + width]
        out[v], out[v + 1], out[v + 2], out[v + 3] = s0, s1, s2, s3
    for v in range(head, out.shape[0]):
        base = np.uint64(v * d)
        total = 0.0
        for e in range(first, last):
            total += np.float64(data[e]) * w[base + np.uint64(indices[e])]
        out[v] = total


@inner
def node_scores(outputs, i, w, out):
    d = outputs.n_features
    if outputs.width > 0:
        row = outputs.data[i * d : (i + 1) * d]
        dense_scores(w.reshape(outputs.n_nodes, d), row, 0, outputs.n_nodes, out)
    else:
        first, last = outputs.indptr[i], outputs.indptr[i + 1]
        _sparse_scores(outputs.data, outputs.indices, first, last, w, d, out)


@inner
def add_row(outputs, i, node, factor, count, indices, values):
    """Append the entries of ``factor * x_i`` in the row of a node; returns their number.

    A zero is written, and then overwritten: a branch would be mispredicted.
    """
    first, last = row_ends(outputs, i)
    for e in range(first, last):
        indices[count] = np.uint64(node * outputs.n_features) + np.uint64(column(outputs, i, e))
        values[count] = factor * outputs.data[e]
        count += outputs.data[e] != 0.0
    return count


@registered(structures.new_work, ClassOutputs)
def _new_work(outputs):
    return np.empty((1, outputs.n_nodes)), np.empty((1, outputs.starts.shape[0] - 1))


@registered(structures.worst, ClassOutputs)
def _worst(outputs, i, w, work, indices, values):
    scores, of_classes = work
    starts, nodes, label = outputs.starts, outputs.nodes, outputs.labels[i]
    node_scores(outputs, i, w, scores[0])
    class_scores(scores, starts, nodes, of_classes)
    score, at = highest(of_classes, 0, label, outputs.costs, outputs.slack)
    if at == label:
        return 0, 0.0, score, score
    cost = outputs.costs[min(label, outputs.costs.shape[0] - 1), at]
    factor = cost if outputs.slack else 1.0
    count = 0
    a, b = starts[label], starts[at]
    # Both lists ascend. A node shared by both classes cancels.
    while a < starts[label + 1] or b < starts[at + 1]:
        of_label = b == starts[at + 1] or (a < starts[label + 1] and nodes[a] <= nodes[b])
        of_other = a == starts[label + 1] or (b < starts[at + 1] and nodes[b] <= nodes[a])
        if of_label != of_other:
            node, sign = (nodes[a], 1.0) if of_label else (nodes[b], -1.0)
            count = add_row(outputs, i, node, sign * factor, count, indices, values)
        a += of_label
        b += of_other
    return count, cost, score, score


@registered(structures.expect, ClassOutputs)
def _expect(outputs, i, w, work, weight, gradient):
    scores, of_classes = work
    starts, nodes, label = outputs.starts, outputs.nodes, outputs.labels[i]
    K, shares = starts.shape[0] - 1, scores[0]
    node_scores(outputs, i, w, scores[0])
    class_scores(scores, starts, nodes, of_classes)
    powers, others = of_classes[0], 0.0
    own, top = powers[label], np.max(powers)
    for k in range(K):
        powers[k] = np.exp(powers[k] - top)
        others += powers[k] * (k != label)
    mass = others + powers[label]
    shares[:] = 0.0
    for k in range(K):
        # One minus the probability of the label is the sum of the others, without cancellation.
        of_class = (-others if k == label else powers[k]) / mass
        for j in range(starts[k], starts[k + 1]):
            shares[nodes[j]] += of_class
    for v in range(outputs.n_nodes):
        if shares[v] != 0.0:
            add_scaled_row(outputs, i, v, weight * shares[v], gradient)
    return np.log1p(others) if own == top else (top - own) + np.log(mass)


@inner
def row_ends(outputs, i):
    """Where the entries of a row begin and end."""
    if outputs.width > 0:
        return i * outputs.n_features, (i + 1) * outputs.n_features
    return outputs.indptr[i], outputs.indptr[i + 1]


@inner
def column(outputs, i, e):
    """The column of an entry of row i."""
    return e - i * outputs.n_features if outputs.width > 0 else np.int64(outputs.indices[e])


@inner
def add_scaled_row(outputs, i, node, factor, gradient):
    """Add ``factor * x_i`` to the row of a node in ``gradient``."""
    d = outputs.n_features
    if outputs.width > 0:
        row, target = outputs.data[i * d : (i + 1) * d], gradient[node * d : (node + 1) * d]
        for j in range(d):
            target[j] += factor * row[j]
    else:
        for e in range(outputs.indptr[i], outputs.indptr[i + 1]):
            at = np.uint64(node * d) + np.uint64(outputs.indices[e])
            gradient[at] += factor * outputs.data[e]
