"""Sparse models beside their peers: L1 and the elastic net, single fits, paths and searches.

J = reg_lambda (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2) + the mean loss, computed here in numpy
at the weights of either side; reg_lambda is its largest useful value, computed here too, over 10,
100 and 1,000. Ours stops at a certified relative gap of 1e-3 and of 1e-6, a peer at its cheapest
setting within that of the optimum. CPU seconds of whole fits in one thread, in turns; a ratio is
the peer's seconds over ours. Ours gets C-ordered or CSR data, and a peer that works on columns
F-ordered or CSC ones, made beforehand. ">": no peer got there within its limit; "<": we did not get
to our gap.

regression      squared_error: scikit-learn's Lasso and ElasticNet, celer, skglm
classification  log_loss and squared_hinge: LIBLINEAR, saga, celer, skglm
path            100 values: lasso_path, celer_path
search          with 5 folds: LassoCV, LogisticRegressionCV
"""

import argparse

import _sparse_path
import _sparse_search
import _sparse_table
from _linear_kept import KeptFits
from _measure import header, load_tasks
from _parts import Session, add_limit_arguments
from _sparse_data import SETS, SHIPPED, SparseSets
from _sparse_peers import MISSING
from _sparse_rows import CLASSIFICATION, REGRESSION, ROWS

HELP = "L1 and elastic net: Lasso, LIBLINEAR, saga, celer, skglm, and their paths"

_PARTS = {"regression": REGRESSION, "classification": CLASSIFICATION}
_MANY = {"path": _sparse_path, "search": _sparse_search}
_QUICK_SETS = ("diabetes", "breast_cancer", "cadata", "a9a")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeat=3)
    names = sorted({name for known in (SETS, SHIPPED) for kind in known.values() for name in kind})
    parser.add_argument(
        "--part",
        nargs="+",
        choices=(*_PARTS, *_MANY),
        default=[*_PARTS, *_MANY],
        help="by default all",
    )
    parser.add_argument("--loss", nargs="+", choices=ROWS, default=[*ROWS], help="these alone")
    parser.add_argument("--sets", nargs="+", choices=names, metavar="SET", help="these alone")
    parser.add_argument(
        "--reg-lambda",
        nargs="+",
        type=float,
        default=(10.0, 100.0, 1000.0),
        metavar="K",
        help="the largest useful one over these (default 10 100 1000)",
    )
    parser.add_argument(
        "--tol", nargs="+", type=float, default=(1e-3, 1e-6), help="(default 1e-3 1e-6)"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"over 10 alone, on {', '.join(_QUICK_SETS)}"
    )
    parser.add_argument(
        "--same-layout", action="store_true", help="peers get C-ordered or CSR data as well"
    )
    add_limit_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a set that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    if MISSING:
        print(f"not installed here, and left out: {', '.join(MISSING)}")
    if arguments.quick:
        arguments.reg_lambda = arguments.reg_lambda[:1]
        arguments.sets = arguments.sets or _QUICK_SETS
    tasks = load_tasks(arguments.data)
    kept = KeptFits(arguments.peer_fits, slow=0.0)  # whole ladders, most of which is a search
    session, sets = Session(tasks, None, arguments.repeat, arguments.json, kept), SparseSets(tasks)
    for part in arguments.part:
        if part in _MANY:
            _MANY[part].run(session, sets, arguments)
            continue
        rows = {name: row for name, row in _PARTS[part].items() if name in arguments.loss}
        if rows:
            _sparse_table.run(rows, session, sets, arguments)
