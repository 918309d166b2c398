"""Print the import time and the first fit, cold and with a warm numba cache.

python asv_benchmarks/studies/first_fit.py [--repeat 3] [--families]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is

from _measure import Table, header
from benchmarks.first_fit import (
    CHAINS,
    FAMILIES,
    LAYOUTS,
    LOSSES,
    first_crf_fit_seconds,
    first_family_fit_seconds,
    first_fit_seconds,
    import_seconds,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="child processes a figure")
    parser.add_argument("--families", action="store_true", help="the table of all families alone")
    arguments = parser.parse_args()
    repeat = arguments.repeat
    print(header("seconds on the wall clock of child processes, medians"))
    if not arguments.families:
        _print_details(repeat)
    print("\nCPU seconds of the first fit of each family by default, on some hundred samples")
    table = Table([("estimator", 20), ("cold cache", 11), ("warm cache", 11)])
    for name in FAMILIES:
        cold, warm = first_family_fit_seconds(name, repeat)
        table.row(name, f"{cold:.2f}", f"{warm:.3f}")


def _print_details(repeat: int) -> None:
    sklearn_seconds, own_seconds = import_seconds(repeat)
    print(f"\nimport sklearn                  {sklearn_seconds:.3f} s")
    print(f"import sklearn_bundle after it  {own_seconds:.3f} s (asked: at most 0.1)")
    print("\nFirst fit in a new process, after the imports; breast cancer, 569 x 30, tol=1e-3")
    table = Table([("loss", 14), ("X", 6), ("cold cache", 11), ("warm cache", 11)])
    for loss in LOSSES:
        for layout in LAYOUTS:
            cold, warm = first_fit_seconds(loss, layout, repeat)
            table.row(loss, layout, f"{cold:.2f}", f"{warm:.3f}")
    print("asked: at most 5 s cold, 0.5 s warm")
    print("\nThe same of SDCACRF()")
    table = Table([("data", 14), ("cold cache", 11), ("warm cache", 11)])
    for data in CHAINS:
        cold, warm = first_crf_fit_seconds(data, repeat)
        table.row(data, f"{cold:.2f}", f"{warm:.3f}")
    print("asked: at most 10 s cold, 1 s warm")


if __name__ == "__main__":
    main()
