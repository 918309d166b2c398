"""Data sets of the BMRM reproduction: those of the paper that are there, and stand-ins."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import normalize, scale

Array = np.ndarray
_DIGITS = 20_000  # of 70,000
_FEWEST = 3  # messages that a word pair is in: Algorithm 2 keeps planes as long as a row


@dataclass(frozen=True)
class Set:
    """X, y, and whether the features are words; ``note`` says what it is if not the paper's."""

    name: str
    X: Any
    y: Array
    text: bool
    note: str
    paper: str | None = None  # its name in the paper's tables, if it is the same set

    @property
    def size(self) -> str:
        return "{:,} x {:,}".format(*self.X.shape)

    def part(self, rows: Array) -> tuple[Any, Array]:
        return self.X[rows], self.y[rows]


def binary_sets(tasks: ModuleType | None) -> list[Set]:
    """Those of table 1, or what stands for them; two small sets without a folder."""
    if tasks is None:
        X, y = load_breast_cancer(return_X_y=True)
        digits, label = load_digits(return_X_y=True)
        ships = "ships with scikit-learn, not in the paper"
        return [
            Set("breast-cancer", scale(X), _signs(y == 1), False, f"standardized; {ships}"),
            Set("digits", digits / 16.0, _signs(label % 2 == 0), False, f"even or odd; {ships}"),
        ]
    adult, adult_labels = _joined(tasks.load("a9a"))
    pixels, digit = _joined(tasks.load("mnist"))
    words, group = _joined(tasks.load("news20_bydate_counts", tfidf=True))
    pairs, half = tasks.load("news20_bigrams_binary")
    frequent = np.bincount(pairs.indices, minlength=pairs.shape[1]) >= _FEWEST
    pairs = normalize(pairs.tocsc()[:, frequent].tocsr())
    return [
        Set("adult9", adult, _signs(adult_labels > 0), False, "the paper's set", "adult9"),
        Set(
            "mnist-even",
            sp.csr_matrix(pixels[:_DIGITS]) / 255.0,
            _signs(digit[:_DIGITS] % 2 == 0),
            False,
            "STAND-IN for worm (1,026,036 x 804, density 25 %): mnist, even or odd digits, 19 %",
        ),
        Set(
            "news20-words",
            words,
            _signs(group < 10),
            True,
            "STAND-IN for astro-ph, rcv1 and real-sim: 20 newsgroups, two halves, words, tf-idf",
        ),
        Set(
            "news20-pairs",
            pairs,
            _signs(half > 0),
            True,
            "STAND-IN for news20-b (19,954 x 1,355,191): 20 newsgroups, two halves, words and "
            f"pairs of words that are in {_FEWEST} messages or more, rows of length 1",
        ),
    ]


def multiclass_sets(tasks: ModuleType | None) -> list[Set]:
    """Those of table 3 that are there, training and test part together as in the paper."""
    if tasks is None:
        X, y = load_digits(return_X_y=True)
        note = "ships with scikit-learn, not in the paper"
        return [Set("digits", X / 16.0, y, False, note)]
    letter, letters = _joined(tasks.load("letter"))
    usps, digits = _joined(tasks.load("usps"))
    news, groups = tasks.load("news20_multiclass")
    low, high = letter.min(axis=0), letter.max(axis=0)
    letter = 2.0 * (letter - low) / (high - low) - 1.0
    return [
        Set("usps", usps, digits, False, "the paper's set", "usps"),
        Set("letter", letter, letters, False, "the paper's set, scaled to [-1, 1]", "letter"),
        Set(
            "news20-m",
            normalize(news),
            groups,
            True,
            "the paper's set without its test part, rows of length 1",
            "news20-m",
        ),
    ]


def _signs(positive: Array) -> Array:
    return np.where(positive, 1.0, -1.0)


def _joined(parts: tuple) -> tuple[Any, Array]:
    """Training and test part as one set."""
    X, y, X_test, y_test = parts
    stack = sp.vstack if sp.issparse(X) else np.vstack
    joined = stack([X, X_test])
    return (joined.tocsr() if sp.issparse(X) else joined), np.concatenate([y, y_test])
