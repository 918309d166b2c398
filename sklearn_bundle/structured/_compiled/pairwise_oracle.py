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

_CHECK = 8  # sweeps between two checks of the bound's progress
_PROGRESS = 0.02  # of what is open: if the bound falls by less between checks, it has settled
# Relative to the sum of absolute scores: what rounding adds to a bound. Each node and edge adds a
# few units in the last place of its own largest score.
_ROUNDING = 1e-14
_CLOSED = 1e-13  # relative to the same sum: a bound this close to a labeling proves it


class PairwiseOutputs(NamedTuple):
    """Graphs with the labels of their nodes, the nodes of each graph in the order of sweeps.

    Graph i has the nodes ``nodes[i]`` to ``nodes[i + 1]``, and the edges ``edges[i]`` to ``edges[i
    + 1]``; ``tails`` and ``heads`` are numbers of nodes in the graph. Node v has the edges
    ``incident[around[v]:around[v + 1]]``, by their number in the graph. w has a row of
    ``n_features`` per label, then a matrix per edge feature, with a row per label of the tail.
    """

    n_labels: int
    n_features: int
    n_edge_features: int
    sweeps: int
    branches: int
    cost: float
    labels: NDArray[np.int64]
    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    around: NDArray[np.int64]
    incident: NDArray[np.int64]
    shares: NDArray[np.float64]
    features: NDArray[np.float64]
    edge_features: NDArray[np.float64]


class Workspace(NamedTuple):
    """Memory for the inference of one graph."""

    node: NDArray[np.float64]  # scores of labels, minus that of the true label
    edge: NDArray[np.float64]  # the same of pairs
    messages: NDArray[np.float64]  # to the tail and to the head of each edge
    score: NDArray[np.float64]  # of a node's labels, with all messages to it
    blocked: NDArray[np.int64]  # branches that exclude a label
    best: NDArray[np.int64]
    found: NDArray[np.int64]
    chosen: NDArray[np.int64]  # per branch: the node, the label, and whether it is excluded
    open: NDArray[np.float64]  # per branch: the bound above it
    psi: NDArray[np.float64]  # zero between uses


@registered(structures.new_work, PairwiseOutputs)
def _new_work(outputs):
    n, m, K = most(outputs.nodes), max(most(outputs.edges), 1), outputs.n_labels
    depth = n * K + 1
    return Workspace(
        np.empty((n, K)),
        np.empty((m, K, K)),
        np.empty((m, 2, K)),
        np.empty((n, K)),
        np.zeros((n, K), np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty((depth, 3), np.int64),
        np.empty(depth),
        np.zeros(K * (outputs.n_features + outputs.n_edge_features * K)),
    )


@inner
def _set_scores(outputs, i, w, work):
    """Scores of labels and pairs minus those of the true labels; returns the sum of their sizes."""
    K, d, e = outputs.n_labels, outputs.n_features, outputs.n_edge_features
    first, n = outputs.nodes[i], outputs.nodes[i + 1] - outputs.nodes[i]
    labels = outputs.labels[first : first + n]
    mass = 0.0
    for v in range(n):
        row = outputs.features[(first + v) * d : (first + v + 1) * d]
        for k in range(K):
            total = 0.0
            for j in range(d):
                total += row[j] * w[k * d + j]
            work.node[v, k] = total
        own = work.node[v, labels[v]]
        largest = 0.0
        for k in range(K):
            # In this order: a loss added to a score of 1e16 would be rounded away.
            work.node[v, k] = (work.node[v, k] - own) + outputs.cost * (k != labels[v])
            largest = max(largest, abs(work.node[v, k]))
        mass += largest
    start = outputs.edges[i]
    for a in range(outputs.edges[i + 1] - start):
        pairs = work.edge[a].reshape(K * K)
        pairs[:] = 0.0
        for f in range(e):
            x = outputs.edge_features[(start + a) * e + f]
            if x != 0.0:
                at = K * d + f * K * K
                for k in range(K * K):
                    pairs[k] += x * w[at + k]
        tail, head = labels[outputs.tails[start + a]], labels[outputs.heads[start + a]]
        own = pairs[tail * K + head]
        largest = 0.0
        for k in range(K * K):
            pairs[k] -= own
            largest = max(largest, abs(pairs[k]))
        mass += largest
    return mass


@inner
def _gather(outputs, i, v, work):
    """The score of the labels of node v with all messages to it; -inf for those excluded."""
    K, start = outputs.n_labels, outputs.edges[i]
    score = work.score[v]
    for k in range(K):
        score[k] = -np.inf if work.blocked[v, k] > 0 else work.node[v, k]
    at = outputs.nodes[i] + v
    for r in range(outputs.around[at], outputs.around[at + 1]):
        a = outputs.incident[r]
        message = work.messages[a, 0 if outputs.tails[start + a] == v else 1]
        for k in range(K):
            score[k] += message[k]


@inner
def _send(outputs, i, v, a, work):
    """Set the message from node v along edge a, of largest entry 0; returns what is subtracted."""
    K = outputs.n_labels
    from_tail = outputs.tails[outputs.edges[i] + a] == v
    share, score, pairs = outputs.shares[outputs.nodes[i] + v], work.score[v], work.edge[a]
    back = work.messages[a, 0 if from_tail else 1]
    out = work.messages[a, 1 if from_tail else 0]
    out[:] = -np.inf
    for k in range(K):
        own = share * score[k] - back[k]
        if own == -np.inf:
            continue
        for j in range(K):
            value = own + (pairs[k, j] if from_tail else pairs[j, k])
            out[j] = max(out[j], value)
    highest = -np.inf
    for j in range(K):
        highest = max(highest, out[j])
    for j in range(K):
        out[j] -= highest
    return highest


@inner
def _sweep_back(outputs, i, work):
    """Sweep against the order; returns the resulting bound."""
    first, start = outputs.nodes[i], outputs.edges[i]
    bound = 0.0
    for v in range(outputs.nodes[i + 1] - first - 1, -1, -1):
        _gather(outputs, i, v, work)
        earlier = 0
        for r in range(outputs.around[first + v], outputs.around[first + v + 1]):
            a = outputs.incident[r]
            if outputs.tails[start + a] + outputs.heads[start + a] < 2 * v:
                bound += _send(outputs, i, v, a, work)
                earlier += 1
        begins = 1.0 - earlier * outputs.shares[first + v]
        if begins > 1e-9:  # a share that is not an integer is rounded
            highest = -np.inf
            for k in range(outputs.n_labels):
                highest = max(highest, work.score[v, k])
            bound += begins * highest
    return bound


@inner
def _sweep_forward(outputs, i, work):
    """Label node by node, given the labels before and the messages from the nodes after.

    Messages to later neighbors are replaced on the way. Returns the labeling's score.
    """
    K, first, start = outputs.n_labels, outputs.nodes[i], outputs.edges[i]
    found = work.found
    total = 0.0
    for v in range(outputs.nodes[i + 1] - first):
        # What earlier neighbors have sent is not used: their labels are known.
        score = work.score[v]
        best, at = -np.inf, 0
        for k in range(K):
            score[k] = -np.inf if work.blocked[v, k] > 0 else work.node[v, k]
        for r in range(outputs.around[first + v], outputs.around[first + v + 1]):
            a = outputs.incident[r]
            is_tail = outputs.tails[start + a] == v
            other = outputs.heads[start + a] if is_tail else outputs.tails[start + a]
            for k in range(K):
                if other > v:
                    score[k] += work.messages[a, 0 if is_tail else 1, k]
                elif is_tail:
                    score[k] += work.edge[a, k, found[other]]
                else:
                    score[k] += work.edge[a, found[other], k]
        for k in range(K):
            if score[k] > best:
                best, at = score[k], k
        found[v] = at
        _gather(outputs, i, v, work)
        for r in range(outputs.around[first + v], outputs.around[first + v + 1]):
            a = outputs.incident[r]
            if outputs.tails[start + a] + outputs.heads[start + a] > 2 * v:
                _send(outputs, i, v, a, work)
    for v in range(outputs.nodes[i + 1] - first):
        total += work.node[v, found[v]]
    for a in range(outputs.edges[i + 1] - start):
        total += work.edge[a, found[outputs.tails[start + a]], found[outputs.heads[start + a]]]
    return total


@inner
def _relax(outputs, i, work, best, enough):
    """Sweep until the bound settles, or proves that no labeling is better than the best.

    Returns the best score and the bound; ``enough`` is how close they must be.
    """
    bound = last = np.inf
    n = outputs.nodes[i + 1] - outputs.nodes[i]
    for sweep in range(outputs.sweeps):
        bound = min(bound, _sweep_back(outputs, i, work))
        if bound <= best + enough:
            break
        score = _sweep_forward(outputs, i, work)
        if score > best:
            best = score
            for v in range(n):
                work.best[v] = work.found[v]
            if bound <= best + enough:
                break
        if sweep % _CHECK == _CHECK - 1:
            if last - bound <= _PROGRESS * (bound - best):
                break
            last = bound
    return best, bound


@inner
def _undecided(outputs, i, work):
    """The node whose two best labels have the closest scores, and the best; -1 if none has two.

    The scores include the messages of all neighbors.
    """
    K = outputs.n_labels
    node, label, least = -1, -1, np.inf
    for v in range(outputs.nodes[i + 1] - outputs.nodes[i]):
        _gather(outputs, i, v, work)
        best = second = -np.inf
        at = 0
        for k in range(K):
            score = work.score[v, k]
            if score > best:
                second, best, at = best, score, k
            elif score > second:
                second = score
        if second > -np.inf and best - second < least:
            node, label, least = v, at, best - second
    return node, label


@inner
def _exclude(work, branch, by):
    """Exclude all labels except the chosen one, or only that one; ``by`` = -1 undoes it."""
    v, label, excluded = work.chosen[branch, 0], work.chosen[branch, 1], work.chosen[branch, 2]
    for k in range(work.blocked.shape[1]):
        if (k == label) == (excluded == 1):
            work.blocked[v, k] += by


@inner
def solve(outputs, i, w, work):
    """Write the best labeling found to ``work.best``; returns its score and the upper bound.

    Depth-first: an undecided node gets its best label, then all other labels.
    """
    mass = _set_scores(outputs, i, w, work)
    n = outputs.nodes[i + 1] - outputs.nodes[i]
    m = outputs.edges[i + 1] - outputs.edges[i]
    if not mass < np.inf:  # the point is not finite
        work.best[:n] = 0
        return np.nan, np.nan
    for v in range(n):
        work.best[v] = outputs.labels[outputs.nodes[i] + v]
    work.messages[:m] = 0.0
    enough = _CLOSED * mass
    best, bound = _relax(outputs, i, work, 0.0, enough)
    proved = -np.inf  # what was left
    depth = branches = 0
    while True:
        node, label = -1, -1
        if bound > best + enough and branches + 2 <= outputs.branches:
            node, label = _undecided(outputs, i, work)
        if node >= 0:
            work.chosen[depth, 0], work.chosen[depth, 1], work.chosen[depth, 2] = node, label, 0
            work.open[depth] = bound
            _exclude(work, depth, 1)
            depth += 1
        else:
            proved = max(proved, bound)
            while depth > 0:
                _exclude(work, depth - 1, -1)
                done = work.chosen[depth - 1, 2] == 1
                if not done and work.open[depth - 1] > best + enough:
                    if branches < outputs.branches:
                        break
                    proved = max(proved, work.open[depth - 1])
                elif not done:
                    proved = max(proved, work.open[depth - 1])
                depth -= 1
            if depth == 0:
                break
            work.chosen[depth - 1, 2] = 1
            _exclude(work, depth - 1, 1)
        branches += 1
        best, bound = _relax(outputs, i, work, best, enough)
        bound = min(bound, work.open[depth - 1])
    return best, max(proved, best) + _ROUNDING * mass


@inner
def _write(outputs, i, work, indices, values):
    """Write the entries of ``phi(x_i, y_i) - phi(x_i, y)`` of the best labeling: count and loss."""
    K, d, e = outputs.n_labels, outputs.n_features, outputs.n_edge_features
    first, start = outputs.nodes[i], outputs.edges[i]
    labels, best, psi = outputs.labels[first:], work.best, work.psi
    wrong = 0
    for v in range(outputs.nodes[i + 1] - first):
        if best[v] != labels[v]:
            wrong += 1
            for j in range(d):
                x = outputs.features[(first + v) * d + j]
                psi[labels[v] * d + j] += x
                psi[best[v] * d + j] -= x
    for a in range(outputs.edges[i + 1] - start):
        tail, head = outputs.tails[start + a], outputs.heads[start + a]
        truth, other = labels[tail] * K + labels[head], best[tail] * K + best[head]
        for f in range(e if truth != other else 0):
            at, x = K * d + f * K * K, outputs.edge_features[(start + a) * e + f]
            psi[at + truth] += x
            psi[at + other] -= x
    count = 0
    for x in range(psi.shape[0]):
        if psi[x] != 0.0:
            indices[count], values[count], psi[x] = x, psi[x], 0.0
            count += 1
    return count, outputs.cost * wrong


@jit
def labeling(outputs, w, out):
    """Write the best labels of all graphs to ``out``; returns the largest scores they may have."""
    work = structures.new_work(outputs)
    bounds = np.empty(outputs.nodes.shape[0] - 1)
    for i in range(bounds.shape[0]):
        _, bounds[i] = solve(outputs, i, w, work)
        n = outputs.nodes[i + 1] - outputs.nodes[i]
        out[outputs.nodes[i] : outputs.nodes[i + 1]] = work.best[:n]
    return bounds


@registered(structures.worst, PairwiseOutputs)
def _worst(outputs, i, w, work, indices, values):
    score, bound = solve(outputs, i, w, work)
    count, loss = _write(outputs, i, work, indices, values)
    return count, loss, score, bound
