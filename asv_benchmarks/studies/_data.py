"""The data of all cells: sets of the folder, or those that ship with scikit-learn, and made ones.

counts       y of a regression set as 2 (y - min y), rounded
cubic        all products of up to three of the columns that vary, standardized
made wide    standard normal entries; 50 of the columns tell the target
normal rows  to train on; test rows of which y says whether they are normal
"""

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from _cell import Data
from benchmarks.common import Array, dataset
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

_MOST_ENTRIES = 1 << 23  # of cubic products: rows beyond them are left out
_MOST_NORMAL = 20_000  # rows of a novelty task
# The file of tasks.load, and which label is normal.
_NORMAL = {"shuttle": ("shuttle", 1), "kddcup99": ("kddcup99_10pct", 11), "mnist": ("mnist", 3)}
SHIPPED = ("breast_cancer", "digits_odd", "made_sparse")


class Sets:
    """The sets of a folder's ``tasks.py``; each loads when its cell runs, the last one stays."""

    def __init__(self, tasks: ModuleType | None):
        self.tasks = tasks
        self._kept = lru_cache(maxsize=1)(lambda kind, name, rows: _KINDS[kind](tasks, name, rows))

    def __call__(self, kind: str, name: str, rows: int | None = None) -> Callable[[], Data]:
        """What loads a set of a kind, or its first rows."""
        return lambda: self._kept(kind, name, rows)

    def names(self, *of_folder: str, shipped: tuple[str, ...] = SHIPPED) -> tuple[str, ...]:
        return shipped if self.tasks is None else of_folder


def _signs(positive: Any) -> Array:
    return np.where(positive, 1.0, -1.0)


def _binary(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    if name.startswith("made_wide"):
        X, scores = _made_wide(name)
        return Data(X, _signs(scores > 0.0))
    if name in SHIPPED:
        X, y = dataset(name)
    elif name == "movie_reviews":
        X, y = tasks.load("movie_reviews_counts", tfidf=True)[:2]
    elif name == "news20_bydate":  # the first class
        X, y = tasks.load("news20_bydate_counts", tfidf=True)[:2]
        y = _signs(y == 0)
    else:
        X, y = tasks.linear(name)
    return Data(X[:rows], _signs(y[:rows] > 0))


def _regression(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    if name.startswith("made_wide"):
        X, y = _made_wide(name)
    elif name in ("movie_reviews", "news20_bigrams"):
        X, y = _binary(tasks, name, rows)[:2]
    elif tasks is None:
        X, y = load_diabetes(return_X_y=True)
        X = StandardScaler().fit_transform(X)
    else:
        X, y = tasks.regression(name)
    X, y = X[:rows], y[:rows]
    return Data(X, (y - y.mean()) / y.std())


def _counts(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    X, y, *_ = _regression(tasks, name, rows)
    return Data(X, np.round(2.0 * (y - y.min())))


def _cubic(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    X, y, *_ = _regression(tasks, name, rows)
    X = X[:, X.std(axis=0) > 0.0]
    products = PolynomialFeatures(3, include_bias=False).fit(X[:1])
    most = _MOST_ENTRIES // products.n_output_features_
    X = StandardScaler().fit_transform(products.transform(X[:most]))
    return Data(np.ascontiguousarray(X), (y[:most] - y[:most].mean()) / y[:most].std())


def _classes(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    if tasks is None:
        X, y = load_digits(return_X_y=True)
        X = X / 16.0
    else:
        X, y = tasks.multiclass(name)
    return Data(X[:rows], y[:rows])


def _made_wide(name: str) -> tuple[Array, Array]:
    n, d = (500, 20_000) if name.endswith("20000") else (200, 5_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = X[:, :50] @ rng.normal(size=50) / np.sqrt(50.0)
    return X, scores + 0.5 * rng.normal(size=n)


def _parted(X: Any, y: Array, stratify: bool = False) -> Data:
    parts = train_test_split(X, y, random_state=0, stratify=y if stratify else None)
    return Data(parts[0], parts[2], parts[1], parts[3])


def _kernel(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    """A training and a test part; of sets that have none a quarter is the test part."""
    if name.startswith("made_classes"):
        return _made_classes(*map(int, name.split("_")[2:]))
    if tasks is None:
        data = _parted(*(load_digits(return_X_y=True) if name == "digits" else dataset(name)))
    elif name in ("mushrooms", "phishing"):
        data = _parted(*tasks.load(name), stratify=True)
    else:
        data = Data(*tasks.kernel(name))
    return data._replace(X=data.X[:rows], y=data.y[:rows])


def _made_classes(n_classes: int, per_class: int) -> Data:
    """Points around 20-dimensional centers, as of faces or products."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), per_class)
    X = 2.0 * rng.normal(size=(n_classes, 20))[y] + rng.normal(size=(len(y), 20))
    few = rng.permutation(len(y))[:1000]
    return Data(X, y, X[few] + rng.normal(size=(len(few), 20)), y[few])


def _targets(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    return _parted(*_regression(tasks, name, rows)[:2])


def _normal(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    if tasks is None:
        parts, normal = dataset(name), 1.0
    else:
        file, normal = _NORMAL[name]
        parts = tasks.load(file)
    X, y = (part.toarray() if hasattr(part, "toarray") else part for part in parts[:2])
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.array_split(order, 2)
    train, test = train[y[train] == normal][: rows or _MOST_NORMAL], test[:_MOST_NORMAL]
    X = X / 255.0 if name == "mnist" else StandardScaler().fit(X[train]).transform(X)
    return Data(X[train], np.ones(len(train)), X[test], _signs(y[test] == normal))


def _sequences(tasks: ModuleType | None, name: str, rows: int | None) -> Data:
    if tasks is None:
        X, y = _made_sentences()
        X_test, y_test = X[200:], y[200:]
        X, y = X[:200], y[:200]
    else:
        X, y, X_test, y_test = tasks.sequences(name)
    X, y = list(X[:rows]), [[str(label) for label in labels] for labels in y[:rows]]
    return Data(X, y, list(X_test), [[str(label) for label in labels] for labels in y_test])


def _made_sentences() -> tuple[list, list]:
    """Words that tell their tag in two of three cases, and tags that follow one another."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(300):
        tags = [int(tag) for tag in np.cumsum(rng.integers(0, 2, rng.integers(3, 12))) % 3]
        shown = [tag if rng.random() < 0.67 else rng.integers(3) for tag in tags]
        X.append([[f"w={shown[t]}{rng.integers(40)}", f"p={shown[t]}"] for t in range(len(tags))])
        y.append([f"B-{tag}" for tag in tags])
    return X, y


_KINDS: dict[str, Callable[[ModuleType | None, str, int | None], Data]] = {
    "binary": _binary,
    "regression": _regression,
    "counts": _counts,
    "cubic": _cubic,
    "classes": _classes,
    "kernel": _kernel,
    "targets": _targets,
    "normal": _normal,
    "sequences": _sequences,
}
