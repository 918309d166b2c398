"""SDCACRF against CRFsuite on label sequences: one thread, CPU time, warm cache, reg_lambda = 1/n.

With fit_intercept=False SDCACRF has CRFsuite's model, and with all attributes by all labels
(feature.possible_states = feature.possible_transitions = 1, c2 = n reg_lambda / 2) CRFsuite
minimizes our objective:

lbfgs-all, l2sgd-all  that model
lbfgs, l2sgd, ap      CRFsuite's default feature set: what occurs in the training data

Features are prepared beforehand on both sides, a sparse matrix a sequence for us and the strings
made into numbers for CRFsuite (Trainer.append); the third table has the whole from strings to
model. OCR letters has the accuracy of the labels, the others F1 of the spans, in percent.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _chains import TASKS, load
from _crf_contest import Contest
from _crf_curves import Curves
from _crf_fits import fits
from _crf_growth import growth
from _crf_search import search
from _crfsuite import PEERS
from _measure import (
    MissingError,
    Table,
    header,
    load_tasks,
    quiet_single_thread,
    write_json,
)
from benchmarks.chains import DATASETS

HELP = "label sequences: SDCACRF and CRFsuite"

SOLVERS = ("auto", "exponentiated", "sdca", "lbfgs")
ASKED = {  # least ratios to lbfgs-all at equal suboptimality
    ("ocr", 1e-3): 4.0,
    ("ocr", 1e-6): 6.0,
}
ASKED_TO_FIRST = {"conll2000": 20.0}  # lbfgs-all's seconds to 1e-1 over ours to a gap of 1e-3
ASKED_TO_SCORE = {"conll2000": 10.0}  # seconds to the score, of lbfgs over ours
ASKED_SCORE = {"conll2000": 93.6}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeat=3)
    parser.add_argument("--task", nargs="+", metavar="TASK", help="some tasks alone")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[*PEERS], help="some alone")
    parser.add_argument(
        "--solvers", nargs="+", choices=SOLVERS, help="instead of the default of SDCACRF"
    )
    parser.add_argument(
        "--curves",
        type=Path,
        metavar="FILE",
        help="CRFsuite's runs: read from this file; what it lacks is measured and added",
    )
    parser.add_argument(
        "--only-peers", action="store_true", help="measure CRFsuite's long runs and nothing else"
    )
    parser.add_argument(
        "--only-search", action="store_true", help="searches over the regularization, nothing else"
    )
    parser.add_argument(
        "--only-fits", action="store_true", help="single fits of some thousand sentences alone"
    )
    parser.add_argument(
        "--only-growth", action="store_true", help="time and memory by sentences, nothing else"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the tables of every task; one that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    alone = {
        fits: arguments.only_fits,
        search: arguments.only_search,
        growth: arguments.only_growth,
    }
    for part, is_alone in alone.items():
        if is_alone:
            write_json(arguments.json, part(tasks, arguments.repeat))
            return
    results: list[dict[str, Any]] = []
    for name in arguments.task or (DATASETS if tasks is None else TASKS):
        try:
            task = load(name, tasks)
            curves = Curves(task, arguments.curves)
            _tell_curves(curves, arguments.peers)
        except MissingError as error:
            print(f"\n{name} skipped: {error}")
            continue
        if arguments.only_peers:
            continue
        for solver in arguments.solvers or [None]:
            with quiet_single_thread():
                contest = Contest(task, curves, arguments.peers, solver, arguments.repeat)
                result = contest.compare()
            results.append(result)
            _print_result(result, arguments.peers)
            write_json(arguments.json, results)
    if tasks is not None and not arguments.only_peers:
        for part in alone:
            results += part(tasks, arguments.repeat)
        write_json(arguments.json, results)


def _tell_curves(curves: Curves, peers: Sequence[str]) -> None:
    """What CRFsuite's long runs are and when they were measured."""
    task = curves.task
    K, (n_tokens, d) = len(task.classes), task.train.design.shape
    print(
        f"\n{task.name}: {len(task.train.labels):,} sequences, {n_tokens:,} tokens, K {K}, "
        f"{d:,} attributes, {K * (d + K):,} weights; tests "
        + ", ".join(f"{name} {len(part.labels):,}" for name, part in task.tests.items())
    )
    columns = [("CRFsuite, long runs", 22), ("weights", 10), ("iterations", 10), ("CPU s", 8)]
    table = Table([*columns, ("features s", 10), ("objective", 12), (task.measure, 13)])
    for name in peers:
        run = curves.run(name)
        final = run["final"]
        objective = final["objective"] if final["objective"] is not None else run["losses"][-1]
        table.row(
            name,
            f"{run['n_features']:,}",
            f"{len(run['seconds'])}",
            f"{run['seconds'][-1]:.2f}",
            f"{run['feature_seconds']:.2f}",
            f"{objective:.6f}" if name != "ap" else "-",
            _scores(final["scores"]),
        )
        if not curves.was_measured(name):
            table.note(f"{name} read from the file of curves, measured {run['date']}")


def _print_result(result: dict[str, Any], peers: Sequence[str]) -> None:
    print(
        f"\nSDCACRF(solver={result['solver']!r}): lowest objective {result['best']:.8f}, certified "
        f"lower bound {result['bound']:.8f}"
    )
    for name, off in result["checks"].items():
        print(f"objective of {name} as it says and as computed here: relative difference {off:.1e}")
    same = [name for name in peers if PEERS[name].same_model]
    _print_objectives(result, same)
    _print_scores(result, peers)
    _print_whole(result)


def _print_objectives(result: dict[str, Any], peers: Sequence[str]) -> None:
    """Seconds to a certified gap and to a suboptimality, and the peers' to the latter."""
    columns = [("to", 6), ("side", 15), ("CPU s", 9), ("steps", 6), ("score", 13)]
    table = Table([*columns, ("over gap", 9), ("over subopt", 11), ("asked", 6), ("by", 14)])
    for target in result["targets"]:
        own = [target["gap"], target["suboptimality"]]
        to = f"{target['eps']:.0e}"
        for title, fit in zip(("ours, gap", "ours, subopt"), own, strict=True):
            cells = ["not reached", "-", "-"]
            if fit is not None:
                cells = [f"{fit['seconds']:.3f}", f"{fit['n_iter']}", _scores(fit["scores"])]
            table.row(to, title, *cells, "", "", "", "" if fit is None else fit["solver"])
        for name in peers:
            least = ASKED.get((result["task"], target["eps"])) if name == "lbfgs-all" else None
            asked = "-" if least is None else f"{least:g}"
            table.row(to, name, *_peer_cells(target["peers"][name], own), asked, "")
    for first in result["to_first"]:
        least = ASKED_TO_FIRST.get(result["task"])
        asked = "" if least is None else f" (asked: {least:g}: {_met(first['ratio'] >= least)})"
        print(
            f"lbfgs-all to a suboptimality of 1e-01, over ours to a certified gap of 1e-03: "
            f"{first['ratio']:.1f}{asked}; without its making of features {first['without']:.1f}"
        )
    least, score = ASKED_SCORE.get(result["task"]), result["certified_score"]
    if least is not None and score is not None:
        asked = f"asked: {least:g}: {_met(score >= least)}"
        print(f"F1 at a certified gap of 1e-03: {score:.2f} ({asked})")


def _peer_cells(peer: dict[str, Any], own: Sequence[dict[str, Any] | None]) -> list[str]:
    """A peer that did not get there has the seconds of its long run, and lower bounds as ratios."""
    mark = "" if peer["reached"] else ">"
    cells = [f"{mark}{peer['seconds']:.2f}", f"{peer['iterations']}"]
    cells.append(_scores(peer["scores"]) if peer["scores"] else "-")
    for fit in own:
        cells.append("-" if fit is None else f"{mark}{peer['seconds'] / fit['seconds']:.1f}")
    return cells


def _print_scores(result: dict[str, Any], peers: Sequence[str]) -> None:
    """Seconds until a score is within 0.2 points of what it ends at."""
    print("\nuntil the score is first within 0.2 points of the side's own final one")
    columns = [("test", 7), ("side", 14), ("CPU s", 9), ("steps", 6), ("score", 6), ("final", 6)]
    table = Table([*columns, ("ratio", 7), ("asked", 6)])
    for test, sides in result["scores"].items():
        for name in ("ours", *(peer for peer in peers if peer in sides)):
            side, ratio, asked = sides[name], "", ""
            if name != "ours":
                ratio = f"{side['seconds'] / sides['ours']['seconds']:.1f}"
                least = ASKED_TO_SCORE.get(result["task"]) if name == "lbfgs" else None
                asked = "-" if least is None else f"{least:g}"
            cells = [f"{side['seconds']:.3f}", f"{side['iterations']}"]
            cells += [f"{side['score']:.2f}", f"{side['final']:.2f}"]
            table.row(test, name, *cells, ratio, asked)


def _print_whole(result: dict[str, Any]) -> None:
    print("\nfrom strings to model; ours to a certified gap of 1e-03, theirs to the end")
    own = result["whole"]["ours"]
    table = Table([("", 14), ("CPU s", 8), ("of it strings", 13), ("score", 13), ("ratio", 7)])
    for name, side in result["whole"].items():
        table.row(
            name,
            f"{side['seconds']:.2f}",
            f"{side['strings']:.2f}",
            _scores(side["scores"]),
            f"{side['seconds'] / own['seconds']:.2f}",
        )


def _scores(scores: dict[str, float]) -> str:
    """One number a test part."""
    return " / ".join(f"{score:.2f}" for score in scores.values())


def _met(met: bool) -> str:
    return "met" if met else "missed"
