"""Graphs whose nodes have several labels, with scores of pairs along edges."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.values import plain, shown
from sklearn_bundle.structured._compiled import pairwise_oracle
from sklearn_bundle.structured._compiled.pairwise_oracle import PairwiseOutputs
from sklearn_bundle.structured.models.base import check_size
from sklearn_bundle.structured.models.examples import (
    Array,
    CompiledExamples,
    Examples,
    check_scaling,
    ends_of,
)
from sklearn_bundle.structured.models.graph_input import (
    GraphInput,
    GraphModel,
    as_graph,
    as_node_labels,
    ordered,
)

Labels = NDArray[np.int64]

_SWEEPS = 200  # maximum of message sweeps before a branch: most graphs take 10 to 50
# Entries of messages in a call of the oracle, in its unit of entries of outputs: on the snake
# graphs a call takes 60 sweeps on average at the learned weights.
_TYPICAL_SWEEPS = 60


class PairwiseGraph(GraphModel):
    """Labels of the nodes of a graph, K of them, with scores of pairs of labels along the edges.

    x is a tuple of the features of the nodes, of shape (n, d), the edges, pairs of numbers of nodes
    of shape (m, 2), and their features, of shape (m, e). y has shape (n,), labels from 0 to K - 1.
    An edge goes from its first node to its second. With w = (W, V), joined in this order, W of
    shape (K, d) and V of shape (e, K, K)::

        <w, phi(x, y)> = sum_i <W[y_i], x_i> + sum_(i, j) sum_f z_ij[f] V[f, y_i, y_j]

        l(y, y') = the number of nodes where y and y' differ

    so phi(x, y) holds the sums of the x_i by label, and those of the edge features z_ij by pairs of
    labels. There are ``K d + e K^2`` parameters, of any sign.

    Inference is exact by max-product if a graph is a forest. On other graphs it is NP-hard to find
    the best labeling: messages along trees [1]_ give a labeling and an upper bound, and branch and
    bound closes the gap between them as far as `max_branches` allows. ``objective_`` uses the upper
    bounds of the maxima, and ``lower_bound_`` uses only labelings, so both are valid; if branch and
    bound stops early, its remaining gap stays in ``dual_gap_``.

    Parameters
    ----------
    n_labels : int, default=None
        K. None means the largest label in the y of `fit`, plus one.
    max_branches : int, default=100
        Maximum number of parts of a graph's labelings that one search examines; each split makes
        two. 0 means only the bound of the messages.

    Attributes
    ----------
    n_labels_ : int
        K, after :meth:`n_parameters`.

    Raises
    ------
    ValueError
        For an x that is not such a tuple, with the number of the example; for features that are not
        finite or differ in number between examples; for edges from a node to itself or to one that
        does not exist; for labels that are not integers from 0 to K - 1; by `fit` with slack
        rescaling.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model=PairwiseGraph()``.
    sklearn_bundle.models.Chain : Sequences, with exact compiled inference.

    References
    ----------
    .. [1] V. Kolmogorov: Convergent tree-reweighted message passing for energy minimization. IEEE
       Transactions on Pattern Analysis and Machine Intelligence 28 (2006), 1568-1583.

    Examples
    --------
    A triangle with one constant feature of the nodes and one of the edges:

    >>> import numpy as np
    >>> from sklearn_bundle.models import PairwiseGraph
    >>> x = np.ones((3, 1)), [[0, 1], [1, 2], [0, 2]], np.ones((3, 1))
    >>> model = PairwiseGraph()
    >>> model.n_parameters([x], [[0, 1, 2]])
    12
    >>> model.joint_feature(x, [0, 1, 2])
    array([1., 1., 1., 0., 1., 1., 0., 0., 1., 0., 0., 0.])
    >>> w = np.r_[2.0, 1.0, 0.0, -np.eye(3).ravel()]  # 0 is best, but neighbors should differ
    >>> sorted(model.inference(x, w).tolist()), round(model.upper_bound(x, [0, 0, 0], 0.0 * w), 9)
    ([0, 0, 1], 3.0)
    """

    exact = False

    def __init__(self, n_labels: int | None = None, *, max_branches: int = 100):
        self.n_labels = n_labels
        self.max_branches = max_branches

    @property
    def _size(self) -> int:
        return self.n_labels_ * (self.n_features_ + self.n_edge_features_ * self.n_labels_)

    def joint_feature(self, x, y) -> np.ndarray:
        graph, K = self._known(x), self.n_labels_
        nodes = np.eye(K)[as_node_labels(y, graph.shape, K, "y")]
        pairs = nodes[graph.edges[:, 0], :, None] * nodes[graph.edges[:, 1], None, :]
        of_edges = graph.edge_features.T @ pairs.reshape(-1, K * K)
        return np.concatenate([(nodes.T @ graph.nodes).ravel(), of_edges.ravel()])

    def loss(self, y, y_hat) -> float:
        y_hat = np.asarray(y_hat)
        return float(np.count_nonzero(as_node_labels(y, y_hat.shape, None, "y") != y_hat))

    def max_loss(self, y) -> float:
        return float(len(y))

    def inference(self, x, w) -> Labels:
        return self._best(x, None, w)[0]

    def loss_augmented_inference(self, x, y, w) -> Labels:
        return self._best(x, y, w)[0]

    def upper_bound(self, x: Any, y: Any, w: np.ndarray) -> float:
        """Upper bound of loss plus score over all labelings.

        Parameters
        ----------
        x : tuple
            A graph.
        y : ndarray of int of shape (n,)
            Its true labels.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        bound : float
            At least ``l(y, y') + <w, phi(x, y')>`` for every y'.
        """
        return self._best(x, y, w)[1] + float(w @ self.joint_feature(x, y))

    def examples(self, X, y, scaling) -> Examples:
        check_scaling(self, scaling)
        graphs, labels = self._learn(X, y)
        K, d, e = self.n_labels_, self.n_features_, self.n_edge_features_
        check_size(self, self._size, f"{K} labels with {d} features of nodes and {e} of edges")
        roundings = self._roundings(
            graphs,
            lambda w: w[: K * d].reshape(K, -1).T,
            lambda w: w[K * d :].reshape(-1, K * K),
        )
        outputs, exact, _ = self._outputs(graphs, labels, 1.0)
        n, m = np.diff(outputs.nodes), np.diff(outputs.edges)
        longest = np.minimum(2 * n, K) * d + np.minimum(2 * m, K * K) * e
        examples = CompiledExamples(outputs, self._size, longest, roundings)
        examples.exact = exact
        sweeps = 1 if exact else _TYPICAL_SWEEPS
        examples.oracle_cost = float(np.mean(n * d * K + m * (e + 2 * sweeps) * K * K))
        return examples

    def _learn(self, X, y):
        for name, least in (("n_labels", 1), ("max_branches", 0)):
            value = plain(getattr(self, name))
            known = isinstance(value, int) and not isinstance(value, bool) and value >= least
            if not (known or (name == "n_labels" and value is None)):
                raise ValueError(
                    f"{name} must be an integer that is at least {least}, got {shown(value)}."
                )
        graphs, labels = super()._learn(X, y)
        largest = max(int(y.max()) for y in labels)
        self.n_labels_ = largest + 1 if self.n_labels is None else int(self.n_labels)
        return graphs, labels

    def _as_graph(self, x, name):
        return as_graph(x, name)

    def _as_labels(self, y, shape, name) -> Labels:
        return as_node_labels(y, shape, self.n_labels, name)

    def _best(self, x: Any, y: Any, w: Array) -> tuple[Labels, float]:
        """The best labels, with losses if y is given, and the bound relative to the score of y."""
        graph, w = self._known(x), self._weights(w)
        given = np.zeros(graph.shape) if y is None else y
        truth = as_node_labels(given, graph.shape, self.n_labels_, "y")
        outputs, _, (order,) = self._outputs([graph], [truth], 0.0 if y is None else 1.0)
        found, labels = np.empty_like(truth), np.empty_like(truth)
        bounds = pairwise_oracle.labeling(outputs, w, found)
        labels[order] = found
        return labels, float(bounds[0])

    def _outputs(
        self, graphs: list[GraphInput], labels: list[Labels], cost: float
    ) -> tuple[PairwiseOutputs, bool, list[NDArray[np.int64]]]:
        """Graphs for compiled code, whether all are forests, and the orders of nodes."""
        packed = [ordered(graph) for graph in graphs]
        orders = [graph.order for graph in packed]
        edges = np.concatenate([graph.edges for graph in packed])
        outputs = PairwiseOutputs(
            self.n_labels_,
            self.n_features_,
            self.n_edge_features_,
            _SWEEPS,
            int(self.max_branches),
            cost,
            np.concatenate([y[order] for y, order in zip(labels, orders, strict=True)]),
            ends_of([len(order) for order in orders]),
            ends_of([len(graph.edges) for graph in graphs]),
            *(np.ascontiguousarray(end) for end in edges.T),
            ends_of(np.concatenate([graph.degrees for graph in packed])),
            np.concatenate([graph.incident for graph in packed]),
            np.concatenate([graph.shares for graph in packed]),
            np.concatenate(
                [graph.nodes[order].ravel() for graph, order in zip(graphs, orders, strict=True)]
            ),
            np.concatenate([graph.edge_features.ravel() for graph in graphs]),
        )
        return outputs, all(graph.forest for graph in packed), orders
