"""Fitted attributes of kernel machines in the shapes of SVC."""

from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.validation import ClassificationData, TrainingData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from sklearn_bundle.kernel.values.kernel_scores import KernelScores

Coefficients = NDArray[np.float64] | Any  # or in CSR, of which scipy has no types


def shaped_like(X: Any, coef: NDArray[np.float64]) -> Coefficients:
    """``coef`` as it is or, for sparse X, in CSR of the same class with all entries, as in SVC."""
    if not sp.issparse(X):
        return coef
    n_rows, width = coef.shape
    indices = np.tile(np.arange(width, dtype=np.int32), n_rows)
    starts = np.arange(n_rows + 1, dtype=np.int32) * np.int32(width)
    return type(X)((coef.ravel().copy(), indices, starts), shape=coef.shape)


def attributes_of(
    data: TrainingData,
    kernel: Kernel,
    support: NDArray[np.intp],
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    n_support: NDArray[np.int32],
) -> dict[str, Any]:
    """Fitted attributes of machines with these support vectors and coefficients."""
    given = kernel.name == "precomputed"
    vectors = np.empty((0, 0)) if given else data.X[support]
    rows = data.rows[support]
    return {
        "support_": rows.astype(np.int32),
        "support_vectors_": vectors,
        "n_support_": n_support,
        "dual_coef_": shaped_like(data.X, coef),
        "intercept_": intercept,
        "gamma_": kernel.gamma,
        "_scores": KernelScores(rows if given else vectors, kernel, coef, intercept, n_support),
    }


Pair = tuple[NDArray[np.intp], NDArray[np.float64]]  # samples, and their targets -1 and +1


def pairs_of(data: ClassificationData) -> list[Pair]:
    """Points and targets of every subproblem: one for two classes, else one per pair i < j.

    As in SVC, +1 is the second of two classes, but the first class of a pair.
    """
    labels, n_classes = data.labels, len(data.classes)
    if n_classes == 2:
        return [(np.arange(len(labels)), np.where(labels == 1, 1.0, -1.0))]
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(labels))[:-1])
    return [
        (
            np.concatenate([members[i], members[j]]),
            np.repeat([1.0, -1.0], [len(members[i]), len(members[j])]),
        )
        for i, j in combinations(range(n_classes), 2)
    ]


def machine(data: ClassificationData, kernel: Kernel, solutions: list) -> dict[str, Any]:
    """Fitted attributes in the shapes of SVC, from alpha and the intercept of every subproblem.

    Without an intercept it is the sum of the coefficients, as one that is penalized.
    """
    alphas, intercepts = zip(*solutions, strict=True)
    subproblems, n_classes = pairs_of(data), len(data.classes)
    of_all = np.concatenate(alphas)
    active = np.flatnonzero(of_all)
    points = np.concatenate([points for points, _ in subproblems])[active]
    signed = (of_all * np.concatenate([y for _, y in subproblems]))[active]
    used = np.zeros(len(data.labels), dtype=bool)
    used[points] = True
    support = np.flatnonzero(used)
    support = support[np.argsort(data.labels[support], kind="stable")]  # by classes
    place = np.zeros(len(used), dtype=np.intp)
    place[support] = np.arange(len(support))
    coef = np.zeros((max(1, n_classes - 1), len(support)))
    pairs = np.array(list(combinations(range(n_classes), 2)))
    i, j = np.repeat(pairs, [len(alpha) for alpha in alphas], axis=0)[active].T
    rows = np.where(data.labels[points] == i, j - 1, i) if n_classes > 2 else 0
    coef[rows, place[points]] = signed
    sums = [np.sum(a * y) for (_, y), a in zip(subproblems, alphas, strict=True)]
    given = zip(intercepts, sums, strict=True)
    intercept = np.array([of_all if b is None else b for b, of_all in given])
    n_support = np.bincount(data.labels[support], minlength=n_classes).astype(np.int32)
    fitted = attributes_of(data, kernel, support, coef, intercept, n_support)
    return fitted | {"classes_": data.classes}
