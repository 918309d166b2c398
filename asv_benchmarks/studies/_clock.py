"""What the studies share: clocks, data folders, versions, tables of text, and readable JSON."""

import gc
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


class MissingError(Exception):
    """A peer or a data set that cannot be had here; the message says why."""


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process during ``run()``, and what it returned."""
    gc.collect()
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


class Table:
    """Rows of fixed-width columns, printed as they come."""

    def __init__(self, columns: Sequence[tuple[str, int]]):
        self._widths = [width for _, width in columns]
        self.row(*(title for title, _ in columns))

    def row(self, *cells: Any) -> None:
        """The first cell is aligned to the left, the others to the right."""
        (text, width), *others = zip(map(str, cells), self._widths, strict=True)
        line = f"{text:<{width}}" + "".join(f" {c:>{width}}" for c, width in others)
        print(line.rstrip(), flush=True)


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
