"""What a user waits for before the first result: the import, and the first fit in a new process.

Every figure comes from child processes, which time themselves: the start of the interpreter is
not in it, and for a fit neither are the imports and the making of the data. Byte code and numba's
cache go to a temporary folder, so that neither the checkout nor a user's cache has a part in it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.common import Benchmark

FAMILIES = (
    *("BMRMClassifier", "BMRMRegressor", "BMRMRanker", "BMRMNoveltyDetector", "PragamSVC"),
    *("SwapSVC", "SwapSVR", "SwapNoveltyDetector", "SDCACRF", "StructuredSVM"),
)

_IMPORT = """
from time import perf_counter
start = perf_counter()
import sklearn
middle = perf_counter()
import sklearn_bundle
print([middle - start, perf_counter() - middle])
"""

_FIT = """
import sys
from time import process_time
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale
import sklearn_bundle
name = sys.argv[1]
model = getattr(sklearn_bundle, name)()
X, y = load_breast_cancer(return_X_y=True)
X, further = scale(X), {}
if name in ("BMRMRegressor", "SwapSVR", "BMRMRanker"):
    X, y = map(scale, load_diabetes(return_X_y=True))
if name == "BMRMRanker":
    y, further = np.digitize(y, [-1.0, 0.0, 1.0]), {"group": np.arange(len(y)) // 10}
if name == "StructuredSVM":
    X, y = load_iris(return_X_y=True)
if name == "SDCACRF":
    X, y = [[["a"], ["b"]], [["b"], ["a"], ["a"]]], [["x", "y"], ["y", "x", "x"]]
start = process_time()
model.fit(X, y, **further)
print([process_time() - start])
"""


@contextmanager
def _scratch() -> Iterator[Path]:
    """A temporary folder in which the byte code of everything imported lies ready."""
    with tempfile.TemporaryDirectory(prefix="first_fit_") as name:
        _child(_IMPORT, Path(name), "numba")
        yield Path(name)


def _child(code: str, scratch: Path, numba_cache: str, *arguments: str) -> list[float]:
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(scratch / "bytecode")
    environment["NUMBA_CACHE_DIR"] = str(scratch / numba_cache)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"the child process failed:\n{done.stderr}")
    return json.loads(done.stdout)


def import_seconds(repeat: int = 5) -> tuple[float, float]:
    """Seconds of ``import sklearn``, and of ``import sklearn_bundle`` after it; medians."""
    with _scratch() as scratch:
        runs = [_child(_IMPORT, scratch, "numba") for _ in range(repeat)]
    return median(r[0] for r in runs), median(r[1] for r in runs)


def first_fit_seconds(name: str, repeat: int = 3) -> tuple[float, float]:
    """CPU seconds of the first fit of an estimator as it is, on some hundred samples; medians.

    In a new process, with nothing compiled and with a warm numba cache.
    """
    cold, warm = [], []
    with _scratch() as scratch:
        _child(_FIT, scratch, "discarded", name)  # byte code of what only a fit imports
        for k in range(repeat):
            cold += _child(_FIT, scratch, f"cache{k}", name)
            warm += _child(_FIT, scratch, f"cache{k}", name)
    return median(cold), median(warm)


class ImportTime(Benchmark):
    """Seconds that ``import sklearn_bundle`` takes over ``import sklearn``."""

    def track_import(self) -> float:
        return import_seconds()[1]

    track_import.unit = "seconds"


class FirstFit(Benchmark):
    """CPU seconds of the first fit in a new process, after the imports, with all defaults."""

    param_names = ("estimator",)
    params = (FAMILIES,)

    def setup_cache(self) -> dict[str, tuple[float, float]]:
        return {name: first_fit_seconds(name) for name in FAMILIES}

    setup_cache.timeout = 900

    def track_cold_cache(self, seconds: dict, name: str) -> float:
        return seconds[name][0]

    def track_warm_cache(self, seconds: dict, name: str) -> float:
        return seconds[name][1]

    track_cold_cache.unit = "seconds"
    track_warm_cache.unit = "seconds"


if __name__ == "__main__":  # python -m benchmarks.first_fit [ESTIMATOR ...], in asv_benchmarks
    for wanted in sys.argv[1:] or FAMILIES:
        cold, warm = first_fit_seconds(wanted)
        print(f"{wanted:<20} {cold:5.1f} {warm:5.2f}", flush=True)
