"""Trees and directed acyclic graphs whose leaves are classes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sklearn_bundle.core.values import shown
from sklearn_bundle.structured.models.examples import Array


class Hierarchy(NamedTuple):
    """The nodes with a class below them, classes first, and their ancestor relation."""

    nodes: tuple[Hashable, ...]
    ancestors: sp.csr_array  # A of shape (K, number of nodes), of ones
    distances: Array  # number of nodes that are ancestors of exactly one of two classes


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
