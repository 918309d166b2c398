"""What a fit leaves for the next one, and how it is known to belong to the same problem."""

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import scipy.sparse as sp

from sklearn_bundle.estimators._blocks import BlockedData
from sklearn_bundle.estimators._sequences import TrainingSequences
from sklearn_bundle.estimators._validation import TrainingData
from sklearn_bundle.solvers.contract import Resumable, SolverResult, Status


@dataclass
class WarmStart:
    """What the solver of each subproblem has left, and the problem that it belongs to.

    A solver of the same ``settings`` and ``tol`` goes on itself, as many refits of an iteration
    ask for; a new one starts from what the last one has ``kept``. Results are those of the same
    settings.
    """

    fingerprint: tuple | None
    kept: list[Any]
    settings: tuple | None = None
    tols: list[float | None] = field(default_factory=list)
    solvers: list[Resumable | None] = field(default_factory=list)
    results: list[SolverResult | None] = field(default_factory=list)

    def match(self, settings: tuple) -> None:
        """Forget solvers and results of other settings."""
        if self.settings != settings or not self.solvers:
            self.settings = settings
            self.tols, self.solvers, self.results = ([None] * len(self.kept) for _ in range(3))

    def solver(self, k: int, tol: float) -> Resumable | None:
        """The one that can go on: what it does depends on the tol that it was made for."""
        return self.solvers[k] if tol == self.tols[k] else None

    def leave(
        self, k: int, kept: Any, result: SolverResult, tol: float, solver: Resumable | None
    ) -> None:
        """For the next fit: what a new solver starts from, how this fit ended, and its solver."""
        self.kept[k], self.results[k] = kept, result
        self.tols[k], self.solvers[k] = tol, solver

    def reached(self, k: int, tol: float) -> SolverResult | None:
        """How the last fit ended, if that is within ``tol``: the very same point.

        Another point within ``tol`` would be as good, and a nuisance: some labels would change.
        """
        result = self.results[k]
        if result is None or not result.relative_gap <= tol:
            return None
        history = result.history[-1:].copy()
        history["iteration"], history["seconds"], history["passes"] = 1, 0.0, 0
        return replace(result, status=Status.CONVERGED, n_iter=1, history=history)


def data_fingerprint(data: TrainingData | BlockedData) -> str:
    """Equal for equal X, targets and weights."""
    if isinstance(data, BlockedData):
        return data.fingerprint()
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
    """Equal for equal data, loss, regularizer and intercept; None if one has no hash."""
    parts = parts_fingerprint([(type(part), vars(part)) for part in formulation])
    return None if parts is None else (data_fingerprint(data), *parts, fit_intercept)


def parts_fingerprint(parts: list[tuple[type, dict[str, Any]]]) -> tuple | None:
    """Equal for the same classes with equal values in attributes; None if one has no hash.

    Classes and functions are compared as objects: one that was edited in a notebook and defined
    again has the same name, and makes another problem.
    """
    values, functions = [], []
    for _, attributes in parts:
        functions += [value for value in attributes.values() if callable(value)]
        values.append({name: v for name, v in attributes.items() if not callable(v)})
    try:
        known = joblib.hash(values)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return tuple(kind for kind, _ in parts), known, tuple(functions)
