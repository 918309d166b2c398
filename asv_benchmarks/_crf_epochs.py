"""Sampling and solvers of SDCACRF, as in section 6 of Le Priol, Piche and Lacoste-Julien (2018).

reg_lambda = 1/n, all attributes by all labels and the biases of labels, as there. An epoch is n
updates, for lbfgs an iteration; an oracle call is one marginalisation of one sequence, counted over
n. After every epoch the primal objective of the current weights is computed, which counts nowhere:
"subopt" is its excess over the lowest objective of all fits, one of them to a gap of --tol / 100,
and "gap" its distance from the dual one, both relative. A fit ends where the gap is within --tol,
or after --max-epochs.

The paper compares with SAG and with exponentiated gradient (OEG); here the reference is lbfgs, and
"exponentiated" with uniform sampling is the latter with another rule for its steps.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _chains import ChainTask, load
from _measure import (
    MissingError,
    Show,
    cpu_seconds,
    header,
    load_tasks,
    print_plain,
    print_rst,
    quiet_single_thread,
    write_json,
)
from benchmarks.chains import DATASETS

from sklearn_bundle import SDCACRF

HELP = "solvers and samplings of SDCACRF, over epochs and oracle calls"

TASKS = ("ocr", "conll2002_ned")
SAMPLINGS = ("uniform", "importance", "gap", "gap-importance", "max")
NONUNIFORMITIES = (0.8, 1.0, 0.5, 0.2)
DUAL_SOLVERS = ("sdca", "exponentiated")
CURVE = ("epochs", "oracle_calls", "objective", "lower_bound", "gap", "estimate")
Key = tuple[str, str, float]  # solver, sampling, nonuniformity


def configurations() -> dict[Key, dict[str, Any]]:
    """Every fit of a task: five samplings, four shares of gap sampling, and lbfgs."""
    found: dict[Key, dict[str, Any]] = {}
    for solver in DUAL_SOLVERS:
        pairs = [(sampling, NONUNIFORMITIES[0]) for sampling in SAMPLINGS]
        pairs += [("gap", share) for share in NONUNIFORMITIES[1:]]
        for sampling, share in pairs:
            settings = {"solver": solver, "sampling": sampling, "nonuniformity": share}
            found[solver, sampling, share] = settings
    found["lbfgs", "-", 0.0] = {"solver": "lbfgs"}
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", nargs="+", metavar="TASK", help="some tasks alone")
    parser.add_argument(
        "--tol", type=float, default=1e-6, help="the relative gap and suboptimality asked for"
    )
    parser.add_argument(
        "--max-epochs", type=int, default=200, help="of a fit at most (default %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=(*DUAL_SOLVERS, "lbfgs"), help="some solvers alone"
    )
    parser.add_argument("--rst", action="store_true", help="the tables as reStructuredText")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the curves")


def run(arguments: argparse.Namespace) -> None:
    """Print a table of every task; one that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    results: list[dict[str, Any]] = []
    for name in arguments.task or (DATASETS if tasks is None else TASKS):
        try:
            task = load(name, tasks)
        except MissingError as error:
            print(f"\n{name} skipped: {error}")
            continue
        with quiet_single_thread():
            result = compare(task, arguments.tol, arguments.max_epochs, arguments.only)
        results.append(result)
        _print_result(result, arguments.tol, print_rst if arguments.rst else print_plain)
        write_json(arguments.json, results)
    if arguments.figure is not None:
        from _crf_figure import draw

        draw(results, arguments.figure)


def compare(
    task: ChainTask, tol: float, max_epochs: int, only: Sequence[str] | None = None
) -> dict[str, Any]:
    """A curve for every configuration, and the optimum."""
    reference = follow(task, 0.01 * tol, solver="exponentiated", max_iter=2 * max_epochs)
    fits = []
    for (solver, sampling, share), settings in configurations().items():
        if only and solver not in only:
            continue
        print(f"{task.name} {solver} {sampling} {share:g}", file=sys.stderr, flush=True)
        curve = follow(task, tol, max_iter=max_epochs, **settings)
        fits.append({"solver": solver, "sampling": sampling, "nonuniformity": share, **curve})
    return {
        "task": task.name,
        "n": len(task.train.labels),
        "best": min(min(fit["objective"]) for fit in (reference, *fits)),
        "bound": max(max(fit["lower_bound"]) for fit in (reference, *fits)),
        "fits": fits,
    }


class _Watched:
    """A solver that is watched from outside, and ends where the true gap is within ``tol``."""

    def __init__(self, solver: Any, problem: Any, tol: float):
        self._solver, self._problem, self._tol = solver, problem, tol
        self.curve: dict[str, list[float]] = {name: [] for name in CURVE}
        self.seconds, self.reached = 0.0, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[Any]:
        """Those of the solver, each after a look at the primal objective of its weights."""
        states = self._solver.states()
        while not self.reached:
            seconds, state = cpu_seconds(partial(next, states, None))
            self.seconds += seconds
            if state is None:
                return
            primal, dual = state.primal, state.lower_bound
            if hasattr(self._solver, "dual_bytes"):
                blocks = self._solver.kept
                w, dual = self._problem.weights_of(blocks)
                primal, _, _ = self._problem.gaps(w, blocks)
            gap, epoch = primal - dual, len(self.curve["epochs"]) + 1
            row = epoch, state.passes, primal, dual, gap, state.further[0]
            for name, value in zip(CURVE, row, strict=True):
                self.curve[name].append(float(value))
            self.reached = gap <= self._tol * primal
            yield state


class _WatchedCRF(SDCACRF):
    """SDCACRF, watched until the gap is within the attribute ``goal``."""

    def _solver(self, problem: Any, *arguments: Any) -> _Watched:
        self.watched = _Watched(super()._solver(problem, *arguments), problem, self.goal)
        return self.watched


def follow(task: ChainTask, goal: float, **settings: Any) -> dict[str, Any]:
    """A fit, and what is true after every epoch."""
    fixed = {"reg_lambda": task.reg_lambda, "n_jobs": 1, "random_state": 0}
    model = _WatchedCRF(tol=1e-300, **fixed, **settings)  # so that it never makes a full pass
    model.goal = goal
    part = task.train
    model.fit(part.matrices, part.labels)
    watched = model.watched
    status = "reached" if watched.reached else str(model.status_)
    return {**watched.curve, "seconds": watched.seconds, "status": status}


def first_within(curve: Sequence[float], values: Sequence[float], target: float) -> float | None:
    """The first of ``values`` at which the curve is within the target."""
    return next((v for v, reached in zip(values, curve, strict=True) if reached <= target), None)


def _print_result(result: dict[str, Any], tol: float, show: Show) -> None:
    best, gap = result["best"], result["best"] - result["bound"]
    title = f"{result['task']}: lowest objective {best:.8f}, known to {gap / best:.0e}"
    columns = ["solver", "sampling", "share", "epochs to subopt", "oracle calls"]
    columns += ["epochs to gap", "oracle calls", "CPU s", "last subopt", "last gap", "status"]
    rows = []
    for fit in result["fits"]:
        share = "-" if fit["sampling"] in ("-", "uniform") else f"{fit['nonuniformity']:g}"
        row = [fit["solver"], fit["sampling"], share]
        objective = np.array(fit["objective"])
        curves = objective / best - 1.0, np.array(fit["gap"]) / objective
        for curve in curves:
            for values in (fit["epochs"], fit["oracle_calls"]):
                at = first_within(curve, values, tol)
                row.append(f">{values[-1]:.0f}" if at is None else f"{at:.0f}")
        row += [f"{fit['seconds']:.1f}", *(f"{curve[-1]:.0e}" for curve in curves)]
        rows.append([*row, fit["status"]])
    show(title, columns, rows)
