"""The objectives of SVC, SVR and OneClassSVM, certified: the same parameters on both sides.

Group 1  SwapSVC(loss="hinge") against SVC, two classes
Group 2  the same one-versus-one
Group 3  many rows
Group 4  SwapSVR(loss="epsilon_insensitive") against SVR
Group 5  SwapNoveltyDetector(nu=...) against OneClassSVM
Group 6  SwapSVCCV(loss="hinge"), 7 values of C x 5 of gamma x 5 folds, against GridSearchCV(SVC)
Group 7  one-versus-one searches over 5 values of C x 5 folds; "setting" is the power of the hinge:
         2, at the relative gap 1e-2, is not SVC's objective

We stop at the certified relative gap 1e-3, the peers by their default rule. The kernel is "rbf",
with the gamma of "scale". "equal": of the test rows, the share with the same label or, of a
regression, 1 less the mean difference in standard deviations of y. "vectors": ours over theirs.
CPU seconds of fits in one thread, medians of runs in turn; a peer's LONG fit runs once.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean, median
from types import ModuleType
from typing import Any

import numpy as np
from _measure import (
    MissingError,
    Table,
    cpu_seconds,
    header,
    load_tasks,
    quiet_single_thread,
    take_turns,
    write_json,
)
from _svm import Data, load, relative_gap, scale_gamma, status, warm_up
from benchmarks.common import dataset
from scipy.sparse import issparse
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import sklearn_bundle

HELP = "kernel machines with the objectives of SVC, SVR and OneClassSVM"

_SETTINGS = {"cache_size": 1000}
_FIRST = {"casp": 20_000}  # rows that take part, where not all do
_MOST_TRAIN, _MOST_TEST = 30_000, 50_000  # rows of a novelty task
# The file of tasks.load, and which label is normal.
_NORMAL = {"shuttle": ("shuttle", 1), "kddcup99": ("kddcup99_10pct", 11), "mnist": ("mnist", 3)}
_CS = (0.1, 1.0, 10.0, 100.0)
_SEARCHED = tuple(10.0**k for k in range(-2, 5))  # values of C
_CS_OF_PAIRS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_FACTORS = tuple(3.0**k for k in range(-2, 3))  # of gamma
_ROWS_OF_SEARCH = 3000
_COLUMNS = (
    *(("task", 12), ("n", 7), ("d", 4), ("setting", 8), ("status", 10), ("gap", 8), ("sets", 5)),
    *(("ours s", 8), ("peer s", 8), ("ratio", 6), ("equal", 7), ("vectors", 8)),
)


@dataclass(frozen=True)
class Group:
    """Tasks, the settings of each, what makes both sides of one, and the mean ratio asked for."""

    title: str
    tasks: tuple[str, ...]
    shipped: str
    settings: tuple[float, ...]
    data: Callable[[str, ModuleType | None], Data]
    sides: Callable[[float, float], tuple[Callable[[], Any], Callable[[], Any]]]
    asked: float


def _classes(name: str, tasks: ModuleType | None) -> Data:
    """A task of the kernel studies; of the other sets a quarter of the rows is the test part."""
    if name not in ("phishing", "mushrooms"):
        return load(name, tasks)
    if tasks is None:
        raise MissingError("comes with --data FOLDER only")
    X, y = tasks.load(name)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    return Data(X, y, X_test, y_test)


def targets(name: str, tasks: ModuleType | None) -> Data:
    """A quarter of the rows is the test part."""
    X, y = load_diabetes(return_X_y=True) if tasks is None else tasks.regression(name)
    X, y = X[: _FIRST.get(name)], y[: _FIRST.get(name)]
    y = (y - y.mean()) / y.std()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    return Data(X, y, X_test, y_test)


def normal_rows(name: str, tasks: ModuleType | None) -> Data:
    """Normal rows to train on; test rows of which y says whether they are normal."""
    if tasks is None:
        parts, normal = dataset(name), 1.0
    else:
        file, normal = _NORMAL[name]
        parts = tasks.load(file)
    parts = [part.toarray() if issparse(part) else np.asarray(part) for part in parts]
    X, y = parts[:2]
    if name == "mnist":
        X = X[y == normal] / 255.0
        return Data(X, np.ones(len(X)), parts[2] / 255.0, parts[3] == normal)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.array_split(order, 2)
    train, test = train[y[train] == normal][:_MOST_TRAIN], test[:_MOST_TEST]
    scaler = StandardScaler().fit(X[train])
    X, X_test = (scaler.transform(X[part]) for part in (train, test))
    return Data(X, np.ones(len(train)), X_test, y[test] == normal)


def _classifiers(C: float, gamma: float) -> tuple[Callable[[], Any], Callable[[], Any]]:
    ours = partial(sklearn_bundle.SwapSVC, C, loss="hinge", **_ours(gamma))
    return ours, partial(SVC, C=C, gamma=gamma, **_SETTINGS)


def _regressors(C: float, gamma: float) -> tuple[Callable[[], Any], Callable[[], Any]]:
    ours = partial(
        sklearn_bundle.SwapSVR, C, loss="epsilon_insensitive", epsilon=0.1, **_ours(gamma)
    )
    return ours, partial(SVR, C=C, epsilon=0.1, gamma=gamma, **_SETTINGS)


def _detectors(nu: float, gamma: float) -> tuple[Callable[[], Any], Callable[[], Any]]:
    ours = partial(sklearn_bundle.SwapNoveltyDetector, nu=nu, **_ours(gamma))
    return ours, partial(OneClassSVM, nu=nu, gamma=gamma, **_SETTINGS)


def _searches(_: float, gamma: float) -> tuple[Callable[[], Any], Callable[[], Any]]:
    gammas, folds = [gamma * factor for factor in _FACTORS], StratifiedKFold(5)
    settings = {"loss": "hinge", "tol": 1e-3, "cv": folds, "n_jobs": 1, "random_state": 0}
    grid = {"C": list(_SEARCHED), "gamma": gammas}
    ours = partial(
        sklearn_bundle.SwapSVCCV, list(_SEARCHED), gammas=gammas, **settings, **_SETTINGS
    )
    return ours, partial(GridSearchCV, SVC(**_SETTINGS), grid, cv=folds)


def _searches_of_pairs(power: float, gamma: float) -> tuple[Callable[[], Any], Callable[[], Any]]:
    folds, Cs = StratifiedKFold(5), list(_CS_OF_PAIRS)
    loss, tol = ("hinge", 1e-3) if power == 1.0 else ("squared_hinge", 1e-2)
    settings = {"loss": loss, "tol": tol, "gamma": gamma, "cv": folds, "n_jobs": 1}
    ours = partial(sklearn_bundle.SwapSVCCV, Cs, random_state=0, **settings, **_SETTINGS)
    return ours, partial(GridSearchCV, SVC(gamma=gamma, **_SETTINGS), {"C": Cs}, cv=folds)


def _first_rows(name: str, tasks: ModuleType | None) -> Data:
    data = _classes(name, tasks)
    return data._replace(X=data.X[:_ROWS_OF_SEARCH], y=data.y[:_ROWS_OF_SEARCH])


def _ours(gamma: float) -> dict[str, Any]:
    return {"gamma": gamma, "tol": 1e-3, "n_jobs": 1, "random_state": 0, **_SETTINGS}


_TWO = ("usps_odd", "a5a", "mushrooms", "phishing", "covtype2", "a9a", "ijcnn1", "w8a")
GROUPS = {
    1: Group("two classes", _TWO, "breast_cancer", _CS, _classes, _classifiers, 3.0),
    2: Group(
        "one-versus-one",
        ("pendigits", "usps", "letter", "mnist_10k"),
        "digits",
        (1.0, 10.0),
        _classes,
        _classifiers,
        2.0,
    ),
    3: Group("many rows", ("kddcup99",), "breast_cancer", (1.0,), _classes, _classifiers, 3.0),
    4: Group(
        "regression, epsilon 0.1; y has the deviation 1",
        ("abalone", "cpusmall", "pol", "casp", "cadata"),
        "diabetes",
        (1.0, 10.0, 100.0),
        targets,
        _regressors,
        2.5,
    ),
    5: Group(
        "novelty, trained on the normal rows",
        ("shuttle", "kddcup99", "mnist"),
        "breast_cancer",
        (0.01, 0.1, 0.3),
        normal_rows,
        _detectors,
        2.0,
    ),
    6: Group(
        f"searches, the first {_ROWS_OF_SEARCH} rows",
        ("usps_odd", "a5a", "mushrooms", "phishing", "covtype2"),
        "breast_cancer",
        (0.0,),
        _first_rows,
        _searches,
        15.0,
    ),
    7: Group(
        f"searches, one-versus-one, the first {_ROWS_OF_SEARCH} rows",
        ("pendigits", "usps", "letter"),
        "digits",
        (2.0, 1.0),
        _first_rows,
        _searches_of_pairs,
        8.0,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", nargs="+", type=int, choices=GROUPS, help="some groups alone")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some tasks alone")


def run(arguments: argparse.Namespace) -> None:
    """Print a table of each group and its mean ratio; what cannot be had is skipped."""
    print(header(__doc__.strip()))
    tasks = load_tasks(arguments.data)
    results: list[dict[str, Any]] = []
    for number in arguments.group or GROUPS:
        group = GROUPS[number]
        print(f"\nGroup {number}: {group.title}")
        names = (group.shipped,) if tasks is None else group.tasks
        rows = _race(group, arguments.tasks or names, tasks, arguments.repeat)
        ratios = []
        for row in rows:
            ratios.append(row["ratio"])
            results.append({"group": number, **row})
            write_json(arguments.json, results)
        if ratios:
            mean = geometric_mean(ratios)
            print(f"mean ratio {mean:.2f} (asked {group.asked:g}), least {min(ratios):.2f}")


def _race(
    group: Group, names: Sequence[str], tasks: ModuleType | None, repeat: int
) -> Iterator[dict[str, Any]]:
    table = Table(_COLUMNS)
    for name in names:
        try:
            data = group.data(name, tasks)
        except MissingError as error:
            print(f"{name} skipped: {error}")
            continue
        gamma = scale_gamma(data.X)
        with quiet_single_thread():
            warm_up(group.sides(group.settings[0], gamma)[0], data)
        for setting in group.settings:
            with quiet_single_thread():
                row = _compared(group.sides(setting, gamma), data, repeat)
            row = {"task": name, **data.sizes, "setting": setting, **row}
            table.row(
                *(name, f"{row['n']}", f"{row['d']}", f"{setting:g}", row["status"]),
                *(f"{row['gap']:.1e}", f"{row['sets']}", f"{row['ours']:.3f}"),
                *(f"{row['peer']:.3f}", f"{row['ratio']:.2f}", f"{row['equal']:.4f}"),
                f"{row['vectors']:.3f}",
            )
            yield row


def _compared(
    sides: tuple[Callable[[], Any], Callable[[], Any]], data: Data, repeat: int
) -> dict[str, Any]:
    def fit(make: Callable[[], Any]) -> Any:
        return make().fit(data.X, data.y)

    runs, models = {}, []
    for k, make in enumerate(sides):
        seconds, model = cpu_seconds(partial(fit, make))
        runs[k] = partial(fit, make), seconds
        models.append(model)
    ours, peer = (median(taken) for taken in take_turns(runs, repeat).values())
    own, other = models
    a, b = (model.predict(data.X_test) for model in models)
    labels = not isinstance(own, sklearn_bundle.SwapSVR)
    equal = np.mean(a == b) if labels else 1.0 - np.mean(np.abs(a - b))
    return {
        "status": status(own).split(",")[0],
        "gap": relative_gap(own),
        "sets": int(np.sum(own.n_iter_)),
        "ours": ours,
        "peer": peer,
        "ratio": peer / ours,
        "equal": float(equal),
        "vectors": len(own.support_) / max(len(_final(other).support_), 1),
    }


def _final(model: Any) -> Any:
    """The model that a search has fitted last, or the model itself."""
    return getattr(model, "best_estimator_", model)
