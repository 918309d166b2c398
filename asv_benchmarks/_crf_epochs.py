"""Sampling and solvers of SDCACRF, as in section 6 of Le Priol, Piche and Lacoste-Julien (2018).

reg_lambda = 1/n, all attributes by all labels and the biases of labels, as there. An epoch is n
updates, for lbfgs an iteration; an oracle call is one marginalisation of one sequence, counted over
n. The primal objective of the current weights is computed every epoch at first, then every
--stride - 1 of the epochs so far, which counts nowhere: "subopt" is its excess over the lowest
objective of all fits, one of them to a gap of --tol / 100, and "gap" its distance from the dual
one, both relative. A fit ends where the gap is within --tol, or after --max-epochs (lbfgs after
five times as many). Fits run --jobs at a time, so that their seconds say little.

The paper compares with SAG and with exponentiated gradient (OEG); here the reference is lbfgs, and
"exponentiated" with uniform sampling is the latter with another rule for its steps.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _chains import ChainTask, load
from _crf_watch import watch
from _measure import (
    MissingError,
    Show,
    header,
    load_tasks,
    print_plain,
    print_rst,
    quiet_single_thread,
    write_json,
)
from benchmarks.chains import DATASETS
from joblib import Parallel, delayed

HELP = "solvers and samplings of SDCACRF, over epochs and oracle calls"

TASKS = ("ocr", "conll2002_ned")
SAMPLINGS = ("uniform", "importance", "gap", "gap-importance", "max")
NONUNIFORMITIES = (0.8, 1.0, 0.5, 0.2)
DUAL_SOLVERS = ("sdca", "exponentiated")
_LBFGS_EPOCHS = 5  # times as many iterations of lbfgs: one costs little
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
    parser.add_argument(
        "--stride", type=float, default=1.05, help="epochs from look to look (default %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="fits at a time (default %(default)s)")
    parser.add_argument(
        "--fits", type=Path, metavar="FILE", help="fits are read from it, and new ones added"
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
        result = compare(task, arguments)
        results.append(result)
        _print_result(result, arguments.tol, print_rst if arguments.rst else print_plain)
        write_json(arguments.json, results)
    if arguments.figure is not None:
        from _crf_figure import draw

        draw(results, arguments.figure)


def compare(task: ChainTask, arguments: argparse.Namespace) -> dict[str, Any]:
    """A curve for every configuration, and the optimum; they are counted, so they run at once."""
    tol, most = arguments.tol, arguments.max_epochs
    fits = []
    for (solver, sampling, share), settings in configurations().items():
        if arguments.only and solver not in arguments.only:
            continue
        title = {"solver": solver, "sampling": sampling, "nonuniformity": share}
        fits.append((title, tol, _LBFGS_EPOCHS * most if solver == "lbfgs" else most, settings))
    reference = {"solver": "exponentiated"}
    fits.insert(0, (reference, 0.01 * tol, 2 * most, reference))

    known = _Known(arguments.fits, task.name)
    todo = [each for each in fits if known.get(each) is None]

    def fit(each: tuple) -> tuple[tuple, dict[str, Any]]:
        title, goal, epochs, settings = each
        curve = follow(task, goal, arguments.stride, max_iter=epochs, **settings)
        return each, {**title, **curve}

    parallel = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")
    for each, found in parallel(delayed(fit)(each) for each in todo):
        known.add(each, found)
        told = [task.name, *each[0].values(), f"{found['seconds']:.0f} s", found["status"]]
        print(*told, file=sys.stderr, flush=True)
    reference, *fits = map(known.get, fits)
    return {
        "task": task.name,
        "n": len(task.train.labels),
        "best": min(min(fit["objective"]) for fit in (reference, *fits)),
        "bound": max(max(fit["lower_bound"]) for fit in (reference, *fits)),
        "fits": fits,
    }


class _Known:
    """Fits by what was asked for, kept in a file if there is one."""

    def __init__(self, path: Path | None, task: str):
        self._path, self._task = path, task
        there = path is not None and path.is_file()
        self._fits = json.loads(path.read_text()) if there else {}

    def get(self, each: tuple) -> dict[str, Any] | None:
        return self._fits.get(self._key(each))

    def add(self, each: tuple, found: dict[str, Any]) -> None:
        self._fits[self._key(each)] = found
        if self._path is not None:
            self._path.write_text(json.dumps(self._fits))

    def _key(self, each: tuple) -> str:
        return json.dumps([self._task, *each])


def follow(task: ChainTask, goal: float, stride: float, **settings: Any) -> dict[str, Any]:
    """A fit to a relative gap, and what was true at each look."""
    curve: dict[str, list[float]] = {name: [] for name in CURVE}

    def look(truth: dict[str, Any], w: np.ndarray) -> bool:
        for name in CURVE:
            curve[name].append(float(truth[name]))
        return truth["gap"] <= goal * truth["objective"]

    # tol is such that the fit never makes a full pass of its own
    with quiet_single_thread():
        model = watch(task, look, stride, tol=1e-300, **settings)
    status = "reached" if model.watched.ended else str(model.status_)
    return {**curve, "seconds": model.watched.seconds, "status": status}


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
