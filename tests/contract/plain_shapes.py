"""The plainest shapes of data: one column, a row per class, a constant column, columns of 1e8.

:func:`plain` makes them of a random problem: formulas that hold for many rows and columns, and
views that are copies there, may fail here.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sklearn_bundle.regularizers import Quadratic

KINDS = ["one column", "one constant column", "few rows", "one row in a class"]
KINDS += ["one weight", "constant column", "column of 1e8", "column around 1e8"]


def plain(problem, rng):
    """The problem with one or two of these shapes, where its estimator has a use for them."""
    for kind in rng.choice(KINDS, size=rng.integers(1, 3), replace=False):
        problem = _SHAPED[str(kind)](problem, rng)
    return problem


def _of_columns(change):
    """``change(X, rng)`` of dense rows is in place or returns the new rows."""

    def shaped(problem, rng):
        if getattr(problem.model, "kernel", None) == "precomputed":
            return problem
        parts = problem.X if isinstance(problem.X, list) else [problem.X]
        if any(isinstance(part, tuple) or part.ndim != 2 for part in parts):
            return problem  # of graphs, matchings: other shapes than rows
        ends = np.cumsum([part.shape[0] for part in parts])[:-1]
        X = np.vstack([part.toarray() if sp.issparse(part) else part for part in parts])
        X = change(X, rng).astype(X.dtype)
        if isinstance(problem.X, list):
            X = np.split(X, ends)
        elif sp.issparse(problem.X):
            X = sp.csr_matrix(X)
        if isinstance(getattr(problem.model, "regularizer", None), Quadratic):
            width = X.shape[1]
            problem.model.set_params(regularizer=Quadratic(problem.model.regularizer.B[:width]))
        return replace(problem, X=X)

    return shaped


def _constant(X, rng):
    X = X.copy()
    X[:, 0] = 10.0 ** rng.uniform(-3, 8)
    return X


def _huge(X, rng):
    X = X.copy()
    X[:, 0] *= 1e8
    return X


def _around(X, rng):
    X = X.copy()
    X[:, 0] += 1e8
    return X


def _is_search(problem):
    return type(problem.model).__name__.endswith("CV")  # each fold needs rows of each class


def _groups(problem):
    """What of each there must be a row left: classes and grades, or all rows alike."""
    y = problem.y
    if y is None or isinstance(y, list) or np.ndim(y) > 1 or np.issubdtype(y.dtype, np.floating):
        return np.zeros(_n_rows(problem.X), int)
    return np.asarray(y)


def _n_rows(X):
    return len(X) if isinstance(X, list) else X.shape[0]


def _kept(problem, rows):
    def part(values):
        if values is None:
            return None
        return [values[i] for i in rows] if isinstance(values, list) else values[rows]

    X, y, weights = part(problem.X), part(problem.y), part(problem.weights)
    if getattr(problem.model, "kernel", None) == "precomputed":
        X = X[:, rows]
    further = {name: part(values) for name, values in problem.further.items()}
    return replace(problem, X=X, y=y, weights=weights, further=further)


def _can_lose_rows(problem):
    return not _is_search(problem)


def _few_rows(problem, rng):
    if not _can_lose_rows(problem):
        return problem
    groups = _groups(problem)
    firsts = np.unique(groups, return_index=True)[1]
    others = np.setdiff1d(np.arange(len(groups)), firsts)
    return _kept(problem, np.sort(np.r_[firsts, others[: rng.integers(0, 2)]]))


def _one_in_a_class(problem, rng):
    groups = _groups(problem)
    if not _can_lose_rows(problem) or len(np.unique(groups)) == 1:
        return problem
    rare = np.flatnonzero(groups == rng.choice(np.unique(groups)))
    return _kept(problem, np.setdiff1d(np.arange(len(groups)), rare[1:]))


def _one_weight(problem, rng):
    unweighted = "fbeta", "ndcg"
    if _is_search(problem) or getattr(problem.model, "loss", None) in unweighted:
        return problem
    groups = _groups(problem)
    weights = np.zeros(len(groups))
    weights[np.unique(groups, return_index=True)[1]] = 10.0 ** rng.uniform(-3, 3)
    return replace(problem, weights=weights)


_SHAPED = {
    "one column": _of_columns(lambda X, rng: X[:, :1].copy()),
    "one constant column": _of_columns(lambda X, rng: _constant(X[:, :1], rng)),
    "few rows": _few_rows,
    "one row in a class": _one_in_a_class,
    "one weight": _one_weight,
    "constant column": _of_columns(_constant),
    "column of 1e8": _of_columns(_huge),
    "column around 1e8": _of_columns(_around),
}
