"""Every loss on every shape of data beside the fastest peer that solves the same problem.

J = reg_lambda/2 ||w||^2 + the mean loss, computed here in numpy at the weights of either side. Ours
stops at its certified relative gap of 1e-3 with default parameters; a peer at its cheapest setting
within 1e-3 of the optimum. CPU seconds of whole fits in one thread, in turns; a ratio is the peer's
seconds over ours. ">": no peer got there within its limit; "<": we did not get to our gap.
A row is a loss, a column a set, for reg_lambda 1e-2, 1e-4 and 1e-6.
"""

import argparse

import _cells_table
from _cells_data import SETS, SHIPPED, Sets
from _cells_rows import ROWS
from _cells_skglm import INSTALLED
from _linear_kept import KeptFits
from _measure import header, load_tasks
from _parts import Session, add_limit_arguments

HELP = "every loss on every shape of data: scikit-learn's linear models and skglm"

_REG_LAMBDAS = (1e-2, 1e-4, 1e-6)
_QUICK = (1e-4,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeat=3)
    names = sorted({name for known in (SETS, SHIPPED) for kind in known.values() for name in kind})
    parser.add_argument("--loss", nargs="+", choices=ROWS, default=[*ROWS], help="these alone")
    parser.add_argument("--sets", nargs="+", choices=names, metavar="SET", help="these alone")
    parser.add_argument("--reg-lambda", nargs="+", type=float, default=_REG_LAMBDAS, metavar="L")
    parser.add_argument(
        "--quick", dest="reg_lambda", action="store_const", const=_QUICK, help="1e-4 alone"
    )
    parser.add_argument("--all-rows", action="store_true", help="of mnist's classes, not 10,000")
    add_limit_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a set that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    if not INSTALLED:
        print("skglm is not installed here: losses that it alone has are without a peer")
    tasks = load_tasks(arguments.data)
    kept = KeptFits(arguments.peer_fits)
    session = Session(tasks, None, arguments.repeat, arguments.json, kept)
    _cells_table.run(session, Sets(tasks, arguments.all_rows), arguments)
