"""Random problems for every estimator, their certificates held against independent optima.

python asv_benchmarks/studies/stress.py --problems 1000 --seed 0 [--plain] [--only SwapSVC] [--list]
python asv_benchmarks/studies/stress.py --problem 77 [--plain]

With ``--plain`` the data have the plainest shapes (tests/contract/plain_shapes.py), in turn.

Draws and judge are those of the tests (tests/contract/draws.py, judge.py), which a
checkout has and an installed package has not.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from time import process_time

from _clock import Table, header

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.contract.draws import (  # noqa: E402
    EARLY,
    ESTIMATORS,
    SLOW,
    draw,
    draw_plain,
    verdict,
)

COLUMNS = [
    *(("estimator", 20), ("problems", 8), ("subproblems", 11), ("false bound", 11)),
    *(("false objective", 15), ("status, history", 15), ("stalled", 7), ("missed tol", 10)),
    *(("slow", 4), ("refused", 7), ("crashed", 7), ("warned", 6), ("weak reference", 14)),
    ("no verdict", 10),
]


def counted(found) -> Counter:
    """What the columns add up; a fit that had a few iterations misses nothing."""
    missed = found.statuses.count("max_iter") * (found.problem.model.max_iter >= EARLY)
    kinds = {fault.kind for fault in found.faults}
    return Counter(
        {
            "problems": 1,
            "subproblems": len(found.statuses),
            "false bound": bool(kinds & {"bound", "gap", "dual", "bounds"}),
            "false objective": "objective" in kinds,
            "status, history": bool(kinds & {"status", "history"}),
            "stalled": found.statuses.count("stalled"),
            "missed tol": missed,
            "slow": found.seconds > SLOW,
            "refused": bool(found.refused),
            "crashed": bool(found.crashed),
            "warned": bool(found.warned),
            "weak reference": found.weak,
            "no verdict": found.unknown,
        }
    )


def report(found, again: str, everything: bool) -> None:
    """A line on a fit with a fault, or on each, and what was wrong."""
    slow = found.seconds > SLOW
    said = list(filter(None, (found.refused, found.crashed, found.warned)))
    if not (everything or found.faults or said or slow):
        return
    note = ", ".join(found.statuses) + (f", {found.seconds:.1f} s" if slow else "")
    weak = " weak reference" if found.weak else ""
    print(f"--problem {again}: {found.problem} ({note}){weak}", flush=True)
    for fault in found.faults:
        print(f"    FALSE {fault.kind}: {fault.text}", flush=True)
    for text in said:
        print(f"    {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=1000, help="how many, of seeds in a row")
    parser.add_argument("--seed", type=int, default=0, help="the first problem is of 10**6 seed")
    parser.add_argument("--problem", type=int, help="only this one, as a line of a report names it")
    parser.add_argument("--only", choices=ESTIMATORS, help="problems of this estimator")
    parser.add_argument("--plain", action="store_true", help="one column, a row per class, ...")
    parser.add_argument("--list", action="store_true", help="a line on each problem")
    given = parser.parse_args()
    first = given.seed * 10**6
    seeds = range(first, first + given.problems) if given.problem is None else [given.problem]
    print(header("CPU seconds; a weak reference ended above the fit, and knows no optimum"))
    print("no verdict: regions of the optimum, of which the reference knows less than the fit says")
    start, totals = process_time(), {name: Counter() for name in ESTIMATORS}
    for seed in seeds:
        found = verdict((draw_plain if given.plain else draw)(seed, given.only))
        again = f"{seed}" + f" --only {given.only}" * bool(given.only) + " --plain" * given.plain
        report(found, again, given.list or given.problem is not None)
        totals[found.problem.name] += counted(found)
    table = Table(COLUMNS)
    totals["all"] = sum(totals.values(), Counter())
    for name, counts in totals.items():
        if counts["problems"]:
            table.row(name, *(counts[column] for column, _ in COLUMNS[1:]))
    print(f"{process_time() - start:.0f} CPU s")
    sys.exit(any(totals["all"][kind] for kind in ("false bound", "false objective", "crashed")))


if __name__ == "__main__":
    main()
