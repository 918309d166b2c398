"""Bandwidth of the passes over the data, beside what plain numpy code reaches on the same bytes."""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from _contest import Cell
from _linear_growth import make_data
from _linear_timing import quiet_threads
from _measure import Table, cpu_seconds
from _parts import Session
from benchmarks.common import Array

from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import Hinge

TITLE = """\
passes: GB/s of the data (CSR: values, indices and row pointers), CPU time in one thread. "scores"
is X w, "gradient" X'g with no zero in g, "evaluate" the hinge risk with its subgradient, whose
bytes count once although it may be two passes. "copy" is numpy's copy of the same bytes into memory
that is there, "read" the sum of them as integers, a byte counted once as well; the shares are of
these."""

_CELLS = tuple(Cell(task, 1e-4) for task in ("covtype2", "ijcnn1", "a9a", "mnist_even"))
_CELLS += (Cell("news20_bigrams", 1e-4),)
_MADE = ("dense", "sparse")
_MADE_ROWS = 1_000_000
_LEAST = 0.05  # seconds of a timed batch of passes
_COLUMNS = (
    *(("data", 14), ("n", 8), ("d", 8), ("type", 7), ("MB", 7), ("copy GB/s", 9)),
    ("read GB/s", 9),
    *(
        column
        for name in ("scores", "gradient", "evaluate")
        for column in ((f"{name} GB/s", len(name) + 5), ("/copy", 6), ("/read", 6))
    ),
)


def run(session: Session) -> None:
    """A row for each task, and for random data of a million rows, float64 and float32."""
    print(f"\n{TITLE}")
    table = Table(_COLUMNS)
    for cell, X, y in session.data(table, _CELLS):
        _compare(session, table, cell.task, X, y)
    for name in _MADE if session.wanted is None and session.tasks is not None else ():
        X, y = make_data(name, _MADE_ROWS)
        _compare(session, table, f"made {name}", X.astype(np.float64), y)
        _compare(session, table, f"made {name}", X, y)


def _compare(session: Session, table: Table, name: str, X: Any, y: Array) -> None:
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    size = sum(array.nbytes for array in arrays)
    with quiet_threads(1):
        seconds = _time(_passes(X, y, arrays), session.repeat)
    speeds = {key: 1e-9 * size / value for key, value in seconds.items()}
    figures = [f"{speeds['copy']:.2f}", f"{speeds['read']:.2f}"]
    for key in ("scores", "gradient", "evaluate"):
        figures.append(f"{speeds[key]:.2f}")
        figures += [f"{speeds[key] / speeds[plain]:.2f}" for plain in ("copy", "read")]
    kind = ("CSR " if sp.issparse(X) else "") + f"f{8 * X.dtype.itemsize}"
    table.row(
        *(name, f"{X.shape[0]}", f"{X.shape[1]}", kind, f"{1e-6 * size:.1f}", *figures),
    )
    session.record("passes", task=name, kind=kind, bytes=size, seconds=seconds)


def _passes(X: Any, y: Array, arrays: tuple) -> dict[str, Callable[[], Any]]:
    n = X.shape[0]
    rows = rows_in_memory(X)
    risk = LinearProblem(rows, y, np.full(n, 1.0 / n), Hinge(), fit_intercept=False)
    g = np.random.default_rng(0).choice([-1.0, 1.0], n)
    w = rows.gradient(y)
    w /= np.abs(rows.scores(w)).mean()  # about half of the margins are then below one
    words = [_as_words(array) for array in arrays]
    copies = [np.empty_like(array) for array in words]

    def copy() -> None:
        for source, target in zip(words, copies, strict=True):
            np.copyto(target, source)

    return {
        "copy": copy,
        "read": lambda: [array.sum() for array in words],
        "scores": lambda: rows.scores(w),
        "gradient": lambda: rows.gradient(g),
        "evaluate": lambda: risk.evaluate(w),
    }


def _as_words(array: Array) -> Array:
    """Its bytes as 64-bit integers: their sum has no rounding and no slow numbers."""
    flat = array.ravel().view(np.uint8)
    return flat[: len(flat) // 8 * 8].view(np.int64)


def _time(runs: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Medians of a pass, in turns; batches, since the clock is coarser than a short pass."""
    counts = {}
    for name, run in runs.items():
        run()
        seconds, _ = cpu_seconds(run)
        counts[name] = max(1, round(_LEAST / max(seconds, 1e-5)))
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            seconds, _ = cpu_seconds(lambda run=run, n=counts[name]: [run() for _ in range(n)])
            taken[name].append(seconds / counts[name])
    return {name: median(values) for name, values in taken.items()}
