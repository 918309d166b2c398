"""Labels of the nodes of graphs: the worst labeling, and an upper bound for all labelings.

Sequential tree-reweighted message passing (Kolmogorov 2006), then branch and bound on what it
leaves open. Nodes have an order. A sweep against it replaces the messages to earlier neighbors, a
sweep along it those to later ones. A graph is decomposed into chains that ascend in the order. The
number of chains through a node k is the larger of its numbers of earlier and later neighbors; each
chain has the share ``shares[k]`` of its score, and each edge is in one chain. After a sweep against
the order the message of a chain from its last node to its first is constant, whatever the labels
are. So the sum of the chains' maxima is the sum of the constants and, at first nodes, of the shares
of the largest scores. No labeling exceeds it. In a forest with at most one earlier neighbor per
node every share is one: the sweep is max-product, and the bound is attained.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import most
from sklearn_bundle.jit.decorators import inner, jit, registered
from sklearn_bundle.structured._compiled import structures
from sklearn_bundle.structured._compiled.graph_oracle import Graphs, graph_of

_SWEEPS = 400  # maximum of message sweeps before a branch: most graphs take 20 to 100
_CHECK = 16  # sweeps between two checks of the bound's progress
_PROGRESS = 0.02  # of what is open: if the bound falls by less between checks, it has settled
# Relative to the sum of absolute scores: what rounding adds to a bound. Each node and edge adds a
# few units in the last place of its own largest score.
_ROUNDING = 1e-14
_CLOSED = 1e-13  # relative to the same sum: a bound this close to a labeling proves it


class PairwiseOutputs(NamedTuple):
    """Graphs whose nodes are in the order of sweeps, and the cost of a wrong label.

    w has a row of features of nodes per label, then a matrix per edge feature, with a row per label
    of the edge's first node.
    """

    graphs: Graphs
    shares: NDArray[np.float64]
    n_labels: int
    branches: int
    cost: float


class Workspace(NamedTuple):
    """Memory for the inference of one graph."""

    node: NDArray[np.float64]  # scores of labels, minus that of the true label
    pairs: NDArray[np.float64]  # of an arc: the same of its node's labels with its head's
    messages: NDArray[np.float64]  # of an arc: from its head to its node
    score: NDArray[np.float64]  # of a node's labels, with all messages to it
    blocked: NDArray[np.int64]  # branches that exclude a label
    best: NDArray[np.int64]
    found: NDArray[np.int64]
    chosen: NDArray[np.int64]  # per branch: the node, the label, and whether it is excluded
    open: NDArray[np.float64]  # per branch: the bound above it
    psi: NDArray[np.float64]  # zero between uses


@registered(structures.new_work, PairwiseOutputs)
def _new_work(outputs):
    graphs, K = outputs.graphs, outputs.n_labels
    n, m, parts = most(graphs.nodes), most(graphs.edges), graphs.parts
    return Workspace(
        np.empty((n, K)),
        np.empty((2 * m, K, K)),
        np.empty((2 * m, K)),
        np.empty((n, K)),
        np.zeros((n, K), np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty((n * K + 1, 3), np.int64),
        np.empty(n * K + 1),
        np.zeros(K * (parts.features.shape[1] + parts.edge_features.shape[1] * K)),
    )


@inner
def _set_scores(outputs, graph, w, work):
    """Scores of labels and pairs minus those of the true labels; returns the sum of their sizes."""
    K, (n, d), (m, e) = outputs.n_labels, graph.features.shape, graph.edge_features.shape
    of_nodes, of_edges = w[: K * d].reshape(K, d), w[K * d :].reshape(e, K, K)
    mass = 0.0
    for v in range(n):
        score, truth = work.node[v], graph.labels[v]
        for k in range(K):
            score[k] = 0.0
            for j in range(d):
                score[k] += graph.features[v, j] * of_nodes[k, j]
        own, largest = score[truth], 0.0
        for k in range(K):
            # In this order: a loss added to a score of 1e16 would be rounded away.
            score[k] = (score[k] - own) + outputs.cost * (k != truth)
            largest = max(largest, abs(score[k]))
        mass += largest
    for a in range(m):
        there, back = graph.places[a], graph.mates[graph.places[a]]
        pairs = work.pairs[there]
        pairs[:] = 0.0
        for f in range(e):
            x = graph.edge_features[a, f]
            for k in range(K if x != 0.0 else 0):
                for j in range(K):
                    pairs[k, j] += x * of_edges[f, k, j]
        own = pairs[graph.labels[graph.heads[back]], graph.labels[graph.heads[there]]]
        largest = 0.0
        for k in range(K):
            for j in range(K):
                pairs[k, j] -= own
                work.pairs[back, j, k] = pairs[k, j]
                largest = max(largest, abs(pairs[k, j]))
        mass += largest
    return mass


@inner
def _send(share, score, back, pairs, message):
    """Set the message along an arc, of largest entry 0; returns what is subtracted."""
    message[:] = -np.inf
    for k in range(score.shape[0]):
        own = share * score[k] - back[k]
        if own > -np.inf:
            for j in range(score.shape[0]):
                message[j] = max(message[j], own + pairs[k, j])
    highest = -np.inf
    for j in range(score.shape[0]):
        highest = max(highest, message[j])
    for j in range(score.shape[0]):
        message[j] -= highest
    return highest


@inner
def _sweep(outputs, graph, shares, forward, work):
    """Pass messages along or against the order; against it, the result is a bound of all labelings.

    On the way it finds a labeling, node by node, given the labels of the nodes before and the
    messages from those after.
    """
    K, n, found = outputs.n_labels, graph.labels.shape[0], work.found
    known, bound = np.empty(K), 0.0
    for place in range(n):
        v = place if forward else n - 1 - place
        score = work.score[v]
        for k in range(K):
            score[k] = known[k] = -np.inf if work.blocked[v, k] > 0 else work.node[v, k]
        for arc in range(graph.starts[v], graph.starts[v + 1]):
            other, message = graph.heads[arc], work.messages[arc]
            before = (other < v) == forward
            for k in range(K):
                score[k] += message[k]
                known[k] += work.pairs[arc, k, found[other]] if before else message[k]
        highest = most = -np.inf
        for k in range(K):
            highest = max(highest, score[k])
            if known[k] > most:
                found[v], most = k, known[k]
        begins = 1.0
        for arc in range(graph.starts[v], graph.starts[v + 1]):
            if (graph.heads[arc] > v) == forward:
                out = work.messages[graph.mates[arc]]
                bound += _send(shares[v], score, work.messages[arc], work.pairs[arc], out)
                begins -= shares[v]
        if begins > 1e-9:  # a share that is not an integer is rounded
            bound += begins * highest
    return bound


@inner
def _relax(outputs, graph, shares, work, best, bound, enough):
    """Sweep until the bound settles, or proves that no labeling is better than the best.

    Returns the best score and the bound; ``enough`` is how close they must be.
    """
    n, last, sweep = graph.labels.shape[0], np.inf, 0
    while sweep < _SWEEPS and bound > best + enough:
        forward = sweep % 2 == 1
        reached = _sweep(outputs, graph, shares, forward, work)
        bound = bound if forward else min(bound, reached)
        score = 0.0
        for v in range(n):
            score += work.node[v, work.found[v]]
        for k in graph.places:
            tail, head = graph.heads[graph.mates[k]], graph.heads[k]
            score += work.pairs[k, work.found[tail], work.found[head]]
        if score > best:
            best = score
            work.best[:n] = work.found[:n]
        sweep += 1
        if sweep % _CHECK == 0:
            if last - bound <= _PROGRESS * (bound - best):
                break
            last = bound
    return best, bound


@inner
def _undecided(n, score):
    """The node whose two best labels have the closest scores, and the best; -1 if none has two."""
    node, label, least = -1, -1, np.inf
    for v in range(n):
        best = second = -np.inf
        at = 0
        for k in range(score.shape[1]):
            if score[v, k] > best:
                second, best, at = best, score[v, k], k
            else:
                second = max(second, score[v, k])
        if best - second < least:
            node, label, least = v, at, best - second
    return node, label


@inner
def _exclude(work, branch, by):
    """Exclude all labels except the chosen one, or only that one; ``by`` = -1 undoes it."""
    chosen = work.chosen[branch]
    for k in range(work.blocked.shape[1]):
        if (k == chosen[1]) == (chosen[2] == 1):
            work.blocked[chosen[0], k] += by


@inner
def _solve(outputs, graph, shares, w, work):
    """Write the best labeling found to ``work.best``; returns its score and the upper bound.

    Depth-first: an undecided node gets its best label, then all other labels.
    """
    n = graph.labels.shape[0]
    work.best[:n] = graph.labels
    work.messages[: graph.heads.shape[0]] = 0.0
    mass = _set_scores(outputs, graph, w, work)
    if not mass < np.inf:  # the point is not finite
        return np.nan, np.nan
    enough = _CLOSED * mass
    best, bound = _relax(outputs, graph, shares, work, 0.0, np.inf, enough)
    proved = -np.inf  # what was left
    depth = branches = 0
    while True:
        node = label = -1
        if bound > best + enough and branches + 2 <= outputs.branches:
            node, label = _undecided(n, work.score)
        if node >= 0:
            branches += 2
            work.chosen[depth] = node, label, 0
            work.open[depth] = bound
            depth += 1
        else:
            proved = max(proved, bound)
            while depth > 0 and work.chosen[depth - 1, 2] == 1:
                depth -= 1
                _exclude(work, depth, -1)
            if depth == 0:
                break
            _exclude(work, depth - 1, -1)
            work.chosen[depth - 1, 2] = 1
        _exclude(work, depth - 1, 1)
        above = work.open[depth - 1]
        best, bound = _relax(outputs, graph, shares, work, best, above, enough)
    return best, max(proved, best) + _ROUNDING * mass


@jit
def labeling(outputs, w):
    """The best labels of the only graph, and the largest score that labels may have."""
    work, graph = structures.new_work(outputs), graph_of(outputs.graphs, 0)
    _, bound = _solve(outputs, graph, outputs.shares, w, work)
    return work.best, bound


@registered(structures.worst, PairwiseOutputs)
def _worst(outputs, i, w, work, indices, values):
    graph, K, psi, best = graph_of(outputs.graphs, i), outputs.n_labels, work.psi, work.best
    shares = outputs.shares[outputs.graphs.nodes[i] : outputs.graphs.nodes[i + 1]]
    score, bound = _solve(outputs, graph, shares, w, work)
    (n, d), e, wrong = graph.features.shape, graph.edge_features.shape[1], 0
    for v in range(n):
        truth, other = graph.labels[v], best[v]
        wrong += truth != other
        for j in range(d if truth != other else 0):
            psi[truth * d + j] += graph.features[v, j]
            psi[other * d + j] -= graph.features[v, j]
    for a in range(graph.places.shape[0]):
        k = graph.places[a]
        tail, head = graph.heads[graph.mates[k]], graph.heads[k]
        truth = graph.labels[tail] * K + graph.labels[head]
        other = best[tail] * K + best[head]
        for f in range(e if truth != other else 0):
            psi[K * (d + f * K) + truth] += graph.edge_features[a, f]
            psi[K * (d + f * K) + other] -= graph.edge_features[a, f]
    count = 0
    for x in range(psi.shape[0]):
        if psi[x] != 0.0:
            indices[count], values[count], psi[x] = x, psi[x], 0.0
            count += 1
    return count, outputs.cost * wrong, score, bound
