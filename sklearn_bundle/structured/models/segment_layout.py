"""Segmentations: packing, parameters, and the best segmentations for given parameters."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.features import Chains
from sklearn_bundle.chain.model import pack, padded
from sklearn_bundle.core.parallel import BlockRunner, row_blocks
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled import segment_oracle
from sklearn_bundle.structured._compiled.segment_oracle import SegmentOutputs
from sklearn_bundle.structured.models.chain_structure import attribute_entries
from sklearn_bundle.structured.models.examples import ends_of

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]
Segmentation = list[tuple[Any, int, int]]


class TokenSegments(NamedTuple):
    """True segments of sequences, by tokens, one sequence after the other.

    ``labels`` are numbers, one for each token; ``sizes`` are the lengths of the segments that begin
    at the tokens, 0 within a segment. ``numbers`` identify the sequences in messages.
    """

    labels: Numbers
    sizes: Numbers
    numbers: Numbers


def by_tokens(segmentations: list[Segmentation]) -> tuple[list, Numbers]:
    """The label of each token, and the length of the segment that begins there, or 0."""
    segments = [segment for each in segmentations for segment in each]
    labels = [label for label, start, stop in segments for _ in range(start, stop)]
    lengths = [stop - start for _, start, stop in segments]
    sizes = np.zeros(sum(lengths), np.int64)
    sizes[ends_of(lengths)[:-1]] = lengths
    return labels, sizes


def segments_of(labels: list, sizes: Numbers) -> Segmentation:
    """The segments of a sequence, from what :func:`by_tokens` returns."""
    starts = np.flatnonzero(sizes)
    stops = (starts + sizes[starts]).tolist()
    return [(labels[s], s, stop) for s, stop in zip(starts.tolist(), stops, strict=True)]


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


def split(w: Array, n_labels: int, max_length: int, boundaries: bool) -> SegmentWeights:
    """The parts of w, as views: the inverse of :func:`~.chain_structure.joined`."""
    K, L = n_labels, max_length
    parts = 3 if boundaries else 1
    d = (len(w) // K - K - L - 2) // parts
    tokens, tail = w[: parts * K * d].reshape(parts, K, d), w[parts * K * d :]
    transitions, lengths, start, end = np.split(tail, np.cumsum([K * K, K * L, K]))
    none = np.empty((K, 0))
    first, last = tokens[1:] if boundaries else (none, none)
    pairs = transitions.reshape(K, K), lengths.reshape(K, L)
    return SegmentWeights(tokens[0], first, last, *pairs, start, end)


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


def n_flat(outputs: SegmentOutputs) -> int:
    """Number of parameters in the compiled code."""
    tail = (outputs.n_labels + int(outputs.limits.max()) + 2) * outputs.width
    return outputs.chains.n_attributes * outputs.chains.width + tail


def longest_entries(outputs: SegmentOutputs) -> Numbers:
    """Upper bound on the entries of a difference of features, for each sequence, plus one."""
    chains: Chains = outputs.chains
    T, K, L = np.diff(chains.tokens), outputs.n_labels, int(outputs.limits.max())
    changes = 6 if outputs.boundaries else 2
    pairs = np.minimum(2 * T, K * K) + np.minimum(2 * T, K * L)
    return attribute_entries(chains, changes) + pairs + 5


def best_segments(
    X: sp.csr_array,
    lengths: Numbers,
    weights: SegmentWeights,
    limits: Numbers,
    n_threads: int,
    truth: TokenSegments | None = None,
    cost: int = segment_oracle.NOTHING,
) -> TokenSegments:
    """The segmentations of the highest scores, with costs of mistakes if there is a truth."""
    if X.nnz < X.shape[1]:  # few sentences use only a few of many weights
        used, indices = np.unique(X.indices, return_inverse=True)
        indices = indices.astype(X.indices.dtype, copy=False)
        X = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(used)))
        weights = weights._replace(coef=weights.coef[:, used])
        if weights.boundaries:
            weights = weights._replace(first=weights.first[:, used], last=weights.last[:, used])
    n, w = X.shape[0], flat(weights)
    found = TokenSegments(*np.zeros((2, n), np.int64), np.arange(len(lengths)))
    known = TokenSegments(*np.zeros((2, n), np.int64), found.numbers) if truth is None else truth
    outputs = structure(X, lengths, limits, weights.boundaries, known, cost)
    bounds = row_blocks(X.nnz + n * outputs.chains.width, len(lengths), 1)

    def task(k: int) -> None:
        first, last = bounds[k], bounds[k + 1]
        segment_oracle.best_segments(outputs, w, first, last, found.labels, found.sizes)

    with BlockRunner(n_threads) as runner:
        runner.run(task, len(bounds) - 1)
    return found
