"""What a fit leaves for the next one, and how it is known to belong to the same problem."""

import pickle
from dataclasses import dataclass
from typing import Any

import joblib
import scipy.sparse as sp

from sklearn_bundle.estimators._sequences import TrainingSequences
from sklearn_bundle.estimators._validation import TrainingData


@dataclass
class WarmStart:
    """What each subproblem's solver has kept, and the problem that it belongs to."""

    fingerprint: tuple | None
    kept: list[Any]


def data_fingerprint(data: TrainingData) -> str:
    """Equal for equal X, targets and weights."""
    return joblib.hash((_arrays(data.X), *data.targets, data.weights))


def sequences_fingerprint(data: TrainingSequences) -> str:
    """Equal for equal X, bounds of sequences, labels and weights."""
    parts = data.lengths, data.labels, data.classes, data.weights
    return joblib.hash((_arrays(data.X), *parts))


def _arrays(X: Any) -> Any:
    """Not a sparse matrix as an object, which has cached flags as well."""
    return (X.shape, X.data, X.indices, X.indptr) if sp.issparse(X) else X


def problem_fingerprint(
    data: TrainingData, formulation: tuple[Any, ...], fit_intercept: bool
) -> tuple | None:
    """Equal for equal data, loss, regularizer and intercept; None if one has no hash.

    Classes are compared as objects: one that was edited in a notebook and defined again has the
    same name, and another risk.
    """
    try:
        parameters = [joblib.hash(vars(part)) for part in formulation]
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    kinds = tuple(type(part) for part in formulation)
    return data_fingerprint(data), kinds, tuple(parameters), fit_intercept
