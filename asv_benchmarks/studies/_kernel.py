"""SwapSVC against scikit-learn's SVC, RBF kernel, the same gamma.

Group 1  one-versus-one
Group 2  two classes, dense and CSR

gamma is what SVC takes for "scale", computed once on the training part. All have their default tol:
for us 1e-2, the certified relative gap, for the peers 1e-3, the violation of the optimality
conditions; accuracies are compared. Seconds of CPU time, one thread; fit on the training part,
predict on the test part.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean
from types import ModuleType
from typing import Any

from _kernel_contest import (
    OURS,
    PEERS,
    compare,
    make_ours,
)
from _measure import MissingError, Table, header, load_tasks, quiet_single_thread, write_json
from _svm import load, scale_gamma, warm_up

HELP = "kernel machines: SVC of scikit-learn"

Asked = dict[str, tuple[float, float | None]]  # ratios of fit and of predict, by peer


@dataclass(frozen=True)
class Group:
    """Tasks and the ratios asked for, and what takes their place without --data."""

    title: str
    tasks: dict[str, Asked]
    shipped: tuple[str, ...]


GROUPS = {
    1: Group(
        "one-versus-one",
        {
            "pendigits": {"SVC": (3.0, 5.0)},
            "usps": {"SVC": (3.0, 5.0)},
            "letter": {"SVC": (3.0, 5.0)},
            "mnist_10k": {"SVC": (4.0, 5.0)},
        },
        ("digits",),
    ),
    2: Group(
        "two classes; ijcnn1 and covtype2 are dense, a9a and w8a CSR",
        {
            "ijcnn1": {"SVC": (4.0, 5.0)},
            "covtype2": {"SVC": (4.0, 5.0)},
            "a9a": {"SVC": (4.0, 5.0)},
            "w8a": {"SVC": (4.0, 5.0)},
        },
        ("breast_cancer", "made_sparse"),
    ),
}
CS = (0.1, 1.0, 10.0, 100.0)

# Few rows make another way through the code as many do where the kernel matrix does not fit.
_SMALL_CACHE = {"cache_size": 1, "max_iter": 1000}
_SUMMARY = (
    *(("task", 14), ("peer", 8), ("fit", 7), ("asked", 6), ("predict", 8), ("asked", 6)),
    *(("ours %", 8), ("at C", 6), ("peer %", 8), ("at C", 6), ("points", 7), ("asked for", 22)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", nargs="+", type=int, choices=GROUPS, help="some groups alone")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some tasks alone")
    parser.add_argument("--C", nargs="+", type=float, default=CS, help="(default .1 1 10 100)")


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task or a peer that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    chosen = {number: GROUPS[number] for number in arguments.group or GROUPS}
    known = {k: [*(g.shipped if tasks is None else g.tasks)] for k, g in chosen.items()}
    for name in set(arguments.tasks or ()).difference(*known.values()):
        print(f"{name} skipped: no group that runs has it")
    results: list[dict[str, Any]] = []
    for number, group in chosen.items():
        names = [n for n in known[number] if n in (arguments.tasks or known[number])]
        if not names:
            continue
        print(f"\nGroup {number}: {group.title}")
        for result in _race(group, names, tasks, arguments):
            results.append({"group": number, **result})
            write_json(arguments.json, results)


def _race(
    group: Group,
    names: Sequence[str],
    tasks: ModuleType | None,
    arguments: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """A row for each C, and then a summary of every task."""
    table = ContestTable(list(PEERS))
    taken: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        try:
            for result in _rows(name, tasks, arguments):
                table.add(result)
                taken.setdefault(name, []).append(result)
                yield result
        except MissingError as error:
            table.skip(name, str(error))
    print()
    summary = Table(_SUMMARY)
    for name, rows in taken.items():
        for peer in PEERS:
            summary.row(*_summary(rows, peer, group.tasks.get(name, {}).get(peer)))


def _rows(
    name: str,
    tasks: ModuleType | None,
    arguments: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    data = load(name, tasks)
    gamma = scale_gamma(data.X)
    with quiet_single_thread():
        warm_up(partial(make_ours, 10.0, gamma), data)
        warm_up(partial(make_ours, 10.0, gamma, **_SMALL_CACHE), data)
    for C in arguments.C:
        with quiet_single_thread():
            yield {"task": name, **compare(C, gamma, data, PEERS, arguments.repeat)}


class ContestTable(Table):
    """Our fit, and what every peer takes for the same C."""

    def __init__(self, peers: Sequence[str]):
        self._peers = peers
        columns = [("task", 14), ("n", 6), ("d", 4), ("C", 5), ("status", 10), ("gap", 8)]
        columns += [("SV", 6), ("ours %", 7), ("fit s", 8), ("predict s", 9)]
        for name in peers:
            columns += [(f"{name} %", 10), ("fit s", 8), ("ratio", 7)]
            columns += [("predict s", 9), ("ratio", 7)]
        super().__init__(columns)

    def add(self, result: dict[str, Any]) -> None:
        own, status = result["sides"][OURS], result["status"]
        cells = [result["task"], f"{result['n']}", f"{result['d']}", f"{result['C']:g}"]
        cells += ["several" if "," in status else status, f"{result['gap']:.1e}"]
        cells += [f"{own['n_support']}", f"{own['accuracy']:.2f}"]
        cells += [f"{own['fit']:.4f}", f"{own['predict']:.4f}"]
        for name in self._peers:
            peer = result["sides"][name]
            cells.append(f"{peer['accuracy']:.2f}")
            for what in ("fit", "predict"):
                cells += [f"{peer[what]:.4f}", f"{peer[what] / own[what]:.2f}"]
        self.row(*cells)
        if status != "converged":
            self.note(f"our fit ended with status {status}")


def _summary(
    rows: list[dict[str, Any]], peer: str, asked: tuple[float, float | None] | None
) -> list[str]:
    """Geometric means of the ratios over C, and both sides at the C that suits each best.

    What is asked for is asked of the means over CS.
    """
    cells = [rows[0]["task"], peer]
    missed = [] if all(r["status"] == "converged" for r in rows) else ["gap"]
    for what, least in zip(("fit", "predict"), asked or (None, None), strict=True):
        ratio = geometric_mean(r["sides"][peer][what] / r["sides"][OURS][what] for r in rows)
        cells += [f"{ratio:.2f}", "-" if least is None else f"{least:g}"]
        if least is not None and ratio < least:
            missed.append(what)
    best = {s: max(rows, key=lambda r: r["sides"][s]["accuracy"]) for s in (OURS, peer)}
    accuracies = {side: row["sides"][side]["accuracy"] for side, row in best.items()}
    for side, row in best.items():
        cells += [f"{accuracies[side]:.2f}", f"{row['C']:g}"]
    cells.append(f"{accuracies[OURS] - accuracies[peer]:+.2f}")
    judged = asked is not None and {r["C"] for r in rows} == set(CS)
    return [*cells, _verdict(missed) if judged else "-"]


def _verdict(missed: list[str]) -> str:
    return f"{' and '.join(missed)} missed" if missed else "met"
