"""Checked rows in memory, and the problems that losses make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.validation import TrainingData
from sklearn_bundle.linear.losses import Loss, Prepared
from sklearn_bundle.linear.losses.base import SampleLoss, check_derivatives, is_of_package
from sklearn_bundle.linear.risk import Risk, risk_of
from sklearn_bundle.linear.rows import Rows, rows_of

_CHECKED = 100  # rows at which the derivatives of a user's loss are compared with its values


def binary_targets(labels: NDArray[np.integer], n_classes: int) -> list[NDArray[np.float64]]:
    """Targets in {-1, +1}: one vector for two classes (the second is +1), else one per class."""
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(labels == k, 1.0, -1.0) for k in positives]


class MemoryData:
    """What estimators, paths and searches need of training data; on workers blocks offer the same.

    Parameters
    ----------
    samples : TrainingData
        Checked rows, without those of weight zero.
    prepared : list of Prepared
        Loss and target of each problem.
    n_jobs : int or None
    names : list of str
        Of the problems; [""] for a single one.

    Attributes
    ----------
    units : list of float
        For each problem the reg_lambda with the effect of 1 on a target of spread one.
    threads : tuple of int
        Problems that are solved at a time, and threads of each.
    """

    def __init__(
        self, samples: TrainingData, prepared: list[Prepared], n_jobs: int | None, names: list[str]
    ):
        self.samples, self.names, self.total = samples, names, getattr(samples, "total", 1.0)
        self.prepared, self.units = prepared, [1.0] * len(prepared)
        self.threads = split_threads(n_jobs, len(prepared))
        self.spreads_of_problems: Sequence[float] = ()  # of a regressor

    @property
    def n_problems(self) -> int:
        return len(self.prepared)

    @property
    def n_samples(self) -> int:
        return self.samples.n_samples

    @property
    def n_features(self) -> int:
        return self.samples.n_features

    @property
    def classes(self) -> Any:
        return getattr(self.samples, "classes", None)

    @property
    def n_targets(self) -> int | None:
        return self.samples.n_targets  # type: ignore[attr-defined]

    @property
    def weights(self) -> NDArray[np.float64]:
        return self.samples.weights

    def fingerprint(self) -> Any:
        """A hash of X, targets and weights."""
        return self.samples.fingerprint()

    @cached_property
    def rows(self) -> Rows:
        """All rows, with what each problem would compute of them again."""
        rows = rows_of(self.samples.X, self.threads[1])
        _ = rows.column_norms
        return rows

    def risk(self, k: int, fit_intercept: bool) -> Risk:
        """The risk of one problem, which counts its own passes."""
        rows, (loss, y) = copy(self.rows), self.prepared[k]
        rows.passes = 0
        risk = risk_of(rows, y, self.weights, loss, fit_intercept)
        check_loss(loss, y, lambda some: np.zeros((*risk.shape[:-1], len(some))))
        return risk

    def exclude(self, features: NDArray[np.intp]) -> None:
        """Set the columns of some features to 0."""
        X: Any = self.samples.X
        used = np.ones(self.n_features)
        used[features] = 0.0
        if sp.issparse(X):
            data = X.data * used[X.indices].astype(X.dtype)
            X = type(X)((data, X.indices, X.indptr), X.shape)
        else:
            X = X * used.astype(X.dtype)
        self.samples = replace(self.samples, X=X)

    def close(self) -> None:
        """End threads."""
        if "rows" in vars(self):
            self.rows.__exit__()


def check_loss(
    loss: Loss, y: Any, scores_at: Callable[[NDArray[np.intp]], NDArray[np.float64]]
) -> None:
    """Raise ValueError if a user's loss has other derivatives at the scores of some rows.

    Slopes of the wrong sign lead away from the best intercept, until the loss overflows. Losses of
    the package have tests.
    """
    if not isinstance(loss, SampleLoss) or is_of_package(type(loss)):
        return
    some = np.linspace(0, len(y) - 1, min(len(y), _CHECKED)).astype(np.intp)
    check_derivatives(loss, np.ascontiguousarray(scores_at(some).T), y[some])
