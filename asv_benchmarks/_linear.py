"""BMRMClassifier with the hinge against scikit-learn's linear support vector machines.

Part A  no intercept, against LinearSVC(loss="hinge") over its max_iter, tol=1e-12
Part B  free intercept, first 10,000 rows, against SVC(kernel="linear") over its tol

Both minimise J = reg_lambda/2 ||w||^2 + the mean hinge loss. Ours stops at its certified relative
gap 1e-3; the peer is timed at its cheapest setting that reaches a relative suboptimality of 1e-3,
and at its cheapest one that reaches the objective of our fit.
"""

import argparse
from functools import partial

from _contest import (
    MAX_ITERS,
    TOLERANCES,
    Cell,
    Part,
    Peer,
    cells,
    make_bmrm,
    make_linear_svc,
    make_svc,
)
from _parts import add_tasks_argument, run_parts

HELP = "linear support vector machines: LinearSVC and SVC(kernel='linear')"

PARTS = {
    "A": Part(
        title="Part A: no intercept, peer LinearSVC(loss='hinge', tol=1e-12) over max_iter",
        ours=partial(make_bmrm, fit_intercept=False),
        peers={"LinearSVC": Peer(partial(make_linear_svc, fit_intercept=False), MAX_ITERS)},
        fit_intercept=False,
        required=(
            *cells("a9a", (1e-5, 1e-6), 1.0),
            *cells("covtype2", (1e-3,), 2.0),
            *cells("mnist_even", (1e-4, 1e-5), 2.0),
        ),
        further=(
            *(Cell("a9a", 1e-4), Cell("covtype2", 1e-4), Cell("mnist_even", 1e-3)),
            *cells("w8a", (1e-4, 1e-5)),
            *cells("ijcnn1", (1e-5, 1e-6)),
            *cells("news20_bigrams", (1e-4, 1e-5)),
        ),
    ),
    "B": Part(
        title="Part B: free intercept, first 10,000 rows, peer SVC(kernel='linear') over tol",
        ours=make_bmrm,
        peers={"SVC": Peer(make_svc, TOLERANCES)},
        n_rows=10_000,
        required=(
            *cells("a9a", (1e-3, 1e-4), 15.0),
            *cells("ijcnn1", (1e-3, 1e-4), 15.0),
            *cells("covtype2", (1e-3, 1e-4), 15.0),
        ),
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=sorted(PARTS), help="one part alone")
    add_tasks_argument(parser)
    parser.add_argument("--all", action="store_true", help="also the cells with no asked ratio")


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task that cannot be had is skipped with its reason."""
    parts = {arguments.part: PARTS[arguments.part]} if arguments.part else PARTS
    run_parts(parts, __doc__, arguments, arguments.all)
