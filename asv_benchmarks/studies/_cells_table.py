"""The table of the study ``cells``: cells as they come, then the ratios at a glance."""

import argparse
import warnings
from typing import Any

from _cells_contest import CellContest, compare_cell
from _cells_data import Sets
from _cells_rows import ROWS, Row
from _contest import cells
from _measure import MissingError, quiet_single_thread
from _parts import Session
from _ratio_table import CellTable, print_ratios, print_verdict

from sklearn_bundle.losses import BINARY_LOSSES, MULTICLASS_LOSSES, REGRESSION_LOSSES

_KNOWN = {*BINARY_LOSSES, *MULTICLASS_LOSSES, *REGRESSION_LOSSES}


def run(session: Session, sets: Sets, arguments: argparse.Namespace) -> None:
    """All cells that were asked for."""
    results: dict[str, list[dict[str, Any]]] = {}
    for name in arguments.loss:
        row = ROWS[name]
        if row.loss not in _KNOWN:
            print(f"\n{row.title}: skipped, since the package does not have the loss")
            continue
        results[name] = list(_run_row(name, row, session, sets, arguments))
    for kind in dict.fromkeys(ROWS[name].kind for name in results):
        of_kind = {name: found for name, found in results.items() if ROWS[name].kind == kind}
        print_ratios(f"ratios, {kind}", of_kind, sets.names(kind))
        for name, found in of_kind.items():
            print_verdict(name, ROWS[name], found)


def _run_row(
    name: str, row: Row, session: Session, sets: Sets, arguments: argparse.Namespace
) -> Any:
    print(f"\n{name}: {row.title} on both sides")
    if not row.peers:
        print("no peer that is installed here solves this problem")
    table = CellTable()
    for task in sets.names(row.kind):
        if arguments.sets is not None and task not in arguments.sets:
            continue
        try:
            X, y = sets.load(row.kind, task)
        except MissingError as error:
            table.skip(task, str(error))
            continue
        if row.tall_alone and X.shape[1] >= X.shape[0]:
            table.skip(task, "a scale of its own is 0 where all targets can be met")
            continue
        for cell in cells(task, arguments.reg_lambda):
            with quiet_single_thread(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of fits that a ladder ends on purpose
                limits = session.kept, arguments.limit, arguments.solver
                contest = CellContest(row, cell, X, y, *limits)
                result = compare_cell(contest, session.repeat)
            result["label"] = f"{cell.reg_lambda:.0e}"
            table.add(result)
            session.record(name, **result)
            yield result
