"""Cost and memory against n: random data of fixed d, hinge, free intercept, reg_lambda fixed.

The clock is CPU time in one thread. Memory is that of a process of its own, which holds the data:
the most that the fit added to it, as a multiple of a vector of n float64.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import nan
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from _contest import solvers_used
from _linear_timing import quiet_threads
from _measure import MissingError, Table, cpu_seconds
from _memory import high_water, in_new_process
from _parts import Session
from benchmarks.common import Array

TITLE = """\
growth: hinge, free intercept, reg_lambda=1e-4, to a certified relative gap of 1e-3, on random data
of fixed d. "exponent" is that of the power of n through this row and the last. "vectors" is the
peak memory of the fit beyond the data over 8 n bytes; of it "planes" is what a plane per iteration
takes, once."""

REG_LAMBDA = 1e-4
_SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
_SHIPPED_SIZES = _SIZES[:2]
_FEATURES = {"dense": 30, "sparse": 1_000}
_STORED = 20  # entries a row, of "sparse"
_MOST_VECTORS = 8.0  # asked
_FEW = 1_000  # rows, of the fit that compiles
_SLOW = 10.0  # seconds in all, after which a fit is not repeated
_COLUMNS = (
    *(("data", 7), ("n", 8), ("d", 5), ("fit s", 8), ("exponent", 8), ("iters", 5), ("passes", 6)),
    *(("ns/pass/entry", 13), ("vectors", 7), ("planes", 7), ("solver", 16)),
)
_CLEAR_REFS = Path("/proc/self/clear_refs")


def run(session: Session, ours: Any, figure: Path | None) -> None:
    """A table, the fitted exponents, and with a path their figure; ``ours`` makes an estimator."""
    print(f"\n{TITLE}")
    table = Table(_COLUMNS)
    sizes = _SHIPPED_SIZES if session.tasks is None else _SIZES
    curves = {}
    for kind in _FEATURES:
        seconds: list[float] = []
        for n in sizes:
            row = _measure(kind, n, partial(ours, REG_LAMBDA), session.repeat)
            seconds.append(row["seconds"])
            k = len(seconds)
            _print(table, row, exponent(sizes[k - 2 : k], seconds[-2:]) if k > 1 else None)
            session.record("growth", **row)
        curves[kind] = seconds
        fitted, most = exponent(sizes, seconds), row["vectors"] - row["planes"]
        verdict = "met" if most <= _MOST_VECTORS else "missed"
        print(
            f"  {kind}: fitted exponent {fitted:.2f}; peak memory {most:.1f} vectors and the "
            f"planes at {n} rows, asked at most {_MOST_VECTORS:g}: {verdict}",
            flush=True,
        )
        session.record("growth", data=kind, exponent=fitted, vectors=most)
    if figure is not None:
        draw(sizes, curves, figure)


def _print(table: Table, row: dict[str, Any], local: float | None) -> None:
    each = 1e9 * row["seconds"] / (row["passes"] * row["n_entries"])
    table.row(
        *(row["data"], f"{row['n']}", f"{row['d']}", f"{row['seconds']:.4f}"),
        "-" if local is None else f"{local:.2f}",
        *(f"{row['n_iter']}", f"{row['passes']}", f"{each:.2f}"),
        *(f"{row['vectors']:.1f}", f"{row['planes']:.2f}", row["solver"]),
    )
    if row["status"] != "converged":
        table.note(f"our fit ended with status {row['status']!r}")


def exponent(sizes: Any, seconds: Any) -> float:
    """Slope of the line through the logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _measure(kind: str, n: int, make: Callable[[], Any], repeat: int) -> dict[str, Any]:
    X, y = make_data(kind, n)
    with quiet_threads(1):
        make().fit(X[:_FEW], y[:_FEW])
        taken: list[float] = []
        while len(taken) < repeat and sum(taken) <= _SLOW:
            seconds, model = cpu_seconds(lambda: make().fit(X, y))
            taken.append(seconds)
    d = X.shape[1]
    return {
        **{"data": kind, "n": n, "d": d, "n_entries": X.nnz if sp.issparse(X) else X.size},
        **{"seconds": median(taken), "n_iter": model.n_iter_, "status": model.status_},
        **{"passes": int(model.history_["passes"][-1]), "solver": solvers_used(model)},
        **{"vectors": peak_vectors(make, X, y), "planes": model.n_iter_ * d / n},
    }


def make_data(kind: str, n: int) -> tuple[Any, Array]:
    """Features of mean 0 and variance about 1; a fifth of the labels are turned over."""
    rng = np.random.default_rng(0)
    d = _FEATURES[kind]
    if kind == "dense":
        X: Any = rng.standard_normal((n, d))
    else:
        entries = rng.standard_normal(n * _STORED)
        columns = rng.integers(d, size=n * _STORED, dtype=np.int32)
        X = sp.csr_array((entries, columns, np.arange(0, n * _STORED + 1, _STORED)), shape=(n, d))
        X.sum_duplicates()
        X = sp.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
    y = np.where(X @ rng.standard_normal(d) > 0.0, 1.0, -1.0)
    return X, np.where(rng.random(n) < 0.2, -y, y)


# ---- memory --------------------------------------------------------------------------------


def peak_vectors(make: Callable[[], Any], X: Any, y: Array) -> float:
    """What the fit adds to a process that holds the data, in vectors of n float64."""
    with TemporaryDirectory(prefix="peak_memory_") as folder:
        path = Path(folder, "data")
        joblib.dump((X, y), path)
        try:
            return in_new_process(_measure_memory, make, path)["vectors"]
        except MissingError:
            return nan


def _measure_memory(make: Callable[[], Any], path: Path) -> dict[str, float]:
    X, y = joblib.load(path)
    with quiet_threads(1):
        make().fit(X[:_FEW], y[:_FEW])
        _forget_peak()
        before = high_water()
        make().fit(X, y)
        return {"vectors": (high_water() - before) * 2**20 / (8 * len(y))}


def _forget_peak() -> None:
    """From here on the peak is that of what follows: compiling takes more than a small fit."""
    _CLEAR_REFS.write_text("5")


# ---- figure --------------------------------------------------------------------------------


def draw(sizes: Sequence[int], curves: dict[str, list[float]], path: Path) -> None:
    """Seconds against n, both logarithmic, with the fitted lines; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    for kind, seconds in curves.items():
        power, offset = np.polyfit(np.log(sizes), np.log(seconds), 1)
        (points,) = ax.loglog(sizes, seconds, "o", label=f"{kind}, exponent {power:.2f}")
        line = np.exp(offset) * np.power(sizes, power)
        ax.loglog(sizes, line, color=points.get_color(), linewidth=1.0)
    ax.set_xlabel("rows n")
    ax.set_ylabel("CPU seconds of a fit")
    ax.legend()
    figure.savefig(path, dpi=120)
