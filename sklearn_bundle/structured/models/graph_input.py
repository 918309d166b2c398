"""Graphs from users: what their models share, checks, and their form for compiled code."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled.graphs import GraphParts, Graphs
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.checks import finite_array, refuse, whole_numbers
from sklearn_bundle.structured.models.examples import (
    Array,
    CompiledExamples,
    check_scaling,
    ends_of,
)

Numbers = NDArray[np.int64]


class GraphInput(NamedTuple):
    """A checked x."""

    nodes: Array  # of shape (n, d)
    edges: Numbers  # of shape (m, 2)
    edge_features: Array  # of shape (m, e)
    shape: tuple[int, ...]  # of the labels


class GraphModel(StructuredModel, ABC):
    """Base of models of graphs.

    The numbers of features of nodes and edges are learned from the data.
    """

    n_labels_: int
    n_features_: int
    n_edge_features_: int
    _columns: tuple[int, int]  # weights that a feature of nodes has, and one of edges

    @abstractmethod
    def _outputs(self, graphs: list[GraphInput], labels: list[Numbers], augmented: bool) -> Any:
        """Graphs for compiled code, which adds losses to scores if ``augmented``."""

    @abstractmethod
    def _best(self, x: Any, y: Any, w: Array) -> tuple[Numbers, float]:
        """The best labels, with losses if y is given, and a bound relative to the score of y."""

    def _as_graph(self, x: Any, name: str, d: int | str = "d", e: int | str = "e") -> GraphInput:
        """An input with d and e features as a graph, or ValueError; messages call it ``name``."""
        if not (isinstance(x, list | tuple) and len(x) == 3):
            parts = "(node_features, edges, edge_features)"
            raise ValueError(f"{name} must be a tuple {parts}, got {shown(x)}.")
        nodes = finite_array(f"node features of {name}", x[0], "n", d)
        edges = as_pairs(x[1], len(nodes), f"edges of {name}", "nodes")
        features = finite_array(f"edge features of {name}", x[2], len(edges), e)
        return GraphInput(nodes, edges, features, (len(nodes),))

    def n_parameters(self, X, y) -> int:
        self._learn(X, y)
        return self._size

    def inference(self, x, w) -> Numbers:
        return self._best(x, None, w)[0]

    def loss_augmented_inference(self, x, y, w) -> Numbers:
        return self._best(x, y, w)[0]

    def examples(self, X, y, scaling) -> CompiledExamples:
        check_scaling(self, scaling)
        outputs = self._outputs(*self._learn(X, y), True)
        (nodes, edges, parts), (of_node, of_edge) = outputs.graphs, self._columns
        d, at = self.n_features_, self.n_features_ * of_node
        roundings = (
            ScoreRounding(parts.features, nodes, lambda w: (w[:at].reshape(of_node, d).T, w[:0])),
            ScoreRounding(
                parts.edge_features, edges, lambda w: (w[at:].reshape(-1, of_edge), w[:0])
            ),
        )
        of_nodes = np.minimum(2 * np.diff(nodes), of_node) * d
        of_edges = np.minimum(2 * np.diff(edges), of_edge) * self.n_edge_features_
        return CompiledExamples(outputs, self._size, of_nodes + of_edges, roundings)

    @property
    def _size(self) -> int:
        """Number of parameters."""
        of_node, of_edge = self._columns
        return self.n_features_ * of_node + self.n_edge_features_ * of_edge

    def _learn(self, X: Sequence, y: Sequence) -> tuple[list[GraphInput], list[Numbers]]:
        """Every graph with its labels, after checks."""
        first, K = self._as_graph(X[0], "X[0]"), self.n_labels_
        self.n_features_, self.n_edge_features_ = first.nodes.shape[1], first.edge_features.shape[1]
        graphs = [self._known(x, f"X[{i}]") for i, x in enumerate(X)]
        shapes = enumerate(graph.shape for graph in graphs)
        return graphs, [whole_numbers(f"y[{i}]", y[i], K, *shape) for i, shape in shapes]

    def _known(self, x: Any, name: str = "x") -> GraphInput:
        """A graph like those that the model was made for."""
        graph = self._as_graph(x, name, self.n_features_, self.n_edge_features_)
        if not len(graph.nodes):
            raise ValueError(f"{name} must have at least one node, but has none.")
        return graph

    def _one(self, x: Any, y: Any, w: Any) -> tuple[GraphInput, Numbers, Array]:
        """A graph with its labels, 0 if they are not given, and w for compiled code."""
        graph = self._known(x)
        labels = np.zeros(graph.shape) if y is None else y
        labels = whole_numbers("y", labels, self.n_labels_, *graph.shape)
        return graph, labels, frozen(finite_array("w", w, self._size))


def as_pairs(values: Any, n: int, name: str, what: str) -> Numbers:
    """Pairs of two different numbers below n, of shape (m, 2)."""
    pairs = as_numbers(name, values)
    pairs = whole_numbers(name, pairs if pairs.size else pairs.reshape(0, 2), n, "m", 2)
    refuse(name, f"join two different {what}", pairs, pairs[:, :1] == pairs[:, 1:])
    return pairs


def packed(graphs: Sequence[GraphInput], labels: Sequence[Numbers]) -> Graphs:
    """Graphs for compiled code."""
    nodes, edges, edge_features, _ = zip(*graphs, strict=True)
    arcs = [_arcs(len(graph.nodes), graph.edges) for graph in graphs]
    parts = map(np.ravel, labels), *zip(*arcs, strict=True), nodes, edge_features
    joined: Any = (np.concatenate(list(part)) for part in parts)
    return Graphs(ends_of([*map(len, nodes)]), ends_of([*map(len, edges)]), GraphParts(*joined))


def _arcs(n: int, edges: Numbers) -> tuple[NDArray[np.int32], ...]:
    """Starts, heads, mates and places of a graph's arcs; see :class:`GraphParts`."""
    m, tails, heads = len(edges), edges.T.ravel(), edges[:, ::-1].T.ravel()
    order = np.argsort(tails, kind="stable")
    places = np.argsort(order)
    mates = np.roll(places, m)[order]  # the reverse of arc k of 2 m is arc k + m or k - m
    starts = ends_of(np.bincount(tails, minlength=n))
    return tuple(part.astype(np.int32) for part in (starts, heads[order], mates, places[:m]))


def forest_order(n: int, edges: Numbers) -> Numbers | None:
    """The nodes of a forest, each after its only neighbor before it; None if there is a cycle."""
    graph = sp.csr_array((np.ones(len(edges)), tuple(edges.T)), shape=(n, n))
    n_trees, tree = connected_components(graph, directed=False)
    if len(edges) != n - n_trees:
        return None
    roots = np.unique(tree, return_index=True)[1]
    trees = [breadth_first_order(graph, root, False, False) for root in roots]
    return np.concatenate(trees).astype(np.int64)
