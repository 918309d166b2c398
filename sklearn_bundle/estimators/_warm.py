"""What a fit leaves for the next one, and how it is known to belong to the same problem."""

import pickle
from dataclasses import dataclass
from typing import Any

import joblib
import scipy.sparse as sp

from sklearn_bundle.estimators._sequences import TrainingSequences
from sklearn_bundle.estimators._validation import ClassificationData
from sklearn_bundle.losses import BinaryLoss


@dataclass
class WarmStart:
    """What each subproblem's solver has kept, and the problem that it belongs to."""

    fingerprint: tuple | None
    kept: list[Any]


def data_fingerprint(data: ClassificationData) -> str:
    """Equal for equal X, labels and weights."""
    return joblib.hash((_arrays(data.X), data.labels, data.classes, data.weights))


def sequences_fingerprint(data: TrainingSequences) -> str:
    """Equal for equal X, bounds of sequences, labels and weights."""
    parts = data.lengths, data.labels, data.classes, data.weights
    return joblib.hash((_arrays(data.X), *parts))


def _arrays(X: Any) -> Any:
    """Not a sparse matrix as an object, which has cached flags as well."""
    return (X.shape, X.data, X.indices, X.indptr) if sp.issparse(X) else X


def problem_fingerprint(
    data: ClassificationData, loss: BinaryLoss, fit_intercept: bool
) -> tuple | None:
    """Equal for equal data, loss and intercept; None if the loss has parameters without a hash.

    The loss's class is compared as an object: a class that was edited in a notebook and defined
    again has the same name, and another risk.
    """
    try:
        parameters = joblib.hash(vars(loss))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return data_fingerprint(data), type(loss), parameters, fit_intercept
