"""Models of classes: one out of many, and leaves of a hierarchy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.score_rounding import ScoreRounding
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.linear.losses.multiclass import check_cost
from sklearn_bundle.structured._compiled.class_oracle import ClassOutputs, NodeRows
from sklearn_bundle.structured.models.base import StructuredModel, check_size, checked_labels
from sklearn_bundle.structured.models.examples import Array, CompiledExamples, Examples, Sums
from sklearn_bundle.structured.models.hierarchy import hierarchy

Matrix = np.ndarray | sp.csr_matrix | sp.csr_array


class Rows(NamedTuple):
    """All inputs of a model of classes, as checked by an estimator."""

    X: Matrix  # of shape (n, d): CSR or C-ordered, float32 or float64
    n_classes: int
    classes: Sequence[Hashable]  # the labels, in the order of their numbers


class _Classes(StructuredModel, ABC):
    """Base of models of classes: a class has nodes, and each node has a row of w.

    ``ancestors_`` is the matrix A of shape (K, number of nodes). ``costs_`` is the matrix of costs,
    with one row per class, or a single row of ones for all.
    """

    ancestors_: sp.csr_array
    costs_: Array

    @abstractmethod
    def _learn(self, rows: Rows) -> None:
        """Set both from the known classes, or refuse the parameters."""

    def n_parameters(self, X: Any, y: Any) -> int:
        rows = _as_rows(X, y)
        self._learn(rows)
        return self.ancestors_.shape[1] * rows.X.shape[1]

    def joint_feature(self, x, y) -> np.ndarray:
        return np.outer(self.ancestors_[[y]].toarray(), x).ravel()

    def loss(self, y, y_hat) -> float:
        return float(self._costs_of(y)[y_hat])

    def inference(self, x, w) -> int:
        return int(np.argmax(self._class_scores(x, w)))

    def loss_augmented_inference(self, x, y, w) -> int:
        return int(np.argmax(self._class_scores(x, w) + self._costs_of(y)))

    def slack_rescaled_inference(self, x: Any, y: int, w: Array) -> int:
        """The class k of the highest ``l(y, k) (1 + <w, phi(x, k) - phi(x, y)>)``.

        Parameters
        ----------
        x : ndarray of shape (d,)
            A row.
        y : int
            The number of its class.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        k : int
            The number of a class.
        """
        scores = self._class_scores(x, w)
        return int(np.argmax(self._costs_of(y) * (1.0 + scores - scores[y])))

    def max_loss(self, y) -> float:
        return float(self._costs_of(y).max()) or 1.0

    def decision_values(self, X: Matrix, w: Array) -> Array:
        """Scores of the classes, after :meth:`n_parameters`.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Rows.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        scores : ndarray of shape (n, K)
            The class with the largest one is predicted.
        """
        return X @ (self.ancestors_ @ w.reshape(-1, X.shape[1])).T

    def examples(self, X, y, scaling) -> Examples:
        rows = _as_rows(X, y)
        n_parameters, (n, d) = self.n_parameters(rows, y), rows.X.shape
        check_size(self, n_parameters, f"{n_parameters // d} rows of {d} features")
        labels = checked_labels(y, n, rows.n_classes)
        A, stored = self.ancestors_, node_rows(rows.X, n_parameters // d)
        parts = map(
            frozen, (labels, self.costs_, *(p.astype(np.int64) for p in (A.indptr, A.indices)))
        )
        outputs = ClassOutputs(stored, scaling == "slack", *parts)
        depths = np.diff(A.indptr)
        longest = n_entries(stored, n) * (depths[labels] + depths.max())
        rounding = ScoreRounding(
            rows.X,
            np.arange(n + 1),
            lambda w: (w.reshape(-1, d).T, w[:0]),
            columns=int(depths.max()),
            factor=float(self.costs_.max()) if outputs.slack else 1.0,
        )
        lengths = np.sqrt(squared_lengths(rows.X))
        steps = np.full(n, rows.n_classes + 16.0)
        sums = Sums(steps, np.ones(n, np.int64), 2.0 * float(depths.max()) * lengths)
        return CompiledExamples(outputs, n_parameters, longest, (rounding,), sums)

    def _class_scores(self, x: Array, w: Array) -> Array:
        return self.ancestors_ @ (w.reshape(-1, len(x)) @ x)

    def _costs_of(self, y: int) -> Array:
        """Loss of each class instead of y."""
        costs = self.costs_[min(y, len(self.costs_) - 1)].copy()
        costs[y] = 0.0
        return costs


class Multiclass(_Classes):
    """One class out of K, with costs of mistakes: the hinge loss of Crammer and Singer.

    x is a row of d features, y the number of its class. Each class has a row of W, of shape (K, d),
    and ``phi(x, y)`` is x at the place of that row, so ``<w, phi(x, y)> = <W_y, x>``. The loss of
    an example is then :class:`~sklearn_bundle.losses.MulticlassHinge`, table 6 in [1]_, without an
    intercept. ``w`` is W, one row after the other.

    Parameters
    ----------
    cost : array-like of shape (K, K), default=None
        Cost of predicting class k for y, with classes in sorted order and y the row: at least 0,
        and 0 on the diagonal. None means 1 for every mistake. With margin rescaling it is in the
        unit of the scores.

    Raises
    ------
    ValueError
        If `cost` is not a matrix with one row and one column per class, or has a negative or
        nonfinite entry or a nonzero diagonal; raised by `fit`.

    See Also
    --------
    Ontology : Classes of a hierarchy, which share weights.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.models import Multiclass
    >>> X, y = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), [0, 1, 2]
    >>> model = Multiclass(cost=[[0, 1, 3], [1, 0, 1], [3, 1, 0]])
    >>> model.n_parameters(X, y)
    6
    >>> model.joint_feature(X[0], 1)
    array([0., 0., 1., 2., 0., 0.])
    >>> w = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0])  # scores of the first row: 1, 0 and 2
    >>> model.inference(X[0], w), model.examples(X, y, "margin").find(w, 0, 1).scores  # 2 + 3 - 1
    (2, array([4.]))
    """

    def __init__(self, *, cost: ArrayLike | None = None):
        self.cost = cost

    def _learn(self, rows):
        check_cost(self.cost, rows.n_classes)
        self.ancestors_ = sp.csr_array(sp.eye(rows.n_classes))
        costs = np.ones((1, rows.n_classes)) if self.cost is None else self.cost
        self.costs_ = np.ascontiguousarray(costs, np.float64)


class Ontology(_Classes):
    """Classes that are the leaves of a tree, or of a directed acyclic graph.

    x is a row of d features, y the number of its class. Each node has a row of weights of length d,
    and the score of a class is the sum over its ancestors, itself included: classes with a common
    ancestor share its weights. ``phi(x, y)`` is x at the places of these rows. The loss of an
    example is then that of section A.4.2 of [1]_, without an intercept; with slack rescaling its
    cost is a factor, as in table 6 there. ``w`` holds the rows in turn: those of the classes, in
    sorted order, then those of the other nodes.

    Parameters
    ----------
    edges : sequence of (parent, child) pairs
        Nodes are hashable objects. A leaf is named by the label of its class.
    cost : array-like of shape (K, K), default=None
        Cost of predicting class k for y, with classes in sorted order and y the row: at least 0,
        and 0 on the diagonal. None means the number of nodes that are ancestors of exactly one of
        the two classes: in a tree, the edges on the path from leaf to leaf. With margin rescaling
        it is in the unit of the scores.

    Raises
    ------
    ValueError
        If `edges` are not pairs or have a cycle, if a class is missing in them or not a leaf, or if
        `cost` is not as described above; raised by `fit`.

    See Also
    --------
    Multiclass : Classes without a hierarchy.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.models import Ontology
    >>> X, y = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), [0, 1, 2]
    >>> model = Ontology([("animal", 0), ("animal", 1), ("plant", 2)])
    >>> model.n_parameters(X, y), model.nodes_
    (10, (0, 1, 2, 'animal', 'plant'))
    >>> model.joint_feature(X[0], 1)
    array([0., 0., 1., 2., 0., 0., 1., 2., 0., 0.])
    >>> float(model.loss(0, 1)), float(model.loss(0, 2))
    (2.0, 4.0)
    """

    nodes_: tuple[Hashable, ...]

    def __init__(
        self, edges: Sequence[tuple[Hashable, Hashable]], *, cost: ArrayLike | None = None
    ):
        self.edges = edges
        self.cost = cost

    def _learn(self, rows):
        self.nodes_, self.ancestors_, distances = hierarchy(self.edges, rows.classes)
        check_cost(self.cost, rows.n_classes)
        costs = distances if self.cost is None else self.cost
        self.costs_ = np.ascontiguousarray(costs, np.float64)


def _as_rows(X: Any, y: Any) -> Rows:
    """Rows; a matrix or a list of vectors gets the class numbers as labels."""
    if isinstance(X, Rows):
        return X
    n_classes = int(np.max(y)) + 1
    return Rows(as_matrix(X), n_classes, range(n_classes))


def as_matrix(X: Any) -> Matrix:
    """Rows as compiled code reads them, from a matrix or a list of vectors."""
    if sp.issparse(X):
        return X
    X = np.ascontiguousarray(X)
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def node_rows(X: Matrix, n_nodes: int) -> NodeRows:
    """Rows in the form for compiled code."""
    if isinstance(X, np.ndarray):
        none = np.empty(0, np.int64), frozen(np.empty(0, np.uint32))
        return NodeRows(n_nodes, X.shape[1], X.shape[1], *none, frozen(X).reshape(-1))
    rows: Any = X
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    indices = rows.indices.astype(np.uint32, copy=False)  # d is below 2^32
    parts = rows.indptr.astype(np.int64), frozen(indices), frozen(rows.data)
    return NodeRows(n_nodes, X.shape[1], 0, *parts)


def n_entries(rows: NodeRows, n: int) -> NDArray[np.int64]:
    """Of each of n rows."""
    return np.full(n, rows.width) if rows.width else np.diff(rows.indptr)
