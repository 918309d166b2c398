"""What a fit leaves for the next one, and how it is known to belong to the same problem."""

import pickle
from dataclasses import replace
from typing import Any

import joblib
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sklearn_bundle.estimators._sequences import TrainingSequences
from sklearn_bundle.estimators._validation import TrainingData
from sklearn_bundle.solvers._run import SolverResult, Status

_LIMITS = {"tol", "max_iter", "max_time", "n_jobs", "random_state", "verbose"}


class WarmStart:
    """What each subproblem's solver has kept, how it ended, and the problem that it belongs to."""

    def __init__(self, fingerprint: tuple | None, n_subproblems: int):
        self.fingerprint = fingerprint
        self.kept: list[Any] = [None] * n_subproblems
        self._ends: list[tuple[dict, SolverResult] | None] = [None] * n_subproblems

    def keep(
        self,
        k: int,
        estimator: BaseEstimator,
        kept: Any,
        result: SolverResult,
        scale: float = 1.0,
    ) -> None:
        """What the next fit may start from.

        ``scale`` is what the objective depends on beside fingerprint and parameters.
        """
        self.kept[k] = kept
        if self.fingerprint is not None:
            self._ends[k] = (_settings(estimator), scale), result

    def reached(self, k: int, estimator: BaseEstimator, scale: float = 1.0) -> SolverResult | None:
        """How the last fit ended, if that is what this one is asked for: the very same point.

        Another point within ``tol`` would be as good, and a nuisance: some labels would change.
        """
        if self._ends[k] is None:
            return None
        last, result = self._ends[k]
        if last != (_settings(estimator), scale) or not result.relative_gap <= estimator.tol:
            return None
        history = result.history[-1:].copy()
        history["iteration"], history["seconds"], history["passes"] = 1, 0.0, 0
        return replace(result, status=Status.CONVERGED, n_iter=1, history=history)


def _settings(estimator: BaseEstimator) -> dict[str, Any]:
    """Parameters that a fit depends on; those that are no plain values are in the fingerprint."""
    parameters = estimator.get_params(deep=False)
    plain = int | float | str | None
    return {k: v for k, v in parameters.items() if isinstance(v, plain) and k not in _LIMITS}


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
