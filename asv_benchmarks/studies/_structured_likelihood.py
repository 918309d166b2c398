"""The likelihood of chains: StructuredSVM with loss="log" beside SDCACRF, which is for it alone."""

import argparse
import warnings
from functools import partial
from types import ModuleType
from typing import Any

from _chains import load
from _measure import Table, cpu_seconds
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import SDCACRF, StructuredSVM

STRENGTHS = (1000.0, 10.0, 1.0)  # n reg_lambda
TOLS = (1e-2, 1e-3)
LIMIT = 45.0  # seconds of a fit
_FEW = 50  # sequences of the fit that compiles


def run(tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]) -> None:
    """A table for each reg_lambda: letters, or the digits that ship with scikit-learn."""
    task = load("ocr" if tasks is not None else "digit_words", tasks)
    X, y, n = task.train.matrices, task.train.labels, len(task.train.labels)
    limit = arguments.max_seconds or LIMIT
    for strength in arguments.strengths or STRENGTHS:
        print(f"\n{task.name}, likelihood, reg_lambda = {strength:g}/n, n = {n:,}; {limit:g} s")
        table = Table(_columns(task.measure))
        given = {"reg_lambda": strength / n, "max_iter": 10_000, "max_time": limit, "n_jobs": 1}
        models = {
            "SDCACRF auto": SDCACRF(random_state=0, **given),
            "SDCACRF lbfgs": SDCACRF(solver="lbfgs", **given),
            "log lbfgs": StructuredSVM("chain", loss="log", **given),
            "log bundle": StructuredSVM("chain", loss="log", solver="bundle", **given),
        }
        for name, model in models.items():
            _fit(model, X[:_FEW], y[:_FEW])  # compiles
            told: dict[str, Any] = {"task": task.name, "strength": strength, "model": name}
            cells = [name]
            for tol in TOLS:
                model.set_params(tol=tol)
                seconds, _ = cpu_seconds(partial(_fit, model, X, y))
                reached, passes = model.status_ == "converged", int(model.history_["passes"][-1])
                told[f"{tol:.0e}"] = {"seconds": seconds, "passes": passes, "reached": reached}
                cells += [f"{seconds:.2f}", f"{passes}"] if reached else ["-", "-"]
            scores = task.scores(lambda part, model=model: model.predict(part.matrices))
            gap = model.dual_gap_ / model.objective_
            score = " / ".join(f"{value:.2f}" for value in scores.values())
            table.row(*cells, f"{gap:.1e}", f"{model.objective_:.6g}", score)
            results.append(told | {"gap": gap, "objective": model.objective_, "scores": scores})


def _fit(model: Any, X: list, y: list) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)


def _columns(measure: str) -> list[tuple[str, int]]:
    columns = [("likelihood of", 15)]
    for tol in TOLS:
        columns += [(f"{tol:.0e}: s", 9), ("passes", 7)]
    return [*columns, ("gap", 8), ("objective", 10), (measure, 9)]
