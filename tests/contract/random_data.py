"""Random rows, targets and weights of all sorts, for ``random_problems``."""

import numpy as np
import scipy.sparse as sp

CHANGES = [0.4, 0.12, 0.12, 0.06, 0.15, 0.15]  # how often each kind of column or scale is drawn


def features(rng, n, d, moderate=False):
    """Rows of all sorts; ``moderate`` ones are of a moderate size."""
    X = rng.normal(size=(n, d))
    if rng.random() < 0.3:
        X *= rng.random((n, d)) < 0.3
    if rng.random() < 0.15:
        X = np.round(X)
    if rng.random() < 0.2:
        X = X[rng.integers(0, max(2, n // 2), n)]
    if d > 1 and rng.random() < 0.2:
        X[:, 0] = X[:, -1]
    if moderate:
        return X
    if rng.random() < 0.4:
        X *= 10.0 ** rng.uniform(-6, 8)
    column = rng.integers(d)
    kind = rng.choice(["none", "constant", "huge", "zero", "offset", "spread"], p=CHANGES)
    if kind == "constant":
        X[:, column] = 10.0 ** rng.uniform(-2, 6)
    elif kind == "huge":
        X[:, column] *= 10.0 ** rng.uniform(2, 8)
    elif kind == "zero":
        X[:, column] = 0.0
    elif kind == "offset":
        X += np.abs(X).max() * 10.0 ** rng.uniform(0, 4)
    elif kind == "spread":
        X *= 10.0 ** rng.uniform(-3, 3, d)
    return X


def layout(rng, X):
    """In float32 or float64, dense or CSR; a copy in float64 of what is left after rounding."""
    X = X.astype(rng.choice([np.float32, np.float64], p=[0.3, 0.7]))
    return sp.csr_matrix(X) if rng.random() < 0.25 else X


def scores(rng, X):
    """Of size 1, depending on X."""
    f = X @ (rng.normal(size=X.shape[1]) / (np.abs(X).max(axis=0) + 1e-300))
    return (f - f.mean()) / (f.std() or 1.0) + rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=len(X))


def labels(rng, f, n_classes):
    """Quantiles of the scores, or one of a few samples against the rest."""
    if n_classes == 2 and rng.random() < 0.25:
        return (f >= np.sort(f)[-min(2, len(f) - 1)]).astype(int)
    n_classes = min(n_classes, len(f))
    y = np.digitize(f, np.quantile(f, np.arange(1, n_classes) / n_classes))
    y[rng.permutation(len(y))[:n_classes]] = np.arange(n_classes)
    return y


def sample_weights(rng, n):
    kind = rng.choice(["none", "counts", "zeros", "extreme"], p=[0.5, 0.2, 0.1, 0.2])
    if kind == "none":
        return None
    if kind == "counts":
        return rng.integers(1, 5, n).astype(float)
    if kind == "zeros":
        return rng.integers(0, 3, n) + np.arange(n) % 2.0
    return 10.0 ** rng.uniform(-6, 6, n)


def sizes(rng, most, features=20):
    """(n, d): often few rows, or few columns."""
    return int(np.exp(rng.uniform(np.log(6), np.log(most)))), int(rng.integers(1, features + 1))
