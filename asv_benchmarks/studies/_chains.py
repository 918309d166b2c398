"""The tasks of the CRF studies: one form for us, one for CRFsuite, and how both are scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from _measure import MissingError
from benchmarks.chains import DATASETS, chain_objective, chains
from sklearn.feature_extraction.text import CountVectorizer

TASKS = ("ocr", "conll2000", "conll2002_ned")
Labels = list[list[str]]


@dataclass
class Part:
    """Sequences as they come, as lists of attribute strings, and as a sparse matrix each."""

    raw: list
    attributes: list[list[list[str]]]
    labels: Labels
    design: sp.csr_matrix  # all tokens
    lengths: np.ndarray

    def without_strings(self) -> "Part":
        """With the labels and the matrix alone."""
        return replace(self, raw=[], attributes=[])

    @cached_property
    def matrices(self) -> list[sp.csr_matrix]:
        """Rows of ``design`` that share its memory."""
        X, ends = self.design, np.cumsum(self.lengths)
        matrices = []
        for start, end in zip(ends - self.lengths, ends, strict=True):
            entries = slice(X.indptr[start], X.indptr[end])
            indptr = X.indptr[start : end + 1] - X.indptr[start]
            parts = X.data[entries], X.indices[entries], indptr
            matrices.append(sp.csr_matrix(parts, (end - start, X.shape[1]), copy=False))
        return matrices


@dataclass
class ChainTask:
    """Training and test parts; all labels are strings, and reg_lambda is 1/n."""

    name: str
    train: Part
    tests: dict[str, Part]
    attribute_names: dict[str, int]
    measure: str  # "accuracy" or "F1"

    @cached_property
    def classes(self) -> list[str]:
        return sorted(set(chain.from_iterable(self.train.labels)))

    @property
    def reg_lambda(self) -> float:
        return 1.0 / len(self.train.labels)

    def score(self, part: Part, predicted: Sequence[Sequence[str]]) -> float:
        """In percent: tokens right, or F1 of the spans."""
        if self.measure == "F1":
            from sklearn_bundle.metrics import span_f1_score

            return 100.0 * span_f1_score(part.labels, predicted)
        pairs = zip(chain.from_iterable(part.labels), chain.from_iterable(predicted), strict=True)
        return 100.0 * float(np.mean([a == b for a, b in pairs]))

    def scores(self, predict: Callable[[Part], Any]) -> dict[str, float]:
        """On each test part."""
        return {name: self.score(part, predict(part)) for name, part in self.tests.items()}

    def objective(self, coef: np.ndarray, transitions: np.ndarray) -> float:
        """Of a model without label biases, in numpy and float64."""
        index = {label: k for k, label in enumerate(self.classes)}
        labels = np.array([index[label] for label in chain.from_iterable(self.train.labels)])
        part = self.train
        return chain_objective(
            part.design, labels, part.lengths, self.reg_lambda, coef, transitions
        )


def load(name: str, tasks: ModuleType | None) -> ChainTask:
    """A task of the folder or, without tasks, one that needs no download."""
    if tasks is None:
        if name not in DATASETS:
            raise MissingError("comes with --data FOLDER only")
        X, y = chains(name)
        cut = len(X) * 3 // 4
        train, tests = (X[:cut], y[:cut]), {"test": (X[cut:], y[cut:])}
    else:
        try:
            X, y, *test = tasks.sequences(name)
            train, tests = (X, y), {"test": test}
            if name == "conll2002_ned":
                tests = {"testa": tasks.sequences(name, test="testa")[2:], "testb": test}
        except (ValueError, OSError) as error:
            raise MissingError(str(error)) from error
    vectorizer = CountVectorizer(analyzer=_identity, dtype=np.float32)
    parts = {}
    for title, (X, y) in {"train": train, **tests}.items():
        attributes = [[_attributes(token) for token in sequence] for sequence in X]
        fit = vectorizer.fit_transform if title == "train" else vectorizer.transform
        design = fit(chain.from_iterable(attributes))
        labels = [[str(label) for label in sequence] for sequence in y]
        parts[title] = Part(X, attributes, labels, design, np.array([len(s) for s in X]))
    measure = "accuracy" if name in ("ocr", "digit_words") else "F1"
    return ChainTask(name, parts.pop("train"), parts, vectorizer.vocabulary_, measure)


def _identity(token: list[str]) -> list[str]:
    return token


def _attributes(token: Any) -> list[str]:
    """A row of pixels has one for each black pixel; lists of strings are left alone."""
    if isinstance(token, list):
        return token
    return [f"pixel{j}" for j in np.flatnonzero(token)]
