"""Graphs and images whose nodes have labels 0 and 1, with a preference for equal neighbors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled.graph_oracle import (
    GraphOutputs,
    GraphParts,
    Graphs,
    best_labels,
)
from sklearn_bundle.structured.models.base import StructuredModel, cost_matrix
from sklearn_bundle.structured.models.examples import (
    Array,
    CompiledExamples,
    check_scaling,
    ends_of,
    finite_array,
    refuse,
    whole_numbers,
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


# Cost of the oracle without its product with the node features, in stored entries read in the same
# time: 0.1 microseconds per node, measured on images of 600 and of 10,000 nodes.
_CUT_ENTRIES = 60


class _Cut(GraphModel):
    """Base of models whose best labels are a minimum cut."""

    cost: ArrayLike | None

    n_labels_ = 2
    _columns = 1, 1

    def nonnegative(self) -> NDArray[np.int64]:
        return np.arange(self.n_features_, self._size)

    def joint_feature(self, x, y) -> np.ndarray:
        graph = self._known(x)
        labels = whole_numbers("y", y, 2, *graph.shape).ravel()
        first, second = labels[graph.edges].T
        unequal = (first != second).astype(np.float64)
        return np.concatenate([labels @ graph.nodes, -unequal @ graph.edge_features])

    def loss(self, y, y_hat) -> float:
        y_hat = np.asarray(y_hat)
        labels = whole_numbers("y", y, 2, *y_hat.shape)
        return float(cost_matrix(self.cost, 2)[labels, y_hat].sum())

    def max_loss(self, y) -> float:
        labels = whole_numbers("y", y, 2, *np.shape(y))
        return float(cost_matrix(self.cost, 2).max(axis=1)[labels].sum()) or 1.0

    def examples(self, X, y, scaling) -> CompiledExamples:
        examples = super().examples(X, y, scaling)
        examples.nonnegative = self.nonnegative()
        n_nodes = examples.structure.graphs.nodes[-1]
        examples.n_entries = int(n_nodes) * (self.n_features_ + _CUT_ENTRIES)
        examples.oracle_cost = examples.n_entries / examples.n_examples
        return examples

    def _outputs(self, graphs, labels, augmented) -> GraphOutputs:
        costs = cost_matrix(self.cost, 2) * augmented
        return GraphOutputs(packed(graphs, labels), float(costs[0, 1]), float(costs[1, 0]))

    def _best(self, x, y, w):
        graph, labels, w = self._one(x, y, w)
        negative = (w < 0.0) & (np.arange(self._size) >= self.n_features_)
        refuse("w", "not be negative for edge features: no cut finds the best labels", w, negative)
        found, bound = best_labels(self._outputs([graph], [labels], y is not None), w)
        return found.reshape(graph.shape), bound


class Graph(_Cut):
    """Nodes labeled 0 or 1, with edges that favor equal labels: exact, by minimum cuts.

    x is a tuple ``(node_features, edges, edge_features)`` of arrays of shape (n, d), (m, 2) and
    (m, e); y is an array of shape (n,) of 0 and 1. The score is that of [1]_::

        <w, phi(x, y)> = sum_a y_a <w_1, x_a> - sum_(a, b) [y_a != y_b] <w_2, z_ab>

    where x_a are the features of node a and z_ab >= 0 those of the edge from a to b; ``w`` is w_1,
    of length d, and then w_2, of length e. ``w_2 >= 0`` is kept, so that edges can only favor equal
    labels, and a minimum cut finds the best labels [2]_. One row of w_1 is enough for two labels:
    weights of label 0 would only be a second copy with the opposite sign. A constant node feature 1
    is a bias; a constant edge feature 1 is the Potts model.

    The loss is the number of nodes with a wrong label (the Hamming loss), or the sum of their
    costs. It is not a mean, so graphs with more nodes count for more; with a loss per node, the
    equivalent strength would be `reg_lambda` divided by the mean number of nodes.

    Parameters
    ----------
    cost : array-like of shape (2, 2), default=None
        Cost of predicting label k for a node with label y, y the row: at least 0, and 0 on the
        diagonal, in the unit of the scores. None means 1 for every mistake.

    Raises
    ------
    ValueError
        By `fit`, with the number of the graph: if its three parts do not match; for nonfinite
        entries, no nodes, edges from a node to itself or to a node that does not exist, negative
        edge features, other numbers of features than in the first graph, or labels other than 0 and
        1; if `cost` is not as described above; for ``scaling="slack"``. By `predict`, for the same
        in X.

    See Also
    --------
    Grid : The same for images, with automatic edges.

    Notes
    -----
    Edges have no direction; an edge given twice counts twice. Features are dense, and are converted
    to float64. Among labels of equal score, those with the fewest ones are returned.

    `fit` computes cuts in compiled code, in double precision. `objective_` uses the bound that the
    flow of each cut proves: no labels score higher, despite rounding in the flow.

    References
    ----------
    .. [1] H. Yu, J. Rousu: An efficient method for large margin parameter optimization in
       structured prediction problems. University of Helsinki, 2007; section 4.1.
    .. [2] D. M. Greig, B. T. Porteous, A. H. Seheult: Exact maximum a posteriori estimation for
       binary images. Journal of the Royal Statistical Society B 51 (1989), 271-279.

    Examples
    --------
    A chain of three nodes with a doubtful one in the middle:

    >>> import numpy as np
    >>> from sklearn_bundle.models import Graph
    >>> x = np.array([[2.0], [-0.5], [2.0]]), np.array([[0, 1], [1, 2]]), np.ones((2, 1))
    >>> model = Graph()
    >>> model.n_parameters([x], [np.array([1, 1, 1])])
    2
    >>> model.joint_feature(x, [1, 0, 1])
    array([ 4., -2.])
    >>> model.inference(x, np.array([1.0, 0.0])), model.inference(x, np.array([1.0, 1.0]))
    (array([1, 0, 1]), array([1, 1, 1]))
    """

    def __init__(self, *, cost: ArrayLike | None = None):
        self.cost = cost

    def _as_graph(self, x, name, d="d", e="e"):
        graph = super()._as_graph(x, name, d, e)
        values = graph.edge_features
        refuse(f"edge features of {name}", "not be negative", values, values < 0.0)
        return graph


class Grid(_Cut):
    """Images with pixels labeled 0 or 1, with a preference for equal neighbors: segmentation.

    x is an array of shape (h, w, d) with d features per pixel; y is an array of shape (h, w) of 0
    and 1. The model is :class:`Graph` with an edge from each pixel to the next one in its row and
    in its column::

        <w, phi(x, y)> = sum_a y_a <w_1, x_a> - sum_(a, b) [y_a != y_b] <w_2, z_ab>,    w_2 >= 0

    The features z of an edge are 1 and 0 for neighbors in a row, 0 and 1 in a column. With
    `contrast` there is a third, ``exp(-D_ab / (2 D))``: D_ab is the squared distance of the two
    pixels in these features, and D its mean over the edges of the image, as in [2]_. It lowers the
    cost of a border of labels at a border in the image. ``w`` is w_1, of length d, and then w_2, of
    length 2 or 3.

    The loss is the number of pixels with a wrong label, or the sum of their costs. It is not a
    mean, so large images count for more. Images may differ in size.

    Parameters
    ----------
    contrast : array-like of int, default=None
        Indices of the features, usually the colors, that define the third feature of an edge. None
        means no third feature.
    cost : array-like of shape (2, 2), default=None
        Cost of predicting label k for a pixel with label y, y the row: at least 0, and 0 on the
        diagonal, in the unit of the scores. None means 1 for every mistake.

    Raises
    ------
    ValueError
        By `fit`, with the number of the image: if it is not three-dimensional, has no pixels,
        nonfinite entries or another number of features than the first; if its labels do not have
        its height and width, or are not 0 and 1; if `contrast` or `cost` are not as described
        above; for ``scaling="slack"``. By `predict`, for the same in X.

    See Also
    --------
    Graph : With your own edges and edge features.

    References
    ----------
    .. [1] H. Yu, J. Rousu: An efficient method for large margin parameter optimization in
       structured prediction problems. University of Helsinki, 2007; section 4.1.
    .. [2] C. Rother, V. Kolmogorov, A. Blake: "GrabCut": interactive foreground extraction using
       iterated graph cuts. ACM Transactions on Graphics 23 (2004), 309-314; equations (4), (5).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.models import Grid
    >>> image = np.array([[1.0, 1.0, -1.0], [1.0, -0.5, -1.0]])[:, :, None]
    >>> model = Grid()
    >>> model.n_parameters([image], [np.ones((2, 3), int)])
    3
    >>> model.joint_feature(image, [[1, 1, 0], [1, 0, 0]])  # two borders in rows, one in a column
    array([ 3., -2., -1.])
    >>> model.inference(image, np.array([1.0, 0.3, 0.3]))
    array([[1, 1, 0],
           [1, 0, 0]])
    >>> model.inference(image, np.array([1.0, 0.8, 0.8]))
    array([[1, 1, 0],
           [1, 1, 0]])
    """

    def __init__(self, *, contrast: ArrayLike | None = None, cost: ArrayLike | None = None):
        self.contrast = contrast
        self.cost = cost

    def _as_graph(self, x, name, d="d", e="e"):
        image = finite_array(name, x, "h", "w", d)
        h, w, d = image.shape
        numbers = np.arange(h * w).reshape(h, w)
        rows = np.stack([numbers[:, :-1], numbers[:, 1:]], axis=-1).reshape(-1, 2)
        columns = np.stack([numbers[:-1], numbers[1:]], axis=-1).reshape(-1, 2)
        features, edges = image.reshape(-1, d), np.concatenate([rows, columns])
        edge_features = np.repeat(np.eye(2), [len(rows), len(columns)], axis=0)
        if self.contrast is not None:
            colors = features[:, whole_numbers("contrast", self.contrast, d, "k")]
            edge_features = np.c_[edge_features, _similarities(colors, edges)]
        return GraphInput(features, edges, edge_features, (h, w))


def _similarities(colors: Array, edges: NDArray[np.int64]) -> Array:
    # Only ratios count: a power of two keeps squares in range without rounding.
    _, exponent = np.frexp(np.abs(colors).max(initial=0.0))
    first, second = np.ldexp(colors, -exponent)[edges].transpose(1, 0, 2)
    distances = ((first - second) ** 2).sum(axis=1)
    mean = distances.sum() / max(len(distances), 1)
    return np.exp(-distances / (2.0 * mean)) if mean > 0.0 else np.ones(len(edges))
