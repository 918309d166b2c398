"""Label sequences that need no download, and objectives of chains in numpy alone."""

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.common import Array, Certified

DATASETS = ("digit_words", "made_sentences")


class ChainBenchmark(Certified):
    """Figures of a model of chains; a subclass says which estimator minimizes which objective."""

    objective: Callable[..., float]  # of :func:`chain_objective`'s arguments

    def make_data(self, data: str, *params: Any) -> tuple[list, list]:
        return chains(data)

    def evaluate(self, *params: Any) -> float:
        """In numpy, from the fitted attributes, at reg_lambda = 1/n."""
        model = self.estimator
        X, y = list(chain.from_iterable(self.X)), list(chain.from_iterable(self.y))
        if hasattr(model, "attribute_names_"):
            column = {name: j for j, name in enumerate(model.attribute_names_)}
            design = np.zeros((len(X), len(column)))
            for row, names in zip(design, X, strict=True):
                np.add.at(row, [column[name] for name in names], 1.0)
        else:
            design = np.array(X, dtype=np.float64)
        return self.objective(
            design,
            np.searchsorted(model.classes_, y),
            np.array([len(labels) for labels in self.y]),
            1.0 / len(self.y),
            model.coef_,
            model.transitions_,
            model.intercept_,
            model.start_,
            model.end_,
        )


@lru_cache(maxsize=1)
def chains(name: str) -> tuple[list, list]:
    """X and y: arrays (T, 64) with digits, or lists of attribute strings with tags."""
    return _digit_words() if name == "digit_words" else _made_sentences()


def _digit_words(n: int = 300, seed: int = 0) -> tuple[list[np.ndarray], list[list[int]]]:
    """Black and white images in words of 3 to 9; often a digit is the last one plus 3."""
    images, digits = load_digits(return_X_y=True)
    rng = np.random.RandomState(seed)
    rows = [np.flatnonzero(digits == digit) for digit in range(10)]
    X, y = [], []
    for _ in range(n):
        word = [rng.randint(10)]
        for _ in range(rng.randint(2, 9)):
            follows = rng.uniform() < 0.7
            word.append((word[-1] + 3) % 10 if follows else rng.randint(10))
        X.append((images[[rng.choice(rows[digit]) for digit in word]] > 7.0).astype(np.uint8))
        y.append([int(digit) for digit in word])
    return X, y


_PHRASES = {"NP": ("det", "adj", "noun"), "VP": ("verb", "adv"), "PP": ("prep",)}


def _made_sentences(n: int = 400, seed: int = 0) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Made phrases with IOB2 tags; a token has up to 15 attributes, and most are rare."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        words, tags = ["start1"], ["O"]
        for _ in range(rng.randint(2, 7)):
            phrase = str(rng.choice([*_PHRASES]))
            kinds = [kind for kind in _PHRASES[phrase] if rng.uniform() < 0.8]
            for k, kind in enumerate(kinds):
                told = kind if rng.uniform() < 0.9 else "any"  # words alone do not tell every tag
                words.append(f"{told}{rng.zipf(1.5) % 997}")
                tags.append(f"{'I' if k else 'B'}-{phrase}")
        X.append([_attributes(words, t) for t in range(len(words))])
        y.append(tags)
    return X, y


def _attributes(words: list[str], t: int) -> list[str]:
    around = {o: words[t + o] for o in range(-2, 3) if 0 <= t + o < len(words)}
    attributes = [f"w[{o}]={word}" for o, word in around.items()]
    attributes += [f"k[{o}]={word[:3]}" for o, word in around.items()]
    for o in (-1, 0):
        if o in around and o + 1 in around:
            attributes.append(f"w[{o}|{o + 1}]={around[o]}|{around[o + 1]}")
    return attributes


def chain_objective(
    X: Any,
    labels: np.ndarray,
    lengths: np.ndarray,
    reg_lambda: float,
    coef: Array,
    transitions: Array,
    intercept: Array | float = 0.0,
    start: Array | float = 0.0,
    end: Array | float = 0.0,
) -> float:
    """``reg_lambda/2 ||w||^2`` + the mean of ``-log p(y_i|x_i)``, in float64.

    X has a row per token (CSR or dense), labels are indices, and lengths those of the sequences;
    all sequences are worked on together, a position at a time.
    """
    scores, right, first, lengths = _scored(
        X, labels, lengths, coef, transitions, intercept, start, end
    )
    n = len(lengths)
    shift = transitions.max()
    factors = np.exp(transitions - shift)
    total, t, forward = 0.0, 0, scores[first]
    while len(forward):
        t += 1
        most = forward.max(axis=1, keepdims=True)
        parts = np.exp(forward - most)
        n_active = np.searchsorted(-lengths, -t)  # sequences longer than t
        total += np.sum(most[n_active:].ravel() + np.log(parts[n_active:].sum(axis=1)))
        forward = most[:n_active] + shift + np.log(parts[:n_active] @ factors)
        forward += scores[first[:n_active] + t]
        lengths = lengths[:n_active]
    squares = sum(np.square(part).sum() for part in (coef, transitions, intercept, start, end))
    return float(0.5 * reg_lambda * squares + (total - right) / n)


def _scored(
    X: Any,
    labels: np.ndarray,
    lengths: np.ndarray,
    coef: Array,
    transitions: Array,
    intercept: Array | float,
    start: Array | float,
    end: Array | float,
) -> tuple[Array, float, np.ndarray, np.ndarray]:
    """Scores of tokens and of all true sequences; first tokens and lengths, the longest first."""
    scores = np.asarray(X @ coef.T, dtype=np.float64) + intercept
    lengths = np.asarray(lengths)
    first = np.cumsum(lengths) - lengths
    scores[first] += start
    scores[first + lengths - 1] += end
    right = scores[np.arange(len(labels)), labels].sum()
    steps = np.ones(len(labels), dtype=bool)
    steps[first] = False
    t = np.flatnonzero(steps)
    right += transitions[labels[t - 1], labels[t]].sum()
    longest_first = np.argsort(-lengths, kind="stable")
    return scores, float(right), first[longest_first], lengths[longest_first]


def chain_hinge_objective(
    X: Any,
    labels: np.ndarray,
    lengths: np.ndarray,
    reg_lambda: float,
    coef: Array,
    transitions: Array,
    intercept: Array | float = 0.0,
    start: Array | float = 0.0,
    end: Array | float = 0.0,
) -> float:
    """``reg_lambda/2 ||w||^2`` + the mean of ``max_y l_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>``.

    l_i(y) is the number of wrong labels. As for :func:`chain_objective`, in float64.
    """
    scores, right, first, lengths = _scored(
        X, labels, lengths, coef, transitions, intercept, start, end
    )
    n = len(lengths)
    scores += 1.0
    scores[np.arange(len(labels)), labels] -= 1.0
    total, t, best = 0.0, 0, scores[first]
    while len(best):
        t += 1
        n_active = np.searchsorted(-lengths, -t)  # sequences longer than t
        total += best[n_active:].max(axis=1).sum()
        best = np.stack(
            [(best[:n_active] + column).max(axis=1, initial=-np.inf) for column in transitions.T],
            axis=1,
        )
        best += scores[first[:n_active] + t]
        lengths = lengths[:n_active]
    squares = sum(np.square(part).sum() for part in (coef, transitions, intercept, start, end))
    return float(0.5 * reg_lambda * squares + (total - right) / n)
