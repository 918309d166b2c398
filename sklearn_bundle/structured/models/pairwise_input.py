"""Graphs from users: checks, and the order in which messages pass through them."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from sklearn_bundle.core.values import as_numbers, shown

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class GraphInput(NamedTuple):
    """A checked x."""

    nodes: Array  # of shape (n, d)
    edges: Numbers  # of shape (m, 2)
    edge_features: Array  # of shape (m, e)


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


def as_graph(x: Any, name: str) -> GraphInput:
    """Convert x to a graph.

    Raises
    ------
    ValueError
        If it is not a graph; the message has ``name``.
    """
    if not isinstance(x, tuple | list) or len(x) != 3:
        size = f" of {len(x)}" if isinstance(x, tuple | list) else ""
        raise ValueError(
            f"{name} must be a tuple of three: features of nodes of shape (n, d), edges of shape "
            f"(m, 2) and features of edges of shape (m, e); got a {type(x).__name__}{size}."
        )
    nodes = _matrix(x[0], f"{name}[0], the features of nodes,")
    if not len(nodes):
        raise ValueError(f"{name}[0] must have a row of features for each node, but has none.")
    edges = _whole(x[1], f"{name}[1], the edges,")
    edges = edges.reshape(0, 2) if edges.size == 0 else edges
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"{name}[1], the edges, must have shape (m, 2), got {edges.shape}.")
    wrong = (edges < 0) | (edges >= len(nodes))
    wrong[:, 0] |= edges[:, 0] == edges[:, 1]
    if wrong.any():
        at = int(np.flatnonzero(wrong.any(axis=1))[0])
        raise ValueError(
            f"{name}[1], the edges, must join two different nodes, with numbers from 0 to "
            f"{len(nodes) - 1}, but edge {at} is {shown(edges[at])}."
        )
    features = _matrix(x[2], f"{name}[2], the features of edges,")
    if len(features) != len(edges):
        raise ValueError(
            f"{name}[2], the features of edges, must have a row for each of the {len(edges)} "
            f"edges, but has {len(features)}."
        )
    return GraphInput(nodes, edges, features)


def check_widths(graph: GraphInput, n_features: int, n_edge_features: int, name: str) -> None:
    """Refuse a graph with different numbers of features."""
    for part, width, what in ((0, n_features, "node"), (2, n_edge_features, "edge")):
        if graph[part].shape[1] != width:
            raise ValueError(
                f"{name}[{part}] must have {width} features for each {what}, as the first graph "
                f"that was fitted, but has {graph[part].shape[1]}."
            )


def as_labels(y: Any, n_nodes: int, n_labels: int | None, name: str) -> Numbers:
    """Labels of nodes, from 0 and below ``n_labels`` if it is known.

    Raises
    ------
    ValueError
        If they are invalid; the message has ``name``.
    """
    labels = _whole(y, name)
    if labels.shape != (n_nodes,):
        raise ValueError(
            f"{name} must have a label for each of the {n_nodes} nodes, got shape {labels.shape}."
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= (np.inf if n_labels is None else n_labels)))
    if len(wrong):
        most = "" if n_labels is None else f" to {n_labels - 1}"
        raise ValueError(
            f"{name} must hold labels from 0{most}, but node {wrong[0]} has {labels[wrong[0]]}."
        )
    return labels


def ordered(graph: GraphInput) -> Ordered:
    """The nodes in numerical order or, in a forest, from roots to leaves."""
    n, m = len(graph.nodes), len(graph.edges)
    ones = np.ones(m), (graph.edges[:, 0], graph.edges[:, 1])
    adjacency = sp.csr_array(ones, shape=(n, n)) if m else sp.csr_array((n, n))
    n_components, component = connected_components(adjacency, directed=False)
    forest = m == n - n_components
    order = np.arange(n)
    if forest and m:
        roots = np.unique(component, return_index=True)[1]
        trees = [breadth_first_order(adjacency, root, False, False) for root in roots]
        order = np.concatenate(trees).astype(np.int64)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    edges = place[graph.edges]
    ends = edges.T.ravel()
    incident = np.argsort(ends, kind="stable") % max(m, 1)
    earlier = np.bincount(edges.max(axis=1), minlength=n)
    later = np.bincount(edges.min(axis=1), minlength=n)
    shares = np.ones(n) if forest else 1.0 / np.maximum(np.maximum(earlier, later), 1)
    return Ordered(order, edges, np.bincount(ends, minlength=n), incident, shares, forest)


def _matrix(values: Any, name: str) -> Array:
    matrix = as_numbers(name, values)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be 2-dimensional, got shape {matrix.shape}.")
    wrong = np.argwhere(~np.isfinite(matrix))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(f"{name} must be finite, but row {i} has {matrix[i, j]} in column {j}.")
    return matrix


def _whole(values: Any, name: str) -> Numbers:
    numbers = as_numbers(name, values)
    # All larger float64 numbers are integers, and the cast cannot take infinity.
    wrong = np.flatnonzero((numbers != np.floor(numbers)) | (np.abs(numbers) >= 2.0**53))
    if len(wrong):
        raise ValueError(
            f"{name} must be whole numbers, but one of them is {shown(numbers.ravel()[wrong[0]])}."
        )
    return numbers.astype(np.int64)
