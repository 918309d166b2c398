"""Paths of 100 values, from the largest useful reg_lambda to a thousandth of it.

Nobody has an intercept: targets of regression and dense columns are centered. All sides end within
the tolerance of the optimum at every value, which our own path to a tenth of it tells; a peer has
the largest tol out of 1, 1e-1, ... that does. A path has four times ``--limit``. A line a peer.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
from _cells_limit import LimitError, run_limited
from _cells_objective import objective_of
from _linear_timing import time_rungs
from _measure import MissingError, Rung, Table, cpu_seconds, quiet_single_thread
from _parts import Session, geometric_mean
from _sparse_data import SparseSets, by_columns
from _sparse_peers import SPARSE, celer
from _sparse_rows import largest_reg_lambda
from benchmarks.common import Array
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression, lasso_path

from sklearn_bundle import bmrm_path

LOSSES = {"regression": "squared_error", "binary": "log_loss"}
_LIMITS = 4.0  # of a path or a search, over that of a single fit
MOST_ITERATIONS = 100_000
_N_VALUES = 100
_RANGE = 1e-3  # the least value over the largest
_TOLERANCES = tuple(10.0**-k for k in range(13))
_ENOUGH = 20.0  # seconds of all runs, after which one is not repeated
_ASKED = 1.0
_COLUMNS = (
    *(("set", 14), ("n", 6), ("d", 8), ("loss", 13), ("tol", 6), ("ours s", 8), ("gap", 8)),
    *(("excess", 8), ("peer", 11), ("at", 6), ("s", 8), ("excess", 8), ("ratio", 7)),
)


@dataclass
class Paths:
    """A problem at many values of reg_lambda, without an intercept."""

    X: Any
    y: Array
    loss: str
    values: Array
    limit: float
    solver: str

    def objectives(self, coefs: Array) -> Array:
        models = (SimpleNamespace(coef_=w, intercept_=0.0) for w in coefs.T)
        data = self.X, self.y
        pairs = zip(models, self.values, strict=True)
        return np.array([objective_of(m, *data, value, self.loss, 1.0) for m, value in pairs])

    def ours(self, tol: float) -> tuple[Array, Array]:
        """Weights (d, n_values) and gaps."""
        settings = {"reg_lambdas": self.values, "loss": self.loss, "regularizer": "l1"}
        settings |= {"max_time": self.limit / len(self.values), "solver": self.solver}
        settings |= {"fit_intercept": False, "tol": tol}
        path = bmrm_path(self.X, self.y, max_iter=MOST_ITERATIONS, **settings)
        return path.coefs, path.dual_gaps

    def peers(self) -> dict[str, Callable[[float], Array]]:
        """Those that are installed: the weights, of a tol."""
        columns, squared = by_columns(self.X), self.loss == "squared_error"
        known: dict[str, Callable[[float], Array]] = {}

        def scikit_learn(tol: float) -> Array:
            limits = {"tol": tol, "max_iter": MOST_ITERATIONS}
            return lasso_path(columns, self.y, alphas=self.values, **limits)[1]

        def of_celer(tol: float) -> Array:
            # Its logistic loss is a sum.
            alphas = self.values if squared else len(self.y) * self.values
            form = {"alphas": alphas, "tol": tol, "max_iter": MOST_ITERATIONS, "prune": 1}
            problem = "lasso" if squared else "logreg"
            return celer.celer_path(columns, self.y, problem, **form)[1]

        if squared:
            known["lasso_path"] = scikit_learn
        if celer is not None:
            known["celer_path"] = of_celer
        return known

    def liblinear(self, tol: float) -> Array:
        """Separate fits of LogisticRegression."""
        settings = {"solver": "liblinear", "tol": tol, "max_iter": MOST_ITERATIONS, **SPARSE}
        strengths = 1.0 / (len(self.y) * self.values)
        fits = (LogisticRegression(C=C, fit_intercept=False, **settings) for C in strengths)
        return np.column_stack([model.fit(self.X, self.y).coef_.ravel() for model in fits])

    def find_rung(self, fit: Callable[[float], Array], best: Array, within: float) -> Rung:
        """The largest tol at which no objective is relatively more than ``within`` over the best.

        Its objective is the largest excess; infinity if no tol gets there in time.
        """

        def measure(tol: float) -> tuple[float, Array]:
            seconds, coefs = cpu_seconds(partial(fit, tol))
            return seconds, self.objectives(coefs)

        for tol in _TOLERANCES:
            try:
                seconds, reached = run_limited(partial(measure, tol), self.limit)
            except LimitError:
                break
            excess = float(np.max(reached / best)) - 1.0
            if excess <= within:
                return Rung(tol, excess, seconds)
        return Rung(None, inf, self.limit)


def problem_of(X: Any, y: Array, loss: str, n_values: int, arguments: argparse.Namespace) -> Paths:
    """Centered where that spares an intercept."""
    if loss == "squared_error":
        y = y - y.mean()
        X = X if issparse(X) else X - X.mean(axis=0)
    values = largest_reg_lambda(X, y, loss, False) * np.geomspace(1.0, _RANGE, n_values)
    return Paths(X, y, loss, values, _LIMITS * arguments.limit, arguments.solver or "auto")


def each_set(
    sets: SparseSets, arguments: argparse.Namespace, table: Table
) -> Iterator[tuple[str, str, Any, Array]]:
    """Name, loss, X and y of the sets that were asked for and can be had."""
    for kind, loss in LOSSES.items():
        for task in sets.names(kind):
            if arguments.sets is not None and task not in arguments.sets:
                continue
            try:
                data = sets.load(kind, task)
            except MissingError as error:
                table.skip(task, str(error))
                continue
            yield task, loss, data.X, data.y


def print_mean(title: str, ratios: dict[str, float], asked: float) -> None:
    """Geometric mean and worst of the ratios to the fastest peers."""
    if ratios:
        worst, mean = min(ratios, key=ratios.get), geometric_mean(list(ratios.values()))
        print(
            f"  {title}: geometric mean {mean:.2f} (asked {asked:g}: "
            f"{'met' if mean >= asked else 'missed'}), worst {ratios[worst]:.2f} ({worst})",
            flush=True,
        )


def run(session: Session, sets: SparseSets, arguments: argparse.Namespace) -> None:
    """A table; the mean is that of the ratios to the fastest peers."""
    print(f"\npath: {__doc__.strip()}")
    table, ratios = Table(_COLUMNS), {}
    for task, loss, X, y in each_set(sets, arguments, table):
        with quiet_single_thread():
            problem = problem_of(X, y, loss, _N_VALUES, arguments)
            problem.ours(1e-1)  # compiles
            for tol in arguments.tol:
                result = _compare(problem, tol, session.repeat)
                _add(table, task, problem, result)
                session.record("path", task=task, loss=loss, **result)
                if result["ratio"] is not None:  # a peer is installed
                    ratios[f"{task} {loss} {tol:.0e}"] = result["ratio"]
    print_mean("path", ratios, _ASKED)


def _compare(problem: Paths, tol: float, repeat: int) -> dict[str, Any]:
    seconds, (coefs, gaps) = cpu_seconds(partial(problem.ours, tol))
    reached = problem.objectives(coefs)
    best = np.minimum(reached, problem.objectives(problem.ours(0.1 * tol)[0]))
    fits = problem.peers()
    rungs = {name: problem.find_rung(fit, best, tol) for name, fit in fits.items()}
    own = Rung("ours", float(np.max(reached / best)) - 1.0, seconds)
    timed = [(own, partial(problem.ours, tol))]
    timed += [(r, partial(fits[k], r.setting)) for k, r in rungs.items() if r.objective < inf]
    time_rungs(timed, repeat, cpu_seconds, _ENOUGH)
    gap = float(np.max(gaps / reached))
    fastest = min((rung.seconds or rung.first_seconds for rung in rungs.values()), default=None)
    return {
        "tol": tol,
        "ours": asdict(own),
        "gap": gap,
        "converged": gap <= tol,
        "peers": {name: asdict(rung) for name, rung in rungs.items()},
        "ratio": None if fastest is None else fastest / own.seconds,
    }


def _add(table: Table, task: str, problem: Paths, result: dict[str, Any]) -> None:
    own = result["ours"]
    n, d = problem.X.shape
    for name, rung in result["peers"].items():
        there = rung["seconds"] is not None
        mark = "<" if not result["converged"] else "" if there else ">"
        seconds = rung["seconds"] or rung["first_seconds"]
        table.row(
            *(task, f"{n}", f"{d}", problem.loss, f"{result['tol']:.0e}"),
            *(f"{own['seconds']:.3f}", f"{result['gap']:.1e}", f"{own['objective']:.1e}"),
            *(name, f"{rung['setting']:.0e}" if there else "none", f"{seconds:.3f}"),
            f"{rung['objective']:.1e}" if there else "-",
            f"{mark}{seconds / own['seconds']:.2f}",
        )
