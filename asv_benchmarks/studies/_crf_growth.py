"""Growth of chain CRFs: what an epoch, marginals and labels take against the number of sentences.

The sentences of CoNLL-2000 are repeated, one sparse matrix each, so that the model keeps its size.
Seconds are CPU time in one thread; those of an epoch are what further epochs of a fit take. Bytes
are what a fit of a few epochs adds at its peak. Each number of sentences has its own process.
"""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import joblib
import numpy as np
from _chains import ChainTask, load
from _crf_contest import make_ours
from _measure import MissingError, Table, cpu_seconds, quiet_single_thread
from _memory import high_water, in_new_process

TASK = "conll2000"
_SENTENCES = 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000
_FEWER = 10_000  # sentences up to which exponents are given too
_FEW, _EPOCHS = 2, 5  # epochs of the two fits whose difference is taken
_FIGURES = "epoch", "marginals", "labels", "bytes"


def growth(tasks: ModuleType | None, repeat: int) -> list[dict[str, Any]]:
    """A table, and the exponents of seconds and bytes; each figure is taken once."""
    if tasks is None:
        raise MissingError("growth comes with --data FOLDER only")
    print(f"\ngrowth: {__doc__.strip()}\n")
    task = load(TASK, tasks)
    task = ChainTask(task.name, task.train.without_strings(), {}, {}, task.measure)
    columns = [("sentences", 10), ("tokens", 11), ("epoch s", 9), ("marginals s", 12)]
    table = Table([*columns, ("labels s", 9), ("bytes a token", 14)])
    results = []
    with TemporaryDirectory(prefix="crf_growth_") as folder:
        path = Path(folder, "task")
        joblib.dump(task, path)
        for n in _SENTENCES:
            result = in_new_process(_measure, path, n)
            seconds = [f"{result[name]:.3f}" for name in _FIGURES[:-1]]
            table.row(f"{n:,}", f"{result['tokens']:,.0f}", *seconds, f"{result['bytes']:.0f}")
            results.append({"task": TASK, "sentences": n, **result})
    fewer = results[: _SENTENCES.index(_FEWER) + 1]
    for title, part in ("all", results), (f"up to {_FEWER:,}", fewer):
        tokens = np.log([result["tokens"] for result in part])
        for name in _FIGURES:
            factor = tokens if name == "bytes" else 0.0  # of all tokens
            slope = np.polyfit(tokens, factor + np.log([result[name] for result in part]), 1)[0]
            print(f"exponent of {name}, {title}: {slope:.2f}")
    return results


def _measure(path: Path, n: int) -> dict[str, float]:
    task: ChainTask = joblib.load(path)
    X, y = task.train.matrices, task.train.labels
    times = -(-n // len(X))
    X, y = (X * times)[:n], (y * times)[:n]
    tokens = sum(len(labels) for labels in y)
    with quiet_single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_ours(task, None, max_iter=_FEW).fit(X[:50], y[:50])  # loads what is compiled
        before = high_water()
        few, many = (make_ours(task, None, max_iter=k, tol=1e-6) for k in (_FEW, _EPOCHS))
        short, _ = cpu_seconds(lambda: few.fit(X, y))
        long, model = cpu_seconds(lambda: many.fit(X, y))
        size = 2**20 * (high_water() - before) / tokens
        marginals, _ = cpu_seconds(lambda: model.predict_marginals(X))
        labels, _ = cpu_seconds(lambda: model.predict(X))
    epoch = (long - short) / (_EPOCHS - _FEW)
    figures = epoch, marginals, labels, size
    return {"tokens": float(tokens), **dict(zip(_FIGURES, figures, strict=True))}
