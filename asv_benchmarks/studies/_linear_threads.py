"""Two threads on the wall clock: ours against one of ours, and against two of Snap ML."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from _contest import Cell, Part, Peer, make_bmrm
from _linear_losses import without_asked
from _linear_timing import quiet_threads, time_rungs, wall_seconds
from _measure import Rung, Table
from _parts import Session, run_part
from benchmarks.common import Array

TITLE = """\
threads: hinge, no intercept, wall clock, to a certified relative gap of 1e-3. First n_jobs=2
against n_jobs=1; the fits have to be the same to the last bit. The first row is what two threads
of work that share nothing take on this machine now: other processes count against both tables."""

SNAP_TITLE = """\
Snap ML: hinge, no intercept, wall clock, ours with n_jobs=2. The peer is snapml's
SupportVectorMachine(regularizer=n reg_lambda, tol=0) over max_iter, the better one of n_jobs=1 and
n_jobs=2. Two threads of it end elsewhere on every run: one run that reaches 1e-3 is enough."""

_ASKED = 0.6  # of the time of one thread
_CELLS = (Cell("mnist_even", 1e-4), Cell("news20_bigrams", 1e-4))
_HASHED = 1 << 27  # bytes: about 0.1 s
_MAX_ITERS = tuple(2**k for k in range(13))
_COLUMNS = (
    *(("task", 14), ("n", 6), ("d", 8), ("lambda", 7), ("1 thread s", 10), ("2 threads s", 11)),
    *(("share", 6), ("asked", 5), ("same", 5)),
)


def run(session: Session, ours: Any) -> None:
    """Both tables; ``ours`` makes an estimator."""
    _run_speedup(session, partial(ours, fit_intercept=False))
    try:
        import snapml  # noqa: F401  # before the threads of OpenMP are counted
    except ImportError as error:
        print(f"\nSnap ML skipped: {error} (pip install snapml, where it has wheels)")
        return
    run_part("snapml", replace(SNAP, ours=partial(ours, fit_intercept=False, n_jobs=2)), session)


def _run_speedup(session: Session, ours: Any) -> None:
    print(f"\n{TITLE}")
    table = Table(_COLUMNS)
    one, two = _time_hashing(session.repeat)
    table.row("hashing", "-", "-", "-", f"{one:.4f}", f"{two:.4f}", f"{two / one:.2f}", "-", "-")
    session.record("threads", task="hashing", seconds={"1": one, "2": two})
    for cell, X, y in session.data(table, _CELLS):
        with quiet_threads(1):
            _compare(session, table, cell, X, y, ours)


def _compare(session: Session, table: Table, cell: Cell, X: Any, y: Array, ours: Any) -> None:
    rungs, models = [], []
    for n_jobs in (1, 2):
        fit = partial(_fit, ours, cell.reg_lambda, n_jobs, X, y)
        fit()  # compiles
        seconds, model = wall_seconds(fit)
        rungs.append((Rung(n_jobs, model.objective_, seconds), fit))
        models.append(model)
    time_rungs(rungs, session.repeat, wall_seconds)
    one, two = (rung.seconds for rung, _ in rungs)
    same = bool(np.array_equal(models[0].coef_, models[1].coef_))
    table.row(
        *(cell.task, f"{X.shape[0]}", f"{X.shape[1]}", f"{cell.reg_lambda:.0e}"),
        *(f"{one:.4f}", f"{two:.4f}", f"{two / one:.2f}", f"{_ASKED:g}", "yes" if same else "NO"),
    )
    figures = {"task": cell.task, "reg_lambda": cell.reg_lambda, "same": same}
    session.record("threads", **figures, seconds={"1": one, "2": two}, asked=_ASKED)


def _time_hashing(repeat: int) -> tuple[float, float]:
    """Seconds of two hashes, one after the other and side by side, in turns."""
    blocks = [bytes(_HASHED), bytes(_HASHED)]
    with ThreadPoolExecutor(2) as pool:
        runs = {
            1: lambda: [sha256(block) for block in blocks],
            2: lambda: list(pool.map(sha256, blocks)),
        }
        rungs = [(Rung(k, 0.0, wall_seconds(hashes)[0]), hashes) for k, hashes in runs.items()]
        time_rungs(rungs, repeat, wall_seconds)
    return tuple(rung.seconds for rung, _ in rungs)


def _fit(ours: Any, reg_lambda: float, n_jobs: int, X: Any, y: Array) -> Any:
    return ours(reg_lambda, n_jobs=n_jobs).fit(X, y)


def _make_snap(reg_lambda: float, C: float, max_iter: int, n_jobs: int) -> Any:
    """It minimizes ``regularizer/2 ||w||^2`` + the sum of the losses; only max_iter ends it."""
    from snapml import SupportVectorMachine

    settings = {"max_iter": max_iter, "tol": 0.0, "n_jobs": n_jobs, "random_state": 0}
    return SupportVectorMachine(loss="hinge", regularizer=1.0 / C, fit_intercept=False, **settings)


SNAP = Part(
    title=SNAP_TITLE,
    ours=partial(make_bmrm, fit_intercept=False, n_jobs=2),
    peers={
        "2 threads": Peer(partial(_make_snap, n_jobs=2), _MAX_ITERS, ("J*",)),
        "1 thread": Peer(partial(_make_snap, n_jobs=1), _MAX_ITERS, ("J*",)),
    },
    best_of=True,
    fit_intercept=False,
    required=without_asked(),
    asked_mean=1.0,
    clock=wall_seconds,
    n_threads=2,
)
