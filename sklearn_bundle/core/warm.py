"""The state that a fit leaves for the next one, and keys of what it belongs to."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import joblib

from sklearn_bundle.core.contract import Resumable, SolverResult, Status


class Left(NamedTuple):
    """What the fit of a subproblem left: a start, its result, its solver if that can go on.

    Steps of the solver depend on the ``tol`` that it was created for.
    """

    start: Any
    solver: Any = None
    tol: float = 0.0
    result: SolverResult | None = None


@dataclass
class WarmStart:
    """What the fits of all subproblems left, and the data that it belongs to.

    A solver of the same ``settings`` and ``tol`` continues itself, which refits of few iterations
    need; a new one starts from what the last one kept. Results are those of the same settings.
    """

    fingerprint: Any = None
    settings: Any = None
    left: dict[int, Left] = field(default_factory=dict)

    @classmethod
    def after(cls, last: WarmStart | None, fingerprint: Any, settings: Any) -> WarmStart:
        """What can be used of the last fit: nothing with other data, starts with other settings."""
        if last is None or fingerprint is None or last.fingerprint != fingerprint:
            return cls(fingerprint, settings)
        if last.settings == settings:
            return last
        return cls(fingerprint, settings, {k: Left(one.start) for k, one in last.left.items()})

    def start(self, k: int) -> Any:
        """Where a new solver of subproblem k may start; None if nothing is known."""
        return self.left[k].start if k in self.left else None

    def solver(self, k: int, tol: float) -> Any:
        """The solver that can continue, or None."""
        last = self.left.get(k)
        return None if last is None or last.tol != tol else last.solver

    def leave(self, k: int, solver: Any, tol: float) -> None:
        """Keep the start of a new solver, and this one until :meth:`close`."""
        self.left[k] = Left(solver.kept, solver if isinstance(solver, Resumable) else None, tol)

    def close(self, k: int, result: SolverResult) -> None:
        """Keep the result, and release the data of the solver."""
        if k in self.left:
            self.left[k] = self.left[k]._replace(result=result)
            if self.left[k].solver is not None:
                self.left[k].solver.detach()

    def reached(self, k: int, tol: float) -> SolverResult | None:
        """The result of the last fit if it is within ``tol``, so that the point stays the same.

        Another point within ``tol`` would be valid too, but some labels would change.
        """
        result = self.left[k].result if k in self.left else None
        if result is None or not result.relative_gap <= tol:
            return None
        history = result.history[-1:].copy()
        history["iteration"], history["seconds"], history["passes"] = 1, 0.0, 0
        return replace(result, status=Status.CONVERGED, n_iter=1, history=history)


def fingerprint_of(parts: list[tuple[type, dict[str, Any]]]) -> tuple[Any, ...] | None:
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
