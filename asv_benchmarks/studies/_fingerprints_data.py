"""Small data for ``fingerprints.py``, each made from a seed of its own, and layouts of X."""

import atexit
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sklearn_bundle.datasets import open_mapped, save_mapped

WORDS = [f"w{k}" for k in range(40)]
TAGS = ["B-NP", "I-NP", "B-VP", "O"]

_folders = count()


@cache
def task(name: str) -> tuple[Any, Any]:
    """X and y of this name; callers do not write to them."""
    return TASKS[name]()


def binary(n: int = 200, d: int = 8, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that overlap, features of unequal scales."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 2.0, d) + 0.2
    y = np.where(X @ rng.normal(size=d) / np.sqrt(d) + rng.normal(size=n) > 0.3, 1, -1)
    return X, y


def sparse(n: int, d: int, density: float, *, seed: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Two classes, sparse rows."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0.0, 1, -1)
    return sp.csr_matrix(X), y


def three(n: int = 180, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Three classes with names, the last one rare."""
    rng = np.random.default_rng(3)
    labels = rng.choice(3, size=n, p=[0.5, 0.35, 0.15])
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(3, d))[labels]
    return X, np.array(["ape", "bat", "cat"])[labels]


def regression(n: int = 200, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A line with heavy-tailed noise."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 2.0 + 0.5 * rng.standard_t(3, size=n)


def counts() -> tuple[np.ndarray, np.ndarray]:
    """Counts whose logarithmic mean is linear."""
    X = task("regression")[0]
    rng = np.random.default_rng(5)
    return X, rng.poisson(np.exp(0.3 * X[:, 0] - 0.2 * X[:, 1] + 0.5)).astype(float)


def targets() -> tuple[np.ndarray, np.ndarray]:
    """Two targets."""
    X, y = task("regression")
    return X, np.column_stack([y, 0.5 * y - X[:, 0] ** 2])


def grades() -> tuple[np.ndarray, np.ndarray]:
    """Grades 0 to 3."""
    X, y = task("regression")
    return X, np.digitize(y, np.quantile(y, [0.3, 0.6, 0.85]))


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Preferences with costs: better row, worse row, cost."""
    X, y = task("regression")
    rows = np.random.default_rng(6).permutation(len(y)).reshape(-1, 2)
    first = y[rows[:, 0]] > y[rows[:, 1]]
    rows = np.where(first[:, None], rows, rows[:, ::-1])
    return X, np.column_stack([rows, np.linspace(0.5, 1.5, len(rows))])


def experts() -> tuple[np.ndarray, np.ndarray]:
    """Four forecasts of one quantity, for weights on the simplex."""
    rng = np.random.default_rng(7)
    y = rng.normal(size=150)
    return y[:, None] + rng.normal(size=(150, 4)) * [0.2, 0.4, 1.0, 3.0], y


def novelty() -> tuple[np.ndarray, None]:
    """A cloud far from the origin with some points that are not."""
    rng = np.random.default_rng(8)
    return np.r_[3.0 + rng.normal(size=(150, 3)), 2.0 * rng.normal(size=(15, 3))], None


def rings(n: int = 240, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Classes that no line tells apart."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n, 3))
    inner = np.linalg.norm(X, axis=1) + 0.2 * rng.normal(size=n)
    return X, np.digitize(inner, np.quantile(inner, np.arange(1, n_classes) / n_classes))


def gram() -> tuple[np.ndarray, np.ndarray]:
    """A matrix of kernel values."""
    X, y = task("rings")
    return np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2)), y


def scaled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features of scales from 1e-3 to 1e7, with offsets."""
    X, y = task(name)
    scales = np.geomspace(1e-3, 1e7, X.shape[1])
    return (X + 1.0) * scales, y


def indefinite() -> tuple[np.ndarray, np.ndarray]:
    """A symmetric matrix that is no kernel."""
    X, y = task("gram")
    return X - 0.3 * np.eye(len(y)), y


def lonely() -> tuple[np.ndarray, np.ndarray]:
    """One row of a class, apart from the others."""
    X = task("few rows")[0].copy()
    X[3] += 10.0
    return X, (np.arange(len(X)) == 3).astype(int)


def repeated() -> tuple[np.ndarray, np.ndarray]:
    """Rows that stand there thrice, with both labels."""
    X, y = task("few rows")
    return np.tile(X, (3, 1)), np.r_[y, y, -y]


def labelings(n: int, rng: np.random.Generator) -> list[list[int]]:
    """Numbers of tags that tend to stay, sequences of 2 to 9 tokens."""
    found = []
    for length in rng.integers(2, 10, size=n):
        tags = [int(rng.integers(len(TAGS)))]
        while len(tags) < length:
            tags.append(tags[-1] if rng.random() < 0.5 else int(rng.integers(len(TAGS))))
        found.append(tags)
    return found


def chains(n: int = 40, d: int = 5) -> tuple[list[np.ndarray], list[list[str]]]:
    """Sequences of dense tokens."""
    rng = np.random.default_rng(10)
    centers, tags = rng.normal(size=(len(TAGS), d)), labelings(n, rng)
    X = [centers[row] + rng.normal(size=(len(row), d)) for row in tags]
    return X, [[TAGS[k] for k in row] for row in tags]


def equal_chains(n: int = 30, length: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of one length, as one array."""
    rng = np.random.default_rng(11)
    y = rng.integers(3, size=(n, length))
    return rng.normal(size=(n, length, 3)) + 1.5 * np.eye(3)[y], y


def words(n: int = 60) -> tuple[list, list[list[str]]]:
    """Sequences of tokens with attributes, as dicts."""
    rng = np.random.default_rng(12)
    X, tags = [], labelings(n, rng)
    for row in tags:
        numbers = [int(10 * k + rng.integers(10)) if rng.random() < 0.8 else 0 for k in row]
        X.append([{"word": WORDS[k], "even": k % 2 == 0, "size": 0.1 * k} for k in numbers])
    return X, [[TAGS[k] for k in row] for row in tags]


def strings() -> tuple[list, list[list[str]]]:
    """The same tokens as lists of strings."""
    X, y = task("words")
    return [[[token["word"], f"even:{token['even']}"] for token in row] for row in X], y


def sparse_chains() -> tuple[list[sp.csr_matrix], list[list[str]]]:
    """Sequences of sparse tokens."""
    X, y = task("chains")
    return [sp.csr_matrix(np.where(np.abs(x) > 1.0, x, 0.0)) for x in X], y


TASKS: dict[str, Callable[[], tuple]] = {
    "binary": binary,
    "tall": lambda: binary(9000, 6, seed=1),  # enough rows for Newton's samples of them
    "blocks": lambda: binary(6000, 100, seed=2),  # two blocks of rows
    "few rows": lambda: binary(14, 4, seed=13),
    "tied": lambda: binary(150, 100, seed=18),
    "more tied": lambda: binary(300, 200, seed=19),
    "wide": lambda: binary(40, 300, seed=14),
    "text": lambda: sparse(300, 700, 0.02, seed=15),
    "wide text": lambda: sparse(150, 3000, 0.01, seed=16),
    # So many features that dual coordinate steps go by eights, and products by columns.
    "very wide text": lambda: sparse(120, 300_000, 2e-4, seed=17),
    "three": three,
    "regression": regression,
    "counts": counts,
    "targets": targets,
    "grades": grades,
    "pairs": pairs,
    "experts": experts,
    "novelty": novelty,
    "rings": rings,
    "many rings": lambda: rings(3000),
    "three rings": lambda: rings(240, 3),
    "gram": gram,
    "indefinite": indefinite,
    "lonely": lonely,
    "repeated": repeated,
    "constant": lambda: (np.ones((60, 1)), task("few rows")[1][np.arange(60) % 14]),
    "scales": lambda: scaled("binary"),
    "far": lambda: (100.0 * task("few rows")[0] + 50.0, task("few rows")[1]),
    "three scales": lambda: scaled("three"),
    "regression scales": lambda: scaled("regression"),
    "targets scales": lambda: scaled("targets"),
    "chains": chains,
    "equal chains": equal_chains,
    "words": words,
    "strings": strings,
    "sparse chains": sparse_chains,
}


def folder() -> Path:
    """A new name in a folder that goes with the process."""
    return _temporary() / str(next(_folders))


@cache
def _temporary() -> Path:
    parent = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    atexit.register(parent.cleanup)
    return Path(parent.name)


def mapped(X: Any) -> Any:
    """X on disk, as ``open_mapped`` returns it."""
    name = folder()
    half = X.shape[0] // 2
    save_mapped(name, [(part, np.zeros(part.shape[0])) for part in (X[:half], X[half:])])
    return open_mapped(name)[0]


def long_indices(X: Any) -> sp.csr_matrix:
    """CSR with 64-bit indices."""
    X = sp.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "": lambda X: X,
    "Fortran": np.asfortranarray,
    "CSR": sp.csr_matrix,
    "CSR array": sp.csr_array,
    "CSR int64": long_indices,
    "CSC": sp.csc_matrix,
    "float32": lambda X: X.astype(np.float32),
    "float32 CSR": lambda X: sp.csr_matrix(X, dtype=np.float32),
    "mapped": mapped,
    "mapped CSR": lambda X: mapped(sp.csr_matrix(X)),
}
