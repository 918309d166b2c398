"""Appendix E of Saha, Zhang and Vishwanathan (2010): Markov networks by excessive gap.

The paper has no experiments on structured data. Here its solver, with the entropy as prox-function,
whose projections are marginals, is beside the others of StructuredSVM that minimize the same
objective; and sequences are labeled on a Gram matrix of tokens, which is a linear model on rows
with the same products.

python asv_benchmarks/papers/m3n.py --data FOLDER --figure m3n.png
"""

from time import process_time
from typing import Any

import numpy as np
from _common import Panel, Study, counted, curve_of, run
from benchmarks.chains import chains
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_bundle import SDCACRF, StructuredSVM

GAPS = (1e-1, 1e-2, 1e-3)
SOLVERS = ("excessive-gap", "rsd", "bundle", "bcfw", "auto")
STRENGTHS = (100.0, 10.0)  # n reg_lambda
_SEQUENCES, _SECONDS = 200, 60.0  # of the clock


def _fit(X: Any, y: Any, solver: str, strength: float) -> tuple[Any, float]:
    settings = {"reg_lambda": strength / len(y), "solver": solver, "random_state": 0, "n_jobs": 1}
    settings |= {"tol": GAPS[-1], "max_iter": 100_000}
    StructuredSVM("chain", **settings | {"max_time": 0.01}).fit(X[:20], y[:20])  # compiles
    start = process_time()
    model = StructuredSVM("chain", max_time=_SECONDS, **settings).fit(X, y)
    return model, process_time() - start


def reproduce(study: Study) -> None:
    if study.tasks is None:
        name, (X, y) = "digits in words", chains("digit_words")
    else:
        name, (X, y) = "OCR, fold 0", study.tasks.sequences("ocr")[2:]
    others, (X, y) = (X[_SEQUENCES:], y[_SEQUENCES:]), (X[:_SEQUENCES], y[:_SEQUENCES])
    print(f"\n{name}: {len(y)} sequences, {sum(map(len, y))} tokens")
    panels = []
    for strength in STRENGTHS:
        panels.append(_solvers(study, name, X, y, strength))
    _kernels(study, X[:100], y[:100], others)
    study.draw(panels, columns=2)


def _solvers(study: Study, name: str, X: Any, y: Any, strength: float) -> Panel:
    title, rows, calls, lines, facts = f"{name}, {strength:g}/n", [], {}, {}, ""
    for solver in SOLVERS:
        model, seconds = _fit(X, y, solver, strength)
        curve = curve_of(model)
        found = [curve.first(curve.relative_gap <= gap, "passes") for gap in GAPS]
        calls[solver] = found[1] or np.inf
        cells = [counted(value, curve.passes[-1]) for value in found]
        rows.append([solver, *cells, f"{seconds:.2f}", f"{curve.relative_gap[-1]:.1e}"])
        lines[solver] = np.maximum(curve.passes, 0.5), curve.relative_gap
        if solver == "excessive-gap":
            steps = int(model.n_iter_)
            projections = int(model.history_["projections"][-1]) / len(y) / steps
            facts = f"A step projects a sequence {projections:.1f} times."
            per_step = seconds / steps
        elif solver == "bundle":
            per_pass = seconds / curve.passes[-1]
    columns = ["solver", *(f"calls/n to {gap:g}" for gap in GAPS), "CPU s", "last gap"]
    study.show(f"{title}: certified relative gaps", columns, rows)
    study.compare(
        f"E.1, {title}",
        "The projection is much more difficult than that onto a box with an equality.",
        f"{facts} A step takes the CPU time of {per_step / per_pass:.0f} of cutting planes.",
        per_step > 2.0 * per_pass,
    )
    study.compare(
        f"4.2 and 5, {title}",
        "It reduces the gap in fewer passes than cutting planes.",
        "Oracle calls over n to 1e-2: " + ", ".join(f"{k} {v:.0f}" for k, v in calls.items()) + ".",
        calls["excessive-gap"] < calls["bundle"],
    )
    return Panel(title, "oracle calls / n", "certified relative gap", lines)


def _kernels(study: Study, X: Any, y: Any, others: tuple[Any, Any]) -> None:
    """Appendix E.2: the linear model on rows whose products are the Gram matrix of tokens."""
    X, X_test = ([np.asarray(x, dtype=float) for x in part] for part in (X, others[0]))
    tokens = np.concatenate(X)
    gamma = 0.5 / (np.mean(np.var(tokens, axis=0)) * tokens.shape[1])
    size = np.mean(np.sum(tokens**2, axis=1))  # so that one reg_lambda is for both kernels

    def gram(words: list[np.ndarray]) -> np.ndarray:
        return size * rbf_kernel(np.concatenate(words), tokens, gamma=gamma)

    rows = Nystroem(kernel="precomputed", n_components=len(tokens), random_state=0)
    of_train = rows.fit_transform(gram(X))
    error = np.abs(of_train @ of_train.T - gram(X)).max() / size
    made = {
        "linear": (X, X_test),
        "RBF": (_split(of_train, X), _split(rows.transform(gram(X_test)), X_test)),
    }
    cells = []
    settings = {"reg_lambda": 1.0 / len(y), "tol": 1e-2, "max_iter": 5000, "random_state": 0}
    for kernel, (own, new) in made.items():
        for name, model in (
            ("max-margin", StructuredSVM("chain", **settings)),
            ("likelihood (32)", SDCACRF(**settings)),
        ):
            model.fit(own, y)
            pairs = zip(model.predict(new), others[1], strict=True)
            right = np.concatenate([np.asarray(a) == np.asarray(b) for a, b in pairs])
            cells.append(
                [kernel, name, f"{100.0 * right.mean():.1f}", f"{model.relative_gap_:.0e}"]
            )
    columns = ["kernel", "model", "labels right, %", "relative gap"]
    study.show(f"{len(y)} words, tested on {len(X_test)} others", columns, cells)
    study.compare(
        "E.2",
        "The kernel model of sequences is trained as the linear one.",
        f"Rows whose products are the Gram matrix's to {error:.0e} give a linear model.",
        error < 1e-7,
    )
    study.compare(
        "E.2",
        "Marginals are free variables without local consistency, and projections are those of E.1.",
        "Both cannot be: E.1 projects onto locally consistent marginals.",
        None,
    )


def _split(rows: np.ndarray, X: list[np.ndarray]) -> list[np.ndarray]:
    return np.split(rows, np.cumsum([len(x) for x in X])[:-1])


if __name__ == "__main__":
    run(__doc__, reproduce)
