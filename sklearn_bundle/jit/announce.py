"""Messages about compilation: a line if it takes long, and a warning if it cannot be cached.

The listener is called for every compilation in the process. That of other packages must not suffer.
"""

import gc
import logging
import sys
import warnings
from multiprocessing import current_process
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from numba.core import config, event

_OURS = __name__.partition(".")[0]
_LOGGER = logging.getLogger("sklearn_bundle")
_SECONDS_OF_SILENCE = 3.0  # of compilation, after which somebody who waits may think that it hangs
_NOT_KEPT = (
    "numba finds no writable folder for compiled code, so every process compiles for seconds "
    "before its first result. Set the environment variable NUMBA_CACHE_DIR to a folder that can "
    "be written; if it will be read-only, as in a container, fill it by a fit when the image is "
    "built."
)
_OFF = (
    "sklearn_bundle cannot run while NUMBA_DISABLE_JIT is set: its inner loops exist only as "
    "machine code. Unset it; to run functions of your own without compilation, call their py_func."
)
_LONG = (
    "sklearn_bundle is compiling for this kind of data. This can take 20 seconds, once per "
    "environment."
)


class Reporter(Protocol):
    """A fit that prints messages."""

    def report(self, message: str) -> None:
        """Print a line; must not compile anything."""
        ...


class _Announcer(event.Listener):
    """Listens to numba's compile events; loading from a cache is not such an event.

    numba compiles under one lock, so events of several threads do not mix. The events of the
    functions that a function calls are nested in its own, and have other data. The first event may
    be an end: another thread may be compiling when this package is imported.
    """

    def __init__(self) -> None:
        self.reporters: WeakKeyDictionary[Reporter, str] = WeakKeyDictionary()  # with their kinds
        self.seconds = 0.0  # of all compilations so far
        self._outermost: Any = None  # the data of a compilation of ours that is not over
        self._start = 0.0  # of that one
        self._announced: set[str] = set()
        self._logged = False
        self._warned = False
        self._collects = True

    def on_start(self, event: event.Event) -> None:
        if self._outermost is None:
            if not _is_ours(event):
                return
            self._announce(_dispatcher(event)._cache.cache_path)  # may raise, as warnings do
            # All objects of a compilation live until its end: garbage collection would free
            # nothing. With it the first fit of a CRF took 34 % more CPU time.
            self._collects, self._start = gc.isenabled(), perf_counter()
            self._outermost = event.data  # first: from here on the end enables it again
            gc.disable()
        self._log_if_long()

    def on_end(self, event: event.Event) -> None:
        if self._outermost is None or event.data is not self._outermost:
            return
        if self._collects:
            gc.enable()
        self._outermost = None
        self.seconds += perf_counter() - self._start

    def _log_if_long(self) -> None:
        """One line per process, unless compilation is already being reported.

        Events of nested functions come every few milliseconds, so it needs no thread of its own.
        """
        if self._logged or self.reporters:
            return
        if self.seconds + perf_counter() - self._start > _SECONDS_OF_SILENCE:
            self._logged = True
            # Without handlers, the standard library prints warnings, and nothing below them.
            level = logging.WARNING if _is_watched() else logging.INFO
            _LOGGER.log(level, _LONG)

    def _announce(self, folder: str | None) -> None:
        once = "process" if folder is None else "environment"
        for reporter, kind in list(self.reporters.items()):
            if kind not in self._announced:
                self._announced.add(kind)
                reporter.report(f"compiling for this kind of data: some seconds, once per {once}")
                break
        if folder is None and not self._warned:
            self._warned = True
            warnings.warn(_NOT_KEPT, RuntimeWarning, stacklevel=2)


def _is_watched() -> bool:
    """Whether somebody may wait in front of it: a terminal or a notebook, not a worker process."""
    if current_process().name != "MainProcess":
        return False
    if "ipykernel" in sys.modules:
        return True
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # it may be None, closed, or have only ``write``
        return False


def _dispatcher(compilation: event.Event) -> Any:
    """The function that is compiled."""
    data: Any = compilation.data
    return data["dispatcher"]


def _is_ours(started: event.Event) -> bool:
    """Whether a function of this package is compiled; some of other packages have no module."""
    module = getattr(_dispatcher(started).py_func, "__module__", None) or ""
    return module.partition(".")[0] == _OURS


if getattr(config, "DISABLE_JIT", False):
    raise ImportError(_OFF)
_ANNOUNCER = _Announcer()
event.register("numba:compile", _ANNOUNCER)


def seconds_compiled() -> float:
    """Seconds that this process has spent compiling so far: ``max_time`` does not count them."""
    return _ANNOUNCER.seconds


def listen(reporter: Reporter, kind: str) -> None:
    """Let a fit print a line if it compiles: one per process and kind of fit."""
    _ANNOUNCER.reporters[reporter] = kind


def leave(reporter: Reporter) -> None:
    """The fit has ended."""
    _ANNOUNCER.reporters.pop(reporter, None)
