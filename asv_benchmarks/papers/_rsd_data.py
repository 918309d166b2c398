"""The data on which the statements of Yu and Rousu (2007) are tried: the paper has none."""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from benchmarks.chains import chains
from sklearn.datasets import load_digits


class Task(NamedTuple):
    """Examples and the model of their outputs; ``strength`` is n reg_lambda."""

    name: str
    title: str
    model: str
    strength: float
    X: Any
    y: Any

    @property
    def n(self) -> int:
        return len(self.y)


TASKS = ("ocr", "usps")
SHIPPED = ("digit_words", "digits")


def names(tasks: ModuleType | None) -> Sequence[str]:
    return SHIPPED if tasks is None else TASKS


def read(chosen: Sequence[str] | None, tasks: ModuleType | None) -> Iterator[Task]:
    """Label sequences, and classes."""
    for name in chosen or names(tasks):
        if name == "ocr":
            X, y = tasks.sequences("ocr")[2:]
            yield Task(name, "OCR, fold 0", "chain", 10.0, X, y)
        elif name == "digit_words":
            yield Task(name, "digits in words", "chain", 10.0, *chains(name))
        elif name == "digits":
            X, y = load_digits(return_X_y=True)
            yield Task(name, "digits", "multiclass", 1.0, X / 16.0, y)
        else:
            yield Task(name, name, "multiclass", 100.0, *tasks.multiclass(name))


def size_row(task: Task) -> list[str]:
    """Name, model, examples, outputs of one, parameters and reg_lambda, for the first table."""
    if task.model == "chain":
        lengths = [len(labels) for labels in task.y]
        K = len(np.unique(np.concatenate([np.asarray(labels) for labels in task.y])))
        d = K * (np.shape(task.X[0])[1] + K + 3)
        outputs = f"{K} to the {min(lengths)} to {max(lengths)}"
    else:
        K = len(np.unique(task.y))
        d, outputs = K * task.X.shape[1], f"{K}"
    strength = f"{task.strength:g}/n"
    return [task.title, task.model, f"{task.n:,d}", outputs, f"{d:,d}", strength]
