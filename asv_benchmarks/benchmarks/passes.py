"""Passes over the data: scores and gradients."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import Benchmark
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory

_ROWS = 20_000


def _dense(d: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((_ROWS, d))


def _sparse(d: int, entries: int) -> sp.csr_matrix:
    """Rows of as many entries on average, between 0 and twice as many."""
    rng = np.random.default_rng(0)
    ends = np.concatenate([[0], np.cumsum(rng.integers(2 * entries + 1, size=_ROWS))])
    columns = rng.integers(d, size=ends[-1])
    return sp.csr_matrix((rng.standard_normal(ends[-1]), columns, ends), shape=(_ROWS, d))


DATA = {
    "dense 22": lambda: _dense(22),
    "dense 54": lambda: _dense(54),
    "dense 784": lambda: _dense(784),
    "csr 12 of 300": lambda: _sparse(300, 12),
    "csr 150 of 784": lambda: _sparse(784, 150),
    "csr 435 of 1.7 million": lambda: _sparse(1_700_000, 435),
}


class PassesBenchmark(Benchmark):
    """A product with X and one with X', one thread; also with most weights zero, as of a hinge."""

    param_names = ("data", "dtype")
    params = (tuple(DATA), ("float64", "float32"))

    def setup(self, data: str, dtype: str) -> None:
        X: Any = DATA[data]().astype(dtype)
        rng = np.random.default_rng(0)
        self.rows = rows_in_memory(X)
        self.w, self.g = rng.standard_normal(X.shape[1]), rng.standard_normal(_ROWS)
        self.few = self.g * (rng.random(_ROWS) < 0.1)
        self.rows.scores(self.w)  # compiles
        self.rows.gradient(self.g)

    def time_scores(self, data: str, dtype: str) -> None:
        self.rows.scores(self.w)

    def time_gradient(self, data: str, dtype: str) -> None:
        self.rows.gradient(self.g)

    def time_gradient_of_few_rows(self, data: str, dtype: str) -> None:
        self.rows.gradient(self.few)

    def track_bytes(self, data: str, dtype: str) -> int:
        return self.rows.nbytes

    track_bytes.unit = "bytes"
