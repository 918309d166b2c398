"""Data, objectives and mixins that the benchmarks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.preprocessing import StandardScaler

Array = NDArray[np.float64]

# Written out here, and not taken from the package that they check.
_LOSSES: dict[str, Callable[[Array], Array]] = {
    "hinge": lambda margins: np.maximum(0.0, 1.0 - margins),
    "squared_hinge": lambda margins: 0.5 * np.maximum(0.0, 1.0 - margins) ** 2,
    "log_loss": lambda margins: np.logaddexp(0.0, -margins),
}


def _breast_cancer() -> tuple[Array, NDArray]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _digits_odd() -> tuple[Array, NDArray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y % 2


def _made_sparse() -> tuple[sp.csr_matrix, NDArray]:
    """2,000 rows, 200 columns, a tenth of the entries stored."""
    X, y = make_classification(2_000, 200, n_informative=50, n_redundant=0, random_state=0)
    X[np.random.RandomState(0).uniform(size=X.shape) > 0.1] = 0.0
    return sp.csr_matrix(X), y


_DATASETS = {
    "breast_cancer": _breast_cancer,
    "digits_odd": _digits_odd,
    "made_sparse": _made_sparse,
}
DATASETS = tuple(_DATASETS)


@lru_cache(maxsize=1)
def dataset(name: str) -> tuple[Any, Array]:
    """X (C-ordered or CSR, float64) and y in {-1.0, +1.0}; needs no download."""
    X, y = _DATASETS[name]()
    return X, np.where(y > 0, 1.0, -1.0)


def objective(
    X: Any, y: Array, w: Array, intercept: float, reg_lambda: float, loss: str = "hinge"
) -> float:
    """``reg_lambda/2 ||w||^2`` + the mean loss, in float64 and in numpy alone."""
    w = np.asarray(w, dtype=np.float64).ravel()
    margins = y * (X @ w + float(intercept))
    return float(0.5 * reg_lambda * np.dot(w, w) + np.mean(_LOSSES[loss](margins)))


def best_intercept(X: Any, y: Array, w: Array) -> float:
    """argmin over b of the mean hinge: the n_plus-th smallest of ``y_i - <w, x_i>``."""
    n_plus = int(np.sum(y > 0))
    return float(np.partition(y - X @ w, n_plus - 1)[n_plus - 1])


class Benchmark:
    """Limits of asv that hold for all benchmarks."""

    timeout = 300
    processes = 1  # one process a figure: each one starts by importing and loading from the cache


class Estimator(Benchmark, ABC):
    """Figures of a classifier; a subclass says which data and which estimator.

    ``setup`` fits once, so that no figure but those of ``first_fit`` holds any compilation.
    """

    @abstractmethod
    def make_data(self, *params: Any) -> tuple[Any, Array]:
        """X and y for the parameters."""

    @abstractmethod
    def make_estimator(self, *params: Any) -> Any:
        """An estimator that is not fitted."""

    def setup(self, *params: Any) -> None:
        self.X, self.y = self.make_data(*params)
        self.estimator = self.make_estimator(*params).fit(self.X, self.y)

    def time_fit(self, *params: Any) -> None:
        self.estimator.fit(self.X, self.y)

    def peakmem_fit(self, *params: Any) -> None:
        self.estimator.fit(self.X, self.y)

    def time_predict(self, *params: Any) -> None:
        self.estimator.predict(self.X)


class Certified(Estimator):
    """Figures of a classifier whose fit returns a certificate."""

    @abstractmethod
    def evaluate(self, *params: Any) -> float:
        """Objective at the fitted parameters, computed without the package."""

    def track_objective(self, *params: Any) -> float:
        return self.evaluate(*params)

    track_objective.unit = "objective"

    def track_dual_gap(self, *params: Any) -> float:
        """The certified gap, relative to the objective that is computed here."""
        value = self.evaluate(*params)
        return (value - self.estimator.lower_bound_) / abs(value)

    track_dual_gap.unit = "relative gap"
