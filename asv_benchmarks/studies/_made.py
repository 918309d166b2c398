"""Made sets of many shapes, on which rules of solver="auto" can be checked.

Scores are linear in the columns, of variance one, plus noise; labels are their signs, targets the
scores. A set is drawn anew for each seed.

tall        20,000 x 20 standard normal entries
wide        200 x 5,000
sparse      2,000 x 20,000, CSR, 60 entries a row, the columns as frequent as words of a text
correlated  1,000 x 300, neighboring columns correlated at .6 (and at .9, .99)
scaled      3,000 x 60, columns of lengths from 1e-2 to 1e2
separable   2,000 x 100, no noise
noisy       4,000 x 50, noise of ten times the scores
imbalanced  5,000 x 100, 3 % of the labels positive; targets that are lognormal
low rank    2,000 x 200, of rank 10 but for entries of a deviation of .1
categories  5,000 rows of 8 categories of 30 kinds each, CSR, a column a kind
repeated    500 x 60, each row eight times with noise of its own
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks.common import Array

_NOISE = 0.5  # its deviation where the table above says nothing
Made = tuple[Any, Array]  # X, and scores with noise


def _scores(X: Any, rng: np.random.Generator, noise: float = _NOISE) -> Array:
    scores = X @ rng.normal(size=X.shape[1])
    return scores / scores.std() + noise * rng.normal(size=X.shape[0])


def _normal(rng: np.random.Generator, n: int, d: int, noise: float = _NOISE) -> Made:
    X = rng.normal(size=(n, d))
    return X, _scores(X, rng, noise)


def _sparse(rng: np.random.Generator) -> Made:
    n, d, per_row = 2_000, 20_000, 60
    frequency = 1.0 / np.arange(5.0, d + 5.0)
    columns = rng.choice(d, size=n * per_row, p=frequency / frequency.sum())
    entries = rng.exponential(size=n * per_row) / np.sqrt(per_row)
    X = sp.csr_matrix((entries, (np.repeat(np.arange(n), per_row), columns)), shape=(n, d))
    X.sum_duplicates()
    return X, _scores(X, rng)


def _correlated(rng: np.random.Generator, share: float) -> Made:
    X = rng.normal(size=(1_000, 300))
    for j in range(1, X.shape[1]):
        X[:, j] = share * X[:, j - 1] + np.sqrt(1.0 - share**2) * X[:, j]
    return X, _scores(X, rng)


def _scaled(rng: np.random.Generator) -> Made:
    X, scores = _normal(rng, 3_000, 60)
    return X * 10.0 ** rng.uniform(-2.0, 2.0, size=60), scores


def _imbalanced(rng: np.random.Generator) -> Made:
    X, scores = _normal(rng, 5_000, 100)
    return X, np.exp(scores) - np.quantile(np.exp(scores), 0.97)


def _low_rank(rng: np.random.Generator) -> Made:
    X = rng.normal(size=(2_000, 10)) @ rng.normal(size=(10, 200))
    X += 0.1 * rng.normal(size=X.shape)
    return X, _scores(X, rng)


def _categories(rng: np.random.Generator) -> Made:
    n, kinds, n_categories = 5_000, 30, 8
    shares = rng.dirichlet(np.full(kinds, 0.5), size=n_categories)
    drawn = [c * kinds + rng.choice(kinds, size=n, p=p) for c, p in enumerate(shares)]
    columns, starts = np.stack(drawn, axis=1).ravel(), np.arange(n + 1) * n_categories
    X = sp.csr_matrix((np.ones(len(columns)), columns, starts), shape=(n, n_categories * kinds))
    return X, _scores(X, rng)


def _repeated(rng: np.random.Generator) -> Made:
    X = np.repeat(rng.normal(size=(500, 60)), 8, axis=0)
    return X, _scores(X, rng)


SETS: dict[str, Callable[[np.random.Generator], Made]] = {
    "tall": lambda rng: _normal(rng, 20_000, 20),
    "wide": lambda rng: _normal(rng, 200, 5_000),
    "sparse": _sparse,
    "correlated": lambda rng: _correlated(rng, 0.6),
    "correlated .9": lambda rng: _correlated(rng, 0.9),
    "correlated .99": lambda rng: _correlated(rng, 0.99),
    "scaled": _scaled,
    "separable": lambda rng: _normal(rng, 2_000, 100, 0.0),
    "noisy": lambda rng: _normal(rng, 4_000, 50, 10.0),
    "imbalanced": _imbalanced,
    "low rank": _low_rank,
    "categories": _categories,
    "repeated": _repeated,
}


def made(name: str, seed: int, *, labels: bool) -> Made:
    """X, C-ordered or CSR, with labels -1.0 and 1.0 or with targets."""
    X, scores = SETS[name](np.random.default_rng(seed))
    return X, np.where(scores > 0.0, 1.0, -1.0) if labels else scores
