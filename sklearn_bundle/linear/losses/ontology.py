"""Hierarchical classification: classes are the leaves of a tree or a directed acyclic graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.losses.base import Array, Prepared
from sklearn_bundle.linear.losses.multiclass import (
    MulticlassHinge,
    MulticlassLoss,
    check_cost,
)


class Hierarchy(NamedTuple):
    """The nodes with a class below them, classes first, and their ancestor relation."""

    nodes: tuple[Hashable, ...]
    ancestors: sp.csr_array  # A of shape (K, number of nodes), of ones
    distances: Array  # number of nodes that are ancestors of exactly one of two classes


class Ontology(MulticlassLoss):
    """Hierarchical classification: the classes are the leaves of a tree, or of an acyclic graph.

    Every node v has a score n_v = <w_v, x>, and the score of a class is the sum over its ancestors,
    itself included: f = A n with the 0/1 matrix A of shape (K, number of nodes). The loss is
    ``l(y, n) = max_k f_k - f_y + Delta(y, k)``: classes with a common ancestor share its weights,
    and confusions of distant classes cost more. See section A.4.2 of [1]_. If a class has several
    paths from the root, an ancestor counts once here; in the paper it counts as the average over
    the paths.

    A common root of all classes has zero weights, since it cancels. Nodes without a class below
    them are left out.

    Parameters
    ----------
    edges : sequence of (parent, child) pairs
        Nodes are hashable objects. A leaf is named by the label of its class.
    cost : array-like of shape (K, K), default=None
        Delta(y, k), classes in sorted order, y the row: at least 0, 0 on the diagonal, in the unit
        of the scores. None means the number of nodes that are ancestors of exactly one of the two
        classes: in a tree, the edges on the path from leaf to leaf.

    Raises
    ------
    ValueError
        If `edges` are not pairs or have a cycle, if a class is missing in them or not a leaf, or if
        `cost` is not as described above; raised by `fit`. Methods that need the graph also raise it
        before :meth:`bind`.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Ontology
    >>> edges = [("animal", "cat"), ("animal", "dog"), ("plant", "oak")]
    >>> loss = Ontology(edges).bind(["cat", "dog", "oak"])
    >>> loss.nodes
    ('cat', 'dog', 'oak', 'animal', 'plant')
    >>> scores = np.array([[1.0, 0.0, 0.0, 2.0, 0.0]])  # a score per node
    >>> loss.class_scores(scores), loss.value(scores, np.array([2]))  # 3 - 0, and a distance of 4
    (array([[3., 2., 0.]]), array([7.]))
    """

    def __init__(self, edges: Sequence[tuple[Hashable, Hashable]], cost: ArrayLike | None = None):
        self.edges = edges
        self.cost = cost

    def check(self, y) -> None:
        check_cost(self.cost, int(y.max()) + 1)

    def prepare_target(self, target) -> Prepared:
        bound = self.bind(target.classes)
        bound.check(target.y)
        return Prepared(bound, target.y)

    def bind(self, classes: Sequence[Hashable] | np.ndarray) -> Ontology:
        """A copy bound to the graph of the classes.

        Parameters
        ----------
        classes : sequence of length K
            The labels, in the order of their numbers.

        Returns
        -------
        loss : Ontology
            With the attribute ``nodes``.

        Raises
        ------
        ValueError
            For a class that is not a leaf of the graph, edges that are not pairs, and a cycle.
        """
        bound = copy(self)
        bound._bound_to = hierarchy(self.edges, classes)
        return bound

    @property
    def nodes(self) -> tuple[Hashable, ...]:
        """The nodes of the outputs, in order: the classes, then the other nodes.

        Raises ValueError before :meth:`bind`.
        """
        return self._hierarchy.nodes

    _bound_to: Hierarchy | None = None

    @property
    def _hierarchy(self) -> Hierarchy:
        if self._bound_to is None:
            raise ValueError("The ontology does not know the classes: call bind(classes) first.")
        return self._bound_to

    def n_outputs(self, y) -> int:
        return len(self.nodes)

    def class_scores(self, scores) -> Array:
        return np.asarray((self._hierarchy.ancestors @ scores.T).T, order="C")

    @property
    def _hinge(self) -> MulticlassHinge:
        """The loss of the classes' scores."""
        return MulticlassHinge(self._hierarchy.distances if self.cost is None else self.cost)

    def value(self, scores, y) -> Array:
        return self._hinge.value(self.class_scores(scores), y)

    def gradient(self, scores, y) -> Array:
        return self._hinge.gradient(self.class_scores(scores), y) @ self._hierarchy.ancestors

    def cut(self, scores, y, weights, out) -> tuple[float, float]:
        of_classes = self._hierarchy.ancestors @ scores
        gradient = np.empty_like(of_classes)
        risk, offset = self._hinge.cut(of_classes, y, weights, gradient)
        # Of an ancestor of both classes the two terms cancel exactly.
        out[:] = self._hierarchy.ancestors.T @ gradient
        return risk, offset

    def along(self, scores, direction, y, weights, t) -> tuple[float, float, float]:
        ancestors = self._hierarchy.ancestors
        return self._hinge.along(ancestors @ scores, ancestors @ direction, y, weights, t)

    def offset(self, derivatives, y, weights) -> float:
        """That of the classes' derivatives: no other class has a leaf above it."""
        n_classes = self._hierarchy.ancestors.shape[0]
        return self._hinge.offset(derivatives[:n_classes], y, weights)


def hierarchy(edges: Any, classes: Sequence[Hashable] | np.ndarray) -> Hierarchy:
    """Ancestors of the classes in the graph; ValueError if it does not match them."""
    classes = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    parents = _parents(edges)
    order = _parents_first(parents)
    for label in classes:
        if label not in parents:
            raise ValueError(f"edges must have a node for each class, but none for {shown(label)}.")
        child = next((node for node, above in parents.items() if label in above), None)
        if child is not None:
            raise ValueError(
                f"Every class must be a leaf in edges, but class {shown(label)} has the child "
                f"{shown(child)}."
            )
    ancestors: dict[Hashable, set[Hashable]] = {}
    for node in order:
        ancestors[node] = {node}.union(*(ancestors[parent] for parent in parents[node]))
    used = set().union(*(ancestors[label] for label in classes)).difference(classes)
    nodes = (*classes, *(node for node in parents if node in used))
    number = {node: j for j, node in enumerate(nodes)}
    places = [(k, number[node]) for k, label in enumerate(classes) for node in ancestors[label]]
    shape = len(classes), len(nodes)
    A = sp.csr_array((np.ones(len(places)), np.transpose(places)), shape=shape)
    depths, common = A.sum(axis=1), (A @ A.T).toarray()
    return Hierarchy(nodes, A, depths[:, None] + depths - 2.0 * common)


def _parents(edges: Any) -> dict[Hashable, dict[Hashable, None]]:
    """The parents of every node; ValueError for an edge that is not a pair."""
    if isinstance(edges, str) or not hasattr(edges, "__iter__"):
        raise ValueError(f"edges must be a list of pairs (parent, child), got {shown(edges)}.")
    parents: dict[Hashable, dict[Hashable, None]] = {}
    for position, edge in enumerate(edges):
        try:
            parent, child = edge
            parents.setdefault(parent, {})
            parents.setdefault(child, {})[parent] = None
        except (TypeError, ValueError):
            raise ValueError(
                "edges must be pairs (parent, child) of nodes that can be hashed, but "
                f"edges[{position}] is {shown(edge)}."
            ) from None
    return parents


def _parents_first(parents: dict[Hashable, dict[Hashable, None]]) -> list[Hashable]:
    try:
        return list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        cycle = " -> ".join(map(repr, error.args[1]))
        raise ValueError(f"edges must not have a cycle, but has {cycle}.") from None
