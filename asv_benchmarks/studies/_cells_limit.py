"""A run with a limit of CPU seconds, in a child process that has all that this one has.

Compiled fits of the peers cannot be interrupted; a child can be. It is a fork: no data are sent,
and what this process has compiled stays compiled. POSIX alone.
"""

from collections.abc import Callable
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

_SLACK = 1  # seconds, for what the run does beside what it measures


class LimitError(Exception):
    """The run took more than its seconds."""


def run_limited(run: Callable[[], Any], seconds: float) -> Any:
    """What ``run()`` returns; a LimitError if it takes more, and its own error if it raises one."""
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(run, ceil(seconds) + _SLACK, there))
    child.start()
    there.close()  # or the end of the child would not end the pipe
    try:
        succeeded, value = here.recv()
    except EOFError:
        raise LimitError(f"more than {seconds:g} s") from None
    finally:
        here.close()
        child.join()
    if not succeeded:
        raise RuntimeError(value)
    return value


def _in_child(run: Callable[[], Any], seconds: int, there: Connection) -> None:
    import resource  # here, since Windows has none

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        there.send((True, run()))
    except Exception as error:  # another library's, whatever it is: the parent raises its text
        there.send((False, f"{type(error).__name__}: {error}"))
