"""Scene: six labels of an image at a time, each alone, along a tree, or in all pairs.

1,211 images of 294 features to learn from, 1,196 to test on, standardized. LinearSVC is fitted per
label with the same penalty, C = 1/(n reg_lambda); its intercept has one too. Fits end at a gap of
1e-3, certified. Strengths by five-fold cross-validation of the Hamming loss on the training part.
"""

import argparse
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from _measure import MissingError, Table, cpu_seconds, write_json
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, f1_score, hamming_loss
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Multilabel

EDGES = {"independent": None, "tree": "tree", "full": "full"}
STRENGTHS = (1.0, 0.1, 0.01)
EPS = 1e-3  # the certified gap


def run(tasks: ModuleType | None, arguments: argparse.Namespace, results: list[dict]) -> None:
    """Print a table of models."""
    if tasks is None:
        raise MissingError("scene is in the folder that --data names")
    X, Y, X_test, Y_test = (np.array(part, float) for part in tasks.structured("scene"))
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    Y, Y_test = Y.astype(int), Y_test.astype(int)
    print(f"\nscene, n = {len(X):,}, {X.shape[1]} features, {Y.shape[1]} labels")
    columns = [("model", 22), ("lambda", 7), ("CPU s", 7), ("gap", 8), ("Hamming", 8)]
    table = Table([*columns, ("subset", 7), ("micro F1", 8), ("labels", 7)])
    for name, make in _models().items():
        strengths = arguments.strengths or STRENGTHS
        folds = [hamming_loss(Y, _held_out(make(s, len(X)), X, Y)) for s in strengths]
        strength = strengths[int(np.argmin(folds))]
        model = make(strength, len(X))
        seconds, _ = cpu_seconds(partial(model.fit, X, Y))
        result = {"model": name, "reg_lambda": strength, "seconds": seconds, "folds": folds}
        if isinstance(model, StructuredSVM):
            result["gap"] = model.dual_gap_ / model.objective_
        result |= _scores(Y_test, model.predict(X_test))
        results.append(result)
        table.row(*_cells(result))
        write_json(arguments.json, results)


def _models() -> dict[str, Any]:
    """What makes an estimator of a strength and a number of images."""
    made: dict[str, Any] = {"LinearSVC per label": _one_versus_rest}
    for name, edges in EDGES.items():
        made[name] = partial(_structured, edges, "hinge")
    return made | {f"{name}, log": partial(_structured, EDGES[name], "log") for name in EDGES}


def _one_versus_rest(reg_lambda: float, n: int) -> BaseEstimator:
    machine = LinearSVC(loss="hinge", C=1.0 / (n * reg_lambda), max_iter=100000)
    return OneVsRestClassifier(machine)


def _structured(edges: Any, loss: str, reg_lambda: float, n: int) -> BaseEstimator:
    return StructuredSVM(
        Multilabel(edges), loss=loss, reg_lambda=reg_lambda, tol=EPS, random_state=0
    )


def _held_out(model: BaseEstimator, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return cross_val_predict(model, X, Y, cv=KFold(5, shuffle=True, random_state=0))


def _scores(Y: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    return {
        "hamming": hamming_loss(Y, found),
        "subset": accuracy_score(Y, found),
        "f1": f1_score(Y, found, average="micro"),
        "mean_size": float(found.sum(axis=1).mean()),
    }


def _cells(result: dict[str, Any]) -> list[str]:
    gap = f"{result['gap']:.1e}" if "gap" in result else "-"
    return [
        *(result["model"], f"{result['reg_lambda']:g}", f"{result['seconds']:.1f}", gap),
        *(f"{result['hamming']:.4f}", f"{result['subset']:.4f}", f"{result['f1']:.4f}"),
        f"{result['mean_size']:.2f}",
    ]
