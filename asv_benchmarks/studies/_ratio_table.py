"""The table of a study of cells: a line for each cell, then ratios at a glance and a verdict.

A result is that of _cells_contest.compare_cell, with its reg_lambda as "label".
"""

from collections.abc import Sequence
from typing import Any

from _cells_contest import fastest, ratio_of
from _cells_rows import Row
from _measure import Table
from _parts import excess, geometric_mean

_COLUMNS = (
    *(("set", 14), ("n", 6), ("d", 8), ("lambda", 7), ("J*", 12), ("J* to", 8)),
    *(("ours s", 8), ("iters", 6), ("gap", 8), ("subopt", 8), ("status", 9), ("solver", 26)),
    *(("peer", 20), ("at", 6), ("s", 8), ("subopt", 8), ("ratio", 8)),
)


class CellTable(Table):
    """A line for each cell, printed as it comes."""

    def __init__(self) -> None:
        super().__init__(_COLUMNS)

    def add(self, result: dict[str, Any]) -> None:
        own, best, ratio = result["ours"], fastest(result), ratio_of(result)
        peer = ("-", "-", "-", "-")
        if best is not None:
            name, rung = best
            peer = name, f"{rung['setting']:g}", f"{rung['seconds']:.4f}", excess(rung, result)
        elif ratio is not None:
            peer = "none", "-", f">{result['limit']:.3g}", "-"
        known = (result["best"] - result["bound"]) / result["best"]
        self.row(
            *(result["task"], f"{result['n']}", f"{result['d']}", result["label"]),
            *(f"{result['best']:.8f}", f"{known:.1e}"),
            *(f"{own['seconds']:.4f}", f"{result['n_iter']}", f"{own['gap']:.1e}"),
            *(excess(own, result), result["status"], result["solver"]),
            *(*peer, shown(ratio)),
        )
        if result["false_bound"]:
            self.note(
                f"FALSE BOUND: {result['bound']!r} is certified, and a lower objective was reached"
            )
        if result["false_objective"]:
            self.note(
                f"FALSE OBJECTIVE: {result['claimed']!r} is claimed, {own['objective']!r} is true"
            )
        if known > 0.1 * result["suboptimality"]:
            self.note("no bound of ours tells the optimum: J* is the lowest that anybody reached")
        for note in result["notes"]:
            self.note(note)


def shown(ratio: tuple[float, str] | None) -> str:
    return "-" if ratio is None else f"{ratio[1]}{ratio[0]:.2f}"


def print_ratios(title: str, rows: dict[str, list[dict[str, Any]]], sets: Sequence[str]) -> None:
    """A line a row and a strength, a column a set."""
    found = [result for results in rows.values() for result in results]
    names = [name for name in sets if any(result["task"] == name for result in found)]
    print(f"\n{title}: the fastest peer's seconds over ours; above 1 we are faster")
    table = Table([("row", 28), ("lambda", 8), *((name, max(7, len(name))) for name in names)])
    for row, results in rows.items():
        for label in dict.fromkeys(result["label"] for result in results):
            ratios = {r["task"]: ratio_of(r) for r in results if r["label"] == label}
            table.row(row, label, *(shown(ratios.get(name)) for name in names))


def print_verdict(name: str, row: Row, results: list[dict[str, Any]]) -> None:
    """Geometric mean and worst cell of the ratios, beside what is asked for."""
    pairs = [(ratio_of(r), r) for r in results]
    pairs = [(ratio, r) for ratio, r in pairs if ratio is not None]
    if not pairs:
        return
    mean = geometric_mean([ratio[0] for ratio, _ in pairs])
    worst, at = min(pairs, key=lambda pair: pair[0][0])
    marks = [ratio[1] for ratio, _ in pairs]
    bounds = "".join(f", {marks.count(k)} '{k}'" for k in (">", "<", "?") if k in marks)
    print(
        f"  {name}: geometric mean {mean:.2f}{_verdict(mean, row.asked_mean)}, worst "
        f"{shown(worst)}{_verdict(worst[0], row.asked_least)} "
        f"({at['task']} {at['label']}), {len(pairs)} cells{bounds}",
        flush=True,
    )


def _verdict(value: float, asked: float | None) -> str:
    if asked is None:
        return ""
    return f" (asked {asked:g}: {'met' if value >= asked else 'missed'})"
