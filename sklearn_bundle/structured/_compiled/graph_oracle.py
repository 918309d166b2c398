"""The worst labels, 0 or 1, of a graph's nodes by a minimum cut, and a bound for all labels.

The parameters are those of a node with label 1, then those of an edge between unequal labels. The
latter and the edge features are nonnegative.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.linear._compiled import design
from sklearn_bundle.structured._compiled import min_cut, structures
from sklearn_bundle.structured._compiled.min_cut import CutWorkspace


class GraphOutputs(NamedTuple):
    """Graphs, one after the other, and the true labels of their nodes.

    Graph i has the nodes from ``nodes[i]`` to ``nodes[i + 1]`` and the edges from ``edges[i]`` to
    ``edges[i + 1]``; each edge is two arcs. ``starts`` has one number more per graph than nodes.
    :func:`min_cut.cut` takes it with ``heads`` and ``mates`` for each graph. ``places`` are the
    arcs of the edges from the first node to the second. ``false_one`` is the cost of label 1
    instead of 0, ``false_zero`` the opposite. Features have a row per node and per edge.
    """

    false_one: float
    false_zero: float
    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    labels: NDArray[np.int8]
    starts: NDArray[np.int32]
    heads: NDArray[np.int32]
    mates: NDArray[np.int32]
    places: NDArray[np.int32]
    node_features: NDArray[np.float64] | NDArray[np.float32]
    edge_features: NDArray[np.float64] | NDArray[np.float32]


class Workspace(NamedTuple):
    """Memory to work in: ``ones`` is each node's cost of label 1, ``capacities`` are of edges."""

    ones: NDArray[np.float64]
    capacities: NDArray[np.float64]
    cut: CutWorkspace


@registered(structures.new_work, GraphOutputs)
def _new_work(outputs):
    return work_for(outputs)


@inner
def work_for(outputs):
    n = m = 0
    for i in range(outputs.nodes.shape[0] - 1):
        n = max(n, outputs.nodes[i + 1] - outputs.nodes[i])
        m = max(m, outputs.edges[i + 1] - outputs.edges[i])
    return Workspace(np.empty(n), np.empty(m), min_cut.cut_work(n, 2 * m))


@inner
def _cut(outputs, i, w, augmented, work):
    """The labels of the lowest cost: 1 where the height is below the number of nodes.

    Up to a constant, the cost is minus the score and, with ``augmented``, minus the loss.
    """
    first, start, stop = outputs.nodes[i], outputs.edges[i], outputs.edges[i + 1]
    n, d, p = outputs.nodes[i + 1] - first, outputs.node_features.shape[1], w.shape[0]
    left, balances = work.cut.left, work.cut.balances
    features = outputs.node_features[first : first + n]
    design.dense_scores(features, w[:d], 0, n, work.ones)
    for a in range(n):
        loss = 0.0
        if augmented:
            loss = -outputs.false_zero if outputs.labels[first + a] else outputs.false_one
        work.ones[a] = balances[a] = -work.ones[a] - loss
    mates = outputs.mates[2 * start : 2 * stop]
    for e in range(stop - start):
        total = 0.0
        for j in range(p - d):
            total += w[d + j] * outputs.edge_features[start + e, j]
        k = outputs.places[start + e]
        work.capacities[e] = left[k] = left[mates[k]] = total
    starts = outputs.starts[first + i : first + i + n + 1]
    min_cut.cut(n, starts, outputs.heads[2 * start : 2 * stop], mates, work.cut)


@inner
def excess(outputs, i, work):
    """Upper bound, from any flow, of how far labels exceed the score of the true ones.

    It is a sum of nonnegative terms, all zero if the true labels are the best and the flow is the
    largest. Rounding of the flow can only raise it; rounding of the sum moves it by a few units in
    the last place. Call it once per cut, since it overwrites ``ones``.
    """
    first, start, stop = outputs.nodes[i], outputs.edges[i], outputs.edges[i + 1]
    n, left = outputs.nodes[i + 1] - first, work.cut.left
    heads, mates = outputs.heads[2 * start : 2 * stop], outputs.mates[2 * start : 2 * stop]
    total = 0.0
    for e in range(stop - start):
        k, most = outputs.places[start + e], work.capacities[e]
        a, b = heads[mates[k]], heads[k]
        flow = min(max(0.5 * (left[mates[k]] - left[k]), -most), most)
        work.ones[a] -= flow
        work.ones[b] += flow
        step = outputs.labels[first + a] - outputs.labels[first + b]
        total += most * abs(step) + flow * step
    for a in range(n):
        value = work.ones[a]
        total += max(value, 0.0) if outputs.labels[first + a] else max(-value, 0.0)
    return total


@inner
def _difference(outputs, i, heights, values):
    """The loss of the labels that the cut found; ``values`` become the difference of features."""
    first, start, stop = outputs.nodes[i], outputs.edges[i], outputs.edges[i + 1]
    n, d = outputs.nodes[i + 1] - first, outputs.node_features.shape[1]
    values[:] = 0.0
    loss = 0.0
    for a in range(n):
        label = outputs.labels[first + a]
        if label != (heights[a] < n):
            loss += outputs.false_zero if label else outputs.false_one
            sign = 1.0 if label else -1.0
            for j in range(d):
                values[j] += sign * outputs.node_features[first + a, j]
    heads, mates = outputs.heads[2 * start : 2 * stop], outputs.mates[2 * start : 2 * stop]
    for e in range(stop - start):
        k = outputs.places[start + e]
        a, b = heads[mates[k]], heads[k]
        before = outputs.labels[first + a] != outputs.labels[first + b]
        after = (heights[a] < n) != (heights[b] < n)
        if before != after:
            sign = 1.0 if after else -1.0
            for j in range(d, values.shape[0]):
                values[j] += sign * outputs.edge_features[start + e, j - d]
    return loss


@registered(structures.worst, GraphOutputs)
def _worst(outputs, i, w, work, indices, values):
    p = w.shape[0]
    _cut(outputs, i, w, True, work)
    loss = _difference(outputs, i, work.cut.heights, values[:p])
    score, count = loss, 0
    for j in range(p):
        value = values[j]
        score -= w[j] * value
        indices[count], values[count] = j, value
        count += value != 0.0
    proved = excess(outputs, i, work)
    return count, loss, (score if score > proved else proved)


@jit
def best_labels(outputs, i, w, augmented):
    """Labels of the nodes of graph i with the highest score, or highest score plus loss."""
    n, work = outputs.nodes[i + 1] - outputs.nodes[i], work_for(outputs)
    _cut(outputs, i, w, augmented, work)
    return (work.cut.heights[:n] < n).astype(np.int64)
