"""solver="auto" beside every single engine: what the choice costs.

python asv_benchmarks/studies/auto.py [--cells 200] [--sets drawn made] [--limit 3] [--json FILE]

A row a cell of ``_auto_cells.py``: CPU seconds of "auto", of whole fits without the checks of the
input, over those of the best engine, each run alone to the same certified gap in one thread. ">":
"auto" did not get there within the limit. Cells without a ratio, since no engine got there in 1.5
times the seconds of "auto" or within the limit, are counted apart and are not in the mean. Asked: a
mean of at most 1.5, no ratio above 4.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is

from _auto_cells import Races, drawn_cells, made_cells
from _linear_timing import quiet_threads
from _measure import Table, header, write_json
from _parts import geometric_mean

_COLUMNS = [("cell", 60), ("auto s", 8), ("took", 28), ("best", 18), ("s", 8), ("ratio", 6)]
_MEAN, _WORST = 1.5, 4.0  # asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=200, help="drawn cells (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="drawn cells to leave out before")
    parser.add_argument("--seed", type=int, default=0, help="of settings and data")
    parser.add_argument("--only", default="", help="cells whose line contains this text")
    parser.add_argument("--sets", nargs="+", choices=["drawn", "made"], default=["drawn"])
    parser.add_argument("--limit", type=float, default=3.0, help="CPU seconds of a fit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
    arguments = parser.parse_args()
    print(header(__doc__.strip()))
    drawn = [*drawn_cells(arguments.cells, arguments.seed)]
    cells = drawn[arguments.first :] if "drawn" in arguments.sets else []
    cells += made_cells() if "made" in arguments.sets else []
    table, races, results = Table(_COLUMNS), Races(arguments.limit), []
    ratios: dict[str, float] = {}
    unsolved = 0
    with quiet_threads(1):
        for cell in cells:
            if arguments.only not in str(cell):
                continue
            raced = races.race(cell)
            unsolved += not raced.converged
            best = raced.best
            seconds = f"{raced.engines[best]:.4f}" if raced.engines else "-"
            mark = "" if raced.converged else ">"
            if raced.engines:
                ratios[str(cell)] = raced.ratio
            table.row(
                *(str(cell), f"{mark}{raced.auto:.4f}", raced.took, best, seconds),
                f"{mark}{raced.ratio:.2f}" if raced.engines else "-",
            )
            results.append({"cell": str(cell), **raced.record()})
            write_json(arguments.json, results)
    worst = max(ratios, key=lambda name: ratios[name])
    print(f"{len(ratios)} cells: geometric mean {geometric_mean([*ratios.values()]):.2f} ", end="")
    print(f"(asked {_MEAN}), worst {ratios[worst]:.2f} (asked {_WORST}): {worst}")
    print(f"above {_WORST}: {sum(ratio > _WORST for ratio in ratios.values())}, ", end="")
    print(f"above 2: {sum(ratio > 2.0 for ratio in ratios.values())}")
    print(f'{len(results) - len(ratios)} cells without a ratio; "auto" missed {unsolved} cells')


if __name__ == "__main__":
    main()
