"""The sets of the study ``cells`` by kind of target; those of the data folder, or shipped ones.

made wide    200 x 5,000 standard normal entries, targets from 50 of the columns with noise
counts       y of the regression sets as 2 (y - min y), rounded: counts from 0 on
regression   of the texts: their labels -1 and +1
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from _measure import MissingError
from benchmarks.common import DATASETS, Array, dataset
from sklearn.datasets import load_diabetes, load_digits
from sklearn.preprocessing import StandardScaler

SETS = {
    "regression": ("cadata", "casp", "pol", "news20_bigrams", "movie_reviews", "made_wide"),
    "counts": ("cadata", "casp", "pol", "made_wide"),
    "binary": (
        *("ijcnn1", "covtype2", "a9a", "mnist", "news20_bigrams", "movie_reviews", "made_wide"),
    ),
    "multiclass": (
        *("pendigits", "usps", "letter", "shuttle", "mnist", "news20_bydate", "made_wide"),
    ),
}
SHIPPED = {
    "regression": ("diabetes", "made_wide"),
    "counts": ("diabetes", "made_wide"),
    "binary": (*DATASETS, "made_wide"),
    "multiclass": ("digits", "made_wide"),
}

_WIDE_SHAPE, _WIDE_INFORMATIVE, _WIDE_CLASSES = (200, 5_000), 50, 5


@dataclass
class Sets:
    """The sets, by kind and name; the last one stays in memory."""

    tasks: ModuleType | None  # None for data that ships with scikit-learn
    all_rows: bool = False
    _last: tuple[tuple[str, str], tuple[Any, ...]] | None = None

    SETS: ClassVar[dict[str, tuple[str, ...]]] = SETS
    SHIPPED: ClassVar[dict[str, tuple[str, ...]]] = SHIPPED

    def names(self, kind: str) -> tuple[str, ...]:
        return (self.SHIPPED if self.tasks is None else self.SETS)[kind]

    def load(self, kind: str, name: str) -> tuple[Any, ...]:
        """X (CSR or C-ordered) and y."""
        if self._last is None or self._last[0] != (kind, name):
            self._last = None  # two of them may not fit
            try:
                self._last = (kind, name), self._prepared(kind, name)
            except (ValueError, OSError) as error:
                raise MissingError(str(error)) from error
        return self._last[1]

    def _prepared(self, kind: str, name: str) -> tuple[Any, Array]:
        if name == "made_wide":
            X, y = made_wide(kind)
        elif self.tasks is None:
            X, y = _shipped(kind, name)
        else:
            X, y = self._read(kind, name)
        return X, _as_counts(y) if kind == "counts" else y

    def _read(self, kind: str, name: str) -> tuple[Any, Array]:
        if name == "movie_reviews":
            X, y = self.tasks.load("movie_reviews_counts", tfidf=True)[:2]
            return X, np.where(y > 0, 1.0, -1.0)
        if name == "news20_bigrams":
            return self.tasks.linear(name)
        if kind == "binary":
            return self.tasks.linear({"mnist": "mnist_even"}.get(name, name))
        if kind != "multiclass":
            return self.tasks.regression(name)
        if name == "mnist" and self.all_rows:
            X, y = self.tasks.load("mnist")[:2]
            return X.toarray() / 255.0, y
        known = {"mnist": "mnist_10k", "news20_bydate": "news20"}
        return self.tasks.multiclass(known.get(name, name))


def _shipped(kind: str, name: str) -> tuple[Any, Array]:
    if kind == "binary":
        return dataset(name)
    if kind == "multiclass":
        X, y = load_digits(return_X_y=True)
        return X / 16.0, y
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


def made_wide(kind: str, shape: tuple[int, int] = _WIDE_SHAPE) -> tuple[Array, Array]:
    """X and y, of which the first columns tell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    weights = rng.normal(size=(_WIDE_INFORMATIVE, _WIDE_CLASSES))
    scores = X[:, :_WIDE_INFORMATIVE] @ weights / np.sqrt(_WIDE_INFORMATIVE)
    scores += 0.5 * rng.normal(size=scores.shape)
    y = scores[:, 0]
    targets: dict[str, Callable[[], Array]] = {
        "binary": lambda: np.where(y > 0.0, 1.0, -1.0),
        "multiclass": lambda: scores.argmax(axis=1),
    }
    return X, targets.get(kind, lambda: (y - y.mean()) / y.std())()


def _as_counts(y: Array) -> Array:
    return np.round(2.0 * (y - y.min()))
