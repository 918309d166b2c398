"""Default searches on sets of several classes, none of which needs the data folder.

BMRMClassifierCV() against GridSearchCV over the same ten values and five folds: LinearSVC with the
hinge and LogisticRegression, each with its own default tolerances, and against one LinearSVC fit at
the chosen value. CPU seconds with n_jobs=1, in turns. "ratio" is the seconds over those of the
LinearSVC grid, "fits" over those of the one fit; "score" is the best mean accuracy.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _measure import Table
from _measures_common import Study, race
from benchmarks.common import Array
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.datasets import make_classification as make
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifierCV

_VALUES = np.geomspace(1.0, 1e-6, 10)  # those of BMRMClassifierCV by default
_COLUMNS = (
    *(("set", 14), ("n", 6), ("d", 4), ("classes", 7), ("side", 18), ("CPU s", 8)),
    *(("lambda", 7), ("score %", 8), ("ratio", 6), ("fits", 6)),
)


def _digits_5600() -> tuple[Any, Array]:
    """The shipped digits, drawn 5,600 times with noise of their own."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(X), 5600)
    return X[rows] + rng.normal(size=(5600, X.shape[1])), y[rows]


_SETS: dict[str, Callable[[], tuple[Any, Array]]] = {
    "digits_5600": _digits_5600,
    "made_2000": partial(make, 2000, 180, n_informative=40, n_classes=3, random_state=0),
    "digits": partial(load_digits, return_X_y=True),
    "breast_cancer": partial(load_breast_cancer, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "iris": partial(load_iris, return_X_y=True),
}
TASKS = SHIPPED = tuple(_SETS)


def compare(study: Study, task: str) -> None:
    """A table of the set."""
    X, y = _SETS[task]()
    X, n = scale(X), len(y)
    ours = BMRMClassifierCV(reg_lambdas=_VALUES, cv=study.folds)
    grid, cv = {"C": (1.0 / (n * _VALUES)).tolist()}, study.folds
    svc, logistic = LinearSVC(loss="hinge", random_state=0), LogisticRegression(max_iter=1000)
    searches = {
        "ours": ours,
        "LinearSVC": GridSearchCV(svc, grid, cv=cv),
        "LogisticRegression": GridSearchCV(logistic, grid, cv=cv),
    }
    chosen = ours.fit(X[:: n // 100], y[:: n // 100]).fit(X, y).reg_lambda_  # compiled before
    one = LinearSVC(loss="hinge", C=1.0 / (n * chosen), random_state=0)
    fits: dict[str, Callable[[], Any]] = {k: partial(s.fit, X, y) for k, s in searches.items()}
    timed = race(fits | {"one LinearSVC": partial(one.fit, X, y)}, study.repeat)
    seconds = {name: run.seconds for name, run in timed.items()}
    table = Table(_COLUMNS)
    for name, model in searches.items():
        own = name == "ours"
        value = model.reg_lambda_ if own else 1.0 / (n * model.best_params_["C"])
        score = float(model.cv_results_["mean_test_score"].max())
        table.row(
            *(task, f"{n}", f"{X.shape[1]}", f"{len(np.unique(y))}", name, f"{seconds[name]:.3f}"),
            *(f"{value:.0e}", f"{100.0 * score:.2f}"),
            *(f"{seconds[name] / seconds[k]:.1f}" for k in ("LinearSVC", "one LinearSVC")),
        )
    study.record("search", task, n=n, seconds=seconds, reg_lambda=chosen)
