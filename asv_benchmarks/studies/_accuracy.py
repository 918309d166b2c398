"""What losses are worth on data that the fit has not seen.

"losses": default parameters, at most 3,000 rows to train on, LogisticRegression and LinearSVC with
theirs. "measures": the loss of a measure beside LogisticRegression, for two classes the better of
balanced and plain, both at the best of six reg_lambda by five folds, whose mean is shown.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from _cell import Cell, Data, Peer, Sides
from _data import Sets
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, BMRMRanker

_MOST_ROWS = 3_000
_SHIPPED = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
_TWO = ("a9a", "w8a", "ijcnn1", "covtype2", "movie_reviews")
_MANY = ("pendigits", "letter", "usps", "news20")
_VALUES = np.geomspace(1e-1, 1e-6, 6)


def _split(load: Callable[[], Any]) -> Data:
    X, y = load()[:2]
    X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
    X, y = X[:_MOST_ROWS], y[:_MOST_ROWS]
    if isinstance(X, np.ndarray):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return Data(X, y, X_test, y_test)


def _plain(loss: str, data: Data) -> Sides:
    def ours(**changes: Any) -> Any:
        return BMRMClassifier(loss, **changes).fit(data.X, data.y)

    peer = LinearSVC() if "hinge" in loss else LogisticRegression(max_iter=10_000)
    return Sides(ours, {type(peer).__name__: Peer(lambda _: peer)})


def _scores(ours: Any, peer: Any, data: Data) -> dict[str, float]:
    found = (100.0 * float(model.score(data.X_test, data.y_test)) for model in (ours, peer))
    return dict(zip(("score", "peer_score"), found, strict=True))


def _grade_error(model: Any, X: Any, y: Any) -> float:
    predict = getattr(model, "predict_grades", model.predict)
    return -float(np.mean(np.abs(predict(X) - y)))


def _measured(estimator: Any, scoring: Any, folds: Any, balanced: bool, data: Data) -> Sides:
    def ours(**changes: Any) -> Any:
        grid = {"reg_lambda": list(_VALUES)}
        return GridSearchCV(estimator, grid, scoring=scoring, cv=folds).fit(data.X, data.y)

    n = len(data.y) * 4 / 5
    machine = LogisticRegression(max_iter=10_000)
    grid = {"C": list(1.0 / (n * _VALUES)), "class_weight": [None, "balanced"][: 1 + balanced]}
    peer = Peer(lambda _: GridSearchCV(machine, grid, scoring=scoring, cv=folds))
    return Sides(ours, {"LogisticRegression": peer})


def _best(ours: Any, peer: Any, data: Data) -> dict[str, float]:
    return {"score": float(ours.best_score_), "peer_score": float(peer.best_score_)}


def accuracy(sets: Sets) -> Iterable[Cell]:
    """Losses as they come, and losses of measures."""
    loads: dict[str, Callable[[], Any]] = {
        name: partial(load, return_X_y=True) for name, load in _SHIPPED.items()
    }
    if sets.tasks is not None:
        loads |= {name: sets("binary", name) for name in _TWO}
        loads |= {name: sets("classes", name) for name in _MANY}
    for name, load in loads.items():
        losses = ["hinge", "squared_hinge", "log_loss"]
        if name not in (*_TWO, "breast_cancer"):
            losses += ["softmax", "multiclass_hinge"]
        for loss in losses:
            cell = (loss, name, 0.0, partial(_split, load), partial(_plain, loss))
            yield Cell(*cell, figures=_scores)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name in sets.names("w8a", "ijcnn1", "a9a", shipped=("breast_cancer",)):
        for loss, scoring in (("roc_auc", "roc_auc"), ("fbeta", "f1")):
            made = partial(_measured, BMRMClassifier(loss), scoring, folds, True)
            yield Cell(loss, name, 0.0, sets("binary", name, 10_000), made, figures=_best)
    folds = KFold(5, shuffle=True, random_state=0)
    if sets.tasks is not None:
        for name in ("abalone", "ERA"):
            made = partial(_measured, BMRMRanker(), _grade_error, folds, False)
            yield Cell("ordinal", name, 0.0, partial(_grades, sets, name), made, figures=_best)


def _grades(sets: Sets, name: str) -> Data:
    X, y = sets.tasks.load(name)[:2]
    return Data(StandardScaler().fit_transform(np.asarray(X, dtype=float)), y)
