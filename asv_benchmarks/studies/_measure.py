"""The measuring machinery that the studies of ``peers.py`` share.

A study runs in one process and one thread, on CPU time. A peer without a certificate is run over a
ladder of its settings, and its cheapest setting that reaches a wanted objective is what counts.
The runs of a ratio take turns, so that a slow phase of the machine falls on both sides.
"""

import gc
import importlib.util
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

LONG = 60.0  # seconds; a fit that takes longer runs once
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


class MissingError(Exception):
    """A peer or a data set that cannot be had here; the message says why."""


@contextmanager
def quiet_single_thread() -> Iterator[None]:
    """BLAS and OpenMP in one thread, and no warnings of fits that a ladder ends on purpose."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process during ``run()``, and what it returned."""
    gc.collect()
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


@dataclass
class Rung:
    """One setting of a contestant: what it costs and which objective it reaches."""

    setting: Any
    objective: float
    first_seconds: float
    gap: float | None = None  # relative, where it is certified
    seconds: float | None = None  # median of the timed runs


def climb(
    settings: Sequence[Any],
    run: Callable[[Any], Rung],
    stop: Callable[[list[Rung]], bool],
) -> list[Rung]:
    """One run at each setting, from the cheapest on, until ``stop`` says that the rest is waste."""
    rungs: list[Rung] = []
    for setting in settings:
        rungs.append(run(setting))
        if stop(rungs):
            break
    return rungs


def candidates(rungs: list[Rung], target: float) -> list[Rung]:
    """The settings that reach ``target`` and, after one noisy run, may be the cheapest."""
    reaching = [r for r in rungs if r.objective <= target]
    if not reaching:
        return []
    least = min(r.first_seconds for r in reaching)
    return [r for r in reaching if r.first_seconds <= 1.5 * least]


def cheapest(rungs: list[Rung], target: float) -> Rung | None:
    """The setting with the least median time that reaches ``target``, or None."""
    return min(candidates(rungs, target), key=lambda r: r.seconds, default=None)


def take_turns(runs: dict[Any, tuple[Callable[[], Any], float]], repeat: int) -> dict[Any, list]:
    """CPU seconds of every run, ``repeat`` rounds of one run each.

    ``runs[key]`` is the run and the seconds of a first one, which alone count if they are LONG.
    """
    seconds = {key: [first] if first > LONG else [] for key, (_, first) in runs.items()}
    for _ in range(repeat):
        for key, (run, first) in runs.items():
            if first <= LONG:
                seconds[key].append(cpu_seconds(run)[0])
    return seconds


def time_rungs(fits: Sequence[tuple[Rung, Callable[[], Any]]], repeat: int) -> None:
    """Set the medians of all rungs, whose fits take turns."""
    taken = take_turns({k: (fit, r.first_seconds) for k, (r, fit) in enumerate(fits)}, repeat)
    for k, (rung, _) in enumerate(fits):
        rung.seconds = median(taken[k])


class Table:
    """Rows of fixed-width columns, printed as they come."""

    def __init__(self, columns: Sequence[tuple[str, int]]):
        self._widths = [width for _, width in columns]
        self.row(*(title for title, _ in columns))

    def row(self, *cells: str) -> None:
        """The first cell is aligned to the left, the others to the right."""
        first, *others = zip(cells, self._widths, strict=True)
        line = f"{first[0]:<{first[1]}}" + "".join(f" {c:>{width}}" for c, width in others)
        print(line.rstrip(), flush=True)

    def skip(self, name: str, reason: str) -> None:
        print(f"{name:<{self._widths[0]}} skipped: {reason}", flush=True)

    def note(self, text: str) -> None:
        print(f"{'':<{self._widths[0]}} note: {text}", flush=True)


Rows = list[list[str]]


def print_plain(title: str, columns: Sequence[str], rows: Rows) -> None:
    print(f"\n{title}")
    table = Table(list(zip(columns, _widths(columns, rows), strict=True)))
    for row in rows:
        table.row(*row)


def _as_rst(cell: str) -> str:
    """No emphasis, and no list of one item."""
    return r"\-" if cell == "-" else cell.replace("*", r"\*")


def print_rst(title: str, columns: Sequence[str], rows: Rows) -> None:
    """A simple table of reStructuredText."""
    columns, *rows = [[_as_rst(cell) for cell in row] for row in (columns, *rows)]
    widths = _widths(columns, rows)
    rule = ["=" * width for width in widths]
    print(f"\n.. table:: {title}\n")
    for row in (rule, columns, rule, *rows, rule):
        print(f"   {'  '.join(map(str.ljust, row, widths))}".rstrip())


def _widths(columns: Sequence[str], rows: Rows) -> list[int]:
    return [max(map(len, column)) for column in zip(columns, *rows, strict=True)]


def versions() -> dict[str, str]:
    """Versions of Python, the libraries and the package, and the machine and the date."""
    import sklearn_bundle  # here, so that a module which needs no package can use the rest

    return {
        "date": datetime.now().astimezone().isoformat(timespec="minutes"),
        "machine": f"{platform.platform()}, {_processor()}, {os.cpu_count()} CPUs",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _LIBRARIES},
        "sklearn_bundle": sklearn_bundle.__version__,
    }


def header(compared: str) -> str:
    """What stands above the tables: date, machine, versions, and what is compared."""
    facts = versions()
    libraries = ", ".join(f"{k} {v}" for k, v in facts.items() if k not in ("date", "machine"))
    return f"{facts['date']}  {facts['machine']}\n{libraries}\n{compared}"


def _processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def load_tasks(folder: Path | None) -> ModuleType | None:
    """The module ``tasks.py`` of the folder; None, for shipped data, if no folder is given."""
    if folder is None:
        return None
    if not (folder / "tasks.py").is_file():
        raise SystemExit(f"There is no tasks.py in {folder}, which is to read its data sets.")
    spec = importlib.util.spec_from_file_location("benchmark_tasks", folder / "tasks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_json(path: Path | None, results: list[dict[str, Any]]) -> None:
    """The raw numbers so far; called after every row, so that an ended run keeps them."""
    if path is not None:
        content = {"versions": versions(), "results": results}
        path.write_text(json.dumps(content, indent=1, default=lambda number: number.item()))


def readable(content: Any, depth: int = 0) -> str:
    """JSON with a line for each innermost list or dict, so that a changed row is a changed line."""
    pad, inside = " " * depth, " " * (depth + 1)
    if isinstance(content, dict) and (not depth or _is_nested(content.values())):
        lines = (
            f"{inside}{json.dumps(k, ensure_ascii=False)}: {readable(v, depth + 1)}"
            for k, v in content.items()
        )
        return "{\n" + ",\n".join(lines) + "\n" + pad + "}" + ("" if depth else "\n")
    if isinstance(content, list) and _is_nested(content):
        lines = (f"{inside}{readable(v, depth + 1)}" for v in content)
        return "[\n" + ",\n".join(lines) + "\n" + pad + "]"
    return json.dumps(content, ensure_ascii=False)


def _is_nested(values: Iterable[Any]) -> bool:
    return any(isinstance(value, list | dict) for value in values)
