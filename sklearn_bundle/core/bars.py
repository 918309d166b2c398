"""Bars of nested tasks as lines of text, and where they are shown."""

import sys
from importlib import import_module
from math import log
from multiprocessing import current_process
from time import perf_counter
from typing import Any

Path = tuple[Any, ...]  # identifiers of tasks, from the outermost one on

_WIDTH = 16  # of a bar
_LABEL = 52  # characters at most
_FEW = 3  # tasks that stay in view when they have ended; of more only those that run
_LINES = 20  # in view at most


class Task:
    """What is known of a task that has tasks of its own.

    Those that have ended are counted, and forgotten unless they are few: time and memory of a task
    do not grow with their number.
    """

    def __init__(self, label: str, total: int | None):
        self.label, self.total = label, total
        self.tasks: dict[Any, Task] = {}
        self.note = ""
        self._n_ended = 0
        self._by_gap = 0.0
        self._start, self._seconds = perf_counter(), None

    @property
    def ended(self) -> bool:
        return self._seconds is not None

    @property
    def share(self) -> float:
        """What is done: by the number of tasks, or by the gap if that is further."""
        if self.ended:
            return 1.0
        done = self._n_ended + sum(task.share for task in self.tasks.values() if not task.ended)
        return min(1.0, max(self._by_gap, done / self.total if self.total else 0.0))

    def step(self, n: int, gap: float | None, tol: float | None) -> None:
        """So many more tasks have ended, the last one with this relative gap."""
        self._n_ended += n
        if gap is not None:
            self.note = f"gap {gap:.1e}"
            if tol is not None and 0.0 < tol < 1.0 and gap == gap:
                self._by_gap = log(min(max(gap, tol), 1.0)) / log(tol)
        elif self.total:
            self.note = f"{self._n_ended}/{self.total}"

    def close(self, identifier: Any) -> None:
        """One of its tasks has ended."""
        self.step(1, None, None)
        if self.total is None or self.total > _FEW:
            self.tasks.pop(identifier, None)

    def end(self, note: str) -> None:
        self._seconds = perf_counter() - self._start
        self.note = note or self.note

    def rows(self, depth: int = 0) -> list[tuple[str, float, float, str]]:
        """Label, share, seconds and note, of itself and of the tasks in view."""
        seconds = perf_counter() - self._start if self._seconds is None else self._seconds
        rows = [("  " * depth + self.label, self.share, seconds, self.note)]
        many = len(self.tasks) > _FEW  # of those, only the ones that have begun to move
        for identifier in sorted(self.tasks, key=lambda known: (str(type(known)), known)):
            task = self.tasks[identifier]
            if not many or (task.share > 0.0 and not task.ended):
                rows += task.rows(depth + 1)
        return rows


class Bars:
    """The bars of a fit, informed of its tasks by their paths."""

    def __init__(self) -> None:
        self._root: Task | None = None

    def begin(self, path: Path, label: str, total: int | None) -> None:
        if len(path) == 1:
            self._root = Task(label, total)
            return
        parent = self._find(path[:-1])
        if parent is not None:
            parent.tasks[path[-1]] = Task(label, total)

    def step(self, path: Path, n: int, gap: float | None, tol: float | None) -> None:
        """Of the task there, n more have ended."""
        task = self._find(path)
        if task is not None:
            task.step(n, gap, tol)

    def end(self, path: Path, note: str) -> None:
        task = self._find(path)
        if task is None or task.ended:
            return
        task.end(note)
        parent = self._find(path[:-1])
        if parent is not None:
            parent.close(path[-1])

    def lines(self) -> list[str]:
        if self._root is None:
            return []
        rows = self._root.rows()
        width = min(max(len(label) for label, *_ in rows[:_LINES]), _LABEL)
        lines = [_line(*row, width) for row in rows[:_LINES]]
        return [*lines, f"... {len(rows) - _LINES} more"] if len(rows) > _LINES else lines

    def _find(self, path: Path) -> Task | None:
        task = self._root if path else None
        for identifier in path[1:]:
            task = None if task is None else task.tasks.get(identifier)
        return task


def _line(label: str, share: float, seconds: float, note: str, width: int) -> str:
    halves = int(2 * _WIDTH * share)
    bar = "━" * (halves // 2) + "╸" * (halves % 2)
    bar += "─" * (_WIDTH - len(bar))
    minutes, left = divmod(int(seconds), 60)
    clock = f"{minutes // 60}:{minutes % 60:02d}:{left:02d}"
    return f"{label[:width]:<{width}} {bar} {int(100 * share):3d}% {clock}  {note}".rstrip()


def writable(text: str) -> str:
    """The text as the output can encode it: with other bars, and escapes in names of classes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(str.maketrans("━╸─", "##-"))
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


class Display:
    """Where lines are shown; here nothing can be taken back, as in a file: the last lines alone."""

    def show(self, lines: list[str]) -> None:
        """In place of the last ones, while the fit goes on."""

    def end(self, lines: list[str]) -> None:
        """For good."""
        print(writable("\n".join(lines)), flush=True)


class Notebook(Display):
    """An output of the cell, as plain text: it needs no widgets, and exported pages have it."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, lines: list[str]) -> None:
        data = {"text/plain": "\n".join(lines)}
        if self._handle is not None:
            self._handle.update(data, raw=True)
            return
        ipython = import_module("IPython.display")
        self._handle = ipython.display(data, raw=True, display_id=True)

    def end(self, lines: list[str]) -> None:
        self.show(lines)


class OneLine(Display):
    """A terminal without rich: the outermost bar, written over itself."""

    def __init__(self) -> None:
        self._written = 0

    def show(self, lines: list[str]) -> None:
        line = writable(lines[0][:79])
        print(f"\r{line:<{self._written}}", end="", flush=True)
        self._written = len(line)

    def end(self, lines: list[str]) -> None:
        print("\r" + " " * self._written + "\r" + writable("\n".join(lines)), flush=True)


class Terminal(Display):
    """A terminal with rich, which prints what else is written above the bars."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        # A console of its own: only one display at a time may be drawn on a shared one.
        self._live = Live(console=Console(highlight=False), auto_refresh=False)

    def show(self, lines: list[str]) -> None:
        from rich.text import Text

        if not self._live.is_started:
            self._live.start()
        self._live.update(Text(writable("\n".join(lines)), no_wrap=True), refresh=True)

    def end(self, lines: list[str]) -> None:
        self.show(lines)
        self._live.stop()


def display() -> Display:
    """What suits the place that this process writes to."""
    if in_notebook():
        return Notebook()
    # Processes that work for another one share its terminal, and would write over each other.
    if current_process().name != "MainProcess" or not is_terminal(sys.stdout):
        return Display()
    try:
        return Terminal()
    except ImportError:
        return OneLine()


def is_terminal(stream: Any) -> bool:
    """Whether somebody reads it; it may be None, closed, or an object that has only ``write``."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def in_notebook() -> bool:
    """Whether the process is a kernel of Jupyter's protocol."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return "ZMQInteractiveShell" in (kind.__name__ for kind in type(shell).__mro__)
