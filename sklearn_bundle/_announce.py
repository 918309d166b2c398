"""Messages about compilation: a line if it takes long, and a warning if it cannot be cached."""

import gc
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from time import perf_counter
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from numba.core import event

from sklearn_bundle._bars import in_notebook

_LOGGER = logging.getLogger("sklearn_bundle")
_SECONDS_OF_SILENCE = 3.0  # of compilation, after which somebody who waits may think that it hangs
_NOT_KEPT = (
    "numba finds no writable folder for compiled code, so every process compiles for seconds "
    "before its first result. Set the environment variable NUMBA_CACHE_DIR to a folder that can "
    "be written; if it will be read-only, as in a container, fill it with "
    "`python -m sklearn_bundle.compile` when the image is built."
)
_LONG = (
    "sklearn_bundle is compiling for this kind of data. This can take 20 seconds, once per "
    "environment."
)


class Compiled(NamedTuple):
    """A compiled function, with those that it calls."""

    function: str
    seconds: float


class Hearer(Protocol):
    """A fit that prints messages."""

    def hear(self, message: str) -> None:
        """Print a line; must not compile anything."""


class _Announcer(event.Listener):
    """Listens to numba's compile events; loading from a cache is not such an event.

    numba compiles under one lock, so events of several threads do not mix. The events of the
    functions that a function calls are nested in its own.
    """

    def __init__(self) -> None:
        self.hearers: WeakKeyDictionary[Hearer, str] = WeakKeyDictionary()  # with their kinds
        self.logs: list[list[Compiled]] = []
        self.seconds = 0.0  # of all compilations so far
        self._depth = 0
        self._start: float | None = None  # of a compilation of ours that is not over
        self._told: set[str] = set()
        self._logged = False
        self._warned = False
        self._collects = True

    def on_start(self, event: event.Event) -> None:
        self._depth += 1
        if self._depth == 1 and _is_ours(event):
            self._tell(event.data["dispatcher"]._cache.cache_path)  # may raise, as warnings do
            # All objects of a compilation live until its end: garbage collection would free
            # nothing, and took a sixth of the time.
            self._collects = gc.isenabled()
            gc.disable()
            self._start = perf_counter()
        self._log_if_long()

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0 and self._start is not None:
            if self._collects:
                gc.enable()
            function = event.data["dispatcher"].py_func
            entry = Compiled(function.__name__, self._seconds_of_this())
            self._start = None
            self.seconds += entry.seconds
            for log in self.logs:
                log.append(entry)

    def _seconds_of_this(self) -> float:
        return 0.0 if self._start is None else perf_counter() - self._start

    def _log_if_long(self) -> None:
        """One line per process, unless compilation is already being reported.

        Events of nested functions come every few milliseconds, so it needs no thread of its own.
        """
        if self._logged or self.hearers or self.logs:
            return
        if self.seconds + self._seconds_of_this() > _SECONDS_OF_SILENCE:
            self._logged = True
            # Without handlers, the standard library prints warnings, and nothing below them.
            level = logging.WARNING if _is_watched() else logging.INFO
            _LOGGER.log(level, _LONG)

    def _tell(self, folder: str | None) -> None:
        once = "process" if folder is None else "environment"
        for hearer, kind in list(self.hearers.items()):
            if kind not in self._told:
                self._told.add(kind)
                hearer.hear(f"compiling for this kind of data: some seconds, once per {once}")
                break
        if folder is None and not self._warned:
            self._warned = True
            warnings.warn(_NOT_KEPT, RuntimeWarning, stacklevel=2)


def _is_watched() -> bool:
    """Whether somebody may wait in front of it: a terminal or a notebook, not a worker process."""
    if current_process().name != "MainProcess":
        return False
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _is_ours(started: event.Event) -> bool:
    """Whether a function of this package is compiled; some of other packages have no module."""
    module = getattr(started.data["dispatcher"].py_func, "__module__", None) or ""
    return module.partition(".")[0] == __package__


_ANNOUNCER = _Announcer()
event.register("numba:compile", _ANNOUNCER)


def seconds_compiled() -> float:
    """Seconds that this process has spent compiling so far: ``max_time`` does not count them."""
    return _ANNOUNCER.seconds


def listen(hearer: Hearer, kind: str) -> None:
    """Let a fit print a line if it compiles: one per process and kind of fit."""
    _ANNOUNCER.hearers[hearer] = kind


def leave(hearer: Hearer) -> None:
    """The fit has ended."""
    _ANNOUNCER.hearers.pop(hearer, None)


@contextmanager
def logged() -> Iterator[list[Compiled]]:
    """Collect what is compiled within the block; functions from a cache are not included."""
    log: list[Compiled] = []
    _ANNOUNCER.logs.append(log)
    try:
        yield log
    finally:
        _ANNOUNCER.logs[:] = [other for other in _ANNOUNCER.logs if other is not log]
