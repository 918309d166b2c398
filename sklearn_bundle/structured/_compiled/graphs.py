"""Graphs for compiled code: their nodes, edges and true labels, one graph after the other."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner


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
