"""Sets of labels per row, with scores of pairs of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import rel_entr

from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled.multilabel_oracle import MultilabelOutputs, best_sets
from sklearn_bundle.structured.models.base import StructuredModel, check_size
from sklearn_bundle.structured.models.classes import Matrix, n_entries, node_rows
from sklearn_bundle.structured.models.examples import (
    Array,
    CompiledExamples,
    Examples,
    check_scaling,
)
from sklearn_bundle.structured.models.graph import as_pairs, forest_order

Numbers = NDArray[np.int64]

_DECIMALS = 12  # of mutual information in nats: what is beyond is rounding, and breaks no ties


class WeightedRows(NamedTuple):
    """All inputs of a multilabel model, as checked by an estimator."""

    X: Matrix  # of shape (n, d): CSR or C-ordered, float32 or float64
    weights: Array  # of sum one


class Multilabel(StructuredModel):
    """A set of labels for each row, with scores of pairs of labels.

    x is a row of d features, y a row of L numbers, 1 for labels in the set and 0 for the others.
    With w = (W, b, V), joined in this order and of shapes (L, d), (L,) and (E, 2, 2)::

        <w, phi(x, y)> = sum_l y_l (<W_l, x> + b_l) + sum_(k, l) V_kl[y_k, y_l]

        l(y, y') = the number of labels in which y and y' differ

    where the second sum is over the E pairs of `edges`: phi(x, y) has x and 1 at the places of the
    labels in y, and for each pair an indicator of its two states. All parameters are regularized.
    Without pairs, the hinge loss gives one linear support vector machine per label.

    The pairs form a forest, and inference is exact, by max-product [1]_. It is compiled: the
    methods of :class:`~sklearn_bundle.models.StructuredModel` for one example are not there.

    Parameters
    ----------
    edges : "tree", None or list of pairs of int, default="tree"
        The pairs of labels, without a cycle. "tree" is the tree of largest mutual information
        between the labels of the training data, by their weights [2]_. None means no pairs.
    fit_intercept : bool, default=True
        Whether to fit the b_l; otherwise they are 0.

    Attributes
    ----------
    edges_ : ndarray of int of shape (E, 2)
        The pairs of the fitted model; the lower number first unless `edges` is a list.
    n_labels_ : int
        L of the fitted model.

    Raises
    ------
    ValueError
        By `fit`, if `edges` is something else, names a label that does not exist, joins a label
        with itself or has a cycle; for slack rescaling; for a y with values other than 0 and 1.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="multilabel"`` is this model.

    References
    ----------
    .. [1] J. Pearl: Probabilistic reasoning in intelligent systems. Morgan Kaufmann, 1988.
    .. [2] C. Chow, C. Liu: Approximating discrete probability distributions with dependence trees.
       IEEE Transactions on Information Theory 14 (1968), 462-467.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import StructuredSVM
    >>> from sklearn_bundle.models import Multilabel
    >>> X, Y = np.array([[1.0], [2.0], [-1.0], [0.5]]), [[1, 1], [1, 1], [0, 0], [1, 0]]
    >>> model = StructuredSVM(Multilabel([(0, 1)]), reg_lambda=0.1, random_state=0).fit(X, Y)
    >>> model.w_.shape  # 2 weights, 2 biases, 4 states of a pair
    (8,)
    >>> model.predict(X[:1])
    array([[1, 1]])
    """

    n_labels_: int
    edges_: Numbers

    def __init__(
        self, edges: str | Sequence[tuple[int, int]] | None = "tree", *, fit_intercept: bool = True
    ):
        self.edges = edges
        self.fit_intercept = fit_intercept

    def best_sets(self, X: Matrix, w: Array) -> Numbers:
        """The best sets for many rows, after :meth:`n_parameters`.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Rows.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        Y : ndarray of int of shape (n, n_labels)
            Values 0 and 1.
        """
        outputs = self._outputs(X, np.zeros((X.shape[0], self.n_labels_), np.int64), 0.0)
        found = np.empty_like(outputs.truths)
        best_sets(outputs, frozen(w), found)
        return found

    def examples(self, X: Any, y: Numbers, scaling: str) -> Examples:
        check_scaling(self, scaling)
        X, weights, L = X.X, X.weights, y.shape[1]
        self.n_labels_, self.edges_ = L, self._pairs(y, weights)
        (n, d), E = X.shape, len(self.edges_)
        size = L * (d + 1) + 4 * E
        check_size(self, size, f"{L} labels with {d} features")
        outputs = self._outputs(X, y, 1.0)
        rounding = ScoreRounding(
            X,
            np.arange(n + 1),
            lambda w: (w[: L * d].reshape(L, d).T, w[L * d :]),
            columns=L,
            others=L + 2 * E,
        )
        entries = n_entries(outputs.rows, n)
        longest = L * (entries + 1) + 2 * E + 1
        examples = CompiledExamples(outputs, size, longest, (rounding,))
        examples.oracle_cost = float(np.mean(entries) * L + 8 * (E + L))
        return examples

    def _pairs(self, sets: Numbers, weights: Array) -> Numbers:
        if self.edges is None:
            return np.empty((0, 2), np.int64)
        if not isinstance(self.edges, str):
            return as_pairs(self.edges, sets.shape[1], "edges", "labels")
        if self.edges != "tree":
            raise ValueError(
                "edges must be 'tree', None or a list of pairs of numbers of labels, "
                f"got {shown(self.edges)}."
            )
        return _tree(sets, weights)

    def _outputs(self, X: Matrix, sets: Numbers, cost: float) -> MultilabelOutputs:
        """Rows in the form for compiled code; ``cost`` is that of a wrong label."""
        L, edges = self.n_labels_, self.edges_
        order, above, parents = forest_order(L, edges), np.full(L, -1), np.full(L, -1)
        if order is None:
            raise ValueError("edges of Multilabel must have no cycle: use 'tree'.")
        numbers = np.arange(len(edges))
        later = np.argsort(order)[edges].argmax(axis=1)  # ends that are below the other ones
        below = edges[numbers, later]
        above[below], parents[below] = numbers, edges[numbers, 1 - later]
        swapped = np.zeros(L, np.bool_)
        swapped[below] = later == 0
        forest = order, above, parents, swapped
        bias = float(bool(self.fit_intercept))
        return MultilabelOutputs(node_rows(X, L), bias, cost, sets, *forest)


def as_sets(y: Any) -> Numbers:
    """Sets of labels as rows of 0 and 1."""
    sets = as_numbers("y", y.toarray() if sp.issparse(y) else y)
    if sets.ndim != 2 or not sets.shape[1]:
        raise ValueError(
            "y must be an indicator matrix of shape (n_samples, n_labels) for a multilabel model, "
            f"got shape {sets.shape}. Convert lists with sklearn.preprocessing.MultiLabelBinarizer."
        )
    wrong = np.argwhere((sets != 0.0) & (sets != 1.0))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(f"y must hold 0 and 1, but row {i} has {sets[i, j]:g} in column {j}.")
    return np.ascontiguousarray(sets, dtype=np.int64)


def _tree(sets: Numbers, weights: Array) -> Numbers:
    """The pairs of the maximum spanning tree of mutual information; independent labels have none.

    Computed from the joint frequencies of the states of each pair.
    """
    states = np.stack([1.0 - sets, sets])
    joint = np.einsum("i,sik,til->klst", weights, states, states, optimize=True)
    alone = joint.sum(axis=3, keepdims=True) * joint.sum(axis=2, keepdims=True)
    shared = np.round(np.triu(rel_entr(joint, alone).sum(axis=(2, 3)), 1), _DECIMALS)
    tree = minimum_spanning_tree(-np.maximum(shared, 0.0)).tocoo()
    pairs = np.sort(np.c_[tree.row, tree.col].astype(np.int64), axis=1)
    return pairs[np.lexsort(pairs.T[::-1])]
