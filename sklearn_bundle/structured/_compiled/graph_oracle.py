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

# Work between two computations of the distances, in nodes of the graph: 1 to 4 took the same time
# on images of 600 and 10,000 nodes, 12 took 1.5 times as long.
_PERIOD = 2
# Work of a relabeling in addition to its arcs, in arcs.
_RELABELLING = 6


class CutWorkspace(NamedTuple):
    """Memory for the cut of a graph of n nodes and 2 m arcs, or of a smaller one.

    ``left`` is what each arc can still take, ``balances`` are the b of the nodes. ``ring`` has one
    place more than there are nodes.
    """

    left: NDArray[np.float64]
    balances: NDArray[np.float64]
    heights: NDArray[np.int32]
    current: NDArray[np.int32]
    queue: NDArray[np.int32]
    ring: NDArray[np.int32]
    waiting: NDArray[np.bool_]


@inner
def cut_work(n, n_arcs):
    """Memory for graphs of at most this size."""
    return CutWorkspace(
        np.empty(n_arcs),
        np.empty(n),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n + 1, np.int32),
        np.empty(n, np.bool_),
    )


@inner
def _distances(n, starts, heads, mates, work):
    """Set heights to the number of arcs to the next node that drains, n if there is no path.

    Returns the number of nodes with a path; ``queue`` begins with them, the farthest last.
    """
    heights, queue = work.heights, work.queue
    first = last = 0
    for a in range(n):
        drains = work.balances[a] < 0.0
        heights[a] = 0 if drains else n
        queue[last] = a
        last += drains
        work.current[a] = starts[a]
    while first < last:
        b = queue[first]
        first += 1
        height = heights[b] + 1
        for k in range(starts[b], starts[b + 1]):
            a = heads[k]
            if heights[a] == n and work.left[mates[k]] > 0.0:
                heights[a] = height
                queue[last] = a
                last += 1
    return last


@inner
def cut(n, starts, heads, mates, work):
    """Maximize the flow; then y_a is 1 where ``heights[a] < n``.

    Of several best labelings this has the fewest ones. Node a has the arcs from ``starts[a]`` to
    ``starts[a + 1]``, which lead to ``heads``; the reverse of arc k is ``mates[k]``. Set ``left``
    and ``balances`` of ``work`` to c and b before the call. Afterwards they are, up to rounding,
    c - f and the b that the flow leaves.
    """
    left, balances, heights, current = work.left, work.balances, work.heights, work.current
    queue, ring, waiting = work.queue, work.ring, work.waiting
    most = _PERIOD * n
    while True:
        effort = first = last = 0
        waiting[:n] = False
        for i in range(_distances(n, starts, heads, mates, work) - 1, -1, -1):
            a = queue[i]
            if balances[a] > 0.0:
                waiting[a] = True
                ring[last] = a
                last += 1
        if last == 0:
            return
        while first != last and effort <= most:
            a = ring[first]
            first = 0 if first == n else first + 1
            waiting[a] = False
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
                    if not waiting[b] and balances[b] > 0.0:
                        waiting[b] = True
                        ring[last] = b
                        last = 0 if last == n else last + 1
                    if excess == 0.0:
                        break
                k += 1
            heights[a], balances[a], current[a] = height, excess, k


# ---- graphs with labels --------------------------------------------------------------------------


class GraphOutputs(NamedTuple):
    """Graphs, one after the other, and the true labels of their nodes.

    Graph i has the nodes from ``nodes[i]`` to ``nodes[i + 1]`` and the edges from ``edges[i]`` to
    ``edges[i + 1]``; each edge is two arcs. ``starts`` has one number more per graph than nodes.
    :func:`cut` takes it with ``heads`` and ``mates`` for each graph. ``places`` are the
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
    n, m = most(outputs.nodes), most(outputs.edges)
    return Workspace(np.empty(n), np.empty(m), cut_work(n, 2 * m))


@inner
def _cut(outputs, i, w, augmented, work):
    """The labels of the lowest cost: 1 where the height is below the number of nodes.

    Up to a constant, the cost is minus the score and, with ``augmented``, minus the loss.
    """
    first, start, stop = outputs.nodes[i], outputs.edges[i], outputs.edges[i + 1]
    n, d, p = outputs.nodes[i + 1] - first, outputs.node_features.shape[1], w.shape[0]
    left, balances = work.cut.left, work.cut.balances
    features = outputs.node_features[first : first + n]
    dense_scores(features, w[:d], 0, n, work.ones)
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
    cut(n, starts, outputs.heads[2 * start : 2 * stop], mates, work.cut)


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
    score = score if score > proved else proved
    return count, loss, score, score


@jit
def best_labels(outputs, i, w, augmented):
    """Labels of the nodes of graph i with the highest score, or highest score plus loss."""
    n, work = outputs.nodes[i + 1] - outputs.nodes[i], structures.new_work(outputs)
    _cut(outputs, i, w, augmented, work)
    return (work.cut.heights[:n] < n).astype(np.int64)
