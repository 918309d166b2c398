"""BMRMClassifier and its peers: hinge, squared hinge and logistic loss, threads, growth, bandwidth.

All sides minimize J = reg_lambda/2 ||w||^2 + the mean loss. Ours stops at its certified relative
gap; a peer, which has none, is timed at its cheapest setting with that true relative suboptimality.
Ratios are the peer's seconds over ours: above 1 we are faster.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import _linear_blocks
import _linear_growth
import _linear_passes
import _linear_threads
import _linear_vectors
from _contest import make_bmrm
from _linear_losses import PARTS
from _parts import Session, add_tasks_argument, open_session, run_part

HELP = "linear classification: LinearSVC, LogisticRegression, SVC(kernel='linear'), Snap ML"

_FURTHER: dict[str, Callable[[Session, Any, argparse.Namespace], None]] = {
    "threads": lambda session, ours, arguments: _linear_threads.run(session, ours),
    "blocks": lambda session, ours, arguments: _linear_blocks.run(session),
    "vectors": lambda session, ours, arguments: _linear_vectors.run(session),
    "growth": lambda session, ours, arguments: _linear_growth.run(session, ours, arguments.figure),
    "passes": lambda session, ours, arguments: _linear_passes.run(session),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [*PARTS, *_FURTHER]
    parser.add_argument("--part", nargs="+", choices=names, default=names, help="these parts alone")
    add_tasks_argument(parser)
    parser.add_argument("--solver", metavar="NAME", help="that of BMRMClassifier, not its default")
    parser.add_argument(
        "--peer-fits",
        type=Path,
        metavar="FILE",
        help="keep the peers' fits of more than 10 s in this file, and read what it has",
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the cost against n of 'growth'"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task that cannot be had is skipped with its reason."""
    session = open_session(__doc__, arguments)
    further = {} if arguments.solver is None else {"solver": arguments.solver}
    for name in arguments.part:
        if name in PARTS:
            part = PARTS[name]
            run_part(name, replace(part, ours=partial(part.ours, **further)), session)
        else:
            _FURTHER[name](session, partial(make_bmrm, **further), arguments)
