"""Sets of labels per row, with scores of pairs of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import rel_entr

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.core.values import as_numbers, shown
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled.multilabel_oracle import MultilabelOutputs, best_sets
from sklearn_bundle.structured.models.base import StructuredModel, check_size
from sklearn_bundle.structured.models.classes import Matrix, as_matrix, n_entries, node_rows
from sklearn_bundle.structured.models.examples import (
    Array,
    CompiledExamples,
    Examples,
    Sums,
    check_scaling,
)
from sklearn_bundle.structured.models.graph_input import as_pairs, forest_order

Numbers = NDArray[np.int64]

_INDEPENDENT = 1e-12  # nats of mutual information that count as rounding


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

    The pairs form a forest, and inference is exact, by max-product [1]_; sum-product gives
    probabilities, for ``loss="log"`` of
    :class:`~sklearn_bundle.StructuredSVM`, a conditional random field [2]_.

    Parameters
    ----------
    edges : "tree", None or list of pairs of int, default="tree"
        The pairs of labels, without a cycle. "tree" is the tree of largest mutual information
        between the labels of the training data, by their weights [3]_. None means no pairs.
    fit_intercept : bool, default=True
        Whether to fit the b_l; otherwise they are 0.

    Attributes
    ----------
    edges_ : ndarray of int of shape (E, 2)
        The pairs, after :meth:`n_parameters`; the lower number first unless `edges` is a list.
    n_labels_ : int
        L, after :meth:`n_parameters`.

    Raises
    ------
    ValueError
        By :meth:`n_parameters` and :meth:`examples`, and thus by `fit`, if `edges` is something
        else, names a label that does not exist, joins a label with itself or has a cycle; for slack
        rescaling; for a y with values other than 0 and 1.

    See Also
    --------
    sklearn_bundle.StructuredSVM : Learns w; ``model="multilabel"`` is this model.

    References
    ----------
    .. [1] J. Pearl: Probabilistic reasoning in intelligent systems. Morgan Kaufmann, 1988.
    .. [2] N. Ghamrawi, A. McCallum: Collective multi-label classification. International Conference
       on Information and Knowledge Management, 2005.
    .. [3] C. Chow, C. Liu: Approximating discrete probability distributions with dependence trees.
       IEEE Transactions on Information Theory 14 (1968), 462-467.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.models import Multilabel
    >>> X, Y = np.array([[1.0], [2.0], [-1.0], [0.5]]), [[1, 1], [1, 1], [0, 0], [1, 0]]
    >>> model = Multilabel([(0, 1)])
    >>> model.n_parameters(X, Y)  # 2 weights, 2 biases, 4 states of a pair
    8
    >>> model.joint_feature(X[1], [1, 0])
    array([2., 0., 1., 0., 0., 0., 1., 0.])
    >>> w = np.array([1.0, -0.5, 0.0, 0.0, 3.0, 0.0, 0.0, 3.0])  # both or none
    >>> model.inference(X[1], w), model.loss_augmented_inference(X[1], [1, 1], 0.1 * w)
    (array([1, 1]), array([0, 0]))
    """

    n_labels_: int
    edges_: Numbers

    def __init__(
        self, edges: str | Sequence[tuple[int, int]] | None = "tree", *, fit_intercept: bool = True
    ):
        self.edges = edges
        self.fit_intercept = fit_intercept

    def n_parameters(self, X, y) -> int:
        rows, sets = _as_rows(X), as_sets(y)
        self._learn(rows, sets)
        return self._size(rows.X.shape[1])

    def joint_feature(self, x, y) -> np.ndarray:
        y = as_sets([y], self.n_labels_)[0]
        x = x.toarray().ravel() if sp.issparse(x) else np.asarray(x)
        states = np.eye(4)[2 * y[self.edges_[:, 0]] + y[self.edges_[:, 1]]]
        return np.concatenate([np.outer(y, x).ravel(), self._bias * y, states.ravel()])

    def loss(self, y, y_hat) -> float:
        return float(np.count_nonzero(np.asarray(y) != np.asarray(y_hat)))

    def max_loss(self, y) -> float:
        return float(self.n_labels_)

    def inference(self, x, w) -> np.ndarray:
        return self.best_sets(_row(x), w)[0]

    def loss_augmented_inference(self, x, y, w) -> np.ndarray:
        truth = as_sets([y], self.n_labels_)
        return self._best(self._outputs(_row(x), truth, 1.0), w)[0]

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
        none = np.zeros((X.shape[0], self.n_labels_), np.int64)
        return self._best(self._outputs(X, none, 0.0), w)

    def examples(self, X, y, scaling) -> Examples:
        check_scaling(self, scaling)
        rows, sets = _as_rows(X), as_sets(y)
        self._learn(rows, sets)
        (n, d), L = rows.X.shape, self.n_labels_
        check_size(self, self._size(d), f"{L} labels with {d} features")
        if len(sets) != n:
            raise ValueError(f"y must have {n} rows, as X, got {len(sets)}.")
        return self._bound(rows.X, sets)

    @property
    def _bias(self) -> float:
        return float(bool(self.fit_intercept))

    def _size(self, n_features: int) -> int:
        return self.n_labels_ * (n_features + 1) + 4 * len(self.edges_)

    def _best(self, outputs: MultilabelOutputs, w: Array) -> Numbers:
        found = np.empty_like(outputs.truths)
        best_sets(outputs, _weights(w), found)
        return found

    def _learn(self, rows: WeightedRows, sets: Numbers) -> None:
        self.n_labels_ = L = sets.shape[1]
        if self.edges is None:
            self.edges_ = np.empty((0, 2), np.int64)
        elif isinstance(self.edges, str):
            if self.edges != "tree":
                raise ValueError(
                    "edges must be 'tree', None or a list of pairs of numbers of labels, "
                    f"got {shown(self.edges)}."
                )
            self.edges_ = _tree(sets, rows.weights)
        else:
            self.edges_ = as_pairs(self.edges, L, "edges", "labels")

    def _bound(self, X: Matrix, sets: Numbers) -> CompiledExamples:
        (n, d), L, E = X.shape, self.n_labels_, len(self.edges_)
        outputs = self._outputs(X, sets, 1.0)
        rounding = ScoreRounding(
            X,
            np.arange(n + 1),
            lambda w: (w[: L * d].reshape(L, d).T, w[L * d :]),
            columns=L,
            others=L + 2 * E,
        )
        entries = n_entries(outputs.rows, n)
        sizes = 2.0 * L * np.sqrt(squared_lengths(X) + 1.0) + 4.0 * E
        sums = Sums(np.full(n, 16.0 * (L + E) + 16.0), np.full(n, 2), sizes)
        given = self._size(d), L * (entries + 1) + 2 * E + 1, (rounding,), sums
        examples = CompiledExamples(outputs, *given)
        examples.oracle_cost = float(np.mean(entries) * L + 8 * (E + L))
        return examples

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
        return MultilabelOutputs(node_rows(X, L), self._bias, cost, sets, *forest)


def _weights(w: Array) -> Array:
    return frozen(np.ascontiguousarray(w, dtype=np.float64))


def _row(x: Any) -> Matrix:
    """One row as a matrix."""
    if sp.issparse(x):
        return sp.csr_array(x.reshape(1, -1), dtype=np.float64)
    return np.ascontiguousarray(x, dtype=np.float64).reshape(1, -1)


def _as_rows(X: Any) -> WeightedRows:
    """Weighted rows; a matrix or a list of vectors gets equal weights."""
    if isinstance(X, WeightedRows):
        return X
    X = as_matrix(X)
    return WeightedRows(X, np.full(X.shape[0], 1.0 / X.shape[0]))


def as_sets(y: Any, n_labels: int | None = None) -> Numbers:
    """Sets of labels as rows of 0 and 1."""
    sets = as_numbers("y", y.toarray() if sp.issparse(y) else y)
    if sets.ndim != 2 or not sets.shape[1] or sets.shape[1] != (n_labels or sets.shape[1]):
        width = "n_labels" if n_labels is None else n_labels
        raise ValueError(
            f"y must be an indicator matrix of shape (n_samples, {width}) for a multilabel model, "
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
    shared = np.triu(rel_entr(joint, alone).sum(axis=(2, 3)), 1)
    tree = minimum_spanning_tree(-np.where(shared > _INDEPENDENT, shared, 0.0)).tocoo()
    pairs = np.sort(np.c_[tree.row, tree.col].astype(np.int64), axis=1)
    return pairs[np.lexsort(pairs.T[::-1])]
