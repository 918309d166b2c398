"""Linear chains: packing, parameters, and labelings and probabilities for given parameters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import decode
from sklearn_bundle.chain._compiled.features import Chains
from sklearn_bundle.chain.certainty import possible_labels
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.jit.vector import WIDTH

Array = NDArray[np.float64]


def padded(n_labels: int) -> int:
    """The number of labels, rounded up to full vectors."""
    return -(-n_labels // WIDTH) * WIDTH


class Weights(NamedTuple):
    """The parameters of a chain CRF by parts; zeros for parts that the model lacks.

    Transitions, and weights of the first and the last label, may be -inf: what is forbidden.
    """

    coef: Array | sp.csr_array  # (K, d)
    transitions: Array  # (K, K), from and to
    intercept: Array  # (K,)
    start: Array
    end: Array


class Bars(NamedTuple):
    """What is forbidden: -inf there and 0 elsewhere, to be added to the same parts of weights."""

    transitions: Array
    start: Array
    end: Array

    @classmethod
    def none(cls, n_labels: int) -> "Bars":
        """Of models that forbid nothing."""
        return cls(np.zeros((n_labels, n_labels)), np.zeros(n_labels), np.zeros(n_labels))

    @classmethod
    def of(cls, weights: Weights) -> "Bars":
        """Those of given weights."""
        parts = weights.transitions, weights.start, weights.end
        return cls(*(np.where(np.isneginf(part), -np.inf, 0.0) for part in parts))

    def flat(self) -> Array:
        """In the form of compiled code."""
        K, S = len(self.start), padded(len(self.start))
        bars = np.full((S + 2, S), -np.inf)
        bars[:K, :K], bars[S, :K], bars[S + 1, :K] = self
        return bars.ravel()

    def first_of(self, labels: NDArray[np.int64], lengths: NDArray[np.int64]) -> int | None:
        """The first token at which labels of sequences use what is forbidden, None if none does."""
        starts = np.cumsum(lengths) - lengths
        own = np.zeros(len(labels))
        own[1:] = self.transitions[labels[:-1], labels[1:]]
        own[starts] = self.start[labels[starts]]
        ends = starts + lengths - 1
        own[ends] += self.end[labels[ends]]
        wrong = np.flatnonzero(own)
        return int(wrong[0]) if len(wrong) else None


def pack(
    X: sp.csr_array,
    lengths: NDArray[np.int64],
    n_labels: int,
    intercept: bool,
    bars: Bars | None = None,
) -> Chains:
    """Sequences of these lengths, whose tokens are the rows of X, in the form for compiled code."""
    tokens = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    entries = X.indptr[tokens].astype(np.int64)
    counts = np.diff(entries)
    token = np.repeat(_numbers(lengths), np.diff(X.indptr))
    key = np.repeat(np.arange(len(lengths)) * X.shape[1], counts) + X.indices
    order = np.argsort(key, kind="stable")  # by sequence, attribute and token
    key, attribute = key[order], X.indices[order]
    new = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    slots = np.concatenate([np.zeros(1, np.int64), np.cumsum(new)])
    blocks = slots[entries]
    most = max(counts.max(initial=0), lengths.max(initial=0))
    places = np.empty((len(key), 2), np.uint16 if most <= np.iinfo(np.uint16).max else np.uint32)
    places[:, 0] = slots[1:] - 1 - np.repeat(blocks[:-1], counts)
    places[:, 1] = token[order]
    values, step = X.data[order], int(X.nnz > 0 and X.data.min() < X.data.max())
    if step == 0:  # the one value, in the precision that most matrices have: nothing to compile
        values = values[:1].astype(np.float64)
    flat = (Bars.none(n_labels) if bars is None else bars).flat()
    sizes = n_labels, padded(n_labels), X.shape[1], intercept, step, flat
    attributes = attribute[new].astype(np.uint32)
    return Chains(*sizes, tokens, blocks, attributes, entries, places, values)


def _numbers(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of every token in its sequence."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def flat(weights: Weights) -> Array:
    """The parameters in one vector, in the rows of the compiled code."""
    K, d = weights.coef.shape
    S = padded(K)
    w = np.zeros((d + S + 3, S))
    w[:d, :K] = weights.coef.T
    w[d : d + K, :K] = weights.transitions
    w[d + S :, :K] = weights.intercept, weights.start, weights.end
    return w.ravel()


def taken_apart(w: Array, n_labels: int) -> Weights:
    """The inverse of :func:`flat`; the weights of an attribute are next to each other."""
    K, S = n_labels, padded(n_labels)
    rows = w.reshape(-1, S)
    d = len(rows) - S - 3
    return Weights(rows[:d, :K].copy().T, rows[d : d + K, :K].copy(), *rows[d + S :, :K].copy())


def token_scores(
    X: sp.csr_array, lengths: NDArray[np.int64], weights: Weights, bars: Bars
) -> tuple[Array, Array]:
    """Scores of tokens of sequences that are not empty, and of pairs, without what is barred."""
    coef, pairs, intercept, *ends = weights
    if X.nnz < X.shape[1]:  # few sentences use only a few of many weights
        used, indices = np.unique(X.indices, return_inverse=True)
        X = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))
        coef = coef[:, used]
    scores = X @ coef.T
    scores = np.ascontiguousarray(scores.toarray() if sp.issparse(scores) else scores, np.float64)
    scores += intercept
    last = np.cumsum(lengths) - 1
    start, end = (np.where(bar < 0.0, 0.0, w) for w, bar in zip(ends, bars[1:], strict=True))
    scores[last + 1 - lengths] += start
    scores[last] += end
    return scores, np.ascontiguousarray(np.where(bars.transitions < 0.0, 0.0, pairs))


class ChainModel:
    """Labelings of sequences and their probabilities.

    Parameters
    ----------
    X : CSR of shape (n_tokens, n_attributes)
    lengths : ndarray of int64 of shape (n_sequences,)
        Sequences of length 0 have one labeling, the empty one, whose probability is 1.
    weights : Weights
    n_threads : int
    """

    def __init__(
        self, X: sp.csr_array, lengths: NDArray[np.int64], weights: Weights, n_threads: int
    ):
        self._given, self._kept = len(lengths), np.flatnonzero(lengths)
        self._lengths = lengths[self._kept]
        self._bars = Bars.of(weights)
        self._scores, self._pairs = token_scores(X, self._lengths, weights, self._bars)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._lengths)])
        self._common = self._scores, self._pairs, self._bars.flat(), starts
        self._n_threads = n_threads

    @property
    def barred(self) -> tuple[Array, Array]:
        """Scores of all tokens and of pairs, -inf where forbidden."""
        scores, ends = self._scores.copy(), np.cumsum(self._lengths)
        scores[ends - self._lengths] += self._bars.start
        scores[ends - 1] += self._bars.end
        return scores, self._pairs + self._bars.transitions

    def certain_labels(
        self, X: sp.csr_array, coef: Any, radius: float, biased: bool
    ) -> NDArray[np.bool_]:
        """Whether the best label of each token is that of all weights within a radius."""
        given = X, self._lengths, coef, self.barred, self.best_labels(), radius, biased
        return possible_labels(*given).sum(axis=1) == 1

    def best_labels(self) -> NDArray[np.int64]:
        """The most probable labelings, of shape (n_tokens,)."""
        labels = np.zeros(len(self._scores), np.int64)
        self._by_parts(decode.best_labels, labels)
        return labels

    def several_best(
        self, n_best: int, *, normalized: bool = True
    ) -> list[tuple[NDArray[np.int64], Array]]:
        """Up to ``n_best`` labelings per sequence, best first, and log-probabilities.

        If not ``normalized``, scores instead of log-probabilities.
        """
        results: list = [(np.empty((1, 0), np.int64), np.zeros(1))] * self._given
        scores, moves = self.barred
        ends = np.cumsum(self._lengths)
        for i, (last, length) in enumerate(zip(ends, self._lengths, strict=True)):
            found = _several_best(scores[last - length : last], moves, n_best)
            if not len(found[1]):
                raise self._without_labeling(i)
            results[self._kept[i]] = found
        if not (normalized and results):
            return results
        best = self.log_probabilities(np.concatenate([labels[0] for labels, _ in results]))
        return [
            (labels, scores + (probability - scores[0]))
            for (labels, scores), probability in zip(results, best, strict=True)
        ]

    def log_probabilities(self, labels: NDArray[np.int64]) -> Array:
        """``log p(labels|x)`` of each sequence."""
        return self._expectations(labels)[0]

    def marginals(self) -> Array:
        """Marginals of the tokens, of shape (n_tokens, K)."""
        return self._expectations()[1]

    def pair_marginals(self) -> NDArray[np.float64]:
        """Marginals of pairs of successive tokens, of shape (n_tokens - n_sequences, K, K)."""
        return self._expectations(pairs=True)[2]

    def _expectations(self, labels: Any = None, pairs: bool = False) -> tuple[Array, Array, Array]:
        (n, K), every = self._scores.shape, np.zeros(self._given)
        labels = np.zeros(n, np.int64) if labels is None else labels
        out, nodes = np.empty(len(self._lengths)), np.empty((n, K))
        joint = np.empty((n - len(self._lengths)) * K * K if pairs else 0)
        self._by_parts(decode.expectations, labels, out, nodes, joint)
        every[self._kept] = out
        return every, nodes, joint.reshape(-1, K, K)

    def _by_parts(self, compiled: Callable[..., int], *arrays: np.ndarray) -> None:
        """Call the compiled function for parts of the sequences."""
        bounds = row_blocks(self._scores.size, len(self._lengths), 1)

        def task(k: int) -> None:
            stopped = compiled(*self._common, bounds[k], bounds[k + 1], *arrays)
            if stopped < bounds[k + 1]:
                raise self._without_labeling(stopped)

        with BlockRunner(self._n_threads) as runner:
            runner.run(task, len(bounds) - 1)

    def _without_labeling(self, i: int) -> ValueError:
        return ValueError(
            f"Sequence {self._kept[i]} of X, of length {self._lengths[i]}, has no labeling that "
            "the forbidden transitions allow."
        )


def _several_best(scores: Array, moves: Array, n_best: int) -> tuple[NDArray[np.int64], Array]:
    """The best labelings of a sequence, a row each, and their scores."""
    K = len(moves)
    best = scores[0][:, None]  # by label and rank
    origins = []
    for own in scores[1:]:
        ways = (best[:, :, None] + moves[:, None, :] + own).reshape(-1, K)
        origin = np.argsort(-ways, axis=0, kind="stable")[:n_best]
        origins.append((origin // best.shape[1], origin % best.shape[1]))
        best = np.take_along_axis(ways, origin, axis=0).T
    place = np.argsort(-best.ravel(), kind="stable")[:n_best]
    values = best.ravel()[place]
    place, values = place[values > -np.inf], values[values > -np.inf]
    label, rank = place // best.shape[1], place % best.shape[1]
    path = [label]
    for before, ranks in reversed(origins):
        label, rank = before[rank, label], ranks[rank, label]
        path.append(label)
    return np.array(path[::-1], np.int64).T.reshape(len(place), len(scores)), values
