"""The state that a fit leaves for the next one, and fingerprints of problems."""

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import joblib

from sklearn_bundle.core.contract import Resumable, SolverResult, Status
from sklearn_bundle.core.validation import TrainingData


@dataclass
class Solved:
    """What the fit of a subproblem left: its result, and its solver, if that can continue.

    The solver is a :class:`~.contract.Resumable` of the estimator's own kinds. Its steps depend on
    the ``tol`` that it was created for.
    """

    result: SolverResult
    tol: float
    solver: Any


@dataclass
class WarmStart:
    """The state that the solver of each subproblem left, and the problem that it belongs to.

    A solver of the same ``settings`` and ``tol`` continues itself, which refits of few iterations
    need; a new one starts from what the last one ``kept``. Results are those of the same settings.
    """

    fingerprint: tuple | None
    kept: list[Any]
    settings: tuple | None = None
    _solved: dict[int, Solved] = field(default_factory=dict)

    def match(self, settings: tuple) -> None:
        """Forget solvers and results of other settings."""
        if self.settings != settings:
            self.settings, self._solved = settings, {}

    def solved(self, k: int) -> Solved:
        """What the last fit of subproblem k left, after a fit."""
        return self._solved[k]

    def solver(self, k: int, tol: float) -> Resumable | None:
        """The solver that can continue."""
        last = self._solved.get(k)
        return None if last is None or last.tol != tol else last.solver

    def leave(
        self, k: int, result: SolverResult, tol: float, kept: Any, solver: Resumable | None
    ) -> None:
        """Keep the result of this fit, the start of a new solver, and its solver."""
        self.kept[k], self._solved[k] = kept, Solved(result, tol, solver)

    def reached(self, k: int, tol: float) -> SolverResult | None:
        """The result of the last fit if it is within ``tol``, so that the point stays the same.

        Another point within ``tol`` would be valid too, but some labels would change.
        """
        last = self._solved.get(k)
        if last is None or not last.result.relative_gap <= tol:
            return None
        result = last.result
        history = result.history[-1:].copy()
        history["iteration"], history["seconds"], history["passes"] = 1, 0.0, 0
        return replace(result, status=Status.CONVERGED, n_iter=1, history=history)


def problem_fingerprint(
    data: TrainingData, formulation: tuple[Any, ...], fit_intercept: bool
) -> tuple[Any, ...] | None:
    """A key of data, loss, regularizer and intercept; None if one has no hash."""
    parts = parts_fingerprint([(type(part), vars(part)) for part in formulation])
    return None if parts is None else (data.fingerprint(), *parts, fit_intercept)


def parts_fingerprint(parts: list[tuple[type, dict[str, Any]]]) -> tuple[Any, ...] | None:
    """A key of the classes and the values of their attributes; None if one has no hash.

    Classes and functions are compared as objects: a class that was edited and defined again in a
    notebook has the same name but makes another problem.
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
