"""Peak memory of a fit, in a process of its own that has nothing but the data.

Linux tells the most memory that a process ever held (VmHWM). The parent's own would hold what
preparing the data took, and earlier fits.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _measure import MissingError

_STATUS = Path("/proc/self/status")


def in_new_process(measure: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """What the function returns in a process that has nothing of this one."""
    if not _STATUS.is_file():
        raise MissingError("this system does not tell the peak memory of a process")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def high_water() -> float:
    """The most memory that this process ever held, in MiB."""
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
