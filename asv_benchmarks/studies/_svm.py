"""What the studies of kernel support vector machines share: data, gamma, certificates, warm-up."""

from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _measure import MissingError
from benchmarks.common import DATASETS, Array, dataset
from scipy.sparse import issparse
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SHIPPED = ("digits", *DATASETS)
_FEW_ROWS = 5_000


class Data(NamedTuple):
    """A training and a test part; X is C-ordered or CSR."""

    X: Any
    y: Array
    X_test: Any
    y_test: Array

    @property
    def sizes(self) -> dict[str, int]:
        return {"n": self.X.shape[0], "d": self.X.shape[1], "n_test": self.X_test.shape[0]}


def load(name: str, tasks: ModuleType | None) -> Data:
    """A task of the folder or, without tasks, a data set of SHIPPED."""
    if tasks is None and name not in SHIPPED:
        raise MissingError("comes with --data FOLDER only")
    try:
        return _shipped(name) if tasks is None else Data(*tasks.kernel(name))
    except (ValueError, OSError) as error:
        raise MissingError(str(error)) from error


def _shipped(name: str) -> Data:
    """A quarter of the rows is the test part."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X / 16.0
    else:
        X, y = dataset(name)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    return Data(X, y, X_test, y_test)


def scale_gamma(X: Any) -> float:
    """The number that SVC takes for gamma="scale": 1 / (d times the variance of all entries)."""
    variance = X.multiply(X).mean() - X.mean() ** 2 if issparse(X) else X.var()
    return float(1.0 / (X.shape[1] * variance))


def warm_up(make: Callable[[], Any], data: Data) -> None:
    """Fit and predict on few rows of the same dtype and layout, so that all is compiled."""
    few = [np.arange(0, len(y), 1 + len(y) // _FEW_ROWS) for y in (data.y, data.y_test)]
    make().fit(data.X[few[0]], data.y[few[0]]).predict(data.X_test[few[1]])


def relative_gap(model: Any) -> float:
    """The certified one; of several two-class problems the largest."""
    return float(np.max(np.divide(model.dual_gap_, np.abs(model.objective_))))


def status(model: Any) -> str:
    """Why the fit ended; of several two-class problems how many ended so, the first one first."""
    if isinstance(model.status_, str):
        return str(model.status_)
    counts = Counter(map(str, model.status_))
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def accuracy(predicted: Array, y: Array) -> float:
    """In percent."""
    return 100.0 * float(np.mean(predicted == y))
