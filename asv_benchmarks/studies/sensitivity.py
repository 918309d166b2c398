"""What each number at the top of a module does: the work of fits with half and twice its value.

python asv_benchmarks/studies/sensitivity.py --data FOLDER [--only TEXT] [--out FILE]
python asv_benchmarks/studies/sensitivity.py --list

A number is changed in the running process, and the cells that run code of its module are fitted
again. Work is counted, not timed: passes over the data, steps and iterations, so that a busy
machine changes nothing; where counts stay and CPU seconds differ by a fifth in every cell, it says
so. A line has the largest ratio to the work with the number as it is, over the cells, for half and
for twice the number; ``=`` means that no count changed. Numbers that compiled code uses are part of
the machine code: they are listed without ratios, and so are names that only other modules use.
"""

import argparse
import ast
import importlib
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from _sensitivity_cells import CELLS  # noqa: E402

from sklearn_bundle import __name__ as PACKAGE  # noqa: E402

Place = tuple[str, str]  # a module and a name in it
SAME, SECONDS = 0.05, 0.2  # ratios of counts and of seconds that count as unchanged


def numbers() -> Iterator[tuple[Place, str]]:
    """Every assignment of numbers at the top of a module, and its text."""
    folder = ROOT / PACKAGE
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for statement in ast.parse(path.read_text()).body:
            if not isinstance(statement, ast.Assign):
                continue
            values = list(ast.walk(statement.value))
            plain = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.operator, ast.unaryop)
            if not all(isinstance(value, (*plain, ast.expr_context)) for value in values):
                continue
            of_numbers = [value.value for value in values if isinstance(value, ast.Constant)]
            if not of_numbers or not all(type(value) in (int, float) for value in of_numbers):
                continue
            for target in statement.targets:
                for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                    yield (module, ast.unparse(name)), ast.unparse(statement)


def is_compiled_in(module: ModuleType, name: str) -> bool:
    """Whether a compiled function of the module uses the name."""
    functions = [getattr(value, "py_func", None) for value in vars(module).values()]
    return any(name in function.__code__.co_names for function in functions if function)


def changed(value: Any, factor: float) -> Any:
    """The number, or each of several, times the factor; integers stay integers of at least 1."""
    if isinstance(value, tuple):
        return tuple(changed(part, factor) for part in value)
    if isinstance(value, int):
        return max(int(value * factor), 1) if value > 0 else value
    return value * factor


def work(cell: Callable[[], Any]) -> dict[str, float]:
    """Counts of a fit, and CPU seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.thread_time()
        model = cell()
        seconds = time.thread_time() - begun
    counts = {"n_iter": float(np.sum(model.n_iter_)), "seconds": seconds}
    histories = model.history_ if isinstance(model.history_, list) else [model.history_]
    for field in ("passes", "n_steps", "oracle_calls"):
        if field in histories[0].dtype.names:
            counts[field] = float(sum(history[field][-1] for history in histories if len(history)))
    return counts


def modules_of(cell: Callable[[], Any]) -> set[str]:
    """Modules of the package whose functions the fit calls."""
    called: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            called.add(frame.f_globals.get("__name__", ""))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work(cell)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {name for name in called if name.startswith(PACKAGE + ".")}


def ratio(now: dict[str, float], before: dict[str, float]) -> float:
    """That of the count which differs most from 1; passes and steps before iterations."""
    counts = [key for key in before if key not in ("seconds", "n_iter")] or ["n_iter"]
    ratios = [now[key] / before[key] for key in counts if before[key] > 0.0]
    return max(ratios, key=lambda r: abs(np.log(max(r, 1e-9))), default=1.0)


def tried(place: Place, cells: list[str], before: dict[str, dict]) -> dict[str, Any]:
    """Ratios of work for half and twice the number: the worst over the cells, and its name."""
    module = importlib.import_module(place[0])
    value, found = getattr(module, place[1]), {}
    for label, factor in (("half", 0.5), ("twice", 2.0)):
        setattr(module, place[1], changed(value, factor))
        try:
            rows = {}
            for name in cells:
                try:
                    now = work(CELLS[name])
                except Exception as error:  # a number out of its range may break anything
                    rows[name] = float("inf"), type(error).__name__
                    continue
                seconds = now["seconds"] / max(before[name]["seconds"], 1e-3)
                rows[name] = ratio(now, before[name]), f"{seconds:.2f}"
        finally:
            setattr(module, place[1], value)
        worst = max(rows, key=lambda name: abs(np.log(max(rows[name][0], 1e-9))))
        found[label] = {"ratio": rows[worst][0], "cell": worst, "seconds": dict(rows)[worst][1]}
        found[label]["all"] = {name: row for name, row in rows.items() if row[0] != 1.0}
        fast = [float(row[1]) for row in rows.values() if row[1].replace(".", "").isdigit()]
        found[label]["slower"] = min(fast, default=1.0)
        found[label]["faster"] = max(fast, default=1.0)
    return found


def shown(found: dict[str, Any]) -> str:
    """The two ratios of a line."""
    words = []
    for label in ("half", "twice"):
        one = found[label]
        moved = abs(np.log(max(one["ratio"], 1e-9))) > np.log1p(SAME)
        text = f"{one['ratio']:.2f} ({one['cell']})" if moved else "="
        if not moved and (one["slower"] > 1.0 + SECONDS or one["faster"] < 1.0 - SECONDS):
            text = f"= (seconds {one['slower']:.2f} to {one['faster']:.2f})"
        words.append(f"{label} {text}")
    return "   ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", metavar="FOLDER", help="folder with tasks.py")
    parser.add_argument("--only", default="", help="names of modules must contain this")
    parser.add_argument("--list", action="store_true", help="the numbers alone, and their count")
    parser.add_argument("--out", type=Path, help="JSON of all ratios")
    arguments = parser.parse_args()
    places = [(place, text) for place, text in numbers() if arguments.only in place[0]]
    if arguments.list:
        for (module, _), text in places:
            print(f"{module.removeprefix(PACKAGE + '.'):<45} {text}")
        print(len({(module, text) for (module, _), text in places}), "assignments,", len(places))
        return
    sys.path.insert(0, str(arguments.data))
    before: dict[str, dict] = {}
    runs: dict[str, set[str]] = {}
    for name, cell in CELLS.items():
        work(cell)  # compiles
        before[name], runs[name] = work(cell), modules_of(cell)
        print(f"# {name}: {before[name]}", flush=True)
    results = {}
    for place, text in places:
        module = importlib.import_module(place[0])
        cells = [name for name in CELLS if place[0] in runs[name]]
        if is_compiled_in(module, place[1]):
            line = "in machine code"
        elif not cells:
            line = "in no cell"
        else:
            results[":".join(place)] = found = tried(place, cells, before)
            line = shown(found)
        print(f"{place[0].removeprefix(PACKAGE + '.'):<42} {text:<44} {line}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
