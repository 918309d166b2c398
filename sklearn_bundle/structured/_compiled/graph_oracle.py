"""The worst labels, 0 or 1, of a graph's nodes by a minimum cut, and a bound for all labels.

The parameters are those of a node with label 1, then those of an edge between unequal labels. The
latter and the edge features are nonnegative.

The cut, by push-relabel in double precision, finds labels y of 0 and 1 that minimize ``E(y) = sum_a
b_a y_a + sum_e c_e |y_a - y_b|``, with e from a to b and c_e >= 0. A flow f_e from a to b, -c_e <=
f_e <= c_e, takes f_e from b_a and adds it to b_b. The edge keeps ``c_e |y_a - y_b| + f_e (y_a -
y_b)``, which is not negative. So for any flow the sum of the negative b is at most the minimum, and
a largest flow makes them equal [1]_. Source and sink are implicit: the source feeds nodes with
positive b, and those with negative b drain into the sink.

The steps are those of the first phase of [2]_, starting from the farthest node, first in, first
out; heights are reset to distances every few scans of the arcs. A full arc and an emptied node have
exactly 0 left, in floating point too, so the proof that the steps end holds despite rounding.

.. [1] D. M. Greig, B. T. Porteous, A. H. Seheult: Exact maximum a posteriori estimation for binary
   images. Journal of the Royal Statistical Society B 51 (1989), 271-279.
.. [2] B. V. Cherkassky, A. V. Goldberg: On implementing the push-relabel method for the maximum
   flow problem. Algorithmica 19 (1997), 390-410.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import most
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.linear._compiled.rows import dense_scores
from sklearn_bundle.structured._compiled import structures


class GraphParts(NamedTuple):
    """One graph, or the parts of several.

    Each edge is two arcs, one from each of its nodes. The arcs of node a are those from
    ``starts[a]`` to ``starts[a + 1]``, and lead to ``heads``; the reverse of arc k is ``mates[k]``,
    and ``places`` are the arcs of the edges from the first node to the second. ``starts`` has one
    number more than there are nodes. Features have a row per node and per edge.
    """

    labels: NDArray[np.int64]
    starts: NDArray[np.int32]
    heads: NDArray[np.int32]
    mates: NDArray[np.int32]
    places: NDArray[np.int32]
    features: NDArray[np.float64]
    edge_features: NDArray[np.float64]


class Graphs(NamedTuple):
    """Graph i has the nodes from ``nodes[i]`` to ``nodes[i + 1]``, and its ``edges`` likewise."""

    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    parts: GraphParts


@inner
def graph_of(graphs, i):
    """Graph i of several."""
    a, b, c, d = graphs.nodes[i], graphs.nodes[i + 1], graphs.edges[i], graphs.edges[i + 1]
    parts = graphs.parts
    return GraphParts(
        parts.labels[a:b],
        parts.starts[a + i : b + i + 1],
        parts.heads[2 * c : 2 * d],
        parts.mates[2 * c : 2 * d],
        parts.places[c:d],
        parts.features[a:b],
        parts.edge_features[c:d],
    )


# Work between two computations of the distances, in nodes of the graph: 1 to 4 took the same time
# on images of 600 and 10,000 nodes, 12 took 1.5 times as long.
_PERIOD = 2
# Work of a relabeling in addition to its arcs, in arcs.
_RELABELLING = 6


class GraphOutputs(NamedTuple):
    """Graphs, and the costs of a node's label 1 in place of 0, and of 0 in place of 1."""

    graphs: Graphs
    false_one: float
    false_zero: float


class Workspace(NamedTuple):
    """Memory for the cut of a graph of n nodes and m edges, or of a smaller one.

    ``ones`` is each node's cost of label 1, and ``capacities`` are those of edges. ``left`` is what
    each arc can still take, ``balances`` are the b of the nodes. ``ring`` has one place more than
    there are nodes.
    """

    ones: NDArray[np.float64]
    capacities: NDArray[np.float64]
    left: NDArray[np.float64]
    balances: NDArray[np.float64]
    heights: NDArray[np.int32]
    current: NDArray[np.int32]
    queue: NDArray[np.int32]
    ring: NDArray[np.int32]
    waiting: NDArray[np.int32]


@registered(structures.new_work, GraphOutputs)
def _new_work(outputs):
    n, m = most(outputs.graphs.nodes), most(outputs.graphs.edges)
    whole = np.empty((5, n + 1), np.int32)
    costs = np.empty(n), np.empty(m), np.empty(2 * m), np.empty(n)
    return Workspace(*costs, whole[0], whole[1], whole[2], whole[3], whole[4])


@inner
def _distances(graph, work):
    """Set heights to the number of arcs to the next node that drains, n if there is no path.

    Returns the number of nodes with a path; ``queue`` begins with them, the farthest last.
    """
    n, heights, queue = graph.labels.shape[0], work.heights, work.queue
    first = last = 0
    for a in range(n):
        drains = work.balances[a] < 0.0
        heights[a] = 0 if drains else n
        queue[last] = a
        last += drains
        work.current[a] = graph.starts[a]
    while first < last:
        b = queue[first]
        first += 1
        height = heights[b] + 1
        for k in range(graph.starts[b], graph.starts[b + 1]):
            a = graph.heads[k]
            if heights[a] == n and work.left[graph.mates[k]] > 0.0:
                heights[a] = height
                queue[last] = a
                last += 1
    return last


@inner
def _cut(graph, work):
    """Maximize the flow; then y_a is 1 where ``heights[a] < n``.

    Of several best labelings this has the fewest ones. Set ``left`` and ``balances`` of ``work`` to
    c and b before the call. Afterwards they are, up to rounding, c - f and the b that the flow
    leaves.
    """
    starts, heads, mates = graph.starts, graph.heads, graph.mates
    left, balances, heights, current = work.left, work.balances, work.heights, work.current
    queue, ring, waiting = work.queue, work.ring, work.waiting
    n = graph.labels.shape[0]
    while True:
        effort = first = last = 0
        waiting[:n] = 0
        for i in range(_distances(graph, work) - 1, -1, -1):
            a = queue[i]
            if balances[a] > 0.0:
                waiting[a] = 1
                ring[last] = a
                last += 1
        if last == 0:
            return
        while first != last and effort <= _PERIOD * n:
            a = ring[first]
            first = 0 if first == n else first + 1
            waiting[a] = 0
            height, excess, k, end = heights[a], balances[a], current[a], starts[a + 1]
            while excess > 0.0:
                if k == end:
                    height = n
                    k = starts[a]
                    for j in range(k, end):
                        if left[j] > 0.0:
                            height = min(height, heights[heads[j]] + 1)
                    effort += end - k + _RELABELLING
                    if height == n:
                        break
                b = heads[k]
                if left[k] > 0.0 and heights[b] == height - 1:
                    step = min(excess, left[k])
                    left[k] -= step
                    left[mates[k]] += step
                    balances[b] += step
                    excess -= step
                    if waiting[b] == 0 and balances[b] > 0.0:
                        waiting[b] = 1
                        ring[last] = b
                        last = 0 if last == n else last + 1
                    if excess == 0.0:
                        break
                k += 1
            heights[a], balances[a], current[a] = height, excess, k


@inner
def _best(outputs, graph, w, work):
    """Find the labels of the highest score with costs: 1 where the height is below n."""
    n, d = graph.features.shape
    dense_scores(graph.features, w[:d], 0, n, work.ones)
    for a in range(n):
        loss = -outputs.false_zero if graph.labels[a] else outputs.false_one
        work.ones[a] = work.balances[a] = -work.ones[a] - loss
    for e in range(graph.places.shape[0]):
        total = 0.0
        for j in range(graph.edge_features.shape[1]):
            total += w[d + j] * graph.edge_features[e, j]
        k = graph.places[e]
        work.capacities[e] = work.left[k] = work.left[graph.mates[k]] = total
    _cut(graph, work)


@inner
def _bound(graph, work):
    """Upper bound, from any flow, of how far labels exceed the score of the true ones.

    It is a sum of nonnegative terms, all zero if the true labels are the best and the flow is the
    largest. Rounding of the flow can only raise it; rounding of the sum moves it by a few units in
    the last place. Call it once per cut, since it overwrites ``ones``.
    """
    total, ones, left = 0.0, work.ones, work.left
    for e in range(graph.places.shape[0]):
        k, most = graph.places[e], work.capacities[e]
        a, b = graph.heads[graph.mates[k]], graph.heads[k]
        flow = min(max(0.5 * (left[graph.mates[k]] - left[k]), -most), most)
        ones[a] -= flow
        ones[b] += flow
        step = graph.labels[a] - graph.labels[b]
        total += most * abs(step) + flow * step
    for a in range(graph.labels.shape[0]):
        total += max(ones[a], 0.0) if graph.labels[a] else max(-ones[a], 0.0)
    return total


@registered(structures.worst, GraphOutputs)
def _worst(outputs, i, w, work, indices, values):
    graph = graph_of(outputs.graphs, i)
    _best(outputs, graph, w, work)
    n, d = graph.features.shape
    heights, values, loss = work.heights, values[: w.shape[0]], 0.0
    values[:] = 0.0
    for a in range(n):
        label = graph.labels[a]
        if label != (heights[a] < n):
            loss += outputs.false_zero if label else outputs.false_one
            for j in range(d):
                values[j] += (2 * label - 1) * graph.features[a, j]
    for e in range(graph.places.shape[0]):
        k = graph.places[e]
        a, b = graph.heads[graph.mates[k]], graph.heads[k]
        change = ((heights[a] < n) != (heights[b] < n)) - abs(graph.labels[a] - graph.labels[b])
        for j in range(graph.edge_features.shape[1] if change != 0 else 0):
            values[d + j] += change * graph.edge_features[e, j]
    score, count = loss, 0
    for j in range(values.shape[0]):  # without edges these may be fewer than w has
        score -= w[j] * values[j]
        indices[count], values[count] = j, values[j]
        count += values[count] != 0.0
    proved = _bound(graph, work)
    score = score if score > proved else proved
    return count, loss, score, score


@jit
def best_labels(outputs, w):
    """The best labels of the only graph, and an upper bound of the score of all."""
    work, graph = structures.new_work(outputs), graph_of(outputs.graphs, 0)
    _best(outputs, graph, w, work)
    n = graph.labels.shape[0]
    return (work.heights[:n] < n).astype(np.int64), _bound(graph, work)
