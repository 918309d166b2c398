"""solver="auto" beside its parts, on made sets: what the choice costs.

CPU seconds of "auto" over those of its best part, each run alone to the same certified gap:
Newton's method, dual coordinate epochs to their end, line search. A part may take three times the
seconds of "auto" and a tenth; where none gets there, this limit stands for the best. The sets are
those of _made.py. At last the correlated set with the hinge, reg_lambda 1e-3, tol 1e-5, 20 seeds.
"""

import argparse
from time import process_time
from typing import Any

import numpy as np
from _cells_data import Sets
from _linear_timing import quiet_threads
from _made import SETS, made
from _measure import Table
from _parts import Session, geometric_mean
from benchmarks.common import Array

from sklearn_bundle.core.contract import SolverResult, State, Status
from sklearn_bundle.core.contract import run as run_solver
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.linear_auto import linear_solver, solver_class
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import BINARY_LOSSES, REGRESSION_LOSSES
from sklearn_bundle.regularizers import L2

LOSSES = ("hinge", "squared_hinge", "log_loss", "absolute_error", "epsilon_insensitive")
_REG_LAMBDAS = (1e-2, 1e-4)
_TOLERANCES = (1e-3, 1e-5)
_PARTS = ("newton", "dual-coordinate", "line-search")
_MOST_NEWTON_FEATURES = 2_000  # as "auto" has it: a step with more takes seconds
_LIMIT = 20.0  # seconds of "auto"
_FACTOR, _MORE = 3.0, 0.1  # a part's limit: so many times the seconds of "auto", and so many more
_SEEDS = 20  # of the correlated set
_COLUMNS = (
    *(("set", 14), ("loss", 20), ("lambda", 7), ("tol", 6), ("seed", 4), ("auto s", 8)),
    *(("auto took", 32), ("best part", 16), ("s", 8), ("ratio", 6)),
)
Cell = tuple[str, str, float, float, int]


def run(
    session: Session, sets: Sets | None = None, further: argparse.Namespace | None = None
) -> None:
    """All cells; those of the losses that were asked for, if any were."""
    print(f"\nauto: {__doc__.strip()}")
    asked = getattr(further, "loss", None) or LOSSES
    losses = [loss for loss in LOSSES if loss in asked]
    cells = [
        (name, loss, reg_lambda, tol, 0)
        for name in SETS
        for loss in losses
        for reg_lambda in _REG_LAMBDAS
        for tol in _TOLERANCES
    ]
    _compare(session, "made sets", cells)
    if "hinge" in losses:
        seeds = range(1, _SEEDS + 1)
        _compare(session, "seeds", [("correlated", "hinge", 1e-3, 1e-5, seed) for seed in seeds])


def _compare(session: Session, title: str, cells: list[Cell]) -> None:
    table, ratios = Table(_COLUMNS), {}
    with quiet_threads(1):
        for cell in cells:
            result = _race(*cell)
            name, loss, reg_lambda, tol, seed = cell
            ratios[cell] = result["ratio"]
            table.row(
                *(name, loss, f"{reg_lambda:.0e}", f"{tol:.0e}", f"{seed}"),
                *(f"{result['auto']:.4f}", result["took"], result["best"]),
                *(f"{result['seconds']:.4f}", f"{result['ratio']:.2f}"),
            )
            session.record("auto", cell=list(cell), **result)
    worst = max(ratios, key=ratios.get)
    mean = geometric_mean(list(ratios.values()))
    print(f"{title}: geometric mean {mean:.2f}, worst {ratios[worst]:.2f}: {worst}")


def _race(name: str, loss: str, reg_lambda: float, tol: float, seed: int) -> dict[str, Any]:
    known = BINARY_LOSSES | REGRESSION_LOSSES
    X, y = made(name, seed, labels=loss in BINARY_LOSSES)
    data = X, y, known[loss](), reg_lambda, tol
    _fit("auto", *data, limit=_LIMIT)  # what compiles, does so here
    seconds, result = min((_fit("auto", *data, limit=_LIMIT) for _ in range(2)), key=lambda r: r[0])
    took = "+".join(dict.fromkeys(str(name) for name in result.history["solver"]))
    parts, limit = {}, _FACTOR * seconds + _MORE
    for part in _PARTS if X.shape[1] <= _MOST_NEWTON_FEATURES else _PARTS[1:]:
        once, found = _fit(part, *data, limit=limit)
        if found is not None and once < seconds:  # the first one may have compiled
            once, found = min(((once, found), _fit(part, *data, limit=limit)), key=lambda r: r[0])
        if found is not None and found.status is Status.CONVERGED:
            parts[part] = once
    best = min(parts, key=parts.get) if parts else "none"
    of_best = parts.get(best, np.nan)
    ratio = seconds / (of_best if parts else limit)
    missed = "" if result.status is Status.CONVERGED else f" ({result.status})"
    figures = {"auto": seconds, "took": took + missed, "best": best, "seconds": of_best}
    return {**figures, "ratio": ratio, "parts": parts}


def _fit(
    name: str, X: Any, y: Array, loss: Any, reg_lambda: float, tol: float, *, limit: float
) -> tuple[float, SolverResult | None]:
    """CPU seconds; None for a part that does not take the loss or the shape."""
    start = process_time()
    problem = LinearProblem(rows_in_memory(X), y, np.full(len(y), 1.0 / len(y)), loss, False)
    task = Task(problem, reg_lambda, L2(), tol, solver=name)
    kind = None if name == "auto" else solver_class(name, task)
    if name != "auto" and kind is None:
        return np.inf, None
    with problem:
        kept = LinearStart()
        solver = linear_solver(name, task, kept) if kind is None else kind.of(task, kept)

        def stop(iteration: int, state: State) -> Status | None:
            return Status.MAX_TIME if process_time() - start > limit else None

        result = run_solver(solver, tol=tol, max_iter=100_000, observe=stop)
    return process_time() - start, result
