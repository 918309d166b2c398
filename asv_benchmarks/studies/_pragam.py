"""PragamSVC against SVC(kernel="linear"): free intercept, all rows.

Both minimize J = reg_lambda/2 ||w||^2 + the mean hinge loss. Ours stops at its certified relative
gap 1e-3; the peer is timed at its cheapest tol that reaches a relative suboptimality of 1e-3, and
at its cheapest one that reaches the objective of our fit. A second table has what else fits a
linear support vector machine: BMRMClassifier("hinge") to the same certified gap, and
LinearSVC(loss="hinge", tol=1e-12), which penalizes its intercept and thus minimizes another
objective, at its cheapest max_iter within 1e-3 of the lowest J that it gets to.
"""

import argparse
from typing import Any

from _contest import (
    MAX_ITERS,
    SUBOPTIMALITY,
    TOLERANCES,
    Part,
    Peer,
    cells,
    make_bmrm,
    make_linear_svc,
    make_svc,
)
from _measure import Table
from _parts import add_tasks_argument, excess, peer_figures, run_parts

from sklearn_bundle import PragamSVC

HELP = "support vector machines with a free intercept: PragamSVC, SVC(kernel='linear') and others"

PART = Part(
    title="PragamSVC, peer SVC(kernel='linear', cache_size=1000) over tol",
    ours=lambda reg_lambda: PragamSVC(reg_lambda=reg_lambda, tol=SUBOPTIMALITY, n_jobs=1),
    peers={
        "SVC": Peer(make_svc, TOLERANCES, monotone=True),
        "BMRM": Peer(lambda reg_lambda, C, tol: make_bmrm(reg_lambda, tol), (1e-3,), ("end",)),
        "LinearSVC": Peer(make_linear_svc, MAX_ITERS, ("end",), own_intercept=True),
    },
    required=(
        *(*cells("a9a", (1e-3,), 10.0), *cells("a9a", (1e-4,))),
        *(*cells("ijcnn1", (1e-3,), 10.0), *cells("ijcnn1", (1e-4,))),
        *cells("covtype2", (1e-3, 1e-4)),
    ),
)

_COLUMNS = (
    *(("task", 14), ("lambda", 7), ("ours s", 8), ("subopt", 8)),
    *(("BMRM s", 8), ("ratio", 7), ("gap", 8), ("subopt", 8)),
    *(("LinearSVC at", 12), ("s", 8), ("ratio", 7), ("excess", 8), ("lowest", 8)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_tasks_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print both tables; a task that cannot be had is skipped with its reason."""
    results = run_parts({"SVC": PART}, __doc__, arguments)
    print("\nBMRMClassifier('hinge') to the same gap; LinearSVC(loss='hinge'), intercept penalized")
    table = Table(_COLUMNS)
    for result in results:
        table.row(*_cells(result))


def _cells(result: dict[str, Any]) -> list[str]:
    own, peers = result["ours"], result["peers"]
    bmrm, linear = (peers[name]["chosen"]["end"] for name in ("BMRM", "LinearSVC"))
    lowest = min(peers["LinearSVC"]["ladder"], key=lambda rung: rung["objective"])
    return [
        result["task"],
        f"{result['reg_lambda']:.0e}",
        f"{own['seconds']:.4f}",
        excess(own, result),
        *peer_figures(result, "BMRM", "end")[1:],
        f"{bmrm['gap']:.1e}",
        excess(bmrm, result),
        *peer_figures(result, "LinearSVC", "end"),
        excess(linear, result),
        excess(lowest, result),
    ]
