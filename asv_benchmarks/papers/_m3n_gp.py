"""Sequence labeling on a Gram matrix of tokens (appendix E.2), by an exact reduction to rows.

With the tokens' Gram matrix G = L L' the rows of L are features with the same products: a linear
model on them is the kernel model, ``coef = L' alpha`` up to the order of factors. scikit-learn's
Nystroem with as many components as tokens makes such rows, and those of new tokens.
"""

from typing import Any

import numpy as np
from _common import Study
from _m3n_fits import TARGETS, Task, follow
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SDCACRF, StructuredSVM


def compare_kernels(study: Study, task: Task, others: Any, n_train: int, seconds: float) -> None:
    """Accuracy of two models on other words, linear and with an RBF kernel; gaps of two solvers."""
    X, y = _words(task.X[:n_train]), task.y[:n_train]
    X_test, y_test = _words(others[0]), others[1]
    tokens = np.concatenate(X)
    gamma = 1.0 / (2.0 * np.mean(np.var(tokens, axis=0)) * tokens.shape[1])
    size = np.mean(np.sum(tokens**2, axis=1))  # so that one reg_lambda is for both kernels

    def gram(words: list[np.ndarray]) -> np.ndarray:
        return size * rbf_kernel(np.concatenate(words), tokens, gamma=gamma)

    rows = Nystroem(kernel="precomputed", n_components=len(tokens), random_state=0)
    of_train = rows.fit_transform(gram(X))
    error = np.abs(of_train @ of_train.T - gram(X)).max() / size
    made = {
        "linear": (X, X_test),
        "RBF": (
            _split(of_train, X),
            _split(rows.transform(gram(X_test)), X_test),
        ),
    }
    cells = []
    for kernel, (own, new) in made.items():
        for name, model in _models(n_train, task.strength / 10.0):
            model.fit(own, y)
            right = [np.mean(np.asarray(a) == b) for a, b in _pairs(model.predict(new), y_test)]
            words = np.mean([np.array_equal(a, b) for a, b in _pairs(model.predict(new), y_test)])
            gap = model.dual_gap_ / model.objective_
            cells.append((kernel, name, np.mean(right), words, gap))
    columns = ["kernel", "model", "labels right, %", "words right, %", "relative gap"]
    table = [[k, m, f"{100 * a:.1f}", f"{100 * w:.1f}", f"{g:.0e}"]
             for k, m, a, w, g in cells]  # fmt: skip
    title = f"{n_train} words, {len(tokens)} tokens, tested on {len(y_test)} other words"
    study.show(title, columns, table)
    kernel_task = Task("Gram matrix", task.strength / 10.0, made["RBF"][0], y)
    fits = {s: follow(kernel_task, s, seconds) for s in ("excessive-gap", "auto")}
    study.show(
        "On the Gram matrix: CPU s to certified relative gaps",
        ["solver", *(f"{eps:g}" for eps in TARGETS), "last gap"],
        [[s, *(f.cell(eps, "seconds", ".1f") for eps in TARGETS), f"{f.gaps[-1]:.1e}"]
         for s, f in fits.items()],
    )  # fmt: skip
    study.compare(
        "E.2",
        "the kernel model of sequences is trained as the linear one",
        f"rows whose products are the Gram matrix's to {error:.0e} give a linear model",
        error < 1e-8,
    )
    study.compare(
        "E.2",
        "marginals are free variables without local consistency, and the projections are those of "
        "E.1",
        "both cannot be: E.1 projects onto locally consistent marginals. The objective (32) has a "
        "log-partition function, whose dual has entropies and no projection",
        None,
    )


def _models(n: int, strength: float) -> list[tuple[str, Any]]:
    """The max-margin Markov network by both solvers, and (32): maximum likelihood."""
    settings = {"reg_lambda": strength / n, "tol": 1e-2, "max_iter": 5000, "random_state": 0}
    return [
        ("max-margin, auto", StructuredSVM("chain", **settings)),
        ("likelihood (32), SDCACRF", SDCACRF(**settings)),
    ]


def _words(X: Any) -> list[np.ndarray]:
    return [np.asarray(x, dtype=np.float64) for x in X]


def _pairs(a: Any, b: Any) -> Any:
    return list(zip(a, map(np.asarray, b), strict=True))


def _split(rows: np.ndarray, X: list[np.ndarray]) -> list[np.ndarray]:
    return np.split(rows, np.cumsum([len(x) for x in X])[:-1])
