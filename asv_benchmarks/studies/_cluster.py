"""Rows on workers: a LocalCluster of two single-threaded processes, and what it costs beside one.

J = reg_lambda/2 ||w||^2 + the mean loss with a free intercept, reg_lambda 1e-4, computed here from
the rows at the weights of either side. Ours stops at a certified relative gap of 1e-3. Seconds are
wall time, medians of runs that take turns, after a first one; rows lie on the workers, or in the
memory of one process, before the clock starts. "rounds" are those of the fit, "MB" what the client
sent and received, "peak" the largest memory of any worker during the fit, without what it had.

growth   made rows, 1e5 to 1e7 x 30 in float32, beside our own fit on one machine (to 1e6)
peers    the same rows at 1e6: dask-ml's LogisticRegression, Spark's LinearSVC and
         LogisticRegression in local[2], each at its cheapest setting within 1e-3 of the optimum
sets     mnist_even and news20_bigrams in 8 blocks
killed   a worker killed at a third of the rounds: the same bits, and the extra seconds
"""

import argparse
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, pairwise
from time import perf_counter
from typing import Any

import numpy as np
from _cluster_peers import BLOCKS, REG_LAMBDA, rivals
from _measure import MissingError, Table

from sklearn_bundle import BMRMClassifier, BMRMRegressor

HELP = "rows on the workers of dask: rounds, bytes, wall time beside one machine and peers"
_PARTS = "growth", "peers", "sets", "killed"
_FEATURES, _WITHIN = 30, 1e-3
_LOSSES = {"hinge": BMRMClassifier, "log_loss": BMRMClassifier, "squared_error": BMRMRegressor}
_LADDER = 5, 10, 20, 40, 80, 160  # iterations of a peer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of this study."""
    parser.add_argument("--part", nargs="+", choices=_PARTS, default=_PARTS)
    rows = [1e5, 1e6, 1e7]
    parser.add_argument("--rows", type=float, nargs="+", default=rows, help="of growth")


def run(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    print(__doc__)
    results = []
    with _cluster() as client:
        for part in arguments.part:
            try:
                results += _RUNS[part](client, arguments)
            except MissingError as error:
                print(f"\n{part} skipped: {error}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


@contextmanager
def _cluster() -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingError(f"{error}; pip install '.[dask]'") from None
    made = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with made, Client(made) as client:
        yield client


# ---- rows ------------------------------------------------------------------------------------


def _made(block: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """X in float32, and scores with noise: a block of rows, by its number."""
    rng = np.random.default_rng([block, n])
    X = rng.standard_normal((n, _FEATURES), dtype=np.float32)
    w = np.random.default_rng(0).standard_normal(_FEATURES) / 2.0
    return X, X @ w + 0.7 + 1.5 * rng.standard_normal(n)


def _target(scores: np.ndarray, loss: str) -> np.ndarray:
    return scores if loss == "squared_error" else np.where(scores > 0.0, 1.0, -1.0)


def _on_workers(client: Any, n: int) -> tuple[Any, Any]:
    """X and scores as dask arrays on the workers."""
    import dask.array as da
    from dask.delayed import delayed
    from distributed import wait

    size = n // BLOCKS
    blocks = [delayed(_made, nout=2)(k, size) for k in range(BLOCKS)]
    X = da.concatenate([da.from_delayed(X, (size, _FEATURES), dtype=np.float32) for X, _ in blocks])
    scores = da.concatenate([da.from_delayed(s, (size,), dtype=np.float64) for _, s in blocks])
    X, scores = client.persist([X, scores])
    wait([X, scores])
    return X, scores


def _losses(loss: str, y: Any, scores: Any, xp: Any) -> Any:
    if loss == "squared_error":
        return 0.5 * (scores - y) ** 2
    if loss == "hinge":
        return xp.maximum(1.0 - y * scores, 0.0)
    return xp.logaddexp(0.0, -y * scores)


def _objective(loss: str, X: Any, y: Any, w: np.ndarray, b: float) -> float:
    """J, of arrays in memory or of dask's."""
    xp = np
    if not isinstance(X, np.ndarray) and hasattr(X, "chunks"):
        import dask.array as xp
    scores = X @ w.astype(np.float64) + b
    return float(0.5 * REG_LAMBDA * (w @ w) + _losses(loss, y, scores, xp).mean())


# ---- figures of a fit ---------------------------------------------------------------------------


def _fit(loss: str, X: Any, y: Any, **further: Any) -> Any:
    return _LOSSES[loss](loss, reg_lambda=REG_LAMBDA, tol=_WITHIN, **further).fit(X, y)


def _weights(model: Any) -> tuple[np.ndarray, float]:
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def _timed(fit: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The median of the runs, the first of which is not counted, and the last result."""
    seconds, result = [], fit()
    for _ in range(repeat):
        start = perf_counter()
        result = fit()
        seconds.append(perf_counter() - start)
    return float(np.median(seconds)), result


def _resident() -> float:
    """MB of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def _reset_peak() -> float:
    """Forget the most memory that this process has held; what it holds."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _resident()


def _peak() -> float:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**10


def _peak_of_workers(client: Any, fit: Callable[[], Any]) -> float:
    before = client.run(_reset_peak)
    fit()
    after = client.run(_peak)
    return max(after[worker] - before[worker] for worker in before)


class _Bytes:
    """Counts what goes out and comes back, pickled, while it is entered."""

    def __enter__(self) -> "_Bytes":
        import pickle

        from sklearn_bundle.linear.rows._dask_cluster import ClusterWorkers

        self._kind, self.bytes = ClusterWorkers, 0
        self._submit, self._answers = ClusterWorkers._submit, ClusterWorkers._answers

        def submit(workers: Any, task: Any, args: tuple, each: Any = None, **stay: Any) -> Any:
            asked = self._submit(workers, task, args, each, **stay)
            copies = len(getattr(asked, "workers", ())) or workers.n_blocks
            self.bytes += copies * len(pickle.dumps((task, args, getattr(asked, "homes", None))))
            self.bytes += len(pickle.dumps(each))
            return asked

        def answers(workers: Any, futures: Any, name: str) -> Any:
            found = self._answers(workers, futures, name)
            self.bytes += len(pickle.dumps(found))
            return found

        ClusterWorkers._submit, ClusterWorkers._answers = submit, answers
        return self

    def __exit__(self, *exception: object) -> None:
        self._kind._submit, self._kind._answers = self._submit, self._answers


# ---- parts -----------------------------------------------------------------------------------


def _growth(client: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    columns = [("loss", 13), ("rows", 11), ("rounds", 6), ("passes", 6), ("MB", 7), ("peak MB", 7)]
    columns += [("gap", 8), ("cluster s", 9), ("alone s", 8), ("ratio", 6), ("J apart", 8)]
    print("\ngrowth: made rows x 30 in float32")
    table, results = Table(columns), []
    for n in map(int, arguments.rows):
        X, scores = _on_workers(client, n)
        for loss in _LOSSES:
            y = _on(client, scores, loss)
            seconds, model = _timed(partial(_fit, loss, X, y), arguments.repeat)
            with _Bytes() as sent:
                _fit(loss, X, y)
            peak = _peak_of_workers(client, partial(_fit, loss, X, y))
            J, alone, apart = _objective(loss, X, y, *_weights(model)), np.nan, np.nan
            assert abs(J - model.objective_) <= 1e-6 * J, (J, model.objective_)
            if n <= 1_000_000:
                in_memory = X.compute(), y.compute()
                alone, other = _timed(partial(_fit, loss, *in_memory), arguments.repeat)
                apart = (model.objective_ - other.objective_) / other.objective_
            rounds, passes = (int(model.history_[name][-1]) for name in ("rounds", "passes"))
            table.row(
                *(loss, f"{n:,}", rounds, passes, f"{sent.bytes / 1e6:.2f}", f"{peak:.0f}"),
                *(f"{model.relative_gap_:.1e}", f"{seconds:.2f}", f"{alone:.2f}"),
                *(f"{seconds / alone:.2f}", f"{apart:.1e}"),
            )
            results.append(
                {"part": "growth", "loss": loss, "n": n, "seconds": seconds, "alone": alone}
            )
    return results


def _on(client: Any, scores: Any, loss: str) -> Any:
    from distributed import wait

    y = client.persist(scores.map_blocks(_target, loss, dtype=np.float64))
    wait(y)
    return y


def _peers(client: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    n = int(min(1e6, max(arguments.rows)))
    X, scores = _on_workers(client, n)
    print(f"\npeers: {n:,} made rows x {_FEATURES}")
    columns = [("loss", 9), ("who", 26), ("setting", 9), ("s", 8)]
    table = Table([*columns, ("above J*", 9), ("ratio", 7)])
    results = []
    for loss in ("log_loss", "hinge"):
        y = _on(client, scores, loss)
        best = _LOSSES[loss](loss, reg_lambda=REG_LAMBDA, tol=1e-7).fit(X, y).objective_
        own, model = _timed(partial(_fit, loss, X, y), arguments.repeat)
        table.row(loss, "ours", "1e-3", f"{own:.2f}", f"{model.objective_ / best - 1:.1e}", "")
        for name, fits in rivals(loss, X, y, n):
            try:
                row = _cheapest(loss, X, y, best, fits, arguments.repeat)
            except Exception as error:  # another library's, whatever it is
                print(f"{loss} {name} skipped: {type(error).__name__}: {str(error)[:100]}")
                continue
            setting, seconds, above = row
            ratio = f"{seconds / own:.1f}" if above <= _WITHIN else f">{seconds / own:.1f}"
            table.row(loss, name, setting, f"{seconds:.2f}", f"{above:.1e}", ratio)
            results.append(
                {"part": "peers", "loss": loss, "peer": name, "seconds": seconds, "own": own}
            )
    return results


def _cheapest(
    loss: str, X: Any, y: Any, best: float, fits: Callable[[int], Callable], repeat: int
) -> tuple[int, float, float]:
    """The first setting of the ladder within reach, its seconds, and how far above it ends."""
    for setting in _LADDER:
        fit = fits(setting)
        start = perf_counter()
        weights = fit()
        once = perf_counter() - start
        above = _objective(loss, X, y, *weights) / best - 1.0
        if above <= _WITHIN or once > 120.0:
            break
    seconds, _ = _timed(fit, repeat) if once < 30.0 else (once, None)
    return setting, seconds, above


def _sets(client: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    if arguments.data is None:
        raise MissingError("sets come with --data FOLDER only")
    from dask.delayed import delayed
    from distributed import wait

    sys.path.insert(0, str(arguments.data))
    import tasks

    columns = [("set", 15), ("loss", 9), ("rounds", 6), ("MB", 8), ("gap", 8), ("status", 10)]
    table = Table([*columns, ("cluster s", 9), ("alone s", 8), ("ratio", 6)])
    results = []
    for name in ("mnist_even", "news20_bigrams"):
        X, y = tasks.linear(name)[:2]
        cuts = np.linspace(0, X.shape[0], BLOCKS + 1).astype(int)
        parts = [client.persist([delayed(A[a:b]) for a, b in pairwise(cuts)]) for A in (X, y)]
        wait(parts)
        for loss in ("hinge", "log_loss"):
            limits = {"max_time": 120.0}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, model = _timed(partial(_fit, loss, *parts, **limits), 1)
                alone, _ = _timed(partial(_fit, loss, X, y, **limits), 1)
                with _Bytes() as sent:
                    _fit(loss, *parts, **limits)
            table.row(
                *(name, loss, int(model.history_["rounds"][-1]), f"{sent.bytes / 1e6:.0f}"),
                *(f"{model.relative_gap_:.1e}", model.status_, f"{seconds:.2f}", f"{alone:.2f}"),
                f"{seconds / alone:.2f}",
            )
            results.append({"part": "sets", "set": name, "loss": loss, "seconds": seconds})
    return results


def _killed(client: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from sklearn_bundle.linear.rows._dask_cluster import ClusterWorkers

    X, scores = _on_workers(client, int(min(1e6, max(arguments.rows))))
    y = _on(client, scores, "hinge")
    seconds, model = _timed(lambda: _fit("hinge", X, y), arguments.repeat)
    third = int(model.history_["rounds"][-1]) // 3 + 1
    numbers, total = count(1), ClusterWorkers.total

    def kill_once(workers: Any, *args: Any, **sizes: int) -> Any:
        if next(numbers) == third:
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        return total(workers, *args, **sizes)

    ClusterWorkers.total = kill_once
    try:
        start = perf_counter()
        after = _fit("hinge", X, y)
        longer = perf_counter() - start
    finally:
        ClusterWorkers.total = total
    same = np.array_equal(after.coef_, model.coef_) and after.lower_bound_ == model.lower_bound_
    print(
        f"\nkilled: one of two workers at round {third}: {longer:.2f} s instead of {seconds:.2f}, "
        f"{'the same bits' if same else 'OTHER BITS'}, status {after.status_}"
    )
    return [{"part": "killed", "seconds": longer, "whole": seconds, "same": same}]


_RUNS = {"growth": _growth, "peers": _peers, "sets": _sets, "killed": _killed}
