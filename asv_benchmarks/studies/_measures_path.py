"""Many values of reg_lambda: bmrm_path with 20 values against BMRMClassifier at the smallest alone.

The hinge with a free intercept, both to tol=1e-3; CPU seconds with n_jobs=1.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _measure import Table
from _measures_common import TOL, Study, race
from benchmarks.common import Array, objective

from sklearn_bundle import BMRMClassifier, bmrm_path

TASKS = ("a9a", "mnist_even")
SHIPPED = ("breast_cancer", "digits_odd")
ASKED = 3.0  # seconds of a path over those of its last fit, at most

_RANGES = ((1e-1, 1e-4), (1e-1, 1e-5))
_N_VALUES = 20
_PATH_COLUMNS = (
    *(("task", 14), ("from", 7), ("to", 7), ("path s", 8), ("iters", 6), ("gap", 8)),
    *(("last alone s", 12), ("iters", 6), ("gap", 8), ("ratio", 6), ("asked", 5), ("", 6)),
)


def compare(study: Study, task: str) -> None:
    """A table."""
    X, y = study.classes(task)
    print()
    table = Table(_PATH_COLUMNS)
    for largest, smallest in _RANGES:
        _compare_path(study, task, table, X, y, largest, smallest)


def _compare_path(
    study: Study, task: str, table: Table, X: Any, y: Array, largest: float, smallest: float
) -> None:
    values = np.geomspace(largest, smallest, _N_VALUES)
    fits: dict[str, Callable[[], Any]] = {
        "path": partial(bmrm_path, X, y, reg_lambdas=values, tol=TOL),
        "last": partial(BMRMClassifier(reg_lambda=smallest, tol=TOL).fit, X, y),
    }
    timed = race(fits, study.repeat)
    _, coefs, intercepts, gaps, n_iters = timed["path"].model
    last = timed["last"].model
    objectives = [
        objective(X, y, w, b, value)
        for w, b, value in zip(coefs.T, intercepts, values, strict=True)
    ]
    seconds = {name: timed[name].seconds for name in fits}
    ratio, gap = seconds["path"] / seconds["last"], float(np.max(gaps / objectives))
    table.row(
        *(task, f"{largest:.0e}", f"{smallest:.0e}"),
        *(f"{seconds['path']:.3f}", f"{n_iters.sum()}", f"{gap:.1e}"),
        *(f"{seconds['last']:.3f}", f"{last.n_iter_}", f"{last.dual_gap_ / last.objective_:.1e}"),
        *(f"{ratio:.2f}", f"{ASKED:g}", "met" if ratio <= ASKED else "missed"),
    )
    study.record(
        *("path", task),
        values=values.tolist(),
        seconds=seconds,
        n_iters=n_iters.tolist(),
        gap=gap,
        n_iter_last=int(last.n_iter_),
    )
