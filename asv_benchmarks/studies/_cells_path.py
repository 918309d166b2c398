"""squared_error: BMRMRegressorCV against RidgeCV(cv=5) at equal work.

20 values of reg_lambda from 1 to 1e-6, the same 5 folds without shuffling, and a fit of the chosen
value to all rows. RidgeCV's alpha is that of a fold, n reg_lambda of its training rows. Scores are
R^2, the mean over the folds. Leave-one-out, RidgeCV without folds, is less work, and shown beside.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _cells_data import Sets
from _linear_timing import quiet_threads
from _measure import MissingError, Table
from _measures_common import TOL, race
from _parts import Session
from scipy.sparse import issparse
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from sklearn_bundle import BMRMRegressorCV

_VALUES = np.geomspace(1.0, 1e-6, 20)
_FOLDS = 5
_ASKED = 1.0
_COLUMNS = (
    *(("set", 14), ("n", 6), ("d", 8), ("ours s", 8), ("lambda", 7), ("R^2", 8)),
    *(("RidgeCV s", 9), ("lambda", 7), ("R^2", 8), ("ratio", 7), ("asked", 5)),
    ("leave one out s", 15),
)


def run(session: Session, sets: Sets, arguments: argparse.Namespace) -> None:
    """A table, a row a set."""
    print(f"\npath: {__doc__.strip()}")
    table = Table(_COLUMNS)
    for task in sets.names("regression"):
        if arguments.sets is not None and task not in arguments.sets:
            continue
        try:
            X, y = sets.load("regression", task)
        except MissingError as error:
            table.skip(task, str(error))
            continue
        with quiet_threads(1):
            _compare(session, table, task, X, y)


def _compare(session: Session, table: Table, task: str, X: Any, y: Any) -> None:
    n_training, folds = len(y) * (1.0 - 1.0 / _FOLDS), KFold(_FOLDS)
    alphas = n_training * _VALUES
    ours = {"reg_lambdas": _VALUES, "cv": folds, "tol": TOL, "n_jobs": 1}
    fits: dict[str, Callable[[], Any]] = {
        "ours": partial(BMRMRegressorCV(**ours).fit, X, y),
        "RidgeCV": partial(RidgeCV(alphas, cv=folds, scoring="r2").fit, X, y),
    }
    if not issparse(X):  # it makes them dense
        fits["leave one out"] = partial(RidgeCV(alphas).fit, X, y)
    timed = race(fits, session.repeat)
    seconds = {name: value.seconds for name, value in timed.items()}
    own, peer = timed["ours"].model, timed["RidgeCV"].model
    ratio = seconds["RidgeCV"] / seconds["ours"]
    alone = seconds.get("leave one out")
    table.row(
        *(task, f"{X.shape[0]}", f"{X.shape[1]}"),
        *(f"{seconds['ours']:.4f}", f"{own.reg_lambda_:.0e}"),
        f"{np.max(own.mean_test_scores_):.5f}",
        *(f"{seconds['RidgeCV']:.4f}", f"{peer.alpha_ / n_training:.0e}"),
        *(f"{peer.best_score_:.5f}", f"{ratio:.2f}", f"{_ASKED:g}"),
        "-" if alone is None else f"{alone:.4f}",
    )
    session.record(
        "path",
        task=task,
        seconds=seconds,
        reg_lambda=own.reg_lambda_,
        peer_reg_lambda=peer.alpha_ / n_training,
        scores=[float(np.max(own.mean_test_scores_)), float(peer.best_score_)],
    )
