"""Data sets of the Pragam reproduction: those of the paper that are there, and stand-ins."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from _bmrm_data import binary_sets
from sklearn.model_selection import train_test_split

Array = np.ndarray


@dataclass(frozen=True)
class Task:
    """Training and test part, and lambda from the paper's appendix D."""

    name: str
    X: Any
    y: Array
    X_test: Any
    y_test: Array
    reg_lambda: float
    note: str

    @property
    def size(self) -> str:
        return "{:,} x {:,}".format(*self.X.shape)

    def objective(self, w: Array, scores: Array | None = None) -> float:
        """J without intercept."""
        margin = self.y * (self.X @ w if scores is None else scores)
        return 0.5 * self.reg_lambda * float(w @ w) + float(np.mean(np.maximum(0.0, 1.0 - margin)))

    def accuracy(self, w: Array, intercept: float = 0.0) -> float:
        """On the test part, in percent."""
        labels = np.where(self.X_test @ w + intercept > 0.0, 1.0, -1.0)
        return 100.0 * float(np.mean(labels == self.y_test))


def tasks_of(tasks: ModuleType | None) -> list[Task]:
    """Those of table 1, or what stands for them; two small sets without a folder."""
    if tasks is None:
        return [_split(data, 2.0**-14, 0.25, data.note) for data in binary_sets(None)]
    found = [
        Task("adult9", *_signed(tasks.load("a9a")), 2.0**-18, "the paper's set"),
        Task(
            "web8",
            *_signed(tasks.load("w8a")),
            2.0**-17,
            "the paper's set with the published parts (the paper: 45,546 training rows)",
        ),
    ]
    by_name = {data.name: data for data in binary_sets(tasks)}
    found.append(
        _split(
            by_name["news20-pairs"],
            2.0**-14,
            0.2,
            "STAND-IN for news20 (15,960 rows): 20 newsgroups, two halves, pairs of words",
        )
    )
    covertype = _signed(tasks.kernel("covtype2"))
    note = "STAND-IN for covertype (522,911 rows as they are): 15,000 rows, standardized"
    found.append(Task("covertype-15k", *covertype, 2.0**-17, note))
    return found


def _signed(parts: tuple) -> tuple:
    X, y, X_test, y_test = parts
    return X, np.where(y > 0, 1.0, -1.0), X_test, np.where(y_test > 0, 1.0, -1.0)


def _split(data: Any, reg_lambda: float, share: float, note: str) -> Task:
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=share, random_state=0)
    return Task(data.name, X, y, X_test, y_test, reg_lambda, note)
