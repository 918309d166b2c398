"""The data sets of table 1 of Le Priol et al. (2018)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import NamedTuple

import numpy as np
from _chains import ChainTask, load
from _measure import MissingError
from benchmarks.chains import DATASETS


class Source(NamedTuple):
    """A row of table 1, and after how many epochs a fit is ended here."""

    title: str
    sizes: str  # the paper's d, n, N, K, A, a and GiB
    epochs: int


TASKS = {
    "ocr": Source("OCR", "4,082 6,202 52,827 26 128 128 0.2", 50),
    "conll2000": Source("CONLL", "1.6e6 8,936 2.1e5 22 74,658 19 0.7", 25),
    "conll2002_ned": Source("NER", "2.8e6 15,806 2e5 9 3.1e5 20 0.1", 30),
}
MISSING = {"POS": "8.6e6 38,219 9.1e5 45 1.9e5 13 13"}
_SHIPPED_EPOCHS = 40


def names(tasks: ModuleType | None) -> Sequence[str]:
    return DATASETS if tasks is None else [*TASKS]


def read(chosen: Sequence[str] | None, tasks: ModuleType | None, most: int) -> Iterator[ChainTask]:
    """Those that can be had, cut; the others are named with the reason."""
    for name in chosen or names(tasks):
        try:
            yield _cut(load(name, tasks), most)
        except MissingError as error:
            print(f"{name} skipped: {error}")


def _cut(task: ChainTask, most: int) -> ChainTask:
    """Random training sequences, with the attributes that occur in them."""
    train = task.train.without_strings()
    n = len(train.lengths)
    chosen = np.zeros(n, bool)
    chosen[np.random.default_rng(0).permutation(n)[: most or n]] = True
    design = train.design[np.repeat(chosen, train.lengths)]
    known = np.flatnonzero(design.getnnz(axis=0))
    labels = [train.labels[k] for k in np.flatnonzero(chosen)]
    cut = replace(train, design=design[:, known], lengths=train.lengths[chosen], labels=labels)
    tests = {
        name: replace(part.without_strings(), design=part.design[:, known])
        for name, part in task.tests.items()
    }
    return replace(task, train=cut, tests=tests, attribute_names={})


def epochs_of(task: ChainTask) -> int:
    return TASKS[task.name].epochs if task.name in TASKS else _SHIPPED_EPOCHS


def size_rows(loaded: list[ChainTask], tasks: ModuleType | None) -> Iterator[list[str]]:
    """The paper's sizes above those here."""
    for task in loaded:
        title = task.name
        if task.name in TASKS:
            title, told, _ = TASKS[task.name]
            yield [title, "paper", *told.split()]
        X, K = task.train.design, len(task.classes)
        edges = int(np.sum(task.train.lengths - 1))
        sizes = K * (X.shape[1] + K + 3), len(task.train.labels), X.shape[0], K, X.shape[1]
        most = int(np.diff(X.indptr).max())
        cells = [f"{size:,d}" for size in (*sizes, most)]
        yield [title, "here", *cells, f"{8 * edges * K**2 / 2**30:.1f}"]
    if tasks is not None:
        for title, told in MISSING.items():
            yield [title, "paper", *told.split()]
