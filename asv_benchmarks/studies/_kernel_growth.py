"""growth: time and memory of SwapSVC against n, on rows of one set.

C = 1, the gamma of "scale", to a certified relative gap of 1e-2 (squared hinge) or 1e-3 (hinge).
"exponent" is that of the power of n through this row and the last. "vectors" is the peak memory of
the fit beyond the data over 8 n bytes: kernel values take cache_size, 1,000 MB, at most. CPU time
in one thread; memory is that of a process of its own, which holds the data.
"""

from functools import partial
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from _linear_growth import exponent, peak_vectors
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread
from _svm import load, relative_gap, scale_gamma, status, warm_up

from sklearn_bundle import SwapSVC

_SET = "kddcup99"
_SIZES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
_SLOW = 10.0  # seconds in all, after which a fit is not repeated
_LOSSES = {"squared_hinge": 1e-2, "hinge": 1e-3}
_COLUMNS = (
    *(("loss", 13), ("n", 8), ("d", 4), ("status", 10), ("gap", 8), ("fit s", 8)),
    *(("exponent", 8), ("points", 7), ("vectors", 8)),
)


def growth(tasks: ModuleType | None, most_rows: int, repeat: int) -> list[dict[str, Any]]:
    """Print a table and the fitted exponents of both losses; returns the rows."""
    if tasks is None:
        raise MissingError("growth comes with --data FOLDER only")
    print(f"\n{_SET}, {(__doc__ or '').strip()}\n")
    data, results = load(_SET, tasks), []
    order = np.random.default_rng(0).permutation(len(data.y))
    gamma, table = scale_gamma(data.X), Table(_COLUMNS)
    sizes = [n for n in _SIZES if n <= min(most_rows, len(order))]
    for loss, tol in _LOSSES.items():
        make = partial(SwapSVC, loss=loss, gamma=gamma, tol=tol, n_jobs=1, random_state=0)
        seconds: list[float] = []
        for n in [*sizes, *({min(most_rows, len(order))} - {*sizes})]:
            rows = np.sort(order[:n])
            part = data._replace(X=np.ascontiguousarray(data.X[rows]), y=data.y[rows])
            result = {"loss": loss, "d": part.X.shape[1], **_measured(make, part, repeat)}
            seconds.append(result["seconds"])
            results.append(result)
            of_last = [results[k]["n"] for k in (-2, -1)] if len(seconds) > 1 else None
            local = "-" if of_last is None else f"{exponent(of_last, seconds[-2:]):.2f}"
            table.row(
                *(loss, f"{n}", f"{result['d']}", result["status"], f"{result['gap']:.1e}"),
                *(f"{result['seconds']:.4f}", local, f"{result['points']}"),
                f"{result['vectors']:.1f}",
            )
        own = [result["n"] for result in results if result["loss"] == loss]
        print(f"  {loss}: fitted exponent {exponent(own, seconds):.2f}", flush=True)
    return results


def _measured(make: Any, data: Any, repeat: int) -> dict[str, Any]:
    with quiet_single_thread():
        warm_up(make, data)
        taken: list[float] = []
        while len(taken) < repeat and sum(taken) <= _SLOW:
            taken_now, model = cpu_seconds(lambda: make().fit(data.X, data.y))
            taken.append(taken_now)
    return {
        **{"n": len(data.y), "seconds": median(taken), "points": len(model.support_)},
        **{"status": status(model), "gap": relative_gap(model)},
        "vectors": peak_vectors(make, data.X, data.y),
    }
