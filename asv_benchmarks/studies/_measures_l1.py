"""The L1 norm: nonzeros, accuracy and time beside LinearSVC(penalty="l1", dual=False).

J = reg_lambda ||w||_1 + the mean loss. "squared_hinge" is half of LIBLINEAR's, so that its C is
1/(2 n reg_lambda). Ours has tol=1e-3 and max_time=60 (a star: it ended above tol), the peer the
largest tol out of 1e-1, 1e-2, ... that reaches a suboptimality of 1e-3; "none" if none does, and
the row is of the last one. The peer penalizes its intercept, which J does not, and has no hinge
with an L1 norm. The first class against the rest.
"""

from functools import partial
from typing import Any

import numpy as np
from _measure import Table
from _measures_common import TOL, Study, race
from _svm import Data, accuracy
from benchmarks.common import dataset
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier

TASKS = ("news20_bydate_counts",)
SHIPPED = ("breast_cancer",)

_REG_LAMBDAS = (1e-3, 3e-4, 1e-4)
_LOSSES = ("hinge", "squared_hinge")
_MOST_SECONDS = 60.0
_TOLERANCES = tuple(10.0**-k for k in range(1, 7))
_COLUMNS = (
    *(("task", 22), ("loss", 13), ("lambda", 7), ("J*", 11)),
    *(("ours s", 8), ("iters", 5), ("gap", 8), ("subopt", 8), ("nonzeros", 8), ("test %", 7)),
    *(("peer tol", 8), ("s", 7), ("excess", 8), ("nonzeros", 8), ("test %", 7), ("ratio", 6)),
)


def compare(study: Study, task: str) -> None:
    """A row for each loss and value of reg_lambda."""
    data = _load(study, task)
    print()
    table = Table(_COLUMNS)
    for reg_lambda in _REG_LAMBDAS:
        for loss in _LOSSES:
            _compare(study, task, table, data, loss, reg_lambda)


def _load(study: Study, task: str) -> Data:
    if study.tasks is None:
        X, y = dataset(task)
        X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    else:
        X, y, X_test, y_test = study.load(task, tfidf=True)
    first = np.min(y)
    return Data(X, np.where(y == first, 1.0, -1.0), X_test, np.where(y_test == first, 1.0, -1.0))


def _compare(
    study: Study, task: str, table: Table, data: Data, loss: str, reg_lambda: float
) -> None:
    ours = BMRMClassifier(
        loss,
        reg_lambda=reg_lambda,
        regularizer="l1",
        tol=TOL,
        max_time=_MOST_SECONDS,
        max_iter=10_000,
    )
    fits: dict[str, Any] = {"ours": partial(ours.fit, data.X, data.y)}

    def objective(model: Any) -> float:
        margins = data.y * model.decision_function(data.X)
        shortfall = np.maximum(0.0, 1.0 - margins)
        risk = shortfall if loss == "hinge" else 0.5 * shortfall**2
        return float(reg_lambda * np.abs(model.coef_).sum() + risk.mean())

    if loss == "squared_hinge":
        ours.fit(data.X, data.y)
        tol, peer = _equal_accuracy(data, reg_lambda, objective, objective(ours))
        fits["peer"] = partial(peer.fit, data.X, data.y)
    timed = race(fits, study.repeat)
    values = {name: objective(run.model) for name, run in timed.items()}
    best = min(values.values())
    own = timed["ours"].model
    mark = "" if own.status_ == "converged" else "*"
    cells = [f"{timed['ours'].seconds:.3f}", f"{own.n_iter_}"]
    cells += [f"{own.dual_gap_ / own.objective_:.1e}{mark}", f"{values['ours'] / best - 1.0:.1e}"]
    cells += _quality(own, data)
    if "peer" in timed:
        cells += [
            "none" if tol is None else f"{tol:.0e}",
            f"{timed['peer'].seconds:.3f}",
            f"{values['peer'] / best - 1:.1e}",
        ]
        cells += [*_quality(peer, data), f"{timed['peer'].seconds / timed['ours'].seconds:.2f}"]
    else:
        cells += ["-"] * 6
    table.row(task, loss, f"{reg_lambda:.0e}", f"{best:.8f}", *cells)
    study.record(
        *("l1", task),
        loss=loss,
        reg_lambda=reg_lambda,
        objectives=values,
        bound=float(own.lower_bound_),
        seconds={name: run.seconds for name, run in timed.items()},
        nonzeros={name: int(np.count_nonzero(run.model.coef_)) for name, run in timed.items()},
    )


def _equal_accuracy(
    data: Data, reg_lambda: float, objective: Any, ours: float
) -> tuple[float | None, LinearSVC]:
    """The largest tol that is within 1e-3 of the better of our fit and its own most exact one."""
    C = 1.0 / (2.0 * len(data.y) * reg_lambda)
    settings = {"penalty": "l1", "dual": False, "C": C, "max_iter": 10_000, "random_state": 0}
    peers = {tol: LinearSVC(tol=tol, **settings).fit(data.X, data.y) for tol in _TOLERANCES}
    values = {tol: objective(peer) for tol, peer in peers.items()}
    target = min(ours, *values.values()) * (1.0 + TOL)
    reaching = [tol for tol, value in values.items() if value <= target]
    if not reaching:
        return None, peers[_TOLERANCES[-1]]
    return max(reaching), peers[max(reaching)]


def _quality(model: Any, data: Data) -> list[str]:
    """Nonzero weights, and the accuracy on the test part."""
    right = accuracy(model.predict(data.X_test), data.y_test)
    return [f"{np.count_nonzero(model.coef_)}", f"{right:.2f}"]
