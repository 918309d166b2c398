"""Segmentations: packing, parameters, and the best segmentations for given parameters."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain import Chains
from sklearn_bundle.chain.model import pack, padded
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled import segment_oracle
from sklearn_bundle.structured._compiled.segment_oracle import SegmentOutputs

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class TokenSegments(NamedTuple):
    """True segments of sequences, by tokens, one sequence after the other.

    ``labels`` are numbers, one for each token; ``sizes`` are the lengths of the segments that begin
    at the tokens, 0 within a segment. ``numbers`` identify the sequences in messages.
    """

    labels: Numbers
    sizes: Numbers
    numbers: Numbers


class SegmentWeights(NamedTuple):
    """The parameters of a model of segments, by parts.

    Without boundaries ``first`` and ``last`` have no columns.
    """

    coef: Array  # (K, d)
    first: Array  # (K, d)
    last: Array  # (K, d)
    transitions: Array  # (K, K), from and to
    lengths: Array  # (K, L), of length 1 and longer
    start: Array  # (K,)
    end: Array  # (K,)

    @property
    def boundaries(self) -> bool:
        """Whether the first and the last tokens of segments have weights of their own."""
        return self.first.shape[1] > 0


def joined(weights: SegmentWeights) -> Array:
    """The parameters in one vector in the public order of the parts, each row by row."""
    return np.concatenate([part.ravel() for part in weights])


def split(w: Array, n_labels: int, max_length: int, boundaries: bool) -> SegmentWeights:
    """The inverse of :func:`joined`."""
    K, L = n_labels, max_length
    parts = 3 if boundaries else 1
    d = (len(w) // K - K - L - 2) // parts
    tokens, tail = w[: parts * K * d].reshape(parts, K, d), w[parts * K * d :]
    transitions, lengths, start, end = np.split(tail, np.cumsum([K * K, K * L, K]))
    none = np.empty((K, 0))
    first, last = tokens[1:] if boundaries else (none, none)
    pairs = transitions.reshape(K, K), lengths.reshape(K, L)
    return SegmentWeights(tokens[0], first, last, *pairs, start, end)


def n_flat(n_attributes: int, n_labels: int, max_length: int, boundaries: bool) -> int:
    """Number of parameters in the compiled code."""
    width = padded(n_labels * (3 if boundaries else 1))
    return n_attributes * width + (n_labels + max_length + 2) * padded(n_labels)


def flat(weights: SegmentWeights) -> Array:
    """The parameters in one vector, in the rows of the compiled code."""
    (K, d), S = weights.coef.shape, padded(len(weights.coef))
    of_tokens = [weights.coef, weights.first, weights.last][: 3 if weights.boundaries else 1]
    rows = np.zeros((d, padded(K * len(of_tokens))))
    for j, part in enumerate(of_tokens):
        rows[:, j * K : (j + 1) * K] = part.T
    tail = np.zeros((K + weights.lengths.shape[1] + 2, S))
    tail[:, :K] = np.vstack([weights.transitions, weights.lengths.T, weights.start, weights.end])
    return np.concatenate([rows.ravel(), tail.ravel()])


def taken_apart(w: Array, n_labels: int, max_length: int, boundaries: bool) -> SegmentWeights:
    """The inverse of :func:`flat`."""
    K, L, S = n_labels, max_length, padded(n_labels)
    parts = 3 if boundaries else 1
    n_tail = (K + L + 2) * S
    rows, tail = w[: len(w) - n_tail].reshape(-1, padded(parts * K)), w[len(w) - n_tail :]
    tail = tail.reshape(-1, S)[:, :K].copy()
    of_tokens = [rows[:, j * K : (j + 1) * K].T.copy() for j in range(parts)]
    none = np.empty((K, 0))
    coef, first, last = of_tokens if boundaries else (*of_tokens, none, none)
    return SegmentWeights(coef, first, last, tail[:K], tail[K : K + L].T.copy(), *tail[K + L :])


def structure(
    X: sp.csr_array,
    lengths: Numbers,
    limits: Numbers,
    boundaries: bool,
    truth: TokenSegments,
    cost: int,
) -> SegmentOutputs:
    """Sequences of these lengths, whose tokens are the rows of X, in the form for compiled code."""
    K = len(limits)
    chains = pack(X, lengths, K * (3 if boundaries else 1), False)
    arrays = frozen(limits), frozen(truth.labels), frozen(truth.sizes)
    return SegmentOutputs(K, padded(K), cost, boundaries, *arrays, chains)


def longest_entries(outputs: SegmentOutputs) -> Numbers:
    """Upper bound on the entries of a difference of features, for each sequence, plus one."""
    chains: Chains = outputs.chains
    T, K, L = np.diff(chains.tokens), outputs.n_labels, int(outputs.limits.max())
    changes = 6 if outputs.boundaries else 2
    first = np.repeat(chains.blocks[:-1], np.diff(chains.entries))
    repeats = np.bincount(first + chains.slots, minlength=int(chains.blocks[-1]))
    of_slots = np.minimum(changes * repeats, chains.n_labels)
    until = np.concatenate([np.zeros(1, np.int64), np.cumsum(of_slots)])
    longest = until[chains.blocks[1:]] - until[chains.blocks[:-1]]
    return longest + np.minimum(2 * T, K * K) + np.minimum(2 * T, K * L) + 5


def best_segments(
    X: sp.csr_array, lengths: Numbers, weights: SegmentWeights, limits: Numbers, n_threads: int
) -> TokenSegments:
    """The segmentations of the highest scores."""
    if X.nnz < X.shape[1]:  # few sentences use only a few of many weights
        used, indices = np.unique(X.indices, return_inverse=True)
        indices = indices.astype(X.indices.dtype, copy=False)
        X = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))
        weights = weights._replace(coef=weights.coef[:, used])
        if weights.boundaries:
            weights = weights._replace(first=weights.first[:, used], last=weights.last[:, used])
    n, w = X.shape[0], flat(weights)
    found = TokenSegments(np.empty(n, np.int64), np.empty(n, np.int64), np.arange(len(lengths)))
    none = np.zeros(n, np.int64)
    truth = TokenSegments(none, none, found.numbers)
    given = limits, weights.boundaries, truth, segment_oracle.NOTHING
    outputs = structure(X, lengths, *given)
    work = X.nnz + n * outputs.chains.width
    bounds = row_blocks(work, len(lengths), 1)

    def task(k: int) -> None:
        first, last = bounds[k], bounds[k + 1]
        segment_oracle.best_segments(outputs, w, first, last, found.labels, found.sizes)

    with BlockRunner(n_threads) as runner:
        runner.run(task, len(bounds) - 1)
    return found
