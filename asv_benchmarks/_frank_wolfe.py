"""Frank-Wolfe methods for the kernel L2-SVM, as in section 6 of Allende et al. (2013).

Every solver of SwapSVC fits the same problems, RBF kernel, gamma="distance" (one over the mean
squared distance of the points; the paper's gamma is half of that), one-versus-one, on all points at
once (active_set=None), until the certified relative gap is within --tol or --max-iter steps are
taken on a two-class problem. With --eps it stops as the paper does, where the simplex gap
max_i grad_i - 2 g is at most eps (equation 8), whatever the size of g; it looks every 128 steps.

The paper searches C on a grid from 1 to 4096 and does not state what it found. Here it is a value
of that grid that does well on a held-out part, one for each collection of sets; --C takes another.
The first 20,000 rows are used. Steps are summed over the pairs of classes; seconds are CPU time,
one thread, medians.

Last come the tests of section 6.4 over the sets: Friedman's with the correction of Iman and
Davenport, and for pairs of solvers Wilcoxon's signed-rank test, two-sided and exact, with zeros as
Pratt takes them.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
from _measure import (
    MissingError,
    Show,
    Table,
    cpu_seconds,
    header,
    print_plain,
    print_rst,
    quiet_single_thread,
    take_turns,
    write_json,
)
from _svm import Data, accuracy, find_tasks, load, relative_gap, status, warm_up
from scipy import stats

from sklearn_bundle import SwapSVC

HELP = "solvers of SwapSVC: Frank-Wolfe, MFW, SWAP, SWAP-2o and CVM"

SOLVERS = ("fw", "mfw", "swap", "swap-2o", "cvm")
TASKS = {  # C
    **dict.fromkeys(("a1a", "a2a", "a3a", "a5a", "a8a", "a9a"), 1.0),
    **dict.fromkeys(("w1a", "w8a", "usps", "pendigits"), 16.0),
}
SHIPPED = dict.fromkeys(("breast_cancer", "digits", "digits_odd", "made_sparse"), 16.0)
N_ROWS = 20_000
QUANTITIES = {  # of every fit, and how they are printed
    "seconds": ("CPU seconds; * a limit ended the fit", ".3g"),
    "steps": ("Steps; * a limit ended the fit", ",d"),
    "n_support": ("Support vectors", ",d"),
    "accuracy": ("Accuracy on the test part, %", ".2f"),
}
TESTED = ("seconds", "steps", "accuracy")
_FITS = (
    *(("data", 14), ("n", 6), ("C", 5), ("solver", 8), ("steps", 10), ("CPU s", 8)),
    *(("SV", 7), ("% right", 8), ("gap", 8), ("status", 10)),
)


class _AbsoluteStop:
    """A solver that stops where the paper does."""

    def __init__(self, solver: Any, eps: float):
        self._solver, self._eps = solver, eps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def states(self) -> Iterator[Any]:
        """Ends where the simplex gap, 2 (Q - min q), is within eps."""
        for state in self._solver.states():
            yield state
            if 2.0 * (self._solver.value - self._solver.q.min()) <= self._eps:
                return


class AbsoluteSVC(SwapSVC):
    """SwapSVC that stops at the attribute ``eps``, and then has the status "stalled"."""

    def _kernel_data(self, *arguments: Any) -> Any:
        values = super()._kernel_data(*arguments)
        values.dtype = np.dtype(np.float32)  # as in the other runs
        return values

    def _solver(self, *arguments: Any) -> _AbsoluteStop:
        return _AbsoluteStop(super()._solver(*arguments), self.eps)


def make(solver: str, C: float, arguments: argparse.Namespace, **limits: int) -> SwapSVC:
    settings = {
        **{"solver": solver, "gamma": "distance", "active_set": None, "n_jobs": 1},
        **{"max_iter": arguments.max_iter, "max_time": arguments.max_time, "random_state": 0},
        **limits,
    }
    if arguments.eps is None:
        return SwapSVC(C, tol=arguments.tol, **settings)
    model = AbsoluteSVC(C, tol=1e-15, **settings)  # no gap ends it
    model.eps = arguments.eps
    return model


def ending(model: SwapSVC) -> str:
    """Its status, with a name for the paper's stopping rule."""
    how = status(model)
    return how.replace("stalled", "eps") if isinstance(model, AbsoluteSVC) else how


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeat=3)
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some sets alone")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=SOLVERS)
    parser.add_argument("--C", type=float, help="for all sets, instead of each set's own")
    parser.add_argument(
        "--tol", type=float, default=1e-3, help="certified relative gap (default %(default)s)"
    )
    parser.add_argument("--eps", type=float, help="stop at this simplex gap, as the paper does")
    parser.add_argument(
        "--max-iter", type=int, default=200_000, help="steps at most (default %(default)s)"
    )
    parser.add_argument(
        "--max-time", type=float, default=60.0, help="seconds a fit at most (default %(default)s)"
    )
    parser.add_argument("--rst", action="store_true", help="the last tables as reStructuredText")


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each fit, then a table for each quantity, and the tests."""
    print(header(__doc__.strip()))
    tasks = find_tasks(arguments)
    goal = f"gap {arguments.tol:g}" if arguments.eps is None else f"eps {arguments.eps:g}"
    print(f"\n{goal}, at most {arguments.max_iter:,} steps and {arguments.max_time:g} s")
    table = Table(_FITS)
    results: list[dict[str, Any]] = []
    known = TASKS if tasks is not None else SHIPPED
    for name in arguments.tasks or known:
        try:
            data = load(name, tasks, N_ROWS)
        except MissingError as error:
            table.skip(name, str(error))
            continue
        C = arguments.C or known.get(name, 1.0)
        with quiet_single_thread():
            fits = compare(data, C, arguments)
        results.append({"task": name, "C": C, **data.sizes, "goal": goal, "fits": fits})
        for solver, fit in fits.items():
            _print_fit(table, results[-1], solver, fit)
        write_json(arguments.json, results)
    _print_tables(results, arguments.solvers, print_rst if arguments.rst else print_plain)


def compare(data: Data, C: float, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What every solver takes and reaches; the first runs give the models and are not timed."""
    models, runs = {}, {}
    for solver in arguments.solvers:
        warm_up(partial(make, solver, C, arguments, max_iter=64), data)
        fit = partial(_fit, solver, C, data, arguments)
        first, models[solver] = cpu_seconds(fit)
        runs[solver] = fit, first
    taken = take_turns(runs, arguments.repeat)
    return {
        solver: {
            "steps": int(np.sum(model.n_iter_)),
            "seconds": median(taken[solver]),
            "runs": taken[solver],
            "n_support": len(model.support_),
            "accuracy": accuracy(model.predict(data.X_test), data.y_test),
            "gap": relative_gap(model),
            "status": ending(model),
        }
        for solver, model in models.items()
    }


def _fit(solver: str, C: float, data: Data, arguments: argparse.Namespace) -> SwapSVC:
    return make(solver, C, arguments).fit(data.X, data.y)


def _print_fit(table: Table, result: dict[str, Any], solver: str, fit: dict[str, Any]) -> None:
    table.row(
        result["task"],
        f"{result['n']}",
        f"{result['C']:g}",
        solver,
        f"{fit['steps']}",
        f"{fit['seconds']:.4f}",
        f"{fit['n_support']}",
        f"{fit['accuracy']:.2f}",
        f"{fit['gap']:.1e}",
        "several" if "," in fit["status"] else fit["status"],
    )
    if "," in fit["status"]:
        table.note(f"pairs that ended so: {fit['status']}")


def _print_tables(results: list[dict[str, Any]], solvers: Sequence[str], show: Show) -> None:
    """A row for each set and a column for each solver, and the tests; a limit met has a mark."""
    for quantity, (title, form) in QUANTITIES.items():
        rows = []
        for result in results:
            fits = [result["fits"][solver] for solver in solvers]
            cells = [f"{fit[quantity]:{form}}{_mark(fit, quantity)}" for fit in fits]
            rows.append([result["task"], *cells])
        show(title, ["data", *solvers], rows)
    if len(results) > 1 and len(solvers) > 1:
        columns = ["a against b"]
        for quantity in TESTED:
            columns += [f"{quantity}: a < b", "a > b", "p"]
        rows = [_test(results, *pair) for pair in combinations(solvers, 2)]
        show(f"Wilcoxon's signed-rank test over {len(results)} sets", columns, rows)
    if len(results) > 1 and len(solvers) > 2:
        found = [f"{q} p = {friedman(_values(results, solvers, q)):.2g}" for q in TESTED]
        print(f"\nFriedman's test, all solvers equal: {', '.join(found)}")


def _mark(fit: dict[str, Any], quantity: str) -> str:
    limited = "max_" in fit["status"] and quantity in ("seconds", "steps")
    return "*" if limited else ""


def _values(results: list[dict[str, Any]], solvers: Sequence[str], quantity: str) -> np.ndarray:
    """A row for each solver, a column for each set."""
    return np.array([[r["fits"][s][quantity] for r in results] for s in solvers], np.float64)


def _test(results: list[dict[str, Any]], a: str, b: str) -> list[str]:
    """On how many sets a has less than b and more, and the p-value, for each quantity."""
    cells = [f"{a} against {b}"]
    for quantity in TESTED:
        left, right = _values(results, (a, b), quantity)
        cells += [f"{np.sum(left < right)}", f"{np.sum(left > right)}"]
        cells.append(f"{signed_rank(left, right):.4f}")
    return cells


def signed_rank(left: np.ndarray, right: np.ndarray) -> float:
    """Two-sided p-value over all assignments of signs, exact with ties and zeros as well."""
    exact = stats.PermutationMethod(n_resamples=np.inf)
    return float(stats.wilcoxon(left, right, zero_method="pratt", method=exact).pvalue)


def friedman(values: np.ndarray) -> float:
    """p-value with the correction of Iman and Davenport; NaN where all values are equal."""
    k, n = values.shape
    chi = stats.friedmanchisquare(*values).statistic
    most = n * (k - 1)
    return (
        float(stats.f.sf((n - 1) * chi / (most - chi), k - 1, (k - 1) * (n - 1)))
        if chi < most
        else 0.0
    )
