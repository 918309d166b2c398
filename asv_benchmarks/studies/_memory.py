"""Peak memory of a fit, in a process of its own that has nothing but the data.

Linux tells the most memory that a process ever held (VmHWM). The parent's own would hold what
preparing the data took, and earlier fits.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
from _measure import MissingError, quiet_single_thread
from _svm import Data, warm_up
from scipy.sparse import issparse

_STATUS = Path("/proc/self/status")


def peak_memory(make: Callable[[], Any], data: Data) -> dict[str, float]:
    """MiB at the peak of the fit, before it, and of the training data alone.

    "before" has the interpreter, the libraries and the compiled code as well as the data.
    """
    with TemporaryDirectory(prefix="peak_memory_") as folder:
        path = Path(folder, "data")
        joblib.dump(data, path)
        return in_new_process(_measure, make, path)


def in_new_process(measure: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """What the function returns in a process that has nothing of this one."""
    if not _STATUS.is_file():
        raise MissingError("this system does not tell the peak memory of a process")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def _measure(make: Callable[[], Any], path: Path) -> dict[str, float]:
    data = joblib.load(path)
    with quiet_single_thread():
        warm_up(make, data)
        before = high_water()
        make().fit(data.X, data.y)
        peak = high_water()
    return {"peak": peak, "before": before, "data": _mebibytes(data.X) + data.y.nbytes / 2**20}


def high_water() -> float:
    """The most memory that this process ever held, in MiB."""
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _mebibytes(X: Any) -> float:
    arrays = (X.data, X.indices, X.indptr) if issparse(X) else (X,)
    return sum(array.nbytes for array in arrays) / 2**20
