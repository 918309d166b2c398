"""Graphs whose nodes have several labels, with scores of pairs along edges."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_scalar

from sklearn_bundle.structured._compiled.pairwise_oracle import PairwiseOutputs, labeling
from sklearn_bundle.structured.models.base import check_size
from sklearn_bundle.structured.models.examples import Array, CompiledExamples, whole_numbers
from sklearn_bundle.structured.models.graph import GraphInput, GraphModel, forest_order, packed

Labels = NDArray[np.int64]

_MOST_LABELS = 1 << 31  # labels are below where their number is not known
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
    TypeError
        For an `n_labels` or `max_branches` that is no integer, by `fit`.
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

    def joint_feature(self, x, y) -> np.ndarray:
        graph, K = self._known(x), self.n_labels_
        nodes = np.eye(K)[whole_numbers("y", y, K, *graph.shape)]
        pairs = nodes[graph.edges[:, 0], :, None] * nodes[graph.edges[:, 1], None, :]
        of_edges = graph.edge_features.T @ pairs.reshape(-1, K * K)
        return np.concatenate([(nodes.T @ graph.nodes).ravel(), of_edges.ravel()])

    def loss(self, y, y_hat) -> float:
        y_hat = np.asarray(y_hat)
        return float(np.count_nonzero(whole_numbers("y", y, _MOST_LABELS, *y_hat.shape) != y_hat))

    def max_loss(self, y) -> float:
        return float(len(y))

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

    def examples(self, X, y, scaling) -> CompiledExamples:
        examples = super().examples(X, y, scaling)
        graphs, shares = examples.structure.graphs, examples.structure.shares
        examples.exact = bool((shares == 1.0).all())  # of forests
        K, d, e = self.n_labels_, self.n_features_, self.n_edge_features_
        of_edges = (e + 2 * (1 if examples.exact else _TYPICAL_SWEEPS)) * K * K
        entries = graphs.nodes[-1] * d * K + graphs.edges[-1] * of_edges
        examples.oracle_cost = float(entries) / examples.n_examples
        return examples

    def _learn(self, X, y):
        check_scalar(self.max_branches, "max_branches", Integral, min_val=0)
        if self.n_labels is not None:
            check_scalar(self.n_labels, "n_labels", Integral, min_val=1)
        self.n_labels_ = int(self.n_labels or _MOST_LABELS)
        graphs, labels = super()._learn(X, y)
        if self.n_labels is None:
            self.n_labels_ = 1 + int(np.concatenate(labels).max())
        K, d, e = self.n_labels_, self.n_features_, self.n_edge_features_
        self._columns = K, K * K
        check_size(self, self._size, f"{K} labels with {d} features of nodes and {e} of edges")
        return graphs, labels

    def _outputs(self, graphs, labels, augmented) -> PairwiseOutputs:
        orders, graphs, shares = zip(*map(_ordered, graphs), strict=True)
        labels = [y[order] for y, order in zip(labels, orders, strict=True)]
        settings = self.n_labels_, int(self.max_branches), float(augmented)
        return PairwiseOutputs(packed(graphs, labels), np.concatenate(shares), *settings)

    def _best(self, x, y, w) -> tuple[Labels, float]:
        graph, truth, w = self._one(x, y, w)
        labels = np.empty_like(truth)
        found, bound = labeling(self._outputs([graph], [truth], y is not None), w)
        labels[_ordered(graph)[0]] = found
        return labels, bound


def _ordered(graph: GraphInput) -> tuple[Labels, GraphInput, Array]:
    """The nodes in numerical order or, in a forest, from roots to leaves; the graph in this order.

    With the share of each node's score for each chain or tree through it. In a forest each node has
    at most one earlier neighbor, and all shares are one.
    """
    n = len(graph.nodes)
    of_forest = forest_order(n, graph.edges)
    order = np.arange(n) if of_forest is None else of_forest
    edges = np.argsort(order)[graph.edges]  # places of the nodes
    chains = np.ones(n)
    if of_forest is None:
        for ends in (edges.max(axis=1), edges.min(axis=1)):
            chains = np.maximum(chains, np.bincount(ends, minlength=n))
    return order, graph._replace(nodes=graph.nodes[order], edges=edges), 1.0 / chains
