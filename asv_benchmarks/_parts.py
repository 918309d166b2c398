"""From the command line to the tables of a study that consists of contests."""

import argparse
from collections.abc import Iterator
from math import isnan, nan
from types import ModuleType
from typing import Any

from _contest import Cell, Part, cells, compare
from _measure import MissingError, Table, header, load_tasks, quiet_single_thread, write_json
from benchmarks.common import DATASETS, Array, dataset

_SHIPPED = tuple(cell for name in DATASETS for cell in cells(name, (1e-2, 1e-4)))


def add_tasks_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK[:LAMBDA,...]",
        help="cells to run, as in a9a:1e-5,1e-6 covtype2; without lambdas, all that the part has",
    )


def run_parts(
    parts: dict[str, Part], about: str, arguments: argparse.Namespace, everything: bool = False
) -> list[dict[str, Any]]:
    """Print a table a part and return all rows; a task that cannot be had is skipped."""
    print(header(about.strip()))
    tasks = load_tasks(arguments.data)
    if arguments.data is not None and tasks is None:
        print(f"no tasks.py in {arguments.data}: data that ships with scikit-learn instead")
    results: list[dict[str, Any]] = []
    for name, part in parts.items():
        print(f"\n{part.title}")
        table = ContestTable(next(iter(part.peers)))
        wanted = _wanted(part, arguments.tasks, everything, shipped=tasks is None)
        for result in _race(part, wanted, tasks, table, arguments.repeat):
            table.add(result)
            results.append({"part": name, **result})
            write_json(arguments.json, results)
    return results


def _race(
    part: Part, wanted: list[Cell], tasks: ModuleType | None, table: Table, repeat: int
) -> Iterator[dict[str, Any]]:
    for cell in wanted:
        try:
            X, y = _load(cell, tasks, part.n_rows)
        except MissingError as error:
            table.skip(cell.task, str(error))
            continue
        with quiet_single_thread():
            result = compare(part, cell, X, y, repeat)
        yield result


def _wanted(part: Part, tasks: list[str] | None, everything: bool, shipped: bool) -> list[Cell]:
    """The cells of a part that were asked for on the command line."""
    known = _SHIPPED if shipped else part.required + part.further
    if tasks is None:
        return list(_SHIPPED if shipped else known if everything else part.required)
    wanted = []
    for text in tasks:
        task, _, listed = text.partition(":")
        found = [c for c in known if c.task == task]
        if listed:
            asked = {c.reg_lambda: c for c in found}
            found = [asked.get(v, Cell(task, v)) for v in map(float, listed.split(","))]
        wanted += found or [Cell(task, nan)]
    return wanted


def _load(cell: Cell, tasks: ModuleType | None, n_rows: int | None) -> tuple[Any, Array]:
    if isnan(cell.reg_lambda):
        raise MissingError(f"no cell of this part has it: name a lambda, as in {cell.task}:1e-4")
    if tasks is None and cell.task not in DATASETS:
        raise MissingError("comes with --data FOLDER only")
    try:
        X, y = dataset(cell.task) if tasks is None else tasks.linear(cell.task)
    except (ValueError, OSError) as error:
        raise MissingError(str(error)) from error
    return X[:n_rows], y[:n_rows]


class ContestTable(Table):
    """A row for each cell: our fit, and the main peer at its two aims."""

    _TITLES = (
        *("task", "n", "d", "lambda", "J*", "bound", "iters", "passes", "ours s", "gap", "subopt"),
        *("peer at", "1e-3 s", "ratio", "peer at", "our J s", "ratio", "asked"),
    )
    _WIDTHS = (14, 6, 8, 7, 12, 12, 5, 6, 8, 8, 8, 8, 8, 7, 8, 8, 7, 5)

    def __init__(self, peer: str):
        super().__init__(list(zip(self._TITLES, self._WIDTHS, strict=True)))
        self._peer = peer

    def add(self, result: dict[str, Any]) -> None:
        own = result["ours"]
        self.row(
            result["task"],
            f"{result['n']}",
            f"{result['d']}",
            f"{result['reg_lambda']:.0e}",
            f"{result['best']:.8f}",
            f"{result['bound']:.8f}",
            f"{result['n_iter']}",
            f"{result['passes']}",
            f"{own['seconds']:.4f}",
            f"{own['gap']:.1e}",
            excess(own, result),
            *peer_figures(result, self._peer, "1e-3"),
            *peer_figures(result, self._peer, "our J"),
            "-" if result["asked"] is None else f"{result['asked']:g}",
        )
        if result["status"] != "converged":
            self.note(f"our fit ended with status {result['status']!r}")
        if result["bound"] > result["best"] * (1.0 + 1e-12):
            self.note("the certified bound lies above an objective that was reached")


def excess(rung: dict[str, Any], result: dict[str, Any]) -> str:
    """Relative suboptimality."""
    return f"{rung['objective'] / result['best'] - 1.0:.1e}"


def peer_figures(result: dict[str, Any], name: str, aim: str) -> tuple[str, str, str]:
    """Setting, seconds and ratio of a peer; lower bounds if no setting gets there."""
    peer, own = result["peers"][name], result["ours"]["seconds"]
    rung = peer["chosen"][aim]
    if rung is None:
        slowest = peer["ladder"][-1]["first_seconds"]
        return "none", f">{slowest:.3g}", f">{slowest / own:.2f}"
    return f"{rung['setting']:g}", f"{rung['seconds']:.4f}", f"{rung['seconds'] / own:.2f}"
