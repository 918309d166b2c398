"""How much of a fit runs in blocks, and what two threads would take by that."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from _linear_timing import quiet_threads, time_rungs, wall_seconds
from _measure import MissingError, Rung, Table
from _parts import Session
from benchmarks.common import Array

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.core.parallel import BlockRunner

TITLE = """\
blocks: free intercept, reg_lambda=1e-4, to a certified relative gap of 1e-3. "counted" is what two
threads take of one thread's time where nothing else runs: the CPU time of all blocks of rows, dealt
out to two, and of all that is between them. It does not see that two cores share one memory.
"measured" is wall time, n_jobs=2 against n_jobs=1 in turns: other processes count against it."""

_LABELS, _TARGETS = ("hinge", "squared_hinge", "log_loss"), ("huber", "absolute_error")
_ASKED = 0.65
_DEALT = 40e-6  # seconds to deal out blocks and to wait for the last
_NOISE = 0.5
_COLUMNS = (
    *(("task", 16), ("n", 7), ("d", 7), ("loss", 14), ("1 thread s", 10), ("counted", 7)),
    *(("measured", 8), ("asked", 5), ("same", 4)),
)


@dataclass
class _Count:
    blocks: float = 0.0
    two: float = 0.0


@contextmanager
def _counted() -> Iterator[_Count]:
    """Blocks run one after the other inside, each with its CPU time."""
    count = _Count()

    def counting(self: BlockRunner, task: Any, n_blocks: int) -> None:
        busy = [0.0, 0.0]
        for k in range(n_blocks):
            start = time.thread_time()
            task(k)
            seconds = time.thread_time() - start
            count.blocks += seconds
            busy[busy.index(min(busy))] += seconds
        count.two += max(busy) + (_DEALT if n_blocks > 1 else 0.0)

    with patch.object(BlockRunner, "run", counting):
        yield count


def run(session: Session) -> None:
    """The table."""
    print(f"\n{TITLE}")
    table = Table(_COLUMNS)
    for task, X, labels, targets in _sets(session, table):
        for loss in (*_LABELS, *_TARGETS):
            y = labels if loss in _LABELS else targets
            if y is not None:
                with quiet_threads(1):
                    _compare(session, table, task, loss, X, y)


def _compare(session: Session, table: Table, task: str, loss: str, X: Any, y: Array) -> None:
    def fit(n_jobs: int) -> Any:
        kind = BMRMClassifier if loss in _LABELS else BMRMRegressor
        return kind(loss=loss, reg_lambda=1e-4, tol=1e-3, n_jobs=n_jobs).fit(X, y)

    models = [fit(n_jobs) for n_jobs in (1, 2)]
    rungs = [(Rung(k, 0.0, 0.0), lambda k=k: fit(k)) for k in (1, 2)]
    time_rungs(rungs, session.repeat, wall_seconds)
    one, two = (rung.seconds for rung, _ in rungs)
    shares = []
    for _ in range(session.repeat):
        with _counted() as count:
            start = time.thread_time()
            fit(1)
            seconds = time.thread_time() - start
        shares.append((seconds - count.blocks + count.two) / seconds)
    same = all(
        np.array_equal(getattr(models[0], name), getattr(models[1], name))
        for name in ("coef_", "intercept_", "objective_", "lower_bound_", "n_iter_")
    )
    table.row(
        *(task, f"{X.shape[0]}", f"{X.shape[1]}", loss, f"{one:.3f}", f"{median(shares):.2f}"),
        *(f"{two / one:.2f}", f"{_ASKED:g}" if one > 0.5 else "-", "yes" if same else "NO"),
    )
    figures = {"task": task, "loss": loss, "same": same, "counted": median(shares)}
    session.record("blocks", **figures, seconds={"1": one, "2": two}, asked=_ASKED)


def _sets(session: Session, table: Table) -> Iterator[tuple[str, Any, Array | None, Array | None]]:
    """Made and real sets, with labels and targets."""
    wanted = None if session.wanted is None else {text.split(":")[0] for text in session.wanted}
    for n, d in ((4_000_000, 30), (1_000_000, 30), (200_000, 100)):
        task = f"made {n:.0e} x {d}".replace("e+0", "e")
        if wanted is None or task in wanted or "made" in wanted:
            rng = np.random.default_rng(0)
            X = rng.standard_normal((n, d), dtype=np.float32)
            scores = X @ (rng.standard_normal(d) / np.sqrt(d)) + 0.3
            scores += _NOISE * rng.standard_normal(n)
            yield task, X, np.where(scores > 0.0, 1, -1), scores
    for task in ("mnist_even", "news20_bigrams"):
        dense = f"{task}, dense"
        if wanted is not None and not wanted & {task, dense}:
            continue
        try:
            X, y = session.load(task)
        except MissingError as error:
            table.skip(task, str(error))
            continue
        if task == "mnist_even" and (wanted is None or dense in wanted):
            yield dense, np.asarray(X.todense(), dtype=np.float32), y, None
        if wanted is None or task in wanted:
            yield task, X, y, None
