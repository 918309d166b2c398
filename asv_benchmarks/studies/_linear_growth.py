"""Cost and memory against n: random data of fixed d, free intercept, reg_lambda fixed.

The clock is CPU time in one thread. Memory is that of a process of its own, which holds the data:
the most that the fit added to it, as a multiple of a vector of n float64.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import isnan, nan
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

from sklearn_bundle import BMRMRegressor

TITLE = """\
growth: free intercept, reg_lambda=1e-4, to a certified relative gap of 1e-3, on random data of
fixed d: dense float32, and CSR float32 with rows of length about 1. "exponent" is that of the power
of n through this row and the last. "vectors" is the peak memory of the fit beyond the data over
8 n bytes; of it "w" is what a vector of d takes. --tasks dense:hinge runs one of the curves."""

REG_LAMBDA = 1e-4
_SIZES = {
    "dense": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    "sparse": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
}
_SHIPPED_SIZES = (1_000, 10_000, 31_623)
_LOSSES = ("hinge", "log_loss", "squared_error")
_FEATURES = {"dense": 30, "sparse": 100_000}
_STORED = 30  # entries a row, of "sparse"
_COMMON = 3.0  # power of a uniform number: few columns have most entries, as words do
_MOST_VECTORS = 10.0  # asked
_MOST_EXPONENT = 1.1  # asked of the last two sizes, where fixed costs are past
_FEW = 1_000  # rows, of the fit that compiles
_SLOW = 5.0  # seconds in all, after which a fit is not repeated
_COLUMNS = (
    *(("data", 7), ("loss", 14), ("n", 9), ("d", 7), ("fit s", 8), ("exponent", 8), ("iters", 5)),
    *(("passes", 6), ("ns/pass/entry", 13), ("vectors", 8), ("w", 6), ("solver", 16)),
)
_CLEAR_REFS = Path("/proc/self/clear_refs")


def run(session: Session, ours: Any, figure: Path | None) -> None:
    """A table, the fitted exponents, and with a path their figure; ``ours`` makes an estimator."""
    print(f"\n{TITLE}")
    table, curves = Table(_COLUMNS), {}
    wanted = session.wanted or [f"{kind}:{loss}" for kind in _FEATURES for loss in _LOSSES]
    for kind, loss in (text.split(":") for text in wanted):
        sizes = _SHIPPED_SIZES if session.tasks is None else _SIZES[kind]
        rows: list[dict[str, Any]] = []
        for n in sizes:
            row = _measure(kind, loss, n, partial(_make, ours, loss), session.repeat)
            seconds = [*(before["seconds"] for before in rows), row["seconds"]]
            row["exponent"] = (
                exponent(sizes[len(rows) - 1 : len(rows) + 1], seconds[-2:]) if rows else nan
            )
            rows.append(row)
            _print(table, row)
            session.record("growth", **row)
        curves[f"{kind}, {loss}"] = sizes, seconds
        last = rows[-1]
        most = last["vectors"] - last["n_iter"] * last["w"] * ("bundle" in last["solver"])
        met = most <= _MOST_VECTORS and last["exponent"] <= _MOST_EXPONENT
        print(
            f"  {kind}, {loss}: exponent {exponent(sizes, seconds):.2f}, at the end "
            f"{last['exponent']:.2f}, asked at most {_MOST_EXPONENT:g}; {most:.1f} vectors, asked "
            f"at most {_MOST_VECTORS:g}: {'met' if met else 'missed'}",
            flush=True,
        )
    if figure is not None:
        draw(curves, figure)


def _make(ours: Any, loss: str) -> Any:
    if loss == "squared_error":
        return BMRMRegressor(loss, reg_lambda=REG_LAMBDA, tol=1e-3, n_jobs=1)
    return ours(REG_LAMBDA, loss=loss)


def _print(table: Table, row: dict[str, Any]) -> None:
    each = 1e9 * row["seconds"] / (max(row["passes"], 1) * row["n_entries"])
    table.row(
        *(row["data"], row["loss"], f"{row['n']}", f"{row['d']}", f"{row['seconds']:.4f}"),
        "-" if isnan(row["exponent"]) else f"{row['exponent']:.2f}",
        *(f"{row['n_iter']}", f"{row['passes']}", f"{each:.2f}"),
        *(f"{row['vectors']:.1f}", f"{row['w']:.2f}", row["solver"]),
    )
    if row["status"] != "converged":
        table.note(f"our fit ended with status {row['status']!r}")


def exponent(sizes: Any, seconds: Any) -> float:
    """Slope of the line through the logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _measure(kind: str, loss: str, n: int, make: Callable[[], Any], repeat: int) -> dict[str, Any]:
    X, y = make_data(kind, n)
    with quiet_threads(1):
        make().fit(X[:_FEW], y[:_FEW])
        taken: list[float] = []
        while len(taken) < repeat and sum(taken) <= _SLOW:
            seconds, model = cpu_seconds(lambda: make().fit(X, y))
            taken.append(seconds)
    d = X.shape[1]
    return {
        **{
            "data": kind,
            "loss": loss,
            "n": n,
            "d": d,
            "n_entries": X.nnz if sp.issparse(X) else X.size,
        },
        **{"seconds": median(taken), "n_iter": model.n_iter_, "status": model.status_},
        **{"passes": int(model.history_["passes"][-1]), "solver": solvers_used(model)},
        **{"vectors": peak_vectors(make, X, y), "w": d / n},
    }


def make_data(kind: str, n: int) -> tuple[Any, Array]:
    """Labels of a linear model, a tenth of them turned over."""
    rng = np.random.default_rng(0)
    d = _FEATURES[kind]
    if kind == "dense":
        X: Any = rng.standard_normal((n, d), dtype=np.float32)
        w = rng.standard_normal(d, dtype=np.float32)
    else:
        entries = np.abs(rng.standard_normal(n * _STORED, dtype=np.float32))
        entries /= np.sqrt(_STORED)
        columns = rng.random(n * _STORED, dtype=np.float32)
        columns = (columns**_COMMON * d).astype(np.int32)
        starts = np.arange(0, n * _STORED + 1, _STORED, dtype=np.int32)
        X = sp.csr_array((entries, columns, starts), shape=(n, d))
        X.sum_duplicates()
        w = rng.standard_normal(d)
    y = np.where(X @ w > 0.0, 1.0, -1.0)
    return X, np.where(rng.random(n) < 0.1, -y, y)


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


def draw(curves: dict[str, tuple[Sequence[int], list[float]]], path: Path) -> None:
    """Seconds against n, both logarithmic, with the fitted lines; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    for kind, (sizes, seconds) in curves.items():
        power, offset = np.polyfit(np.log(sizes), np.log(seconds), 1)
        (points,) = ax.loglog(sizes, seconds, "o", label=f"{kind}, exponent {power:.2f}")
        line = np.exp(offset) * np.power(sizes, power)
        ax.loglog(sizes, line, color=points.get_color(), linewidth=1.0)
    ax.set_xlabel("rows n")
    ax.set_ylabel("CPU seconds of a fit")
    ax.legend()
    figure.savefig(path, dpi=120)
