"""From the command line to the tables of a study that consists of contests."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, isnan, log, nan
from pathlib import Path
from types import ModuleType
from typing import Any

from _contest import Cell, Part, cells, compare
from _linear_kept import KeptFits
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


def add_limit_arguments(parser: argparse.ArgumentParser) -> None:
    """Of studies whose peers are timed in child processes with a limit."""
    parser.add_argument("--solver", metavar="NAME", help="ours, instead of its default")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="seconds of any fit (default %(default)g)"
    )
    parser.add_argument(
        "--peer-fits",
        type=Path,
        metavar="FILE",
        help="keep the peers' fits of more than 10 s in this file, and read what it has",
    )


@dataclass
class Session:
    """What the command line asks for, and the rows so far."""

    tasks: ModuleType | None  # None for data that ships with scikit-learn
    wanted: list[str] | None
    repeat: int
    path: Path | None
    kept: KeptFits
    everything: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)
    _last: tuple[str, Any, Array] | None = None

    def record(self, part: str, **figures: Any) -> None:
        """A row of the raw numbers, written at once."""
        self.results.append({"part": part, **figures})
        write_json(self.path, self.results)

    def data(
        self, table: Table, required: Sequence[Cell], further: Sequence[Cell] = ()
    ) -> Iterator[tuple[Cell, Any, Array]]:
        """The cells that were asked for with their data; those that cannot be had are skipped."""
        for cell in self._wanted(required, further):
            try:
                if isnan(cell.reg_lambda):
                    raise MissingError(f"no cell here: name a lambda, as in {cell.task}:1e-4")
                X, y = self.load(cell.task)
            except MissingError as error:
                table.skip(cell.task, str(error))
                continue
            yield cell, X, y

    def _wanted(self, required: Sequence[Cell], further: Sequence[Cell]) -> list[Cell]:
        known = _SHIPPED if self.tasks is None else (*required, *further)
        if self.wanted is None:
            return list(known if self.tasks is None or self.everything else required)
        wanted = []
        for text in self.wanted:
            task, _, listed = text.partition(":")
            found = [c for c in known if c.task == task]
            if listed:
                asked = {c.reg_lambda: c for c in found}
                found = [asked.get(v, Cell(task, v)) for v in map(float, listed.split(","))]
            wanted += found or [Cell(task, nan)]
        return wanted

    def load(self, name: str) -> tuple[Any, Array]:
        """X and labels -1 and +1; the last task stays in memory."""
        if self._last is None or self._last[0] != name:
            self._last = None  # two of them may not fit
            self._last = (name, *self._had(name))
        return self._last[1:]

    def _had(self, name: str) -> tuple[Any, Array]:
        if self.tasks is None and name not in DATASETS:
            raise MissingError("comes with --data FOLDER only")
        try:
            return dataset(name) if self.tasks is None else self.tasks.linear(name)
        except (ValueError, OSError) as error:
            raise MissingError(str(error)) from error


def open_session(about: str, arguments: argparse.Namespace, everything: bool = False) -> Session:
    """Print what stands above all tables."""
    print(header(about.strip()))
    tasks = load_tasks(arguments.data)
    kept = KeptFits(getattr(arguments, "peer_fits", None))
    return Session(
        tasks, arguments.tasks, arguments.repeat, arguments.json, kept, everything=everything
    )


def run_parts(
    parts: dict[str, Part], about: str, arguments: argparse.Namespace, everything: bool = False
) -> list[dict[str, Any]]:
    """Print a table a part and return all rows; a task that cannot be had is skipped."""
    session = open_session(about, arguments, everything)
    for name, part in parts.items():
        run_part(name, part, session)
    return session.results


def run_part(name: str, part: Part, session: Session) -> None:
    """A table, and the verdict on what is asked for; rows are printed and written as they come."""
    print(f"\n{part.title}")
    table = ContestTable(part)
    results = []
    for cell, X, y in session.data(table, part.required, part.further):
        with quiet_single_thread():
            result = compare(part, cell, X, y, session.repeat, session.kept)
        table.add(result)
        session.record(name, **result)
        results.append(result)
    print_verdict(part, results)


class ContestTable(Table):
    """A row for each cell: our fit, and the peer at each of its aims."""

    _OURS = (
        *(("task", 14), ("n", 6), ("d", 8), ("lambda", 7), ("J*", 12), ("bound", 12)),
        *(("iters", 5), ("passes", 6), ("ours s", 8), ("gap", 8), ("subopt", 8)),
    )

    def __init__(self, part: Part):
        main = next(iter(part.peers.values()))
        self._aims = [aim for aim in ("J*", "our J") if aim in main.aims]
        self._best_of = part.best_of
        names = {"J*": f"{part.suboptimality:.0e} s".replace("e-0", "e-"), "our J": "our J s"}
        columns = list(self._OURS)
        for aim in self._aims:
            columns += [("peer at", 20 if part.best_of else 7), (names[aim], 8), ("ratio", 8)]
        super().__init__([*columns, ("asked", 5), ("solver", 16)])

    def add(self, result: dict[str, Any]) -> None:
        own = result["ours"]
        peer = None if self._best_of else next(iter(result["peers"]))
        figures = [figure for aim in self._aims for figure in peer_figures(result, peer, aim)]
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
            *figures,
            "-" if result["asked"] is None else f"{result['asked']:g}",
            result["solver"],
        )
        if result["status"] != "converged":
            self.note(f"our fit ended with status {result['status']!r}")
        slack = result["best"] - result["bound"]
        if slack < -1e-12 * result["best"]:
            self.note("the certified bound lies above an objective that was reached")
        if slack > 0.1 * result["suboptimality"] * result["best"]:
            self.note(f"J* is known to {slack / result['best']:.1e} only, relative")


def excess(rung: dict[str, Any], result: dict[str, Any]) -> str:
    """Relative suboptimality."""
    return f"{rung['objective'] / result['best'] - 1.0:.1e}"


def peer_figures(result: dict[str, Any], name: str | None, aim: str) -> tuple[str, str, str]:
    """Setting, seconds and ratio of a peer, or of the best one; ">" if no setting gets there."""
    best, rung = _fastest(result, name, aim)
    seconds, mark = _seconds(result, best, rung)
    ratio = f"{mark}{seconds / result['ours']['seconds']:.2f}"
    if rung is None:
        return "none", f">{seconds:.3g}", ratio
    setting = f"{rung['setting']:g}"
    return setting if name else f"{best} {setting}", f"{seconds:.4f}", ratio


def _fastest(
    result: dict[str, Any], name: str | None, aim: str
) -> tuple[str, dict[str, Any] | None]:
    """The peer, or of all the one that gets there first, or would if it went on."""
    peers = result["peers"]
    names = list(peers) if name is None else [name]
    chosen = {k: peers[k]["chosen"][aim] for k in names}
    there = {k: rung for k, rung in chosen.items() if rung is not None}
    if there:
        name = min(there, key=lambda k: there[k]["seconds"])
        return name, there[name]
    return min(names, key=lambda k: _slowest(peers[k])), None


def _slowest(peer: dict[str, Any]) -> float:
    return max(rung["first_seconds"] for rung in peer["ladder"])


def _seconds(result: dict[str, Any], name: str, rung: dict[str, Any] | None) -> tuple[float, str]:
    """Of the peer, or what it takes at least; a mark for a ratio that is a bound."""
    if rung is None:
        return _slowest(result["peers"][name]), ">"
    return rung["seconds"], "" if result["status"] == "converged" else "<"


def main_ratio(part: Part, result: dict[str, Any]) -> tuple[float, str]:
    """That to the suboptimality of the part; ">" or "<" where it is a bound."""
    name = None if part.best_of else next(iter(result["peers"]))
    seconds, mark = _seconds(result, *_fastest(result, name, "J*"))
    return seconds / result["ours"]["seconds"], mark


def print_verdict(part: Part, results: list[dict[str, Any]]) -> None:
    """Which asked ratios were met, and the geometric mean of all."""
    results = [r for r in results if "J*" in next(iter(r["peers"].values()))["chosen"]]
    asked = [r for r in results if r["asked"] is not None]
    missed = []
    for result in asked:
        ratio, _ = main_ratio(part, result)
        if ratio < result["asked"]:
            cell = f"{result['task']} {result['reg_lambda']:.0e}"
            missed.append(f"{cell} {ratio:.2f} of {result['asked']:g}")
    if asked:
        details = f"; missed: {', '.join(missed)}" if missed else ""
        print(f"  ratios met: {len(asked) - len(missed)} of {len(asked)}{details}", flush=True)
    if len(results) > 1:
        ratios, marks = zip(*(main_ratio(part, r) for r in results), strict=True)
        bounds = f", {marks.count('>')} of them lower bounds" if ">" in marks else ""
        if "<" in marks:
            bounds += f", {marks.count('<')} of a fit of ours that did not get to its gap"
        wanted = "" if part.asked_mean is None else f", asked {part.asked_mean:g}"
        print(
            f"  geometric mean of {len(ratios)} ratios{bounds}: {geometric_mean(ratios):.2f}"
            f"{wanted}",
            flush=True,
        )


def geometric_mean(values: Any) -> float:
    return exp(sum(map(log, values)) / len(values))
