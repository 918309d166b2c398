"""The data sets of table 1 of Allende et al. (2013): those that there are, and what stands in.

The folder has no w2a to w7a, a4a, a6a nor a7a. Their rows are rows of w8a and a9a, so that as many
random rows stand in for each, with the other rows for the test, as there. Larger sets are cut.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _svm import Data, load
from scipy.sparse import issparse
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

_MOST_TESTED = 10_000  # rows of a test part


class Source(NamedTuple):
    """A row of table 1, and the C that ``--search`` found."""

    group: str
    sizes: str  # the paper's m, t, K and n
    C: float
    rows: int | None = None  # of the stand-in, or to which the set is cut
    of: str | None = None  # the set that stands in

    @property
    def note(self) -> str:
        if self.of is not None:
            return f"{self.rows} random rows of {self.of}"
        return "" if self.rows is None else f"{self.rows} rows"


SETS = {
    "w1a": Source("Web", "2477 47272 2 300", 4.0),
    "w2a": Source("Web", "3470 46279 2 300", 16.0, 3470, "w8a"),
    "w3a": Source("Web", "4912 44837 2 300", 16.0, 4912, "w8a"),
    "w4a": Source("Web", "7366 42383 2 300", 16.0, 7366, "w8a"),
    "w5a": Source("Web", "9888 39861 2 300", 16.0, 9888, "w8a"),
    "w6a": Source("Web", "17188 32561 2 300", 16.0, 17188, "w8a"),
    "w7a": Source("Web", "24692 25057 2 300", 64.0, 24692, "w8a"),
    "w8a": Source("Web", "49749 14951 2 300", 16.0, 30_000),
    "a1a": Source("Adult", "1605 30956 2 123", 1.0),
    "a2a": Source("Adult", "2265 30296 2 123", 1.0),
    "a3a": Source("Adult", "3185 29376 2 123", 4.0),
    "a4a": Source("Adult", "4781 27780 2 123", 1.0, 4781, "a9a"),
    "a5a": Source("Adult", "6414 26147 2 123", 1.0),
    "a6a": Source("Adult", "11220 21341 2 123", 4.0, 11220, "a9a"),
    "a7a": Source("Adult", "16100 16461 2 123", 1.0, 16100, "a9a"),
    "letter": Source("medium", "15000 5000 26 16", 64.0),
    "pendigits": Source("medium", "7494 3498 10 16", 16.0),
    "usps": Source("medium", "7291 2007 10 256", 256.0),
    "mnist": Source("medium", "60000 10000 10 780", 16.0, 10_000),
    "shuttle": Source("large", "43500 14500 7 9", 64.0),
    "ijcnn1": Source("large", "49990 91701 2 22", 64.0, 20_000),
    "kdd": Source("large", "395216 98805 5 127", 256.0, 30_000),
}
MISSING = {
    "protein": "17766 6621 3 357",
    "usps-ext": "266079 75383 2 676",
    "kdd-full": "4898431 311029 2 127",
    "reuters": "7770 3299 2 8315",
}
SHIPPED = {
    "breast_cancer": Source("shipped", "", 16.0),
    "digits": Source("shipped", "", 16.0),
    "digits_odd": Source("shipped", "", 16.0),
    "made_sparse": Source("shipped", "", 16.0),
}
# Codes of the 22 attacks, in the order of their names; 11 is normal traffic.
_ATTACKS = {
    "denial": (0, 6, 9, 14, 18, 20),
    "probe": (5, 10, 15, 17),
    "remote": (2, 3, 4, 8, 13, 19, 21, 22),
    "root": (1, 7, 12, 16),
}


def sources(tasks: ModuleType | None) -> dict[str, Source]:
    return SHIPPED if tasks is None else SETS


def read(name: str, tasks: ModuleType | None) -> Data:
    """Training and test part, as they are used here."""
    source = sources(tasks)[name]
    if source.of is not None:
        X, y = tasks.load(source.of)[:2]
        data = _split(X, y, source.rows, seed=source.rows)
    elif name == "mnist":
        data = load("mnist_10k", tasks)
    elif name == "shuttle":
        data = _shuttle(tasks)
    elif name == "kdd":
        data = _kdd(tasks, source.rows)
    else:
        data = load(name, tasks)
    if source.rows is not None and len(data.y) > source.rows:
        kept = np.random.default_rng(0).permutation(len(data.y))[: source.rows]
        data = data._replace(X=data.X[kept], y=data.y[kept])
    tested = np.random.default_rng(0).permutation(len(data.y_test))[:_MOST_TESTED]
    return data._replace(X_test=data.X_test[tested], y_test=data.y_test[tested])


def distance_gamma(X: Any) -> float:
    """One over the mean squared distance of two points: the paper's sigma^2, inverted."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    squares = X.multiply(X).sum() if issparse(X) else np.sum(X * X)
    return float(0.5 / (squares / X.shape[0] - mean @ mean))


def size_rows(problems: dict[str, Data | None], tasks: ModuleType | None) -> Iterator[list[str]]:
    """The paper's sizes beside those here."""
    for name, data in problems.items():
        source = sources(tasks)[name]
        sizes = source.sizes.split() or ["-"] * 4
        n, d = data.X.shape
        own = n, data.X_test.shape[0], len(np.unique(data.y)), d
        yield [name, source.group, *sizes, *map(str, own), f"{source.C:g}", source.note or "-"]
    if tasks is not None:
        for name, sizes in MISSING.items():
            yield [name, "-", *sizes.split(), *["-"] * 5, "not in the folder"]


def _split(X: Any, y: Any, n: int, seed: int = 0) -> Data:
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n:]
    return Data(X[train], y[train], X[test], y[test])


def _shuttle(tasks: ModuleType) -> Data:
    X, y, X_test, y_test = tasks.load("shuttle")
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return Data((X - mean) / deviation, y, (X_test - mean) / deviation, y_test)


def _kdd(tasks: ModuleType, n: int) -> Data:
    """Normal traffic and four kinds of attack; symbols as indicators, the rest from 0 to 1."""
    X, y = tasks.load("kddcup99_10pct")
    X = X.toarray() if issparse(X) else X
    kinds = np.zeros(23, np.int64)
    for kind, codes in enumerate(_ATTACKS.values(), 1):
        kinds[list(codes)] = kind
    symbols = [1, 2, 3]  # protocol, service, flag
    numbers = np.delete(X, symbols, axis=1)
    indicators = OneHotEncoder(sparse_output=False).fit_transform(X[:, symbols])
    X = np.hstack([indicators, MinMaxScaler().fit_transform(numbers)])
    return _split(np.ascontiguousarray(X), kinds[y], n)
