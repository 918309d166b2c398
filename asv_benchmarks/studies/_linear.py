"""BMRMClassifier and its peers: hinge, squared hinge and logistic loss.

All sides minimize J = reg_lambda/2 ||w||^2 + the mean loss. Ours stops at its certified relative
gap; a peer, which has none, is timed at its cheapest setting with that true relative suboptimality.
Ratios are the peer's seconds over ours: above 1 we are faster.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from _linear_losses import PARTS
from _parts import add_tasks_argument, open_session, run_part

HELP = "linear classification: LinearSVC, LogisticRegression, SVC(kernel='linear')"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [*PARTS]
    parser.add_argument("--part", nargs="+", choices=names, default=names, help="these parts alone")
    add_tasks_argument(parser)
    parser.add_argument("--solver", metavar="NAME", help="that of BMRMClassifier, not its default")
    parser.add_argument(
        "--peer-fits",
        type=Path,
        metavar="FILE",
        help="keep the peers' fits of more than 10 s in this file, and read what it has",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task that cannot be had is skipped with its reason."""
    session = open_session(__doc__, arguments)
    further = {} if arguments.solver is None else {"solver": arguments.solver}
    for name in arguments.part:
        part = PARTS[name]
        run_part(name, replace(part, ours=partial(part.ours, **further)), session)
