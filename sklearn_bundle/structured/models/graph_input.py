"""Graphs from users: what their models share, checks, and the order in which messages pass."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.examples import Array, ends_of

Numbers = NDArray[np.int64]


class GraphInput(NamedTuple):
    """A checked x."""

    nodes: np.ndarray  # of shape (n, d)
    edges: Numbers  # of shape (m, 2)
    edge_features: np.ndarray  # of shape (m, e)
    shape: tuple[int, ...]  # of the labels


class GraphModel(StructuredModel, ABC):
    """Base of models of graphs.

    The numbers of features of nodes and edges are learned from the data.
    """

    n_features_: int
    n_edge_features_: int

    @property
    @abstractmethod
    def _size(self) -> int:
        """Number of parameters."""

    @abstractmethod
    def _as_graph(self, x: Any, name: str) -> GraphInput:
        """An input as a graph, or ValueError; messages call it ``name``."""

    def n_parameters(self, X, y) -> int:
        self._learn(X, y)
        return self._size

    def _learn(self, X: Sequence, y: Sequence) -> tuple[list[GraphInput], list[Numbers]]:
        """Every graph with its labels, after checks."""
        graphs = [self._as_graph(x, f"X[{i}]") for i, x in enumerate(X)]
        self.n_features_ = graphs[0].nodes.shape[1]
        self.n_edge_features_ = graphs[0].edge_features.shape[1]
        for i, graph in enumerate(graphs):
            self._check_widths(graph, f"X[{i}]", "X[0]")
        named = enumerate(zip(y, graphs, strict=True))
        return graphs, [self._as_labels(y_i, graph.shape, f"y[{i}]") for i, (y_i, graph) in named]

    @abstractmethod
    def _as_labels(self, y: Any, shape: tuple[int, ...], name: str) -> Numbers:
        """Checked labels of nodes."""

    def _known(self, x: Any) -> GraphInput:
        """A graph like those that the model was made for."""
        graph = x if isinstance(x, GraphInput) else self._as_graph(x, "x")
        self._check_widths(graph, "x", "the training data")
        return graph

    def _check_widths(self, graph: GraphInput, name: str, other: str) -> None:
        of_nodes = "node", self.n_features_, graph.nodes
        of_edges = "edge", self.n_edge_features_, graph.edge_features
        for what, right, features in (of_nodes, of_edges):
            if features.shape[1] != right:
                raise ValueError(
                    f"{name} must have {right} {what} features, as {other}, but has "
                    f"{features.shape[1]}."
                )

    def _weights(self, w: ArrayLike) -> Array:
        """w for compiled code."""
        w = frozen(np.ascontiguousarray(w, dtype=np.float64))
        if w.shape != (self._size,):
            raise ValueError(f"w must have the shape ({self._size},), but has {w.shape}.")
        return w

    def _roundings(
        self,
        graphs: list[GraphInput],
        of_nodes: Callable[[Array], Array],
        of_edges: Callable[[Array], Array],
    ) -> tuple[ScoreRounding, ...]:
        """Of the scores of nodes and of edges, whose weights the functions select, as columns."""
        roundings = []
        for part, own in ((0, of_nodes), (2, of_edges)):
            rows = [graph[part] for graph in graphs]
            starts = ends_of([len(each) for each in rows])
            taken_apart = partial(_columns, own)
            roundings.append(ScoreRounding(np.concatenate(rows), starts, taken_apart))
        return tuple(roundings)


def _columns(own: Callable[[Array], Array], w: Array) -> tuple[Array, Array]:
    return own(w), w[:0]


def as_graph(x: Any, name: str, *, single: bool = False) -> GraphInput:
    """Convert x to a graph.

    Features are float64, or stay float32 with ``single``.

    Raises
    ------
    ValueError
        If it is not a graph; the message has ``name``.
    """
    if not (isinstance(x, list | tuple) and len(x) == 3):
        parts = f" of length {len(x)}" if isinstance(x, list | tuple) else ""
        raise ValueError(
            f"{name} must be a tuple (node_features, edges, edge_features), got a "
            f"{type(x).__name__}{parts}."
        )
    nodes = as_features(x[0], f"node features of {name}", 2, single=single)
    if not len(nodes):
        raise ValueError(f"{name} must have at least one node, but has none.")
    edges = as_pairs(x[1], len(nodes), f"edges of {name}", "nodes")
    edge_features = as_features(x[2], f"edge features of {name}", 2, single=single)
    if len(edge_features) != len(edges):
        raise ValueError(
            f"edge features of {name} must have a row for each of the {len(edges)} edges, got "
            f"{len(edge_features)}."
        )
    return GraphInput(nodes, edges, edge_features, (len(nodes),))


def as_features(values: Any, name: str, ndim: int, *, single: bool) -> np.ndarray:
    """A finite C-ordered array of float64; with ``single`` float32 if it was float32."""
    if not (single and isinstance(values, np.ndarray) and values.dtype == np.float32):
        values = as_numbers(name, values)
    if values.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimensions, but the shape is {values.shape}.")
    if not np.isfinite(values).all():
        at = tuple(map(int, np.argwhere(~np.isfinite(values))[0]))
        raise ValueError(f"{name} must be finite, but the entry at {at} is {values[at]}.")
    return np.ascontiguousarray(values)


def as_pairs(values: Any, n: int, name: str, what: str) -> Numbers:
    """Pairs of two different numbers below n, of shape (m, 2)."""
    pairs = as_numbers(name, values)
    pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{name} must be pairs of {what}, shape (m, 2), but have {pairs.shape}.")
    wrong = (pairs != np.floor(pairs)) | (pairs < 0) | (pairs >= n)
    wrong[:, 0] |= pairs[:, 0] == pairs[:, 1]
    if wrong.any():
        at = int(wrong.any(axis=1).argmax())
        raise ValueError(
            f"{name} must join two different {what}, with numbers from 0 to {n - 1}, but number "
            f"{at} is {shown(pairs[at])}."
        )
    return pairs.astype(np.int64)


def as_node_labels(y: Any, shape: tuple[int, ...], n_labels: int | None, name: str) -> Numbers:
    """Labels of nodes, from 0 and below ``n_labels`` if it is known.

    Raises
    ------
    ValueError
        If they are invalid; the message has ``name``.
    """
    labels = as_numbers(name, y)
    if labels.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, but has {labels.shape}.")
    most = 2.0**53 if n_labels is None else n_labels  # a cast of larger numbers may overflow
    wrong = ~((labels >= 0) & (labels < most) & (labels == np.floor(labels)))
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        to_last = "on" if n_labels is None else f"to {n_labels - 1}"
        raise ValueError(
            f"{name} must hold whole numbers as labels, from 0 {to_last}, but the one at "
            f"{shown(at)} is {labels[at]:g}."
        )
    return labels.astype(np.int64)


def forest_order(n: int, edges: Numbers) -> Numbers | None:
    """The nodes of a forest, each after its only neighbor before it; None if there is a cycle."""
    graph = sp.csr_array((np.ones(len(edges)), tuple(edges.T)), shape=(n, n))
    n_trees, tree = connected_components(graph, directed=False)
    if len(edges) != n - n_trees:
        return None
    roots = np.unique(tree, return_index=True)[1]
    trees = [breadth_first_order(graph, root, False, False) for root in roots]
    return np.concatenate(trees).astype(np.int64)


class Ordered(NamedTuple):
    """The order in which messages pass the nodes of a graph.

    In a forest each node has at most one earlier neighbor.
    """

    order: Numbers  # the node at each place
    edges: Numbers  # of shape (m, 2), pairs of places
    degrees: Numbers  # of the places
    incident: Numbers  # edges of the first place, of the second, ...
    shares: Array  # share of a node's score for each chain or tree through its place
    forest: bool


def ordered(graph: GraphInput) -> Ordered:
    """The nodes in numerical order or, in a forest, from roots to leaves."""
    n, m = len(graph.nodes), len(graph.edges)
    of_forest = forest_order(n, graph.edges)
    order = np.arange(n) if of_forest is None else of_forest
    edges = np.argsort(order)[graph.edges]  # places of the nodes
    ends = edges.T.ravel()
    incident = np.argsort(ends, kind="stable") % max(m, 1)
    shares = np.ones(n)
    if of_forest is None:
        earlier = np.bincount(edges.max(axis=1), minlength=n)
        later = np.bincount(edges.min(axis=1), minlength=n)
        shares /= np.maximum(np.maximum(earlier, later), 1)
    forest = of_forest is not None
    return Ordered(order, edges, np.bincount(ends, minlength=n), incident, shares, forest)
