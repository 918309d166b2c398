"""Compare sklearn_bundle with its peers: a table of cells, each of a loss, data and the peers.

python asv_benchmarks/studies/peers.py linear --data FOLDER
python asv_benchmarks/studies/peers.py losses kernel --data FOLDER --json raw.json
python asv_benchmarks/studies/peers.py crf --data FOLDER --only conll2000

A ratio is the peer's seconds over ours: above 1 we are faster. ">" marks a lower bound, since no
peer got there within its limit, "<" an upper one, since our fit did not reach its gap, "?" both.
``pages.py`` writes what --json has into the tables of the documentation.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where benchmarks is

import _accuracy
import _cluster
import _crf
import _kernel
import _linear
import _sparse
import _structured
from _cell import Cell, Contest
from _clock import MissingError, Table, header, load_tasks, versions, write_json
from _data import Sets

#: What yields the cells of a study, of the data sets.
STUDIES: dict[str, Callable[[Sets], Iterable[Cell]]] = {
    "linear": _linear.linear,
    "svc": _linear.svc,
    "losses": _linear.losses,
    "sparse": _sparse.sparse,
    "paths": _sparse.paths,
    "searches": _sparse.searches,
    "kernel": _kernel.kernel,
    "classes": _kernel.classes,
    "kernel_searches": _kernel.searches,
    "crf": _crf.crf,
    "structured": _structured.structured,
    "accuracy": _accuracy.accuracy,
    "cluster": _cluster.cluster,
}
_COLUMNS = (
    *(("cell", 44), ("n", 7), ("d", 8), ("ours s", 9), ("gap", 8), ("status", 10)),
    *(("peer", 22), ("at", 8), ("s", 9), ("ratio", 8), ("", 24)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", nargs="+", choices=STUDIES)
    parser.add_argument("--data", type=Path, help="folder with tasks.py; else what ships")
    parser.add_argument("--only", nargs="+", help="cells with one of these texts in their names")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs (default %(default)s)")
    limit = "most CPU seconds of a peer's fit (default %(default)s)"
    parser.add_argument("--limit", type=float, default=20.0, help=limit)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
    parser.add_argument("--curves", type=Path, metavar="FILE", help="of crf: write and draw them")
    given = parser.parse_args()
    sets = Sets(load_tasks(given.data))
    print(header(__doc__.split("\n\n")[2]))
    results: list[dict[str, Any]] = []
    if given.curves is not None:
        _crf.curves(sets, given.curves)
        return
    for study in given.study:
        print(f"\n{study}: {STUDIES[study].__doc__.strip()}")
        table = Table(_COLUMNS)
        for cell in STUDIES[study](sets):
            if given.only and not any(text in cell.name for text in given.only):
                continue
            try:
                data = cell.load()
                result = Contest(cell, data, given.limit).run(given.repeat)
            except (MissingError, ValueError, OSError) as error:
                print(f"{cell.name} skipped: {type(error).__name__}: {error}")
                continue
            results.append({"study": study, **result})
            write_json(given.json, results)
            table.row(*_shown(cell, data, result))
            for note in result["notes"]:
                print(f"    {note}")
            if result.get("false_bound"):
                print("    FALSE BOUND: a lower objective was reached than is certified")
        _tell_means([result for result in results if result["study"] == study])
    print(f"\n{versions()['machine']}")


def _shown(cell: Cell, data: Any, result: dict[str, Any]) -> list[str]:
    shape = data.X.shape if hasattr(data.X, "shape") else (len(data.X), 0)
    peer = ["-"] * 4
    if "ratio" in result:
        value, mark = result["ratio"]
        at = result["at"]
        at = f"{at:.4g}" if isinstance(at, int | float) else "-"
        peer = [result["peer"], at, f"{result['peer_seconds']:.4f}", f"{mark}{value:.2f}"]
    shown = {"row", "data", "setting", "gap", "status", "seconds", "peer", "at", "peer_seconds"}
    shown |= {"ratio", "notes", "excess", "false_bound"}
    further = {k: v for k, v in result.items() if k not in shown and not k.endswith("_seconds")}
    further = {k: v[0] if isinstance(v, list) else v for k, v in further.items()}
    text = " ".join(
        f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in further.items()
    )
    return [
        *(cell.name, f"{shape[0]}", f"{shape[1]}", f"{result['seconds']:.4f}"),
        f"{result['gap']:.1e}" if "gap" in result else "-",
        *(result.get("status", "-"), *peer, text),
    ]


def _tell_means(results: list[dict[str, Any]]) -> None:
    """The geometric mean and the least ratio of each row."""
    for row in dict.fromkeys(result["row"] for result in results):
        ratios = {
            f"{r['data']} {r['setting']:g}": r["ratio"][0]
            for r in results
            if r["row"] == row and "ratio" in r
        }
        if ratios:
            least = min(ratios, key=ratios.get)
            told = f"mean {geometric_mean(ratios.values()):.2f}, least {ratios[least]:.2f}"
            print(f"  {row}: {told} ({least}), {len(ratios)} cells")


if __name__ == "__main__":
    main()
