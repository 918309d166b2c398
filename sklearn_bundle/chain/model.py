"""Linear chains: packing, parameters, and labelings and probabilities for given parameters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import decode
from sklearn_bundle.chain._compiled.features import Chains
from sklearn_bundle.core.limits import DOUBLE, likely
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.core.validation import squared_lengths
from sklearn_bundle.jit.vector import WIDTH

Array = NDArray[np.float64]

_FEW = 8.0  # roundings of a score beside those of its products


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


def bars_in(weights: Weights) -> Array:
    """What weights forbid, as in readers/forbidden.py: a row per label, and one for each end."""
    rows = np.vstack([weights.transitions, weights.start, weights.end])
    return np.where(np.isneginf(rows), -np.inf, 0.0)


def flat_bars(bars: Array) -> Array:
    """In the form of compiled code."""
    K = bars.shape[1]
    S = padded(K)
    flat = np.full((S + 2, S), -np.inf)
    flat[:K, :K], flat[S:, :K] = bars[:K], bars[K:]
    return flat.ravel()


def pack(
    X: sp.csr_array,
    lengths: NDArray[np.int64],
    n_labels: int,
    intercept: bool,
    bars: Array | None = None,
) -> Chains:
    """Sequences of these lengths, whose tokens are the rows of X, in the form for compiled code."""
    tokens = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    entries = X.indptr[tokens].astype(np.int64)
    counts = np.diff(entries)
    token = np.repeat(token_numbers(lengths), np.diff(X.indptr))
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
    flat = flat_bars(np.zeros((n_labels + 2, n_labels)) if bars is None else bars)
    sizes = n_labels, padded(n_labels), X.shape[1], intercept, step, flat
    attributes = attribute[new].astype(np.uint32)
    return Chains(*sizes, tokens, blocks, attributes, entries, places, values)


def token_numbers(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of every token in its sequence."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def taken_apart(w: Array, n_labels: int) -> Weights:
    """Parameters in the rows of the compiled code; those of an attribute are next to each other."""
    K, S = n_labels, padded(n_labels)
    rows = w.reshape(-1, S)
    d = len(rows) - S - 3
    return Weights(rows[:d, :K].copy().T, rows[d : d + K, :K].copy(), *rows[d + S :, :K].copy())


def padded_scores(
    X: sp.csr_array, lengths: NDArray[np.int64], weights: Weights, bars: Array
) -> tuple[Array, Array]:
    """Scores of tokens of sequences that are not empty, and of pairs, without what is barred."""
    coef, moves, intercept, *ends = weights
    K, S, products = len(intercept), padded(len(intercept)), X @ coef.T
    scores, pairs = np.zeros((X.shape[0], S)), np.zeros((S, S))
    scores[:, :K] = products.toarray() if sp.issparse(products) else products
    scores[:, :K] += intercept
    last = np.cumsum(lengths) - 1
    start, end = np.where(bars[-2:] < 0.0, 0.0, ends)
    scores[last + 1 - lengths, :K] += start
    scores[last, :K] += end
    pairs[:K, :K] = np.where(bars[:-2] < 0.0, 0.0, moves)
    return scores, pairs


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
        self._bars = bars_in(weights)
        scores, pairs = padded_scores(X, self._lengths, weights, self._bars)
        K, starts = len(weights.intercept), np.append(0, np.cumsum(self._lengths))
        self._common = K, scores.ravel(), pairs.ravel(), flat_bars(self._bars), starts
        self._scores, self._pairs = scores[:, :K], pairs[:K, :K]
        self._n_threads = n_threads

    def certain_labels(
        self, X: sp.csr_array, coef: Any, radius: float, biased: bool
    ) -> NDArray[np.bool_]:
        """Whether the best label of each token is that of all weights within a radius.

        The score of a labeling y is ``<w, phi(x, y)>``, so that of y against the best one moves by
        at most ``radius ||phi(x, y) - phi(x, best)||``. That norm is at most the sum of the parts:
        of a token with another label ``sqrt(2) ||x_t||``, its biases included, and of another pair
        of labels ``sqrt(2)``. Parts add up along the chain, so the largest score with these costs,
        for each label of each token, is that of a search forward and one backward.

        Parameters
        ----------
        X : CSR of shape (n_tokens, n_attributes)
        coef : ndarray or CSR of shape (n_labels, n_attributes)
        radius : float
            Of the ball around the weights.
        biased : bool
            Whether there are biases, which the ball then includes.
        """
        ends, labels = np.cumsum(self._lengths), self.best_labels()
        first, last = ends - self._lengths, ends - 1
        squares = squared_lengths(X) + float(biased)
        squares[first] += float(biased)
        squares[last] += float(biased)
        costs = radius * np.sqrt(2.0 * squares) * (1.0 + likely(X.shape[1]) * DOUBLE)
        longest = squared_lengths(coef).max(initial=0.0)
        sizes = np.sqrt(squares) * np.sqrt(longest) + np.abs(self._scores).max(axis=1)
        errors = (likely(X.shape[1]) + _FEW) * DOUBLE * (sizes + np.abs(self._pairs).max())
        scores, moves = self._scores.copy(), self._pairs + self._bars[:-2]
        scores[first] += self._bars[-2]
        scores[last] += self._bars[-1]
        certain = np.empty(len(labels), dtype=bool)
        for end, length in zip(ends.tolist(), self._lengths.tolist(), strict=True):
            part = slice(end - length, end)
            slack = (4.0 + length) * float(errors[part].sum())
            known = labels[part], costs[part], np.sqrt(2.0) * radius, slack
            certain[part] = _possible_labels(scores[part], moves, *known).sum(axis=1) == 1
        return certain

    def best_labels(self) -> NDArray[np.int64]:
        """The most probable labelings, of shape (n_tokens,)."""
        labels = np.zeros(len(self._scores), np.int64)
        self._by_parts(decode.best_labels, labels)
        return labels

    def log_probabilities(self, labels: NDArray[np.int64]) -> Array:
        """``log p(labels|x)`` of each sequence."""
        return self._expectations(labels)[0]

    def marginals(self) -> Array:
        """Marginals of the tokens, of shape (n_tokens, K)."""
        return self._expectations()[1]

    def _expectations(self, labels: Any = None) -> tuple[Array, Array]:
        (n, K), every = self._scores.shape, np.zeros(self._given)
        labels = np.zeros(n, np.int64) if labels is None else labels
        out, nodes = np.empty(len(self._lengths)), np.empty((n, K))
        self._by_parts(decode.expectations, labels, out, nodes)
        every[self._kept] = out
        return every, nodes

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


def _possible_labels(
    scores: Array, moves: Array, labels: NDArray[np.int64], costs: Array, cost: float, slack: float
) -> NDArray[np.bool_]:
    """Whether a labeling with a label at a token may have the highest score, by token and label.

    Scores are -inf where forbidden; ``costs`` are those of another label, ``cost`` that of another
    pair than in the best ``labels``.
    """
    n, places = len(labels), np.arange(len(labels))
    best = float(scores[places, labels].sum() + moves[labels[:-1], labels[1:]].sum())
    nodes = scores + costs[:, None]
    nodes[places, labels] -= costs
    pairs = np.repeat(moves[None] + cost, n - 1, axis=0)
    pairs[places[1:] - 1, labels[:-1], labels[1:]] -= cost
    forward, backward = nodes.copy(), np.zeros_like(nodes)
    for t in range(1, n):
        forward[t] += (forward[t - 1][:, None] + pairs[t - 1]).max(axis=0)
        backward[n - 1 - t] = (pairs[n - 1 - t] + (nodes[n - t] + backward[n - t])).max(axis=1)
    possible = ~(forward + backward + slack < best)
    possible[places, labels] = True
    return possible
