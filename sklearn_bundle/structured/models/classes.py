"""The model of classes: one out of many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled.class_oracle import ClassOutputs, NodeRows
from sklearn_bundle.structured.models.base import (
    StructuredModel,
    check_size,
    checked_labels,
    cost_matrix,
)
from sklearn_bundle.structured.models.examples import Array, CompiledExamples, Examples

Matrix = np.ndarray | sp.csr_matrix | sp.csr_array


class Rows(NamedTuple):
    """All inputs of a model of classes, as checked by an estimator."""

    X: Matrix  # of shape (n, d): CSR or C-ordered, float32 or float64
    n_classes: int


class Multiclass(StructuredModel):
    """One class out of K, with costs of mistakes: the hinge loss of Crammer and Singer.

    x is a row of d features, y the number of its class. Each class has a row of W, of shape (K, d),
    and ``phi(x, y)`` is x at the place of that row, so ``<w, phi(x, y)> = <W_y, x>``. The loss of
    an example is then :class:`~sklearn_bundle.losses.MulticlassHinge`, table 6 in [1]_, without an
    intercept. ``w`` is W, one row after the other. Inference is compiled: the methods of
    :class:`~sklearn_bundle.models.StructuredModel` for one example are not there.

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

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import StructuredSVM
    >>> from sklearn_bundle.models import Multiclass
    >>> X, y = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), ["a", "b", "c"]
    >>> model = Multiclass(cost=[[0, 1, 3], [1, 0, 1], [3, 1, 0]])
    >>> StructuredSVM(model, reg_lambda=0.01, random_state=0).fit(X, y).decision_function(X).shape
    (3, 3)
    """

    costs_: Array  # with 0 on the diagonal

    def __init__(self, *, cost: ArrayLike | None = None):
        self.cost = cost

    def max_loss(self, y) -> float:
        return float(self.costs_[y].max()) or 1.0

    def examples(self, X: Rows, y, scaling) -> Examples:
        (n, d), K = X.X.shape, X.n_classes
        self.costs_ = cost_matrix(self.cost, K)
        check_size(self, K * d, f"{K} rows of {d} features")
        labels, stored = checked_labels(y, n, K), node_rows(X.X, K)
        outputs = ClassOutputs(stored, scaling == "slack", frozen(labels), frozen(self.costs_))
        factor = float(self.costs_.max()) if outputs.slack else 1.0
        rounding = ScoreRounding(
            X.X, np.arange(n + 1), lambda w: (w.reshape(-1, d).T, w[:0]), factor=factor
        )
        return CompiledExamples(outputs, K * d, 2 * n_entries(stored, n), (rounding,))


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
