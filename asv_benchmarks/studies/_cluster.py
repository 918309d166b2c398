"""Rows on workers: a LocalCluster of two single-threaded processes, and what it costs beside one.

J = reg_lambda/2 ||w||^2 + the mean loss with a free intercept, reg_lambda 1e-4, computed here from
the rows at the weights of either side. Ours stops at a certified relative gap of 1e-3. Seconds are
wall time, medians of runs that take turns, after a first one; rows lie on the workers, or in the
memory of one process, before the clock starts. "rounds" are those of the fit, "MB" what all
processes sent through the loopback device, "peak" the largest memory of any worker during the fit,
without what it had.

growth   made rows, 1e5 to 1e7 x 30 in float32, beside our own fit on one machine (to 1e6)
peers    the same rows at 1e6: dask-ml's LogisticRegression, Spark's LinearSVC and
         LogisticRegression in local[2], each at its cheapest setting within 1e-3 of the optimum
sets     mnist_even and news20_bigrams in 8 blocks
killed   a worker killed after a third of the time: the same bits, and the extra seconds
"""

import argparse
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
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


def _moved(fit: Callable[[], Any]) -> float:
    """MB through the loopback device during a fit: what all processes sent, heartbeats included."""
    before = _sent()
    fit()
    return (_sent() - before) / 1e6


def _sent() -> int:
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("lo:"))
    return int(line.split()[9])


def _rounds(model: Any) -> str:
    """Rounds of the fit, where the history has them."""
    known = "rounds" in model.history_.dtype.names
    return f"{int(model.history_['rounds'][-1])}" if known else "-"


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
            moved = _moved(partial(_fit, loss, X, y))
            peak = _peak_of_workers(client, partial(_fit, loss, X, y))
            J, alone, apart = _objective(loss, X, y, *_weights(model)), np.nan, np.nan
            assert abs(J - model.objective_) <= 1e-6 * J, (J, model.objective_)
            if n <= 1_000_000:
                in_memory = X.compute(), y.compute()
                alone, other = _timed(partial(_fit, loss, *in_memory), arguments.repeat)
                apart = (model.objective_ - other.objective_) / other.objective_
            rounds, passes = _rounds(model), f"{int(model.history_['passes'][-1])}"
            table.row(
                *(loss, f"{n:,}", rounds, passes, f"{moved:.2f}", f"{peak:.0f}"),
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
                moved = _moved(partial(_fit, loss, *parts, **limits))
            table.row(
                *(name, loss, _rounds(model), f"{moved:.0f}"),
                *(f"{model.relative_gap_:.1e}", model.status_, f"{seconds:.2f}", f"{alone:.2f}"),
                f"{seconds / alone:.2f}",
            )
            results.append({"part": "sets", "set": name, "loss": loss, "seconds": seconds})
    return results


def _killed(client: Any, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    X, scores = _on_workers(client, int(min(1e6, max(arguments.rows))))
    y = _on(client, scores, "hinge")
    seconds, model = _timed(lambda: _fit("hinge", X, y), arguments.repeat)
    victim = min(client.run(os.getpid).values())
    timer = threading.Timer(seconds / 3.0, os.kill, (victim, signal.SIGKILL))
    start = perf_counter()
    timer.start()
    after = _fit("hinge", X, y)
    longer = perf_counter() - start
    same = np.array_equal(after.coef_, model.coef_) and after.lower_bound_ == model.lower_bound_
    print(
        f"\nkilled: one of two workers after {seconds / 3.0:.2f} s: {longer:.2f} s instead of "
        f"{seconds:.2f}, {'the same bits' if same else 'OTHER BITS'}, status {after.status_}"
    )
    return [{"part": "killed", "seconds": longer, "whole": seconds, "same": same}]


_RUNS = {"growth": _growth, "peers": _peers, "sets": _sets, "killed": _killed}
