"""Time against gap: names in sentences beside CRFsuite, and fits of a few hundred rows.

Both sides minimize the objective of a conditional random field with all weights. Ours runs over a
ladder of ``tol``, the fastest of ``--repeat`` runs each, and a point is the gap that the fit itself
certified. CRFsuite logs its objective J after each iteration of one run; the gap is (J - bound) / J
with the best lower bound that ours certified. CPU seconds of one thread, from matrices and from
attributes that are numbers already.

The sentences are those of CoNLL-2002 in Dutch, or made ones without ``--data``.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _chains import load as load_chains
from _crfsuite import PEERS, CRFsuite
from _measure import (
    cpu_seconds,
    header,
    load_tasks,
    print_plain,
    quiet_single_thread,
    readable,
    versions,
)
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from sklearn_bundle import SDCACRF, BMRMClassifier, SwapSVC

HELP = "time against gap, and fits of a few hundred rows"

GOALS = 1e-1, 1e-2, 1e-3, 1e-5
_TOLS = 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6
_ITERATIONS = 1000  # of CRFsuite

Points = list[tuple[float, float]]  # CPU seconds and gap


def curves(tasks: Any, repeat: int) -> tuple[str, dict[str, Points]]:
    """What the data are, and the points of both sides."""
    task = load_chains("made_sentences" if tasks is None else "conll2002_ned", tasks)
    matrices, labels = task.train.matrices, task.train.labels

    def fit(tol: float) -> SDCACRF:
        model = SDCACRF(reg_lambda=task.reg_lambda, fit_intercept=False, tol=tol, n_jobs=1)
        return model.fit(matrices, labels)

    fit(1.0)  # compiles
    ours, bound = [], -np.inf
    for tol in _TOLS:
        runs = [cpu_seconds(partial(fit, tol)) for _ in range(repeat)]
        seconds, model = min(runs, key=lambda run: run[0])
        bound = max(bound, model.lower_bound_)
        ours.append((seconds, model.relative_gap_))
    with TemporaryDirectory() as folder:
        run = CRFsuite(task).train(PEERS["lbfgs-all"], _ITERATIONS, Path(folder, "model"))
    theirs = [(s, (J - bound) / J) for s, J in zip(run.seconds, run.losses, strict=False)]
    shown = sum(gap > _TOLS[-1] for _, gap in theirs) + 1  # below that, our bound is too coarse
    name = "made sentences" if tasks is None else "CoNLL-2002 Dutch"
    sides = {"SDCACRF": ours, "CRFsuite": theirs[:shown]}
    return f"{name}, {len(labels):,} sentences", {
        side: [(float(f"{s:.4g}"), float(f"{gap:.3g}")) for s, gap in points]
        for side, points in sides.items()
    }


def small_fits(repeat: int) -> list[list[str]]:
    """Milliseconds on a few hundred rows, where checks of the input cost as much as the fit."""
    rows = []
    for name, (X, y) in {
        "iris, 2 classes": tuple(a[:100] for a in load_iris(return_X_y=True)),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits, odd": load_digits(return_X_y=True),
    }.items():
        X, y = StandardScaler().fit_transform(X), y % 2
        C = 1 / (len(y) * 1e-2)
        fits = {
            "hinge": BMRMClassifier("hinge", reg_lambda=1e-2),
            "LinearSVC": LinearSVC(loss="hinge", C=C, random_state=0),
            "log_loss": BMRMClassifier("log_loss", reg_lambda=1e-2),
            "LogisticRegression": LogisticRegression(C=C),
            "SVC": SwapSVC(loss="hinge", tol=1e-3),
            "SVC of scikit-learn": SVC(),
        }
        for model in fits.values():
            model.fit(X, y)
        taken = {key: [] for key in fits}
        for _ in range(4 * repeat + 3):
            for key, model in fits.items():
                taken[key].append(cpu_seconds(partial(model.fit, X, y))[0])
        cells = [f"{1e3 * float(np.median(seconds)):.1f}" for seconds in taken.values()]
        rows.append([f"{name}, {X.shape[0]} x {X.shape[1]}", *cells])
    return rows


def reached(points: Points, goal: float) -> str:
    """The seconds of the cheapest setting that is within the goal."""
    seconds = [s for s, excess in points if excess <= goal]
    return f"{min(seconds):.2g}" if seconds else "--"


def draw(sides: dict[str, Points], path: Path) -> None:
    """One panel, in letters that are 16 pixels high on a page of 390 pixels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"figure.dpi": 72, "font.size": 34, "axes.linewidth": 2}  # a point is a pixel
    figure, ax = plt.subplots(figsize=(780 / 72, 620 / 72), layout="constrained")
    for (name, points), style in zip(sides.items(), ("o-", "-"), strict=True):
        ax.loglog(*zip(*points, strict=True), style, linewidth=6, markersize=15, label=name)
    first, last = np.log10([sides["SDCACRF"][0][0], sides["CRFsuite"][-1][0]])
    ax.set_xlim(10 ** np.floor(first), 10 ** np.ceil(last))
    ax.set(xlabel="CPU seconds", ylabel="gap to the optimum", ylim=(3e-7, 3))
    ax.set_yticks([1, 1e-2, 1e-4, 1e-6])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.4)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, handlelength=1.2)
    figure.savefig(path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the curves")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw earlier results alone")


def run(arguments: argparse.Namespace) -> None:
    """Print both tables, or draw what a file has."""
    if arguments.draw is not None:
        sides = json.loads(arguments.draw.read_text())["curves"]
    else:
        sides = measure(arguments)
    if arguments.figure is not None:
        draw(sides, arguments.figure)


def measure(arguments: argparse.Namespace) -> dict[str, Points]:
    tasks = load_tasks(arguments.data)
    print(header(__doc__))
    with quiet_single_thread():
        data, sides = curves(tasks, arguments.repeat)
        small = small_fits(arguments.repeat)
    columns = ["fit", *(f"s to {goal:.0e}".replace("-0", "-") for goal in GOALS), "lowest gap"]
    rows = [
        [name, *(reached(points, goal) for goal in GOALS), f"{min(g for _, g in points):.0e}"]
        for name, points in sides.items()
    ]
    small_columns = ["ms of a fit", "hinge", "LinearSVC", "log_loss", "LogisticRegression"]
    small_columns += ["kernel hinge", "SVC"]
    print_plain(data, columns, rows)
    print_plain("A few hundred rows", small_columns, small)
    if arguments.json is not None:
        facts = versions()
        content = {
            "command": "python asv_benchmarks/studies/peers.py curves"
            + (" --data FOLDER" if tasks else ""),
            "date": facts["date"][:10],
            "version": facts["sklearn_bundle"],
            "machine": facts["machine"].partition(", ")[2],
            "peer": "none",
            "data": data,
            "tables": {
                "curves": {"columns": columns, "rows": rows},
                "small": {"columns": small_columns, "rows": small, "data": "scikit-learn's"},
            },
            "curves": sides,
        }
        arguments.json.write_text(readable(content))
    return sides
