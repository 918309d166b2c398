"""Kernel machines against scikit-learn's and scikit-learn-intelex's, RBF kernel, the same gamma.

Group 1  one-versus-one
Group 2  two classes, dense and CSR
Group 3  many rows, with the peak memory of our fit and of SVC's
Group 4  SwapSVCCV against GridSearchCV(SVC()): 5 folds, 5 values of C
Group 5  SwapSVR against SVR over a grid of C and epsilon
Group 6  SwapNoveltyDetector against OneClassSVM
--growth instead: time and memory of SwapSVC from 1e3 rows to all of kddcup99

gamma is what SVC takes for "scale", computed once on the training part. All have their default tol:
for us 1e-2, the certified relative gap, for the peers 1e-3, the violation of the optimality
conditions; accuracies are compared. Seconds of CPU time, one thread; fit on the training part,
predict on the test part.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from statistics import geometric_mean
from types import ModuleType
from typing import Any

from _kernel_contest import (
    OURS,
    PEERS,
    Maker,
    check_intelex,
    compare,
    compare_searches,
    make_ours,
    make_search,
    make_svc,
)
from _kernel_growth import growth
from _kernel_tube import Novelty, Regression, run_group
from _measure import MissingError, Table, header, load_tasks, quiet_single_thread, write_json
from _memory import peak_memory
from _svm import load, scale_gamma, warm_up

HELP = "kernel machines: SVC of scikit-learn and of scikit-learn-intelex, SVR, OneClassSVM"

Asked = dict[str, tuple[float, float | None]]  # ratios of fit and of predict, by peer


@dataclass(frozen=True)
class Group:
    """Tasks and the ratios asked for, and what takes their place without --data."""

    title: str
    tasks: dict[str, Asked]
    shipped: tuple[str, ...]
    memory: float | None = None  # MiB at the peak of our fit, at most


@dataclass(frozen=True)
class Search:
    """Group 4."""

    title: str = "SwapSVCCV, peer GridSearchCV(SVC())"
    # How many times as fast as the peer: two classes, and one-versus-one.
    tasks: dict[str, float] = field(default_factory=lambda: {"usps_odd": 8.0, "pendigits": 5.0})
    shipped: tuple[str, ...] = ("digits_odd",)
    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    close: float = 0.2  # points between the mean scores, at most
    close_from: float = 1.0  # from this C on


_INTELEX = {"intelex": (1.0, 1.0)}
GROUPS: dict[int, Group | Search | Regression | Novelty] = {
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
            "ijcnn1": {"SVC": (4.0, 5.0), **_INTELEX},
            "covtype2": {"SVC": (4.0, 5.0), **_INTELEX},
            "a9a": {"SVC": (4.0, 5.0), **_INTELEX},
            "w8a": {"SVC": (4.0, 5.0), **_INTELEX},
        },
        ("breast_cancer", "made_sparse"),
    ),
    3: Group(
        "many rows",
        {"kddcup99": {"SVC": (10.0, 5.0)}},
        ("breast_cancer",),
        memory=3072.0,
    ),
    4: Search(),
    5: Regression(),
    6: Novelty(),
}
CS = (0.1, 1.0, 10.0, 100.0)

# Few rows make another way through the code as many do where the kernel matrix does not fit.
_SMALL_CACHE = {"active_set": None, "cache_size": 1, "max_iter": 1000}
_SUMMARY = (
    *(("task", 14), ("peer", 8), ("fit", 7), ("asked", 6), ("predict", 8), ("asked", 6)),
    *(("ours %", 8), ("at C", 6), ("peer %", 8), ("at C", 6), ("points", 7), ("asked for", 22)),
)
_SCORES = (("C", 14), ("ours %", 8), ("peer %", 8), ("points", 7))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", nargs="+", type=int, choices=GROUPS, help="some groups alone")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some tasks alone")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="some peers alone")
    parser.add_argument(
        "--C", nargs="+", type=float, default=CS, help="of groups 1 to 3 (default .1 1 10 100)"
    )
    parser.add_argument(
        "--growth",
        nargs="?",
        type=int,
        const=1_000_000,
        metavar="ROWS",
        help="time and memory by rows, up to so many (default 1000000), nothing else",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task or a peer that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    if arguments.growth is not None:
        write_json(arguments.json, growth(tasks, arguments.growth, arguments.repeat))
        return
    peers = _peers(arguments.peers)
    versions = {}
    if "intelex" in peers:
        versions["scikit-learn-intelex"] = metadata.version("scikit-learn-intelex")
        print(f"scikit-learn-intelex {versions['scikit-learn-intelex']}")
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
        if isinstance(group, Search):
            rows = _search(group, names, tasks, arguments.repeat)
        elif isinstance(group, Regression | Novelty):
            rows = run_group(group, names, tasks, arguments.repeat)
        else:
            rows = _race(group, names, tasks, arguments, peers)
        for result in rows:
            results.append({"group": number, **result, **versions})
            write_json(arguments.json, results)


def _peers(names: Sequence[str]) -> dict[str, Maker]:
    """Those that can be had."""
    peers = {name: PEERS[name] for name in names}
    if "intelex" in peers:
        try:
            check_intelex()
        except MissingError as error:
            print(f"peer intelex skipped: {error}")
            del peers["intelex"]
    return peers


def _race(
    group: Group,
    names: Sequence[str],
    tasks: ModuleType | None,
    arguments: argparse.Namespace,
    peers: dict[str, Maker],
) -> Iterator[dict[str, Any]]:
    """A row for each C, and then a summary of every task."""
    table = ContestTable(list(peers))
    taken: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        try:
            for result in _rows(
                name, tasks, arguments, peers, with_memory=group.memory is not None
            ):
                table.add(result, group.memory if name in group.tasks else None)
                taken.setdefault(name, []).append(result)
                yield result
        except MissingError as error:
            table.skip(name, str(error))
    print()
    summary = Table(_SUMMARY)
    for name, rows in taken.items():
        for peer in peers:
            summary.row(*_summary(rows, peer, group.tasks.get(name, {}).get(peer)))


def _rows(
    name: str,
    tasks: ModuleType | None,
    arguments: argparse.Namespace,
    peers: dict[str, Maker],
    with_memory: bool,
) -> Iterator[dict[str, Any]]:
    data = load(name, tasks)
    gamma = scale_gamma(data.X)
    with quiet_single_thread():
        warm_up(partial(make_ours, 10.0, gamma), data)
        warm_up(partial(make_ours, 10.0, gamma, **_SMALL_CACHE), data)
    for C in arguments.C:
        with quiet_single_thread():
            result = {"task": name, **compare(C, gamma, data, peers, arguments.repeat)}
        if with_memory:
            result["memory"] = peak_memory(partial(make_ours, C, gamma), data)
            if "SVC" in peers:
                result["memory"]["SVC"] = peak_memory(partial(make_svc, C, gamma), data)["peak"]
        yield result


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

    def add(self, result: dict[str, Any], most_memory: float | None) -> None:
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
        if "memory" in result:
            self.note(_memory_note(result["memory"], most_memory))


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


def _memory_note(memory: dict[str, float], most: float | None) -> str:
    asked = ""
    if most is not None:
        asked = f" (asked: under {most:g}: {_verdict([] if memory['peak'] < most else ['memory'])})"
    beside = f"; SVC {memory['SVC']:.0f} at its peak" if "SVC" in memory else ""
    return (
        f"memory of our fit: {memory['peak']:.0f} MiB at its peak{asked}, {memory['before']:.0f} "
        f"before it, of which the training data {memory['data']:.0f}{beside}"
    )


def _search(
    group: Search, names: Sequence[str], tasks: ModuleType | None, repeat: int
) -> Iterator[dict[str, Any]]:
    """A row for each C, and then what both searches took and chose."""
    for name in names:
        try:
            data = load(name, tasks)
        except MissingError as error:
            print(f"{name} skipped: {error}")
            continue
        gamma = scale_gamma(data.X)
        with quiet_single_thread():
            warm_up(partial(make_search, group.Cs[:2], gamma), data)
            result = {"task": name, **compare_searches(group.Cs, gamma, data, repeat)}
        _print_search(group, result, None if tasks is None else group.tasks[name])
        yield result


def _print_search(group: Search, result: dict[str, Any], asked: float | None) -> None:
    """``asked``: the ratio asked for on this task, if any."""
    own, peer = (result["sides"][side] for side in (OURS, "SVC"))
    print(f"{result['task']}, n {result['n']}, d {result['d']}; mean scores over the folds")
    table = Table(_SCORES)
    for C, ours, theirs in zip(group.Cs, own["scores"], peer["scores"], strict=True):
        table.row(f"{C:g}", f"{ours:.2f}", f"{theirs:.2f}", f"{ours - theirs:+.2f}")
    far = max(
        abs(ours - theirs)
        for C, ours, theirs in zip(group.Cs, own["scores"], peer["scores"], strict=True)
        if group.close_from <= C
    )
    ratio = peer["fit"] / own["fit"]
    missed = ["time"] if asked is not None and ratio < asked else []
    missed += [] if far <= group.close else ["scores"]
    for side, title in ((own, "ours"), (peer, "peer")):
        print(
            f"{title}: {side['fit']:.3f} s, C {side['C']:g}, "
            f"{side['accuracy']:.2f} % right on the test part"
        )
    held = ""
    if asked is not None:
        held = f" (asked: {asked:g} and at most {group.close:g}: {_verdict(missed)})"
    print(
        f"ratio {ratio:.2f}, scores from C = {group.close_from:g} on within {far:.2f} points{held}"
    )
