"""The losses, paths and norms of the BMRM family against scikit-learn, in four parts.

classification  "roc_auc" and "fbeta": test measures beside LinearSVC and LogisticRegression
ranking         "ordinal": mean absolute error; "ndcg" and "ordinal" within queries: NDCG@10
regression      "quantile" against QuantileRegressor; robust losses at equal objective
path            bmrm_path against its last fit alone; BMRMClassifierCV against GridSearchCV

Seconds are CPU time of one process and one thread; a fit of more than 5 s runs once.
"""

import argparse

import _measures_classification
import _measures_path
import _measures_ranking
import _measures_regression
from _measure import MissingError, header, load_tasks, quiet_single_thread
from _measures_common import Study

HELP = "measures, ranking, regression and paths: scikit-learn's linear models"

# A part is a module with a docstring, TASKS, SHIPPED and compare(study, task).
PARTS = {
    "classification": _measures_classification,
    "ranking": _measures_ranking,
    "regression": _measures_regression,
    "path": _measures_path,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(repeat=3)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS], help="some alone")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="some tasks alone")
    parser.add_argument("--folds", type=int, default=5, help="(default %(default)s)")


def run(arguments: argparse.Namespace) -> None:
    """Print the tables; a task that cannot be had is skipped with its reason."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    study = Study(tasks, arguments.folds, arguments.repeat, arguments.json)
    chosen = {name: PARTS[name] for name in arguments.part}
    known = {name: part.SHIPPED if tasks is None else part.TASKS for name, part in chosen.items()}
    for name in set(arguments.only or ()).difference(*known.values()):
        print(f"{name} skipped: no part that runs has it")
    for name, part in chosen.items():
        wanted = [task for task in known[name] if task in (arguments.only or known[name])]
        if not wanted:
            continue
        print(f"\nPart {name}: {part.__doc__.strip()}")
        for task in wanted:
            try:
                with quiet_single_thread():
                    part.compare(study, task)
            except MissingError as error:
                print(f"{task} skipped: {error}")
