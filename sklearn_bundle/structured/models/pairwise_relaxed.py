"""The linear relaxation of labeling a graph: outputs are distributions over labels and pairs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.structured.models.examples import Array, Examples, Found
from sklearn_bundle.structured.models.graph_input import GraphInput

_ROUNDING = 1e-14  # rounding of a bound, relative to the sum of the largest absolute scores


class Relaxed(NamedTuple):
    """An output of the relaxation: nonnegative, of sum one for each node and edge.

    ``pairs[a].sum(axis=1)`` is the distribution of the first node of edge a, ``sum(axis=0)`` that
    of the second.
    """

    nodes: Array  # of shape (n, K)
    pairs: Array  # of shape (m, K, K)


class RelaxedExamples(Examples):
    """Graphs with outputs of the relaxation from linear programs, with bounds.

    The bounds come from the dual: HiGHS is only accurate to its tolerances, but any multipliers of
    the constraints prove a bound.

    Parameters
    ----------
    model : PairwiseGraph
    graphs : list of GraphInput
    labels : list of ndarray of int64
        The true labels.
    n_parameters : int
    roundings : tuple of ScoreRounding
    """

    exact = False
    oracle_cost = 1e8  # 0.1 s: a program for 40 nodes with 11 labels

    def __init__(
        self,
        model: Any,
        graphs: Sequence[GraphInput],
        labels: Sequence[NDArray[np.int64]],
        n_parameters: int,
        roundings: tuple[ScoreRounding, ...],
    ):
        self._model, self._graphs, self._labels = model, graphs, labels
        self.n_examples, self.n_parameters = len(graphs), n_parameters
        self.roundings = roundings
        sizes = (graph.nodes.size + graph.edge_features.size for graph in graphs)
        self.n_entries = model.n_labels_ * sum(sizes)
        pairs = zip(graphs, labels, strict=True)
        self._truths = [model.joint_feature(*pair) for pair in pairs]

    def find(self, w: Array, first: int, last: int) -> Found:
        """The worst outputs with the bounds of the relaxation, one example after the other."""
        found = [self._worst(i, w) for i in range(first, last)]
        psi = sp.csr_array(np.array([part[0] for part in found]))
        return Found(
            psi.indptr.astype(np.int64),
            psi.indices.astype(np.uint32),
            psi.data,
            *(np.array(part) for part in list(zip(*found, strict=True))[1:]),
        )

    def _worst(self, i: int, w: Array) -> tuple[Array, float, float, float]:
        """psi, loss, score and bound."""
        graph, y = self._graphs[i], self._labels[i]
        rows = np.arange(len(y))
        nodes, pairs = self._potentials(graph, w)
        nodes = nodes - nodes[rows, y][:, None] + 1.0  # so no large score absorbs a loss
        nodes[rows, y] = 0.0
        tails, heads = graph.edges.T
        pairs = pairs - pairs[np.arange(len(tails)), y[tails], y[heads]][:, None, None]
        if not (np.isfinite(nodes).all() and np.isfinite(pairs).all()):  # w too large
            return np.zeros_like(self._truths[i]), 0.0, np.nan, np.nan
        output, bound = relaxation(graph.edges, nodes, pairs)
        loss = float(len(y) - output.nodes[rows, y].sum())
        psi = self._truths[i] - self._model.joint_feature(graph, output)
        score = loss - float(w @ psi)
        if not score > 0.0:
            return np.zeros_like(psi), 0.0, 0.0, max(bound, 0.0)
        return psi, loss, score, max(bound, score)

    def _potentials(self, graph: GraphInput, w: Array) -> tuple[Array, Array]:
        """Scores of the labels of nodes, of shape (n, K), and of pairs, of shape (m, K, K)."""
        K, d = self._model.n_labels_, self._model.n_features_
        nodes = graph.nodes @ w[: K * d].reshape(K, d).T
        return nodes, (graph.edge_features @ w[K * d :].reshape(-1, K * K)).reshape(-1, K, K)


def relaxation(edges: NDArray[np.int64], nodes: Array, pairs: Array) -> tuple[Relaxed, float]:
    """The best output, to the tolerances of HiGHS, and an upper bound of all scores.

    Parameters
    ----------
    edges : ndarray of int64 of shape (m, 2)
    nodes : ndarray of shape (n, K)
        Scores of labels.
    pairs : ndarray of shape (m, K, K)
        Scores of pairs, the row for the edge's first node.

    Raises
    ------
    RuntimeError
        If HiGHS does not find the optimum, with its own message.
    """
    (n, K), m = nodes.shape, len(edges)
    local = _constraints(n, edges, K)
    scores = np.concatenate([nodes.ravel(), pairs.ravel()])
    sums = np.concatenate([np.ones(n), np.zeros(2 * m * K)])
    size, settings = 1.0, {"A_eq": local, "b_eq": sums, "bounds": (0.0, None), "method": "highs"}
    result = linprog(-scores, **settings)
    if result.status != 0:  # absolute tolerances: out of reach for very large scores
        size = max(float(np.abs(scores).max()), 1.0)
        result = linprog(-scores / size, **settings)
    if result.status != 0:
        raise RuntimeError(f"The linear relaxation of a graph was not solved: {result.message}")
    # The multipliers of the constraints of pairs are messages: scores move from edges to nodes.
    messages = -size * result.eqlin.marginals[n:].reshape(2, m, K)
    to_nodes = nodes.copy()
    for side in (0, 1):
        np.add.at(to_nodes, edges[:, side], messages[side])
    left = pairs - messages[0][:, :, None] - messages[1][:, None, :]
    mass = np.abs(to_nodes).max(axis=1).sum() + np.abs(messages).max(axis=2).sum()
    mass += np.abs(pairs).max(axis=(1, 2)).sum()
    bound = to_nodes.max(axis=1).sum() + left.max(axis=(1, 2)).sum() + _ROUNDING * mass
    return _repaired(edges, result.x, (n, K)), float(bound)


def _constraints(n: int, edges: NDArray[np.int64], K: int) -> sp.csc_array:
    """Sums of nodes, then sums of pairs minus the distributions of first and of second nodes."""
    m = len(edges)
    ones, each = np.ones((1, K)), sp.eye_array(K)
    sums = [sp.kron(sp.eye_array(n), ones), sp.csr_array((n, m * K * K))]
    blocks = [sp.hstack(sums)]
    for side, of_pairs in enumerate((sp.kron(each, ones), sp.kron(ones, each))):
        ends = sp.csr_array((np.ones(m), (np.arange(m), edges[:, side])), shape=(m, n))
        blocks.append(sp.hstack([-sp.kron(ends, each), sp.kron(sp.eye_array(m), of_pairs)]))
    return sp.vstack(blocks).tocsc()


def _repaired(edges: NDArray[np.int64], x: Array, shape: tuple[int, int]) -> Relaxed:
    """The distributions in x, corrected so that constraints hold to rounding, not to a tolerance.

    Pairs keep the mass that both of their nodes allow; the rest, as small as the tolerance, becomes
    the product of the remaining masses of the nodes.
    """
    n, K = shape
    nodes = np.maximum(x[: n * K].reshape(n, K), 0.0)
    nodes /= nodes.sum(axis=1, keepdims=True)
    pairs = np.maximum(x[n * K :].reshape(-1, K, K), 0.0)
    tails, heads = nodes[edges[:, 0]], nodes[edges[:, 1]]
    for own, axis in ((tails, 2), (heads, 1)):
        sums = pairs.sum(axis=axis)
        share = np.minimum(own / np.where(sums > 0.0, sums, 1.0), 1.0)
        pairs *= np.expand_dims(share, axis)
    rest_of_tails = np.maximum(tails - pairs.sum(axis=2), 0.0)
    rest_of_heads = np.maximum(heads - pairs.sum(axis=1), 0.0)
    rest = rest_of_tails.sum(axis=1)
    scaled = rest_of_tails / np.where(rest > 0.0, rest, 1.0)[:, None]
    return Relaxed(nodes, pairs + scaled[:, :, None] * rest_of_heads[:, None, :])
