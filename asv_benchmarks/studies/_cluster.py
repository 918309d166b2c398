"""Rows on the workers of dask beside the same fit in one process.

A LocalCluster of two processes with one thread each; float32 rows of 30 features in 8 blocks, and
two real sets; reg_lambda 1e-4, to a certified gap of 1e-3. Seconds are wall time; rows lie on the
workers, or in memory, before the clock starts. The ratio is one process over the cluster; "rounds"
are those of the fit, "MB" what all processes sent through the loopback device.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from _cell import TOL, Cell, Data, Sides
from _clock import MissingError
from _data import Sets

from sklearn_bundle import BMRMClassifier, BMRMRegressor

_BLOCKS, _FEATURES, _REG_LAMBDA = 8, 30, 1e-4
_LOSSES = {"hinge": BMRMClassifier, "log_loss": BMRMClassifier, "squared_error": BMRMRegressor}
_RUNS = 3


@contextmanager
def _client() -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingError(f"{error}; pip install '.[dask]'") from None
    made = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with made, Client(made) as client:
        yield client


def _made(block: int, n: int, loss: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([block, n])
    X = rng.standard_normal((n, _FEATURES), dtype=np.float32)
    w = np.random.default_rng(0).standard_normal(_FEATURES) / 2.0
    scores = X @ w + 0.7 + 1.5 * rng.standard_normal(n)
    return X, scores if loss == "squared_error" else np.where(scores > 0.0, 1.0, -1.0)


def _sent() -> int:
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("lo:"))
    return int(line.split()[9])


def _timed(fit: Callable[[], Any]) -> tuple[float, float, Any]:
    """The median of the wall seconds after a first run, MB sent in the last one, and its model."""
    seconds, sent, model = [], 0, fit()
    for _ in range(_RUNS):
        start, before = perf_counter(), _sent()
        model = fit()
        seconds.append(perf_counter() - start)
        sent = _sent() - before
    return median(seconds), sent / 1e6, model


class _Fits:
    """What the runner takes for our model: the figures of the whole comparison."""

    def __init__(self, loss: str, data: Data):
        def fit(X: Any, y: Any) -> Any:
            return _LOSSES[loss](loss, reg_lambda=_REG_LAMBDA, tol=TOL, n_jobs=1).fit(X, y)

        with _client() as client:
            X, y = self._on_workers(client, data)
            cluster, sent, model = _timed(lambda: fit(X, y))
        alone, _, own = _timed(lambda: fit(data.X, data.y))
        self.status_, self.relative_gap_ = model.status_, model.relative_gap_
        self.converged_ = model.converged_
        self.figures = {
            "rounds": int(model.history_["rounds"][-1]),
            "MB": sent,
            "cluster": cluster,
            "alone": alone,
            "over_alone": cluster / alone,
            "apart": float(abs(model.objective_ - own.objective_) / own.objective_),
        }

    @staticmethod
    def _on_workers(client: Any, data: Data) -> tuple[Any, Any]:
        from dask.delayed import delayed
        from distributed import wait

        cuts = np.linspace(0, data.X.shape[0], _BLOCKS + 1).astype(int)
        both = [
            client.persist([delayed(part[a:b]) for a, b in pairwise(cuts)])
            for part in (data.X, data.y)
        ]
        wait(both)
        return both[0], both[1]


def cluster(sets: Sets) -> Iterable[Cell]:
    """Rows on workers; a cell is one process beside two workers."""
    for loss in _LOSSES:
        for n in (100_000, 1_000_000):
            yield _cell(loss, f"made {n:,}", lambda n=n, loss=loss: _rows(n, loss))
    for name in sets.names("mnist_even", "news20_bigrams", shipped=()):
        for loss in ("hinge", "log_loss"):
            yield _cell(loss, name, sets("binary", name))


def _cell(loss: str, name: str, load: Callable[[], Data]) -> Cell:
    def sides(data: Data) -> Sides:
        found: list[_Fits] = []

        def once(**changes: Any) -> _Fits:
            """The runner asks several times; the fits have their own clock."""
            found[:] = found or [_Fits(loss, data)]
            return found[0]

        return Sides(once, {})

    return Cell(loss, name, _REG_LAMBDA, load, sides)


def _rows(n: int, loss: str) -> Data:
    parts = [_made(k, n // _BLOCKS, loss) for k in range(_BLOCKS)]
    return Data(*(np.concatenate(part) for part in zip(*parts, strict=True)))
