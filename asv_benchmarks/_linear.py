"""BMRMClassifier with the hinge against scikit-learn's linear support vector machines.

Part A  no intercept, against LinearSVC(loss="hinge") over its max_iter, tol=1e-12
Part B  free intercept, first 10,000 rows, against SVC(kernel="linear") over its tol

Both minimise J = reg_lambda/2 ||w||^2 + the mean hinge loss. Ours stops at its certified relative
gap 1e-3; the peer is timed at its cheapest setting that reaches a relative suboptimality of 1e-3,
and at its cheapest one that reaches the objective of our fit.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import Any

from _measure import (
    LONG,
    MissingError,
    Rung,
    Table,
    candidates,
    cheapest,
    climb,
    cpu_seconds,
    header,
    load_tasks,
    quiet_single_thread,
    time_rungs,
    write_json,
)
from benchmarks.common import DATASETS, Array, best_intercept, dataset, objective
from scipy.sparse import issparse
from sklearn.svm import SVC, LinearSVC

from sklearn_bundle import BMRMClassifier

HELP = "linear support vector machines: LinearSVC and SVC(kernel='linear')"
SUBOPTIMALITY = 1e-3
_PLANE_ENTRIES = 1 << 27  # 1 GiB: the reference fit keeps no more planes than fit into this


@dataclass(frozen=True)
class Cell:
    """One row of a table: a task, a strength of regularisation, and the ratio asked for."""

    task: str
    reg_lambda: float
    asked: float | None = None


@dataclass(frozen=True)
class Part:
    """One peer and what it is compared on."""

    title: str
    fit_intercept: bool
    n_rows: int | None
    ladder: tuple  # the peer's settings, from the cheapest on
    make_peer: Callable[[float, Any], Any]  # of C and a setting
    required: tuple[Cell, ...]
    further: tuple[Cell, ...]


def _cells(task: str, reg_lambdas: tuple[float, ...], asked: float | None = None) -> list[Cell]:
    return [Cell(task, value, asked) for value in reg_lambdas]


PARTS = {
    "A": Part(
        title="Part A: no intercept, peer LinearSVC(loss='hinge', tol=1e-12) over max_iter",
        fit_intercept=False,
        n_rows=None,
        ladder=tuple(2**k for k in range(13)),
        make_peer=lambda C, m: LinearSVC(
            loss="hinge", fit_intercept=False, C=C, tol=1e-12, max_iter=m, random_state=0
        ),
        required=(
            *_cells("a9a", (1e-5, 1e-6), 1.0),
            *_cells("covtype2", (1e-3,), 2.0),
            *_cells("mnist_even", (1e-4, 1e-5), 2.0),
        ),
        further=(
            *(Cell("a9a", 1e-4), Cell("covtype2", 1e-4), Cell("mnist_even", 1e-3)),
            *_cells("w8a", (1e-4, 1e-5)),
            *_cells("ijcnn1", (1e-5, 1e-6)),
            *_cells("news20_bigrams", (1e-4, 1e-5)),
        ),
    ),
    "B": Part(
        title="Part B: free intercept, first 10,000 rows, peer SVC(kernel='linear') over tol",
        fit_intercept=True,
        n_rows=10_000,
        ladder=(1e-1, 1e-2, 1e-3),
        make_peer=lambda C, tol: SVC(kernel="linear", C=C, tol=tol, cache_size=1000),
        required=(
            *_cells("a9a", (1e-3, 1e-4), 15.0),
            *_cells("ijcnn1", (1e-3, 1e-4), 15.0),
            *_cells("covtype2", (1e-3, 1e-4), 15.0),
        ),
        further=(),
    ),
}
_SHIPPED = tuple(cell for name in DATASETS for cell in _cells(name, (1e-2, 1e-4)))

_TITLES = (
    *("task", "n", "d", "lambda", "J*", "bound", "iters", "ours s", "gap", "subopt"),
    *("peer at", "1e-3 s", "ratio", "peer at", "our J s", "ratio", "asked"),
)
_WIDTHS = (14, 6, 8, 7, 12, 12, 5, 8, 8, 8, 8, 8, 7, 8, 8, 7, 5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=sorted(PARTS), help="one part alone")
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK[:LAMBDA,...]",
        help="cells to run, as in a9a:1e-5,1e-6 covtype2; without lambdas, all that the part has",
    )
    parser.add_argument("--all", action="store_true", help="also the cells with no asked ratio")


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    if arguments.data is not None and tasks is None:
        print(f"no tasks.py in {arguments.data}: data that ships with scikit-learn instead")
    results: list[dict[str, Any]] = []
    for name in [arguments.part] if arguments.part else sorted(PARTS):
        part = PARTS[name]
        print(f"\n{part.title}")
        table = Table(list(zip(_TITLES, _WIDTHS, strict=True)))
        for cell in _wanted(part, arguments.tasks, arguments.all, shipped=tasks is None):
            try:
                X, y = _load(cell, tasks, part.n_rows)
            except MissingError as error:
                table.skip(cell.task, str(error))
                continue
            with quiet_single_thread():
                result = {"part": name, **compare(part, cell, X, y, arguments.repeat)}
            results.append(result)
            _print_row(table, result)
            write_json(arguments.json, results)


def _wanted(part: Part, tasks: list[str] | None, everything: bool, shipped: bool) -> list[Cell]:
    """The cells of a part that were asked for on the command line."""
    known = _SHIPPED if shipped else part.required + part.further
    if tasks is None:
        return list(_SHIPPED if shipped else known if everything else part.required)
    wanted = []
    for text in tasks:
        task, _, listed = text.partition(":")
        cells = [c for c in known if c.task == task]
        if listed:
            asked = {c.reg_lambda: c for c in cells}
            cells = [asked.get(v, Cell(task, v)) for v in map(float, listed.split(","))]
        wanted += cells or [Cell(task, nan)]
    return wanted


def _load(cell: Cell, tasks: Any, n_rows: int | None) -> tuple[Any, Array]:
    if isnan(cell.reg_lambda):
        raise MissingError(f"no cell of this part has it: name a lambda, as in {cell.task}:1e-4")
    if tasks is None and cell.task not in DATASETS:
        raise MissingError("comes with --data FOLDER only")
    try:
        X, y = dataset(cell.task) if tasks is None else tasks.linear(cell.task)
    except (ValueError, OSError) as error:
        raise MissingError(str(error)) from error
    return X[:n_rows], y[:n_rows]


class Contest:
    """The fits and objectives of both sides in one cell."""

    def __init__(self, part: Part, reg_lambda: float, X: Any, y: Array):
        self._part = part
        self._reg_lambda = reg_lambda
        self._X, self._y = X, y

    def fit_ours(self, tol: float = SUBOPTIMALITY, **limits: Any) -> BMRMClassifier:
        model = BMRMClassifier("hinge", reg_lambda=self._reg_lambda, tol=tol, n_jobs=1)
        model.set_params(fit_intercept=self._part.fit_intercept, **limits)
        return model.fit(self._X, self._y)

    def fit_peer(self, setting: Any) -> Any:
        C = 1.0 / (len(self._y) * self._reg_lambda)
        return self._part.make_peer(C, setting).fit(self._X, self._y)

    def peer_rung(self, setting: Any) -> tuple[float, float]:
        """CPU seconds and objective of one fit of the peer."""
        seconds, model = cpu_seconds(lambda: self.fit_peer(setting))
        return seconds, self.peer_objective(model)

    def our_objective(self, model: BMRMClassifier) -> float:
        return self._objective(model.coef_, model.intercept_.item())

    def peer_objective(self, model: Any) -> float:
        """With a free intercept, the better one of the peer's own and the best one for its w."""
        w = model.coef_.toarray().ravel() if issparse(model.coef_) else model.coef_.ravel()
        if not self._part.fit_intercept:
            return self._objective(w, 0.0)
        intercepts = model.intercept_.item(), best_intercept(self._X, self._y, w)
        return min(self._objective(w, b) for b in intercepts)

    def _objective(self, w: Array, intercept: float) -> float:
        return objective(self._X, self._y, w, intercept, self._reg_lambda)


def compare(part: Part, cell: Cell, X: Any, y: Array, repeat: int) -> dict[str, Any]:
    """All numbers of a row; the first fits compile and find the settings, and are not timed."""
    n, d = X.shape
    contest = Contest(part, cell.reg_lambda, X, y)
    contest.fit_ours(max_iter=20)
    seconds, model = cpu_seconds(contest.fit_ours)
    own = Rung("ours", contest.our_objective(model), seconds)
    most_planes = min(5000, max(100, _PLANE_ENTRIES // d))
    reference = contest.fit_ours(1e-6, max_iter=most_planes, max_time=2 * LONG)
    best = min(own.objective, contest.our_objective(reference))
    stop = _stopping_rule(min(own.objective, _within(best)))
    rungs = climb(part.ladder, contest.peer_rung, stop)
    best = min(best, *(r.objective for r in rungs))
    targets = {"1e-3": _within(best), "our J": own.objective}
    timed = {r.setting: r for t in targets.values() for r in candidates(rungs, t)}
    time_rungs(
        list(timed.values()),
        own,
        lambda rung: contest.fit_ours() if rung is own else contest.fit_peer(rung.setting),
        repeat,
    )
    chosen = {name: cheapest(rungs, target) for name, target in targets.items()}
    return {
        **asdict(cell),
        "n": n,
        "d": d,
        "best": best,
        "bound": max(model.lower_bound_, reference.lower_bound_),
        "n_iter": model.n_iter_,
        "status": model.status_,
        "reference_status": reference.status_,
        "gap": model.dual_gap_ / model.objective_,
        "ours": asdict(own),
        "peer": {k: r and asdict(r) for k, r in chosen.items()},
        "ladder": [asdict(r) for r in rungs],
    }


def _within(best: float) -> float:
    return best * (1.0 + SUBOPTIMALITY)


def _stopping_rule(target: float) -> Callable[[list[Rung]], bool]:
    """LIBLINEAR's objective is not monotone: one rung below the target does not end a ladder."""

    def stop(rungs: list[Rung]) -> bool:
        last = [r.objective for r in rungs[-2:]]
        settled = len(last) == 2 and max(last) <= target
        costly = sum(r.first_seconds for r in rungs) > LONG
        return settled and (costly or last[0] == last[1])

    return stop


def _print_row(table: Table, result: dict[str, Any]) -> None:
    own = result["ours"]
    cells = []
    for name in ("1e-3", "our J"):
        peer = result["peer"][name]
        if peer is None:
            slowest = result["ladder"][-1]["first_seconds"]
            cells += ["none", f">{slowest:.3g}", f">{slowest / own['seconds']:.2f}"]
        else:
            ratio = peer["seconds"] / own["seconds"]
            cells += [f"{peer['setting']:g}", f"{peer['seconds']:.4f}", f"{ratio:.2f}"]
    table.row(
        result["task"],
        f"{result['n']}",
        f"{result['d']}",
        f"{result['reg_lambda']:.0e}",
        f"{result['best']:.8f}",
        f"{result['bound']:.8f}",
        f"{result['n_iter']}",
        f"{own['seconds']:.4f}",
        f"{result['gap']:.1e}",
        f"{own['objective'] / result['best'] - 1.0:.1e}",
        *cells,
        "-" if result["asked"] is None else f"{result['asked']:g}",
    )
    if result["status"] != "converged":
        table.note(f"our fit ended with status {result['status']!r}")
    if result["bound"] > result["best"] * (1.0 + 1e-12):
        table.note("the certified bound lies above an objective that was reached")
