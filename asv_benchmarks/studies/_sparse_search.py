"""Searches over a path with 5 folds.

100 values of the squared error, with a free intercept, against LassoCV; 20 of the logistic loss,
without one, against LogisticRegressionCV with LIBLINEAR. All fit the same folds, and the chosen
value to all rows. Ours has ``tol=1e-3``; the peer the largest out of 1, 1e-1, ... at which its path
on the rows of the first fold is within 1e-3 of the optimum everywhere.
"""

import argparse
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np
from _cells_limit import LimitError, run_limited
from _linear_timing import time_rungs
from _measure import Rung, Table, cpu_seconds, quiet_single_thread
from _parts import Session
from _sparse_data import SparseSets, by_columns
from _sparse_path import MOST_ITERATIONS, Paths, each_set, print_mean, problem_of
from _sparse_peers import SPARSE
from benchmarks.common import Array
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.model_selection import KFold

from sklearn_bundle import BMRMClassifierCV, BMRMRegressorCV

_N_VALUES = {"squared_error": 100, "log_loss": 20}
_FOLDS = KFold(5, shuffle=True, random_state=0)
_TOL = 1e-3
_ENOUGH = 20.0  # seconds of all runs, after which one is not repeated
_ASKED = 3.0
_COLUMNS = (
    *(("set", 14), ("n", 6), ("d", 8), ("values", 6), ("ours s", 8), ("lambda", 8), ("score", 8)),
    *(("peer", 20), ("at", 6), ("s", 8), ("lambda", 8), ("score", 8), ("ratio", 7)),
)
# scikit-learn 1.8 replaced the first of them by the second.
_SPARSE = {"l1_ratios": (1.0,), "use_legacy_attributes": False} if "l1_ratio" in SPARSE else SPARSE


def run(session: Session, sets: SparseSets, arguments: argparse.Namespace) -> None:
    """A table; scores are R^2 or the accuracy, the mean over the folds."""
    print(f"\nsearch: {__doc__.strip()}")
    table, ratios = Table(_COLUMNS), {}
    for task, loss, X, y in each_set(sets, arguments, table):
        with quiet_single_thread():
            result = _compare(X, y, loss, arguments)
        _add(table, task, X, result)
        session.record("search", task=task, loss=loss, **result)
        ratios[f"{task} {loss}"] = result["ratio"]
    print_mean("search", ratios, _ASKED)


def _compare(X: Any, y: Array, loss: str, arguments: argparse.Namespace) -> dict[str, Any]:
    rows = next(_FOLDS.split(X))[0]
    fold = problem_of(X[rows], y[rows], loss, _N_VALUES[loss], arguments)
    best = fold.objectives(fold.ours(0.1 * _TOL)[0])
    squared = loss == "squared_error"
    path = fold.peers()["lasso_path"] if squared else fold.liblinear
    rung = fold.find_rung(path, best, _TOL)
    ours = _ours(fold)
    own = Rung("ours", 0.0, cpu_seconds(partial(ours, X, y))[0])
    models = {"ours": ours(X, y)}
    peer: Callable[[], Any] = partial(_peer(fold, rung.setting), by_columns(X) if squared else X, y)
    timed = [(own, partial(ours, X, y))]
    reached = rung.objective < inf
    if reached:
        try:
            rung.first_seconds = run_limited(lambda: cpu_seconds(peer)[0], fold.limit)
        except LimitError:
            reached, rung.first_seconds = False, fold.limit
    if reached:
        timed.append((rung, peer))
        models["peer"] = peer()
    time_rungs(timed, arguments.repeat, cpu_seconds, _ENOUGH)
    seconds = rung.seconds or rung.first_seconds
    return {
        "values": len(fold.values),
        "ours": own.seconds,
        "reg_lambda": float(models["ours"].reg_lambda_),
        "score": float(np.max(models["ours"].mean_test_scores_)),
        "peer": "LassoCV" if squared else "LogisticRegressionCV",
        "at": rung.setting,
        "seconds": seconds,
        "reached": reached,
        "ratio": seconds / own.seconds,
        **_chosen(models.get("peer"), fold),
    }


def _ours(fold: Paths) -> Callable[[Any, Array], Any]:
    settings = {"reg_lambdas": fold.values, "cv": _FOLDS, "tol": _TOL, "n_jobs": 1}
    settings |= {"regularizer": "l1", "max_iter": MOST_ITERATIONS, "solver": fold.solver}
    settings["max_time"] = fold.limit / len(fold.values)
    if fold.loss == "squared_error":
        return lambda X, y: BMRMRegressorCV("squared_error", **settings).fit(X, y)
    return lambda X, y: BMRMClassifierCV(fold.loss, fit_intercept=False, **settings).fit(X, y)


def _peer(fold: Paths, tol: float) -> Callable[[Any, Array], Any]:
    settings = {"cv": _FOLDS, "tol": tol, "max_iter": MOST_ITERATIONS}
    if fold.loss == "squared_error":
        return lambda X, y: LassoCV(alphas=fold.values, **settings).fit(X, y)
    settings |= {"solver": "liblinear", "fit_intercept": False, "scoring": "accuracy", **_SPARSE}
    Cs = 1.0 / (len(fold.y) * fold.values)
    return lambda X, y: LogisticRegressionCV(Cs=Cs, **settings).fit(X, y)


def _chosen(model: Any, fold: Paths) -> dict[str, float]:
    """The peer's value of reg_lambda, and its score."""
    if model is None:
        return {}
    if fold.loss == "squared_error":
        error = float(np.min(np.mean(model.mse_path_, axis=-1)))
        score = 1.0 - error / float(np.var(fold.y))
        return {"peer_reg_lambda": float(model.alpha_), "peer_score": score}
    C = float(np.ravel(model.C_)[0])
    scores = model.scores_[1.0] if isinstance(model.scores_, dict) else model.scores_
    mean = np.mean(np.reshape(scores, (_FOLDS.get_n_splits(), -1)), axis=0)
    return {"peer_reg_lambda": 1.0 / (len(fold.y) * C), "peer_score": float(np.max(mean))}


def _add(table: Table, task: str, X: Any, result: dict[str, Any]) -> None:
    there = result["reached"]
    peer = ("-", "-")
    if there:
        peer = f"{result['peer_reg_lambda']:.1e}", f"{result['peer_score']:.4f}"
    table.row(
        *(task, f"{X.shape[0]}", f"{X.shape[1]}", f"{result['values']}"),
        *(f"{result['ours']:.3f}", f"{result['reg_lambda']:.1e}", f"{result['score']:.4f}"),
        *(result["peer"], f"{result['at']:.0e}" if there else "none"),
        *(f"{result['seconds']:.3f}", *peer, f"{'' if there else '>'}{result['ratio']:.2f}"),
    )
