"""Seconds of "roc_auc" and "ordinal" against n: random data, d = 10, one positive in ten, 5 grades.

"evaluate" is a risk and its cutting plane, "iteration" the fit's mean over its iterations, each
with one plane and a line search. "exponent" is that of the power of n that goes through this row
and the last; below are those fitted to all rows. "/nlogn" is nanoseconds over n log2 n.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _measure import Table
from _measures_common import Study, race
from benchmarks.common import Array

from sklearn_bundle import BMRMClassifier, BMRMRanker
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import ROCAUC, Ordinal

TASKS = SHIPPED = ("roc_auc", "ordinal")
ASKED = 1.2  # exponent, at most

_SIZES = (1_000, 10_000, 100_000, 1_000_000)
_FEATURES = 10
_STEPS = {"reg_lambda": 1e-4, "tol": 1e-12, "max_iter": 10}
_BATCH = 100_000  # rows: so many are evaluated at least in one timed run
_COLUMNS = (
    *(("loss", 10), ("n", 8), ("evaluate s", 11), ("exponent", 8), ("/nlogn", 7)),
    *(("iteration s", 12), ("exponent", 8), ("/nlogn", 7), ("iterations", 10)),
)


def compare(study: Study, task: str) -> None:
    """A row for each n, and the fitted exponents."""
    print()
    table = Table(_COLUMNS)
    sizes = _SIZES if study.tasks is not None else _SIZES[:2]
    evaluations: list[float] = []
    iterations: list[float] = []
    for n in sizes:
        evaluation, iteration, n_iter = _time(task, n, study.repeat)
        evaluations.append(evaluation)
        iterations.append(iteration)
        cells = [task, f"{n}"]
        for seconds, width in ((evaluations, 6), (iterations, 5)):
            k = len(seconds)
            local = f"{_exponent(sizes[k - 2 : k], seconds[-2:]):.2f}" if k > 1 else "-"
            cells += [f"{seconds[-1]:.{width}f}", local]
            cells.append(f"{1e9 * seconds[-1] / (n * np.log2(n)):.2f}")
        table.row(*cells, f"{n_iter}")
        study.record("growth", task, n=n, evaluate=evaluation, iteration=iteration, n_iter=n_iter)
    fitted = [_exponent(sizes, seconds) for seconds in (evaluations, iterations)]
    verdict = "met" if max(fitted) <= ASKED else "missed"
    print(
        f"  {task}: fitted exponents {fitted[0]:.3f} (evaluate) and {fitted[1]:.3f} (iteration), "
        f"asked at most {ASKED}: {verdict}; that of n log n is "
        f"{_exponent(sizes, [n * np.log(n) for n in sizes]):.3f}",
        flush=True,
    )
    study.record("growth", task, exponents=fitted)


def _exponent(sizes: Any, seconds: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _time(task: str, n: int, repeat: int) -> tuple[float, float, int]:
    """Seconds of an evaluation and of an iteration, and the iterations of the fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, _FEATURES))
    truth = X @ rng.standard_normal(_FEATURES) + 2.0 * rng.standard_normal(n)
    if task == "roc_auc":
        y = np.where(truth > np.quantile(truth, 0.9), 1.0, -1.0)
        loss, target = ROCAUC(), y
        model: Any = BMRMClassifier(task, fit_intercept=False, **_STEPS)
    else:
        y = np.digitize(truth, np.quantile(truth, (0.2, 0.4, 0.6, 0.8))).astype(float)
        loss = Ordinal()
        target = loss.prepare(y, None, n)
        model = BMRMRanker(task, **_STEPS)
    calls = max(1, _BATCH // n)
    rows, weights = rows_in_memory(X), np.full(n, 1.0 / n)
    with LinearProblem(rows, target, weights, loss, fit_intercept=False) as problem:
        evaluate = _repeatedly(problem, model.fit(X, y).coef_.ravel(), calls)
        runs = {"evaluate": evaluate, "fit": partial(model.fit, X, y)}
        timed = race(runs, repeat)
    n_iter = int(np.max(model.n_iter_))
    return timed["evaluate"].seconds / calls, timed["fit"].seconds / n_iter, n_iter


def _repeatedly(problem: LinearProblem, w: Array, calls: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(calls):
            problem.evaluate(w)

    return run
