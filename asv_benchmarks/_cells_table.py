"""The table of the study ``cells``: cells as they come, then the ratios at a glance."""

import argparse
import warnings
from typing import Any

from _cells_contest import CellContest, compare_cell, fastest, ratio_of
from _cells_data import Sets
from _cells_rows import ROWS, Row
from _contest import cells
from _linear_timing import quiet_threads
from _measure import MissingError, Table
from _parts import Session, excess, geometric_mean

from sklearn_bundle.losses import BINARY_LOSSES, MULTICLASS_LOSSES, REGRESSION_LOSSES

_KNOWN = {*BINARY_LOSSES, *MULTICLASS_LOSSES, *REGRESSION_LOSSES}
_COLUMNS = (
    *(("set", 14), ("n", 6), ("d", 8), ("lambda", 7), ("J*", 12), ("J* to", 8)),
    *(("ours s", 8), ("iters", 6), ("gap", 8), ("subopt", 8), ("status", 9), ("solver", 26)),
    *(("peer", 20), ("at", 6), ("s", 8), ("subopt", 8), ("ratio", 8)),
)


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
        _print_ratios(kind, of_kind, sets, arguments)


def _run_row(
    name: str, row: Row, session: Session, sets: Sets, arguments: argparse.Namespace
) -> Any:
    print(f"\n{name}: {row.title} on both sides")
    if not row.peers:
        print("no peer that is installed here solves this problem")
    table = Table(_COLUMNS)
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
            with quiet_threads(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of fits that a ladder ends on purpose
                contest = CellContest(row, cell, X, y, session.kept, arguments.limit)
                result = compare_cell(contest, session.repeat)
            _add(table, result)
            session.record(name, **result)
            yield result


def _add(table: Table, result: dict[str, Any]) -> None:
    own, best, ratio = result["ours"], fastest(result), ratio_of(result)
    peer = ("-", "-", "-", "-")
    if best is not None:
        name, rung = best
        peer = name, f"{rung['setting']:g}", f"{rung['seconds']:.4f}", excess(rung, result)
    elif ratio is not None:
        peer = "none", "-", f">{result['limit']:.3g}", "-"
    known = (result["best"] - result["bound"]) / result["best"]
    table.row(
        *(result["task"], f"{result['n']}", f"{result['d']}", f"{result['reg_lambda']:.0e}"),
        *(f"{result['best']:.8f}", f"{known:.1e}"),
        *(f"{own['seconds']:.4f}", f"{result['n_iter']}", f"{own['gap']:.1e}"),
        *(excess(own, result), result["status"], result["solver"]),
        *(*peer, _shown(ratio)),
    )
    if result["false_bound"]:
        table.note(
            f"FALSE BOUND: {result['bound']!r} is certified, and a lower objective was reached"
        )
    if result["false_objective"]:
        table.note(
            f"FALSE OBJECTIVE: {result['claimed']!r} is claimed, {own['objective']!r} is true"
        )
    if known > 0.1 * result["suboptimality"]:
        table.note("no bound of ours tells the optimum: J* is the lowest that anybody reached")
    for note in result["notes"]:
        table.note(note)


def _shown(ratio: tuple[float, str] | None) -> str:
    return "-" if ratio is None else f"{ratio[1]}{ratio[0]:.2f}"


# ---- the ratios at a glance -------------------------------------------------------------------


def _print_ratios(
    kind: str, rows: dict[str, list[dict[str, Any]]], sets: Sets, arguments: argparse.Namespace
) -> None:
    """A row a loss and a strength, a column a set; then the mean and the worst of each loss."""
    names = [t for t in sets.names(kind) if any(r["task"] == t for v in rows.values() for r in v)]
    print(f"\nratios, {kind}: the fastest peer's seconds over ours; above 1 we are faster")
    table = Table([("loss", 28), ("lambda", 7), *((name, max(7, len(name))) for name in names)])
    for name, results in rows.items():
        for value in arguments.reg_lambda:
            found = {r["task"]: ratio_of(r) for r in results if r["reg_lambda"] == value}
            shown = (_shown(found.get(task)) for task in names)
            table.row(name, f"{value:.0e}", *shown)
    for name, results in rows.items():
        _print_verdict(name, results)


def _print_verdict(name: str, results: list[dict[str, Any]]) -> None:
    pairs = [(ratio_of(r), r) for r in results]
    pairs = [(ratio, r) for ratio, r in pairs if ratio is not None]
    if not pairs:
        return
    mean = geometric_mean([ratio[0] for ratio, _ in pairs])
    worst, at = min(pairs, key=lambda pair: pair[0][0])
    row, marks = ROWS[name], [ratio[1] for ratio, _ in pairs]
    bounds = "".join(f", {marks.count(k)} '{k}'" for k in (">", "<", "?") if k in marks)
    print(
        f"  {name}: geometric mean {mean:.2f}{_verdict(mean, row.asked_mean)}, worst "
        f"{_shown(worst)}{_verdict(worst[0], row.asked_least)} "
        f"({at['task']} {at['reg_lambda']:.0e}), {len(pairs)} cells{bounds}",
        flush=True,
    )


def _verdict(value: float, asked: float | None) -> str:
    if asked is None:
        return ""
    return f" (asked {asked:g}: {'met' if value >= asked else 'missed'})"
