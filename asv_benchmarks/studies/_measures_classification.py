"""Test AUC and F1 of "roc_auc" and "fbeta" beside LinearSVC and LogisticRegression.

Stratified folds; all sides over the same grid of reg_lambda, C = 1/(n reg_lambda), ours with
tol=1e-3. For every measure a contestant is shown at the one value with the best mean of its test
folds, the same rule for all: that is a little too good for everybody, most for the four peers, of
which the best counts. "F1" is at the model's own threshold, "F1 tuned" at the one that is best for
F1 on the training part. "s" is a fold's whole grid, for ours along bmrm_path.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from _measure import cpu_seconds
from _measures_common import TOL, Measure, MeasureTable, Side, Study
from benchmarks.common import Array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from sklearn_bundle import bmrm_path

TASKS = ("w8a", "ijcnn1", "a9a")
SHIPPED = ("breast_cancer", "made_sparse")
VALUES = tuple(np.geomspace(1e-2, 1e-6, 5))

MEASURES = (Measure("AUC", 1.0), Measure("F1", 1.0), Measure("F1 tuned", 1.0))
_ASKED = {"roc_auc": ("AUC",), "fbeta": ("F1", "F1 tuned")}  # of which measure a loss is judged

Models = tuple[Array, Array]  # weights (d, n_values) and intercepts (n_values,)


def _ours(loss: str, X: Any, y: Array) -> Models:
    path = bmrm_path(X, y, loss=loss, reg_lambdas=VALUES, tol=TOL)
    return path.coefs, path.intercepts


def _peer(make: Callable[..., Any], X: Any, y: Array) -> Models:
    models = [make(C=1.0 / (len(y) * value)).fit(X, y) for value in VALUES]
    return (
        np.column_stack([m.coef_.ravel() for m in models]),
        np.concatenate([m.intercept_ for m in models]),
    )


def _peers() -> dict[str, Callable[[Any, Array], Models]]:
    kinds = {
        "LinearSVC": partial(LinearSVC, random_state=0, max_iter=10_000),
        "LogisticRegression": partial(LogisticRegression, max_iter=10_000),
    }
    peers = {name: partial(_peer, make) for name, make in kinds.items()}
    for name, make in kinds.items():
        peers[f"{name} balanced"] = partial(_peer, partial(make, class_weight="balanced"))
    return peers


def compare(study: Study, task: str) -> None:
    """A table of the task, a row for each contestant as it comes."""
    X, y = study.classes(task)
    print()
    table = MeasureTable(task, MEASURES, VALUES)
    sides = {}
    ours = {loss: partial(_ours, loss) for loss in _ASKED}
    for name, fit in (ours | _peers()).items():
        sides[name] = _cross_validate(name, fit, X, y, study.folds)
        table.add(sides[name])
        study.record("classification", task, values=VALUES, **asdict(sides[name]))
    peers = [side for name, side in sides.items() if name not in ours]
    for measure in MEASURES:
        for loss, judged in _ASKED.items():
            if measure.name in judged:
                table.verdict(measure, sides[loss], peers)


def _cross_validate(
    name: str, fit: Callable[[Any, Array], Models], X: Any, y: Array, n_folds: int
) -> Side:
    side = Side(name)
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y):
        parts = (X[train], y[train]), (X[test], y[test])
        seconds, (weights, intercepts) = cpu_seconds(partial(fit, *parts[0]))
        side.seconds.append(seconds)
        fitted, held_out = (np.asarray(part @ weights) + intercepts for part, _ in parts)
        thresholds = [_best_threshold(scores, y[train]) for scores in fitted.T]
        for kept, scores, labels in (
            (side.train, fitted, y[train]),
            (side.test, held_out, y[test]),
        ):
            for measure, row in _measure(scores, labels, thresholds).items():
                kept.setdefault(measure, []).append(row)
    return side


def _measure(scores: Array, y: Array, thresholds: list[float]) -> dict[str, list[float]]:
    columns = list(zip(scores.T, thresholds, strict=True))
    f1 = partial(f1_score, y > 0.0)
    return {
        "AUC": [float(roc_auc_score(y, f)) for f, _ in columns],
        "F1": [float(f1(f > 0.0)) for f, _ in columns],
        "F1 tuned": [float(f1(f > threshold)) for f, threshold in columns],
    }


def _best_threshold(scores: Array, y: Array) -> float:
    """Where F1 is largest: F1 = 2 T / (m_plus + k) with T true ones among the first k."""
    order = np.argsort(-scores)
    found = np.cumsum(y[order] > 0.0)
    f1 = 2.0 * found / (found[-1] + np.arange(1, len(y) + 1))
    ordered = scores[order]
    f1[:-1][ordered[:-1] == ordered[1:]] = 0.0  # no threshold lies between equal scores
    k = int(np.argmax(f1))
    return float(0.5 * (ordered[k] + ordered[k + 1])) if k + 1 < len(y) else float(ordered[-1] - 1)
