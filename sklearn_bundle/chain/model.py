"""Linear chains: packing, parameters, and labelings and probabilities for given parameters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled import chain_decode
from sklearn_bundle.chain._compiled.chain import Chains, by_attribute
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.jit.vector import WIDTH


def padded(n_labels: int) -> int:
    """The number of labels, rounded up to full vectors."""
    return -(-n_labels // WIDTH) * WIDTH


def pack(
    X: sp.csr_array,
    lengths: NDArray[np.int64],
    n_labels: int,
    intercept: bool,
    *,
    overwrite: bool = False,
) -> Chains:
    """Sequences of these lengths, whose tokens are the rows of X, in the form for compiled code.

    With ``overwrite`` this form takes the memory of X, which is lost.
    """
    tokens = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    indptr = X.indptr.astype(np.int64)
    entries = indptr[tokens]
    most = max(np.diff(entries).max(initial=0), lengths.max(initial=0))
    kinds = (np.uint32, np.uint16) if most <= np.iinfo(np.uint16).max else (np.uint64, np.uint32)
    indices, values = X.indices, X.data
    if overwrite and indices.itemsize == np.dtype(kinds[0]).itemsize:
        indices = indices.view(kinds[0])
    else:
        indices = indices.astype(kinds[0])
    if not overwrite:
        values = values.copy()
    attributes = np.empty(len(values), np.uint32)
    places = indices.view(kinds[1]).reshape(-1, 2)
    number = np.full(X.shape[1], -1)
    blocks = by_attribute(
        tokens, frozen(indptr), frozen(indices), values, number, places, attributes
    )
    step = int(len(values) > 0 and values.min() < values.max())
    if step == 0:  # the one value, in the precision that most matrices have: nothing to compile
        values = values[:1].astype(np.float64)
    attributes = attributes[: blocks[-1]].copy()  # of fewer pages than there was room for
    width = padded(n_labels)
    rest = tokens, blocks, attributes, entries, places, values
    return Chains(n_labels, width, X.shape[1], intercept, step, *rest)


def unpacked(chains: Chains) -> sp.csr_array:
    """The inverse of :func:`pack`: all tokens as rows."""
    counts = np.diff(chains.entries)
    slots, positions = chains.places.T
    tokens = np.repeat(chains.tokens[:-1], counts) + positions
    columns = chains.attributes[np.repeat(chains.blocks[:-1], counts) + slots]
    shape = int(chains.tokens[-1]), chains.n_attributes
    return sp.csr_array((values_of(chains), (tokens, columns)), shape)


def values_of(chains: Chains) -> NDArray[np.float64 | np.float32]:
    """The value of each entry."""
    return np.broadcast_to(chains.values, len(chains.places))


class Weights(NamedTuple):
    """The parameters of a chain CRF by parts; zeros for parts that the model lacks."""

    coef: NDArray[np.float64] | sp.csr_array  # (K, d)
    transitions: NDArray[np.float64]  # (K, K), from and to
    intercept: NDArray[np.float64]  # (K,)
    start: NDArray[np.float64]
    end: NDArray[np.float64]


def flat(weights: Weights) -> NDArray[np.float64]:
    """The parameters in one vector, in the rows of the compiled code."""
    K, d = weights.coef.shape
    S = padded(K)
    w = np.zeros((d + S + 3, S))
    w[:d, :K] = weights.coef.T
    w[d : d + K, :K] = weights.transitions
    w[d + S :, :K] = weights.intercept, weights.start, weights.end
    return w.ravel()


def taken_apart(w: NDArray[np.float64], n_labels: int) -> Weights:
    """The inverse of :func:`flat`."""
    K, S = n_labels, padded(n_labels)
    rows = w.reshape(-1, S)
    d = len(rows) - S - 3
    coef = rows[:d, :K].T.copy()
    return Weights(coef, rows[d : d + K, :K].copy(), *rows[d + S :, :K].copy())


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
        if sp.issparse(weights.coef):
            coef = sp.csc_array(weights.coef)
            used = np.flatnonzero(np.diff(coef.indptr))
            X, weights = X[:, used], weights._replace(coef=coef[:, used].toarray())
        if X.nnz < X.shape[1]:  # few sentences use only a few of many weights
            used, indices = np.unique(X.indices, return_inverse=True)
            indices = indices.astype(X.indices.dtype, copy=False)
            X = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))
            weights = weights._replace(coef=weights.coef[:, used])
        self._n_labels = len(weights.coef)
        self._given, self._kept = len(lengths), np.flatnonzero(lengths)
        self._lengths = lengths[self._kept]
        self._chains = pack(X, self._lengths, self._n_labels, True)
        self._w = flat(weights)
        self._n_threads = n_threads
        work = X.nnz + len(self._lengths) + X.shape[0] * self._chains.width
        self._bounds = row_blocks(work, len(self._lengths), 1)

    def best_labels(self) -> NDArray[np.int64]:
        """The most probable labelings, of shape (n_tokens,)."""
        labels = np.empty(self._chains.tokens[-1], np.int64)
        self._by_parts(chain_decode.best_labels, labels)
        return labels

    def several_best(
        self, n_best: int, *, normalized: bool = True
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Up to ``n_best`` labelings per sequence, best first, and log-probabilities.

        If not ``normalized``, scores instead of log-probabilities.
        """
        results: list = [(np.empty((1, 0), np.int64), np.zeros(1))] * self._given
        in_all = self._lengths * np.log2(self._n_labels)  # number of labelings, as a power of two
        most = np.where(in_all < 60, np.minimum(n_best, np.exp2(np.minimum(in_all, 60))), n_best)
        most = np.ceil(most - 1e-6).astype(np.int64)

        def task(first: int, last: int) -> None:
            for i in range(first, last):
                labels = np.empty((most[i], self._lengths[i]), np.int64)
                scores = np.empty(most[i])
                count = chain_decode.several_best(self._chains, self._w, i, most[i], labels, scores)
                results[self._kept[i]] = labels[:count], scores[:count]

        self._each(task)
        if not (normalized and results):
            return results
        best = self.log_probabilities(np.concatenate([labels[0] for labels, _ in results]))
        return [
            (labels, scores + (probability - scores[0]))
            for (labels, scores), probability in zip(results, best, strict=True)
        ]

    def log_probabilities(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """``log p(labels|x)`` of each sequence."""
        out, every = np.empty(len(self._lengths)), np.zeros(self._given)
        self._by_parts(chain_decode.label_scores, labels, out)
        every[self._kept] = out
        return every

    def marginals(self) -> NDArray[np.float64]:
        """Marginals of the tokens, of shape (n_tokens, K)."""
        return self._marginals(np.empty((0, 1, 1)))

    def pair_marginals(self) -> NDArray[np.float64]:
        """Marginals of pairs of successive tokens, of shape (n_tokens - n_sequences, K, K)."""
        K = self._n_labels
        pairs = np.empty((int((self._lengths - 1).sum()), K, K))
        self._marginals(pairs)
        return pairs

    def _marginals(self, pairs: np.ndarray) -> NDArray[np.float64]:
        nodes = np.empty((self._chains.tokens[-1], self._n_labels))
        pairs_at = self._chains.tokens[:-1] - np.arange(len(self._lengths))
        self._by_parts(chain_decode.label_marginals, nodes, pairs, pairs_at)
        return nodes

    def _by_parts(self, compiled: Callable[..., None], *arrays: np.ndarray) -> None:
        """Call the compiled function for parts of the sequences."""
        self._each(lambda first, last: compiled(self._chains, self._w, first, last, *arrays))

    def _each(self, task: Callable[[int, int], None]) -> None:
        bounds = self._bounds
        with BlockRunner(self._n_threads) as runner:
            runner.run(lambda k: task(bounds[k], bounds[k + 1]), len(bounds) - 1)
